/* SPDX-License-Identifier: MIT */
/*
 * subscriber - receives cancels, and asks the handlers of the jobs to stop.
 *
 * A subscription to the events of the queue delivers cancels at once. While there is none (the
 * queue has BIDE_SUBSCRIPTIONS_MAX of them, or the connection broke) the heartbeat queries every
 * running job each QUERY_INTERVAL_US; and one more time when a new subscription begins.
 *
 * Ordering   A cancel may arrive when the job is reserved but its handler has not started, so no
 *            context shows the id. The thread finds it afterwards, because
 *              - apply_cancel() stores the id in the ring before it scans the contexts, and the
 *                thread sets `running` before it reads the ring: one of them sees the other;
 *              - query_all() increments `gaps` before it scans, and the thread reads `gaps` before
 *                it submits the reserve: a changed value means that a cancel may have been missed.
 */
#include "task/worker_internal.h"

#include <assert.h>

/* Between the end of a subscription, or an attempt that failed, and the next attempt. */
#define RESUBSCRIBE_US 5000000

void bi_subscriber_check_cancel(struct background *background, struct worker_thread *thread)
{
    struct bide_context *context = &thread->context;
    uint64_t cancels = atomic_load(&background->cancels);
    uint64_t missed = cancels - thread->cancels;
    bool found = false;

    if (missed > 0) {
        pthread_mutex_lock(&background->lock);
        for (size_t i = 0; i < CANCELS_MAX; i++)
            found = found || background->cancelled_ids[i] == context->job.id;
        pthread_mutex_unlock(&background->lock);
    }

    /* The ring has overwritten ids since the last check, or events were lost since the reserve. */
    bool may_have_missed = missed > CANCELS_MAX || atomic_load(&background->gaps) != thread->gaps;

    thread->cancels = cancels;
    if (!found && !may_have_missed)
        return;

    pthread_mutex_lock(&context->lock);
    if (found)
        bi_context_request_stop(context, BIDE_REASON_CANCELLED);
    else
        context->query_at = context->started;
    pthread_mutex_unlock(&context->lock);
    if (!found)
        bi_background_schedule(background, context->started);
}

/* The id is also stored in the ring, for a thread that has reserved the job but not started its
 * handler. Only a faulty server sends id 0, which would stop all handlers. */
static void apply_cancel(struct background *background, uint64_t id)
{
    if (id == 0)
        return;

    pthread_mutex_lock(&background->lock);
    background->cancelled_ids[atomic_load(&background->cancels) % CANCELS_MAX] = id;
    atomic_fetch_add(&background->cancels, 1);
    pthread_mutex_unlock(&background->lock);
    bi_worker_request_stop(background->worker, id, BIDE_REASON_CANCELLED);
}

/* Cancels may have been missed: schedules a query of every running job. */
static void query_all(struct background *background, int64_t now)
{
    /* First the gap: a job that is reserved but not running is found by the check of its thread. */
    atomic_fetch_add(&background->gaps, 1);
    for (uint32_t i = 0; i < background->worker->options.threads; i++) {
        struct bide_context *context = &background->worker->threads[i].context;
        pthread_mutex_lock(&context->lock);
        context->query_at = now;
        pthread_mutex_unlock(&context->lock);
    }
}

/* A backend without events (BIDE_ENOTSUP) has no cancels either: neither queries nor another
 * subscribe are needed. */
static void fall_back_to_queries(struct background *background, int code, int64_t now)
{
    background->subscribe_at = NEVER;
    if (code == BIDE_ENOTSUP)
        return;
    background->subscribe_at = now + RESUBSCRIBE_US;
    atomic_store(&background->no_events, true);
    query_all(background, now);
}

/* ---- the subscription ---- */

void bi_subscriber_stop(struct background *background)
{
    if (background->subscription == NULL)
        return;

    assert(!background->pending[BACKGROUND_SUBSCRIBE]);
    background->ops[BACKGROUND_UNSUBSCRIBE].subscription =
        (bide_subscription_args){.handle = background->subscription};
    background->subscription = NULL;
    bi_background_submit(background, BACKGROUND_UNSUBSCRIBE, BIDE_OP_UNSUBSCRIBE);
}

static void start_receive(struct background *background)
{
    assert(background->subscription != NULL);
    background->ops[BACKGROUND_RECEIVE].subscription =
        (bide_subscription_args){.handle = background->subscription,
                                 .timeout_ms = BIDE_FOREVER,
                                 .events = background->events,
                                 .event_max = EVENTS_PER_READ};
    bi_background_submit(background, BACKGROUND_RECEIVE, BIDE_OP_EVENTS);
}

static void complete_receive(struct background *background, int64_t now)
{
    const bide_op *receive = &background->ops[BACKGROUND_RECEIVE];
    const bide_subscription_args *subscription = &receive->subscription;
    int code = receive->status;

    if (!bi_background_poll(background, BACKGROUND_RECEIVE))
        return;
    if (code != BIDE_OK && code != BIDE_TIMED_OUT) {
        bi_subscriber_stop(background);
        fall_back_to_queries(background, code, now);
        return;
    }

    for (size_t i = 0; code == BIDE_OK && i < subscription->count; i++)
        apply_cancel(background, subscription->events[i].id);

    /* The buffer of the subscription overflowed, or there is another connection. The lost events
     * may have been cancels. */
    if (code == BIDE_OK && subscription->lost > 0) {
        query_all(background, now);
        bi_announcer_renew(background, now);
    }
    if (!atomic_load(&background->quit))
        start_receive(background);
}

static void complete_subscribe(struct background *background, int64_t now)
{
    const bide_op *subscribe = &background->ops[BACKGROUND_SUBSCRIBE];
    if (!bi_background_poll(background, BACKGROUND_SUBSCRIBE))
        return;
    if (subscribe->status != BIDE_OK) {
        fall_back_to_queries(background, subscribe->status, now);
        return;
    }

    background->subscription = subscribe->subscription.handle;
    if (atomic_load(&background->quit))
        return; /* drain() unsubscribes */

    start_receive(background);
    atomic_store(&background->no_events, false);
    query_all(background, now); /* jobs that were cancelled before the subscription began */
}

void bi_subscriber_complete(struct background *background, int64_t now)
{
    bi_background_poll(background, BACKGROUND_UNSUBSCRIBE);
    complete_subscribe(background, now);
    complete_receive(background, now);
}

int64_t bi_subscriber_run(struct background *background, int64_t now)
{
    if (background->subscription != NULL || background->pending[BACKGROUND_SUBSCRIBE] ||
        background->pending[BACKGROUND_UNSUBSCRIBE] || atomic_load(&background->quit))
        return NEVER;
    if (now < background->subscribe_at)
        return background->subscribe_at;

    background->ops[BACKGROUND_SUBSCRIBE].subscription =
        (bide_subscription_args){.kinds = 1u << BIDE_EVENT_CANCEL_WANTED};
    background->subscribe_at = NEVER;
    bi_background_submit(background, BACKGROUND_SUBSCRIBE, BIDE_OP_SUBSCRIBE);
    return NEVER;
}
