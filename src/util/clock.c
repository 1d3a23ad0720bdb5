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

void bi_clock_after(struct timespec *out, int64_t us)
{
    int64_t at = bi_clock_wall() + us;
    *out = (struct timespec){.tv_sec = (time_t)(at / 1000000), .tv_nsec = (at % 1000000) * 1000};
}
