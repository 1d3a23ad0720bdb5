/* SPDX-License-Identifier: MIT */
/*
 * op.h - the asynchronous interface: everything that can be asked of a queue is an op.
 *
 * An op is a struct in the caller's memory: its kind, its arguments, room for its result and for
 * its error sentence. Zero it, set the kind and the arguments, and hand it over:
 *
 *     static void take(struct worker *worker)
 *     {
 *         bide_op *list[] = {&worker->op};
 *         while (bide_submit(worker->queue, list, 1) == 0) // 0 pending: finished, no callback
 *             if (!handle(worker))                         // look at op.status and the job
 *                 return;
 *     }
 *
 *     static void taken(bide_op *op) // the callback: it was pending, and has completed
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
 * An op that has completed may be submitted again, as it is or changed, as long as what its
 * arguments point to is still there; one that is pending is refused. The whole program, with
 * poll(), is examples/eventloop.c.
 *
 * Zero is a value, not a default, where BIDE_KEEP is allowed: retain_ms (0: done forgets the job),
 * retry_in_ms (0: at once), priority (0: before all others), and all of an update.
 *
 * Ordering   The ops of one submit run in order, under one lock and one reading of the clocks, unless
 *            they do so much that other threads get their turn between two of them. A kick or purge
 *            of many jobs (1,000, or more than two batches hold) goes on after the ops behind it,
 *            or, without a cq, lets others in between.
 * Ownership  The op belongs to the queue from submit until it has completed. What its arguments
 *            point to is read before submit returns and is then the caller's again; what results
 *            are written to (jobs, items, stats, events) must live as long as the op.
 * Failure    Every op carries its own status and sentence. A refused op does not disturb others.
 * Threads    Any thread may submit. The callbacks of a completion queue run on the thread that
 *            drains it, with no lock held; they may submit, but blocking calls, bide_cq_drain()
 *            and bide_close() are refused there with BIDE_ECALLBACK. bide_cq_wait() is a
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
typedef struct bide_feed bide_feed;

/* The one list of kinds: X(NAME, name, member of the union in bide_op). */
#define BIDE_OPS(X)                                               \
    X(PUT, put, put)                                              \
    X(PUT_MANY, put_many, put_many)                               \
    X(RESERVE, reserve, reserve)                                  \
    X(RESERVE_JOB, reserve_job, reserve_job)                      \
    X(DELETE, delete, lease)                                      \
    X(DONE, done, finish)                                         \
    X(FINISH_MANY, finish_many, finish_many)                      \
    X(TOUCH_MANY, touch_many, touch_many)                         \
    X(FINISH_AND_RESERVE, finish_and_reserve, finish_and_reserve) \
    X(RELEASE, release, release)                                  \
    X(GIVE_BACK, give_back, lease)                                \
    X(FAIL, fail, fail)                                           \
    X(BURY, bury, bury)                                           \
    X(KICK, kick, kick)                                           \
    X(KICK_JOB, kick_job, lease)                                  \
    X(TOUCH, touch, touch)                                        \
    X(UPDATE, update, update)                                     \
    X(CANCEL, cancel, lease)                                      \
    X(PEEK, peek, look)                                           \
    X(PEEK_FIRST, peek_first, look)                               \
    X(FIND, find, look)                                           \
    X(JOB_STATS, job_stats, look)                                 \
    X(BODY, body, fetch)                                          \
    X(RESULT, result, fetch)                                      \
    X(WAIT, wait, wait)                                           \
    X(LIST, list, list)                                           \
    X(TOPICS, topics, topics)                                     \
    X(WAITING, waiting, topics)                                   \
    X(PURGE, purge, purge)                                        \
    X(PAUSE, pause, topic)                                        \
    X(RESUME, resume, topic)                                      \
    X(TOPIC_REF, topic_ref, topic)                                \
    X(RESTORE, restore, restore)                                  \
    X(STATS, stats, stats)                                        \
    X(TOPIC_STATS, topic_stats, topic_stats)                      \
    X(SUBSCRIBE, subscribe, feed)                                 \
    X(EVENTS, events, feed)                                       \
    X(UNSUBSCRIBE, unsubscribe, feed)                             \
    X(PING, ping, none)                                           \
    X(RECOVERED, recovered, recovered)                            \
    X(BACKUP, backup, backup)                                     \
    X(CHECK, check, check)                                        \
    X(DRAIN, drain, drain)

typedef enum bide_op_kind {
    BIDE_OP_NONE = 0,
#define BIDE_OP_ENUM(NAME, name, member) BIDE_OP_##NAME,
    BIDE_OPS(BIDE_OP_ENUM)
#undef BIDE_OP_ENUM
        BIDE_OP_COUNT
} bide_op_kind;

