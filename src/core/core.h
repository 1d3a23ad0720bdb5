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
 * Failure    An op that answers anything but BIDE_OK or BIDE_CANCEL_WANTED has changed nothing,
 *            except that kick and purge answer how much they have done; out of memory is
 *            BIDE_ENOMEM.
 * Threads    None of its business: one caller at a time.
 * Cost       No op costs more than O(log n) in jobs, topics or waiters, times the number of jobs
 *            or topics that it names; kick and purge work in slices.
 */
#ifndef BI_CORE_H
#define BI_CORE_H

#include "util/alloc.h"
#include "util/secret.h"

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
    uint32_t batch_jobs; /* changes in one batch, and the bytes of the bodies that they bring */
    uint64_t batch_bytes;
    uint64_t page_bytes;  /* shown by one list or reserve, or one larger job; 0: no limit */
    uint64_t cache_bytes; /* with a journal: bodies of stored jobs that stay in memory */
    bool topic_cleanup;
};

/* Batches that wait to be stored; if there are more the last one becomes larger than it may. */
#define BI_BATCHES_MAX 256

struct bi_core_options {
    struct bi_limits limits;
    struct bi_alloc alloc;
    bool journal;       /* gather what must be stored, and hold answers until it is */
    bool recovering;    /* what was stored is still to be loaded: bi_core_recovered() ends it */
    bool wheel;         /* the wheel ticker instead of the dynamic one */
    int64_t wheel_tick; /* us */
    uint32_t wheel_slots;
    uint64_t seed;           /* of jitter and weighted choices */
    struct bi_secret secret; /* of tables; the same for every life of a store */
    uint64_t next_id;        /* 1 for an empty store */
    uint64_t next_token;     /* the number of the next token, above all that were ever given */
    uint64_t token_from;     /* smaller numbers are tokens themselves (core/token.h); 0: all are */
    uint64_t lease_from;     /* stored leases are good from this number on; 0: none are */
    bool keep_leases; /* holders of leases outlive the process: bi_core_interrupt() stores them */

    /* Called when an op that bi_core_run() left waiting completes. Its results are in it, its
     * code in private_.status, the batch it waits for in private_.hold. Must not call the core. */
    void (*complete)(void *ctx, bide_op *op);
    void *ctx;
};

/* Is it a topic name: 1 to 200 bytes of the allowed ones, not beginning with '-'? */
bool bi_is_topic(bide_slice name);

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

/*
 * How many topics, links of waiting calls and jobs have been looked at where an op or event looks at
 * many: a measure of the time that the lock was held. What looks at a few of them counts nothing.
 */
uint64_t bi_core_work(const struct core *core);

/* Tells the cache what an op will want that is run soon: the job of the next, and where that of a
 * later one is found. For lists of ops. */
void bi_core_approach(const struct core *core, const bide_op *next, const bide_op *later);

/* A sliced op can do nothing before the next commit: it has as much unstored as it may. */
bool bi_core_waits_for_commit(const struct core *core, const bide_op *op);

/* Forgets a sliced op that will not be run again; what it did stays done. */
void bi_core_abandon(struct core *core, bide_op *op);

/* After a failed commit: takes out of the count of a kick or purge what was not stored. Other ops
 * are left alone. */
void bi_core_uncount(const struct core *core, bide_op *op);

/* Gives up a waiting op: it completes through the sink with BIDE_CANCELLED. False if the op does
 * not wait (any more); nothing happens then. */
bool bi_core_cancel(struct core *core, bide_op *op);

/* Completes every waiting op with BIDE_CLOSED, at most budget of them at a time, and fewer if they name
 * many topics; true if there are more. From now on reserves, and whatever would wait, are answered so at once; everything else
 * goes on. */
bool bi_core_close(struct core *core, unsigned budget);

/*
 * Prepares an orderly end, after bi_core_close(). Leases whose holders outlive the process
 * (options.keep_leases, and all that an earlier process has kept) are journalled with what is left
 * of them; any other job whose reservation would count as a failure is given back, and nothing is
 * counted. Treats up to budget jobs; true: call it again, with nothing but commits in between. Jobs
 * for which memory lacks, and all that are left after a failed commit, are as after a crash.
 */
bool bi_core_interrupt(struct core *core, struct bi_now now, unsigned budget);

