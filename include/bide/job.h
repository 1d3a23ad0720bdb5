/* SPDX-License-Identifier: MIT */
/*
 * job.h - the states and the snapshot of a job, the options of a put, and the statistics of queues
 * and topics.
 *
 * All times are milliseconds. Fields named *_at_ms, and fields marked as timestamps, are
 * milliseconds since the epoch by the wall clock; 0 means never. Every other *_ms is a duration.
 *
 * The structs that the library fills, those that stand in arrays of the program, and the arguments
 * of calls that may get more of them have `room_`: space for members of later versions, so that a
 * program runs with a newer library without being compiled again. It must be zero when the struct
 * is an argument; zeroing the struct or naming its members in an initializer suffices. Option
 * structs have a `size` instead.
 */
#ifndef BIDE_JOB_H
#define BIDE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bide/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BIDE_TOPIC_MAX            200                       /* bytes in a topic name */
#define BIDE_KEY_MAX              200                       /* bytes in a key */
#define BIDE_PROGRESS_MAX         200                       /* bytes of progress text */
#define BIDE_CURSOR_SIZE          64                        /* bytes of a listing cursor */
#define BIDE_ID_MAX               ((UINT64_C(1) << 53) - 1) /* ids and tokens fit in a double */
#define BIDE_TIME_MAX_MS          INT64_C(4294967295000) /* 136 years: the longest delay, ttr, wait */
#define BIDE_TIMESTAMP_MAX_MS     INT64_C(7258118400000) /* the year 2200: the last timestamp */
#define BIDE_BATCH_JOBS           1000              /* items in one put_many, finish_many, ... */
#define BIDE_BATCH_BYTES          ((size_t)8 << 20) /* bytes of jobs in a put_many, list, reserve */
#define BIDE_RESERVE_TOPICS       5000              /* topics in one reserve */
#define BIDE_RESERVE_WORK         1000000           /* topics times jobs in one reserve */
#define BIDE_SUBSCRIPTIONS_MAX    100               /* subscriptions at a time */
#define BIDE_EVENTS_MAX           10000             /* events in one call */
#define BIDE_TEXT_MAX             1024              /* bytes of the text of a filter */
#define BIDE_EXAMINE_MAX          10000             /* jobs examined by one call of list */
#define BIDE_HISTORY_MAX          10                /* failures that a job remembers */
#define BIDE_FAILURE_TEXT_MAX     384               /* bytes of error and holder in each of them */
#define BIDE_HOLDER_MAX           128               /* bytes in the name of a holder or worker */
#define BIDE_ANNOUNCED_SIZE_MAX   16384             /* bytes of one announcement */
#define BIDE_ANNOUNCED_TOPICS_MAX 100               /* topics in it */
#define BIDE_ANNOUNCED_JOBS_MAX   100               /* running jobs in it */
#define BIDE_ANNOUNCED_MAX        100000            /* announced workers at a time */

#define BIDE_DEFAULT_PRIORITY 1024 /* jobs below it count as urgent */
#define BIDE_NO_RETRY_LIMIT   (-1) /* max_retries: unlimited */
#define BIDE_FOREVER          (-1) /* no timeout */
#define BIDE_KEEP             (-1) /* do not change priority, ttr, retention ... */
#define BIDE_NO_DEFAULT       (-2) /* put: none, whatever the policy of the topic has; topic_set: clear */
#define BIDE_UNLIMITED        (-3) /* max_retries of a policy: unlimited, as a setting */

#define BIDE_RATE_MAX        1000000             /* jobs per period, and the burst */
#define BIDE_RATE_PERIOD_MAX INT64_C(2678400000) /* 31 days in milliseconds */

/* Borrowed bytes. */
typedef struct bide_slice {
    const void *data;
    size_t size;
} bide_slice;

/* The states of a job. GONE is only returned, never stored: the job does not exist (any more). */
typedef enum bide_state {
    BIDE_STATE_GONE = 0,
    BIDE_STATE_DELAYED = 1,
    BIDE_STATE_READY = 2,
    BIDE_STATE_RESERVED = 3,
    BIDE_STATE_BURIED = 4,
    BIDE_STATE_DONE = 5,
} bide_state;

