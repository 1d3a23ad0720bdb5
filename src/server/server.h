/* SPDX-License-Identifier: MIT */
/*
 * server - bided without its command line: listening sockets, connections, one event loop.
 *
 * One thread runs the loop. It reads what connections have sent, hands all complete commands to
 * the queue, and writes the answers, once for each connection and turn. What the queue cannot
 * answer at once comes back through a completion queue, in batches.
 *
 * Ownership  The queue and the listening sockets are given; run() closes the sockets, the caller
 *            closes the queue afterwards.
 * Failure    Only new and listen can fail. A connection that cannot be served is closed.
 * Threads    All calls on one thread. Signals (TERM, INT, USR1, HUP) are the loop's while it runs.
 */
#ifndef BI_SERVER_H
#define BI_SERVER_H

#include "server/network.h"
#include "util/log.h"

#include <bide/bide.h>

#define BI_TRUST_MAX 64 /* networks */

struct server;

/* What may change while the server runs; see bi_server_change(). */
struct server_limits {
    uint32_t max_connections; /* further ones are accepted and closed at once, and counted */
    int64_t idle_timeout_ms;  /* a connection that asks nothing, waits for nothing and holds no job
                                    that long is closed; 0: never */
    int64_t command_timeout_ms; /* a connection that has sent a part of a command, and nothing more
                                    for that long, is closed; 0: never */
    int64_t stop_timeout_ms;    /* how long a stop waits for clients that do not read, and then
                                   for the store */
    uint32_t max_waiters_per_connection;  /* calls that wait; 0: as many as the queue allows */
    uint32_t max_tubes_per_connection;    /* watched tubes; 0: the same */
    uint32_t max_feeds_per_connection;    /* 0: the same */
    uint64_t max_client_bytes;            /* what all connections together may have in buffers */
    char auth_secret[BIDE_TOPIC_MAX + 1]; /* "": only those that need not say it are served */
    bool auth_always; /* clients of this machine and of trust must say it, too */
    uint32_t max_connections_per_address; /* of other machines; 0: no limit */
    struct network trust[BI_TRUST_MAX];   /* whose clients need not say the secret */
    size_t trust_count;
};

struct server_settings {
    bide *queue;
    bide_options options; /* as the queue was opened with; 0 stands for the default */
    struct server_limits limits;
    struct bi_log log;
    void (*ready)(void *user);    /* the loop runs; may be NULL */
    void (*stopping)(void *user); /* a stop has begun; may be NULL */
    void (*reload)(void *user);   /* SIGHUP; may be NULL */
    void (*alive)(void *user);    /* the loop turns and no commit hangs; may be NULL. Called several
                                     times in watchdog_us */
    int64_t watchdog_us;          /* 0: alive is not called */
    void *user;
};

/* BIDE_OK, or a code with a sentence in error (BIDE_ERROR_SIZE bytes). */
int bi_server_new(const struct server_settings *settings, struct server **out, char *error);

/* Takes over a socket that listens, TCP or unix. BIDE_OK or BIDE_ENOMEM. */
int bi_server_listen(struct server *server, int fd);

/* Other limits from now on. May be called from reload. */
void bi_server_change(struct server *server, const struct server_limits *limits);

/*
 * Serves until SIGTERM or SIGINT: then it stops accepting and reading, completes what was
 * submitted, writes the answers, gives back what connections hold, and returns. A second such
 * signal ends the wait for slow clients. SIGUSR1 refuses puts from now on (DRAINING).
 */
void bi_server_run(struct server *server);

void bi_server_free(struct server *server);

#endif