/*
 * Fires what is due, at most budget events, and fewer if those take long; true if more is due. Timers of one clock fire in order of
 * deadline; where both clocks have timers due, they take turns, the wall clock first. The caller
 * ticks before it runs ops, so that nothing acts on a lease that has run out.
 */
bool bi_core_tick(struct core *core, struct bi_now now, unsigned budget);

/*
 * The next moment on each clock at which a tick has something to do; BI_NEVER for none. With the wheel
 * ticker deadlines of the wall clock are rounded up to a tick of the boot-time clock, and a moment
 * of the wall clock only asks to be woken when that clock is set.
 */
struct bi_now bi_core_next(const struct core *core);

/* The same for timeouts of waiting calls, on the boot-time clock: they are not rounded. */
int64_t bi_core_next_call(const struct core *core);

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
    uint64_t
        token; /* number of a lease that outlives the process; 0: none; and what is left of it */
    int64_t lease;
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
    uint64_t lease_from; /* and takes stored leases from this number on as good; 0: none */
    size_t count;
    struct bi_record *records;
};

/* How many changes wait to be sealed. */
size_t bi_core_backlog(const struct core *core);
/* True when something waits to be sealed. */
bool bi_core_dirty(const struct core *core);

/*
 * Hands out the oldest batch that is not sealed yet; if that is the one that gathers, further
 * changes go to the one after. Batches are committed in order. BIDE_OK, or BIDE_ENOMEM and nothing
 * has changed. The caller frees it with bi_batch_done() after committed() or rollback().
 */
int bi_core_seal(struct core *core, struct bi_now now, struct bi_batch *batch);
void bi_batch_done(struct core *core, struct bi_batch *batch);

/* The batch is stored: answers that hold for it may be given. */
void bi_core_committed(struct core *core, const struct bi_batch *batch);

/*
 * A batch could not be stored: everything since the last committed one is undone, about budget steps
 * at a time. True if there is more to do: until it answers false, nothing else may be asked of the
 * core, except bi_core_cancel(). The answers held for later batches are the caller's to turn into
 * errors. Cannot fail.
 */
bool bi_core_rollback(struct core *core, struct bi_now now, unsigned budget);

/* The number of the batch that is gathering now, and of the last committed one. */
uint64_t bi_core_gathering(const struct core *core);
uint64_t bi_core_committed_batch(const struct core *core);

/*
 * Puts a stored job back at start, under its own id: due ones become ready, one with a good lease
 * is reserved; else a started one counts a failure, and a cancelled one is removed (the change is
 * journalled). Without a body it is one that only the store has. BIDE_OK, BIDE_ENOMEM, or BIDE_EINVAL for an image that cannot be (nothing
 * changes). A pause is loaded by its name. Calls that wait are served by bi_core_serve().
 */
int bi_core_load(struct core *core, const struct bi_image *image, struct bi_now now);
/* So many jobs are still to be loaded: their memory is not given to others meanwhile. Each bi_core_load()
 * that succeeds is one of them; bi_core_retire() ends it. */
void bi_core_expect(struct core *core, uint64_t jobs);
int bi_core_load_pause(struct core *core, const struct bi_image *image, struct bi_now now);

/* Serves those who wait with what was loaded since. */
void bi_core_serve(struct core *core, struct bi_now now);
/* Everything is loaded and in order: drops results of which there are too many, about budget (2 at the
 * least) at a time. True if there is more to do. */
bool bi_core_retire(struct core *core, struct bi_now now, unsigned budget);
/* Then: tells those who wait for it. */
void bi_core_recovered(struct core *core, struct bi_now now);
/* Takes back a list whose bodies could not be read: its jobs, and its cursor, which is that of the call
 * again. */
void bi_core_unlist(bide_op *op);
/* Is there such a job? */
bool bi_core_has(const struct core *core, uint64_t id);

/*
 * Lists that were loaded out of order (bury order, age) are put in order at the end: collect and
 * apply in slices, sort in between, on any thread. Each answers true if there is more to do.
 * bi_core_order_done() at the end.
 */
