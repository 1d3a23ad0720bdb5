/* SPDX-License-Identifier: MIT */
/*
 * subscriber - hears of cancels, and tells the handlers.
 *
 * The queue's feed of events tells at once. Where there is none (there are as many as a queue may
 * have, or the connection broke), and once after there is one again, the jobs that run are looked
 * at, one after the other.
 */
#include "task/keeper.h"

/* After a feed broke, or could not be had. */
#define SUBSCRIBE_US 5000000

/* Is it among those that somebody wants to stop? */
static bool is_in_ring(struct keeper *keeper, uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&keeper->lock);
    for (size_t i = 0; i < CANCELS_KEPT; i++)
        found = found || keeper->ring[i] == id;
    pthread_mutex_unlock(&keeper->lock);
    return found;
}

void bi_keeper_check_cancel(struct keeper *keeper, struct slot *slot)
{
    struct bide_context *context = &slot->context;
    uint64_t cancels = atomic_load(&keeper->cancels);
    uint64_t missed = cancels - slot->cancels;
    bool found = missed > 0 && is_in_ring(keeper, context->job.id);
    /* It may have been among those that are forgotten, or that nobody has heard of. */
    bool unsure = missed > CANCELS_KEPT || atomic_load(&keeper->gaps) != slot->gaps;
    slot->cancels = cancels;
    if (!found && !unsure)
        return;
    pthread_mutex_lock(&context->lock);
    if (found)
        bi_context_tell(context, BIDE_REASON_CANCELLED);
    else
        context->look_at = context->started;
    pthread_mutex_unlock(&context->lock);
    if (!found) {
        atomic_store(&keeper->deaf, true);
        bi_keeper_want(keeper, context->started);
    }
}

/* Somebody wants the job to stop. It is kept in mind for a slot that has taken the job, but not
 * begun it yet. */
static void take_cancel(struct keeper *keeper, uint64_t id)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->ring[atomic_load(&keeper->cancels) % CANCELS_KEPT] = id;
    atomic_fetch_add(&keeper->cancels, 1);
    pthread_mutex_unlock(&keeper->lock);
    for (uint32_t i = 0; i < keeper->worker->options.threads; i++) {
        struct bide_context *context = &keeper->worker->slots[i].context;
        pthread_mutex_lock(&context->lock);
        if (context->running && context->job.id == id)
            bi_context_tell(context, BIDE_REASON_CANCELLED);
        pthread_mutex_unlock(&context->lock);
    }
}

/* ---- without a feed ---- */

/* Cancels may have been missed: everything that runs is to be looked at. */
static void look_at_all(struct keeper *keeper, int64_t now)
{
    atomic_fetch_add(&keeper->gaps, 1); /* for what is reserved, and does not run yet */
    keeper->deaf = true;
    for (uint32_t i = 0; i < keeper->worker->options.threads; i++) {
        struct bide_context *context = &keeper->worker->slots[i].context;
        pthread_mutex_lock(&context->lock);
        context->look_at = now;
        pthread_mutex_unlock(&context->lock);
    }
}

/* There is no feed. It is tried again, unless the queue has none at all, and so no cancels. */
static void do_without(struct keeper *keeper, int code, int64_t now)
{
    keeper->subscribe_at = NEVER;
    if (code == BIDE_ENOTSUP)
        return;
    keeper->subscribe_at = now + SUBSCRIBE_US;
    look_at_all(keeper, now);
}

/* The next job that is to be looked at; *due is when, if it is later. */
static struct slot *next_look(struct keeper *keeper, int64_t now, int64_t *due)
{
    uint32_t threads = keeper->worker->options.threads;
    for (uint32_t i = 0; i < threads; i++) {
        uint32_t index = (keeper->look_next + i) % threads;
        struct slot *slot = &keeper->worker->slots[index];
        struct bide_context *context = &slot->context;
        pthread_mutex_lock(&context->lock);
        bool running = context->running;
        int64_t at = context->look_at;
        pthread_mutex_unlock(&context->lock);
        if (running && at <= now) {
            keeper->look_next = index;
            return slot;
        }
        if (running)
            *due = bi_sooner(*due, at);
    }
    return NULL;
}

static bool begin_look(struct keeper *keeper, struct slot *slot, int64_t now)
{
    struct bide_context *context = &slot->context;
    pthread_mutex_lock(&context->lock);
    context->look_at = now + LOOK_US;
    bool running = context->running;
    uint64_t id = running ? context->job.id : 0;
    keeper->look_token = running ? context->job.token : 0;
    pthread_mutex_unlock(&context->lock);
    if (!running)
        return false;
    bi_keeper_arm(keeper, &keeper->look, BIDE_OP_JOB_STATS);
    keeper->look.look = (bide_look_args){.id = id, .job = &keeper->looked};
    keeper->look_slot = slot;
    keeper->looking = true;
    bi_keeper_submit(keeper, &keeper->look);
    return true;
}

