/* SPDX-License-Identifier: MIT */
#include "core/wheel.h"

#include <assert.h>
#include <string.h>

/* One more place than there are slots: where due timers wait to be popped, sorted. */
struct wheel {
    int64_t tick;
    int64_t born;
    int64_t turned; /* ticks since born that the ring has moved */
    uint64_t count;
    uint32_t slots;
    struct timer *lists[]; /* the head of each slot; lists[slots]: due */
};

struct wheel *bi_wheel_new(const struct bi_alloc *alloc, int64_t tick, uint32_t slots, int64_t born)
{
    assert(tick > 0 && slots > 0);
    size_t size = sizeof(struct wheel) + ((size_t)slots + 1) * sizeof(struct timer *);
    struct wheel *wheel = bi_alloc_get(alloc, size);
    if (wheel == NULL)
        return NULL;
    memset(wheel, 0, size);
    wheel->tick = tick;
    wheel->born = born;
    wheel->slots = slots;
    return wheel;
}

void bi_wheel_free(struct wheel *wheel, const struct bi_alloc *alloc)
{
    bi_alloc_put(alloc, wheel);
}

/* The tick at or after a deadline; the sum cannot overflow for any deadline the core makes. */
static int64_t tick_of(const struct wheel *wheel, int64_t due)
{
    if (due <= wheel->born)
        return 0;
    int64_t since = due - wheel->born;
    return since / wheel->tick + (since % wheel->tick != 0);
}

static bool before(const struct timer *a, const struct timer *b)
{
    return a->due < b->due || (a->due == b->due && a->order < b->order);
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

/* A timer that is due already goes straight among the due ones, in its place. */
static void link_due(struct wheel *wheel, struct timer *timer)
{
    struct timer *prev = NULL;
    struct timer *next = wheel->lists[wheel->slots];
    while (next != NULL && before(next, timer)) {
        prev = next;
        next = next->next;
    }
    if (prev == NULL) {
        link_front(wheel, timer, wheel->slots);
        return;
    }
    timer->slot = wheel->slots;
    timer->prev = prev;
    timer->next = next;
    prev->next = timer;
    if (next != NULL)
        next->prev = timer;
}

void bi_wheel_add(struct wheel *wheel, struct timer *timer)
{
    int64_t at = tick_of(wheel, timer->due);
    if (at <= wheel->turned)
        link_due(wheel, timer);
    else
        link_front(wheel, timer, (uint32_t)(at % wheel->slots));
    wheel->count++;
}

void bi_wheel_remove(struct wheel *wheel, struct timer *timer)
{
    unlink_timer(wheel, timer);
    wheel->count--;
}

/* Moves the timers of one slot whose rounds are over to a list; answers its new head. */
static struct timer *collect(struct wheel *wheel, uint32_t slot, struct timer *found)
{
    struct timer *timer = wheel->lists[slot];
    while (timer != NULL) {
        struct timer *next = timer->next;
        if (tick_of(wheel, timer->due) <= wheel->turned) {
            unlink_timer(wheel, timer);
            timer->next = found;
            found = timer;
        }
        timer = next;
    }
    return found;
}

static struct timer *merge(struct timer *a, struct timer *b)
{
    struct timer *head = NULL;
    struct timer **end = &head;
    while (a != NULL && b != NULL) {
        struct timer **least = before(b, a) ? &b : &a;
        *end = *least;
        end = &(*least)->next;
        *least = *end;
    }
    *end = a != NULL ? a : b;
    return head;
}

/* Merge sort from the bottom: piles[i] holds 2^i sorted timers or none. */
static struct timer *sort(struct timer *list)
{
    struct timer *piles[48] = {NULL};
    while (list != NULL) {
        struct timer *one = list;
        list = list->next;
        one->next = NULL;
        int i = 0;
        for (; piles[i] != NULL; i++) {
            one = merge(piles[i], one);
            piles[i] = NULL;
        }
        piles[i] = one;
    }
    struct timer *sorted = NULL;
    for (int i = 0; i < 48; i++)
        sorted = merge(piles[i], sorted);
    return sorted;
}

static void make_due(struct wheel *wheel, struct timer *found)
{
    uint32_t slot = wheel->slots;
    struct timer *list = merge(wheel->lists[slot], sort(found));
    wheel->lists[slot] = list;
    struct timer *prev = NULL;
    for (; list != NULL; list = list->next) {
        list->slot = slot;
        list->prev = prev;
        prev = list;
    }
}

/* Moves the ring; a jump over many turns looks at each slot once. */
static void turn(struct wheel *wheel, int64_t now)
{
    int64_t target = now <= wheel->born ? 0 : (now - wheel->born) / wheel->tick;
    if (target <= wheel->turned)
        return;
    int64_t steps = target - wheel->turned;
    int64_t first = wheel->turned + 1;
    wheel->turned = target;
    if (wheel->count == 0)
        return;
    if (steps > wheel->slots)
        steps = wheel->slots;
    struct timer *found = NULL;
    for (int64_t i = 0; i < steps; i++)
        found = collect(wheel, (uint32_t)((first + i) % wheel->slots), found);
    if (found != NULL)
        make_due(wheel, found);
}

struct timer *bi_wheel_pop(struct wheel *wheel, int64_t now)
{
    turn(wheel, now);
    struct timer *timer = wheel->lists[wheel->slots];
    if (timer != NULL)
        bi_wheel_remove(wheel, timer);
    return timer;
}

int64_t bi_wheel_next(const struct wheel *wheel)
{
    if (wheel->count == 0)
        return INT64_MAX;
    if (wheel->lists[wheel->slots] != NULL)
        return wheel->lists[wheel->slots]->due;
    return wheel->born + (wheel->turned + 1) * wheel->tick;
}
