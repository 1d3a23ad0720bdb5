/* SPDX-License-Identifier: MIT */
#include "core/event.h"

#include "core/state.h"

#include <assert.h>
#include <string.h>

#define DEFAULT_CAPACITY 1024
#define CHUNK_BYTES      (BI_FEED_CHUNK * sizeof(struct feed_event))
#define MEMORY_SHARE     8 /* the chunks of all feeds take this part of max_memory at most */

/* ---- the ring ---- */

static uint32_t slot_of(const bide_feed *feed, uint32_t index)
{
    return (feed->first + index) % feed->capacity;
}

static uint32_t chunk_of(const bide_feed *feed, uint32_t index)
{
    return slot_of(feed, index) / BI_FEED_CHUNK;
}

static struct feed_event *feed_at(bide_feed *feed, uint32_t index)
{
    struct feed_event *chunk = feed->chunks[chunk_of(feed, index)];
    assert(chunk != NULL);
    return &chunk[slot_of(feed, index) % BI_FEED_CHUNK];
}

static uint32_t chunk_count(uint32_t capacity)
{
    return (capacity + BI_FEED_CHUNK - 1) / BI_FEED_CHUNK;
}

/* NULL: there is no memory for it. */
static struct feed_event *chunk_new(struct core *core)
{
    uint64_t max = core->limits.max_memory / MEMORY_SHARE;
    if (bi_core_is_full(core, CHUNK_BYTES) || (max != 0 && core->feeds.memory + CHUNK_BYTES > max))
        return NULL;
    struct feed_event *chunk = bi_alloc_get(&core->alloc, CHUNK_BYTES);
    if (chunk == NULL)
        return NULL;
    core->memory += CHUNK_BYTES;
    core->feeds.memory += CHUNK_BYTES;
    return chunk;
}

static void chunk_free(struct core *core, struct feed_event *chunk)
{
    if (chunk == NULL)
        return;
    assert(core->feeds.memory >= CHUNK_BYTES);
    core->memory -= CHUNK_BYTES;
    core->feeds.memory -= CHUNK_BYTES;
    bi_alloc_put(&core->alloc, chunk);
}

/* Takes out the first event. Answers the chunk that it was the last to need, or NULL. */
static struct feed_event *drop_first(bide_feed *feed)
{
    uint32_t before = chunk_of(feed, 0);
    feed->first = slot_of(feed, 1);
    feed->count--;

    uint32_t now = chunk_of(feed, 0);
    if (now == before || (feed->count > 0 && chunk_of(feed, feed->count - 1) == before))
        return NULL;
    struct feed_event *chunk = feed->chunks[before];
    feed->chunks[before] = NULL;
    if (feed->chunks[now] != NULL)
        return chunk;
    feed->chunks[now] = chunk; /* the only one goes with the ring */
    return NULL;
}

/* The place of the next event. Without memory the oldest events go, and their chunk is used again. */
static struct feed_event *next_place(struct core *core, bide_feed *feed)
{
    uint32_t wanted = chunk_of(feed, feed->count);
    struct feed_event *chunk = feed->chunks[wanted] != NULL ? NULL : chunk_new(core);
    if (chunk != NULL)
        feed->chunks[wanted] = chunk;
    while (feed->chunks[wanted] == NULL) {
        struct feed_event *left = drop_first(feed);
        feed->lost++;
        if (left != NULL)
            feed->chunks[wanted] = left;
    }
    return feed_at(feed, feed->count++);
}

static bool wants(const bide_feed *feed, bide_event_kind kind, const struct topic *topic)
{
    if ((feed->kinds & (1u << kind)) == 0)
        return false;
    return feed->topic_size == 0 || (feed->topic_size == topic->name_size &&
                                     memcmp(feed->topic, topic->name, topic->name_size) == 0);
}

/* ---- writing ---- */

void bi_event_as(struct core *core, bide_event_kind kind, const struct job *job, bide_state state)
{
    if ((core->feeds.kinds & (1u << kind)) == 0)
        return;
    const struct topic *topic = topic_of(core, job);
    uint64_t batch = bi_journal_batch_of(core, job);
    for (bide_feed *feed = core->feeds.head; feed != NULL; feed = feed->next) {
        if (!wants(feed, kind, topic))
            continue;
        if (feed->count == feed->capacity) {
            chunk_free(core, drop_first(feed));
            feed->lost++;
        }
        struct feed_event *event = next_place(core, feed);
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
        chunk_free(core, drop_first(feed));
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
    return sizeof(bide_feed) + chunk_count(capacity) * sizeof(struct feed_event *);
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
    if (bi_core_is_full(core, size + CHUNK_BYTES))
        return bi_op_limited(core, op, BIDE_EFULL);
    bide_feed *feed = bi_alloc_get(&core->alloc, size);
    struct feed_event *chunk = feed == NULL ? NULL : bi_alloc_get(&core->alloc, CHUNK_BYTES);
    if (chunk == NULL) {
        if (feed != NULL)
            bi_alloc_put(&core->alloc, feed);
        return bi_op_answer(op, BIDE_ENOMEM);
    }
    memset(feed, 0, size);
    feed->chunks[0] = chunk;
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
    core->memory += size + CHUNK_BYTES;
    core->feeds.memory += CHUNK_BYTES;
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
    for (uint32_t i = 0; i < chunk_count(feed->capacity); i++)
        chunk_free(core, feed->chunks[i]);
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
