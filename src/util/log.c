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

/* The first and the longest time between two lines. */
#define PAUSE_MIN 1000000
#define PAUSE_MAX 60000000

uint64_t bi_log_repeats(struct bi_log_repeat *repeat, int64_t now)
{
    repeat->count++;
    if (repeat->count > 1 && now < repeat->next)
        return 0;
    repeat->pause = repeat->count == 1               ? PAUSE_MIN
                    : repeat->pause >= PAUSE_MAX / 2 ? PAUSE_MAX
                                                     : repeat->pause * 2;
    repeat->next = now + repeat->pause;
    return repeat->count;
}

uint64_t bi_log_ends(struct bi_log_repeat *repeat)
{
    uint64_t count = repeat->count;
    *repeat = (struct bi_log_repeat){.count = 0};
    return count;
}
