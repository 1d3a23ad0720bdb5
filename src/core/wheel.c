/* SPDX-License-Identifier: MIT */
#include "core/wheel.h"

#include <assert.h>
#include <string.h>

struct wheel {
    int64_t tick;
    int64_t origin;
    int64_t ticks; /* ticks that the ring has advanced since origin */
    uint64_t count;
    uint32_t slots;
    struct timer *lists[]; /* the head of each slot */
};

struct wheel *bi_wheel_new(const struct bi_alloc *alloc, int64_t tick, uint32_t slots,
                           int64_t origin)
{
    assert(tick > 0 && slots > 0);
    size_t size = sizeof(struct wheel) + (size_t)slots * sizeof(struct timer *);
    struct wheel *wheel = bi_alloc_malloc(alloc, size);
    if (wheel == NULL)
        return NULL;

    memset(wheel, 0, size);
    wheel->tick = tick;
    wheel->origin = origin;
    wheel->slots = slots;
    return wheel;
}

void bi_wheel_free(struct wheel *wheel, const struct bi_alloc *alloc)
{
    bi_alloc_free(alloc, wheel);
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

static void link_front(struct wheel *wheel, struct timer *timer, uint32_t slot)
{
    timer->slot = slot;
    timer->prev = NULL;
    timer->next = wheel->lists[slot];
    if (timer->next != NULL)
        timer->next->prev = timer;
    wheel->lists[slot] = timer;
}

static void unlink_timer(struct wheel *wheel, struct timer *timer)
{
    if (timer->prev != NULL)
        timer->prev->next = timer->next;
    else
        wheel->lists[timer->slot] = timer->next;
    if (timer->next != NULL)
        timer->next->prev = timer->prev;
}

bool bi_wheel_add(struct wheel *wheel, struct timer *timer)
{
    int64_t at = tick_of(wheel, timer->due);

    /* In its slot it would wait for a whole turn. */
    if (at <= wheel->ticks)
        return false;
    link_front(wheel, timer, (uint32_t)(at % wheel->slots));
    wheel->count++;
    return true;
}

void bi_wheel_remove(struct wheel *wheel, struct timer *timer)
{
    unlink_timer(wheel, timer);
    wheel->count--;
}

/* Moves the timers of one slot that are due to the front of a list, and returns its new head.
 * The others have rounds to go. */
static struct timer *collect(struct wheel *wheel, uint32_t slot, struct timer *found)
{
    struct timer *timer = wheel->lists[slot];

    while (timer != NULL) {
        struct timer *next = timer->next;
        if (tick_of(wheel, timer->due) <= wheel->ticks) {
            bi_wheel_remove(wheel, timer);
            timer->next = found;
            found = timer;
        }
        timer = next;
    }
    return found;
}

struct timer *bi_wheel_advance(struct wheel *wheel, int64_t now)
{
    int64_t target = now <= wheel->origin ? 0 : (now - wheel->origin) / wheel->tick;
    if (target <= wheel->ticks)
        return NULL;

    int64_t steps = target - wheel->ticks;
    int64_t first = wheel->ticks + 1;
    wheel->ticks = target; /* collect() compares with it */
    if (wheel->count == 0)
        return NULL;

    /* After a jump over several turns, visit each slot once. */
    if (steps > wheel->slots)
        steps = wheel->slots;

    struct timer *found = NULL;
    for (int64_t i = 0; i < steps; i++)
        found = collect(wheel, (uint32_t)((first + i) % wheel->slots), found);
    return found;
}

int64_t bi_wheel_round_up(const struct wheel *wheel, int64_t due)
{
    return wheel->origin + tick_of(wheel, due) * wheel->tick;
}

int64_t bi_wheel_next(const struct wheel *wheel)
{
    return wheel->count == 0 ? INT64_MAX : wheel->origin + (wheel->ticks + 1) * wheel->tick;
}
