/* SPDX-License-Identifier: MIT */
/*
 * worker - creation, start and stop.
 *
 * A stop has three stages, each with its own time:
 *     1. no more reserves; handlers run to their end          stop_timeout_ms
 *     2. handlers are asked to stop (BIDE_REASON_STOPPING)    GRACE_US
 *     3. jobs of handlers that still run are given back       GRACE_US, for the acks
 * A thread cannot be killed, so a handler that ignores its context outlives the stop. The worker is
 * then WORKER_STOPPING, keeps all its memory, and the next stop, start or free reaps it.
 */
#include "task/worker_internal.h"
#include "util/sized_struct.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STOP_TIMEOUT_MS    30000
#define HEALTH_INTERVAL_MS 15000
/* How long a handler may run after it was asked to stop. */
#define GRACE_US 1000000

/* The scopes of this thread; see worker_internal.h. */
static _Thread_local const struct callback_scope *innermost;

void bi_worker_enter(struct callback_scope *scope, const bide_worker *worker)
{
    *scope = (struct callback_scope){worker, innermost};
    innermost = scope;
}

void bi_worker_leave(const struct callback_scope *scope)
{
    assert(innermost == scope); /* scopes nest */
    innermost = scope->outer;
}

bool bi_worker_is_current(const bide_worker *worker)
{
    const struct callback_scope *scope = innermost;
    while (scope != NULL && scope->worker != worker)
        scope = scope->outer;
    return scope != NULL;
}

/* ---- creation ---- */

BI_SIZED_STRUCT_ENDS_WITH(bide_worker_options, name);

static int check_options(const bide_worker_options *options)
{
    if (options->threads > BIDE_WORKER_THREADS_MAX)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: %u threads; at most %d are allowed",
                                 options->threads, BIDE_WORKER_THREADS_MAX);
    if ((unsigned)options->strategy > BIDE_FAIR)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: %d is not a strategy",
                                 (int)options->strategy);
    if (options->stop_timeout_ms < BIDE_FOREVER || options->stop_timeout_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: stop_timeout_ms is not a time");
    if (options->health_interval_ms < 0 || options->health_interval_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: health_interval_ms is not a time");
    if ((options->flags & ~BIDE_WORKER_NO_SCHEDULES) != 0)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: unknown flags");
    return BIDE_OK;
}

static void resolve(bide_worker_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->threads == 0)
        options->threads = processors < 1                         ? 1
                           : processors > BIDE_WORKER_THREADS_MAX ? BIDE_WORKER_THREADS_MAX
                                                                  : (uint32_t)processors;
    if (options->stop_timeout_ms == 0)
        options->stop_timeout_ms = STOP_TIMEOUT_MS;
    if (options->health_interval_ms == 0)
        options->health_interval_ms = HEALTH_INTERVAL_MS;
}

int bide_worker_new(bide *queue, const bide_worker_options *options, bide_worker **out)
{
    bide_worker_options given = BIDE_WORKER_OPTIONS_INIT;

    bi_last_error_clear();
    if (queue == NULL || out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: queue or out is NULL");

    char error[BIDE_ERROR_SIZE];
    if (options != NULL &&
        bi_sized_struct_copy(&given, options, "BIDE_WORKER_OPTIONS_INIT", error) != BIDE_OK)
        return bi_last_error_set(BIDE_EINVAL, "worker_new: %s", error);

    int code = check_options(&given);
    if (code != BIDE_OK)
        return code;

    bide_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "worker_new: out of memory");

    worker->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->stop_fd < 0) {
        int cause = errno;
        free(worker);
        return bi_last_error_set(BIDE_ESYSTEM, "worker_new: cannot create eventfd: %s",
                                 strerror(cause));
    }

    resolve(&given);
    worker->queue = queue;
    queue->workers++; /* bide_close() is rejected while it is not 0 */
    worker->options = given;
    bi_announcer_init(worker);
    worker->options.name = NULL; /* the caller's */
    pthread_mutex_init(&worker->lifecycle_lock, NULL);
    pthread_mutex_init(&worker->lock, NULL);
    bi_thread_cond_init(&worker->changed);
    *out = worker;
    return BIDE_OK;
}

const char *bide_worker_name(const bide_worker *worker)
{
    return worker == NULL ? NULL : worker->name;
}

/* ---- events ---- */

