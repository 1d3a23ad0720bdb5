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
    int64_t delay = base < max ? base : max;
    for (uint32_t i = 1; i < failures && delay < max; i++)
        delay = delay > max / 2 ? max : delay * 2;
    /* Whole milliseconds, so that what a fail answers is exactly when the job comes back. */
    delay += 1000 * (int64_t)bi_random_below(random, (uint64_t)delay / 2000 + 1);
    return delay < BI_BACKOFF_END ? delay : BI_BACKOFF_END;
}
