/* SPDX-License-Identifier: MIT */
/*
 * core - the state machine of a queue.
 *
 * Pure: no I/O, no clock, no threads, no globals. The time is an argument of every call, memory
 * comes from the allocator it was given, and randomness from a seeded generator in its state: the
 * same calls give the same answers, always.
 *
 * An op runs at once (bi_core_run) and is then finished, or waits; what happened to waiting ops
 * is told through the sink. What must be stored is gathered in the journal: seal() hands out a
 * batch of images, and committed() or rollback() says how storing it went. Without a journal
 * (the memory store) nothing is gathered and nothing is held.
 *
 * Ordering   Ready by (priority, id). Equal deadlines fire by id. Waiters first come, first
 *            served; they are served at the end of each op and of each timer event, never in
 *            the middle of one.
 * Failure    An op that answers anything but BIDE_OK or BIDE_CANCEL_WANTED has changed nothing;
 *            out of memory is BIDE_ENOMEM.
 * Threads    None of its business: one caller at a time.
 * Cost       No op costs more than O(log n) in jobs, topics or waiters, times the number of jobs
 *            or topics that it names; kick and purge work in slices.
 */
#ifndef BI_CORE_H
#define BI_CORE_H

#include "util/alloc.h"

#include <bide/op.h>

/* The two clocks, in microseconds: mono is the boot-time clock, wall counts from the epoch. */
struct bi_now {
    int64_t mono;
    int64_t wall;
};

#define BI_NEVER INT64_MAX

/* The limits and defaults of DESIGN part 6 that concern the core; all set, times in us. */
struct bi_limits {
    int64_t default_ttr;
    size_t max_job_size;
    size_t max_result_size;
    size_t max_error_size;
    uint32_t max_touches;
    int64_t max_touch_total;
    int64_t min_touch_interval;
    uint32_t max_topics;
    uint32_t max_waiters;
    uint64_t max_jobs_per_topic;
    uint64_t max_done_per_topic;
    uint64_t max_memory;
    bool topic_cleanup;
};

struct bi_core_options {
    struct bi_limits limits;
    struct bi_alloc alloc;
    bool journal;       /* gather what must be stored, and hold answers until it is */
    bool wheel;         /* the wheel ticker instead of the dynamic one */
    int64_t wheel_tick; /* us */
    uint32_t wheel_slots;
    uint64_t seed;
    uint64_t next_id;    /* 1 for an empty store */
    uint64_t next_token; /* above every token ever given */

    /* Called when an op that bi_core_run() left waiting completes. Its results are in it, its
     * code in private_.status, the batch it waits for in private_.hold. Must not call the core. */
    void (*complete)(void *ctx, bide_op *op);
    void *ctx;
};

struct core;

/* NULL when out of memory. now is the moment of birth, for uptime and the wheel. */
struct core *bi_core_new(const struct bi_core_options *options, struct bi_now now);

/* Frees everything; no op may be waiting (bi_core_close() first). NULL is fine. */
void bi_core_free(struct core *core);

/*
 * Runs one op. The arguments have been checked for form (queue/args.c); what depends on the state
 * is checked here. Answers the code of the op, BIDE_PENDING if it waits now, or BI_AGAIN if a
 * sliced op (kick, purge) has more to do: run the same op again. For every code but PENDING,
 * op->private_.hold is the batch that must be stored before the answer may be given (0: none).
 * An op's error sentence is written when the code is not 0.
 */
int bi_core_run(struct core *core, bide_op *op, struct bi_now now);
#define BI_AGAIN 1000

/* Forgets a sliced op that will not be run again; what it did stays done. */
void bi_core_abandon(struct core *core, bide_op *op);

/* Gives up a waiting op: it completes through the sink with BIDE_CANCELLED. False if the op does
 * not wait (any more); nothing happens then. */
bool bi_core_cancel(struct core *core, bide_op *op);

/* Completes every waiting op with BIDE_CLOSED. From now on reserves, and whatever would wait, are
 * answered so at once; everything else goes on. */
void bi_core_close(struct core *core);

