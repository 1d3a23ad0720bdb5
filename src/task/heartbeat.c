/* SPDX-License-Identifier: MIT */
/*
 * heartbeat - extends the leases of running jobs, sends their progress, queries them for a cancel,
 * and wakes handlers whose time is over.
 *
 * A lease is extended after a third of its ttr, which leaves time for retries. All leases that are
 * due go into one TOUCH_MANY, with leases that become due within a tenth of their ttr: jobs that
 * started at about the same time then stay in the same call.
 */
#include "task/worker_internal.h"

#include <assert.h>
#include <string.h>

/* A touch that failed is retried after this time, or a tenth of the ttr if that is less. */
#define RETRY_US 1000000

/* No touch after the deadline of the handler: the lease expires, and the job runs again. */
static bool needs_touch(const struct bide_context *context, int64_t now, int64_t then)
{
    return context->touch_at <= then && now < atomic_load(&context->deadline);
}

/* Progress is sent only while the lease is valid: the queue would reject the touch. */
static bool needs_progress(const struct background *background, const struct bide_context *context,
                           int64_t now)
{
    return context->progress_at <= now && context->lease_end - now >= 1000 &&
           !background->no_progress;
}

/* True if at least one job must be sent now. */
static bool is_due(const struct background *background, int64_t now)
{
    bool due = false;

    for (uint32_t i = 0; i < background->worker->options.threads && !due; i++) {
        struct bide_context *context = &background->worker->threads[i].context;
        pthread_mutex_lock(&context->lock);
        due = context->running && (needs_touch(context, now, now) || context->progress_at <= now ||
                                   context->query_at <= now);
        pthread_mutex_unlock(&context->lock);
    }

    return due;
}

/*
 * Adds the touch item of one running job. With the lock of the context held.
 *
 *     touch due   progress or query due   touch_refused   item
 *     no          no                      any             none
 *     yes         no                      any             extends
 *     no          yes                     any             does not extend (BIDE_KEEP)
 *     yes         yes                     no              extends
 *     yes         yes                     yes             extends and does not extend in turn
 *
 * The status of every item shows whether the job was cancelled or its lease is lost, so an item
 * that changes nothing is a query. Items also carry progress that is not due yet.
 *
 * The exception is a touch that exceeds a limit: it is rejected with its progress, and its status
 * does not show a cancel. So while touches are refused, they carry no progress and replace no
 * query; they take turns with progress and queries, which may be due in every call.
 */
static void add_item(struct background *background, struct worker_thread *thread, int64_t now)
{
    struct bide_context *context = &thread->context;
    bool progress = needs_progress(background, context, now);
    bool touch = needs_touch(context, now, now + context->job.ttr_ms * 1000 / 10);
    bool query = context->query_at <= now;

    assert(context->running && !background->pending[BACKGROUND_TOUCH]);
    if (context->touch_refused && (progress || query) && !context->touch_postponed)
        touch = false;
    context->touch_postponed = !touch && needs_touch(context, now, now);

    /* Due, but it cannot be sent: drop it, else the thread would not sleep. */
    if (context->progress_at <= now && !progress)
        context->progress_at = NEVER;
    if (!touch && !progress && !query)
        return;

    assert(background->item_count < background->worker->options.threads); /* one per thread */
    bide_touch_item *item = &background->items[background->item_count];
    *item = (bide_touch_item){.id = context->job.id, .token = context->job.token};
    if (touch)
        context->touch_at = now + context->job.ttr_ms * 1000 / 3;
    else
        item->extend_ms = BIDE_KEEP;
    bool touch_only = touch && context->touch_refused;
    if (!touch_only && context->progress_at != NEVER && !background->no_progress) {
        /* Copied: the handler may write the next line while the op is pending. */
        char *text = background->texts[background->item_count];
        memcpy(text, context->progress, context->progress_size);
        item->progress = (bide_slice){text, context->progress_size};
    }
    if (!touch_only) {
        bool no_events = atomic_load(&background->no_events);
        context->query_at = no_events ? now + QUERY_INTERVAL_US : NEVER;
        context->progress_at = NEVER;
    }
    background->item_threads[background->item_count++] = thread;
}