struct bi_ordering {
    struct bi_order_entry *entries;
    size_t count, room, next;
    uint64_t place;
    int64_t moment; /* when collecting began, and the next order and token then */
    uint64_t order, token;
    bool failed; /* out of memory: the order is not what it was */
};
bool bi_core_order_collect(struct core *core, struct bi_ordering *ordering, unsigned budget);
void bi_core_order_sort(struct bi_ordering *ordering);
bool bi_core_order_apply(struct core *core, struct bi_ordering *ordering, unsigned budget);
void bi_core_order_done(struct core *core, struct bi_ordering *ordering);

/* ---- bodies that only the store has (core/fetch.c); only with limits.cache_bytes ---- */

/*
 * In private_.flags of an op that is answered BIDE_OK, or completes so through the sink: it shows
 * jobs whose bodies are not in memory. The answer must not be given before bi_core_supply() says
 * so. No lease of its jobs runs meanwhile. If private_.waiter is NULL, its arguments are needed until
 * then.
 */
#define BI_LACKS_BODY 1

struct bi_body {
    uint64_t id;
    uint32_t size;
    bide_buf *body;     /* given by whoever reads; NULL: it cannot be read */
    const char *reason; /* and why */
};

/* Lists the bodies that an op lacks, from the from-th on; answers how many were listed. */
size_t bi_core_lacking(const bide_op *op, size_t from, struct bi_body *bodies, size_t max);

/*
 * Gives an op its bodies, in the order in which they were listed; all of them. A job whose body cannot be read is buried, and a reserve left with
 * nothing takes another. Answers the op's code; BI_AGAIN if it lacks bodies again; BIDE_PENDING if
 * it waits again.
 */
int bi_core_supply(struct core *core, bide_op *op, const struct bi_body *bodies, struct bi_now now);

/* A body that was read ahead. The reference is the core's. */
void bi_core_keep_body(struct core *core, uint64_t id, bide_buf *body);

/* Lists bodies that will be wanted next after that of a job: of those ready in its topic. */
size_t bi_core_foresee(const struct core *core, uint64_t id, struct bi_body *bodies, size_t max,
                       uint64_t max_bytes);

/*
 * The answer of an op that was held for a commit is given now: the leases of the jobs that it took
 * begin, and its snapshots say so. Ops that were not held need no such call.
 */
void bi_core_answered(struct core *core, bide_op *op, struct bi_now now);

/* Undoes the reservations of an op that is not answered BIDE_OK after all, as far as they still
 * stand: the jobs are in the state from which they were taken, and nothing is counted. */
void bi_core_untake(struct core *core, bide_op *op, struct bi_now now);

/* Forgets that an op with BI_LACKS_BODY may have to wait again; it is answered by somebody else. */
void bi_core_unpark(struct core *core, bide_op *op);

/* ---- comparing with what is stored (core/compare.c) ---- */

/* NULL if the job is in the core as the image says, as far as it would have been stored; else what
 * differs. */
const char *bi_core_compare(struct core *core, const struct bi_image *image);
/* Should the store have this one? */
bool bi_core_is_stored(const struct core *core, uint64_t id);
/* Is a change of this job being stored? Then its row may be the old or the new one. */
bool bi_core_is_in_flight(const struct core *core, uint64_t id);
/* Some ids that the store should have (not those whose removal waits to be stored), from *place
 * on (0: the beginning), which moves on. max is at least BI_CHAIN_ROOM. *end: those were all; else
 * there may be none among those looked at. */
size_t bi_core_stored_ids(const struct core *core, uint64_t *place, uint64_t *ids, size_t max,
                          bool *end);
#define BI_CHAIN_ROOM 64

/* ---- checking (core/check.c) ---- */

/* What is answered to a check while another one is under way. */
extern const char bi_check_busy[];
/* Is this op a check that has more to do (BI_AGAIN)? */
bool bi_core_is_checking(const struct core *core, const bide_op *op);

/* Checks some jobs, about budget, from *place on (0: the beginning), which moves on; *end: those were
 * all. NULL, or what is wrong. */
const char *bi_core_check_some(struct core *core, uint64_t *place, unsigned budget, bool *end);

/* The rest is for tests. */

/* Every invariant: NULL if they hold, else a sentence. Costs O(everything). */
const char *bi_core_check(struct core *core);

/* A number that two cores share only if they are in the same state. */
uint64_t bi_core_hash(struct core *core);

#endif
