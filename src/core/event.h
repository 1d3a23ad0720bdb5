/* SPDX-License-Identifier: MIT */
/*
 * event - bounded feeds of what happens to jobs.
 *
 * Each subscriber has a ring. When it is full the oldest event is dropped and counted, and the
 * reader is told how many it missed. An event of a change that is not stored yet is not handed
 * out before it is, and vanishes if it never will be.
 *
 * Memory     A ring is made of chunks. It has one from the beginning, and further ones while events
 *            are in them. All rings together take a part of max_memory; beyond that, and when memory
 *            is out, a ring drops the events of its oldest chunk and uses it again.
 */
#ifndef BI_EVENT_H
#define BI_EVENT_H

#include <bide/op.h>

struct core;
struct job;
struct waiter;

struct feed_event {
    uint64_t batch; /* 0: nothing to wait for */
    bide_event event;
};

#define BI_FEED_CHUNK 64 /* events */

struct bide_feed {
    bide_feed *prev, *next;
    struct waiter *reader; /* the events op that waits, or NULL */
    uint32_t kinds;
    uint32_t capacity;
    uint32_t first, count;
    uint64_t lost;
    size_t topic_size; /* 0: all topics */
    char topic[BIDE_TOPIC_MAX + 1];
    struct feed_event *chunks[]; /* of the ring; NULL: not there. The first event's, or the next
                                    one's if there is none, always is. */
};

struct feeds {
    bide_feed *head;
    uint64_t count;
    uint64_t memory; /* of their chunks */
    uint32_t kinds;  /* that any of them wants */
};

/* Tells every feed that wants it. */
void bi_event(struct core *core, bide_event_kind kind, const struct job *job);
/* The same for a job whose state after the event is not the one it is in. */
void bi_event_as(struct core *core, bide_event_kind kind, const struct job *job, bide_state state);

/* Answers the readers for whom there is something. */
void bi_feeds_serve(struct core *core);

/* Forgets the events of batches that were not stored. Looks at up to budget events at a time, and
 * answers what is left of the budget. */
void bi_feeds_begin_rollback(struct core *core);
unsigned bi_feeds_rollback(struct core *core, unsigned budget);

void bi_feed_leave(bide_feed *feed, struct waiter *waiter);
void bi_feeds_free(struct core *core);

#endif
