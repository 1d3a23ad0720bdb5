/* SPDX-License-Identifier: MIT */
/*
 * bide.h - a job queue for work that happens later.
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
 * Every call answers a code of error.h: 0 done, positive an outcome, negative a failure. A call
 * that fails changes nothing, and leaves what its out parameters point to as it was (but a snapshot
 * whose change could not be stored is cleared); out parameters may be NULL where a call says so.
 * After it, bide_last_error() has a sentence. Any thread may make any call on one queue. The same
 * ops without blocking: op.h, whose calls answer how many.
 *
 * A call with a timeout other than 0 is a cancellation point (pthread_cancel()) while it waits, and
 * gives back a job that it got; no other call is one. The cancelability type must be deferred.
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

/* The version of the library that is running; the macro is that of the header. */
BIDE_API const char *bide_version(void);

typedef enum bide_ticker {
    BIDE_TICKER_DYNAMIC = 0, /* sleep until the next deadline */
    BIDE_TICKER_WHEEL = 1,   /* move a ring of slots at a fixed frequency */
} bide_ticker;

/* What an acknowledged change survives, on a store that keeps things. */
typedef enum bide_sync {
    BIDE_SYNC_FULL = 0,   /* the end of the process, and of the power */
    BIDE_SYNC_NORMAL = 1, /* the end of the process; power loss may take the last seconds */
    BIDE_SYNC_OFF = 2,    /* the end of the process; power loss may take everything */
} bide_sync;

/* Called from a thread of the library, with no lock held, when the phase changes and at most ten
 * times a second in between. It must not make calls that wait: loading stands still meanwhile. */
typedef void (*bide_recovery_handler)(void *user, const bide_recovery *progress);

typedef enum bide_log_level {
    BIDE_LOG_ERROR = 0,
    BIDE_LOG_WARN = 1,
    BIDE_LOG_INFO = 2,
    BIDE_LOG_DEBUG = 3,
} bide_log_level;

/* Called from any thread of the library, with no lock held; the text has no newline. It must
 * not make calls that wait: the thread may be the one that they wait for. */
typedef void (*bide_log_handler)(void *user, bide_log_level level, const char *text);

/*
 * How a queue behaves. Begin with BIDE_OPTIONS_INIT, in which 0 means the default; a parameter
 * of the same name in the URL, less the _ms at its end, wins over the field
 * ("memory:?default_ttr=90s&ticker=wheel"). Durations in URLs take ms, s, m, h, d; sizes take
 * B, KiB, MiB, GiB; without a unit they are milliseconds and bytes.
 */
typedef struct bide_options {
    size_t size;                   /* sizeof(bide_options) */
    int64_t default_ttr_ms;        /* 60 s */
    size_t max_job_size;           /* 65,535 bytes; at most 1 GiB */
    size_t max_result_size;        /* 64 KiB; at most 1 GiB */
    size_t max_error_size;         /* 1 KiB; longer texts are cut; at most 1 MiB */
    uint32_t max_touches;          /* per lease; 0: no limit */
    int64_t max_touch_total_ms;    /* a lease lasts at most that long in all; 0: no limit */
    int64_t min_touch_interval_ms; /* a touch that soon after the last is refused; 0: no limit */
    uint32_t max_topics;           /* 1,000,000 */
    uint32_t max_waiters;          /* 100,000 calls that wait, of all kinds */
    uint64_t max_jobs_per_topic;   /* 0: no limit; done jobs do not count */
    uint64_t max_done_per_topic;   /* 10,000; the oldest is dropped first */
    uint64_t max_memory; /* bytes of jobs, bodies, texts, results, topics, feeds; 0: no limit */
    uint32_t max_pending_ops;   /* 100,000 answers that are held until they are stored */
    uint64_t max_pending_bytes; /* 64 MiB of bodies in them */
    int topic_cleanup;          /* 0: on (a topic nobody needs goes away); -1: off */
    bide_ticker ticker;
    int64_t ticker_min_ms; /* dynamic: sleep at least that long, but for timeouts of calls; 0 */
    int64_t ticker_max_ms; /* dynamic: sleep at most that long; 0: no limit */
    int64_t
        wheel_tick_ms; /* wheel: one slot: deadlines, but for timeouts of calls, are so late; 10 ms */
    uint32_t wheel_slots; /* wheel: slots in the ring; 512; at most 1,000,000 */
    uint64_t seed;        /* of jitter and weights; 0: a random one */
    bide_sync sync;       /* sqlite: full, normal, off */
    uint32_t batch_jobs;  /* what one commit takes, or one op: 1,000 jobs; at most 1,000,000 */
    uint64_t batch_bytes; /* and 8 MiB of bodies, or one that is larger */
    uint64_t cache_bytes; /* bodies of stored jobs that are kept in memory: 64 MiB, the young */
    bide_log_handler log;
    void *log_user;
    bide_recovery_handler recovery; /* told how far loading has come; may be NULL */
    void *recovery_user;
} bide_options;

