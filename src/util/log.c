/* SPDX-License-Identifier: MIT */
#include "util/log.h"

#include <stdarg.h>
#include <stdio.h>

void bi_log(const struct bi_log *log, bide_log_level level, const char *format, ...)
{
    if (log->handler == NULL)
        return;

    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    log->handler(log->user, level, text);
}

/* The first and the longest interval between two messages. */
#define INTERVAL_MIN_US 1000000
#define INTERVAL_MAX_US 60000000

uint64_t bi_log_limit_hit(struct bi_log_limit *limit, int64_t now)
{
    limit->count++;
    if (limit->count > 1 && now < limit->next_us)
        return 0;

    limit->interval_us = limit->count == 1                           ? INTERVAL_MIN_US
                         : limit->interval_us >= INTERVAL_MAX_US / 2 ? INTERVAL_MAX_US
                                                                     : limit->interval_us * 2;
    limit->next_us = now + limit->interval_us;
    return limit->count;
}

uint64_t bi_log_limit_reset(struct bi_log_limit *limit)
{
    uint64_t count = limit->count;
    *limit = (struct bi_log_limit){.count = 0};
    return count;
}