/* For calls that accept any state. */
#define BIDE_STATE_ANY BIDE_STATE_GONE

/* "delayed", "ready", ...; "gone" for BIDE_STATE_GONE; "?" for an unknown number. */
BIDE_API const char *bide_state_name(bide_state state);

/*
 * An immutable, reference-counted byte array: bodies and results are passed on without a copy. A
 * NUL that is not counted follows the last byte. Any thread may ref and unref.
 */
typedef struct bide_buf bide_buf;

/* A new buffer with a copy of the bytes and one reference; NULL when out of memory. */
BIDE_API bide_buf *bide_buf_new(const void *data, size_t size);
/* Acquires a reference and returns the buffer. NULL is allowed. */
BIDE_API bide_buf *bide_buf_ref(bide_buf *buf);
/* Releases a reference; the last one frees the buffer. NULL is allowed. */
BIDE_API void bide_buf_unref(bide_buf *buf);
/* The bytes, valid as long as a reference is held; NULL for NULL. */
BIDE_API const void *bide_buf_data(const bide_buf *buf);
/* The number of bytes; 0 for NULL. */
BIDE_API size_t bide_buf_size(const bide_buf *buf);

/* What a put does when a live job of the topic holds its key. */
typedef enum bide_conflict {
    BIDE_REJECT = 0,  /* fail with BIDE_EXISTS and the id of the holder */
    BIDE_REPLACE = 1, /* replace the holder in one step, unless it is reserved */
    BIDE_SKIP = 2, /* as BIDE_REJECT; but bide_finish_and_put() leaves out this put and goes on */
} bide_conflict;

/* Bits of bide_put_options.fallbacks. */
#define BIDE_FALLBACK_RETRIES 1 /* max_retries applies if the policy of the topic has none */

/*
 * The options of a new job. Begin with BIDE_PUT_OPTIONS_INIT, or pass NULL for it.
 *
 * The values that INIT gives to ttr_ms, max_retries, backoff_base_ms, backoff_max_ms, expires_at_ms
 * and retain_ms mean the default of the topic (bide_topic_policy) or, without one, what is said
 * below. BIDE_NO_DEFAULT in one of these members means the latter in any case.
 */
typedef struct bide_put_options {
    size_t size;             /* sizeof(bide_put_options), set by the INIT macro */
    uint32_t priority;       /* smaller is reserved first */
    bide_conflict conflict;  /* only with a key */
    int64_t delay_ms;        /* until the job is ready, by the boot-time clock */
    int64_t run_at_ms;       /* or: when it is ready, by the wall clock; not both */
    int64_t ttr_ms;          /* duration of a lease; 0: the queue's default_ttr */
    bide_slice key;          /* at most one live job of the topic has this key */
    bool key_hold_retained;  /* hold the key while the result is retained, too */
    int32_t max_retries;     /* maximum retries (default: unlimited); 0: the first failure buries */
    int64_t backoff_base_ms; /* first retry, plus up to half of it at random; 0: 5 s */
    int64_t backoff_max_ms;  /* longest retry, at random from 2/3 of it; 0: 1 h */
    int64_t expires_at_ms;   /* removed if not reserved before, by the wall clock; 0: never */
    int64_t retain_ms;       /* how long done retains the result; 0: done removes the job */
    uint64_t fallbacks;      /* BIDE_FALLBACK_*, or-ed */
} bide_put_options;

#define BIDE_PUT_OPTIONS_INIT                                                                    \
    {                                                                                            \
        sizeof(bide_put_options), BIDE_DEFAULT_PRIORITY, BIDE_REJECT, 0, 0, 0, {NULL, 0}, false, \
            BIDE_NO_RETRY_LIMIT, 0, 0, 0, 0, 0                                                   \
    }

/*
 * A snapshot of a job. The queue fills it in. It holds references to the body, key and texts, so it
 * is valid until bide_job_clear(), whatever happens to the job.
 */
