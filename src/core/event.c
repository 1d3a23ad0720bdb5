/* SPDX-License-Identifier: MIT */
#include "core/event.h"

#include "core/state.h"

#include <string.h>

#define DEFAULT_CAPACITY 1024

static struct feed_event *feed_at(bide_feed *feed, uint32_t index)
{
    return &feed->ring[(feed->first + index) % feed->capacity];
}

static bool wants(const bide_feed *feed, bide_event_kind kind, const struct topic *topic)
{
    if ((feed->kinds & (1u << kind)) == 0)
        return false;
    return feed->topic_size == 0 || (feed->topic_size == topic->name_size &&
                                     memcmp(feed->topic, topic->name, topic->name_size) == 0);
}

static void drop_oldest(bide_feed *feed)
{
    feed->first = (feed->first + 1) % feed->capacity;
    feed->count--;
    feed->lost++;
}

void bi_event_as(struct core *core, bide_event_kind kind, const struct job *job, bide_state state)
{
    if ((core->feeds.kinds & (1u << kind)) == 0)
        return;
    const struct topic *topic = topic_of(core, job);
    uint64_t batch = bi_journal_batch_of(core, job);
    for (bide_feed *feed = core->feeds.head; feed != NULL; feed = feed->next) {
        if (!wants(feed, kind, topic))
            continue;
        if (feed->count == feed->capacity)
            drop_oldest(feed);
        struct feed_event *event = feed_at(feed, feed->count++);
        event->batch = batch;
        event->event.kind = kind;
        event->event.state = state;
        event->event.id = job->id;
        event->event.at_ms = ms_down(core->now.wall);
        memcpy(event->event.topic, topic->name, (size_t)topic->name_size + 1);
    }
}

void bi_event(struct core *core, bide_event_kind kind, const struct job *job)
{
    bi_event_as(core, kind, job, (bide_state)job->state);
}

/* ---- reading ---- */

/* Hands out the events that are stored; they come in order of their batches. */
static void hand_out(struct core *core, bide_feed *feed, bide_op *op)
{
    size_t count = 0;
    while (feed->count > 0 && count < op->feed.event_max &&
           feed_at(feed, 0)->batch <= core->journal.committed) {
        op->feed.events[count++] = feed_at(feed, 0)->event;
        feed->first = (feed->first + 1) % feed->capacity;
        feed->count--;
    }
    op->feed.count = count;
    op->feed.lost = feed->lost;
    if (count > 0)
        feed->lost = 0;
}

static bool has_something(const struct core *core, bide_feed *feed)
{
    return feed->count > 0 && feed_at(feed, 0)->batch <= core->journal.committed;
}

void bi_feeds_serve(struct core *core)
{
    for (bide_feed *feed = core->feeds.head; feed != NULL; feed = feed->next) {
        if (feed->reader == NULL || !has_something(core, feed))
            continue;
        struct waiter *reader = feed->reader;
        uint64_t hold = core->hold;
        core->hold = 0;
        hand_out(core, feed, reader->op);
        bi_waiter_end(core, reader, BIDE_OK);
        core->hold = hold;
    }
}

void bi_feeds_begin_rollback(struct core *core)
{
    core->journal.rollback.feed = core->feeds.head;
}

unsigned bi_feeds_rollback(struct core *core, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;
    while (rollback->feed != NULL && budget > 0) {
        bide_feed *feed = rollback->feed;
        for (; rollback->seen < feed->count && budget > 0; rollback->seen++, budget--) {
            const struct feed_event *event = feed_at(feed, rollback->seen);
            if (event->batch > core->journal.committed)
                continue;
            if (rollback->kept != rollback->seen)
                *feed_at(feed, rollback->kept) = *event;
            rollback->kept++;
        }
        if (rollback->seen < feed->count)
            break;
        feed->count = rollback->kept;
        rollback->feed = feed->next;
        rollback->seen = rollback->kept = 0;
    }
    return budget;
}