const char *bide_work_name(bide_work_kind kind)
{
    static const char *const names[BIDE_WORK_KINDS] = {
        [BIDE_WORK_STARTED] = "started",     [BIDE_WORK_DONE] = "done",
        [BIDE_WORK_RETRIED] = "retried",     [BIDE_WORK_BURIED] = "buried",
        [BIDE_WORK_SNOOZED] = "snoozed",     [BIDE_WORK_INTERRUPTED] = "interrupted",
        [BIDE_WORK_CANCELLED] = "cancelled", [BIDE_WORK_OVERRAN] = "overran",
        [BIDE_WORK_LOST] = "lost",           [BIDE_WORK_DEFERRED] = "deferred",
        [BIDE_WORK_GIVEN_UP] = "given up",   [BIDE_WORK_UNHEALTHY] = "unhealthy",
        [BIDE_WORK_HEALTHY] = "healthy",
    };
    return (unsigned)kind < BIDE_WORK_KINDS ? names[kind] : "?";
}

void bi_worker_emit(const bide_worker *worker, const bide_work_event *event)
{
    struct callback_scope scope;
    if (worker->options.event == NULL)
        return;

    /* A start or stop emits events on the caller's thread, with lifecycle_lock held. Within the
     * scope, a start or stop by the callback is rejected instead of waiting for that lock. */
    bi_worker_enter(&scope, worker);
    worker->options.event(worker->options.user, event);
    bi_worker_leave(&scope);
}

void bi_worker_set_health(bide_worker *worker, int reason, int code, const char *text)
{
    bool healthy = code == BIDE_OK;
    bide_work_event event = {.kind = healthy ? BIDE_WORK_HEALTHY : BIDE_WORK_UNHEALTHY,
                             .code = code,
                             .text = healthy ? "" : text,
                             .topic = ""};

    /* Called for every job: the load avoids a locked instruction in the usual case. */
    if (healthy && atomic_load_explicit(&worker->unhealthy, memory_order_relaxed) == 0)
        return;
    int before = healthy ? atomic_fetch_and(&worker->unhealthy, ~reason)
                         : atomic_fetch_or(&worker->unhealthy, reason);
    if (before == (healthy ? reason : 0))
        bi_worker_emit(worker, &event);
}

void bi_worker_wait_step(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t us)
{
    struct timespec until;
    bi_clock_mono_deadline(&until, us < 1000000 ? us : 1000000);
    pthread_cond_timedwait(changed, lock, &until);
}

static void raise_stop_fd(const bide_worker *worker)
{
    uint64_t one = 1;
    ssize_t written = write(worker->stop_fd, &one, sizeof(one));
    (void)written; /* fails only if it is readable already */
}

void bi_worker_end_thread(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    assert(worker->threads_left > 0);
    if (--worker->threads_left == 0)
        raise_stop_fd(worker); /* the queue was shut down: bide_worker_run() returns */
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

/* ---- threads ---- */

static void free_threads(bide_worker *worker)
{
    struct worker_thread *threads = worker->threads;

    /* Under the lock: bide_worker_quit() may wake the threads at any time. */
    pthread_mutex_lock(&worker->lock);
    worker->threads = NULL;
    worker->threads_left = 0; /* if the background thread could not be created, none has run */
    pthread_mutex_unlock(&worker->lock);

    for (uint32_t i = 0; i < worker->options.threads; i++)
        bi_worker_thread_done(&threads[i]);
    free(threads);
}

static int create_threads(bide_worker *worker)
{
    struct worker_thread *threads = calloc(worker->options.threads, sizeof(*threads));
    if (threads == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "worker_start: out of memory");

    int code = BIDE_OK;

    /* Threads behind a failure stay zeroed, which bi_worker_thread_done() accepts. */
    for (uint32_t i = 0; i < worker->options.threads && code == BIDE_OK; i++)
        code = bi_worker_thread_init(&threads[i], worker);

    pthread_mutex_lock(&worker->lock);
    assert(worker->threads == NULL && worker->threads_left == 0 && worker->pending_acks == NULL);
    worker->threads = threads;
    worker->threads_left = worker->options.threads;
    pthread_mutex_unlock(&worker->lock);

    if (code == BIDE_OK)
        code = bi_background_start(&worker->background, worker);
    if (code == BIDE_OK)
        return BIDE_OK;

    /* The cleanup makes calls that clear the last error. */
    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, bide_last_error());
    free_threads(worker);
    return bi_last_error_set(code, "%s", error);
}

/* ---- stop ---- */

