/* SPDX-License-Identifier: MIT */
/*
 * context - the interface between a running handler and its worker.
 *
 * Threads    The handler's thread owns the context. The background thread and a stop change the
 *            reason to stop, the lease and the touch times, under the lock. Any thread may call
 *            bide_context_reason() and bide_context_wait() while the handler runs.
 */
#include "task/worker_internal.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Progress is sent this long after the first call; later calls in between replace it. So a handler
 * may report in a tight loop. */
#define PROGRESS_DELAY_US 200000

/* ---- lifecycle ---- */

void bi_context_init(struct bide_context *context, bide_worker *worker)
{
    context->worker = worker;
    context->fd = -1;
    pthread_mutex_init(&context->lock, NULL);
    bi_thread_cond_init(&context->changed);
}

void bi_context_done(struct bide_context *context)
{
    assert(!context->running && context->fd < 0);
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
}

/* Saturates: BIDE_FOREVER, and what does not fit, is NEVER. */
static int64_t add_ms(int64_t from, int64_t ms)
{
    return ms < 0 || ms > (NEVER - from) / 1000 ? NEVER : from + ms * 1000;
}

void bi_context_extend_lease(struct bide_context *context, int64_t end)
{
    atomic_store(&context->lease_end, end);
    context->lease_end_reported = false;

    /* Without a time limit of its own the handler may run as long as the lease lasts. */
    if (context->deadline_is_lease) {
        atomic_store(&context->deadline, end);
        context->overrun_reported = false;
    }
}

void bi_context_begin(struct bide_context *context)
{
    const struct entry *entry = context->entry;
    assert(entry != NULL && !context->running && context->fd < 0);
    assert(context->result == NULL && context->error[0] == 0); /* cleared after the last job */
    assert(context->puts == NULL);

    int64_t now = context->started = bi_clock_boot();
    int64_t limit_ms = entry->time_limit_ms;
    bool longer = limit_ms < 0 || limit_ms > context->job.ttr_ms;

    context->delay_ms = context->retain_ms = BIDE_KEEP;
    context->will_bury = context->in_fallback = context->was_run = false;
    context->middleware_next = 0;
    context->body = (bide_slice){context->job.body, context->job.body_size};

    pthread_mutex_lock(&context->lock);
    atomic_store(&context->stop_reason, BIDE_REASON_NONE);
    atomic_store(&context->deadline, add_ms(now, limit_ms));
    context->deadline_is_lease = limit_ms == 0;
    context->running = true;
    context->given_back = context->overrun_reported = false;
    context->touch_refused = context->touch_postponed = false;
    bi_context_extend_lease(context, add_ms(context->reserved_at != 0 ? context->reserved_at : now,
                                            context->job.left_ms));

    /* Only a time limit beyond the ttr needs the heartbeat. The other handlers keep the lease that
     * they have, so that a handler which hangs loses its job. */
    context->touch_at =
        longer && !context->deadline_is_lease ? now + context->job.ttr_ms * 1000 / 3 : NEVER;
    context->progress_at = NEVER;
    context->progress_size = 0;
    struct background *background = &context->worker->background;
    bool no_events = atomic_load_explicit(&background->no_events, memory_order_relaxed);
    context->query_at = no_events ? now + QUERY_INTERVAL_US : NEVER;
    int64_t due = bi_context_next_due(context);
    pthread_mutex_unlock(&context->lock);

    bi_background_schedule(background, due);
}

bide_work_event bi_context_event(const struct bide_context *context, bide_work_kind kind)
{
    return (bide_work_event){
        .kind = kind,
        .text = "",
        .id = context->job.id,
        .topic = context->entry->topic,
        .attempt = bide_context_attempt(context),
    };
}

bool bi_context_check_overrun(struct bide_context *context, int64_t now, bide_work_event *event)
{
    if (!context->running || context->overrun_reported || now < atomic_load(&context->deadline))
        return false;

    context->overrun_reported = true;
    *event = bi_context_event(context, BIDE_WORK_OVERRAN);
    event->took_us = now - context->started;
    return true;
}

bool bi_context_end(struct bide_context *context)
{
    /* The handler may return before the background thread has seen the overrun. Without an event
     * handler the clock is not read: that costs a tenth of an empty handler. */
    bide_work_event event;
    bool emits = context->worker->options.event != NULL;
    int64_t now = emits ? bi_clock_boot() : 0;

    pthread_mutex_lock(&context->lock);
    bool overran = emits && !context->given_back && bi_context_check_overrun(context, now, &event);
    context->running = false;
    pthread_cond_broadcast(&context->changed); /* another thread may be in bide_context_wait() */
    bool still_owner = !context->given_back;

    /* Under the lock: bi_context_request_stop() must not write to a descriptor that is closed, or
     * reused. */
    if (context->fd >= 0)
        close(context->fd);
    context->fd = -1;
    pthread_mutex_unlock(&context->lock);

    if (overran)
        bi_worker_emit(context->worker, &event);
    return still_owner;
}

