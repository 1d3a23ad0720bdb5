/* SPDX-License-Identifier: MIT */
/*
 * core_internal - the state of the core and what its files share. Only src/core includes this.
 *
 * The files op_*.c have one function per op, of type op_exec. job.c and topic.c own the
 * structures of jobs and topics; waiter.c serves waiting calls; journal.c gathers what must be
 * stored; event.c delivers events to subscriptions.
 */
#ifndef BI_CORE_INTERNAL_H
#define BI_CORE_INTERNAL_H

#include "core/core.h"
#include "core/event.h"
#include "core/hash_table.h"
#include "core/job.h"
#include "core/journal.h"
#include "core/policy.h"
#include "core/timer.h"
#include "core/token.h"
#include "core/topic.h"
#include "core/waiter.h"
#include "core/worker.h"
#include "util/alloc.h"
#include "util/hash.h"

/* Selects the handler of a timer that fires. */
enum timer_kind {
    TIMER_LEASE,
    TIMER_RETENTION,
    TIMER_EXPIRY,
    TIMER_DUE_MONO,
    TIMER_DUE_WALL,
    TIMER_PAUSE,
    TIMER_RATE,
    TIMER_WAITER,
    TIMER_WORKER,
    TIMER_ORDER, /* never fires: the heap only keeps an order */
    TIMER_KINDS
};

/* After this time the core repeats what failed for lack of memory. */
#define BI_NOMEM_RETRY_US 100000

/* Jobs that a sliced op visits in one slice. */
#define SLICE 1000

/* Memory of a job besides its body and struct job_ext: itself, its heap slot and its hash
 * bucket. */
#define JOB_COST (sizeof(struct job) + 24 + 24)
/* Memory of struct job_ext: itself, and its entries in the timer heaps with their spare room. */
#define JOB_EXT_COST (sizeof(struct job_ext) + (size_t)2 * 36)
/* What a job may use on top of that: an entry in a second heap of its topic, spare room in the
 * first, an entry in the body cache, and the allocator's overhead for the body. */
#define JOB_SLACK 88

/*
 * What the table of names needs of a topic, by reference. It is kept apart from struct topic: a
 * lookup visits other topics of the chain, too, and each would bring a topic into the CPU cache.
 */
struct topic_name {
    uint32_t hash; /* the lower half */
    uint32_t link; /* in the table */
};

struct topic_names {
    struct topic_name *all;
    uint32_t room;
};

/* A FIFO of ids in blocks: adding an id never moves the others, whatever the length. */
struct id_fifo {
    struct id_fifo_block *head, *tail;
    uint32_t first; /* index in the head block */
    uint32_t end;   /* index in the tail block */
    uint64_t count;
};

struct body_cache {
    uint64_t bytes; /* total size of the cached bodies */
    uint64_t count; /* number of cached bodies */
    /* Their ids, oldest first: the compacted ones, then the rest. */
    struct id_fifo compacted, pending;
    bool compacting; /* entries of removed jobs are being dropped */
};

struct core {
    struct bi_limits limits;
    struct bi_alloc alloc;
    void (*complete)(void *ctx, bide_op *op);
    void *ctx;

    struct bi_now now;   /* of the running call */
    int64_t stamp_floor; /* later than the bound of every sliced op that has begun */
    int64_t start_time;
    bool draining;
    bool recovering;
    bool leases_unloaded;       /* jobs with leases of an earlier process are still to be loaded */
    uint64_t max_jobs_policies; /* topics whose policy has max_jobs */
    uint64_t unloaded;          /* stored jobs that are still to be loaded, as far as known */
    bool lists_sorted;          /* while recovering: all lists are sorted */
    uint64_t retire_next;       /* serial of the topic where bi_core_retire_excess() continues */
    bool closed;                /* no op may wait or reserve any more */
    uint64_t next_id;
    uint64_t next_token; /* number of the next reservation */
    struct bi_tokens tokens;
    uint64_t next_order; /* of burials and results */
    uint64_t step_room;  /* bytes above max_memory for the running finish_and_put, else 0 */
    const struct job *step_ended; /* the job that it removes or retains; NULL: none */
    uint64_t first_order;         /* of this run; loaded orders and tokens are smaller */
    uint64_t lease_from;          /* stored leases are valid from this token on */
    bool keep_leases; /* all leases outlive the process, not only those of an earlier one */
    struct {
        bool begun;
        bool failed;         /* a commit has failed since */
        uint64_t serial;     /* of the topic where it continues */
        uint32_t job;        /* where it continues in the topic; 0: its first */
    } stop;                  /* progress of bi_lease_prepare_stop() */
    uint64_t next_waiter;    /* numbers waiting calls by arrival */
    uint64_t next_turn;      /* numbers the grants of fair reserves */
    bide_buf *recent_holder; /* the name that the last reserve gave: the next one often gives it */
    struct bi_random random;
    struct bi_hash_secret name_secret, id_secret; /* of the tables */
    struct bi_permutation cursors;                /* hides positions in the table of ids */

