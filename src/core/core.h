/* SPDX-License-Identifier: MIT */
/*
 * core - the state machine of a queue.
 *
 * The core is pure: no I/O, no clock, no threads, no globals. Time is an argument of every call,
 * memory comes from the given allocator, and randomness from a seeded generator in its state. The
 * same calls give the same results, so a failing run can be replayed from its seed.
 *
 * bi_core_run() runs an op. It completes at once, or it waits and later completes through
 * options.complete. The journal gathers the changes to be stored: bi_journal_seal() returns a
 * batch of records, and bi_journal_committed() or bi_journal_rollback() reports the outcome.
 * Without a journal (the memory store) nothing is gathered and no reply is held.
 *
 * Ordering   Ready jobs by (priority, id). Equal deadlines fire by id. Waiting calls are first
 *            come, first served, at the end of each op and timer event, never in the middle.
 * Failure    An op with a code other than BIDE_OK or BIDE_CANCEL_WANTED has changed nothing, except
 *            that kick and purge report how much they have done. Out of memory is BIDE_ENOMEM.
 * Threads    The core does not lock: one caller at a time.
 * Cost       O(log n) in jobs, topics and waiters, times the number of jobs or topics that an op
 *            names. kick, purge and check work in slices.
 */
#ifndef BI_CORE_H
#define BI_CORE_H

#include "op/job_fields.h"
#include "op/op_table.h"
#include "util/alloc.h"
#include "util/hash.h"

/* The two clocks, in microseconds: mono is the boot-time clock, wall counts from the epoch. */
struct bi_now {
    int64_t mono;
    int64_t wall;
};

#define BI_NEVER INT64_MAX

/* Limits and defaults of the core. All are set; times are in microseconds. */
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
    uint32_t batch_jobs;  /* changes in one batch; 0: no limit */
    uint64_t batch_bytes; /* bytes of the bodies that a batch inserts; 0: no limit */
    uint64_t page_bytes;  /* in the reply of one list or reserve, or one larger job; 0: no limit */
    uint64_t cache_bytes; /* with a journal: bodies of stored jobs that stay in memory */
    bool topic_cleanup;
};

/* Maximum number of uncommitted batches. At the limit the last one grows instead. */
#define BI_BATCHES_MAX 256

struct bi_core_options {
    struct bi_limits limits;
    struct bi_alloc alloc;
    bool journal;       /* gather changes, and hold replies until they are committed */
    bool recovering;    /* stored jobs are still to be loaded, until bi_core_end_recovery() */
    bool wheel;         /* timer wheel instead of the heap */
    int64_t wheel_tick; /* microseconds */
    uint32_t wheel_slots;
    uint64_t seed;                /* of jitter and weighted choices */
    struct bi_hash_secret secret; /* of hash tables and tokens; the same for every run on a store */
    uint64_t next_id;             /* 1 for an empty store */
    uint64_t next_token;          /* above all that were ever granted */
    uint64_t token_from;          /* tokens below are plain numbers (core/token.h); 0: all are */
    uint64_t lease_from;          /* stored leases are valid from this number on; 0: none */
    /* Clients, and so their leases, outlive the process: bi_lease_prepare_stop() stores the
     * leases. */
    bool keep_leases;

    /* Called when an op that bi_core_run() left waiting completes. The results are in the op,
     * the code in private_.status, and the batch to wait for in private_.hold. Must not call the
     * core. */
    void (*complete)(void *ctx, bide_op *op);
    void *ctx;
};

struct core;

/* NULL when out of memory. now is the start time, for the uptime and the wheel. */
struct core *bi_core_new(const struct bi_core_options *options, struct bi_now now);

/* Frees everything. No op may be waiting: call bi_waiter_close_all() first. NULL is accepted. */
void bi_core_free(struct core *core);

/*
 * Runs one op. The form of its arguments has been checked (queue/op_args_check.c); the core checks
 * what depends on the state. Returns the op's code; BIDE_PENDING if it waits; or BI_AGAIN if a
 * sliced op (kick, purge, check) has more to do, then run the same op again. Except for
 * BIDE_PENDING, op->private_.hold is the batch that must be committed before the reply (0: none).
 * The op's error is written when the code is not 0.
 */
int bi_core_run(struct core *core, bide_op *op, struct bi_now now);
#define BI_AGAIN 1000

/*
 * A measure of the time under the lock: the number of topics, jobs, waiting calls and their links
 * that loops over many of them have visited. Code that visits only a few counts nothing.
 */