/*
 * Fires what is due, in order of deadline, at most budget events; true if more is due. The caller
 * ticks before it runs ops, so that nothing acts on a lease that has run out.
 */
bool bi_core_tick(struct core *core, struct bi_now now, unsigned budget);

/* The next moment on each clock at which a tick has something to do; BI_NEVER for none. */
struct bi_now bi_core_next(const struct core *core);

/* True if a tick has something to do at once: many calls could be served, and not all were yet. */
bool bi_core_unserved(const struct core *core);

/* ---- the journal (core/journal.c); only with options.journal ---- */

/* A job as it is to be stored, or a topic's pause. Times are wall times: us since the epoch. */
struct bi_image {
    uint64_t id;
    bide_state state; /* delayed, ready (also if reserved), buried, done */
    bool started;     /* was reserved, and has a retry limit */
    bool cancel_wanted;
    bool due_wall;
    bool key_hold_retained;
    bool plain; /* what lies between max_retries and done, and the texts, say nothing */
    uint32_t priority;
    int64_t ttr;
    int64_t due; /* delayed: when; done: when retention ends */
    int32_t max_retries;
    uint32_t failures;
    int64_t backoff_base;
    int64_t backoff_max;
    int64_t expires_at; /* 0: never */
    int64_t retain;
    uint64_t bury_order;
    uint32_t reserves, timeouts, releases, fails, buries, kicks, touches;
    int64_t created;
    int64_t since;                                  /* when it came into its state */
    int64_t ready, reserved, touched, buried, done; /* 0: never */
    uint32_t body_size;
    bide_buf *body, *key, *last_error, *result; /* references; may be NULL */
    char topic[BIDE_TOPIC_MAX + 1];
};

enum bi_record_kind {
    BI_INSERT,
    BI_UPDATE, /* everything but the body */
    BI_REMOVE, /* only the id and the size of the body count */
    BI_PAUSE,  /* topic and due: paused until then (wall); 0: not paused; BI_NEVER: for ever */
};

struct bi_record {
    enum bi_record_kind kind;
    struct bi_image image;
};

/* What one commit stores, atomically. Each job and each topic occurs at most once. */
struct bi_batch {
    uint64_t number; /* 1, 2, 3, ... */
    uint64_t next_id;
    uint64_t next_token; /* a restart begins with this one */
    size_t count;
    struct bi_record *records;
};

/* True when something waits to be sealed. */
bool bi_core_dirty(const struct core *core);

/*
 * Hands out what has changed since the last seal, as the next batch; further changes go to the
 * one after. Batches are committed in order. BIDE_OK, or BIDE_ENOMEM and nothing has changed.
 * The caller frees it with bi_batch_done() after committed() or rollback().
 */
int bi_core_seal(struct core *core, struct bi_now now, struct bi_batch *batch);
void bi_batch_done(struct core *core, struct bi_batch *batch);

/* The batch is stored: answers that hold for it may be given. */
void bi_core_committed(struct core *core, const struct bi_batch *batch);

/* A batch could not be stored: everything since the last committed one is undone. The answers
 * held for later batches are the caller's to turn into errors. Cannot fail. */
void bi_core_rollback(struct core *core, struct bi_now now);

/* The number of the batch that is gathering now, and of the last committed one. */
uint64_t bi_core_gathering(const struct core *core);
uint64_t bi_core_committed_batch(const struct core *core);

/*
 * Puts a stored job back at start, under its own id: due ones become ready, a started one counts
 * a failure, a cancelled one is removed (the change is journalled). BIDE_OK, BIDE_ENOMEM, or
 * BIDE_EINVAL for an image that cannot be (nothing changes). A pause is loaded by its name.
 */
int bi_core_load(struct core *core, const struct bi_image *image, struct bi_now now);
int bi_core_load_pause(struct core *core, const struct bi_image *image, struct bi_now now);

/* ---- for tests (core/check.c) ---- */

/* Every invariant: NULL if they hold, else a sentence. Costs O(everything). */
const char *bi_core_check(struct core *core);

/* A number that two cores share only if they are in the same state. */
uint64_t bi_core_hash(struct core *core);

#endif
