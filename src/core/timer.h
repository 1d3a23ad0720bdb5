/* SPDX-License-Identifier: MIT */
/*
 * timer - the deadlines of one clock.
 *
 * Every object with a deadline owns a timer: a lease, a retention, a topic whose first delayed job
 * becomes due, a pause, a waiting call. There are two engines. The heap knows the next deadline
 * exactly (the dynamic ticker).
 *
 * The wheel is a ring of slots that advances by one slot per tick. A timer is in the slot that the
 * ring reaches at the first tick at or after its deadline; a timer that is more than one turn away
 * remains there for as many rounds as it takes. Timers that the ring has passed move into the heap,
 * where they wait, in order, to be popped. The process wakes at most once per tick; in exchange, a
 * deadline fires up to one tick late. Deadlines of the wall clock, which may be set back, are not
 * in the ring; bi_core_next_deadline() rounds them up to its ticks.
 *
 * Ordering   Timers fire by (due, class, id): expiries before other ends of jobs, then pauses of
 *            topics, their rates, announcements, and waiting calls.
 * Ownership  Timers are part of their owners and are borrowed while set.
 * Failure    Only bi_timers_reserve() can fail. An owner reserves its entry once, when it is
 *            created; setting its timer cannot fail then, so no change of state stops half-way.
 * Cost       O(log n) per call with the heap, O(1) with the wheel. A tick visits every timer of its
 *            slot, also those with rounds to go: choose slots * tick about as long as the usual
 *            delay.
 */
#ifndef BI_TIMER_H
#define BI_TIMER_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The class is part of the order, the kind selects the handler. */
enum timer_class {
    TIMER_CLASS_EXPIRY,
    TIMER_CLASS_JOB,
    TIMER_CLASS_TOPIC,
    TIMER_CLASS_RATE,
    TIMER_CLASS_ANNOUNCEMENT,
    TIMER_CLASS_WAITER
};

struct timer {
    int64_t due;
    uint64_t order;         /* class in the high byte, then the id */
    LIST_ENTRY(timer) ring; /* in a slot of the wheel */
    uint32_t slot;          /* its index in the heap */
    uint8_t kind;
    bool set;
    bool in_wheel;
};

/* The object that a timer is a member of. */
#define BI_TIMER_OWNER(timer, type, member) \
    ((type *)(void *)((char *)(timer)-offsetof(type, member)))

struct timer_entry {
    int64_t due;
    uint64_t order;
    struct timer *timer;
};

static inline bool bi_timer_before(const struct timer_entry *a, const struct timer_entry *b)
{
    return (a->due < b->due) | ((a->due == b->due) & (a->order < b->order));
}

#define BI_HEAP_NAME              timer
#define BI_HEAP_ENTRY             struct timer_entry
#define BI_HEAP_LESS(a, b)        bi_timer_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) ((e)->timer->slot = (at))
#include "core/heap.h"

LIST_HEAD(timer_ring_slot, timer);

struct wheel {
    int64_t tick;   /* microseconds */
    int64_t origin; /* the first tick is at origin + tick */
    int64_t ticks;  /* that the ring has advanced since origin */
    uint64_t count; /* timers in the ring */
    uint32_t slot_count;
    struct timer_ring_slot slots[];
};

struct timers {
    struct bi_alloc alloc;
    struct timer_heap heap;
    struct wheel *wheel; /* NULL: the heap alone */
    int64_t next;        /* see bi_timers_next() */
    uint32_t owners;     /* reserved entries */
};

void bi_timers_init(struct timers *timers, struct bi_alloc alloc);
/* Switches to the wheel; no timer may be set. False when out of memory. */
bool bi_timers_use_wheel(struct timers *timers, int64_t tick, uint32_t slots, int64_t origin);
void bi_timers_done(struct timers *timers);

/* Reserve an entry for one owner, and release it. False when out of memory. */
static inline bool bi_timers_reserve(struct timers *timers)
{
    if (timers->owners == timers->heap.room &&
        !timer_heap_reserve(&timers->heap, &timers->alloc, timers->owners + 1))
        return false;
    timers->owners++;
    return true;
}

static inline void bi_timers_unreserve(struct timers *timers)
{
    assert(timers->owners > 0);
    timers->owners--;
    timer_heap_trim(&timers->heap, &timers->alloc, timers->owners);
}

void bi_timer_init(struct timer *timer, uint8_t kind, enum timer_class class, uint64_t id);
/* Sets a timer, or moves one that is set. */
void bi_timers_set(struct timers *timers, struct timer *timer, int64_t due);
/* The same for an owner whose id changes, too: the timer of a topic has the id of its soonest
 * job. */
void bi_timers_set_with_id(struct timers *timers, struct timer *timer, int64_t due, uint64_t id);
void bi_timers_clear(struct timers *timers, struct timer *timer);

/* Returns the first timer that is due at now, or NULL. With the wheel, advances the ring. */
struct timer *bi_timers_first(struct timers *timers, int64_t now);
/* The same, and clears the timer. */
struct timer *bi_timers_pop(struct timers *timers, int64_t now);

/* With the wheel: the time of the first tick at or after a deadline. */
int64_t bi_timers_round_up(const struct timers *timers, int64_t due);

/* Returns the next time at which bi_timers_pop() may return a timer; INT64_MAX for never.
 * Inline, because every op calls it several times. */
static inline int64_t bi_timers_next(const struct timers *timers)
{
    return timers->next;
}

#endif
