/* SPDX-License-Identifier: MIT */
/*
 * lock_limit - no hold of a queue's lock may take too long; measured in builds with
 * -Dlock_stats=true only.
 *
 * The processor of a virtual machine is taken away now and then, and the clock of the thread goes
 * on: a hold then seems to last for milliseconds. What the code causes comes back when the same is
 * done again, what the machine causes does not. So a test in which a hold was too long runs again,
 * and each of its figures is the smallest of the longest holds of all its runs. Where a figure is
 * of many calls that do the same in every run, each call is compared with itself: among a thousand
 * one always meets the machine.
 */
#ifndef FAULT_LOCK_LIMIT_H
#define FAULT_LOCK_LIMIT_H

#include "fault.h"

/* Runs a test that calls HOLDS(); several times, each in an empty folder, while a figure is above
 * the limit, and fails if it still is after the last time. */
void lock_limit_measure(void (*test)(void));

/* Defines the function that measures a test, and names it in a theme. */
#define MEASURE(test)                \
    static void measure_##test(void) \
    {                                \
        lock_limit_measure(test);    \
    }
#define MEASURED_TEST(test) {#test, measure_##test},

/* The first figure begins: what was held before does not count. */
void lock_limit_begin(void);

/* A call is over that makes the same of the same in every run; at most 4,000 of one figure. */
void lock_limit_part(void);

/* A figure: says what the longest hold was since the last figure, or since lock_limit_begin(). */
#define LOCK_LIMIT(what) lock_limit_end(HERE, (what))
void lock_limit_end(struct where at, const char *what);

#endif