    struct pool jobs, exts, topics;
    uint32_t *slots; /* position of each job in the ready or due heap of its topic, by reference */
    uint32_t slot_room;
    struct hash_table by_id, by_name, by_key;
    struct timers mono, wall;
    /* Timeouts of waiting calls, on the boot-time clock; exact with both timer engines. */
    struct timers wait_timers;
    bool mono_turn;        /* within a tick: the boot-time clock fires next */
    struct timers ages;    /* topics by their oldest ready job */
    struct timers serving; /* topics with ready jobs, by the call that has waited longest */

    struct topic_names names;
    struct serial_list topic_list;
    uint32_t recent_topic; /* the topic found last */
    struct {
        uint64_t hash;
        size_t size;
        char name[BIDE_TOPIC_MAX];
    } hashed; /* the name hashed last */

    struct announced_workers workers;
    struct waiters waiters;
    bool unserved;           /* calls can be served, but the last step had no time for them */
    int64_t serve_retry_at;  /* the same for lack of memory: serve them then; or BI_NEVER */
    const bide_op *checking; /* the check in progress; there is one at a time */
    uint64_t work;           /* see bi_core_work() */
    struct subscriptions subscriptions;
    struct body_cache cache;
    bool body_missing;        /* the running op returned a job without its body */
    unsigned unsorted_states; /* states (as bits) whose lists were loaded out of order */
    struct journal journal;
    uint64_t hold; /* of the running op: the batch that its reply waits for */

    uint64_t counts[BIDE_STATE_DONE + 1];
    uint64_t urgent;
    bide_counters total;
    uint64_t memory;
};

/* The slabs of these pools have 1 << shift items. */
enum { JOB_SHIFT = 9, EXT_SHIFT = 6, TOPIC_SHIFT = 5 };

static inline struct job *job_in(const struct pool *jobs, uint32_t ref)
{
    return bi_pool_at_sized(jobs, ref, sizeof(struct job), JOB_SHIFT);
}

static inline struct job_ext *ext_in(const struct pool *exts, uint32_t ref)
{
    return bi_pool_at_sized(exts, ref, sizeof(struct job_ext), EXT_SHIFT);
}

static inline struct topic *topic_in(const struct pool *topics, uint32_t ref)
{
    return bi_pool_at_sized(topics, ref, sizeof(struct topic), TOPIC_SHIFT);
}

static inline struct job *job_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : job_in(&core->jobs, ref);
}

static inline struct job_ext *ext_of(const struct core *core, const struct job *job)
{
    return job->ext == 0 ? NULL : ext_in(&core->exts, job->ext);
}

static inline struct topic *topic_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : topic_in(&core->topics, ref);
}

static inline struct undo *undo_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : bi_pool_at(&core->journal.undos, ref);
}

static inline struct topic *topic_of(const struct core *core, const struct job *job)
{
    return topic_in(&core->topics, job->topic);
}

/* The most jobs, apart from results, that a topic may have, by its policy or else by
 * max_jobs_per_topic; 0: no limit. */
static inline uint64_t bi_topic_max_jobs(const struct core *core, const struct topic *topic)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    return settings != NULL && settings->max_jobs != 0 ? (uint64_t)settings->max_jobs
                                                       : core->limits.max_jobs_per_topic;
}

/*
 * The time at which a job enters its state. It differs from the clock only within the microsecond
 * in which a sliced op began: jobs that enter a state after that must compare later than its bound.
 */
static inline int64_t bi_core_stamp(const struct core *core)
{
    return core->now.mono < core->stamp_floor ? core->stamp_floor : core->now.mono;
}

/* The number of a reservation. It rises with every reservation, across restarts, too. */
static inline uint64_t bi_lease_number(const struct core *core, const struct job_ext *ext)
{
    return bi_token_number(&core->tokens, ext->token);
}

/* True if the holder of this lease outlives the process. */
static inline bool bi_lease_outlives_process(const struct core *core, const struct job_ext *ext)
{
    return core->keep_leases || bi_lease_number(core, ext) < core->first_order;
}

