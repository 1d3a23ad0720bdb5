/* SPDX-License-Identifier: MIT */
/*
 * wheel - a timing wheel: a ring of slots with rounds, the alternative to the heap of timers.
 *
 * The ring advances by one slot per tick. A timer is in the slot that the ring reaches at the
 * first tick at or after its deadline; a timer that is more than one turn away remains there for
 * as many rounds as it takes. Setting and clearing cost the same for any number of timers, and the
 * process wakes at most once per tick. In exchange, a deadline fires up to one tick late.
 * Deadlines of the wall clock, which may be set back, are not in the ring; bi_core_next_deadline()
 * rounds them up to its ticks.
 *
 * Ordering   None: the timers of one advance are returned in any order, and timer.c sorts them.
 * Ownership  Timers are borrowed while they are in the ring.
 * Failure    Only bi_wheel_new() can fail.
 * Cost       add and remove O(1). A tick visits every timer of its slot, also those with rounds to
 *            go: choose slots * tick about as long as the usual delay.
 */
#ifndef BI_WHEEL_H
#define BI_WHEEL_H

#include "core/timer.h"

/* tick in microseconds; the first one is at origin + tick. NULL when out of memory. */
struct wheel *bi_wheel_new(const struct bi_alloc *alloc, int64_t tick, uint32_t slots,
                           int64_t origin);
void bi_wheel_free(struct wheel *wheel, const struct bi_alloc *alloc);

/* Returns false and does nothing if the ring has passed the deadline already. */
bool bi_wheel_add(struct wheel *wheel, struct timer *timer);
void bi_wheel_remove(struct wheel *wheel, struct timer *timer);

/* Advances the ring to now. Returns the timers that became due, linked by next and removed from
 * the wheel. */
struct timer *bi_wheel_advance(struct wheel *wheel, int64_t now);

/* Returns the time of the first tick at or after a deadline. */
int64_t bi_wheel_round_up(const struct wheel *wheel, int64_t due);

/* Returns the time of the next tick, or INT64_MAX when no timer is set. */
int64_t bi_wheel_next(const struct wheel *wheel);

#endif
