/* SPDX-License-Identifier: MIT */
/*
 * worker.h - runs a function for each job, on threads of the library.
 *
 *     bide_worker *worker;
 *     bide_worker_new(queue, NULL, &worker);
 *     bide_handle(worker, send_email, send, NULL);   // task.h
 *     bide_worker_run(worker);                       // until SIGINT or SIGTERM
 *     bide_worker_free(worker);
 *
 * A worker reserves a job only when a thread is free for it, runs the handler of its topic, and
 * acknowledges the job according to the outcome. It receives cancels, extends the lease if the task
 * has a time limit beyond its ttr, and retries acknowledgements that the queue could not accept.
 *
 * A handler gets a context, the data, and the arg that it was registered with. It returns
 *     BIDE_DONE                           0: the job is finished
 *     bide_context_result(...)            finished, with a result
 *     bide_context_retry(...)             failed: run again after the job's backoff, or bury it
 *                                         when its retries are used up
 *     bide_context_retry_in(...)          the same, with a given delay
 *     bide_context_bury(...)              failed for good: bury the job, with the reason
 *     bide_context_snooze(...)            not now: run again after a delay; not a failure
 *     BIDE_GIVE_BACK                      not here: ready again at once, and nothing is counted
 * or any other number, which is a retry with the error "the handler answered N"; if the number is
 * the code of the last call that the handler made, the error includes the message of that call.
 * BIDE_RETRY, BIDE_BURY and BIDE_SNOOZE may be returned without these calls: then there is no
 * reason, and a snooze lasts as long as the first retry.
 *
 * A handler may put further jobs in one step with its outcome: bide_context_put(), and
 * bide_context_publish() in task.h.
 *
 * Threads    Handlers run on the worker's threads, several at a time. A context may be used by the
 *            handler that got it, on the handler's thread; only bide_context_reason() and
 *            bide_context_wait() may be called from other threads while the handler runs.
 * Time       The time limit of a handler is the ttr of its job (default: 60 s) unless the task sets
 *            another; see bide_context_left_ms(). When the lease has expired, another thread, also
 *            one of this worker, may start the job while the first handler still runs. A thread
 *            cannot be stopped from outside: a handler that may take long must check
 *            bide_context_reason().
 * Ownership  The data of a handler, and what it points to, belongs to the worker and is valid until
 *            the handler returns.
 * Signals    The threads inherit the signal mask of the thread that starts the worker.
 * Failure    The worker reports failures to the event handler. A handler must not leave by longjmp,
 *            exception (which ends the process) or pthread_exit; it runs with cancellation
 *            (pthread_cancel()) disabled.
 */
#ifndef BIDE_WORKER_H
#define BIDE_WORKER_H

#include <bide/bide.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BIDE_WORKER_THREADS_MAX    1000
#define BIDE_WORKER_TOPICS_MAX     5000 /* each adds about 0.1 us to every reserve */
#define BIDE_WORKER_MIDDLEWARE_MAX 64

typedef struct bide_worker bide_worker;
typedef struct bide_context bide_context;

/* Any function; it is converted back to its own type before it is called. */
typedef void bide_function(void);

/* The outcomes that a handler returns. They differ from all codes of error.h, because a handler may
 * return the code of a call that it made; every code but 0 is a failure. */
typedef enum bide_outcome {
    BIDE_DONE = 0,
    BIDE_RETRY = 100,
    BIDE_BURY = 101,
    BIDE_SNOOZE = 102,
    BIDE_GIVE_BACK = 103,
} bide_outcome;

/* ---- the context of a handler ---- */

/* The job as it was reserved; valid until the handler returns. */
BIDE_API const bide_job *bide_context_job(const bide_context *context);

BIDE_API bide *bide_context_queue(const bide_context *context);
/* 1 for the first attempt, plus 1 after each failure. */
BIDE_API uint32_t bide_context_attempt(const bide_context *context);
/* True if the job is buried when this attempt fails; in a fallback, if it will be buried. */
BIDE_API bool bide_context_is_last(const bide_context *context);

/*
 * How long the handler may still run; 0 when the time limit has passed or the lease is lost. The
 * limit is that of the task; if it has none, the job's ttr, which starts again with every
 * bide_context_touch(). If the limit is longer than the ttr, or BIDE_FOREVER, the worker extends
 * the lease until the limit has passed. The ttr can then be short, so that another worker gets the
 * job soon if the process dies. With BIDE_FOREVER the result is BIDE_TIME_MAX_MS.
 */
