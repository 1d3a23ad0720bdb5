/* SPDX-License-Identifier: MIT */
#include "cli/when.h"

bool bi_duration_read(const char *text, int64_t *ms, char *error)
{
    (void)ms;
    return bi_refuse(error, "is no duration: %s", text);
}

bool bi_moment_read(const char *text, int64_t now_ms, int64_t *at_ms, char *error)
{
    (void)now_ms;
    (void)at_ms;
    return bi_refuse(error, "is no time: %s", text);
}

void bi_duration_say(char *to, int64_t ms)
{
    snprintf(to, BI_WHEN_SIZE, "%lldms", (long long)ms);
}
