/* SPDX-License-Identifier: MIT */
/*
 * heartbeat - extends the leases of running jobs, all that are due in one call, carries their
 * progress along, and tells handlers that their time is over.
 */
#include "task/keeper.h"

#include <string.h>

/* A touch that failed is tried again after that time, or a tenth of the ttr. */
#define AGAIN_US 1000000

/* Is the lease to be extended by then? */
static bool wants_touch(const struct bide_context *context, int64_t now, int64_t then)
{
    return context->touch_at <= then && now < atomic_load(&context->limit_end);
}

static bool wants_progress(const struct keeper *keeper, const struct bide_context *context,
                           int64_t now)
{
    return context->progress_at <= now && context->lease_end - now >= 1000 && !keeper->mute;
}

/* Is anything to be sent now? Then what is due soon is taken along. */
static bool is_due(const struct keeper *keeper, int64_t now)
{
    bool due = false;
    for (uint32_t i = 0; i < keeper->worker->options.threads && !due; i++) {
        struct bide_context *context = &keeper->worker->slots[i].context;
        pthread_mutex_lock(&context->lock);
        due = context->running && (wants_touch(context, now, now) || context->progress_at <= now);
        pthread_mutex_unlock(&context->lock);
    }
    return due;
}

/* What is to be done for one running job. With its lock held. */
static void gather(struct keeper *keeper, struct slot *slot, int64_t now)
{
    struct bide_context *context = &slot->context;
    bool progress = wants_progress(keeper, context, now);
    bool touch = wants_touch(context, now, now + context->job.ttr_ms * 1000 / 10);
    /* Where touches are refused by a limit, progress goes alone, and before them. */
    bool apart = context->refused;
    if (apart && progress)
        touch = false;
    if (context->progress_at <= now && !progress)
        context->progress_at = NEVER;
    if (!touch && !progress)
        return;
    bide_touch_item *item = &keeper->items[keeper->item_count];
    *item = (bide_touch_item){.id = context->job.id, .token = context->job.token};
    if (touch)
        context->touch_at = now + context->job.ttr_ms * 1000 / 3;
    else
        item->extend_ms = BIDE_KEEP; /* it says progress only */
    bool along = !(touch && apart);
    if (along && context->progress_at != NEVER && !keeper->mute) {
        char *text = keeper->texts[keeper->item_count];
        memcpy(text, context->progress, context->progress_size);
        item->progress = (bide_slice){text, context->progress_size};
    }
    if (along)
        context->progress_at = NEVER;
    keeper->item_slots[keeper->item_count++] = slot;
}

/* Looks at one slot; answers when it is next wanted there. */
static int64_t tend_slot(struct keeper *keeper, struct slot *slot, int64_t now, bool touches)
{
    struct bide_context *context = &slot->context;
    bide_work_event event;
    bool overran = false;
    pthread_mutex_lock(&context->lock);
    if (context->running) {
        overran = bi_context_overruns(context, now, &event);
        bool lapsed = !context->lapsed && now >= context->lease_end;
        context->lapsed = context->lapsed || lapsed;
        if (overran || lapsed)
            bi_context_tell(context, BIDE_REASON_NONE); /* who waits looks at the time */
        if (touches)
            gather(keeper, slot, now);
    }
    /* While a touch is under way nothing more is sent: its answer wakes the keeper. */
    int64_t due = keeper->touching ? bi_context_over(context) : bi_context_due(context);
    pthread_mutex_unlock(&context->lock);
    if (overran)
        bi_worker_event(keeper->worker, &event);
    return due;
}

static void send_touches(struct keeper *keeper, int64_t now)
{
    if (keeper->item_count == 0)
        return;
    keeper->touched_at = now;
    keeper->touching = true;
    bi_keeper_arm(keeper, &keeper->touch, BIDE_OP_TOUCH_MANY);
    keeper->touch.touch_many =
        (bide_touch_many_args){.items = keeper->items, .count = keeper->item_count};
    bi_keeper_submit(keeper, &keeper->touch);
}

int64_t bi_heartbeat_tend(struct keeper *keeper, int64_t now)
{
    int64_t due = NEVER;
    bool touches = !keeper->touching && is_due(keeper, now);
    if (touches)
        keeper->item_count = 0;
    for (uint32_t i = 0; i < keeper->worker->options.threads; i++)
        due = bi_sooner(due, tend_slot(keeper, &keeper->worker->slots[i], now, touches));
    if (touches)
        send_touches(keeper, now);
    return due;
}

/* What could not be done is done again at that time. With the lock held. */
static void touch_again(struct bide_context *context, const bide_touch_item *item, int64_t at)
{
    if (context->touch_at != NEVER)
        context->touch_at = bi_sooner(context->touch_at, at);
    if (item->progress.size > 0 && context->progress_at == NEVER)
        context->progress_at = at;
}

static void take_touched(struct keeper *keeper, size_t index, int64_t now)
{
    const bide_touch_item *item = &keeper->items[index];
    struct bide_context *context =
        bi_keeper_still_runs(keeper->item_slots[index], item->id, item->token);
    if (context == NULL)
        return;
    bool taken = item->status == BIDE_OK || item->status == BIDE_CANCEL_WANTED;
    bool lost = item->status == BIDE_LEASE_LOST || item->status == BIDE_NOT_FOUND;
    int64_t ttr = context->job.ttr_ms * 1000;
    if (taken && item->extend_ms == 0)
        bi_context_extended(context,
                            keeper->touched_at + (item->left_ms > 0 ? item->left_ms * 1000 : ttr));
    if (item->status == BIDE_CANCEL_WANTED)
        bi_context_tell(context, BIDE_REASON_CANCELLED);
    if (item->status == BIDE_ENOTSUP)
        keeper->mute = true; /* a plain beanstalkd */
    if (lost) {
        context->touch_at = NEVER;
        bi_context_tell(context, BIDE_REASON_LEASE_LOST);
    }
    if (item->extend_ms == 0)
        context->refused = item->status == BIDE_TOUCH_LIMIT;
    if (!taken && !lost)
        touch_again(context, item, now + bi_sooner(ttr / 10, AGAIN_US));
    pthread_mutex_unlock(&context->lock);
}

void bi_heartbeat_finish(struct keeper *keeper, int64_t now)
{
    if (!bi_keeper_came_back(&keeper->touching, &keeper->touch))
        return;
    for (size_t i = 0; i < keeper->item_count; i++) {
        if (keeper->touch.status < 0)
            keeper->items[i].status = keeper->touch.status;
        take_touched(keeper, i, now);
    }
}
