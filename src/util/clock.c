/* SPDX-License-Identifier: MIT */
#include "util/clock.h"

#include <assert.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    int code = clock_gettime(id, &now);
    assert(code == 0); /* every supported kernel has these clocks */
    (void)code;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t bi_clock_boot(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t bi_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

void bi_clock_mono_deadline(struct timespec *out, int64_t us)
{
    int64_t now = read_clock(CLOCK_MONOTONIC);
    assert(us <= INT64_MAX - now && now + us >= 0); /* a negative tv_nsec is not valid */

    out->tv_sec = (time_t)((now + us) / 1000000);
    out->tv_nsec = (now + us) % 1000000 * 1000;
}
