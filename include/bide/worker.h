/* SPDX-License-Identifier: MIT */
/*
 * worker.h - functions that are run for jobs, on threads of their own.
 *
 *     bide_worker *worker;
 *     bide_worker_new(queue, NULL, &worker);
 *     bide_handle(worker, send_email, send, NULL);   // task.h
 *     bide_worker_run(worker);                       // until SIGINT or SIGTERM
 *     bide_worker_free(worker);
 *
 * A worker takes a job when a thread is free for it, never before, runs the handler of its topic,
 * and tells the queue what came of it. It hears of cancels, keeps the lease alive if the task has a
 * time limit beyond its ttr, and tells the queue again what could not be told at once.
 *
 * A handler is given a context, the data, and the arg that it was registered with. It answers
 *     BIDE_DONE                           0: the job is finished
 *     bide_context_result(...)            finished, with a result
 *     bide_context_retry(...)             it went wrong: again after the job's backoff, or buried
 *                                         when its retries are used up
 *     bide_context_retry_in(...)          the same, after a given time
 *     bide_context_bury(...)              no use to try again: set aside, with the reason
 *     bide_context_snooze(...)            not now: again after a time, which is no failure
 *     BIDE_GIVE_BACK                      not here: back at once, as if it had never been taken
 * or any other number, which is a retry with the sentence "the handler answered N"; if it is the
 * code of the last call that the handler made, with the sentence of that call. BIDE_RETRY,
 * BIDE_BURY and BIDE_SNOOZE may be returned without these calls: then there is no reason, and a
 * snooze is as long as the first retry.
 *
 * Threads    Handlers run on the worker's threads, several at a time; a context is for the handler
 *            that it was given to, and for the thread that it runs on, but bide_context_reason()
 *            and bide_context_wait() may be called from any other while the handler runs.
 * Time       A handler has its time limit: the ttr of its job (60 s if nothing is said) unless the
 *            task has another; see bide_context_left_ms(). When the lease has run out another thread
 *            may begin the job, of this worker, too, while the first still runs. A thread cannot be
 *            stopped from outside: a handler that may take long looks at bide_context_reason().
 * Ownership  The data of a handler, and what it points to, is the worker's, until it returns.
 * Signals    The threads have the signal mask of whoever starts the worker.
 * Failure    What the worker cannot do it tells the event handler. A handler must not leave by
 *            longjmp, exception (which ends the process) or pthread_exit; it runs with
 *            cancellation (pthread_cancel()) disabled.
 */
#ifndef BIDE_WORKER_H
#define BIDE_WORKER_H

#include <bide/bide.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BIDE_WORKER_THREADS_MAX    1000
#define BIDE_WORKER_TOPICS_MAX     5000 /* each costs every reserve about 0.1 us */
#define BIDE_WORKER_MIDDLEWARE_MAX 64

typedef struct bide_worker bide_worker;
typedef struct bide_context bide_context;

/* Any function; it is called as what it is. */
typedef void bide_function(void);

/* What a handler answers. Not codes of error.h: a handler may answer the code of a call that it
 * made, and every code but 0 is a failure. */
typedef enum bide_outcome {
    BIDE_DONE = 0,
    BIDE_RETRY = 100,
    BIDE_BURY = 101,
    BIDE_SNOOZE = 102,
    BIDE_GIVE_BACK = 103,
} bide_outcome;

/* ---- what a handler can ask and say ---- */

/* The job as it was reserved; valid until the handler returns. */
BIDE_API const bide_job *bide_context_job(const bide_context *context);
/* The queue that it came from. */
BIDE_API bide *bide_context_queue(const bide_context *context);
/* 1 the first time, then one more after each failure. */
BIDE_API uint32_t bide_context_attempt(const bide_context *context);
/* If this attempt fails, is the job buried? In a fallback: will it be? */
BIDE_API bool bide_context_is_last(const bide_context *context);

/*
 * How long the handler may still run; 0 when the time is over or the lease is lost. The time limit
 * is that of the task; if it has none, the job's ttr, counted anew from every bide_context_touch().
 * With a time limit that is longer than the ttr, or BIDE_FOREVER, the worker itself extends the
 * lease again and again until the limit has passed; so the ttr can be short, for if the process
 * dies, another worker gets the job when the ttr is over. With BIDE_FOREVER it is BIDE_TIME_MAX_MS.
 */
BIDE_API int64_t bide_context_left_ms(const bide_context *context);

/* Why a handler should stop. */
typedef enum bide_reason {
    BIDE_REASON_NONE = 0,       /* it should not */
    BIDE_REASON_CANCELLED = 1,  /* bide_cancel(): whatever it answers, the job goes away */
    BIDE_REASON_OVERRUN = 2,    /* its time is over; its answer may still be in time */
    BIDE_REASON_LEASE_LOST = 3, /* the job is not its own any more; its answer will be refused */
    BIDE_REASON_STOPPING = 4,   /* the worker stops, and its stop_timeout is over; an answer other
                                   than done gives the job back and counts nothing */
} bide_reason;