/* Increments a counter of the topic and of the queue. */
#define COUNT(core, topic, what) ((topic)->total.what++, (core)->total.what++)

/* Work of one step before the lock is released: some milliseconds. */
#define STEP_WORK 50000
/* Work that an op, or an item of one, counts at least. */
#define OP_WORK 5

typedef int (*op_exec)(struct core *core, bide_op *op);

#define BI_OP_DECLARE(NAME, number, name, member) \
    int bi_exec_##name(struct core *core, bide_op *op);
BIDE_OPS(BI_OP_DECLARE)
#undef BI_OP_DECLARE

/* Writes the op's error and returns code. */
int bi_core_error(bide_op *op, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the general text of the code; BIDE_OK writes nothing. */
int bi_core_error_code(bide_op *op, int code);
/* The same; for the code of a limit, the text names the limit and its value. */
int bi_core_error_limit(const struct core *core, bide_op *op, int code);
/* The errors of many ops: no such job; it is reserved; its state does not allow the op. */
int bi_core_error_no_job(bide_op *op, uint64_t id);
int bi_core_error_no_topic(bide_op *op, bide_slice topic);
int bi_core_error_reserved(bide_op *op, const struct job *job);
int bi_core_error_wrong_state(bide_op *op, const struct job *job);
/* The limit of max_jobs of the topic is reached; it has so many jobs. */
int bi_core_error_topic_full(const struct core *core, bide_op *op, const struct topic *topic,
                             uint64_t live);

static inline uint64_t bi_core_id_hash(const struct core *core, uint64_t id)
{
    return bi_keyed_hash_u64(&core->id_secret, id);
}

/*
 * The description of a job to insert. It borrows its slices and buffers; with take_buf a successful
 * build takes over buf.
 */
struct job_spec {
    bide_slice topic;
    bide_slice body;
    bide_buf *buf;
    bool take_buf;
    bool body_in_store; /* the body is in the store only */
    bool plain;         /* no field needs struct job_ext */
    const bide_put_options
        *options; /* of a put: what they do not say, the policy of its topic may */
    bide_conflict conflict;
    bide_slice key, last_error, result, history;
    bide_buf *result_buf;  /* the result as a buffer, preferred to the slice; or NULL */
    struct bi_image image; /* times as in images; its topic and buffers are not used */
};

/* Clears the spec except the large topic at its end, which is never read. */
static inline void bi_job_spec_init(struct job_spec *spec)
{
    memset(spec, 0, offsetof(struct job_spec, image) + offsetof(struct bi_image, topic));
}

/* Builds a job that is in no state. NULL when out of memory; everything is released then. */
struct job *bi_job_spec_build(struct core *core, struct topic *topic, const struct job_spec *spec,
                              uint64_t id);

/* Sets the due time of a built job and returns the state to enter: ready if the due time has
 * passed. */
bide_state bi_job_spec_set_due(const struct core *core, struct job *job,
                               const struct bi_image *image);

/* A job by id, or NULL. */
struct job *bi_job_lookup(const struct core *core, uint64_t id);

/* The same for a running op: its reply depends on the last change of the job, found or not. */
struct job *bi_job_find(struct core *core, uint64_t id);

/* The job that holds a key, or NULL. */
struct job *bi_job_find_by_key(const struct core *core, const struct topic *topic, bide_slice key);

/* ---- changes shared by ops and timers; all of them count and emit events ---- */

/* Removes a job and notifies the calls that wait for its end. BIDE_OK or BIDE_ENOMEM; it cannot
 * fail if the change was journalled in the open batch before. */
int bi_op_finish_remove(struct core *core, struct job *job, bide_event_kind event);
/* The same for a delete, which is counted. */
int bi_op_finish_remove_counted(struct core *core, struct job *job);

/* After a failure: requeues with retry_in (negative: backoff), or buries at the retry limit. */
void bi_retry_or_bury(struct core *core, struct job *job, int64_t retry_in, bide_event_kind event);
void bi_retry_bury(struct core *core, struct job *job, int64_t priority);
/* A text for last_error of a job, cut at max_error_size. NULL when out of memory. */
bide_buf *bi_retry_reason(const struct core *core, bide_slice text);
/* The history of a job with one more failure, that of its last reservation. NULL when out of
 * memory. */
bide_buf *bi_retry_history(const struct core *core, const struct job_ext *ext,
                           bide_failure_kind kind, bide_slice text);
/* Adds a failure to the history of a job, for callers that cannot fail: when out of memory, the
 * history stays without it. */
void bi_retry_record(struct core *core, struct job_ext *ext, bide_failure_kind kind,
                     bide_slice text);
/* Returns the delay in microseconds, a multiple of 1000. base and max 0 select the defaults.
 * Requires failures >= 1. */
int64_t bi_retry_delay(uint32_t failures, int64_t base, int64_t max, struct bi_random *random);
#define BI_BACKOFF_BASE INT64_C(5000000)          /* 5 s, in us */
#define BI_BACKOFF_MAX  INT64_C(3600000000)       /* 1 h */
#define BI_BACKOFF_END  INT64_C(4294967295000000) /* 136 years: no delay is longer */

/* Ends the lease, if any. The job becomes ready, or delayed on the boot-time clock. */
void bi_lease_requeue(struct core *core, struct job *job, int64_t delay);
/* The same until a time of either clock; ready if it has passed. */
void bi_lease_requeue_at(struct core *core, struct job *job, int64_t due, bool due_wall);
/* Clears what belongs to the lease of a job that has left the state reserved. */
void bi_lease_end(struct core *core, struct job *job);

/* Returns the name of a holder as a buffer that its leases share, borrowed until the next call; NULL
 * for no name. False when out of memory. */
bool bi_lease_name_holder(struct core *core, bide_slice name, bide_buf **holder);
/* Reserves a job that is ready, delayed or buried. The holder may be NULL. BIDE_OK, or BIDE_ENOMEM
 * with nothing changed. */
int bi_lease_grant(struct core *core, struct job *job, bide_buf *holder);
/* May the lease be extended until then? BIDE_OK, or BIDE_TOUCH_LIMIT with an error that names the
 * limit (max_touches, min_touch_interval, max_touch_total) and what is left of it. */
int bi_lease_check_touch(const struct core *core, bide_op *op, const struct job *job,
                         int64_t until);
/* Extends a lease and counts the touch. */
void bi_lease_extend(struct core *core, struct job *job, int64_t until);
/* The reserve that several ops share. args are part of op. */
int bi_op_reserve_run(struct core *core, bide_op *op, bide_reserve_args *args);
/* Reserves up to args->job_max ready jobs of the topics; returns args->count. The holder is not read
 * from args: a waiting call has its own reference. */
size_t bi_op_reserve_take(struct core *core, bide_reserve_args *args, bide_buf *holder,
                          const struct waiter_link *links, size_t link_count);
/* Runs the function of the op's kind. */
int bi_core_exec(struct core *core, bide_op *op);

/* ---- the cache of bodies ---- */

/* Adds the body of a job that is now stored. This may evict it or others. Does nothing if the
 * body is cached already or not in memory. */
void bi_body_cache_add(struct core *core, struct job *job);
/* Adds the body of a job that a rollback has restored: its entry may have been dropped while the
 * job was removed. */
void bi_body_cache_readd(struct core *core, struct job *job);
/* Uncounts the body of a job that is about to be freed. Its entry is skipped later. */
void bi_body_cache_remove(struct core *core, struct job *job);
/* Attaches a body that was read from the store. Takes ownership of the reference, also if the
 * body is not cached. */
void bi_body_cache_attach(struct core *core, struct job *job, bide_buf *body);
/* True if so many bytes fit without an eviction. */
bool bi_body_cache_has_room(const struct core *core, uint64_t bytes);
void bi_body_cache_done(struct core *core);

/* True if the body is in the store only. */
static inline bool bi_job_body_missing(const struct job *job)
{
    return job->body == NULL && job->body_size > 0;
}

/*
 * Memory that the present jobs may still need. Consumers of a full queue must be able to reserve
 * and kick, so this memory is not given to new jobs. Jobs that are still to be loaded count like
 * new ones without a body: a restart must not let more jobs into a full queue.
 */
#define UNLOADED_COST (JOB_COST + JOB_EXT_COST + JOB_SLACK)
static inline uint64_t bi_core_headroom(const struct core *core)
{
    return core->jobs.used * JOB_SLACK + (core->jobs.used - core->exts.used) * JOB_EXT_COST +
           core->unloaded * UNLOADED_COST;
}

/* True if this many more bytes would exceed max_memory. */
static inline bool bi_core_is_full(const struct core *core, uint64_t bytes)
{
    return core->limits.max_memory != 0 && core->memory + bi_core_headroom(core) + bytes >
                                               core->limits.max_memory + core->step_room;
}

/* Removes the oldest results of a topic above max_done_per_topic, at most so many; returns how
 * many. One new result exceeds the limit by one, so a step of two also reduces an older excess. */
unsigned bi_op_finish_retire_excess(struct core *core, struct topic *topic, unsigned most);
#define BI_RETIRE_STEP 2

/* Finishes one job, for finish_many, finish_and_reserve and done. */
int bi_op_finish_item(struct core *core, bide_op *op, bide_finish_item *item);

/*
 * The parts of finish_and_put: prepare() does everything that can fail and changes nothing that
 * others see, then apply() cannot fail, and abandon() undoes a prepare() that has succeeded. The
 * caller prepares all parts, reserves that many journal entries (bi_journal_reserve()), and applies
 * all parts in one group of the journal. It abandons puts in reverse order.
 */
struct prepared_ending {
    struct job *job;
    bide_ending ending;        /* FINISH also for a job that was cancelled and would be requeued */
    bool keep;                 /* done, else delete */
    bool finished;             /* delete: by the holder */
    int64_t retain;            /* done: 0 removes the job */
    bide_buf *result;          /* done; may be NULL */
    bide_buf *error, *history; /* bury; error may be NULL: it stays */
    int64_t priority;          /* release, bury: or BIDE_KEEP */
    int64_t due;               /* release: by this clock, */
    bool due_wall;
    int64_t delay; /* and the delay that is shown */
};

struct prepared_put {
    struct topic *topic; /* pinned */
    struct job *job;     /* in no state; it holds its key */
    struct job *holder;  /* the job that it replaces, without its key; NULL: none */
    bool made_topic;
};

int bi_op_finish_prepare(struct core *core, bide_op *op, struct prepared_ending *ending);
void bi_op_finish_abandon(struct core *core, const struct prepared_ending *ending);
void bi_op_finish_apply(struct core *core, const struct prepared_ending *ending);
/* Call after the last apply(), with the topic of the job, which may be gone. */
void bi_op_finish_end(struct core *core, struct topic *topic, const struct prepared_ending *ending);
int bi_op_put_prepare(struct core *core, bide_op *op, bide_put_item *item,
                      struct prepared_put *put);
void bi_op_put_abandon(struct core *core, const bide_put_item *item,
                       const struct prepared_put *put);
void bi_op_put_apply(struct core *core, bide_put_item *item, const struct prepared_put *put);

void bi_snapshot_fill(struct core *core, const struct job *job, bide_job *out, bool with_body);

/* Bytes of body, error text, result and history in a snapshot of the job. */
uint64_t bi_snapshot_size(const struct core *core, const struct job *job, bool with_body);

/* True if a page with this many bytes has room for more. */
bool bi_snapshot_fits_page(const struct core *core, uint64_t bytes, uint64_t added);

/* Sets the body of a snapshot, taking over the reference; and releases it again. */
void bi_snapshot_set_body(bide_job *out, bide_buf *body);
void bi_snapshot_drop_body(bide_job *out);

/* Releases the bodies of a page that was requested without them. */
void bi_op_list_strip_bodies(bide_list_args *args);

/*
 * A lease starts with the reply of its reserve: a slow commit must not use up the ttr. With a
 * journal a job is therefore reserved without a running lease (reply_pending). When the op
 * completes, bi_lease_start_if_committed() starts the leases at once, or bi_lease_start() does so
 * after the commit.
 */
void bi_lease_start_if_committed(struct core *core, bide_op *op);
/* The job of a reservation that still exists, or NULL. */
struct job *bi_lease_find_job(const struct core *core, const bide_job *snapshot);
/* Sets the times of a lease that starts now; the caller sets the timer. */
static inline void bi_lease_set_times(const struct core *core, struct job *job, struct job_ext *ext)
{
    ext->reply_pending = false;
    ext->reserved = core->now.mono;
    if (ext->lease_touches == 0)
        ext->touched = BI_NEVER;
    job->since = bi_core_stamp(core);
    job->due = core->now.mono + job->ttr;
}
/* When the lease started, and when it was last touched. A lease that has not started is shown,
 * stored and measured as if it started now. */
static inline int64_t bi_lease_started_at(const struct core *core, const struct job_ext *ext)
{
    return ext->reply_pending ? core->now.mono : ext->reserved;
}
static inline int64_t bi_lease_touched_at(const struct job_ext *ext)
{
    return ext->reply_pending && ext->lease_touches == 0 ? BI_NEVER : ext->touched;
}

/* The times of BI_JOB_TIMES as clients and the store see them. */
#define EXT_TIME_ready(core, ext)    (ext)->ready
#define EXT_TIME_reserved(core, ext) bi_lease_started_at(core, ext)
#define EXT_TIME_touched(core, ext)  bi_lease_touched_at(ext)
#define EXT_TIME_buried(core, ext)   (ext)->buried
#define EXT_TIME_done(core, ext)     (ext)->done
/* Undoes it later, because memory is lacking now. Until then the job remains reserved. */
void bi_lease_retry_undo(struct core *core, struct job *job);
/* Detaches a reservation from its op. Marks it in the journal, too: if a later change of the job
 * is rolled back, the reservation reappears and is undone then. Returns the job, or NULL if the
 * reservation has ended or its lease has started. */
struct job *bi_lease_abandon(struct core *core, const bide_job *snapshot);

/* The delayed job of a topic that is due first, on either clock, of those delayed not after
 * bound (BI_NEVER: of all); NULL for none. */
struct job *bi_topic_soonest_job(struct core *core, const struct topic *topic, int64_t bound);

/* Cursors of pages: a letter and numbers. An empty cursor leaves the numbers unchanged. */
bool bi_op_list_parse_cursor(const char *cursor, char letter, uint64_t *numbers, int count);
void bi_op_list_format_cursor(char *cursor, char letter, const uint64_t *numbers, int count);

/* The job of a chain of core->by_id with the smallest position not below from; 0 for none. Adds the
 * cost of the search to *cost: an ordinary chain has one or two items and costs nothing. */
uint32_t bi_op_list_next_in_chain(const struct core *core, uint32_t chain, uint64_t from,
                                  uint64_t *position, unsigned *cost);

/* The timer handlers. */
void bi_fire_lease(struct core *core, struct timer *timer);
void bi_fire_retention(struct core *core, struct timer *timer);
void bi_fire_expiry(struct core *core, struct timer *timer);
void bi_fire_due_mono(struct core *core, struct timer *timer);
void bi_fire_due_wall(struct core *core, struct timer *timer);
void bi_fire_pause(struct core *core, struct timer *timer);
void bi_fire_rate(struct core *core, struct timer *timer);
void bi_fire_waiter(struct core *core, struct timer *timer);
void bi_fire_worker(struct core *core, struct timer *timer);

/* A string literal as a slice. */
#define BI_SLICE(literal) ((bide_slice){literal, sizeof(literal) - 1})

/* Milliseconds to microseconds and back; ms_up() rounds up, as deadlines do. */
static inline int64_t us_of(int64_t ms)
{
    return ms * 1000;
}

static inline int64_t ms_down(int64_t us)
{
    return us >= 0 ? us / 1000 : -((-us + 999) / 1000);
}

static inline int64_t ms_up(int64_t us)
{
    return us <= 0 ? 0 : (us + 999) / 1000;
}

/* A field of BI_JOB_EXT of the API as the core has it, and back. */
#define FIELD_IN_RETRIES(value)    (value)
#define FIELD_IN_COUNT(value)      (value)
#define FIELD_IN_HISTORY(value)    (value)
#define FIELD_IN_DURATION(value)   us_of(value)
#define FIELD_IN_TIMESTAMP(value)  us_of(value)
#define FIELD_OUT_RETRIES(value)   (value)
#define FIELD_OUT_COUNT(value)     (value)
#define FIELD_OUT_HISTORY(value)   (value)
#define FIELD_OUT_DURATION(value)  ms_up(value)
#define FIELD_OUT_TIMESTAMP(value) ms_down(value)

/* Converts a time of the boot-time clock to the wall clock, at its present offset, and back. */
static inline int64_t wall_of(const struct core *core, int64_t mono)
{
    return mono + (core->now.wall - core->now.mono);
}

static inline int64_t mono_of(const struct core *core, int64_t wall)
{
    return wall - (core->now.wall - core->now.mono);
}

/* Time since mono. A stored time may be in the future if the wall clock was set back between two
 * runs; the age is then 0. */
static inline int64_t age_of(const struct core *core, int64_t mono)
{
    return mono < core->now.mono ? core->now.mono - mono : 0;
}

/* ---- checks (core_check.c) ---- */

/* Checks one job. NULL, or a description of the fault. May raise the hold. */
const char *bi_core_check_job(struct core *core, const struct topic *topic, const struct job *job);
/* True if `before` (NULL: none) may precede the job in the list or the tree of its state. */
bool bi_core_check_order(const struct core *core, const struct job *before, const struct job *job);

#endif