typedef struct bide_job {
    uint64_t id;
    uint64_t token; /* of the lease; set only by reserves, else 0 */
    bide_state state;
    uint32_t priority;
    const void *body; /* NULL if the call does not return bodies */
    size_t body_size; /* set also without the body */
    const void *key;  /* NULL without a key */
    size_t key_size;
    const char *last_error; /* NULL if it never failed */
    size_t last_error_size;
    const void *result; /* NULL unless done with a result */
    size_t result_size;
    const char *progress; /* the text of the last touch in this lease, or NULL */
    size_t progress_size;

    int64_t ttr_ms;
    int64_t delay_ms;  /* of the last put, release, fail or update; not stored */
    int64_t left_ms;   /* until due, end of lease, or end of retention; 0 in other states */
    int64_t age_ms;    /* since the put */
    int64_t run_at_ms; /* delayed: when it becomes ready, a timestamp */
    bool run_at_wall;  /* run_at_ms was given as a timestamp and follows the wall clock */
    bool key_hold_retained;
    bool cancel_wanted; /* reserved, and bide_cancel() was called */
    int32_t max_retries;
    uint32_t failures; /* since the put or the last kick */
    int64_t backoff_base_ms;
    int64_t backoff_max_ms;
    int64_t expires_at_ms;
    int64_t retain_ms;

    uint32_t reserves; /* counters since the put */
    uint32_t timeouts;
    uint32_t releases;
    uint32_t fails;
    uint32_t buries;
    uint32_t kicks;
    uint32_t touches;

    int64_t created_ms; /* timestamps; 0: never */
    int64_t ready_ms;
    int64_t reserved_ms;
    int64_t touched_ms;
    int64_t buried_ms;
    int64_t done_ms;

    const void *history; /* the last failures, encoded: see bide_job_history(); NULL: none */
    size_t history_size;
    bide_buf *history_buf_; /* private: what history points into */

    const char *holder; /* reserved: the name that its reserve gave; NULL: none, or not reserved */
    size_t holder_size;
    bide_buf *holder_buf_; /* private: what holder points into */

    uint64_t room_[8];
    char topic[BIDE_TOPIC_MAX + 1];

    bide_buf *bufs_[5]; /* private: what the other pointers point into */
} bide_job;

/* Releases the references of a snapshot and zeroes it. A zeroed snapshot is allowed. */
BIDE_API void bide_job_clear(bide_job *job);

/* How an attempt at a job failed. */
typedef enum bide_failure_kind {
    BIDE_FAILURE_FAILED = 0,       /* fail */
    BIDE_FAILURE_BURIED = 1,       /* bury, or the body could not be read */
    BIDE_FAILURE_TIMED_OUT = 2,    /* the ttr expired */
    BIDE_FAILURE_DISCONNECTED = 3, /* the connection of the holder was lost */
    BIDE_FAILURE_RESTARTED = 4,    /* the queue was restarted while the job was reserved */
} bide_failure_kind;

#define BIDE_FAILURE_KINDS 5

/* "failed", "buried", ...; "?" for an unknown number. */
BIDE_API const char *bide_failure_name(bide_failure_kind kind);

/* One failure of a job. */
typedef struct bide_failure {
    bide_failure_kind kind;
    uint32_t attempt;  /* the number of reservations since the put at that time */
    int64_t at_ms;     /* a timestamp */
    bide_slice error;  /* truncated to BIDE_FAILURE_TEXT_MAX; empty: without a text */
    bide_slice holder; /* the name of the worker; empty: unknown */
    uint64_t room_[2];
} bide_failure;

/*
 * Decodes the history of a snapshot: its last failures, oldest first, at most BIDE_HISTORY_MAX. Fills
 * in up to max of them, the latest ones, and returns how many. The texts point into the snapshot.
 */
BIDE_API size_t bide_job_history(const bide_job *job, bide_failure *failures, size_t max);