#define BIDE_OPTIONS_INIT                                                                          \
    {                                                                                              \
        sizeof(bide_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, BIDE_TICKER_DYNAMIC, 0, \
            0, 0, 0, 0, BIDE_SYNC_FULL, 0, 0, 0, NULL, NULL, NULL, NULL                            \
    }

/*
 * Opens the queue that the URL names: "memory:"; "sqlite:PATH" for one in a file, which is made
 * if it does not exist; "beanstalk://HOST:PORT" or "beanstalk:///PATH" for one that a bided or a
 * beanstalkd keeps. options may be NULL. *out is set on success only. With a file, what was
 * stored is loaded in the background: see bide_wait_recovered(). On failure bide_last_error() says
 * what is wrong: BIDE_EINVAL the URL, an option, or a file that is not bide's or of a newer
 * version; BIDE_EBUSY another process (or this one) has the file open; BIDE_EIO, EFULL it cannot be
 * read or written, or no server answers; BIDE_ENOMEM, ESYSTEM. A child that is forked later must
 * not use the queue, not even close it: it has no threads. It may open queues of its own.
 */
BIDE_API int bide_open(const char *url, const bide_options *options, bide **out);

/*
 * Tells the workers to stop: every call that waits answers BIDE_CLOSED, and so does, from now on,
 * everything that takes a job (reserve, reserve_many, reserve_job, the reserve of
 * finish_and_reserve) or would wait. All else goes on, so that a worker can still finish what it
 * holds. The way to end a program: shut down, join the workers, close. May be called from
 * a callback, and more than once.
 */
BIDE_API int bide_shutdown(bide *queue);

/*
 * Closes: shuts down, completes every pending op, stores what is still to be stored, ends every
 * thread of the queue, frees it; then it returns. No call on the queue may be begun once this one
 * has begun, so join your workers first; a call that still waits in another thread answers
 * BIDE_CLOSED. Ops that completed here are still to be drained from their completion queues. What
 * memory: held is gone; in a file it stays, and whatever was reserved is ready at the next open.
 * NULL is fine. BIDE_OK, or BIDE_ECALLBACK from a completion callback, or BIDE_EBUSY while there
 * is a bide_worker of the queue.
 */
BIDE_API int bide_close(bide *queue);

/* What differs between backends, besides how fast they are. */
typedef enum bide_capability {
    /* A lease does not end with the process that took it: another one that knows the token may
     * touch, finish or give back the job. Not in memory: and sqlite:, where the queue itself ends
     * with the process, nor at a plain beanstalkd, where a lease belongs to a connection. */
    BIDE_CAN_PASS_LEASES = 1,
    BIDE_CAN_SHARE = 2,   /* other processes may use the queue at the same time */
    BIDE_CAN_ALL_OPS = 4, /* all that op.h has, but perhaps backup and check; a plain beanstalkd
                             has no lists, keys, results, restore ... */
} bide_capability;

/* Those of a queue, or-ed. 0 of NULL. */
BIDE_API uint32_t bide_capabilities(const bide *queue);

/* ---- putting jobs in ---- */

/*
 * Stores a job: ready now, or delayed as the options say. topic: 1 to 200 bytes of
 * A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with '-'. options NULL: all defaults. id may be
 * NULL; it is also set, to the holder of the key, with BIDE_EXISTS.
 * BIDE_EXISTS, TOO_BIG, TOPIC_FULL, TOO_MANY_TOPICS, DRAINING; BIDE_EFULL, ENOMEM, EINVAL.
 */
BIDE_API int bide_put(bide *queue, const char *topic, const void *body, size_t size,
                      const bide_put_options *options, uint64_t *id);

/*
 * Stores up to BIDE_BATCH_JOBS jobs with at most BIDE_BATCH_BYTES of bodies (a single job may be
 * larger). Each item gets its own status and id; a refused one does not disturb the others.
 * accepted (may be NULL) is how many are in.
 */
BIDE_API int bide_put_many(bide *queue, bide_put_item *items, size_t n, size_t *accepted);

/* Inserts a job as it was exported, with its state, times, counters, texts and result, under a
 * new id; a reserved one becomes ready. Order is kept when jobs are fed in the order of their
 * old ids. Refusals as of put. */
BIDE_API int bide_restore(bide *queue, const bide_job *job, uint64_t *id);

/* ---- taking and finishing them ---- */

/*
 * Takes the best ready job of one topic; waits up to timeout_ms (0: not at all, BIDE_FOREVER)
 * for one. The job is this caller's until its ttr is over; job->token proves it. *job need not be
 * initialised, and what it held is not given back: clear it before it is used again.
 * BIDE_TIMED_OUT, TOO_MANY_WAITERS, CLOSED.
 */
BIDE_API int bide_reserve(bide *queue, const char *topic, int64_t timeout_ms, bide_job *job);

/* Takes up to args->job_max jobs from several topics, but no more than BIDE_BATCH_BYTES of bodies and
 * error texts (a single larger job comes alone); the rest stays ready. See bide_reserve_args. */
BIDE_API int bide_reserve_many(bide *queue, bide_reserve_args *args);

/* Takes one given job that is ready, delayed or buried, paused topic or not.
 * BIDE_NOT_FOUND, RESERVED, WRONG_STATE (it is done). */
BIDE_API int bide_reserve_job(bide *queue, uint64_t id, bide_job *job);

/*
 * The work is finished: forget the job. token is that of the lease; 0 means "not as a holder"
 * and applies only to jobs that are not reserved. BIDE_NOT_FOUND, RESERVED, LEASE_LOST.
 */
BIDE_API int bide_delete(bide *queue, uint64_t id, uint64_t token);

/*
 * The work is finished: keep the job as done, with a result (may be empty), for retain_ms
 * (BIDE_KEEP: what the put said). With 0 to retain it is a delete.
 * BIDE_NOT_FOUND, RESERVED, LEASE_LOST, WRONG_STATE (it is done already), TOO_BIG.
 */
BIDE_API int bide_done(bide *queue, uint64_t id, uint64_t token, const void *result, size_t size,
                       int64_t retain_ms);

/* Deletes or completes up to BIDE_BATCH_JOBS jobs, each with its own status. */
BIDE_API int bide_finish_many(bide *queue, bide_finish_item *items, size_t n);

/* Finishes one job (finish->status) and reserves the next (the answer), in one step. Arguments, and
 * a result that is TOO_BIG, are checked before either. */
BIDE_API int bide_finish_and_reserve(bide *queue, bide_finish_item *finish,
                                     bide_reserve_args *args);

/* Gives a reserved job back: ready again, or delayed, with a new priority or BIDE_KEEP.
 * BIDE_NOT_FOUND, LEASE_LOST. */
BIDE_API int bide_release(bide *queue, uint64_t id, uint64_t token, int64_t priority,
                          int64_t delay_ms);

/* A release that counts nothing: for a worker that stops before it has begun. */
BIDE_API int bide_give_back(bide *queue, uint64_t id, uint64_t token);

/*
 * The work went wrong: the job comes back after retry_in_ms (BIDE_KEEP: as its backoff says; 0: at
 * once), or is buried when its retries are used up. state and delay_ms (may be NULL) say which and
 * when.
 * text may be NULL. BIDE_NOT_FOUND, RESERVED, LEASE_LOST, WRONG_STATE (buried or done).
 */
BIDE_API int bide_fail(bide *queue, uint64_t id, uint64_t token, const char *text,
                       int64_t retry_in_ms, bide_state *state, int64_t *delay_ms);

/* Sets a job aside until it is kicked. priority: or BIDE_KEEP; reason may be NULL.
 * BIDE_NOT_FOUND, RESERVED, LEASE_LOST, WRONG_STATE (buried or done). */
BIDE_API int bide_bury(bide *queue, uint64_t id, uint64_t token, int64_t priority,
                       const char *reason);

/*
 * The lease runs again from now, for the job's ttr, or for extend_ms if that is not 0. With
 * BIDE_KEEP it stays as it is: that says progress, or asks whether the job is to stop, and is not
 * counted. progress (may be NULL) is shown to whoever looks. BIDE_CANCEL_WANTED: extended, but
 * somebody wants the job to stop. BIDE_NOT_FOUND, LEASE_LOST, TOUCH_LIMIT.
 */
BIDE_API int bide_touch(bide *queue, uint64_t id, uint64_t token, int64_t extend_ms,
                        const char *progress);

/* Extends up to BIDE_BATCH_JOBS leases, each with its own status. */
BIDE_API int bide_touch_many(bide *queue, bide_touch_item *items, size_t n);

/* ---- changing them from outside ---- */

/* Makes up to max jobs of a topic ready: the buried ones, oldest burial first; if there are none,
 * the delayed ones, soonest first. Only jobs that were so when the call began. Not atomic: count (may
 * be NULL) is set on failure, too, and says how many of the changes are stored. */
BIDE_API int bide_kick(bide *queue, const char *topic, uint64_t max, uint64_t *count);

/* Makes one buried or delayed job ready. BIDE_NOT_FOUND, RESERVED, WRONG_STATE. */
BIDE_API int bide_kick_job(bide *queue, uint64_t id);

/* Changes priority, due time, ttr or topic of a job that is not reserved.
 * BIDE_NOT_FOUND, RESERVED, EXISTS, WRONG_STATE, TOPIC_FULL, TOO_MANY_TOPICS. */
BIDE_API int bide_update(bide *queue, const bide_update_args *changes);

/* Not reserved: deletes. Reserved: marks the job; its worker learns of it by touch or event, and
 * whatever the worker then does removes the job, except that done keeps its result. */
BIDE_API int bide_cancel(bide *queue, uint64_t id);

/* Removes all jobs of a topic that were in a state when the call began. Not atomic: count (may be
 * NULL) is set on failure, too, and says how many removals are stored. A reserved state is
 * BIDE_EINVAL. */
BIDE_API int bide_purge(bide *queue, const char *topic, bide_state state, uint64_t *count);

/* Reserve skips the topic for that long, or until bide_resume(). A topic that does not exist is
 * made. BIDE_TOO_MANY_TOPICS. */
BIDE_API int bide_pause(bide *queue, const char *topic, int64_t for_ms);
/* BIDE_NOT_FOUND when there is no such topic; 0 when it was not paused. */
BIDE_API int bide_resume(bide *queue, const char *topic);

/* Counts a reference to a topic up or down (+1, -1); a referenced topic exists and outlives
 * emptiness. Down below zero is BIDE_EINVAL; BIDE_TOO_MANY_TOPICS; BIDE_NOT_FOUND. */
BIDE_API int bide_topic_ref(bide *queue, const char *topic, int delta);

/* on: puts and restores are refused with BIDE_DRAINING; everything else goes on. */
BIDE_API int bide_drain(bide *queue, bool on);

/* ---- looking ---- */

/* A job with its body. BIDE_NOT_FOUND. Clear it with bide_job_clear(). */
BIDE_API int bide_peek(bide *queue, uint64_t id, bide_job *job);
/* The first job in a state: ready by (priority, id), delayed by due time, reserved, buried and done
 * the one that has been so for longest. BIDE_NOT_FOUND. */
BIDE_API int bide_peek_first(bide *queue, const char *topic, bide_state state, bide_job *job);
/* The job that holds a key. BIDE_NOT_FOUND. */
BIDE_API int bide_find(bide *queue, const char *topic, const void *key, size_t size, bide_job *job);
/* A job without its body. */
BIDE_API int bide_job_stats(bide *queue, uint64_t id, bide_job *job);
/* The body alone, or the result alone (BIDE_NOT_FOUND: no such job; WRONG_STATE: not done). */
BIDE_API int bide_body(bide *queue, uint64_t id, bide_buf **body);
BIDE_API int bide_result(bide *queue, uint64_t id, bide_buf **result);

/*
 * Waits until a job is done, buried or gone, and says which; state and result may be NULL, and
 * result is set when it is done, to NULL if it has none. A job that is not there is gone.
 * BIDE_TIMED_OUT, CLOSED.
 */
BIDE_API int bide_wait(bide *queue, uint64_t id, int64_t timeout_ms, bide_state *state,
                       bide_buf **result);

/*
 * One page of jobs. topic NULL: all topics; state BIDE_STATE_ANY: all; filter may be NULL.
 * cursor is BIDE_CURSOR_SIZE bytes: "" begins, and is "" again after the last page. A job that
 * is in that state during the whole listing is returned exactly once; a page may be empty, and ends
 * before its bodies, results and error texts exceed BIDE_BATCH_BYTES (a single larger job is a page
 * of its own). The jobs come with their bodies, and are to be cleared. count must not be NULL.
 */
BIDE_API int bide_list(bide *queue, const char *topic, bide_state state, const bide_filter *filter,
                       char *cursor, bide_job *jobs, size_t max, size_t *count);
/* The same with the arguments of op.h: bodies come only if args->with_body is set. */
BIDE_API int bide_list_page(bide *queue, bide_list_args *args);

/* One page of topics with their figures; cursor as in bide_list(). */
BIDE_API int bide_topics(bide *queue, char *cursor, bide_topic_stats *topics, size_t max,
                         size_t *count);
/* The same, only those that somebody waits for. */
BIDE_API int bide_waiting(bide *queue, char *cursor, bide_topic_stats *topics, size_t max,
                          size_t *count);

/* The figures of the whole queue. They are not held for what is not stored yet. */
BIDE_API int bide_queue_stats(bide *queue, bide_stats *stats);
/* The figures of one topic. BIDE_NOT_FOUND. */
BIDE_API int bide_topic_get_stats(bide *queue, const char *topic, bide_topic_stats *stats);

/* Is the backend there? */
BIDE_API int bide_ping(bide *queue);

/* ---- what is stored ---- */

/*
 * Waits until everything that was stored has been loaded, at most timeout_ms. progress (may be
 * NULL) says how far it has come, also with BIDE_TIMED_OUT. A queue that keeps nothing has always
 * recovered. Until then: a call that names an id loads that job first; reserve serves what is
 * loaded; put without a key is as always; put with a key, kick, purge, resume, find, peek_first,
 * lists and figures wait for the end.
 */
BIDE_API int bide_wait_recovered(bide *queue, int64_t timeout_ms, bide_recovery *progress);

/* Writes a consistent copy of everything that is stored to a new file, while the queue serves. An
 * existing file is not touched: BIDE_EINVAL. At a server the file is the server's: the path begins
 * with /, and only its own user, at a unix socket, may ask. BIDE_ENOTSUP: the queue keeps nothing,
 * or others ask; EFULL; CLOSED: the queue is being closed, and no file is left. */
BIDE_API int bide_backup(bide *queue, const char *path);

/*
 * Looks at every byte that is stored, and compares it with the queue. BIDE_OK although something
 * is wrong: the report says what. Others are served meanwhile. The queue's own lists are checked,
 * too, if it has at most 2,000 jobs. Reads that fail are tried again for some seconds. If the queue
 * refuses everything because it differs from what is stored, and there is no difference any more,
 * it goes on. BIDE_EBUSY: another check is under way. BIDE_CLOSED: the queue is being closed.
 */
BIDE_API int bide_check(bide *queue, bide_check_report *report);

/*
 * A feed of events from now on. topic NULL: all; kinds: (1 << bide_event_kind) or-ed, 0: all;
 * capacity: how many are kept for a slow reader (0: 1,024; at most 1,000,000), who loses the
 * oldest and is told. BIDE_TOO_MANY_WAITERS: there are BIDE_FEEDS_MAX feeds. BIDE_EFULL.
 */
BIDE_API int bide_subscribe(bide *queue, const char *topic, uint32_t kinds, uint32_t capacity,
                            bide_feed **feed);
/* Waits for events; takes up to max (BIDE_EVENTS_MAX), count says how many. lost (may be NULL): how
 * many were lost before these; then count may be 0. BIDE_TIMED_OUT, CLOSED. */
BIDE_API int bide_events(bide *queue, bide_feed *feed, int64_t timeout_ms, bide_event *events,
                         size_t max, size_t *count, uint64_t *lost);
/* Ends a feed; calls that wait on it answer BIDE_CANCELLED. bide_close() ends all of them. */
BIDE_API int bide_unsubscribe(bide *queue, bide_feed *feed);

#ifdef __cplusplus
}
#endif
#endif
