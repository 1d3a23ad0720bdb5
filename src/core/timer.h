/* SPDX-License-Identifier: MIT */
/*
 * timer - what happens when, on one clock.
 *
 * Everything that has a deadline owns a timer: a lease, a retention, a topic whose first delayed
 * job comes due, a pause, a waiting call. Two engines keep them: a heap, which knows the next
 * deadline exactly (the dynamic ticker), and the wheel (wheel.h), which hands what its ring has
 * passed to the heap, where it waits, in order, to be popped.
 *
 * Ordering   Timers fire by (due, class, id): expiries before other ends of jobs, then topics, then
 *            waiting calls.
 * Ownership  Timers lie in their owners; they are borrowed while set.
 * Failure    Only enlist can fail. An owner enlists once, when it is made; from then on setting
 *            its timer cannot fail, so no change of state can be stuck half way.
 * Cost       O(log n) a call with the heap, O(1) with the wheel.
 */
#ifndef BI_TIMER_H
#define BI_TIMER_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

/* Why a timer was set: the class is part of the order, the kind selects what is done. */
enum timer_class { TIMER_CLASS_EXPIRY, TIMER_CLASS_JOB, TIMER_CLASS_TOPIC, TIMER_CLASS_CALL };

struct timer {
    int64_t due;
    uint64_t order;            /* class and id */
    struct timer *prev, *next; /* in a slot of the wheel */
    uint32_t slot;             /* in the heap, or in the wheel */
    uint8_t kind;
    bool set;
    bool in_wheel;
};

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

struct wheel;

struct timers {
    struct bi_alloc alloc;
    struct timer_heap heap;
    struct wheel *wheel; /* NULL: the heap alone */
    uint32_t owners;
};

void bi_timers_init(struct timers *timers, struct bi_alloc alloc);
/* Uses a wheel from now on. False when out of memory. */
bool bi_timers_use_wheel(struct timers *timers, int64_t tick, uint32_t slots, int64_t born);
void bi_timers_done(struct timers *timers);

bool bi_timers_enlist(struct timers *timers);
void bi_timers_delist(struct timers *timers);

void bi_timer_init(struct timer *timer, uint8_t kind, enum timer_class class, uint64_t id);
/* Sets or moves. */
void bi_timers_set(struct timers *timers, struct timer *timer, int64_t due);
/* The same, for an owner whose place in the order of equal deadlines changes, too. */
void bi_timers_set_as(struct timers *timers, struct timer *timer, int64_t due, uint64_t id);
void bi_timers_clear(struct timers *timers, struct timer *timer);

/* The first timer that is due by now; NULL for none. */
struct timer *bi_timers_first(struct timers *timers, int64_t now);
/* The same, taken out. */
struct timer *bi_timers_pop(struct timers *timers, int64_t now);

/* The same as below, when nothing waits in the heap. */
int64_t bi_timers_next_turn(const struct timers *timers);

/* When pop has something to look at next; INT64_MAX for never. Asked several times an op. */
static inline int64_t bi_timers_next(const struct timers *timers)
{
    if (timers->heap.count > 0)
        return timers->heap.entries[0].due;
    return timers->wheel == NULL ? INT64_MAX : bi_timers_next_turn(timers);
}

#endif