/* Counters of a queue since it was opened, or of a topic since it was created. */
typedef struct bide_counters {
    uint64_t puts;
    uint64_t reserves;
    uint64_t deletes; /* by delete, cancel and replace */
    uint64_t dones;
    uint64_t releases; /* give_back is not counted */
    uint64_t fails;
    uint64_t timeouts;
    uint64_t buries;
    uint64_t kicks;
    uint64_t touches;
    uint64_t expired; /* removed: not reserved before expires_at */
    uint64_t retired; /* done jobs removed: retention ended, or max_done_per_topic reached */
    uint64_t purged;
    uint64_t pauses;
    uint64_t room_[2]; /* few: each topic in memory has these counters */
} bide_counters;

/* The number of jobs in each state. */
typedef struct bide_counts {
    uint64_t delayed;
    uint64_t ready;
    uint64_t reserved;
    uint64_t buried;
    uint64_t done;
    uint64_t urgent; /* ready with priority < 1024 */
    uint64_t room_[2];
} bide_counts;

/*
 * The policy of a topic: defaults of the jobs that are put into it, and limits. In bide_topic_set()
 * BIDE_KEEP leaves a member as it is and BIDE_NO_DEFAULT clears it. A member that is not set is 0,
 * except max_retries, which is BIDE_NO_DEFAULT then. So a policy that bide_topic_get() returns can
 * be set again; it never contains BIDE_KEEP. Without a rate there is no period and no burst.
 */
typedef struct bide_topic_policy {
    /* Defaults, for puts that do not say otherwise. They are stored with the job at its put. */
    int64_t ttr_ms;
    int64_t max_retries; /* or BIDE_UNLIMITED */
    int64_t backoff_base_ms;
    int64_t backoff_max_ms;
    int64_t retain_ms;
    int64_t expires_in_ms; /* the job expires this long after its put */
    /* Limits, for all clients of the queue together. */
    int64_t max_jobs;       /* in the topic, instead of max_jobs_per_topic */
    int64_t concurrency;    /* jobs reserved at a time */
    int64_t rate;           /* jobs reserved per period, up to BIDE_RATE_MAX */
    int64_t rate_period_ms; /* up to BIDE_RATE_PERIOD_MAX; not set: a second */
    int64_t rate_burst;     /* jobs at once after a lull, up to BIDE_RATE_MAX; not set: rate */
    uint64_t room_[5];
} bide_topic_policy;

#define BIDE_TOPIC_POLICY_INIT                                                                  \
    {                                                                                           \
        BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, \
            BIDE_KEEP, BIDE_KEEP, BIDE_KEEP,                                                    \
        {                                                                                       \
            0                                                                                   \
        }                                                                                       \
    }

/* Which limit of its policy keeps jobs of a topic from being reserved. */
typedef enum bide_limit {
    BIDE_LIMIT_NONE = 0,
    BIDE_LIMIT_CONCURRENCY = 1, /* as many jobs are reserved as may be */
    BIDE_LIMIT_RATE = 2,        /* until limit_left_ms has passed */
    BIDE_LIMIT_RECOVERY = 3,    /* the jobs that were reserved at the stop are being loaded */
} bide_limit;

/* "none", "concurrency", ...; "?" for an unknown number. */
BIDE_API const char *bide_limit_name(bide_limit limit);

typedef struct bide_topic_stats {
    char name[BIDE_TOPIC_MAX + 1];
    bide_counts jobs;
    bide_counters total;
    uint64_t waiting;            /* waiting reserves that include this topic */
    uint64_t references;         /* by topic_ref */
    int64_t oldest_ready_age_ms; /* how long the oldest ready job has been ready */
    bool paused;
    int64_t pause_ms;      /* duration of the pause; 0 when not paused */
    int64_t pause_left_ms; /* 0 when not paused */
    uint64_t concurrency;  /* of the policy; 0: no limit. jobs.reserved has how many are reserved */
    uint64_t rate;         /* jobs per rate_period_ms; 0: no limit */
    int64_t rate_period_ms;
    int64_t limit_left_ms; /* BIDE_LIMIT_RATE: until the next job may be reserved */
    bide_limit limited;    /* reserves skip the topic for this reason, apart from a pause */
    bool has_policy;       /* anything is set: see bide_topic_get() */
    uint64_t room_[3];
} bide_topic_stats;

