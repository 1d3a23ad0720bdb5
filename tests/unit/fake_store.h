/* SPDX-License-Identifier: MIT */
/*
 * fake_store - a queue on a store in memory that has rows and gates.
 *
 * It keeps committed rows, as a real store does, and a test can inspect them. A thread that arrives
 * at a shut gate blocks until the test opens it. The test thus decides the order of events and
 * never sleeps.
 */
#ifndef BI_UNIT_FAKE_STORE_H
#define BI_UNIT_FAKE_STORE_H

#include "slow_store.h"

#include <assert.h>

#define FAKE_ROWS 4096
#define FAKE_BODY "body"

enum fake_gate {
    GATE_SCAN,    /* before a slice of the scan */
    GATE_SCANNED, /* after it: its rows have been visited */
    GATE_FETCH,
    GATE_FETCHED, /* after it: the row has been visited */
    GATE_READ,
    GATE_COMMIT,
    GATES
};

struct fake_row {
    struct bi_image image;
    const char *damage;
};

struct fake_store {
    struct store base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        bool shut;
        unsigned permits; /* threads that may pass the shut gate */
        unsigned arrived;
    } gates[GATES];
    struct fake_row *rows[FAKE_ROWS]; /* by id */
    uint64_t next_id;
    unsigned scan_failures, count_failures;
    int fetch_code;
    unsigned retry; /* reads that will report "try again"; FOR_EVER: all */
    uint64_t bad;   /* the job whose body cannot be read */
    /* Whether the nth read of a job reports "try again"; NULL: none does. */
    bool (*fails)(uint64_t id, unsigned nth);
    unsigned reads[FAKE_ROWS];
    bool out_of_memory; /* the reason of fails */
    int commit_code;
    unsigned commit_failures; /* commits that will return commit_code; FOR_EVER: all */
    bool reopens;             /* the next commit reports that it reopened the files */
    unsigned committing;      /* commits in progress */
    bool overlapped, unordered;
    uint64_t number; /* of the last batch */
    unsigned commits;
    size_t largest;
    uint64_t quarantined_id;
    char quarantine_reason[80];
    unsigned quarantine_count;
    bool closed;
};

/* Counts the arrival and blocks while the gate is shut. The lock is held. */
void fake_enter_gate(struct fake_store *fake, enum fake_gate gate);
void gate_set(struct fake_store *fake, enum fake_gate gate, bool shut, unsigned permits);
void gate_shut(struct fake_store *fake, enum fake_gate gate);
void gate_open(struct fake_store *fake, enum fake_gate gate);
unsigned gate_arrived(struct fake_store *fake, enum fake_gate gate);

/* Waits until the gate has counted that many arrivals. */
void gate_await(struct fake_store *fake, enum fake_gate gate, unsigned arrived);
void fake_drop(struct fake_store *fake, uint64_t id);

/* Stores a ready job of topic "old" before the queue is opened. */
struct bi_image *fake_row(struct fake_store *fake, uint64_t id);

/* The stored row of a job, without references to its buffers; id 0 if there is none. */
struct bi_image fake_stored(struct fake_store *fake, uint64_t id);

extern const struct store_ops fake_store_ops;

struct fake_store *fake_new(void);

/* The queue must be closed. */
void fake_free(struct fake_store *fake);

/* Options are those of the URL; options, which may be NULL, holds further ones. */
bide *fake_open(struct fake_store *fake, const char *url, const bide_options *options);

/* Waits until recovery is complete and the first batch, which stores the limit of tokens, is
 * committed. */
void fake_await_ready(bide *queue);

/* A thread function: closes the queue, which may block until a gate is opened. */
void *fake_close_queue(void *queue);

/* Opens every gate, closes the queue and frees everything. */
int fake_tear_down(struct fake_store *fake, bide *queue, bide_cq *cq);

#endif