uint64_t bi_core_work(const struct core *core);

/* Prefetches into the CPU cache the job of the next op and the hash bucket of a later one. For
 * callers that run a list of ops. */
void bi_job_prefetch(const struct core *core, const bide_op *next, const bide_op *later);

/* True if a sliced op cannot continue before the next commit, because it has as many uncommitted
 * parts as it may have. */
bool bi_slice_needs_commit(const struct core *core, const bide_op *op);

/* Ends a sliced op that is not run again. What it has done stays done. */
void bi_slice_abandon(struct core *core, bide_op *op);

/* After a failed commit: subtracts from the count of a kick or purge what was rolled back. No
 * effect on other ops. */
void bi_slice_roll_back_count(const struct core *core, bide_op *op);

/* Completes a waiting op with BIDE_CANCELLED. False, without effect, if the op does not wait. */
bool bi_waiter_cancel(struct core *core, bide_op *op);

/*
 * Completes every waiting op with BIDE_CLOSED, at most budget at a time, and fewer if they name
 * many topics; true if there are more. From the first call on, reserves and ops that would wait
 * fail with BIDE_CLOSED; all other ops still run.
 */
bool bi_waiter_close_all(struct core *core, unsigned budget);

/*
 * Prepares an orderly stop, after bi_waiter_close_all(). Leases whose holders outlive the process
 * (options.keep_leases, and all leases kept from an earlier process) are journalled with their
 * remaining time. Any other job whose reservation would count as a failure is requeued without a
 * count. Visits up to budget jobs; true: call it again, with nothing but commits in between. Jobs
 * for which memory is lacking, and all that remain after a failed commit, are as after a crash.
 */
bool bi_lease_prepare_stop(struct core *core, struct bi_now now, unsigned budget);
/* True if a commit has failed since bi_lease_prepare_stop() began: its next call begins again. */
bool bi_lease_restart_stop(struct core *core);

/*
 * Fires the timers that are due, at most budget, and fewer if they take long; true if more are due.
 * Timers of one clock fire in order of their deadlines. If both clocks have timers due they
 * alternate, the wall clock first. Tick before running ops, so that no op sees an expired lease.
 */
bool bi_core_tick(struct core *core, struct bi_now now, unsigned budget);

/*
 * The next time on each clock at which a tick has work; BI_NEVER for none. With the wheel, wall
 * clock deadlines are rounded up to a tick of the boot-time clock, and the wall time returned only
 * serves to wake the timer thread when the wall clock is set.
 */
struct bi_now bi_core_next_deadline(const struct core *core);

/* The same for the timeouts of waiting calls, and for calls that could not be served for lack of
 * memory, on the boot-time clock. The wheel does not round them. */
int64_t bi_core_next_timeout(const struct core *core);

/* True if a tick has work at once: calls can be served that the last step had no time for. */
bool bi_core_unserved(const struct core *core);

/* ---- the journal (core/journal*.c); only with options.journal ---- */

/* A job as it is stored, or the pause and the policy of a topic. Times are wall times, microseconds since the
 * epoch. */
struct bi_image {
    uint64_t id;
    bide_state state; /* delayed, ready (also for a reserved job), buried or done */
    bool started;     /* reserved, with a retry limit: a crash counts as a failure */
    bool cancel_wanted;
    bool due_wall;
    bool key_hold_retained;
    bool plain; /* the fields of EXT, COUNTERS and TIMES are none, and there are no texts */
    uint32_t priority;
    int64_t ttr;
    int64_t due; /* delayed: when it is ready; done: end of retention */
    /* Number and remaining time of a lease that outlives the process; 0: none. */
    uint64_t token;
    int64_t lease;
    uint64_t bury_order;
    int64_t created;
    int64_t since; /* when it entered its state */
    BI_JOB_EXT(BI_JOB_DECLARE)
    BI_JOB_COUNTERS(BI_JOB_DECLARE)
    BI_JOB_TIMES(BI_JOB_DECLARE) /* 0: never */
    uint32_t body_size;
    bide_buf *body; /* references; may be NULL */
    BI_JOB_IMAGE_BUFS(BI_JOB_DECLARE_BUF)
    char topic[BIDE_TOPIC_MAX + 1];
};

#define BI_IMAGE_REF(kind, name, least, most)   bide_buf_ref(image->name);
#define BI_IMAGE_UNREF(kind, name, least, most) bide_buf_unref(image->name);

