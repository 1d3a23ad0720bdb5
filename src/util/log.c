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
