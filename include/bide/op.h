/* SPDX-License-Identifier: MIT */
/*
 * op.h - the asynchronous interface: every operation of a queue is an op.
 *
 * An op is a struct in the caller's memory: its kind, its arguments, and room for its result and
 * its error message. Zero it, set the kind and the arguments, and submit it:
 *
 *     static void take(struct worker *worker)
 *     {
 *         bide_op *list[] = {&worker->op};
 *         while (bide_submit(worker->queue, list, 1) == 0) // 0 pending: completed, no callback
 *             if (!handle(worker))                         // reads op.status and the job
 *                 return;
 *     }
 *
 *     static void taken(bide_op *op) // the callback: a pending op has completed
 *     {
 *         if (handle(op->user))
 *             take(op->user);
 *     }
 *
 *     static const bide_slice topic = {"email", 5}; // read at every submit
 *     worker->op = (bide_op){.kind = BIDE_OP_RESERVE, .cq = cq, .done = taken, .user = worker};
 *     worker->op.reserve = (bide_reserve_args){.topics = &topic, .topic_count = 1,
 *         .timeout_ms = BIDE_FOREVER, .jobs = &worker->job, .job_max = 1};
 *     take(worker);
 *
 * An op that has completed may be submitted again, changed or not, as long as what its arguments
 * point to is valid; a pending op is rejected. The complete program, with poll(), is
 * examples/eventloop.c.
 *
 * Zero is a value, not a default, where BIDE_KEEP is allowed: retain_ms (0: done removes the job),
 * retry_in_ms (0: at once), priority (0: before all others), and all fields of an update.
 *
 * Ordering   The ops of one submit run in order, under one lock and with one reading of the clocks.
 *            If they do much work, other threads may run between two of them. A kick or purge of
 *            many jobs (1,000, or more than two batches hold) continues after the ops behind it;
 *            without a cq it lets other ops run in between.
 * Ownership  The op belongs to the queue from submit until it has completed. What its arguments
 *            point to is read before submit returns, and may be freed then. What results are
 *            written to (jobs, items, stats, events) must live as long as the op.
 * Failure    Every op has its own status and message. A rejected op does not affect others.
 * Threads    Any thread may submit. The callbacks of a completion queue run on the thread that
 *            drains it, with no lock held; they may submit, but blocking calls, bide_cq_drain()
 *            and bide_close() are rejected there with BIDE_ECALLBACK. bide_cq_wait() is a
 *            cancellation point while it waits; callbacks run with cancellation disabled.
 */
#ifndef BIDE_OP_H
#define BIDE_OP_H

#include <bide/error.h>
#include <bide/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bide bide;
typedef struct bide_cq bide_cq;
typedef struct bide_op bide_op;
typedef struct bide_subscription bide_subscription;

/* The list of all kinds: X(NAME, number, name, member of the union in bide_op). A number is part of
 * the ABI: it never changes, and a new kind takes the next one. */
