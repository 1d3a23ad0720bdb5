/* SPDX-License-Identifier: MIT */
/*
 * clock - the only module that reads clocks.
 *
 * Times are microseconds, rounded down. The boot-time clock continues during a suspend and never
 * jumps; the wall clock may be set.
 */
#ifndef BI_CLOCK_H
#define BI_CLOCK_H

#include <assert.h>
#include <stdint.h>
#include <time.h>

static inline int64_t bi_clock_read(clockid_t id)
{
    struct timespec now;
    int code = clock_gettime(id, &now);
    assert(code == 0); /* every supported kernel has these clocks */
    (void)code;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t bi_clock_boot(void)
{
    return bi_clock_read(CLOCK_BOOTTIME);
}

static inline int64_t bi_clock_wall(void)
{
    return bi_clock_read(CLOCK_REALTIME);
}

/* The time of the monotonic clock that is this many microseconds from now, for timed waits. */
static inline void bi_clock_mono_deadline(struct timespec *out, int64_t us)
{
    int64_t now = bi_clock_read(CLOCK_MONOTONIC);
    assert(us <= INT64_MAX - now && now + us >= 0); /* a negative tv_nsec is not valid */

    out->tv_sec = (time_t)((now + us) / 1000000);
    out->tv_nsec = (now + us) % 1000000 * 1000;
}

#endif