static void finish_look(struct keeper *keeper)
{
    if (!bi_keeper_came_back(&keeper->looking, &keeper->look))
        return;
    bool found = keeper->look.status == BIDE_OK;
    if (found && keeper->looked.cancel_wanted)
        take_cancel(keeper, keeper->looked.id);
    bool gone =
        found ? keeper->looked.state != BIDE_STATE_RESERVED : keeper->look.status == BIDE_NOT_FOUND;
    struct bide_context *context =
        gone ? bi_keeper_still_runs(keeper->look_slot, keeper->look.look.id, keeper->look_token)
             : NULL;
    if (context != NULL) {
        bi_context_tell(context, BIDE_REASON_LEASE_LOST);
        pthread_mutex_unlock(&context->lock);
    }
    if (found)
        bide_job_clear(&keeper->looked);
}

/* One look at a time; with a feed, only until all have been looked at once. deaf is lowered before
 * the slots are gone through: one that raises it meanwhile may have been passed. */
static int64_t tend_looks(struct keeper *keeper, int64_t now)
{
    int64_t due = NEVER;
    struct slot *slot;
    if (keeper->looking || !atomic_load(&keeper->deaf))
        return NEVER;
    atomic_store(&keeper->deaf, keeper->feed == NULL);
    while (!keeper->looking && (slot = next_look(keeper, now, &due)) != NULL)
        if (begin_look(keeper, slot, now))
            finish_look(keeper);
    if (keeper->looking)
        atomic_store(&keeper->deaf, true); /* for those behind it */
    return keeper->looking || keeper->feed != NULL ? NEVER : due;
}

/* ---- with a feed ---- */

void bi_subscriber_stop(struct keeper *keeper)
{
    if (keeper->feed == NULL)
        return;
    bi_keeper_arm(keeper, &keeper->leave, BIDE_OP_UNSUBSCRIBE);
    keeper->leave.feed = (bide_feed_args){.feed = keeper->feed};
    keeper->feed = NULL;
    keeper->leaving = true;
    bi_keeper_submit(keeper, &keeper->leave);
}

static void listen_on(struct keeper *keeper)
{
    bi_keeper_arm(keeper, &keeper->listen, BIDE_OP_EVENTS);
    keeper->listen.feed = (bide_feed_args){.feed = keeper->feed,
                                           .timeout_ms = BIDE_FOREVER,
                                           .events = keeper->events,
                                           .event_max = LISTEN_MAX};
    keeper->listening = true;
    bi_keeper_submit(keeper, &keeper->listen);
}

static void finish_listen(struct keeper *keeper, int64_t now)
{
    const bide_feed_args *feed = &keeper->listen.feed;
    if (!bi_keeper_came_back(&keeper->listening, &keeper->listen))
        return;
    int code = keeper->listen.status;
    if (code != BIDE_OK && code != BIDE_TIMED_OUT) {
        bi_subscriber_stop(keeper);
        do_without(keeper, code, now);
        return;
    }
    for (size_t i = 0; code == BIDE_OK && i < feed->count; i++)
        take_cancel(keeper, feed->events[i].id);
    if (code == BIDE_OK && feed->lost > 0)
        look_at_all(keeper, now);
    if (!atomic_load(&keeper->quit))
        listen_on(keeper);
}

static void finish_subscribe(struct keeper *keeper, int64_t now)
{
    if (!bi_keeper_came_back(&keeper->subscribing, &keeper->subscribe))
        return;
    if (keeper->subscribe.status != BIDE_OK) {
        do_without(keeper, keeper->subscribe.status, now);
        return;
    }
    keeper->feed = keeper->subscribe.feed.feed;
    if (atomic_load(&keeper->quit))
        return;
    listen_on(keeper);
    look_at_all(keeper, now); /* what was cancelled before */
}

void bi_subscriber_finish(struct keeper *keeper, int64_t now)
{
    bi_keeper_came_back(&keeper->leaving, &keeper->leave);
    finish_subscribe(keeper, now);
    finish_listen(keeper, now);
    finish_look(keeper);
}

static int64_t tend_feed(struct keeper *keeper, int64_t now)
{
    if (keeper->feed != NULL || keeper->subscribing || keeper->leaving ||
        atomic_load(&keeper->quit))
        return NEVER;
    if (now < keeper->subscribe_at)
        return keeper->subscribe_at;
    bi_keeper_arm(keeper, &keeper->subscribe, BIDE_OP_SUBSCRIBE);
    keeper->subscribe.feed = (bide_feed_args){.kinds = 1u << BIDE_EVENT_CANCEL_WANTED};
    keeper->subscribing = true;
    keeper->subscribe_at = NEVER;
    bi_keeper_submit(keeper, &keeper->subscribe);
    return NEVER;
}

int64_t bi_subscriber_tend(struct keeper *keeper, int64_t now)
{
    int64_t due = tend_feed(keeper, now);
    return bi_sooner(due, tend_looks(keeper, now));
}