void bi_context_clear(struct bide_context *context)
{
    assert(!context->running); /* other threads read the job of a running handler */
    bide_decoded_free(context->decoded);
    bide_buf_unref(context->result);
    bi_put_list_free(context->puts);
    bide_job_clear(&context->job);
    context->decoded = context->data = NULL;
    context->result = NULL;
    context->puts = NULL;
    context->error[0] = 0;
}

int64_t bi_context_next_deadline(const struct bide_context *context)
{
    if (!context->running)
        return NEVER;
    return bi_background_earlier(
        context->overrun_reported ? NEVER : atomic_load(&context->deadline),
        context->lease_end_reported ? NEVER : atomic_load(&context->lease_end));
}

int64_t bi_context_next_due(const struct bide_context *context)
{
    if (!context->running)
        return NEVER;
    int64_t due = bi_context_next_deadline(context);
    if (!context->overrun_reported) /* an overrun ends the touches */
        due = bi_background_earlier(due, context->touch_at);
    due = bi_background_earlier(due, context->query_at);
    return bi_background_earlier(due, context->progress_at);
}

/* ---- the reason to stop ---- */

const char *bide_reason_name(bide_reason reason)
{
    static const char *const names[] = {
        [BIDE_REASON_NONE] = "none",         [BIDE_REASON_CANCELLED] = "cancelled",
        [BIDE_REASON_OVERRUN] = "overrun",   [BIDE_REASON_LEASE_LOST] = "lease lost",
        [BIDE_REASON_STOPPING] = "stopping",
    };
    return (unsigned)reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "?";
}

/* Of two reasons the handler sees the one that makes more of its work useless. */
static int severity_of(int reason)
{
    static const int severities[] = {
        [BIDE_REASON_NONE] = 0,      [BIDE_REASON_OVERRUN] = 1,    [BIDE_REASON_STOPPING] = 2,
        [BIDE_REASON_CANCELLED] = 3, [BIDE_REASON_LEASE_LOST] = 4,
    };
    assert((size_t)reason < sizeof(severities) / sizeof(severities[0]));
    return severities[reason];
}

void bi_context_request_stop(struct bide_context *context, bide_reason reason)
{
    if (severity_of(atomic_load(&context->stop_reason)) < severity_of((int)reason))
        atomic_store(&context->stop_reason, (int)reason);
    pthread_cond_broadcast(&context->changed);
    if (context->fd >= 0) {
        ssize_t written = write(context->fd, &(uint64_t){1}, sizeof(uint64_t));
        (void)written; /* fails only if it is readable already */
    }
}

/* A stored reason wins over the clock: it is more exact, and stays when the lease is extended. */
static bide_reason reason_at(const bide_context *context, int64_t now)
{
    int stop_reason = atomic_load(&context->stop_reason);
    if (stop_reason != BIDE_REASON_NONE)
        return (bide_reason)stop_reason;
    if (now >= atomic_load(&context->deadline))
        return BIDE_REASON_OVERRUN;
    return now >= atomic_load(&context->lease_end) ? BIDE_REASON_LEASE_LOST : BIDE_REASON_NONE;
}

bide_reason bide_context_reason(const bide_context *context)
{
    return context == NULL ? BIDE_REASON_NONE : reason_at(context, bi_clock_boot());
}

bide_reason bide_context_wait(bide_context *context, int64_t for_ms)
{
    BI_NO_CANCEL;
    if (context == NULL)
        return BIDE_REASON_NONE;

    int64_t now = bi_clock_boot();
    int64_t end = add_ms(now, for_ms);
    bide_reason reason;

    pthread_mutex_lock(&context->lock);
    while ((reason = reason_at(context, now)) == BIDE_REASON_NONE && now < end &&
           context->running) {
        int64_t until = bi_background_earlier(atomic_load(&context->deadline),
                                              atomic_load(&context->lease_end));
        bi_worker_wait_step(&context->changed, &context->lock,
                            bi_background_earlier(until, end) - now);
        now = bi_clock_boot();
    }
    pthread_mutex_unlock(&context->lock);
    return reason;
}

