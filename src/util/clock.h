/* SPDX-License-Identifier: MIT */
/*
 * clock - the only reader of clocks.
 *
 * Microseconds, rounded down. The boot-time clock goes on while the machine sleeps and does not
 * jump; the wall clock is what people set.
 */
#ifndef BI_CLOCK_H
#define BI_CLOCK_H

#include <stdint.h>

int64_t bi_clock_boot(void);
int64_t bi_clock_wall(void);

/* The moment that is so many microseconds from now, as the system takes it: of the wall clock, for
 * mutexes; of the monotonic one, for conditions. */
struct timespec;
void bi_clock_after(struct timespec *out, int64_t us);
void bi_clock_until(struct timespec *out, int64_t us);

#endif
