/* SPDX-License-Identifier: MIT */
/*
 * context - what a handler asks and says.
 */
#include "task/inside.h"
#include "util/clock.h"
#include "util/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A line of progress is sent that long after it was said, and stands for all that were said
 * meanwhile. */
#define PROGRESS_US 200000

/* ---- its life ---- */

void bi_context_init(struct bide_context *context, bide_worker *worker)
{
    context->worker = worker;
    context->fd = -1;
    pthread_mutex_init(&context->lock, NULL);
    bi_thread_condition(&context->changed);
}

void bi_context_done(struct bide_context *context)
{
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
}

static int64_t later(int64_t from, int64_t ms)
{
    return ms < 0 || ms > (NEVER - from) / 1000 ? NEVER : from + ms * 1000;
}

void bi_context_extended(struct bide_context *context, int64_t end)
{
    atomic_store(&context->lease_end, end);
    context->lapsed = false;
    if (context->by_lease) {
        atomic_store(&context->limit_end, end);
        context->overran = false;
    }
}

void bi_context_begin(struct bide_context *context)
{
    const struct entry *entry = context->entry;
    int64_t now = context->started = bi_clock_boot();
    int64_t limit_ms = entry->time_limit_ms;
    bool longer = limit_ms < 0 || limit_ms > context->job.ttr_ms;
    context->again_ms = context->retain_ms = BIDE_KEEP;
    context->buries = false;
    context->layer = 0;
    context->body = (bide_slice){context->job.body, context->job.body_size};
    pthread_mutex_lock(&context->lock);
    atomic_store(&context->told, BIDE_REASON_NONE);
    atomic_store(&context->limit_end, later(now, limit_ms));
    context->by_lease = limit_ms == 0;
    context->running = true;
    context->given_back = context->overran = context->refused = false;
    bi_context_extended(context,
                        later(context->taken != 0 ? context->taken : now, context->job.left_ms));
    context->touch_at = longer && !context->by_lease ? now + context->job.ttr_ms * 1000 / 3 : NEVER;
    context->progress_at = NEVER;
    context->look_at = now + LOOK_US;
    int64_t due = bi_context_due(context);
    pthread_mutex_unlock(&context->lock);
    struct keeper *keeper = &context->worker->keeper;
    bool looks = atomic_load_explicit(&keeper->deaf, memory_order_relaxed);
    bi_keeper_want(keeper, looks && due > now + LOOK_US ? now + LOOK_US : due);
}

bool bi_context_overruns(struct bide_context *context, int64_t now, bide_work_event *event)
{
    if (!context->running || context->overran || now < atomic_load(&context->limit_end))
        return false;
    context->overran = true;
    *event = (bide_work_event){
        .kind = BIDE_WORK_OVERRAN,
        .text = "",
        .id = context->job.id,
        .topic = context->entry->topic,
        .attempt = bide_context_attempt(context),
        .took_us = now - context->started,
    };
    return true;
}

bool bi_context_end(struct bide_context *context)
{
    /* The handler may return before the keeper has seen that its time is over. */
    bide_work_event event;
    bool tells = context->worker->options.event != NULL;
    int64_t now = tells ? bi_clock_boot() : 0;
    pthread_mutex_lock(&context->lock);
    bool overran = tells && !context->given_back && bi_context_overruns(context, now, &event);
    context->running = false;
    pthread_cond_broadcast(&context->changed); /* another thread may wait with it */
    bool own = !context->given_back;
    if (context->fd >= 0)
        close(context->fd);
    context->fd = -1;
    pthread_mutex_unlock(&context->lock);
    if (overran)
        bi_worker_event(context->worker, &event);
    return own;
}

void bi_context_clear(struct bide_context *context)
{
    bide_decoded_free(context->owned);
    bide_buf_unref(context->result);
    bide_job_clear(&context->job);
    context->owned = context->data = NULL;
    context->result = NULL;
    context->error_size = 0;
}

int64_t bi_context_over(const struct bide_context *context)
{
    if (!context->running)
        return NEVER;
    int64_t limit = context->overran ? NEVER : atomic_load(&context->limit_end);
    int64_t lease = context->lapsed ? NEVER : atomic_load(&context->lease_end);
    return limit < lease ? limit : lease;
}

int64_t bi_context_due(const struct bide_context *context)
{
    if (!context->running)
        return NEVER;
    int64_t due = bi_context_over(context);
    if (!context->overran && context->touch_at < due)
        due = context->touch_at;
    return context->progress_at < due ? context->progress_at : due;
}

/* ---- why to stop ---- */

static const char *const reason_names[] = {
    [BIDE_REASON_NONE] = "none",         [BIDE_REASON_CANCELLED] = "cancelled",
    [BIDE_REASON_OVERRUN] = "overrun",   [BIDE_REASON_LEASE_LOST] = "lease lost",
    [BIDE_REASON_STOPPING] = "stopping",
};