#define BIDE_OPS(X)                                                  \
    X(PUT, 1, put, put)                                              \
    X(PUT_MANY, 2, put_many, put_many)                               \
    X(RESERVE, 3, reserve, reserve)                                  \
    X(RESERVE_JOB, 4, reserve_job, reserve_job)                      \
    X(DELETE, 5, delete, lease)                                      \
    X(DONE, 6, done, finish)                                         \
    X(FINISH_MANY, 7, finish_many, finish_many)                      \
    X(TOUCH_MANY, 8, touch_many, touch_many)                         \
    X(FINISH_AND_RESERVE, 9, finish_and_reserve, finish_and_reserve) \
    X(RELEASE, 10, release, release)                                 \
    X(GIVE_BACK, 11, give_back, lease)                               \
    X(FAIL, 12, fail, fail)                                          \
    X(BURY, 13, bury, bury)                                          \
    X(KICK, 14, kick, kick)                                          \
    X(KICK_JOB, 15, kick_job, lease)                                 \
    X(TOUCH, 16, touch, touch)                                       \
    X(UPDATE, 17, update, update)                                    \
    X(CANCEL, 18, cancel, lease)                                     \
    X(PEEK, 19, peek, query)                                         \
    X(PEEK_FIRST, 20, peek_first, query)                             \
    X(FIND, 21, find, query)                                         \
    X(JOB_STATS, 22, job_stats, query)                               \
    X(BODY, 23, body, fetch)                                         \
    X(RESULT, 24, result, fetch)                                     \
    X(WAIT, 25, wait, wait)                                          \
    X(LIST, 26, list, list)                                          \
    X(TOPICS, 27, topics, topics)                                    \
    X(WAITING, 28, waiting, topics)                                  \
    X(PURGE, 29, purge, purge)                                       \
    X(PAUSE, 30, pause, topic)                                       \
    X(RESUME, 31, resume, topic)                                     \
    X(TOPIC_REF, 32, topic_ref, topic)                               \
    X(RESTORE, 33, restore, restore)                                 \
    X(STATS, 34, stats, stats)                                       \
    X(TOPIC_STATS, 35, topic_stats, topic_stats)                     \
    X(SUBSCRIBE, 36, subscribe, subscription)                        \
    X(EVENTS, 37, events, subscription)                              \
    X(UNSUBSCRIBE, 38, unsubscribe, subscription)                    \
    X(PING, 39, ping, none)                                          \
    X(RECOVERED, 40, recovered, recovered)                           \
    X(BACKUP, 41, backup, backup)                                    \
    X(CHECK, 42, check, check)                                       \
    X(DRAIN, 43, drain, drain)                                       \
    X(FINISH_AND_PUT, 44, finish_and_put, finish_and_put)            \
    X(TOPIC_SET, 45, topic_set, topic_set)                           \
    X(TOPIC_GET, 46, topic_get, topic_get)                           \
    X(ANNOUNCE, 47, announce, announce)                              \
    X(WORKERS, 48, workers, workers)                                 \
    X(WHY, 49, why, why)

typedef enum bide_op_kind {
    BIDE_OP_NONE = 0,
#define BIDE_OP_ENUM(NAME, number, name, member) BIDE_OP_##NAME = (number),
    BIDE_OPS(BIDE_OP_ENUM)
#undef BIDE_OP_ENUM
        BIDE_OP_COUNT /* one more than the last number */
} bide_op_kind;

/* "put", "reserve", ...; "?" for an unknown number. */
BIDE_API const char *bide_op_name(bide_op_kind kind);

/* How a reserve chooses among its topics, for each job. */
typedef enum bide_strategy {
    BIDE_BY_PRIORITY = 0, /* the first job of all topics: smallest priority, then id */
    BIDE_STRICT = 1,      /* the first topic in the given order that has a ready job */
    BIDE_WEIGHTED = 2,    /* at random in proportion to the weights, among topics with ready jobs */
    BIDE_FAIR = 3,        /* round robin: the topic that was served longest ago */
} bide_strategy;

/* One job of a put or put_many. */
typedef struct bide_put_item {
    bide_slice topic;
    bide_slice body;                 /* copied, unless buf is given */
    bide_buf *buf;                   /* the body as a buffer; the queue takes its own reference */
    const bide_put_options *options; /* NULL: BIDE_PUT_OPTIONS_INIT */
    uint64_t id;     /* out: the new job, or with BIDE_EXISTS the holder of the key */
    int status;      /* out, in put_many and finish_and_put: this item's code */
    bide_buf *made_; /* private: the copy of the body */
    uint64_t room_[2];
} bide_put_item;

/* One job to finish. keep: retain it as done, with a result; else delete it. */
typedef struct bide_finish_item {
    uint64_t id;
    uint64_t token;
    bool keep;
    bide_slice result; /* copied, unless buf is given */
    bide_buf *buf;
    int64_t retain_ms; /* BIDE_KEEP: retain_ms of the put */
    int status;        /* out, in finish_many and finish_and_reserve */
    bide_buf *made_;   /* private: the copy of the result */
    uint64_t room_[2];
} bide_finish_item;

/* How finish_and_put ends the reservation of its job. */
typedef enum bide_ending {
    BIDE_ENDING_FINISH = 0,  /* delete the job or, with finish.keep, retain it as done */
    BIDE_ENDING_RELEASE = 1, /* ready or delayed again */
    BIDE_ENDING_BURY = 2,    /* set aside until it is kicked */
} bide_ending;

/* One lease to extend. */
typedef struct bide_touch_item {
    uint64_t id;
    uint64_t token;
    int64_t extend_ms; /* until the end of the lease, from now; 0: the job's ttr; BIDE_KEEP: do not
                          extend, only set progress; not counted */
    bide_slice progress; /* up to BIDE_PROGRESS_MAX bytes, shown in snapshots, not stored */
    int64_t left_ms;     /* out: until the end of the lease */
    int status;          /* out, in touch_many */
    uint64_t room_[2];
} bide_touch_item;

