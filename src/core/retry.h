/* SPDX-License-Identifier: MIT */
/*
 * retry - the delay of a job that has failed: exponential backoff with jitter.
 *
 * d = min(base * 2^(failures-1), 2/3 max), then uniform in [d, 1.5 d]. The delay is never longer
 * than max. At the cap it is uniform in [2/3 max, max], so that jobs which failed together do not
 * run again together, however often they fail.
 */
#ifndef BI_RETRY_H
#define BI_RETRY_H

#include "util/hash.h"

#define BI_BACKOFF_BASE INT64_C(5000000)          /* 5 s, in us */
#define BI_BACKOFF_MAX  INT64_C(3600000000)       /* 1 h */
#define BI_BACKOFF_END  INT64_C(4294967295000000) /* 136 years: no delay is longer */

/* Returns the delay in microseconds, a multiple of 1000. base and max 0 select the defaults.
 * Requires failures >= 1. */
int64_t bi_retry_delay(uint32_t failures, int64_t base, int64_t max, struct bi_random *random);

#endif