typedef struct bide_stats {
    bide_counts jobs;
    bide_counters total;
    uint64_t topics;
    uint64_t waiting;  /* waiting reserves */
    uint64_t watching; /* waiting calls of wait and events */
    uint64_t pending_ops;
    uint64_t memory_bytes; /* of jobs, bodies and topics, as counted by the queue */
    int64_t oldest_ready_age_ms;
    int64_t uptime_ms;
    uint64_t last_id; /* the highest id ever assigned */
    bool draining;
    uint64_t room_[8];
} bide_stats;

/* ---- why a job does not run ---- */

/* The first reason that applies. New reasons are added at the end. */
typedef enum bide_why_reason {
    BIDE_WHY_NONE = 0,        /* nothing: it is the next of its topic; or nothing holds the key */
    BIDE_WHY_GONE = 1,        /* it was deleted, has finished without a result, or has expired */
    BIDE_WHY_UNKNOWN = 2,     /* no job has had this id yet */
    BIDE_WHY_DONE = 3,        /* it has run */
    BIDE_WHY_RESERVED = 4,    /* it runs: until the lease ends */
    BIDE_WHY_BURIED = 5,      /* until it is kicked */
    BIDE_WHY_DELAYED = 6,     /* until it is due */
    BIDE_WHY_PAUSED = 7,      /* its topic is paused */
    BIDE_WHY_CONCURRENCY = 8, /* as many jobs of its topic run as may */
    BIDE_WHY_RATE = 9,        /* its topic may start no job before `until` */
    BIDE_WHY_NO_WORKER = 10,  /* no call waits for its topic, no announced worker serves it, and
                                    no job of it is reserved */
    BIDE_WHY_AHEAD = 11,      /* other jobs of its topic come first */
    BIDE_WHY_KEY_HELD = 12,   /* by key: `id` holds it */
    BIDE_WHY_DRAINING = 13,   /* by key: nothing holds it, but the queue accepts no jobs */
    BIDE_WHY_CLOSING = 14,    /* the queue is shut down: no job is reserved any more */
} bide_why_reason;

#define BIDE_WHY_REASONS 15

/* "none", "gone", ...; "?" for an unknown number. */
BIDE_API const char *bide_why_name(bide_why_reason reason);

#define BIDE_WHY_AHEAD_MAX  1000 /* jobs ahead are counted up to this number */
#define BIDE_WHY_ERROR_SIZE 256  /* bytes of an error text here, with its NUL */
#define BIDE_WHY_TEXT_SIZE  640

typedef struct bide_explanation {
    bide_why_reason reason;
    bide_state state;   /* of the job; gone: there is none */
    uint64_t id;        /* of the job; by key: of the one that holds it; 0: none */
    int64_t until_ms;   /* when the reason ends, a timestamp; 0: not known, or not by itself */
    int64_t left_ms;    /* the same from now */
    uint64_t ahead;     /* ready: the jobs of its topic that come first, */
    bool ahead_more;    /* or at least as many */
    bool cancel_wanted; /* reserved, and bide_cancel() was called */
    bool draining;      /* the queue accepts no new jobs */
    uint32_t attempts;  /* reservations since the put */
    uint32_t failures;  /* since the put or the last kick */
    uint64_t waiting;   /* calls that wait for its topic */
    uint64_t workers;   /* announced workers that serve its topic */
    uint64_t running;   /* reserved jobs of its topic */
    uint64_t limit;     /* concurrency: how many may be reserved at a time */
    char topic[BIDE_TOPIC_MAX + 1];
    char holder[BIDE_HOLDER_MAX + 1]; /* reserved: who holds it, with ? for unprintable bytes */
    char error[BIDE_WHY_ERROR_SIZE];  /* buried: its last error, likewise */
    char text[BIDE_WHY_TEXT_SIZE];    /* one sentence */
    uint64_t room_[8];
} bide_explanation;

/* ---- workers ---- */

/* A job that a worker runs. */
typedef struct bide_running_job {
    uint64_t id;
    int64_t since_ms; /* when it began, a timestamp */
    bide_slice topic;
    bide_slice progress; /* at most BIDE_PROGRESS_MAX bytes; may be empty */
    uint64_t room_[2];
} bide_running_job;

