/* SPDX-License-Identifier: MIT */
#include "core/event.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

#define DEFAULT_CAPACITY 1024
#define CHUNK_BYTES      (BI_EVENT_CHUNK * sizeof(struct queued_event))
#define MEMORY_SHARE     8 /* all chunks together take at most 1/8 of max_memory */

/* ---- the ring ---- */

static uint32_t slot_of(const bide_subscription *feed, uint32_t index)
{
    return (feed->first + index) % feed->capacity;
}

static uint32_t chunk_of(const bide_subscription *feed, uint32_t index)
{
    return slot_of(feed, index) / BI_EVENT_CHUNK;
}

static struct queued_event *event_at(bide_subscription *feed, uint32_t index)
{
    struct queued_event *chunk = feed->chunks[chunk_of(feed, index)];
    assert(chunk != NULL);
    return &chunk[slot_of(feed, index) % BI_EVENT_CHUNK];
}

static uint32_t chunk_count(uint32_t capacity)
{
    return (capacity + BI_EVENT_CHUNK - 1) / BI_EVENT_CHUNK;
}

/* Returns NULL when out of memory or above the limits. */
static struct queued_event *chunk_new(struct core *core)
{
    uint64_t max = core->limits.max_memory / MEMORY_SHARE;
    if (bi_core_is_full(core, CHUNK_BYTES) ||
        (max != 0 && core->subscriptions.memory + CHUNK_BYTES > max))
        return NULL;

    struct queued_event *chunk = bi_alloc_malloc(&core->alloc, CHUNK_BYTES);
    if (chunk == NULL)
        return NULL;

    core->memory += CHUNK_BYTES;
    core->subscriptions.memory += CHUNK_BYTES;
    return chunk;
}

static void chunk_free(struct core *core, struct queued_event *chunk)
{
    if (chunk == NULL)
        return;
    assert(core->subscriptions.memory >= CHUNK_BYTES);
    core->memory -= CHUNK_BYTES;
    core->subscriptions.memory -= CHUNK_BYTES;
    bi_alloc_free(&core->alloc, chunk);
}

/* Removes the first event. Returns the chunk that no event needs any more, or NULL. */
static struct queued_event *drop_first(bide_subscription *feed)
{
    assert(feed->count > 0);
    uint32_t before = chunk_of(feed, 0);
    feed->first = slot_of(feed, 1);
    feed->count--;

    /* The ring may end in the chunk in which it began. */
    uint32_t now = chunk_of(feed, 0);
    if (now == before || (feed->count > 0 && chunk_of(feed, feed->count - 1) == before))
        return NULL;

    struct queued_event *chunk = feed->chunks[before];
    feed->chunks[before] = NULL;
    if (feed->chunks[now] != NULL)
        return chunk;

    /* It is the only chunk: move it along, so that one event always fits without allocating. */
    feed->chunks[now] = chunk;
    return NULL;
}

/* Returns the slot for the next event. Without memory, drops the oldest events and reuses their
 * chunk. */
static struct queued_event *next_slot(struct core *core, bide_subscription *feed)
{
    assert(feed->count < feed->capacity);
    uint32_t wanted = chunk_of(feed, feed->count);
    struct queued_event *chunk = feed->chunks[wanted] != NULL ? NULL : chunk_new(core);
    if (chunk != NULL)
        feed->chunks[wanted] = chunk;

    /* Dropping does not change the slot of the next event. It ends at the latest with an empty
     * ring, whose only chunk is the wanted one. */
    while (feed->chunks[wanted] == NULL) {
        struct queued_event *left = drop_first(feed);
        feed->lost++;
        if (left != NULL)
            feed->chunks[wanted] = left;
    }

    return event_at(feed, feed->count++);
}

/* ---- writing ---- */

static void append_event(struct core *core, bide_event_kind kind, const struct job *job,
                         bide_state state)
{
    assert(kind < 32 && state <= BIDE_STATE_DONE);
    const struct topic *topic = topic_of(core, job);
    uint64_t batch = bi_journal_batch_of(core, job);

    bide_subscription *feed;
    LIST_FOREACH(feed, &core->subscriptions.all, all) {
        bool wanted =
            (feed->kinds & (1u << kind)) != 0 &&
            (feed->topic_size == 0 || (feed->topic_size == topic->name_size &&
                                       memcmp(feed->topic, topic->name, topic->name_size) == 0));
        if (!wanted)
            continue;
        if (feed->count == feed->capacity) {
            chunk_free(core, drop_first(feed));
            feed->lost++;
        }

        /* The event is invisible to readers until its batch is committed. */
        struct queued_event *event = next_slot(core, feed);
        event->batch = batch;
        event->event.kind = kind;
        event->event.state = state;
        event->event.id = job->id;
        event->event.at_ms = ms_down(core->now.wall);
        memset(event->event.room_, 0, sizeof(event->event.room_));
        memcpy(event->event.topic, topic->name, (size_t)topic->name_size + 1);
    }
}