/* "put", "reserve", ...; "?" for a number that is none. */
BIDE_API const char *bide_op_name(bide_op_kind kind);

/* How a reserve chooses among its topics, for each job that it takes. */
typedef enum bide_strategy {
    BIDE_BY_PRIORITY = 0, /* the best job over all of them: smallest priority, then id */
    BIDE_STRICT = 1,      /* the first topic, in the order given, that has a ready job */
    BIDE_WEIGHTED = 2,    /* at random in proportion to the weights, among those with ready jobs */
    BIDE_FAIR = 3,        /* round robin: the topic that was served longest ago */
} bide_strategy;

/* One job of a put or put_many. */
typedef struct bide_put_item {
    bide_slice topic;
    bide_slice body;                 /* copied, unless buf is given */
    bide_buf *buf;                   /* the body as a buffer; the queue takes its own reference */
    const bide_put_options *options; /* NULL: BIDE_PUT_OPTIONS_INIT */
    uint64_t id;                     /* out: the new job, or with BIDE_EXISTS the holder */
    int status;                      /* out, in put_many: this item's code */
    bide_buf *made_;                 /* private: the copy of the body */
} bide_put_item;

/* One job to finish. keep: done with a result; else delete. */
typedef struct bide_finish_item {
    uint64_t id;
    uint64_t token;
    bool keep;
    bide_slice result; /* copied, unless buf is given */
    bide_buf *buf;
    int64_t retain_ms; /* BIDE_KEEP: as the put said */
    int status;        /* out, in finish_many and finish_and_reserve */
    bide_buf *made_;   /* private: the copy of the result */
} bide_finish_item;

/* One lease to extend. */
typedef struct bide_touch_item {
    uint64_t id;
    uint64_t token;
    int64_t extend_ms; /* the lease ends that much from now; 0: the job's ttr; BIDE_KEEP: as before,
                            which only says progress and is not counted */
    bide_slice progress; /* up to BIDE_PROGRESS_MAX bytes, shown by looks, not stored */
    int64_t left_ms;     /* out: how long the lease lasts now */
    int status;          /* out, in touch_many */
} bide_touch_item;

/* Where to take jobs from, and where to put them. */
typedef struct bide_reserve_args {
    const bide_slice *topics;
    size_t topic_count;
    const uint32_t *weights; /* with BIDE_WEIGHTED: one each, at least 1; NULL: all alike */
    bide_strategy strategy;
    int64_t timeout_ms; /* how long to wait for the first job; 0: not at all; BIDE_FOREVER */
    bide_job *jobs;     /* out: room for job_max snapshots, cleared by the caller */
    size_t job_max;     /* 1 to BIDE_BATCH_JOBS; times topic_count at most BIDE_RESERVE_WORK */
    size_t count;       /* out: how many were taken; at least 1 when the status is 0 */
} bide_reserve_args;

/* What an update changes; the rest stays. Begin with BIDE_UPDATE_INIT. */
typedef struct bide_update_args {
    uint64_t id;
    int64_t priority;  /* BIDE_KEEP, or 0 to 2^32-1 */
    int64_t delay_ms;  /* BIDE_KEEP; delayed and ready jobs only: due that much from now */
    int64_t run_at_ms; /* BIDE_KEEP; delayed and ready jobs only: due at that moment */
    int64_t ttr_ms;    /* BIDE_KEEP; 0 is default_ttr */
    bide_slice topic;  /* empty: stays; else the job moves, with its key */
} bide_update_args;

/* Changes nothing but what is then set. */
#define BIDE_UPDATE_INIT                               \
    {                                                  \
        0, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, \
        {                                              \
            NULL, 0                                    \
        }                                              \
    }

/* Which jobs a list returns. Zeroed: all. */
typedef struct bide_filter {
    bide_slice key;     /* exactly this key */
    bide_slice text;    /* these bytes, at most BIDE_TEXT_MAX, occur in the body */
    int64_t min_age_ms; /* created at least that long ago */
    int64_t max_age_ms; /* created at most that long ago; 0: no limit */
    uint32_t states;    /* with BIDE_STATE_ANY: a bit 1 << state for each state; 0: all */
} bide_filter;

/* Where the loading of what was stored has come to. */
typedef enum bide_phase {
    BIDE_PHASE_COUNTING = 0,
    BIDE_PHASE_LOADING = 1,
    BIDE_PHASE_ORDERING = 2,
    BIDE_PHASE_RECOVERED = 3,
} bide_phase;

/* "counting", "loading", "ordering", "recovered"; "?" for a number that is none. */
BIDE_API const char *bide_phase_name(bide_phase phase);

typedef struct bide_recovery {
    bide_phase phase;
    uint64_t loaded;
    uint64_t
        failed; /* rows that make no sense, kept aside, and damaged places of the file; logged */
    uint64_t total; /* 0 while counting */
} bide_recovery;

