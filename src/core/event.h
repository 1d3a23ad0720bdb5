/* SPDX-License-Identifier: MIT */
/*
 * event - bounded subscriptions to the events of jobs.
 *
 * Each subscription has a ring of events. When the ring is full the oldest event is dropped and
 * counted, and the reader learns how many it has lost. An event of an uncommitted change is
 * delivered after the commit, and removed if the change is rolled back.
 *
 * Ordering   Events are delivered in the order in which they happened. An uncommitted event holds
 *            back those behind it.
 * Ownership  A subscription belongs to the core until unsubscribe. It has one reader at a time.
 * Failure    Only subscribe can fail. Without memory a ring drops the events of its oldest chunk
 *            and reuses the chunk.
 * Cost       A ring consists of chunks. One exists always, the others only while events are in
 *            them and all rings take no more than a fixed share of max_memory.
 */
#ifndef BI_EVENT_H
#define BI_EVENT_H

#include <bide/op.h>

#include <sys/queue.h>

struct core;
struct job;
struct waiter;

struct queued_event {
    uint64_t batch; /* deliver after this batch is committed; 0: at any time */
    bide_event event;
};

#define BI_EVENT_CHUNK 64 /* events */

struct bide_subscription {
    LIST_ENTRY(bide_subscription) all;
    uint64_t serial;       /* the caller's handle: never reused, unlike an address */
    struct waiter *reader; /* the events op that waits, or NULL */
    uint32_t kinds;
    uint32_t capacity;
    uint32_t first, count;
    uint64_t lost;
    size_t topic_size; /* 0: all topics */
    char topic[BIDE_TOPIC_MAX + 1];
    /* Of the ring; NULL: not allocated. The chunk of the first event, or of the next one if the
     * ring is empty, always exists. */
    struct queued_event *chunks[];
};

struct subscriptions {
    LIST_HEAD(, bide_subscription) all;
    uint64_t count;
    uint64_t last_serial;
    uint64_t memory; /* bytes of all chunks */
    uint32_t kinds;  /* union of the kinds of all subscriptions */
};

/* Appends an event to every subscription that matches it. */
void bi_event_emit(struct core *core, bide_event_kind kind, const struct job *job);
/* The same for a job that is not in the state which the event reports. */
void bi_event_emit_as(struct core *core, bide_event_kind kind, const struct job *job,
                      bide_state state);

/* Completes the waiting readers whose subscriptions have committed events. */
void bi_event_deliver(struct core *core);

/* Removes the events of uncommitted batches. Each call examines up to budget events and returns
 * the rest of the budget. */
unsigned bi_event_rollback(struct core *core, unsigned budget);

void bi_event_free_subscriptions(struct core *core);

#endif