static inline void bi_image_ref(const struct bi_image *image)
{
    bide_buf_ref(image->body);
    BI_JOB_IMAGE_BUFS(BI_IMAGE_REF)
}

static inline void bi_image_unref(const struct bi_image *image)
{
    bide_buf_unref(image->body);
    BI_JOB_IMAGE_BUFS(BI_IMAGE_UNREF)
}

enum bi_record_kind {
    BI_INSERT,
    BI_UPDATE, /* everything but the body */
    BI_REMOVE, /* only the id and the size of the body are set */
    BI_TOPIC,  /* topic; due: end of its pause (wall); 0: not paused; BI_NEVER: no end; body: a
                * bide_topic_policy, NULL: none */
};

struct bi_record {
    enum bi_record_kind kind;
    struct bi_image image;
};

/* The records of one commit, stored atomically. Each job and each topic occurs at most once. */
struct bi_batch {
    uint64_t number; /* 1, 2, 3, ... */
    uint64_t next_id;
    uint64_t next_token; /* where a restart continues */
    uint64_t lease_from; /* a restart accepts stored leases from this number on; 0: none */
    size_t count;
    struct bi_record *records;
};

/* Number of changes that are not sealed. */
size_t bi_journal_backlog(const struct core *core);
/* True if there is something to seal. */
bool bi_journal_is_dirty(const struct core *core);

/*
 * Returns the oldest batch that is not sealed. If it is the open batch, later changes go to the
 * next one. Batches are committed in order, one at a time. BIDE_OK, or BIDE_ENOMEM with nothing
 * changed. Free the batch with bi_journal_batch_done() after committed() or rollback().
 */
int bi_journal_seal(struct core *core, struct bi_now now, struct bi_batch *batch);
void bi_journal_batch_done(struct core *core, struct bi_batch *batch);

/* The batch is stored: replies that were held for it may be sent. */
void bi_journal_committed(struct core *core, const struct bi_batch *batch);

/*
 * A batch could not be stored: undoes everything since the last commit, about budget steps at a
 * time. True if there is more to do. Until it returns false only bi_waiter_cancel(),
 * bi_journal_is_dirty(), bi_journal_backlog(), bi_core_work() and bi_journal_committed_batch() may
 * be called. The caller fails the replies that are held for the undone batches. Cannot fail.
 */
bool bi_journal_rollback(struct core *core, struct bi_now now, unsigned budget);

/* The number of the batch that changes go to, and of the last committed one. */
uint64_t bi_journal_open_batch(const struct core *core);
uint64_t bi_journal_committed_batch(const struct core *core);

/*
 * Inserts a stored job at start, under its own id. Due jobs become ready; a job with a valid lease
 * is reserved. Otherwise a started job counts a failure and a cancelled one is removed, and that
 * change is journalled. An image without a body leaves the body in the store. BIDE_OK, BIDE_ENOMEM,
 * or BIDE_EINVAL for an inconsistent image; then nothing changes. Call bi_core_serve() afterwards
 * to serve waiting calls.
 */
int bi_load_job(struct core *core, const struct bi_image *image, struct bi_now now);
/* Announces stored jobs that are still to be loaded, so that new jobs do not use their memory.
 * Each bi_load_job() that succeeds is one of them; bi_core_retire_excess() resets the number. */
void bi_load_expect(struct core *core, uint64_t jobs);
/* Whether the memory in use and that of so many stored jobs exceed half of max_memory. The other
 * half is more than the ops need that are run until the jobs are counted. */
bool bi_load_may_fill_memory(const struct core *core, uint64_t jobs);
/* Whether puts depend on the number of jobs in a topic, by max_jobs_per_topic or a policy: then on
 * those that are still to be loaded, too. */
bool bi_load_has_job_limits(const struct core *core);
/* Restores the pause (due), the policy (body), or both of the topic that the image names. */
int bi_load_topic(struct core *core, const struct bi_image *image, struct bi_now now);

/* Serves waiting calls with the jobs loaded since the last call. */
void bi_core_serve(struct core *core, struct bi_now now);
/* After everything is loaded and sorted: removes results above max_done_per_topic, about budget
 * (at least 2) at a time. True if there is more to do. */
bool bi_core_retire_excess(struct core *core, struct bi_now now, unsigned budget);
/* Last step of recovery: completes the ops that wait for it. If they are many, the next ticks
 * complete the rest. */
void bi_core_end_recovery(struct core *core, struct bi_now now);
bool bi_job_exists(const struct core *core, uint64_t id);

