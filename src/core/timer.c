/* SPDX-License-Identifier: MIT */
#include "core/timer.h"

#include <assert.h>
#include <string.h>

#define CLASS_SHIFT 56 /* ids and serials are below 2^56 */

void bi_timers_init(struct timers *timers, struct bi_alloc alloc)
{
    memset(timers, 0, sizeof(*timers));
    timers->alloc = alloc;
    timers->next = INT64_MAX;
}

bool bi_timers_use_wheel(struct timers *timers, int64_t tick, uint32_t slots, int64_t origin)
{
    assert(tick > 0 && slots > 0 && timers->heap.count == 0 && timers->wheel == NULL);
    size_t size = sizeof(struct wheel) + (size_t)slots * sizeof(struct timer_ring_slot);
    struct wheel *wheel = bi_alloc_malloc(&timers->alloc, size);
    if (wheel == NULL)
        return false;

    memset(wheel, 0, size);
    wheel->tick = tick;
    wheel->origin = origin;
    wheel->slot_count = slots;
    timers->wheel = wheel;
    return true;
}

void bi_timers_done(struct timers *timers)
{
    timer_heap_free(&timers->heap, &timers->alloc);
    bi_alloc_free(&timers->alloc, timers->wheel);
    timers->wheel = NULL;
}

void bi_timer_init(struct timer *timer, uint8_t kind, enum timer_class class, uint64_t id)
{
    memset(timer, 0, sizeof(*timer));
    timer->kind = kind;
    timer->order = (uint64_t) class << CLASS_SHIFT | id;
}

/* Called after every change of the heap or the ring. */
static void update_next(struct timers *timers)
{
    const struct wheel *wheel = timers->wheel;

    if (timers->heap.count > 0)
        timers->next = timers->heap.entries[0].due;
    else if (wheel != NULL && wheel->count > 0)
        timers->next = wheel->origin + (wheel->ticks + 1) * wheel->tick;
    else
        timers->next = INT64_MAX;
}

static void push(struct timers *timers, struct timer *timer)
{
    struct timer_entry entry = {timer->due, timer->order, timer};
    timer_heap_push(&timers->heap, NULL, entry);
}

/* Returns the number of the tick at or after a deadline. */
static int64_t tick_of(const struct wheel *wheel, int64_t due)
{
    if (due <= wheel->origin)
        return 0;

    /* Round up after the division: adding a tick first could overflow for a far deadline. */
    int64_t since = due - wheel->origin;
    return since / wheel->tick + (since % wheel->tick != 0);
}

int64_t bi_timers_round_up(const struct timers *timers, int64_t due)
{
    const struct wheel *wheel = timers->wheel;
    return wheel->origin + tick_of(wheel, due) * wheel->tick;
}

static void leave_wheel(struct wheel *wheel, struct timer *timer)
{
    assert(timer->in_wheel && wheel->count > 0);
    LIST_REMOVE(timer, ring);
    timer->in_wheel = false;
    wheel->count--;
}

/* Removes a timer that is set from the ring or the heap. */
static void remove_set(struct timers *timers, struct timer *timer)
{
    if (timer->in_wheel) {
        leave_wheel(timers->wheel, timer);
        return;
    }
    assert(timers->heap.entries[timer->slot].timer == timer);
    timer_heap_remove(&timers->heap, NULL, timer->slot);
}

void bi_timers_set(struct timers *timers, struct timer *timer, int64_t due)
{
    struct wheel *wheel = timers->wheel;

    /* With the heap alone, replace the entry in place: one sift instead of two. */
    if (timer->set && wheel == NULL) {
        struct timer_entry entry = {due, timer->order, timer};
        timer->due = due;
        timer_heap_replace(&timers->heap, NULL, timer->slot, entry);
        update_next(timers);
        return;
    }

    if (timer->set)
        remove_set(timers, timer);
    timer->due = due;
    timer->set = true;

    /* A deadline that the ring has passed is pushed onto the heap and fires at the next pop: in its
     * slot it would wait for a whole turn. */
    int64_t at = wheel == NULL ? 0 : tick_of(wheel, due);
    timer->in_wheel = wheel != NULL && at > wheel->ticks;
    if (timer->in_wheel) {
        LIST_INSERT_HEAD(&wheel->slots[at % wheel->slot_count], timer, ring);
        wheel->count++;
    } else {
        push(timers, timer);
    }
    update_next(timers);
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
    remove_set(timers, timer);
    timer->set = false;
    update_next(timers);
}

/* Advances the ring to now, and moves the timers that it has passed into the heap. There is room:
 * each of them belongs to an owner that has reserved an entry. */
static void advance(struct timers *timers, int64_t now)
{
    struct wheel *wheel = timers->wheel;
    int64_t target = now <= wheel->origin ? 0 : (now - wheel->origin) / wheel->tick;
    int64_t first = wheel->ticks + 1;
    if (target < first)
        return;

    /* After a jump over several turns, visit each slot once. */
    int64_t steps = target - wheel->ticks;
    if (steps > wheel->slot_count)
        steps = wheel->slot_count;
    wheel->ticks = target;

    for (int64_t i = 0; i < steps && wheel->count > 0; i++) {
        struct timer *timer = LIST_FIRST(&wheel->slots[(first + i) % wheel->slot_count]);
        for (struct timer *next; timer != NULL; timer = next) {
            next = LIST_NEXT(timer, ring);
            /* The others of this slot have rounds to go. */
            if (tick_of(wheel, timer->due) <= target) {
                leave_wheel(wheel, timer);
                push(timers, timer);
            }
        }
    }
    update_next(timers);
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

    assert(timer->set && !timer->in_wheel && timer->slot == 0);
    timer_heap_remove(&timers->heap, NULL, 0);
    timer->set = false;
    update_next(timers);
    return timer;
}