int bide_worker_quit(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (worker == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_quit: worker is NULL");

    pthread_mutex_lock(&worker->lock);
    /* NULL: it does not run, and a later start must not see this call. */
    if (worker->threads != NULL) {
        atomic_store(&worker->stopping, true);
        raise_stop_fd(worker);
    }
    for (uint32_t i = 0; worker->threads != NULL && i < worker->options.threads; i++)
        bi_worker_thread_wake(&worker->threads[i]);
    pthread_mutex_unlock(&worker->lock);
    return BIDE_OK;
}

/* No ack is pending and, with `threads`, all worker threads have ended. With the lock held. */
static bool is_stopped(const bide_worker *worker, bool threads)
{
    return worker->pending_ack_count == 0 && (!threads || worker->threads_left == 0);
}

static bool await_stopped(bide_worker *worker, bool threads, int64_t end)
{
    pthread_mutex_lock(&worker->lock);
    for (int64_t now; !is_stopped(worker, threads) && (now = bi_clock_boot()) < end;)
        bi_worker_wait_step(&worker->changed, &worker->lock, end - now);

    bool ended = is_stopped(worker, threads);
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

void bi_worker_request_stop(bide_worker *worker, uint64_t id, bide_reason reason)
{
    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->threads[i].context;
        pthread_mutex_lock(&context->lock);
        if (context->running && (id == 0 || context->job.id == id))
            bi_context_request_stop(context, reason);
        pthread_mutex_unlock(&context->lock);
    }
}

/* Gives back the jobs of handlers that do not return. The syncer submits the acks, since the
 * threads are busy. */
static void revoke_jobs(bide_worker *worker)
{
    static const struct ack none;
    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->threads[i].context;
        struct ack ack = none;
        pthread_mutex_lock(&context->lock);
        bool runs = context->running && !context->given_back;
        if (runs) {
            /* Under the lock: bi_context_end() reads it there, so exactly one of the two sends an
             * ack. The job cannot change meanwhile: the thread clears it after bi_context_end(). */
            context->given_back = true;
            bi_ack_give_back(&ack, context);
            bi_context_request_stop(context, BIDE_REASON_LEASE_LOST);
        }
        pthread_mutex_unlock(&context->lock);
        if (runs && !bi_syncer_add(&worker->background, &ack))
            bi_ack_abandon(&ack, worker, BIDE_ENOMEM);
    }
}

/* Microseconds until the end; without an end, a year. */
static int64_t time_left(int64_t end)
{
    int64_t left = end - bi_clock_boot(), year = INT64_C(31536000000000);
    return left < 0 ? 0 : left > year ? year : left;
}

/* Joins and frees all threads if they end before `end`; else frees nothing. */
static bool reap(bide_worker *worker, int64_t end)
{
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->threads_left == 0;
    pthread_mutex_unlock(&worker->lock);

    /* The worker threads first: they use the background thread, whose ops may be in flight. */
    if (!ended || !bi_scheduler_join(worker->scheduler, time_left(end)))
        return false;
    worker->scheduler = NULL;
    if (!bi_background_stop(&worker->background, end))
        return false;

    for (uint32_t i = 0; i < worker->options.threads; i++)
        if (worker->threads[i].started) /* not by bide_run(), which runs on its caller's thread */
            pthread_join(worker->threads[i].handle, NULL);
    bi_background_done(&worker->background);
    assert(worker->pending_acks == NULL && worker->pending_ack_count == 0);
    free_threads(worker);
    worker->state = WORKER_IDLE;
    return true;
}

static bool has_running(const bide_worker *worker)
{
    bool runs = false;

    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->threads[i].context;
        pthread_mutex_lock(&context->lock);
        runs = runs || context->running;
        pthread_mutex_unlock(&context->lock);
    }

    return runs;
}

int bi_worker_stop(bide_worker *worker)
{
    int64_t timeout_ms = worker->options.stop_timeout_ms;
    int64_t end = timeout_ms < 0 ? NEVER : bi_clock_boot() + timeout_ms * 1000;
    assert(worker->state != WORKER_IDLE && worker->threads != NULL);

    worker->state = WORKER_STOPPING;
    bi_scheduler_quit(worker->scheduler);
    bide_worker_quit(worker);
    if (!await_stopped(worker, true, end)) {
        bi_worker_request_stop(worker, 0, BIDE_REASON_STOPPING);
        if (!await_stopped(worker, true, bi_clock_boot() + GRACE_US)) {
            /* Wait for the acks only: the remaining handlers do not return. */
            revoke_jobs(worker);
            await_stopped(worker, false, bi_clock_boot() + GRACE_US);
        }
    }

    /* What is left of the stop timeout is for ops of the background thread. */
    int64_t grace = bi_clock_boot() + GRACE_US;
    if (reap(worker, end > grace ? end : grace))
        return BIDE_OK;
    return bi_last_error_set(BIDE_TIMED_OUT,
                             has_running(worker)
                                 ? "worker_stop: handlers still run; their jobs were given back"
                                 : "worker_stop: the queue does not answer");
}