const char *bide_reason_name(bide_reason reason)
{
    size_t count = sizeof(reason_names) / sizeof(reason_names[0]);
    return (unsigned)reason < count ? reason_names[reason] : "?";
}

/* Of two reasons the handler hears the one that leaves it less to do. */
static int weight_of(int reason)
{
    static const int weights[] = {
        [BIDE_REASON_NONE] = 0,      [BIDE_REASON_OVERRUN] = 1,    [BIDE_REASON_STOPPING] = 2,
        [BIDE_REASON_CANCELLED] = 3, [BIDE_REASON_LEASE_LOST] = 4,
    };
    return weights[reason];
}

/* With the lock held. */
static void ring(struct bide_context *context)
{
    uint64_t one = 1;
    pthread_cond_broadcast(&context->changed);
    if (context->fd >= 0) {
        ssize_t written = write(context->fd, &one, sizeof(one));
        (void)written; /* it is readable already */
    }
}

void bi_context_tell(struct bide_context *context, bide_reason reason)
{
    if (weight_of(atomic_load(&context->told)) < weight_of((int)reason))
        atomic_store(&context->told, (int)reason);
    ring(context);
}

static bide_reason reason_at(const bide_context *context, int64_t now)
{
    int told = atomic_load(&context->told);
    if (told != BIDE_REASON_NONE)
        return (bide_reason)told;
    if (now >= atomic_load(&context->limit_end))
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
    int64_t end = later(now, for_ms);
    bide_reason reason;
    pthread_mutex_lock(&context->lock);
    while ((reason = reason_at(context, now)) == BIDE_REASON_NONE && now < end &&
           context->running) {
        int64_t limit = atomic_load(&context->limit_end);
        int64_t lease = atomic_load(&context->lease_end);
        struct timespec until;
        int64_t left = (limit < lease ? limit : lease) - now;
        if (end - now < left)
            left = end - now;
        /* In steps, so that a sleep of the machine is noticed: its clock stands still then. */
        bi_clock_until(&until, left < 1000000 ? left : 1000000);
        pthread_cond_timedwait(&context->changed, &context->lock, &until);
        now = bi_clock_boot();
    }
    pthread_mutex_unlock(&context->lock);
    return reason;
}