/* "none", "cancelled", ...; "?" for a number that is none. */
BIDE_API const char *bide_reason_name(bide_reason reason);

/* Cheap enough to be asked in every turn of a loop. */
BIDE_API bide_reason bide_context_reason(const bide_context *context);
/* Sleeps that long, or until there is a reason to stop; answers it. */
BIDE_API bide_reason bide_context_wait(bide_context *context, int64_t for_ms);
/* A file descriptor that is readable when there is a reason to stop, to be polled with others; not
 * to be read or closed. BIDE_ESYSTEM. */
BIDE_API int bide_context_fd(bide_context *context);

/* Extends the lease by the job's ttr from now, as bide_touch(). BIDE_OK; BIDE_CANCEL_WANTED,
 * BIDE_LEASE_LOST, BIDE_NOT_FOUND: stop; BIDE_TOUCH_LIMIT. */
BIDE_API int bide_context_touch(bide_context *context);

/* A line that whoever looks at the job sees, within a second; at most BIDE_PROGRESS_MAX bytes, the
 * rest is cut. Cheap: only the last one is sent. It does not extend the lease. */
BIDE_API void bide_context_progress(bide_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What the job leaves behind when the outcome is done. It is kept for the job's retain_ms: without
 * one nobody sees it. Copied; the last one counts. BIDE_OK, which is BIDE_DONE, so that it can be
 * returned; BIDE_TOO_BIG, BIDE_ENOMEM. */
BIDE_API int bide_context_result(bide_context *context, const void *data, size_t size);
/* The same with a value of a BIDE_TYPE (type.h), as JSON: bide_context_result_as(context, TYPE,
 * value). Also BIDE_EINVAL when it cannot be written. */
#define bide_context_result_as(context, name_, ...) \
    ((void)sizeof(bide_of_##name_), bide_result_of_##name_((context), __VA_ARGS__))

/* How long the job is kept when the outcome is done, instead of its retain_ms; 0: not at all. A
 * result is then seen although the put did not ask for one. BIDE_OK, which is BIDE_DONE;
 * BIDE_EINVAL. */
BIDE_API int bide_context_retain(bide_context *context, int64_t retain_ms);

/* These keep the sentence (format may be NULL) and answer what the handler is to return. */
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
    BIDE_WORK_DONE = 1,        /* and the queue has been told; so with all that follow */
    BIDE_WORK_RETRIED = 2,     /* failed; again in delay_ms */
    BIDE_WORK_BURIED = 3,      /* failed for good, or could not be read */
    BIDE_WORK_SNOOZED = 4,     /* again in delay_ms */
    BIDE_WORK_INTERRUPTED = 5, /* given back: the worker stops, or the handler said so */
    BIDE_WORK_CANCELLED = 6,   /* gone, as somebody wanted */
    BIDE_WORK_OVERRAN = 7,     /* the handler has passed its time limit, and runs on */
    BIDE_WORK_LOST = 8,        /* the answer was refused: the lease had run out */
    BIDE_WORK_OWED = 9,        /* the queue could not be told now: the worker tries again */
    BIDE_WORK_GIVEN_UP = 10,   /* nor until the lease ended: the job will be done again */
    BIDE_WORK_STARVED = 11,    /* no jobs can be had: the queue does not answer, or refuses */
    BIDE_WORK_FED = 12,        /* they can again */
} bide_work_kind;

#define BIDE_WORK_KINDS 13

/* "started", "done", ...; "?" for a number that is none. */
BIDE_API const char *bide_work_name(bide_work_kind kind);

typedef struct bide_work_event {
    bide_work_kind kind;
    int code;          /* of the call that failed, where one did */
    const char *text;  /* what went wrong; "" where nothing did */
    uint64_t id;       /* of the job; 0 for STARVED and FED */
    const char *topic; /* "" for these */
    uint32_t attempt;
    int64_t delay_ms; /* until the job comes again */
    int64_t took_us;  /* how long the handler ran */
} bide_work_event;

/* Called from the worker's threads, several at a time, with no lock held, and in no order
 * between threads; what the event points to is valid meanwhile. It must not stop or free the
 * worker, and should be quick: some are told by the thread that extends leases. */
typedef void (*bide_work_handler)(void *user, const bide_work_event *event);

/* Called after every look at the queue's health, every health_interval_ms, with its code:
 * BIDE_OK, or what bide_ping() answers; BIDE_TIMED_OUT when there was no answer until the next
 * look was due. */
typedef void (*bide_health_handler)(void *user, int code, const char *text);

/* Begin with BIDE_WORKER_OPTIONS_INIT, in which 0 means the default. */
typedef struct bide_worker_options {
    size_t size;                /* sizeof(bide_worker_options) */
    uint32_t threads;           /* handlers at a time; as many as there are processors */
    bide_strategy strategy;     /* among its topics; strict: in the order they were registered */
    int64_t stop_timeout_ms;    /* how long a stop lets handlers run: 30 s; BIDE_FOREVER */
    int64_t health_interval_ms; /* 15 s */
    bide_work_handler event;    /* may be NULL */
    bide_health_handler health; /* may be NULL */
    void *user;                 /* theirs */
} bide_worker_options;

#define BIDE_WORKER_OPTIONS_INIT                                                 \
    {                                                                            \
        sizeof(bide_worker_options), 0, BIDE_BY_PRIORITY, 0, 0, NULL, NULL, NULL \
    }

/* A worker without handlers; options may be NULL. The queue must live longer than the worker. */
BIDE_API int bide_worker_new(bide *queue, const bide_worker_options *options, bide_worker **out);

/* Stops it, waits for every handler to return, however long that takes, and frees. NULL is fine.
 * BIDE_ECALLBACK from one of its own handlers. */
BIDE_API int bide_worker_free(bide_worker *worker);

/* The handler of a topic whose jobs are bytes; a NUL that is not counted follows them. Tasks:
 * bide_handle() in task.h. BIDE_EINVAL: the topic has one; BIDE_EBUSY: the worker runs. */
typedef int (*bide_handler)(bide_context *context, const bide_slice *body, void *arg);
BIDE_API int bide_worker_handle(bide_worker *worker, const char *topic, bide_handler handler,
                                void *arg);

/* The share of a topic, 1 unless said, where the strategy is BIDE_WEIGHTED. BIDE_NOT_FOUND: it has
 * no handler. */
BIDE_API int bide_worker_weigh(bide_worker *worker, const char *topic, uint32_t weight);

/*
 * A function around every handler: it runs the rest by bide_context_next(), and answers what that
 * answers, or something else; it may also not run it. The first one that was added is the
 * outermost. A body that cannot be read has no handler to be around: the event tells of it.
 */
typedef int (*bide_middleware)(bide_context *context, void *arg);
BIDE_API int bide_worker_use(bide_worker *worker, bide_middleware middleware, void *arg);
BIDE_API int bide_context_next(bide_context *context);

/* Starts the threads. BIDE_EINVAL: no handlers; BIDE_EBUSY: it runs already, or a handler of
 * before the last stop still does; BIDE_ECALLBACK from one of its own handlers; BIDE_ESYSTEM,
 * and no thread is left. A worker that has stopped may be started again. */
BIDE_API int bide_worker_start(bide_worker *worker);

/*
 * Takes no more jobs, waits for the handlers that run, for stop_timeout_ms at most; then tells
 * them (BIDE_REASON_STOPPING), and gives back the jobs of those that do not return within a
 * second, which costs no retry. BIDE_OK: all have returned. BIDE_TIMED_OUT: some have not; their
 * jobs are given back, and what they answer will not matter; or the queue does not answer. BIDE_ECALLBACK from one of its own
 * handlers. A worker that does not run has stopped: BIDE_OK.
 */
BIDE_API int bide_worker_stop(bide_worker *worker);

/* Asks it to stop, and does not wait: takes no more jobs. May be called from handlers, but not from
 * signal handlers. A worker that does not run hears nothing of it; one that did must be stopped by
 * bide_worker_stop() before it is started again. */
BIDE_API int bide_worker_quit(bide_worker *worker);
/* The same, by a handler that has only its context. */
BIDE_API int bide_context_quit(bide_context *context);

/*
 * Starts the worker, waits for SIGINT or SIGTERM, bide_worker_quit(), or the queue's shutdown, and
 * stops it. The two signals have a handler of the library's meanwhile, unless they are ignored.
 * While it stops a second SIGINT, half a second later or more, does what it did before, so that
 * Ctrl-C ends a program that does not want to end; a second SIGTERM does nothing. Several may run
 * like this; a signal stops all of them. Answers as start and stop.
 */
BIDE_API int bide_worker_run(bide_worker *worker);

/*
 * The simple form: calls back for each job of one topic, one after the other, on the calling
 * thread, until the queue is shut down or a callback calls bide_context_quit(). The callback
 * answers what a handler answers, and has the job's ttr for it; otherwise this is a worker with
 * one thread. It does not look at signals.
 */
BIDE_API int bide_run(bide *queue, const char *topic, bide_handler callback, void *arg);

#ifdef __cplusplus
}
#endif
#endif
