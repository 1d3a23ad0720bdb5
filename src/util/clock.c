/* SPDX-License-Identifier: MIT */
#include "util/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
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

static struct timespec to_timespec(int64_t us)
{
    return (struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = (us % 1000000) * 1000};
}

void bi_clock_mono_deadline(struct timespec *out, int64_t us)
{
    *out = to_timespec(read_clock(CLOCK_MONOTONIC) + us);
}