/*
 * Sorts the lists that were loaded out of order (by bury order or age). collect() and apply() run
 * in slices under the lock, sort() in between, on any thread. collect() and apply() return true if
 * there is more to do. bi_load_sort_done() frees the entries.
 */
struct bi_load_sort {
    struct bi_load_sort_entry *entries;
    size_t count, room, next;
    uint64_t position;
    uint64_t limits[BIDE_STATE_DONE + 1]; /* loaded jobs of a state have smaller keys */
    bool failed;                          /* out of memory: the lists stay unsorted */
};
bool bi_load_sort_collect(struct core *core, struct bi_load_sort *sort, unsigned budget);
void bi_load_sort_sort(struct bi_load_sort *sort);
bool bi_load_sort_apply(struct core *core, struct bi_load_sort *sort, unsigned budget);
void bi_load_sort_done(struct core *core, struct bi_load_sort *sort);

/* ---- bodies that only the store has (core/body_fetch.c, BI_BODY_MISSING); only with
 * limits.cache_bytes ---- */

struct bi_body {
    uint64_t id;
    uint32_t size;
    bide_buf *body;     /* set by the reader; NULL: it cannot be read */
    const char *reason; /* why it cannot be read */
};

/* Lists the missing bodies of an op, starting with number from; returns how many were listed. */
size_t bi_body_fetch_missing(const bide_op *op, size_t from, struct bi_body *bodies, size_t max);

/* Stores the bodies that were read in the results of an op whose other bodies must be read again:
 * those are not missing any more. Returns false if there was none. */
bool bi_body_fetch_keep(bide_op *op, const struct bi_body *bodies);

/*
 * Supplies all missing bodies of an op, in the order in which they were listed. A reserved job
 * whose body cannot be read is buried, and a reserve left without jobs tries to get others. Returns
 * the op's code; BI_AGAIN if bodies are missing again; BIDE_PENDING if the op waits again.
 */
int bi_body_fetch_supply(struct core *core, bide_op *op, const struct bi_body *bodies,
                         struct bi_now now);

/* Caches a body that was read ahead. Takes over the reference. */
void bi_body_fetch_cache(struct core *core, uint64_t id, bide_buf *body);

/* Lists bodies that are likely to be needed after that of this reserved job: those of the next
 * ready jobs in its topic. */
size_t bi_body_fetch_readahead(const struct core *core, uint64_t id, struct bi_body *bodies,
                               size_t max, uint64_t max_bytes);

/*
 * Call when the reply of an op that was held for a commit is sent: starts the leases of its jobs
 * and updates its snapshots. Ops that were not held need no such call.
 */
void bi_lease_start(struct core *core, bide_op *op, struct bi_now now);

/* Undoes the reservations of an op that fails after all, as far as they still exist. The jobs
 * return to their previous states, and nothing is counted. */
void bi_lease_undo_reserve(struct core *core, bide_op *op, struct bi_now now);

/* Number of ops with BI_BODY_MISSING that count as waiting, because they may have to wait again. */
uint64_t bi_core_parked(const struct core *core);

/* Frees the parked waiter of an op with BI_BODY_MISSING. The caller completes the op. */
void bi_waiter_unpark(struct core *core, bide_op *op);

/* ---- comparing with the store (core/verify.c) ---- */

/* NULL if the stored image agrees with the core, as far as changes are stored; otherwise what
 * differs. */
const char *bi_verify_job(struct core *core, const struct bi_image *image);
/* True if the store should have this job. */
bool bi_verify_is_stored(const struct core *core, uint64_t id);
/* True if the batch in flight changes this job: its row may be the old or the new one. */
bool bi_verify_is_in_flight(const struct core *core, uint64_t id);
/*
 * Lists ids that the store should have, except those of jobs whose removal is not committed yet.
 * Starts at *position (0: the beginning) and advances it. *end: there are no more; otherwise a call
 * may list none.
 */
size_t bi_verify_stored_ids(const struct core *core, uint64_t *position, uint64_t *ids, size_t max,
                            bool *end);

/* ---- checking invariants (core/core_check.c) ---- */

/* The error of a check while another one runs. */
extern const char bi_core_check_busy[];
/* True if this op is a check that has more to do (BI_AGAIN). */
bool bi_core_is_checking(const struct core *core, const bide_op *op);

/* Checks about budget jobs, starting at *position (0: the beginning), and advances it; *end:
 * there are no more. NULL, or a description of the fault. */
const char *bi_core_check_slice(struct core *core, uint64_t *position, unsigned budget, bool *end);

#endif