/* Which topics to reserve from, and room for the jobs. */
typedef struct bide_reserve_args {
    const bide_slice *topics;
    size_t topic_count;
    const uint32_t *weights; /* with BIDE_WEIGHTED: one per topic, at least 1; NULL: all equal */
    bide_strategy strategy;
    int64_t timeout_ms; /* how long to wait for the first job; 0: not at all; BIDE_FOREVER */
    bide_job *jobs;     /* out: room for job_max snapshots, cleared by the caller */
    size_t job_max;     /* 1 to BIDE_BATCH_JOBS; times topic_count at most BIDE_RESERVE_WORK */
    size_t count;       /* out: jobs reserved; at least 1 when the status is 0 */
    bide_slice holder;  /* the name of the worker: at most BIDE_HOLDER_MAX bytes, shown in snapshots
                          and in the history, not stored; empty: none */
    uint64_t room_[4];
} bide_reserve_args;

/* The changes of an update. Begin with BIDE_UPDATE_INIT, which changes nothing. */
typedef struct bide_update_args {
    uint64_t id;
    int64_t priority;  /* BIDE_KEEP, or 0 to 2^32-1 */
    int64_t delay_ms;  /* BIDE_KEEP; delayed and ready jobs only: until due, from now */
    int64_t run_at_ms; /* BIDE_KEEP; delayed and ready jobs only: when due */
    int64_t ttr_ms;    /* BIDE_KEEP; 0 is default_ttr */
    bide_slice topic;  /* empty: unchanged; else the job moves there, with its key */
    uint64_t room_[4];
} bide_update_args;

#define BIDE_UPDATE_INIT                                          \
    {                                                             \
        0, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, {NULL, 0}, \
        {                                                         \
            0                                                     \
        }                                                         \
    }

/* Which jobs a list returns. Zeroed: all. */
typedef struct bide_filter {
    bide_slice key;     /* exactly this key */
    bide_slice text;    /* these bytes, at most BIDE_TEXT_MAX, occur in the body */
    int64_t min_age_ms; /* created at least this long ago */
    int64_t max_age_ms; /* created at most this long ago; 0: no limit */
    uint32_t states;    /* with BIDE_STATE_ANY: 1 << state, or-ed; 0: all */
    uint64_t after_id;  /* only ids above this one */
    uint64_t room_[4];
} bide_filter;

/* The phases of loading stored jobs at open. */
typedef enum bide_phase {
    BIDE_PHASE_COUNTING = 0,
    BIDE_PHASE_LOADING = 1,
    BIDE_PHASE_ORDERING = 2,
    BIDE_PHASE_RECOVERED = 3,
} bide_phase;

/* "counting", "loading", "ordering", "recovered"; "?" for an unknown number. */
BIDE_API const char *bide_phase_name(bide_phase phase);

typedef struct bide_recovery {
    bide_phase phase;
    uint64_t loaded;
    uint64_t failed; /* invalid rows, quarantined, and damaged parts of the file; logged */
    uint64_t total;  /* 0 while counting */
    uint64_t room_[2];
} bide_recovery;

/* The result of bide_check(). */
typedef struct bide_check_report {
    uint64_t jobs;                 /* stored and valid */
    uint64_t damaged;              /* rows that cannot be read, are invalid, or were quarantined */
    uint64_t differences;          /* jobs that differ between the queue and its store */
    char problem[BIDE_ERROR_SIZE]; /* the first problem; "" if there is none */
    uint64_t room_[4];
} bide_check_report;

/* ---- the arguments and results of each kind ---- */

typedef struct bide_put_many_args {
    bide_put_item *items; /* at most BIDE_BATCH_JOBS and BIDE_BATCH_BYTES */
    size_t count;
    size_t accepted; /* out */
} bide_put_many_args;

typedef struct bide_reserve_job_args {
    uint64_t id;
    bide_job *job;     /* out */
    bide_slice holder; /* as in bide_reserve_args */
} bide_reserve_job_args;

/* delete, give_back; kick_job and cancel use the id only */
typedef struct bide_lease_args {
    uint64_t id;
    uint64_t token; /* 0: without a lease */
} bide_lease_args;

typedef struct bide_finish_many_args {
    bide_finish_item *items;
    size_t count;
} bide_finish_many_args;

