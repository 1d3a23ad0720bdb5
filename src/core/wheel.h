/* SPDX-License-Identifier: MIT */
/*
 * wheel - a ring of slots with rounds: the other way to keep timers.
 *
 * The ring moves one slot every tick. A timer lies in the slot that the ring reaches at the first
 * tick at or after its deadline; one that is more than a turn away waits there for as many rounds
 * as it takes. Setting and clearing cost the same however many timers there are, and the machine
 * wakes at a fixed frequency at most; in exchange a deadline is met up to one tick late. Deadlines of
 * the wall clock, which may be set back, are not in the ring; they are rounded up to its ticks
 * (bi_core_next).
 *
 * Ordering   None: what comes due in one turn is handed out in any order, and timer.c sorts it.
 * Failure    Only making one can fail.
 * Cost       add and remove O(1); a tick looks at every timer of its slot, also at those with
 *            rounds to go: choose slots * tick about as long as the usual delay.
 */
#ifndef BI_WHEEL_H
#define BI_WHEEL_H

#include "core/timer.h"

struct wheel *bi_wheel_new(const struct bi_alloc *alloc, int64_t tick, uint32_t slots,
                           int64_t born);
void bi_wheel_free(struct wheel *wheel, const struct bi_alloc *alloc);

/* False, and nothing is done, if the ring has passed the deadline already. */
bool bi_wheel_add(struct wheel *wheel, struct timer *timer);
void bi_wheel_remove(struct wheel *wheel, struct timer *timer);

/* Turns the ring to now. Answers what has come due, linked by next, no longer in the wheel. */
struct timer *bi_wheel_turn(struct wheel *wheel, int64_t now);

/* The moment of the first tick at or after a deadline. */
int64_t bi_wheel_tick(const struct wheel *wheel, int64_t due);

/* The next tick, or INT64_MAX when no timer is set. */
int64_t bi_wheel_next(const struct wheel *wheel);

#endif