void bi_feed_leave(bide_feed *feed, struct waiter *waiter)
{
    if (feed->reader == waiter)
        feed->reader = NULL;
}

/* ---- the ops ---- */

static size_t feed_size(uint32_t capacity)
{
    return sizeof(bide_feed) + (size_t)capacity * sizeof(struct feed_event);
}

static bool is_known(const struct core *core, const bide_feed *wanted)
{
    const bide_feed *feed = core->feeds.head;
    while (feed != NULL && feed != wanted)
        feed = feed->next;
    return feed != NULL;
}

int bi_op_subscribe(struct core *core, bide_op *op)
{
    bide_feed_args *args = &op->feed;
    uint32_t capacity = args->capacity == 0 ? DEFAULT_CAPACITY : args->capacity;
    if (core->feeds.count >= BIDE_FEEDS_MAX) /* every event is offered to each of them */
        return bi_op_refuse(
            op, BIDE_TOO_MANY_WAITERS,
            "subscribe: there are %d feeds, the most that a queue has (BIDE_FEEDS_MAX)",
            BIDE_FEEDS_MAX);
    size_t size = feed_size(capacity);
    if (bi_core_is_full(core, size))
        return bi_op_limited(core, op, BIDE_EFULL);
    bide_feed *feed = bi_alloc_get(&core->alloc, size);
    if (feed == NULL)
        return bi_op_answer(op, BIDE_ENOMEM);
    memset(feed, 0, sizeof(*feed));
    feed->capacity = capacity;
    feed->kinds = args->kinds == 0 ? UINT32_MAX : args->kinds;
    feed->topic_size = args->topic.size;
    if (args->topic.size > 0)
        memcpy(feed->topic, args->topic.data, args->topic.size);
    feed->next = core->feeds.head;
    if (feed->next != NULL)
        feed->next->prev = feed;
    core->feeds.head = feed;
    core->feeds.count++;
    core->feeds.kinds |= feed->kinds;
    core->memory += size;
    args->feed = feed;
    return BIDE_OK;
}

int bi_op_events(struct core *core, bide_op *op)
{
    bide_feed *feed = op->feed.feed;
    if (!is_known(core, feed))
        return bi_op_refuse(op, BIDE_EINVAL,
                            "events: this feed was never subscribed, or has ended");
    if (feed->reader != NULL)
        return bi_op_refuse(op, BIDE_EINVAL, "events: another call waits on this feed already");
    hand_out(core, feed, op);
    if (op->feed.count > 0)
        return BIDE_OK;
    if (op->feed.timeout_ms == 0)
        return bi_op_answer(op, BIDE_TIMED_OUT);
    int code;
    struct waiter *waiter = bi_waiter_add(core, op, op->feed.timeout_ms, NULL, 0, &code);
    if (waiter != NULL) {
        waiter->feed = feed;
        feed->reader = waiter;
    }
    return code;
}

static void end_feed(struct core *core, bide_feed *feed)
{
    if (feed->prev != NULL)
        feed->prev->next = feed->next;
    else
        core->feeds.head = feed->next;
    if (feed->next != NULL)
        feed->next->prev = feed->prev;
    core->feeds.count--;
    core->feeds.kinds = 0;
    for (const bide_feed *other = core->feeds.head; other != NULL; other = other->next)
        core->feeds.kinds |= other->kinds;
    core->memory -= feed_size(feed->capacity);
    bi_alloc_put(&core->alloc, feed);
}

int bi_op_unsubscribe(struct core *core, bide_op *op)
{
    bide_feed *feed = op->feed.feed;
    if (!is_known(core, feed))
        return bi_op_refuse(op, BIDE_EINVAL,
                            "unsubscribe: this feed was never subscribed, or has ended");
    if (feed->reader != NULL)
        bi_waiter_end(core, feed->reader, BIDE_CANCELLED);
    end_feed(core, feed);
    return BIDE_OK;
}

void bi_feeds_free(struct core *core)
{
    while (core->feeds.head != NULL)
        end_feed(core, core->feeds.head);
}
