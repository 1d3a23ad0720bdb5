/* SPDX-License-Identifier: MIT */
/*
 * bide.h - the blocking interface of the job queue.
 *
 *     bide *queue;
 *     bide_open("memory:", NULL, &queue);
 *     bide_put(queue, "email", "hello", 5, NULL, NULL);
 *
 *     bide_job job;
 *     if (bide_reserve(queue, "email", 1000, &job) == 0) {
 *         send_mail(job.body, job.body_size);
 *         bide_delete(queue, job.id, job.token);
 *         bide_job_clear(&job);
 *     }
 *     bide_close(queue);
 *
 * Every call returns a code of error.h: 0 success, positive an outcome, negative a failure. The
 * same operations without blocking are in op.h.
 *
 * Failure       A call that fails changes nothing, and leaves its out parameters as they were (but
 *               a snapshot whose change could not be stored is cleared). Out parameters may be NULL
 *               where a call allows it. bide_last_error() has the message.
 * Threads       Any thread may make any call on one queue.
 * Cancellation  A call with a timeout other than 0 is a cancellation point (pthread_cancel()) while
 *               it waits, and releases a job that it has reserved; no other call is a cancellation
 *               point. The cancelability type must be deferred.
 */
#ifndef BIDE_H
#define BIDE_H

#include <bide/error.h>
#include <bide/job.h>
#include <bide/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BIDE_VERSION "0.1.0"

/* The version of the library that is linked; the macro is the version of the header. */
BIDE_API const char *bide_version(void);

typedef enum bide_ticker {
    BIDE_TICKER_DYNAMIC = 0, /* sleep until the next deadline */
    BIDE_TICKER_WHEEL = 1,   /* a timer wheel that advances at a fixed frequency */
} bide_ticker;

/* What an acknowledged change survives in a persistent store. */
typedef enum bide_sync {
    BIDE_SYNC_FULL = 0,   /* a crash of the process, and power loss */
    BIDE_SYNC_NORMAL = 1, /* a crash of the process; power loss may lose the last seconds */
    BIDE_SYNC_OFF = 2,    /* a crash of the process; power loss may lose everything */
} bide_sync;

/* Called on a thread of the library, with no lock held, when the phase changes and at most ten
 * times a second in between. It must not make blocking calls: loading stops meanwhile. */
typedef void (*bide_recovery_handler)(void *user, const bide_recovery *progress);

typedef enum bide_log_level {
    BIDE_LOG_ERROR = 0,
    BIDE_LOG_WARN = 1,
    BIDE_LOG_INFO = 2,
    BIDE_LOG_DEBUG = 3,
} bide_log_level;

/* Called on any thread of the library, with no lock held; the text has no newline. It must not make
 * blocking calls: they may wait for the thread that calls it. */
typedef void (*bide_log_handler)(void *user, bide_log_level level, const char *text);

/*
 * The options of a queue. Begin with BIDE_OPTIONS_INIT, in which 0 means the default. A parameter
 * of the URL with the same name, without the _ms at its end, overrides the field
 * ("memory:?default_ttr=90s&ticker=wheel"). Durations in URLs take ms, s, m, h, d; sizes take B,
 * KiB, MiB, GiB; without a unit they are milliseconds and bytes.
 *
 * Later versions may append members to this struct, bide_put_options and bide_worker_options. The
 * library recognises by the size with which version a program was compiled. Members that an older
 * program does not know have their defaults. A newer program is rejected (BIDE_EINVAL) only if it
 * sets a member that the library does not know.
 */