int bide_worker_stop(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (worker == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_stop: worker is NULL");
    if (bi_worker_is_current(worker))
        return bi_last_error_set(BIDE_ECALLBACK, "worker_stop: called by one of its own handlers");

    pthread_mutex_lock(&worker->lifecycle_lock);
    int code = worker->state == WORKER_IDLE ? BIDE_OK : bi_worker_stop(worker);
    pthread_mutex_unlock(&worker->lifecycle_lock);
    return code;
}

int bide_worker_free(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (worker == NULL)
        return BIDE_OK;
    if (bi_worker_is_current(worker))
        return bi_last_error_set(BIDE_ECALLBACK, "worker_free: called by one of its own handlers");
    if (bide_worker_stop(worker) != BIDE_OK) {
        /* Handlers use the worker until they return, however long that takes. */
        pthread_mutex_lock(&worker->lock);
        while (worker->threads_left > 0)
            pthread_cond_wait(&worker->changed, &worker->lock);
        pthread_mutex_unlock(&worker->lock);
        reap(worker, NEVER); /* pending acks are abandoned */
    }

    assert(worker->state == WORKER_IDLE && worker->threads == NULL && worker->queue->workers > 0);
    worker->queue->workers--;
    bi_registry_free(worker);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    pthread_mutex_destroy(&worker->lifecycle_lock);
    close(worker->stop_fd);
    free(worker);
    bi_last_error_clear(); /* a stop that timed out has set it */
    return BIDE_OK;
}

/* ---- start ---- */

/* A queue without schedules needs none. A failure leaves the worker as it was before its start. */
static int start_scheduler(bide_worker *worker)
{
    if ((worker->options.flags & BIDE_WORKER_NO_SCHEDULES) != 0)
        return BIDE_OK;
    bide_scheduler_options options = BIDE_SCHEDULER_OPTIONS_INIT;
    options.name = bide_worker_name(worker);
    int code = bi_scheduler_start(worker->queue, &options, false, &worker->scheduler);
    if (code == BIDE_OK || code == BIDE_ENOTSUP) {
        bi_last_error_clear();
        return BIDE_OK;
    }

    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, bide_last_error());
    worker->threads_left = 0; /* none has been started */
    reap(worker, NEVER);
    return bi_last_error_set(code, "worker_start: %s", error);
}

int bi_worker_prepare(bide_worker *worker)
{
    if (worker->entry_count == 0)
        return bi_last_error_set(BIDE_EINVAL, "worker_start: the worker has no handlers");
    if (worker->state == WORKER_RUNNING)
        return bi_last_error_set(BIDE_EBUSY, "worker_start: the worker runs already");
    if (worker->state == WORKER_STOPPING && !reap(worker, bi_clock_boot() + GRACE_US))
        return bi_last_error_set(BIDE_EBUSY,
                                 "worker_start: what ran before the stop has not ended yet");

    /* State that the last run left behind. */
    atomic_store(&worker->stopping, false);
    bi_worker_set_health(worker, atomic_load(&worker->unhealthy), BIDE_OK, "");
    uint64_t count;
    ssize_t got = read(worker->stop_fd, &count, sizeof(count));
    (void)got; /* fails if it is not readable */

    int code = create_threads(worker);
    if (code != BIDE_OK)
        return code;
    worker->state = WORKER_RUNNING;
    return start_scheduler(worker);
}

static void *worker_thread_main(void *arg)
{
    BI_NO_CANCEL;
    struct worker_thread *thread = arg;

    /* start_threads() holds the lock until threads_left is final and it is known that all threads
     * could be created. */
    pthread_mutex_lock(&thread->worker->lock);
    pthread_mutex_unlock(&thread->worker->lock);

    bi_worker_thread_run(thread);
    bi_worker_end_thread(thread->worker);
    return NULL;
}

/* The threads run the program's code, so they inherit the signal mask of the caller. If one cannot
 * be created the others end without having reserved a job. Returns 0, or the cause as an errno. */
static int start_threads(bide_worker *worker)
{
    int cause = 0;
    uint32_t started = 0;
    uint32_t threads = worker->options.threads;

    pthread_mutex_lock(&worker->lock);
    for (; started < threads; started++) {
        struct worker_thread *thread = &worker->threads[started];
        cause = pthread_create(&thread->handle, NULL, worker_thread_main, thread);
        thread->started = cause == 0;
        if (!thread->started)
            break;
    }

    worker->threads_left = started;
    if (started < threads)
        atomic_store(&worker->stopping, true);
    pthread_mutex_unlock(&worker->lock);
    return cause;
}

int bide_worker_start(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (worker == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_start: worker is NULL");

    /* A stop that waits for this handler holds lifecycle_lock: a deadlock. */
    if (bi_worker_is_current(worker))
        return bi_last_error_set(BIDE_ECALLBACK, "worker_start: called by one of its own handlers");

    pthread_mutex_lock(&worker->lifecycle_lock);
    int code = bi_worker_prepare(worker);
    int cause = code == BIDE_OK ? start_threads(worker) : 0;
    if (cause != 0) {
        bi_worker_stop(worker);
        code = bi_last_error_set(BIDE_ESYSTEM, "worker_start: cannot create thread: %s",
                                 strerror(cause));
    }
    pthread_mutex_unlock(&worker->lifecycle_lock);
    return code;
}