/* What bide_check() found. */
typedef struct bide_check_report {
    uint64_t jobs;        /* stored, and in order */
    uint64_t damaged;     /* stored rows that cannot be read, make no sense, or were set aside */
    uint64_t differences; /* jobs that are not stored as the queue has them */
    char problem[BIDE_ERROR_SIZE]; /* the first thing that is wrong; "" if nothing is */
} bide_check_report;

/* ---- the arguments and results of each kind ---- */

typedef struct bide_put_many_args {
    bide_put_item *items; /* at most BIDE_BATCH_JOBS and BIDE_BATCH_BYTES */
    size_t count;
    size_t accepted; /* out */
} bide_put_many_args;

typedef struct bide_reserve_job_args {
    uint64_t id;
    bide_job *job; /* out */
} bide_reserve_job_args;

/* delete, give_back; kick_job and cancel use the id only */
typedef struct bide_lease_args {
    uint64_t id;
    uint64_t token; /* 0: not as a holder */
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
    bide_finish_item finish;   /* its code in finish.status; a refusal there does not */
    bide_reserve_args reserve; /* keep the reserve from happening: the op's status. An op that is
                                    refused as a whole has its code in both */
} bide_finish_and_reserve_args;

typedef struct bide_release_args {
    uint64_t id;
    uint64_t token;
    int64_t priority; /* or BIDE_KEEP */
    int64_t delay_ms;
} bide_release_args;

typedef struct bide_fail_args {
    uint64_t id;
    uint64_t token;
    bide_slice error;    /* cut at max_error_size */
    int64_t retry_in_ms; /* BIDE_KEEP: by the job's backoff */
    bide_state state;    /* out: delayed (or ready), buried, or gone if it was cancelled */
    int64_t delay_ms;    /* out: until the retry */
} bide_fail_args;

typedef struct bide_bury_args {
    uint64_t id;
    uint64_t token;
    int64_t priority;  /* or BIDE_KEEP */
    bide_slice reason; /* kept as last_error if not empty; cut at max_error_size */
} bide_bury_args;

typedef struct bide_kick_args {
    bide_slice topic;
    uint64_t max;
    uint64_t count; /* out */
} bide_kick_args;

typedef struct bide_look_args {
    uint64_t id;      /* peek, job_stats */
    bide_slice topic; /* peek_first, find */
    bide_slice key;   /* find */
    bide_state state; /* peek_first */
    bide_job *job;    /* out */
} bide_look_args;

typedef struct bide_fetch_args {
    uint64_t id;
    bide_buf *buf; /* out: yours to unref */
} bide_fetch_args;

typedef struct bide_wait_args {
    uint64_t id;
    int64_t timeout_ms;
    bide_state state; /* out: done, buried or gone */
    bide_buf *result; /* out: yours to unref; NULL if there is none */
    bool finished; /* out: the work is done. Of gone: while the call waited the job's holder deleted
                         it, or done kept nothing of it. False if it was deleted by another, expired,
                         or was not there to begin with. */
} bide_wait_args;

typedef struct bide_list_args {
    bide_slice topic; /* empty: all topics */
    bide_state state; /* BIDE_STATE_ANY: all */
    bide_filter filter;
    bool with_body;
    char *cursor;   /* in and out: BIDE_CURSOR_SIZE bytes; "" begins, and "" ends */
    bide_job *jobs; /* out */
    size_t job_max; /* 1 to BIDE_BATCH_JOBS */
    size_t count;   /* out; may be 0 before the end */
} bide_list_args;

typedef struct bide_topics_args {
    char *cursor;             /* as in list */
    bide_topic_stats *topics; /* out */
    size_t topic_max;         /* 1 to BIDE_BATCH_JOBS */
    size_t count;             /* out; for waiting, only topics somebody waits for */
} bide_topics_args;

typedef struct bide_purge_args {
    bide_slice topic;
    bide_state state; /* not reserved: a reserved job belongs to its holder */
    uint64_t count;   /* out; also when it failed on the way */
} bide_purge_args;

/* pause, resume, topic_ref */
typedef struct bide_topic_args {
    bide_slice topic;
    int64_t for_ms; /* pause: BIDE_FOREVER until resume */
    int delta;      /* topic_ref: +1 or -1 */
} bide_topic_args;

