/* SPDX-License-Identifier: MIT */
#include "core/retry.h"

#include <assert.h>

int64_t bi_retry_delay(uint32_t failures, int64_t base, int64_t max, struct bi_random *random)
{
    assert(failures > 0 && base >= 0 && max >= 0);
    if (base == 0)
        base = BI_BACKOFF_BASE;
    if (max == 0)
        max = BI_BACKOFF_MAX;
    if (max > BI_BACKOFF_END)
        max = BI_BACKOFF_END;

    /* Use whole milliseconds: the delay that a fail reports is then exact. */
    int64_t max_ms = max < 1000 ? 1 : max / 1000;
    int64_t highest_start = (2 * max_ms + 2) / 3;
    int64_t start = (base < max ? base : max) / 1000;

    for (uint32_t i = 1; i < failures && start < highest_start; i++)
        start *= 2;
    if (start > highest_start)
        start = highest_start;

    /* The rounded cap may leave less than start / 2 below max: do not exceed max. */
    int64_t jitter = start / 2 < max_ms - start ? start / 2 : max_ms - start;
    return 1000 * (start + (int64_t)bi_random_below(random, (uint64_t)jitter + 1));
}
