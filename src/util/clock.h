/* SPDX-License-Identifier: MIT */
/*
 * clock - the only module that reads clocks.
 *
 * Times are microseconds, rounded down. The boot-time clock continues during a suspend and never
 * jumps; the wall clock may be set.
 */
#ifndef BI_CLOCK_H
#define BI_CLOCK_H

#include <stdint.h>

int64_t bi_clock_boot(void);
int64_t bi_clock_wall(void);

/* The time of the monotonic clock that is this many microseconds from now, for timed waits. */
struct timespec;
void bi_clock_mono_deadline(struct timespec *out, int64_t us);

#endif