/* A worker as it announces itself. Its numbers are at most BIDE_ID_MAX. */
typedef struct bide_worker_info {
    bide_slice name;     /* 1 to BIDE_HOLDER_MAX bytes; another one at every start */
    bide_slice host;     /* at most 255 bytes, as is the version */
    bide_slice version;  /* of the program */
    uint64_t connection; /* its number, if a bided announces one of its connections; else 0 */
    uint64_t pid;
    uint64_t threads;   /* jobs that it may run at a time */
    uint64_t running;   /* jobs that it runs: job_count, or more if they are not all listed */
    uint64_t done;      /* since its start: jobs that ended well, */
    uint64_t failed;    /* that are to be retried, or that are buried, */
    uint64_t lost;      /* and whose lease was lost or whose outcome could not be stored */
    int64_t started_ms; /* a timestamp */
    const bide_slice *topics;
    size_t topic_count; /* at most BIDE_ANNOUNCED_TOPICS_MAX */
    const bide_running_job *jobs;
    size_t job_count; /* at most BIDE_ANNOUNCED_JOBS_MAX */
    uint64_t room_[4];
} bide_worker_info;

/* An announced worker, as it is stored and returned. The queue fills it in; it holds a reference to
 * the bytes. */
typedef struct bide_announced {
    const void *data; /* see bide_worker_decode() */
    size_t data_size;
    bide_buf *data_buf_;  /* private: what data points into */
    int64_t announced_ms; /* by the last announcement, a timestamp */
    int64_t left_ms;      /* until it expires */
    uint64_t room_[3];
} bide_announced;

/* Releases the reference and zeroes the struct. A zeroed one is allowed. */
BIDE_API void bide_announced_clear(bide_announced *announced);

/* Encodes a worker for an announcement. What exceeds BIDE_ANNOUNCED_SIZE_MAX is left out, the last job
 * first. NULL when out of memory, or if the info is invalid: the name has another size, there are
 * too many topics or jobs, a topic is named twice, a text is too long, or a number too large. */
BIDE_API bide_buf *bide_worker_encode(const bide_worker_info *info);

/* Decodes it again. The texts point into the bytes, topics and jobs into the arrays, which have room
 * for topic_max and job_max items; further ones are left out. False if the bytes are malformed. */
BIDE_API bool bide_worker_decode(const void *data, size_t size, bide_worker_info *info,
                                 bide_slice *topics, size_t topic_max, bide_running_job *jobs,
                                 size_t job_max);

/* What happened to a job; see bide_subscribe(). */
typedef enum bide_event_kind {
    BIDE_EVENT_PUT = 0,
    BIDE_EVENT_READY = 1, /* a delay ended, or the job is ready again */
    BIDE_EVENT_RESERVED = 2,
    BIDE_EVENT_RELEASED = 3, /* release and give_back */
    BIDE_EVENT_FAILED = 4,
    BIDE_EVENT_TIMED_OUT = 5, /* the lease expired */
    BIDE_EVENT_BURIED = 6,
    BIDE_EVENT_KICKED = 7,
    BIDE_EVENT_UPDATED = 8,
    BIDE_EVENT_CANCEL_WANTED = 9,
    BIDE_EVENT_DONE = 10,
    BIDE_EVENT_DELETED = 11, /* delete, cancel, replace, purge */
    BIDE_EVENT_EXPIRED = 12,
    BIDE_EVENT_RETIRED = 13, /* done, and the retention ended */
} bide_event_kind;

#define BIDE_EVENT_KINDS 14

/* "put", "ready", ...; "?" for an unknown number. */
BIDE_API const char *bide_event_name(bide_event_kind kind);

typedef struct bide_event {
    bide_event_kind kind;
    bide_state state; /* after the event */
    uint64_t id;
    int64_t at_ms;
    char topic[BIDE_TOPIC_MAX + 1];
    uint64_t room_[2];
} bide_event;

#ifdef __cplusplus
}
#endif
#endif