typedef struct bide_options {
    size_t size;                   /* sizeof(bide_options) */
    int64_t default_ttr_ms;        /* 60 s */
    size_t max_job_size;           /* 65,535 bytes; at most 1 GiB */
    size_t max_result_size;        /* 64 KiB; at most 1 GiB */
    size_t max_error_size;         /* 1 KiB; longer texts are truncated; at most 1 MiB */
    uint32_t max_touches;          /* per lease; 0: no limit */
    int64_t max_touch_total_ms;    /* total duration of a lease with all touches; 0: no limit */
    int64_t min_touch_interval_ms; /* touches sooner after the last are rejected; 0: no limit */
    uint32_t max_topics;           /* 1,000,000 */
    uint32_t max_waiters;          /* 100,000 waiting calls of all kinds */
    uint64_t max_jobs_per_topic;   /* 0: no limit; done jobs do not count */
    uint64_t max_done_per_topic;   /* 10,000; the oldest is dropped first */
    uint64_t max_memory; /* bytes of jobs, topics, subscriptions and their contents; 0: no limit */
    uint32_t max_pending_ops;   /* 100,000 ops that complete when their change is stored */
    uint64_t max_pending_bytes; /* 64 MiB of bodies in them */
    int topic_cleanup;          /* 0: on (remove a topic that is not used); -1: off */
    bide_ticker ticker;
    int64_t ticker_min_ms; /* dynamic: minimum sleep, except for timeouts of calls; 0 */
    int64_t ticker_max_ms; /* dynamic: maximum sleep; 0: no limit */
    int64_t
        wheel_tick_ms;    /* wheel: one slot: how late deadlines, but not timeouts, may be; 10 ms */
    uint32_t wheel_slots; /* wheel: slots in the ring; 512; at most 1,000,000 */
    uint64_t seed;        /* of jitter and weights; 0: random */
    bide_sync sync;       /* sqlite: full, normal, off */
    uint32_t batch_jobs;  /* jobs in one commit, or in one op: 1,000; at most 1,000,000 */
    uint64_t batch_bytes; /* bodies in one commit or op: 8 MiB, or a single larger one */
    uint64_t cache_bytes; /* bodies of stored jobs cached in memory: 64 MiB, the newest */
    bide_log_handler log;
    void *log_user;
    bide_recovery_handler recovery; /* progress of loading; may be NULL */
    void *recovery_user;
} bide_options;