typedef struct bide_touch_many_args {
    bide_touch_item *items;
    size_t count;
} bide_touch_many_args;

typedef struct bide_finish_and_reserve_args {
    bide_finish_item finish; /* its code is finish.status; a failure does not prevent the reserve */
    bide_reserve_args reserve; /* its code is the op's status. An op that is rejected as a whole has
                                  its code in both */
} bide_finish_and_reserve_args;

/* The job ends as `ending` says and the items are put, or nothing changes: then each item has the
 * status of the op, and error_item names the one that has failed (0: the job, or the whole). */
typedef struct bide_finish_and_put_args {
    bide_finish_item finish; /* the job; with the other endings only its id and token are used */
    bide_ending ending;
    int64_t priority;     /* release, bury: or BIDE_KEEP */
    int64_t delay_ms;     /* release: until the job is ready, by the boot-time clock */
    int64_t run_at_ms;    /* release: or: when it is ready, by the wall clock; 0: not used */
    bide_slice reason;    /* bury: as in bide_bury_args */
    bide_put_item *items; /* 1 to BIDE_BATCH_JOBS, at most BIDE_BATCH_BYTES */
    size_t count;
    size_t accepted; /* out: jobs inserted; fewer than count only by BIDE_SKIP */
    uint64_t room_[4];
} bide_finish_and_put_args;

typedef struct bide_release_args {
    uint64_t id;
    uint64_t token;
    int64_t priority; /* or BIDE_KEEP */
    int64_t delay_ms;
} bide_release_args;

typedef struct bide_fail_args {
    uint64_t id;
    uint64_t token;
    bide_slice error;       /* truncated to max_error_size */
    int64_t retry_in_ms;    /* BIDE_KEEP: the job's backoff */
    bide_state state;       /* out: delayed or ready, buried, or gone if the job was cancelled */
    int64_t delay_ms;       /* out: until the retry */
    bide_failure_kind kind; /* in the history: BIDE_FAILURE_FAILED or _DISCONNECTED */
} bide_fail_args;

typedef struct bide_bury_args {
    uint64_t id;
    uint64_t token;
    int64_t priority;  /* or BIDE_KEEP */
    bide_slice reason; /* stored as last_error if not empty; truncated to max_error_size */
} bide_bury_args;

typedef struct bide_kick_args {
    bide_slice topic;
    uint64_t max;
    uint64_t count;   /* out */
    bool buried_only; /* do not kick delayed jobs; BIDE_ENOTSUP at a plain beanstalkd */
} bide_kick_args;

typedef struct bide_query_args {
    uint64_t id;      /* peek, job_stats */
    bide_slice topic; /* peek_first, find */
    bide_slice key;   /* find */
    bide_state state; /* peek_first */
    bide_job *job;    /* out */
} bide_query_args;

typedef struct bide_fetch_args {
    uint64_t id;
    bide_buf *buf; /* out: the caller releases it */
} bide_fetch_args;

typedef struct bide_wait_args {
    uint64_t id;
    int64_t timeout_ms;
    bide_state state; /* out: done, buried or gone */
    bide_buf *result; /* out: the caller releases it; NULL if there is none */
    /* Out: the job was finished. If it is gone: its holder deleted it during the wait, or done
     * retained nothing. False if another caller deleted it, it expired, or it did not exist. */
    bool finished;
} bide_wait_args;

typedef struct bide_list_args {
    bide_slice topic; /* empty: all topics */
    bide_state state; /* BIDE_STATE_ANY: all */
    bide_filter filter;
    bool with_body;
    char *cursor;   /* in and out: BIDE_CURSOR_SIZE bytes, opaque; "" begins, and "" is the end */
    bide_job *jobs; /* out */
    size_t job_max; /* 1 to BIDE_BATCH_JOBS */
    size_t count;   /* out; may be 0 before the end */
    bool ordered;   /* out: ids ascend in this page, and are above those of all pages before it */
    uint64_t room_[4];
} bide_list_args;

typedef struct bide_topics_args {
    char *cursor;             /* as in list */
    bide_topic_stats *topics; /* out */
    size_t topic_max;         /* 1 to BIDE_BATCH_JOBS */
    size_t count;             /* out; waiting: only topics with waiting reserves */
} bide_topics_args;

typedef struct bide_purge_args {
    bide_slice topic;
    bide_state state; /* not BIDE_STATE_RESERVED: a reserved job belongs to its holder */
    uint64_t count;   /* out; also set on failure */
} bide_purge_args;

