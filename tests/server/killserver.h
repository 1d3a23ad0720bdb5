/* SPDX-License-Identifier: MIT */
/*
 * killserver - a server that is killed again and again while connections pipeline puts, reserves,
 * deletes, burials, releases and kicks; and the ledger of what it has acknowledged.
 *
 * A round: connections work until the server is killed; it is started again on the same file; every
 * job is compared with the ledger; most are deleted, and the next round goes on with the rest. An
 * answer that was received counts, also when many commands were in flight. A command without an
 * answer may have happened or not.
 *
 * A job is known by a serial number, which is in its body, so that it is recognised even if nobody
 * was told its id.
 *
 * Ordering   Only the connection that holds a job, or has parked it in its own tube, acts on it,
 *            and not before its last command on it is answered. So at most one is open for each
 *            job.
 */
#ifndef SERVER_KILLSERVER_H
#define SERVER_KILLSERVER_H

#include "test_client.h"

#define WORKERS  4
#define TUBES    (WORKERS + 1) /* one each, and the last is for all */
#define JOBS_MAX 4000000

/* What a restart makes of a job: one that was reserved is ready. */
enum form { ABSENT, READY, DELAYED, BURIED };

struct entry {
    uint64_t id;     /* 0: the put was not acknowledged */
    enum form sure;  /* as acknowledged */
    enum form maybe; /* as it is if the open command has happened; else the same */
    bool told;       /* the put was acknowledged, or the job was seen */
    bool live;       /* to be compared */
    bool shared;     /* in the tube that all watch */
};

struct ledger {
    pthread_mutex_t lock;
    uint64_t next;         /* serial */
    uint64_t highest_id;   /* of all rounds before */
    uint64_t acknowledged; /* answers in this round, */
    int connected;         /* and workers */
    struct entry *jobs;    /* JOBS_MAX of them, by serial */
};
extern struct ledger ledger;

/* One connection that works until the server is gone. */
struct worker {
    const struct server *server;
    int number;
    uint64_t seed;
};
void *killserver_work(void *worker);

/* Compares what the server has with the ledger, and makes room. */
void killserver_compare(const struct server *server, uint64_t seed);

/* ---- killchain.c ---- */

/* Runs chains to their ends while workers, and the server, are killed at random; then looks whether
 * each has its last job once. Not at a server: one process works on the file itself. */
void killserver_chains(uint64_t count, bool at_server, uint64_t seed);
/* The process of a worker, after "--chain-worker": the file for its progress, the URL, a seed. */
int killserver_chain_worker(char **argv);

#endif