BIDE_API int64_t bide_context_left_ms(const bide_context *context);

/* Why a handler should stop. */
typedef enum bide_reason {
    BIDE_REASON_NONE = 0,       /* no reason */
    BIDE_REASON_CANCELLED = 1,  /* bide_cancel(): the job is removed; done retains its result */
    BIDE_REASON_OVERRUN = 2,    /* the time limit has passed; the outcome may still be accepted */
    BIDE_REASON_LEASE_LOST = 3, /* the lease has expired; the outcome will be rejected */
    BIDE_REASON_STOPPING = 4, /* the worker stops, and its stop_timeout has passed; any outcome but
                                   BIDE_DONE gives the job back and counts nothing */
} bide_reason;

/* "none", "cancelled", ...; "?" for an unknown number. */
BIDE_API const char *bide_reason_name(bide_reason reason);

/* Cheap enough to be called in every iteration of a loop. */
BIDE_API bide_reason bide_context_reason(const bide_context *context);
/* Sleeps for for_ms, or until there is a reason to stop, and returns the reason. */
BIDE_API bide_reason bide_context_wait(bide_context *context, int64_t for_ms);
/* A file descriptor that becomes readable when there is a reason to stop, for poll(). Do not read
 * or close it. BIDE_ESYSTEM. */
BIDE_API int bide_context_fd(bide_context *context);

/* Extends the lease by the job's ttr from now, as bide_touch(). BIDE_OK; BIDE_CANCEL_WANTED,
 * BIDE_LEASE_LOST, BIDE_NOT_FOUND: the handler should stop; BIDE_TOUCH_LIMIT. */
BIDE_API int bide_context_touch(bide_context *context);

/* Sets the progress text of the job, visible in its snapshots within a second; truncated to
 * BIDE_PROGRESS_MAX bytes. Cheap: of several calls only the last is sent. Does not extend the
 * lease. */