/* pause, resume, topic_ref */
typedef struct bide_topic_args {
    bide_slice topic;
    int64_t for_ms; /* pause: BIDE_FOREVER until resume */
    int delta;      /* topic_ref: +1 or -1 */
} bide_topic_args;

typedef struct bide_restore_args {
    const bide_job *job;                 /* as exported; id and token are ignored */
    uint64_t id;                         /* out */
    bide_buf *made_body_, *made_result_; /* private: copies */
} bide_restore_args;

typedef struct bide_stats_args {
    bide_stats *stats;
} bide_stats_args;

typedef struct bide_topic_stats_args {
    bide_slice topic;
    bide_topic_stats *stats;
} bide_topic_stats_args;

typedef struct bide_topic_set_args {
    bide_slice topic;
    bide_topic_policy policy; /* the changes; begin with BIDE_TOPIC_POLICY_INIT */
} bide_topic_set_args;

typedef struct bide_topic_get_args {
    bide_slice topic;            /* may not exist: then nothing is set */
    bide_topic_policy *policy;   /* out: what is set */
    bide_topic_policy *in_force; /* out: what applies, with the defaults and limits of the queue */
} bide_topic_get_args;

/* subscribe, events, unsubscribe */
typedef struct bide_subscription_args {
    bide_subscription *handle; /* subscribe: out; others: in */
    bide_slice topic;          /* subscribe: only this topic; empty: all */
    uint32_t kinds;            /* subscribe: 1 << bide_event_kind, or-ed; 0: all */
    uint32_t capacity;         /* subscribe: events buffered for a slow reader; 0: 1,024 */
    int64_t timeout_ms;
    bide_event *events; /* events: out */
    size_t event_max;
    size_t count;  /* out; may be 0 if events were lost */
    uint64_t lost; /* out: events lost before the first of these */
} bide_subscription_args;

typedef struct bide_drain_args {
    bool on;
} bide_drain_args;

typedef struct bide_recovered_args {
    int64_t timeout_ms;
    bide_recovery progress; /* out; also on timeout */
} bide_recovered_args;

typedef struct bide_backup_args {
    const char *path; /* of a new file; it must not exist */
} bide_backup_args;

typedef struct bide_check_args {
    bide_check_report *report; /* out */
} bide_check_args;

/* The presence of a worker, until it is renewed or expires. */
typedef struct bide_announce_args {
    bide_slice worker; /* encoded by bide_worker_encode(); copied, unless buf is given */
    bide_buf *buf;
    int64_t ttl_ms;  /* until the announcement expires; 0: it is removed now */
    bide_buf *made_; /* private: the copy */
} bide_announce_args;

typedef struct bide_workers_args {
    char *cursor;            /* as in list */
    bide_announced *workers; /* out: the caller clears them */
    size_t worker_max;       /* 1 to BIDE_BATCH_JOBS */
    size_t count;            /* out */
} bide_workers_args;

/* Why does a job not run? By its id, or, for a put that has returned BIDE_EXISTS, by its key. */
typedef struct bide_why_args {
    uint64_t id;      /* 0: by topic and key */
    bide_slice topic; /* with id 0 */
    bide_slice key;
    bide_explanation *why; /* out */
} bide_why_args;

struct bide_op {
    bide_op_kind kind;
    int status;              /* BIDE_PENDING until the op has completed, then its code */
    bool applied;            /* set by bide_submit(), see there */
    uint32_t error_item;     /* out: the item of a list that error describes, from 1; 0: none */
    bide_cq *cq;             /* through which it completes if not within submit */
    void (*done)(bide_op *); /* called by bide_cq_drain(); may be NULL */
    void *user;              /* for the caller */