#define BIDE_OPTIONS_INIT                                                                          \
    {                                                                                              \
        sizeof(bide_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, BIDE_TICKER_DYNAMIC, 0, \
            0, 0, 0, 0, BIDE_SYNC_FULL, 0, 0, 0, NULL, NULL, NULL, NULL                            \
    }

/*
 * Opens the queue of the URL: "memory:"; "sqlite:PATH" for a file, which is created if it does not
 * exist; "beanstalk://HOST:PORT" or "beanstalk:///PATH" for a bided or a beanstalkd. options may be
 * NULL. *out is set only on success. The jobs of a file are loaded in the background: see
 * bide_wait_recovered().
 *
 * BIDE_EINVAL   the URL or an option is invalid, or the file is not bide's or of a newer version
 * BIDE_EBUSY    another process, or this one, has the file open
 * BIDE_EIO      the file cannot be read or written, or no server responds; also BIDE_EFULL
 * BIDE_ENOMEM, BIDE_ESYSTEM
 *
 * A child that is forked later must not use the queue, not even close it: the threads of the queue
 * exist only in the parent. The child may open its own queues.
 */
BIDE_API int bide_open(const char *url, const bide_options *options, bide **out);

/*
 * Begins the end: every waiting call returns BIDE_CLOSED, and so does from now on every call that
 * reserves a job (reserve, reserve_many, reserve_job, the reserve of finish_and_reserve) or would
 * wait. All other calls work, so that consumers can finish the jobs that they hold. To end a
 * program: shut down, join the consumer threads, close. May be called from a callback, and more
 * than once.
 */
BIDE_API int bide_shutdown(bide *queue);

/*
 * Closes the queue: shuts it down, completes every pending op, commits all changes, ends the
 * threads of the queue and frees it. No other call on the queue may begin after this one, so join
 * all threads that use it first; a call that still waits in another thread returns BIDE_CLOSED. Ops
 * that complete here must still be drained from their completion queues. The jobs of memory: are
 * lost; those in a file stay, and reserved ones are ready at the next open. NULL is allowed.
 * BIDE_OK; BIDE_ECALLBACK from a completion callback; BIDE_EBUSY while the queue has a bide_worker.
 */
BIDE_API int bide_close(bide *queue);

/* Differences between backends. */
typedef enum bide_capability {
    /* A lease does not end with the process that reserved the job: another process that knows the
     * token may touch, finish or release it. Not memory: and sqlite:, where the queue ends with the
     * process, nor a plain beanstalkd, where a lease belongs to a connection. */
    BIDE_CAN_PASS_LEASES = 1,
    BIDE_CAN_SHARE = 2,   /* other processes may use the queue at the same time */
    BIDE_CAN_ALL_OPS = 4, /* all ops of op.h, except perhaps backup and check; a plain beanstalkd
                             has no lists, keys, results, restore ... */
} bide_capability;

/* The capabilities of a queue, or-ed. 0 for NULL. */
BIDE_API uint32_t bide_capabilities(const bide *queue);

/* ---- put ---- */

/*
 * Inserts a job: ready now, or delayed by its options. options NULL: all defaults. id may be NULL;
 * with BIDE_EXISTS it is set to the job that holds the key. topic: 1 to 200 bytes of
 * A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with '-'.
 * BIDE_EXISTS, TOO_BIG, TOPIC_FULL, TOO_MANY_TOPICS, DRAINING; BIDE_EFULL, ENOMEM, EINVAL.
 */
BIDE_API int bide_put(bide *queue, const char *topic, const void *body, size_t size,
                      const bide_put_options *options, uint64_t *id);

/*
 * Inserts up to BIDE_BATCH_JOBS jobs with at most BIDE_BATCH_BYTES of bodies (a single job may be
 * larger). Each item gets its own status and id; a rejected item does not affect the others.
 * accepted (may be NULL) is the number of inserted jobs.
 */
BIDE_API int bide_put_many(bide *queue, bide_put_item *items, size_t n, size_t *accepted);

/* Inserts an exported job with its state, times, counters, texts and result, under a new id; a
 * reserved one becomes ready. To preserve the order, restore jobs in the order of their old ids.
 * Codes as for put. */
BIDE_API int bide_restore(bide *queue, const bide_job *job, uint64_t *id);

/* ---- reserve and finish ---- */

/*
 * Reserves the first ready job of one topic; waits up to timeout_ms (0: not at all, BIDE_FOREVER)
 * for one. The caller holds the lease until the job's ttr has passed; job->token proves it. *job
 * need not be initialised. References that it holds are not released: clear it before it is used
 * again. BIDE_TIMED_OUT, TOO_MANY_WAITERS, CLOSED.
 */
BIDE_API int bide_reserve(bide *queue, const char *topic, int64_t timeout_ms, bide_job *job);

/* Reserves up to args->job_max jobs from several topics, but no more than BIDE_BATCH_BYTES of
 * bodies and error texts (a single larger job is returned alone); the rest stays ready. See
 * bide_reserve_args. */
BIDE_API int bide_reserve_many(bide *queue, bide_reserve_args *args);

/* Reserves a job by id: ready, delayed or buried, also in a paused topic.
 * BIDE_NOT_FOUND, RESERVED, WRONG_STATE (it is done), LIMITED (by the policy of the topic). */
BIDE_API int bide_reserve_job(bide *queue, uint64_t id, bide_job *job);

/*
 * Removes a job, finished or not. token is that of the lease; 0 is for a caller without a lease,
 * and works only on jobs that are not reserved. BIDE_NOT_FOUND, RESERVED, LEASE_LOST.
 */
BIDE_API int bide_delete(bide *queue, uint64_t id, uint64_t token);

/*
 * Finishes a job and retains it as done, with a result (may be empty), for retain_ms (BIDE_KEEP:
 * the retain_ms of the put). With 0 it is a delete. BIDE_NOT_FOUND, RESERVED, LEASE_LOST,
 * WRONG_STATE (it is done already), TOO_BIG.
 */
BIDE_API int bide_done(bide *queue, uint64_t id, uint64_t token, const void *result, size_t size,
                       int64_t retain_ms);

/* Deletes or completes up to BIDE_BATCH_JOBS jobs, each with its own status. */
BIDE_API int bide_finish_many(bide *queue, bide_finish_item *items, size_t n);

/* Finishes one job (finish->status) and reserves the next (the return value) in one step.
 * Arguments, and a result that is TOO_BIG, are rejected before either. */
BIDE_API int bide_finish_and_reserve(bide *queue, bide_finish_item *finish,
                                     bide_reserve_args *args);

/*
 * Ends a job and puts others, in one atomic step: all of it happens and is stored, or none of it. So
 * each step of a chain starts the next one exactly once. If the key of an item is held, the call
 * fails with BIDE_EXISTS; with BIDE_SKIP it leaves out this item, whose status is BIDE_EXISTS then.
 * Each item gets its id (of the holder, with BIDE_EXISTS). Codes as for the ending and for put.
 */
BIDE_API int bide_finish_and_put(bide *queue, bide_finish_and_put_args *args);

/* Releases a reserved job: ready again, or delayed, with a new priority or BIDE_KEEP.
 * BIDE_NOT_FOUND, LEASE_LOST. */
BIDE_API int bide_release(bide *queue, uint64_t id, uint64_t token, int64_t priority,
                          int64_t delay_ms);

/* A release that is not counted: for a consumer that stops before it has started the job. */
BIDE_API int bide_give_back(bide *queue, uint64_t id, uint64_t token);

/*
 * Reports a failure: the job is ready again after retry_in_ms (BIDE_KEEP: its backoff; 0: at once),
 * or buried when its retries are used up. state and delay_ms (may be NULL) return which, and the
 * delay. text may be NULL. BIDE_NOT_FOUND, RESERVED, LEASE_LOST, WRONG_STATE (buried or done).
 */
BIDE_API int bide_fail(bide *queue, uint64_t id, uint64_t token, const char *text,
                       int64_t retry_in_ms, bide_state *state, int64_t *delay_ms);

/* Buries a job: it is not reserved until it is kicked. priority: or BIDE_KEEP; reason may be NULL.
 * BIDE_NOT_FOUND, RESERVED, LEASE_LOST, WRONG_STATE (buried or done). */
BIDE_API int bide_bury(bide *queue, uint64_t id, uint64_t token, int64_t priority,
                       const char *reason);

/*
 * Extends the lease: it now lasts the job's ttr, or extend_ms if that is not 0. With BIDE_KEEP the
 * lease does not change; this only sets progress or checks for a cancel, and is not counted.
 * progress (may be NULL) is shown in snapshots of the job. BIDE_CANCEL_WANTED: extended, but
 * bide_cancel() was called for the job. BIDE_NOT_FOUND, LEASE_LOST, TOUCH_LIMIT.
 */
BIDE_API int bide_touch(bide *queue, uint64_t id, uint64_t token, int64_t extend_ms,
                        const char *progress);

/* Extends up to BIDE_BATCH_JOBS leases, each with its own status. */
BIDE_API int bide_touch_many(bide *queue, bide_touch_item *items, size_t n);

/* ---- change jobs and topics ---- */

/* Makes up to max jobs of a topic ready: the buried ones, oldest burial first; if there are none,
 * the delayed ones, earliest first. Only jobs that were in this state when the call began. Not
 * atomic: count (may be NULL) is set on failure, too, to the number of changes that are stored. */
BIDE_API int bide_kick(bide *queue, const char *topic, uint64_t max, uint64_t *count);

/* The same for buried jobs only: delayed ones do not change. BIDE_ENOTSUP: a plain beanstalkd. */
BIDE_API int bide_kick_buried(bide *queue, const char *topic, uint64_t max, uint64_t *count);

/* Makes one buried or delayed job ready. BIDE_NOT_FOUND, RESERVED, WRONG_STATE. */
BIDE_API int bide_kick_job(bide *queue, uint64_t id);

/* Changes priority, due time, ttr or topic of a job that is not reserved.
 * BIDE_NOT_FOUND, RESERVED, EXISTS, WRONG_STATE, TOPIC_FULL, TOO_MANY_TOPICS. */
BIDE_API int bide_update(bide *queue, const bide_update_args *changes);

/* Removes a job that is not reserved. Marks a reserved one: its holder learns of it by touch or
 * event, and any op with which the holder ends the lease removes the job, except that done retains
 * its result. */
BIDE_API int bide_cancel(bide *queue, uint64_t id);

/* Removes all jobs of a topic that were in the state when the call began. Not atomic: count (may be
 * NULL) is set on failure, too, to the number of removals that are stored. BIDE_STATE_RESERVED is
 * BIDE_EINVAL. */
BIDE_API int bide_purge(bide *queue, const char *topic, bide_state state, uint64_t *count);

/* Reserve skips the topic for for_ms, or until bide_resume(). Creates a topic that does not exist.
 * BIDE_TOO_MANY_TOPICS. */
BIDE_API int bide_pause(bide *queue, const char *topic, int64_t for_ms);
/* BIDE_NOT_FOUND: no such topic; 0 also if it was not paused. */
BIDE_API int bide_resume(bide *queue, const char *topic);

/* Changes the policy of a topic: the members that are not BIDE_KEEP. A topic with a policy exists
 * even when it is empty. Creates a topic that does not exist. BIDE_TOO_MANY_TOPICS, EFULL; ENOTSUP:
 * a plain beanstalkd. */
BIDE_API int bide_topic_set(bide *queue, const char *topic, const bide_topic_policy *changes);
/* Returns what is set, and what applies with the defaults of the queue; either may be NULL. A topic
 * that does not exist has no policy. BIDE_ENOTSUP: a plain beanstalkd. */
BIDE_API int bide_topic_get(bide *queue, const char *topic, bide_topic_policy *policy,
                            bide_topic_policy *in_force);

/* Adds or removes a reference to a topic (+1, -1); a referenced topic exists even when it is empty.
 * BIDE_EINVAL: the count would be negative; BIDE_TOO_MANY_TOPICS; BIDE_NOT_FOUND. */
BIDE_API int bide_topic_ref(bide *queue, const char *topic, int delta);

/* on: puts and restores are rejected with BIDE_DRAINING; everything else works. */
BIDE_API int bide_drain(bide *queue, bool on);

/* ---- query ---- */

/* A job with its body. BIDE_NOT_FOUND. Clear it with bide_job_clear(). */
BIDE_API int bide_peek(bide *queue, uint64_t id, bide_job *job);
/* The first job in a state: ready by (priority, id), delayed by due time; of reserved, buried and
 * done jobs the one that has been in the state for the longest time. BIDE_NOT_FOUND. */
BIDE_API int bide_peek_first(bide *queue, const char *topic, bide_state state, bide_job *job);
/* The job that holds a key. BIDE_NOT_FOUND. */
BIDE_API int bide_find(bide *queue, const char *topic, const void *key, size_t size, bide_job *job);
/* A job without its body. */
BIDE_API int bide_job_stats(bide *queue, uint64_t id, bide_job *job);
/* Only the body, or only the result (BIDE_NOT_FOUND: no such job; WRONG_STATE: not done). The
 * caller releases the buffer. */
BIDE_API int bide_body(bide *queue, uint64_t id, bide_buf **body);
BIDE_API int bide_result(bide *queue, uint64_t id, bide_buf **result);

/*
 * Waits until a job is done, buried or gone, and returns the state; state and result may be NULL.
 * result is set when the job is done, to NULL if it has none. A job that does not exist is gone.
 * BIDE_TIMED_OUT, CLOSED.
 */
BIDE_API int bide_wait(bide *queue, uint64_t id, int64_t timeout_ms, bide_state *state,
                       bide_buf **result);

/*
 * One page of jobs. topic NULL: all topics; state BIDE_STATE_ANY: all; filter may be NULL. cursor
 * is BIDE_CURSOR_SIZE bytes: "" begins, and is "" again after the last page. A job that is in the
 * state during the whole listing is returned exactly once. A page may be empty, and ends before its
 * bodies, results and error texts exceed BIDE_BATCH_BYTES (a single larger job is a page of its
 * own). The jobs have their bodies; the caller clears them. count must not be NULL.
 */
BIDE_API int bide_list(bide *queue, const char *topic, bide_state state, const bide_filter *filter,
                       char *cursor, bide_job *jobs, size_t max, size_t *count);
/* The same with the arguments of op.h: bodies are included only if args->with_body is set. */
BIDE_API int bide_list_page(bide *queue, bide_list_args *args);

/* One page of topics with their statistics; cursor as in bide_list(). */
BIDE_API int bide_topics(bide *queue, char *cursor, bide_topic_stats *topics, size_t max,
                         size_t *count);
/* The same for topics with waiting reserves only. */
BIDE_API int bide_waiting(bide *queue, char *cursor, bide_topic_stats *topics, size_t max,
                          size_t *count);

/* The statistics of the whole queue. They may include changes that are not stored yet. */
BIDE_API int bide_queue_stats(bide *queue, bide_stats *stats);
/* The statistics of one topic. BIDE_NOT_FOUND. */
BIDE_API int bide_topic_get_stats(bide *queue, const char *topic, bide_topic_stats *stats);

/*
 * Why does this job not run? BIDE_OK with the first reason that applies and a sentence, also for a
 * job that does not exist or that runs. It costs at most the count of BIDE_WHY_AHEAD_MAX jobs.
 * BIDE_ENOTSUP: a plain beanstalkd.
 */
BIDE_API int bide_why(bide *queue, uint64_t id, bide_explanation *why);
/* The same for the job that holds a key, or for a put with this key. */
BIDE_API int bide_why_key(bide *queue, const char *topic, const void *key, size_t size,
                          bide_explanation *why);

/*
 * Announces a worker for ttl_ms: until then bide_workers() lists it. An announcement with the same
 * name replaces it; with ttl_ms 0 it is removed. Announcements are not stored: after a restart
 * workers announce themselves again. A bide_worker does all this itself. BIDE_TOO_MANY_WAITERS:
 * there are BIDE_ANNOUNCED_MAX; BIDE_EFULL, ENOTSUP (a plain beanstalkd).
 */
BIDE_API int bide_announce(bide *queue, const bide_worker_info *info, int64_t ttl_ms);
/* One page of announced workers; cursor as in bide_list(). A worker that is announced during the
 * whole listing is returned exactly once. The caller clears them (bide_announced_clear()). */
BIDE_API int bide_workers(bide *queue, char *cursor, bide_announced *workers, size_t max,
                          size_t *count);

/* BIDE_OK if the backend responds. */
BIDE_API int bide_ping(bide *queue);

/* ---- the store ---- */

/*
 * Waits at most timeout_ms until all stored jobs are loaded. progress (may be NULL) is set, also
 * with BIDE_TIMED_OUT. A queue without a store is always recovered. Until then a call that names an
 * id loads that job first; reserve returns jobs that are loaded; put without a key works as usual;
 * put with a key, kick, purge, resume, find, peek_first, lists and statistics wait until loading is
 * complete.
 */
BIDE_API int bide_wait_recovered(bide *queue, int64_t timeout_ms, bide_recovery *progress);

/* Writes a consistent copy of the store to a new file while the queue works. An existing file is
 * not changed: BIDE_EINVAL. With a server the file is on the server's machine: the path begins with
 * /, and only the server's own user may do this, over a unix socket. BIDE_ENOTSUP: the queue has no
 * store, or the user is another one; EFULL; CLOSED: the queue is being closed, and no file is
 * left. */
BIDE_API int bide_backup(bide *queue, const char *path);

/*
 * Reads the whole store and compares it with the queue, while other calls are served. Returns
 * BIDE_OK even if something is wrong: the report has the details. The lists in memory are checked,
 * too, if the queue has at most 2,000 jobs. Reads that fail are retried for some seconds. A queue
 * that rejects all calls because it differs from its store resumes if there is no difference any
 * more. BIDE_EBUSY: another check is in progress. BIDE_CLOSED: the queue is being closed.
 */
BIDE_API int bide_check(bide *queue, bide_check_report *report);

/*
 * Subscribes to events from now on. topic NULL: all; kinds: (1 << bide_event_kind) or-ed, 0: all;
 * capacity: events buffered for a slow reader (0: 1,024; at most 1,000,000). When the buffer is
 * full the oldest are dropped, and bide_events() returns their number. BIDE_TOO_MANY_WAITERS: there
 * are BIDE_SUBSCRIPTIONS_MAX subscriptions. BIDE_EFULL.
 */
BIDE_API int bide_subscribe(bide *queue, const char *topic, uint32_t kinds, uint32_t capacity,
                            bide_subscription **subscription);
/* Waits for events and returns up to max (BIDE_EVENTS_MAX) in events, their number in count. lost
 * (may be NULL): events dropped before these; then count may be 0. BIDE_TIMED_OUT, CLOSED. */
BIDE_API int bide_events(bide *queue, bide_subscription *subscription, int64_t timeout_ms,
                         bide_event *events, size_t max, size_t *count, uint64_t *lost);
/* Ends a subscription; calls that wait on it return BIDE_CANCELLED. bide_close() ends all. */
BIDE_API int bide_unsubscribe(bide *queue, bide_subscription *subscription);

#ifdef __cplusplus
}
#endif
#endif