BIDE_API void bide_context_progress(bide_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets the result of the job, for the outcome BIDE_DONE. The queue keeps it for the job's
 * retain_ms; if that is 0 the result is discarded. The data is copied; the last call counts.
 * BIDE_OK, which equals BIDE_DONE, so that the handler can return it; BIDE_TOO_BIG, BIDE_ENOMEM. */
BIDE_API int bide_context_result(bide_context *context, const void *data, size_t size);
/* The same with a value of a BIDE_TYPE (type.h), as JSON: bide_context_result_as(context, TYPE,
 * value). Also BIDE_EINVAL when it cannot be encoded. */
#define bide_context_result_as(context, name_, ...) \
    ((void)sizeof(bide_of_##name_), bide_result_of_##name_((context), __VA_ARGS__))

/* How long the job is retained after the outcome BIDE_DONE, instead of its retain_ms; 0: not at
 * all. With it a result is kept although the put did not ask for one. BIDE_OK, which equals
 * BIDE_DONE; BIDE_EINVAL. */
BIDE_API int bide_context_retain(bide_context *context, int64_t retain_ms);

/*
 * Collects a job that is put in one atomic step with the end of this one: with BIDE_DONE and
 * BIDE_SNOOZE. So each step of a chain starts the next one exactly once, whatever dies in between.
 * When the handler fails, buries its job or gives it back, nothing is put. A fallback of a job that
 * its handler has buried may collect jobs, too; they are put with the burial. For tasks see
 * bide_context_publish() in task.h. Everything is copied; options may be NULL.
 *
 * Limits    BIDE_BATCH_JOBS jobs with BIDE_BATCH_BYTES of bodies, or a single larger one.
 * Rejected  If the queue rejects a put later (its key is held, its topic or the memory of the queue is full), nothing is put,
 *           and the handler's job fails with the message of the put. With BIDE_SKIP as the
 *           conflict, a put whose key is held is left out instead.
 * Returns   BIDE_OK; the put is invalid: BIDE_EINVAL, BIDE_TOO_BIG (also: beyond the limits);
 *           BIDE_ENOMEM; BIDE_ENOTSUP at a plain beanstalkd. After a failure the put is left out.
 */
BIDE_API int bide_context_put(bide_context *context, const char *topic, const void *body,
                              size_t size, const bide_put_options *options);

/* Drops what was collected: for a handler that snoozes, or is done, without it. */
BIDE_API void bide_context_discard_puts(bide_context *context);

/* These store the error text (format may be NULL) and the delay, and return the value that the
 * handler must return. */
BIDE_API int bide_context_retry(bide_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
BIDE_API int bide_context_retry_in(bide_context *context, int64_t delay_ms, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
BIDE_API int bide_context_bury(bide_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
BIDE_API int bide_context_snooze(bide_context *context, int64_t delay_ms);

/* ---- the worker ---- */

typedef enum bide_work_kind {
    BIDE_WORK_STARTED = 0,     /* a handler is about to run */
    BIDE_WORK_DONE = 1,        /* finished; this and the next five: the queue has accepted it */
    BIDE_WORK_RETRIED = 2,     /* failed; runs again in delay_ms */
    BIDE_WORK_BURIED = 3,      /* failed for good, or the body could not be decoded */
    BIDE_WORK_SNOOZED = 4,     /* runs again in delay_ms */
    BIDE_WORK_INTERRUPTED = 5, /* given back: the worker stops, or BIDE_GIVE_BACK */
    BIDE_WORK_CANCELLED = 6,   /* removed by bide_cancel() */
    BIDE_WORK_OVERRAN = 7,     /* the handler has passed its time limit, and still runs */
    BIDE_WORK_LOST = 8,        /* the outcome was rejected: the lease had expired */
    BIDE_WORK_DEFERRED = 9,    /* the queue cannot accept the outcome now: the worker retries */
    BIDE_WORK_GIVEN_UP = 10,   /* nor before the lease ended: the job will run again */
    BIDE_WORK_UNHEALTHY = 11,  /* no jobs: the queue does not respond, or fails */
    BIDE_WORK_HEALTHY = 12,    /* the queue responds again */
} bide_work_kind;

#define BIDE_WORK_KINDS 13

/* "started", "done", ...; "?" for an unknown number. */
BIDE_API const char *bide_work_name(bide_work_kind kind);

typedef struct bide_work_event {
    bide_work_kind kind;
    int code;          /* of the call that failed, if one did */
    const char *text;  /* the error; "" if there is none */
    uint64_t id;       /* of the job; 0 for UNHEALTHY and HEALTHY */
    const char *topic; /* "" for these */
    uint32_t attempt;
    int64_t delay_ms; /* until the job runs again */
    int64_t took_us;  /* how long the handler ran */
} bide_work_event;

/* Called on the worker's threads, several at a time, with no lock held, and in no order between
 * threads. What the event points to is valid during the call. It must not stop or free the worker,
 * and should be quick: some events come from the thread that extends leases. */
typedef void (*bide_work_handler)(void *user, const bide_work_event *event);

/* Called after each health check, every health_interval_ms, with the code of bide_ping();
 * BIDE_TIMED_OUT if it has not completed when the next check is due. */
typedef void (*bide_health_handler)(void *user, int code, const char *text);

/* Begin with BIDE_WORKER_OPTIONS_INIT, in which 0 means the default. */
typedef struct bide_worker_options {
    size_t size;                /* sizeof(bide_worker_options) */
    uint32_t threads;           /* handlers that run at a time; default: number of processors */
    bide_strategy strategy;     /* among its topics; strict: in the order they were registered */
    int64_t stop_timeout_ms;    /* how long a stop waits for handlers: 30 s; BIDE_FOREVER */
    int64_t health_interval_ms; /* 15 s */
    bide_work_handler event;    /* may be NULL */
    bide_health_handler health; /* may be NULL */
    void *user;                 /* passed to both */
    uint64_t flags;             /* BIDE_WORKER_NO_SCHEDULES */
    /* The name in lists of workers, before the pid and a random number; copied, at most 90 bytes.
     * NULL: the name of the host. */
    const char *name;
} bide_worker_options;

/* While a worker runs, it also puts the jobs of the queue's schedules (schedule.h), as far as the
 * queue can have schedules; not with this flag. */
#define BIDE_WORKER_NO_SCHEDULES UINT64_C(1)

#define BIDE_WORKER_OPTIONS_INIT                                                          \
    {                                                                                     \
        sizeof(bide_worker_options), 0, BIDE_BY_PRIORITY, 0, 0, NULL, NULL, NULL, 0, NULL \
    }

/* Creates a worker without handlers; options may be NULL. The queue must outlive the worker:
 * bide_close() fails with BIDE_EBUSY while it has workers. */
BIDE_API int bide_worker_new(bide *queue, const bide_worker_options *options, bide_worker **out);

/* Stops the worker, waits for every handler to return, however long that takes, and frees it. NULL
 * is allowed. BIDE_ECALLBACK from one of its own handlers or callbacks. */
BIDE_API int bide_worker_free(bide_worker *worker);

/* The name by which the worker announces itself (bide_workers()) and holds its jobs: the name of its
 * options or of the host, its pid, and a random number. Valid until it is freed; NULL for NULL. */
BIDE_API const char *bide_worker_name(const bide_worker *worker);

/* Registers the handler of a topic whose bodies are bytes; a NUL that is not counted follows them.
 * For tasks see bide_handle() in task.h. BIDE_EINVAL: the topic has a handler; BIDE_EBUSY: the
 * worker runs. */
typedef int (*bide_handler)(bide_context *context, const bide_slice *body, void *arg);
BIDE_API int bide_worker_handle(bide_worker *worker, const char *topic, bide_handler handler,
                                void *arg);

/* Sets the weight of a topic (default: 1) for the strategy BIDE_WEIGHTED. BIDE_NOT_FOUND: the topic
 * has no handler. */
BIDE_API int bide_worker_set_weight(bide_worker *worker, const char *topic, uint32_t weight);

/*
 * Adds a function around every handler. It calls bide_context_next() to run the inner functions and
 * the handler, and returns the outcome of that call or another one; it may also skip the call. The
 * first function added is the outermost. Middleware does not run for a body that cannot be decoded:
 * that is reported as an event.
 */
typedef int (*bide_middleware)(bide_context *context, void *arg);
BIDE_API int bide_worker_use(bide_worker *worker, bide_middleware middleware, void *arg);
BIDE_API int bide_context_next(bide_context *context);

/* Starts the threads. BIDE_EINVAL: no handlers; BIDE_EBUSY: the worker runs, or a handler from
 * before the last stop still does; BIDE_ECALLBACK from one of its own handlers or callbacks;
 * BIDE_ESYSTEM: a thread cannot be created, and none is left. A worker that has stopped may be
 * started again. */
BIDE_API int bide_worker_start(bide_worker *worker);

/*
 * Reserves no more jobs and waits for running handlers, at most stop_timeout_ms; then asks them to
 * stop (BIDE_REASON_STOPPING), and gives back the jobs of handlers that do not return within a
 * second, which costs no retry. BIDE_OK: all have returned, or the worker did not run.
 * BIDE_TIMED_OUT: some have not returned; their jobs are given back and their outcome is ignored;
 * or the queue does not respond. BIDE_ECALLBACK from one of its own handlers or callbacks.
 */
BIDE_API int bide_worker_stop(bide_worker *worker);

/* Asks the worker to reserve no more jobs, and does not wait. May be called from handlers, but not
 * from signal handlers. No effect on a worker that does not run. Afterwards bide_worker_stop() is
 * required before the next start. */
BIDE_API int bide_worker_quit(bide_worker *worker);
/* The same for a handler, which has only its context. */
BIDE_API int bide_context_quit(bide_context *context);

/*
 * Starts the worker, waits for SIGINT, SIGTERM, bide_worker_quit() or the shutdown of the queue,
 * and stops the worker. Meanwhile the library handles the two signals, unless they are ignored.
 * During the stop a second SIGINT, at least half a second after the first signal, has its previous
 * effect, so that Ctrl-C ends a program whose handlers do not return; a second SIGTERM has no
 * effect. Several workers may run like this; a signal stops all of them. Returns the codes of start
 * and stop.
 */
BIDE_API int bide_worker_run(bide_worker *worker);

/*
 * The simple form: runs the callback for each job of one topic, one after the other, on the calling
 * thread, until the queue is shut down or a callback calls bide_context_quit(). The callback
 * returns what a handler returns, and its time limit is the job's ttr. Does not handle signals.
 */
BIDE_API int bide_run(bide *queue, const char *topic, bide_handler callback, void *arg);

#ifdef __cplusplus
}
#endif
#endif