int bide_context_fd(bide_context *context)
{
    bi_last_error_clear();
    if (context == NULL)
        return bi_last_error_set(BIDE_EINVAL, "context_fd: context is NULL");

    pthread_mutex_lock(&context->lock);
    if (context->fd < 0) {
        /* A reason from before the call must be visible, too. */
        bool has_reason = reason_at(context, bi_clock_boot()) != BIDE_REASON_NONE;
        context->fd = eventfd(has_reason ? 1 : 0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    int fd = context->fd, cause = errno;
    pthread_mutex_unlock(&context->lock);

    if (fd < 0)
        return bi_last_error_set(BIDE_ESYSTEM, "context_fd: cannot create eventfd: %s",
                                 strerror(cause));
    return fd;
}

int64_t bide_context_left_ms(const bide_context *context)
{
    if (context == NULL)
        return 0;

    if (atomic_load(&context->stop_reason) == BIDE_REASON_LEASE_LOST)
        return 0; /* the queue has ended the lease, also if the local lease_end is later */

    int64_t end = atomic_load(&context->deadline);
    int64_t now = bi_clock_boot();
    if (now >= atomic_load(&context->lease_end))
        return 0; /* the background thread could not extend the lease up to the limit */
    return end == NEVER ? BIDE_TIME_MAX_MS : end <= now ? 0 : (end - now + 999) / 1000;
}

/* ---- the job ---- */

const bide_job *bide_context_job(const bide_context *context)
{
    return context == NULL ? NULL : &context->job;
}

bide *bide_context_queue(const bide_context *context)
{
    return context == NULL ? NULL : context->worker->queue;
}

uint32_t bide_context_attempt(const bide_context *context)
{
    return context == NULL ? 0 : context->job.failures + 1;
}

bool bide_context_is_last(const bide_context *context)
{
    const bide_job *job = bide_context_job(context);
    return job != NULL && (context->will_bury ||
                           (job->max_retries >= 0 && job->failures >= (uint32_t)job->max_retries));
}

/* ---- the lease ---- */

int bide_context_touch(bide_context *context)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (context == NULL)
        return bi_last_error_set(BIDE_EINVAL, "context_touch: context is NULL");

    bide_op op;
    op.kind = BIDE_OP_TOUCH;
    op.touch = (bide_touch_item){.id = context->job.id, .token = context->job.token};

    /* Before the call: the server counts from a later time, so lease_end is never too late. */
    int64_t before = bi_clock_boot();
    int code = bi_blocking_call_run(context->worker->queue, &op);
    int64_t left_ms = op.touch.left_ms > 0 ? op.touch.left_ms : context->job.ttr_ms;

    pthread_mutex_lock(&context->lock);
    if (code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        bi_context_extend_lease(context, add_ms(before, left_ms));
    if (code == BIDE_CANCEL_WANTED)
        bi_context_request_stop(context, BIDE_REASON_CANCELLED);
    if (code == BIDE_LEASE_LOST || code == BIDE_NOT_FOUND)
        bi_context_request_stop(context, BIDE_REASON_LEASE_LOST);
    int64_t due = bi_context_next_due(context);
    pthread_mutex_unlock(&context->lock);

    bi_background_schedule(&context->worker->background, due);
    return code;
}

/* Truncates text at the boundary of a UTF-8 character. */
static size_t truncate_utf8(const char *text, size_t size, size_t max)
{
    if (size <= max)
        return size;
    size = max;
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    assert(size <= max);
    return size;
}

void bide_context_progress(bide_context *context, const char *format, ...)
{
    char text[4 * BIDE_PROGRESS_MAX];
    va_list args;
    if (context == NULL || format == NULL)
        return;

    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (size < 0)
        return;

    /* The buffer exceeds the limit, so that the byte behind it shows where a character ends. */
    size_t length = truncate_utf8(text, strlen(text), BIDE_PROGRESS_MAX);

    pthread_mutex_lock(&context->lock);
    memcpy(context->progress, text, length);
    context->progress_size = length;

    /* Only the first of several calls schedules; `running` excludes a call after the handler. */
    bool fresh = context->running && context->progress_at == NEVER;
    if (fresh)
        context->progress_at = bi_clock_boot() + PROGRESS_DELAY_US;
    int64_t due = context->progress_at;
    pthread_mutex_unlock(&context->lock);
    if (fresh)
        bi_background_schedule(&context->worker->background, due);
}

/* ---- outcome ---- */

int bide_context_result(bide_context *context, const void *data, size_t size)
{
    bi_last_error_clear();
    if (context == NULL || (data == NULL && size > 0))
        return bi_last_error_set(BIDE_EINVAL, "context_result: context or data is NULL");

    size_t max = context->worker->queue->options.max_result_size;
    if (size > max)
        return bi_last_error_set(BIDE_TOO_BIG, "context_result: %zu bytes; max_result_size is %zu",
                                 size, max);

    bide_buf *result = bide_buf_new(data, size);
    if (result == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "context_result: out of memory");

    bide_buf_unref(context->result);
    context->result = result;
    return BIDE_OK;
}

int bide_context_result_type(bide_context *context, const bide_type *type, const void *value)
{
    bide_buf *json;
    int code = bide_type_encode(type, value, &json);
    if (code != BIDE_OK)
        return code;

    code = bide_context_result(context, bide_buf_data(json), bide_buf_size(json));
    bide_buf_unref(json);
    return code;
}

int bide_context_retain(bide_context *context, int64_t retain_ms)
{
    bi_last_error_clear();
    if (context == NULL)
        return bi_last_error_set(BIDE_EINVAL, "context_retain: context is NULL");
    if (retain_ms < 0 || retain_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL,
                                 "context_retain: retain_ms is %lld; 0 to %lld is allowed",
                                 (long long)retain_ms, (long long)BIDE_TIME_MAX_MS);

    context->retain_ms = retain_ms;
    return BIDE_OK;
}

/* delay_ms: of a retry; BIDE_KEEP: the job's backoff. */
__attribute__((format(printf, 3, 0))) static void set_failure(bide_context *context,
                                                              int64_t delay_ms, const char *format,
                                                              va_list args)
{
    if (context == NULL)
        return;
    context->delay_ms = delay_ms;
    context->error[0] = 0;
    if (format == NULL || vsnprintf(context->error, sizeof(context->error), format, args) < 0)
        return;

    /* A full buffer may have been truncated by vsnprintf in the middle of a character. The last
     * byte is given up so that truncate_utf8() can see whether it continues one. */
    size_t size = strlen(context->error);
    if (size == sizeof(context->error) - 1)
        context->error[truncate_utf8(context->error, size, size - 1)] = 0;
}

int bide_context_retry(bide_context *context, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_failure(context, BIDE_KEEP, format, args);
    va_end(args);
    return BIDE_RETRY;
}

static int64_t clamp_delay(int64_t delay_ms)
{
    return delay_ms < 0 ? 0 : delay_ms > BIDE_TIME_MAX_MS ? BIDE_TIME_MAX_MS : delay_ms;
}

int bide_context_retry_in(bide_context *context, int64_t delay_ms, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_failure(context, clamp_delay(delay_ms), format, args);
    va_end(args);
    return BIDE_RETRY;
}

int bide_context_bury(bide_context *context, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_failure(context, context == NULL ? BIDE_KEEP : context->delay_ms, format, args);
    va_end(args);
    return BIDE_BURY;
}

int bide_context_snooze(bide_context *context, int64_t delay_ms)
{
    if (context != NULL)
        context->delay_ms = clamp_delay(delay_ms);
    return BIDE_SNOOZE;
}

int bide_context_quit(bide_context *context)
{
    bi_last_error_clear();
    if (context == NULL)
        return bi_last_error_set(BIDE_EINVAL, "context_quit: context is NULL");
    return bide_worker_quit(context->worker);
}

/* ---- middleware ---- */

static int call_handler(bide_context *context)
{
    const struct entry *entry = context->entry;

    /* Middleware may run the handler several times: forget what the last run has set. */
    context->error[0] = 0;
    context->delay_ms = BIDE_KEEP;
    if (!context->was_run)
        context->puts_before = bi_put_list_count(context->puts);
    context->was_run = true;
    bi_put_list_truncate(context->puts, context->puts_before);

    assert(entry->call != NULL && context->middleware_next == context->worker->middleware_count);
    context->middleware_next++; /* past the end: a handler that calls next() is rejected */
    int outcome = entry->call(context, context->data, entry->function, entry->arg);
    context->middleware_next--;

    /* Middleware may turn a failure into a success; the puts of a failed handler are incomplete. */
    if (!bi_ack_has_puts(outcome))
        bi_put_list_truncate(context->puts, context->puts_before);
    return outcome;
}

int bide_context_next(bide_context *context)
{
    if (context == NULL)
        return BIDE_RETRY;

    const bide_worker *worker = context->worker;

    if (context->middleware_next > worker->middleware_count)
        return bide_context_retry(context, "context_next: called by a handler or a fallback");
    if (context->middleware_next == worker->middleware_count)
        return call_handler(context);

    const struct middleware *middleware = &worker->middlewares[context->middleware_next++];
    int outcome = middleware->run(context, middleware->arg);
    assert(context->middleware_next > 0);
    context->middleware_next--;
    return outcome;
}