/* Returns when this thread needs the heartbeat next. */
static int64_t run_thread(struct background *background, struct worker_thread *thread, int64_t now,
                          bool touches)
{
    struct bide_context *context = &thread->context;
    bide_work_event event;
    bool overran = false;

    pthread_mutex_lock(&context->lock);
    if (context->running) {
        overran = bi_context_check_overrun(context, now, &event);
        bool lapsed = !context->lease_end_reported && now >= context->lease_end;
        context->lease_end_reported = context->lease_end_reported || lapsed;
        if (overran || lapsed)
            bi_context_request_stop(context, BIDE_REASON_NONE); /* only wakes: the reason follows
                                                                   from the clock */
        if (touches)
            add_item(background, thread, now);
    }

    /* There is one op for touches. While it is pending a due touch must wait for its completion,
     * which wakes this thread; returning its time would make the thread spin. */
    int64_t due = background->pending[BACKGROUND_TOUCH] ? bi_context_next_deadline(context)
                                                        : bi_context_next_due(context);
    pthread_mutex_unlock(&context->lock);

    if (overran) /* without the lock: this calls the program */
        bi_worker_emit(background->worker, &event);
    return due;
}

int64_t bi_heartbeat_run(struct background *background, int64_t now)
{
    int64_t due = NEVER;
    bool touches = !background->pending[BACKGROUND_TOUCH] && is_due(background, now);

    if (touches)
        background->item_count = 0;
    for (uint32_t i = 0; i < background->worker->options.threads; i++)
        due = bi_background_earlier(
            due, run_thread(background, &background->worker->threads[i], now, touches));

    /* The items belong to the op until it completes. */
    if (touches && background->item_count > 0) {
        background->touched_at = now;
        background->ops[BACKGROUND_TOUCH].touch_many =
            (bide_touch_many_args){.items = background->items, .count = background->item_count};
        bi_background_submit(background, BACKGROUND_TOUCH, BIDE_OP_TOUCH_MANY);
    }
    return due;
}

static void apply_touch(struct background *background, size_t index, int64_t now)
{
    assert(index < background->item_count);
    const bide_touch_item *item = &background->items[index];
    struct bide_context *context =
        bi_background_lock_running(background->item_threads[index], item->id, item->token);
    if (context == NULL)
        return;

    bool taken = item->status == BIDE_OK || item->status == BIDE_CANCEL_WANTED;
    bool lost = item->status == BIDE_LEASE_LOST || item->status == BIDE_NOT_FOUND;
    int64_t ttr = context->job.ttr_ms * 1000;

    /* From the time of the submit: the server counts from a later time, so this estimate never ends
     * after the lease. */
    if (taken && item->extend_ms == 0)
        bi_context_extend_lease(context, background->touched_at +
                                             (item->left_ms > 0 ? item->left_ms * 1000 : ttr));
    if (item->status == BIDE_CANCEL_WANTED)
        bi_context_request_stop(context, BIDE_REASON_CANCELLED);
    if (item->status == BIDE_ENOTSUP && item->progress.size > 0)
        background->no_progress = true; /* a plain beanstalkd: it is not tried again */
    if (lost) {
        context->touch_at = context->query_at = NEVER;
        bi_context_request_stop(context, BIDE_REASON_LEASE_LOST);
    }
    if (item->extend_ms == 0) { /* the limit does not apply to other items */
        bool refused = item->status == BIDE_TOUCH_LIMIT;
        if (refused && !context->touch_refused)
            context->query_at = now; /* the touch may have replaced a query */
        context->touch_refused = refused;
    }
    if (!taken && !lost) {
        int64_t retry_at = now + bi_background_earlier(ttr / 10, RETRY_US);
        if (context->touch_at != NEVER && (item->extend_ms == 0 || item->progress.size > 0))
            context->touch_at = bi_background_earlier(context->touch_at, retry_at);
        /* Newer progress, which has its own time, replaces what could not be sent. */
        if (item->progress.size > 0 && context->progress_at == NEVER)
            context->progress_at = retry_at;
        /* The retries above are queries too. A query alone is repeated, also if there is a
         * subscription: the reason for it, such as lost events, remains. */
        if (item->extend_ms == BIDE_KEEP && item->progress.size == 0 &&
            item->status != BIDE_ENOTSUP)
            context->query_at = bi_background_earlier(context->query_at, now + QUERY_INTERVAL_US);
    }
    pthread_mutex_unlock(&context->lock);
}

void bi_heartbeat_complete(struct background *background, int64_t now)
{
    int code = background->ops[BACKGROUND_TOUCH].status;
    if (!bi_background_poll(background, BACKGROUND_TOUCH))
        return;
    assert(background->item_count > 0);

    /* An op that fails as a whole may leave the status of its items unset. */
    for (size_t i = 0; i < background->item_count; i++) {
        if (code < 0)
            background->items[i].status = code;
        apply_touch(background, i, now);
    }
}