typedef struct bide_restore_args {
    const bide_job *job;                 /* as exported; id and token are not looked at */
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

/* subscribe, events, unsubscribe */
typedef struct bide_feed_args {
    bide_feed *feed;   /* out of subscribe, in of the others */
    bide_slice topic;  /* subscribe: only this topic; empty: all */
    uint32_t kinds;    /* subscribe: 1 << bide_event_kind, or-ed; 0: all */
    uint32_t capacity; /* subscribe: events kept for a slow reader; 0: 1,024 */
    int64_t timeout_ms;
    bide_event *events; /* out of events */
    size_t event_max;
    size_t count;  /* out; may be 0 when some were lost */
    uint64_t lost; /* out: how many were lost before the first of these */
} bide_feed_args;

typedef struct bide_drain_args {
    bool on;
} bide_drain_args;

typedef struct bide_recovered_args {
    int64_t timeout_ms;
    bide_recovery progress; /* out; also when the time is over */
} bide_recovered_args;

typedef struct bide_backup_args {
    const char *path; /* of a file that does not exist */
} bide_backup_args;

typedef struct bide_check_args {
    bide_check_report *report; /* out */
} bide_check_args;

struct bide_op {
    bide_op_kind kind;
    int status;              /* BIDE_PENDING until completed, then the code */
    bool applied;            /* written by bide_submit(), see there */
    bide_cq *cq;             /* where it completes when it cannot finish within submit */
    void (*done)(bide_op *); /* called by bide_cq_drain(); may be NULL */
    void *user;              /* yours */

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
        bide_release_args release;
        bide_fail_args fail;
        bide_bury_args bury;
        bide_kick_args kick;
        bide_touch_item touch;
        bide_update_args update;
        bide_look_args look;
        bide_fetch_args fetch;
        bide_wait_args wait;
        bide_list_args list;
        bide_topics_args topics;
        bide_purge_args purge;
        bide_topic_args topic;
        bide_restore_args restore;
        bide_stats_args stats;
        bide_topic_stats_args topic_stats;
        bide_feed_args feed;
        bide_drain_args drain;
        bide_recovered_args recovered;
        bide_backup_args backup;
        bide_check_args check;
        uint64_t none;
    };

    char error[BIDE_ERROR_SIZE]; /* the sentence, when the status is not 0 */

    /* The queue's own while the op is pending. Zero before the first use. */
    struct {
        void *waiter; /* the core's record of why it waits */
        struct bide_op *next;
        struct bide_op *prev;
        void *wake;     /* a blocking caller, instead of a completion queue */
        void *kept;     /* copies of arguments, for an op that cannot be run at once */
        uint64_t hold;  /* the batch that must be stored before the answer may be given */
        uint64_t bytes; /* counted in max_pending_bytes */
        uint64_t
            bound[6]; /* of a sliced op (kick, purge): on what it works, and how far it is stored */
        int status;   /* becomes the public one when the owner drains */
        int flags;
        uint32_t order; /* ops with the same number run in order, also while loading; 0: alone */
    } private_;
};

/*
 * Hands over n ops. Afterwards each is finished (status is its code; no callback) or pending
 * (status is BIDE_PENDING; it completes once, through its cq). An op without a cq that would
 * have to wait is refused with BIDE_EINVAL. Answers how many are pending, or a negative code
 * when the list itself is not valid; then no op was looked at.
 *
 * A pending op with applied set has been carried out: ops submitted after it see its effect, and
 * only its answer waits until the change is stored. If that fails it completes with an error, and
 * so do the ops that saw its effect. A pending op without it may still wait for something to
 * happen, or is refused because of a change that is not stored yet. Only bide_submit() writes the
 * field, so the submitting thread may read it until it has drained the op.
 */
BIDE_API int bide_submit(bide *queue, bide_op *const *ops, size_t n);

/*
 * Asks for a pending op to be given up. It still completes once: as BIDE_CANCELLED, or with its
 * result if that came first; a reserve may then hold a job, which the caller gives back. A job that
 * reserve_job has taken and not answered yet is left as it was before. A write
 * cannot be taken back and completes as it would have. Only on the thread that drains the op's
 * completion queue. Answers BIDE_OK, or BIDE_EINVAL for an op that is not pending.
 */
BIDE_API int bide_cancel_op(bide *queue, bide_op *op);

/* A completion queue. It belongs to the thread that drains it and serves any number of queues. */
BIDE_API int bide_cq_new(bide_cq **out);
/* BIDE_EBUSY while ops that name it are pending or completed but not drained. */
BIDE_API int bide_cq_free(bide_cq *cq);
/* An eventfd that is readable while there is something to drain. Do not read it. */
BIDE_API int bide_cq_fd(const bide_cq *cq);
/* Runs up to max callbacks (0: all that have completed by now); answers how many ran. */
BIDE_API int bide_cq_drain(bide_cq *cq, size_t max);
/* Waits until something has completed, at most timeout_ms (or BIDE_FOREVER), then drains; answers
 * how many ran: 0 when the time is over. */
BIDE_API int bide_cq_wait(bide_cq *cq, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