void bi_event_emit_as(struct core *core, bide_event_kind kind, const struct job *job,
                      bide_state state)
{
    /* Most queues have no subscription: this is all that an event costs then. */
    if ((core->subscriptions.kinds & (1u << kind)) != 0)
        append_event(core, kind, job, state);
}

void bi_event_emit(struct core *core, bide_event_kind kind, const struct job *job)
{
    bi_event_emit_as(core, kind, job, (bide_state)job->state);
}

/* ---- reading ---- */

static bool has_committed(const struct core *core, bide_subscription *feed)
{
    return feed->count > 0 && event_at(feed, 0)->batch <= core->journal.committed;
}

/* Copies committed events to the op. The first uncommitted event ends the loop, although events
 * behind it may be committed: the order must hold. */
static void deliver(struct core *core, bide_subscription *feed, bide_op *op)
{
    size_t count = 0;
    while (count < op->subscription.event_max && has_committed(core, feed)) {
        op->subscription.events[count++] = event_at(feed, 0)->event;
        chunk_free(core, drop_first(feed));
    }

    op->subscription.count = count;
    op->subscription.lost = feed->lost;
    /* Without an event the loss is reported again, with the next one. */
    if (count > 0)
        feed->lost = 0;
}

void bi_event_deliver(struct core *core)
{
    bide_subscription *feed;
    LIST_FOREACH(feed, &core->subscriptions.all, all) {
        if (feed->reader == NULL || !has_committed(core, feed))
            continue;

        struct waiter *reader = feed->reader;
        assert(reader->feed == feed && reader->link_count == 0);
        /* The events are committed: the reader must not wait for the batch of the running op. */
        uint64_t hold = core->hold;
        core->hold = 0;
        deliver(core, feed, reader->op);
        bi_waiter_complete(core, reader, BIDE_OK);
        core->hold = hold;
    }
}

/* Truncates the ring to so many events and frees the chunks behind them. Each chunk costs one
 * unit of the budget; returns the rest. */
static unsigned cut(struct core *core, bide_subscription *feed, uint32_t kept, unsigned budget)
{
    assert(kept <= feed->count);
    for (; feed->count > kept && budget > 0; budget--) {
        uint32_t last = feed->count - 1;
        uint32_t chunk = chunk_of(feed, last);
        uint32_t in_chunk = slot_of(feed, last) % BI_EVENT_CHUNK + 1;
        uint32_t dropped = feed->count - kept < in_chunk ? feed->count - kept : in_chunk;

        feed->count -= dropped;
        /* The chunk of the first or next event remains, and so does the one in which the ring
         * now ends. */
        if (chunk == chunk_of(feed, 0) ||
            (feed->count > 0 && chunk == chunk_of(feed, feed->count - 1)))
            continue;
        chunk_free(core, feed->chunks[chunk]);
        feed->chunks[chunk] = NULL;
    }
    return budget;
}

unsigned bi_event_rollback(struct core *core, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;
    while (rollback->feed != NULL && budget > 0) {
        bide_subscription *feed = rollback->feed;

        /* Compact the ring in place. The position survives in the journal between slices. */
        for (; rollback->scanned < feed->count && budget > 0; rollback->scanned++, budget--) {
            const struct queued_event *event = event_at(feed, rollback->scanned);
            if (event->batch > core->journal.committed)
                continue;
            if (rollback->kept != rollback->scanned)
                *event_at(feed, rollback->kept) = *event;
            rollback->kept++;
        }
        if (rollback->scanned < feed->count)
            break;

        /* Truncate only after the whole ring was scanned: scanned is compared with count. */
        budget = cut(core, feed, rollback->kept, budget);
        if (feed->count > rollback->kept)
            break;

        rollback->feed = LIST_NEXT(feed, all);
        rollback->scanned = rollback->kept = 0;
    }
    return budget;
}

/* ---- the ops ---- */

static size_t subscription_size(uint32_t capacity)
{
    return sizeof(bide_subscription) + chunk_count(capacity) * sizeof(struct queued_event *);
}

static bide_subscription *handle_of(const bide_subscription *feed)
{
    return (bide_subscription *)(uintptr_t)feed->serial;
}