    union {
        bide_put_item put;
        bide_put_many_args put_many;
        bide_reserve_args reserve;
        bide_reserve_job_args reserve_job;
        bide_lease_args lease;
        bide_finish_item finish;
        bide_finish_many_args finish_many;
        bide_touch_many_args touch_many;
        bide_finish_and_reserve_args finish_and_reserve;
        bide_finish_and_put_args finish_and_put;
        bide_release_args release;
        bide_fail_args fail;
        bide_bury_args bury;
        bide_kick_args kick;
        bide_touch_item touch;
        bide_update_args update;
        bide_query_args query;
        bide_fetch_args fetch;
        bide_wait_args wait;
        bide_list_args list;
        bide_topics_args topics;
        bide_purge_args purge;
        bide_topic_args topic;
        bide_restore_args restore;
        bide_stats_args stats;
        bide_topic_stats_args topic_stats;
        bide_topic_set_args topic_set;
        bide_topic_get_args topic_get;
        bide_subscription_args subscription;
        bide_drain_args drain;
        bide_recovered_args recovered;
        bide_backup_args backup;
        bide_check_args check;
        bide_announce_args announce;
        bide_workers_args workers;
        bide_why_args why;
        uint64_t none;
        uint64_t room_[28]; /* the largest size that arguments may grow to */
    };

    /* The message, when the status is not 0. An op on a list succeeds even if items are rejected
     * (except finish_and_put); the message is then that of the first, which error_item names. */
    char error[BIDE_ERROR_SIZE];

    /* Private to the queue. Zero before the first submit. */
    struct {
        void *waiter; /* of the core, while the op waits for an event */
        struct bide_op *next;
        struct bide_op *prev;
        void *wake;     /* the blocking caller, instead of a completion queue */
        void *args_dup; /* copies of arguments, for an op that does not run at once */
        void *options;  /* copies of put options of another size */
        uint64_t hold;  /* the batch that must be committed before the op completes */
        uint64_t bytes; /* counted in max_pending_bytes */
        /* State of an op that runs in several steps. */
        union {
            struct {                  /* kick, purge */
                int64_t since;        /* when it began */
                uint64_t topic;       /* a reference of the core */
                uint64_t batch;       /* of its last changes, */
                uint64_t count;       /* and how many they are; */
                uint64_t older_batch; /* of those before them */
                uint64_t older_count;
            } slice;
            struct {
                union {
                    uint64_t finish_batch; /* finish_and_reserve: that of the finish */
                    uint64_t body_size;    /* body: of the job */
                    uint64_t position;     /* check: where the next step begins */
                    char cursor[40];       /* list: the one that it was called with */
                } part;
                int64_t unreadable_since; /* a body cannot be read; 0: none */
            } fetch;
        } step;
        int status; /* becomes the public status when the op is drained */
        int flags;
        uint32_t order; /* ops with the same number run in order, also during loading; 0: none */
        uint64_t room_[4];
    } private_;
};

/*
 * Submits n ops. Afterwards each op has completed (status is its code; no callback) or is pending
 * (status is BIDE_PENDING; it completes once, through its cq). An op without a cq that would have
 * to wait is rejected with BIDE_EINVAL. Returns the number of pending ops, or a negative code when
 * the list itself is invalid; then no op was submitted.
 *
 * A pending op with `applied` set has taken effect: ops submitted after it see its changes, and it
 * completes when they are stored. If storing fails it completes with an error, and so do the ops
 * that saw its changes. A pending op without `applied` still waits for an event, or will be
 * rejected because of a change that is not stored yet. Only bide_submit() writes the field, so the
 * submitting thread may read it until it has drained the op.
 */
BIDE_API int bide_submit(bide *queue, bide_op *const *ops, size_t n);

/*
 * Cancels a pending op. It still completes once: with BIDE_CANCELLED, or with its result if that
 * came first; a reserve may then hold a job, which the caller must release. A job that a pending
 * reserve_job has reserved returns to its previous state. A write cannot be cancelled and completes
 * normally. Must be called on the thread that drains the op's completion queue. Returns BIDE_OK, or
 * BIDE_EINVAL for an op that is not pending.
 */
BIDE_API int bide_cancel_op(bide *queue, bide_op *op);

/* Creates a completion queue. It belongs to the thread that drains it; any number of queues may use
 * it. */
BIDE_API int bide_cq_new(bide_cq **out);
/* BIDE_EBUSY while ops that use it are pending, or completed but not drained. */
BIDE_API int bide_cq_free(bide_cq *cq);
/* An eventfd that is readable while there are completed ops to drain. Do not read it. */
BIDE_API int bide_cq_fd(const bide_cq *cq);
/* Drains up to max ops (0: all completed ones) and runs their callbacks; returns the number. */
BIDE_API int bide_cq_drain(bide_cq *cq, size_t max);
/* Waits until an op has completed, at most timeout_ms (or BIDE_FOREVER), then drains all. Returns
 * the number; 0 on timeout. */
BIDE_API int bide_cq_wait(bide_cq *cq, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
