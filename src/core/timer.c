/* SPDX-License-Identifier: MIT */
#include "core/timer.h"

#include "core/wheel.h"

#include <assert.h>
#include <string.h>

#define CLASS_SHIFT 56 /* ids and serials are below 2^56 */

void bi_timers_init(struct timers *timers, struct bi_alloc alloc)
{
    memset(timers, 0, sizeof(*timers));
    timers->alloc = alloc;
}

bool bi_timers_use_wheel(struct timers *timers, int64_t tick, uint32_t slots, int64_t origin)
{
    assert(timers->heap.count == 0);
    timers->wheel = bi_wheel_new(&timers->alloc, tick, slots, origin);
    return timers->wheel != NULL;
}

void bi_timers_done(struct timers *timers)
{
    timer_heap_free(&timers->heap, &timers->alloc);
    bi_wheel_free(timers->wheel, &timers->alloc);
    timers->wheel = NULL;
}

bool bi_timers_reserve(struct timers *timers)
{
    if (!timer_heap_reserve(&timers->heap, &timers->alloc, timers->owners + 1))
        return false;
    timers->owners++;
    return true;
}

void bi_timers_unreserve(struct timers *timers)
{
    assert(timers->owners > 0);
    timers->owners--;
    timer_heap_trim(&timers->heap, &timers->alloc, timers->owners);
}

void bi_timer_init(struct timer *timer, uint8_t kind, enum timer_class class, uint64_t id)
{
    memset(timer, 0, sizeof(*timer));
    timer->kind = kind;
    timer->order = (uint64_t) class << CLASS_SHIFT | id;
}

static void push(struct timers *timers, struct timer *timer)
{
    struct timer_entry entry = {timer->due, timer->order, timer};
    timer_heap_push(&timers->heap, NULL, entry);
}

void bi_timers_set(struct timers *timers, struct timer *timer, int64_t due)
{
    /* With the heap alone, replace the entry in place: one sift instead of two. */
    if (timer->set && timers->wheel == NULL) {
        struct timer_entry entry = {due, timer->order, timer};
        timer->due = due;
        timer_heap_replace(&timers->heap, NULL, timer->slot, entry);
        return;
    }

    bi_timers_clear(timers, timer);
    timer->due = due;
    timer->set = true;

    /* A deadline that the ring has passed is pushed onto the heap and fires at the next pop. */
    timer->in_wheel = timers->wheel != NULL && bi_wheel_add(timers->wheel, timer);
    if (!timer->in_wheel)
        push(timers, timer);
}

void bi_timers_set_with_id(struct timers *timers, struct timer *timer, int64_t due, uint64_t id)
{
    uint64_t order = (timer->order >> CLASS_SHIFT) << CLASS_SHIFT | id;

    /* The usual case: most changes of a topic leave its soonest job the same. */
    if (timer->set && timer->due == due && timer->order == order)
        return;

    timer->order = order;
    bi_timers_set(timers, timer, due);
}

void bi_timers_clear(struct timers *timers, struct timer *timer)
{
    if (!timer->set)
        return;

    timer->set = false;
    if (timer->in_wheel)
        bi_wheel_remove(timers->wheel, timer);
    else
        timer_heap_remove(&timers->heap, NULL, timer->slot);
}

/* Moves the timers that the wheel has passed at now into the heap. There is room: each of them
 * belongs to an owner that has reserved an entry. */
static void advance(struct timers *timers, int64_t now)
{
    struct timer *timer = bi_wheel_advance(timers->wheel, now);

    while (timer != NULL) {
        struct timer *next = timer->next;
        timer->in_wheel = false;
        push(timers, timer);
        timer = next;
    }
}

struct timer *bi_timers_first(struct timers *timers, int64_t now)
{
    if (timers->wheel != NULL)
        advance(timers, now);

    /* With the wheel all timers in the heap have been passed, so their deadlines need no test. */
    if (timers->heap.count == 0 || (timers->wheel == NULL && timers->heap.entries[0].due > now))
        return NULL;
    return timers->heap.entries[0].timer;
}

struct timer *bi_timers_pop(struct timers *timers, int64_t now)
{
    struct timer *timer = bi_timers_first(timers, now);
    if (timer == NULL)
        return NULL;

    timer_heap_remove(&timers->heap, NULL, 0);
    timer->set = false;
    return timer;
}

int64_t bi_timers_next_tick(const struct timers *timers)
{
    return bi_wheel_next(timers->wheel);
}