/* Returns NULL for a handle that was never given out, or whose subscription has ended. */
static bide_subscription *find_subscription(const struct core *core,
                                            const bide_subscription *handle)
{
    bide_subscription *feed;
    LIST_FOREACH(feed, &core->subscriptions.all, all)
        if (handle_of(feed) == handle)
            return feed;
    return NULL;
}

int bi_exec_subscribe(struct core *core, bide_op *op)
{
    bide_subscription_args *args = &op->subscription;
    uint32_t capacity = args->capacity == 0 ? DEFAULT_CAPACITY : args->capacity;

    /* Every event is offered to every subscription: limit their number. */
    if (core->subscriptions.count >= BIDE_SUBSCRIPTIONS_MAX)
        return bi_core_error(
            op, BIDE_TOO_MANY_WAITERS,
            "subscribe: there are %d subscriptions, the maximum of a queue (BIDE_SUBSCRIPTIONS_MAX)",
            BIDE_SUBSCRIPTIONS_MAX);

    size_t size = subscription_size(capacity);
    if (bi_core_is_full(core, size + CHUNK_BYTES))
        return bi_core_error_limit(core, op, BIDE_EFULL);

    /* The first chunk is allocated now, beyond the share of max_memory: a ring always has one. */
    bide_subscription *feed = bi_alloc_malloc(&core->alloc, size);
    struct queued_event *chunk = feed == NULL ? NULL : bi_alloc_malloc(&core->alloc, CHUNK_BYTES);
    if (chunk == NULL) {
        if (feed != NULL)
            bi_alloc_free(&core->alloc, feed);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    memset(feed, 0, size);
    feed->chunks[0] = chunk;
    feed->capacity = capacity;
    feed->kinds = args->kinds == 0 ? UINT32_MAX : args->kinds;
    feed->topic_size = args->topic.size;
    if (args->topic.size > 0)
        memcpy(feed->topic, args->topic.data, args->topic.size);

    feed->serial = ++core->subscriptions.last_serial;
    LIST_INSERT_HEAD(&core->subscriptions.all, feed, all);
    core->subscriptions.count++;
    core->subscriptions.kinds |= feed->kinds;

    core->memory += size + CHUNK_BYTES;
    core->subscriptions.memory += CHUNK_BYTES;
    args->handle = handle_of(feed);
    return BIDE_OK;
}

int bi_exec_events(struct core *core, bide_op *op)
{
    bide_subscription *feed = find_subscription(core, op->subscription.handle);
    if (feed == NULL)
        return bi_core_error(op, BIDE_EINVAL,
                             "events: this feed was never subscribed, or has ended");
    assert(op->subscription.event_max > 0);
    if (feed->reader != NULL)
        return bi_core_error(op, BIDE_EINVAL, "events: another call waits on this feed already");

    deliver(core, feed, op);
    if (op->subscription.count > 0)
        return BIDE_OK;
    if (op->subscription.timeout_ms == 0)
        return bi_core_error_code(op, BIDE_TIMED_OUT);

    int code = bi_waiter_add(core, op, op->subscription.timeout_ms, NULL, 0);
    feed->reader = op->private_.waiter;
    if (feed->reader != NULL)
        feed->reader->feed = feed;
    return code;
}

static void free_subscription(struct core *core, bide_subscription *feed)
{
    assert(feed->reader == NULL && core->subscriptions.count > 0);
    LIST_REMOVE(feed, all);
    core->subscriptions.count--;

    /* Other subscriptions may want the same kinds: compute the union again. */
    const bide_subscription *other;
    core->subscriptions.kinds = 0;
    LIST_FOREACH(other, &core->subscriptions.all, all)
        core->subscriptions.kinds |= other->kinds;

    for (uint32_t i = 0; i < chunk_count(feed->capacity); i++)
        chunk_free(core, feed->chunks[i]);
    core->memory -= subscription_size(feed->capacity);
    bi_alloc_free(&core->alloc, feed);
}

int bi_exec_unsubscribe(struct core *core, bide_op *op)
{
    bide_subscription *feed = find_subscription(core, op->subscription.handle);
    if (feed == NULL)
        return bi_core_error(op, BIDE_EINVAL,
                             "unsubscribe: this feed was never subscribed, or has ended");

    /* The reader's waiter points to the subscription: complete it first. */
    if (feed->reader != NULL)
        bi_waiter_complete(core, feed->reader, BIDE_CANCELLED);
    free_subscription(core, feed);
    return BIDE_OK;
}

void bi_event_free_subscriptions(struct core *core)
{
    while (!LIST_EMPTY(&core->subscriptions.all))
        free_subscription(core, LIST_FIRST(&core->subscriptions.all));
}