int bide_context_fd(bide_context *context)
{
    bi_error_clear();
    if (context == NULL)
        return bi_error_set(BIDE_EINVAL, "context_fd: context is NULL");
    pthread_mutex_lock(&context->lock);
    if (context->fd < 0) {
        bool there = reason_at(context, bi_clock_boot()) != BIDE_REASON_NONE;
        context->fd = eventfd(there ? 1 : 0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    int fd = context->fd;
    pthread_mutex_unlock(&context->lock);
    if (fd < 0)
        return bi_error_set(BIDE_ESYSTEM, "context_fd: the system gives no more eventfds");
    return fd;
}

int64_t bide_context_left_ms(const bide_context *context)
{
    if (context == NULL)
        return 0;
    if (atomic_load(&context->told) == BIDE_REASON_LEASE_LOST)
        return 0; /* the server has given the job away, whatever this process has counted */

    int64_t end = atomic_load(&context->limit_end);
    int64_t now = bi_clock_boot();
    return end == NEVER ? BIDE_TIME_MAX_MS : end <= now ? 0 : (end - now + 999) / 1000;
}

/* ---- what it is about ---- */

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
    return job != NULL && (context->buries ||
                           (job->max_retries >= 0 && job->failures >= (uint32_t)job->max_retries));
}

/* ---- the lease ---- */

static int touch(bide_context *context, int64_t *left_ms)
{
    bide_op op;
    op.kind = BIDE_OP_TOUCH;
    op.touch = (bide_touch_item){.id = context->job.id, .token = context->job.token};
    int code = bi_call(context->worker->queue, &op);
    *left_ms = op.touch.left_ms;
    return code;
}

int bide_context_touch(bide_context *context)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (context == NULL)
        return bi_error_set(BIDE_EINVAL, "context_touch: context is NULL");
    int64_t left_ms = 0;
    int64_t before = bi_clock_boot();
    int code = touch(context, &left_ms);
    pthread_mutex_lock(&context->lock);
    if (code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        bi_context_extended(context, later(before, left_ms > 0 ? left_ms : context->job.ttr_ms));
    if (code == BIDE_CANCEL_WANTED)
        bi_context_tell(context, BIDE_REASON_CANCELLED);
    if (code == BIDE_LEASE_LOST || code == BIDE_NOT_FOUND)
        bi_context_tell(context, BIDE_REASON_LEASE_LOST);
    int64_t due = bi_context_due(context);
    pthread_mutex_unlock(&context->lock);
    bi_keeper_want(&context->worker->keeper, due);
    return code;
}

/* Cuts text that is too long where no character of UTF-8 is cut in two. */
static size_t fit(const char *text, size_t size, size_t max)
{
    if (size <= max)
        return size;
    size = max;
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
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
    size_t length = strlen(text);
    length = fit(text, length, BIDE_PROGRESS_MAX);
    pthread_mutex_lock(&context->lock);
    memcpy(context->progress, text, length);
    context->progress_size = length;
    bool fresh = context->running && context->progress_at == NEVER;
    if (fresh)
        context->progress_at = bi_clock_boot() + PROGRESS_US;
    int64_t due = context->progress_at;
    pthread_mutex_unlock(&context->lock);
    if (fresh)
        bi_keeper_want(&context->worker->keeper, due);
}

/* ---- what came of it ---- */

int bide_context_result(bide_context *context, const void *data, size_t size)
{
    bi_error_clear();
    if (context == NULL || (data == NULL && size > 0))
        return bi_error_set(BIDE_EINVAL, "context_result: context or data is NULL");
    size_t max = context->worker->queue->options.max_result_size;
    if (size > max)
        return bi_error_set(BIDE_TOO_BIG, "context_result: %zu bytes; max_result_size is %zu", size,
                            max);
    bide_buf *result = bide_buf_new(data, size);
    if (result == NULL)
        return bi_error_set(BIDE_ENOMEM, "context_result: out of memory");
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
    bi_error_clear();
    if (context == NULL)
        return bi_error_set(BIDE_EINVAL, "context_retain: context is NULL");
    if (retain_ms < 0 || retain_ms > BIDE_TIME_MAX_MS)
        return bi_error_set(BIDE_EINVAL, "context_retain: retain_ms is %lld; 0 to %lld is allowed",
                            (long long)retain_ms, (long long)BIDE_TIME_MAX_MS);
    context->retain_ms = retain_ms;
    return BIDE_OK;
}

__attribute__((format(printf, 2, 0))) static void keep_text(bide_context *context,
                                                            const char *format, va_list args)
{
    context->error_size = 0;
    if (format == NULL || vsnprintf(context->error, sizeof(context->error), format, args) < 0)
        return;
    size_t size = strlen(context->error);
    /* One byte less than there is room for shows that nothing was cut. */
    context->error_size =
        size == sizeof(context->error) - 1 ? fit(context->error, size, size - 1) : size;
}

int bide_context_retry(bide_context *context, const char *format, ...)
{
    va_list args;
    if (context == NULL)
        return BIDE_RETRY;
    va_start(args, format);
    keep_text(context, format, args);
    va_end(args);
    context->again_ms = BIDE_KEEP;
    return BIDE_RETRY;
}

static int64_t sensible(int64_t delay_ms)
{
    return delay_ms < 0 ? 0 : delay_ms > BIDE_TIME_MAX_MS ? BIDE_TIME_MAX_MS : delay_ms;
}

int bide_context_retry_in(bide_context *context, int64_t delay_ms, const char *format, ...)
{
    va_list args;
    if (context == NULL)
        return BIDE_RETRY;
    va_start(args, format);
    keep_text(context, format, args);
    va_end(args);
    context->again_ms = sensible(delay_ms);
    return BIDE_RETRY;
}

int bide_context_bury(bide_context *context, const char *format, ...)
{
    va_list args;
    if (context == NULL)
        return BIDE_BURY;
    va_start(args, format);
    keep_text(context, format, args);
    va_end(args);
    return BIDE_BURY;
}

int bide_context_snooze(bide_context *context, int64_t delay_ms)
{
    if (context != NULL)
        context->again_ms = sensible(delay_ms);
    return BIDE_SNOOZE;
}

int bide_context_quit(bide_context *context)
{
    bi_error_clear();
    if (context == NULL)
        return bi_error_set(BIDE_EINVAL, "context_quit: context is NULL");
    return bide_worker_quit(context->worker);
}

/* ---- the layers around the handler ---- */

static int run_innermost(bide_context *context)
{
    const struct entry *entry = context->entry;
    context->error_size = 0; /* what a run before this one said */
    context->again_ms = BIDE_KEEP;
    context->layer++; /* there is no next one now */
    int outcome = entry->call(context, context->data, entry->function, entry->arg);
    context->layer--;
    return outcome;
}

int bide_context_next(bide_context *context)
{
    if (context == NULL)
        return BIDE_RETRY;
    const bide_worker *worker = context->worker;
    if (context->layer > worker->layer_count)
        return bide_context_retry(context, "context_next: called by a handler or a fallback");
    if (context->layer == worker->layer_count)
        return run_innermost(context);
    const struct layer *layer = &worker->layers[context->layer++];
    int outcome = layer->run(context, layer->arg);
    context->layer--;
    return outcome;
}
