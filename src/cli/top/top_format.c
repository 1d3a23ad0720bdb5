/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* At least 1000, with a unit, in at most 5 columns. */
static void format_large(char *to, double number)
{
    static const char units[] = "kMGTPE";
    size_t unit = 0;

    assert(number >= 1000);
    number /= 1000;
    while (number >= 999.5 && units[unit + 1] != 0) {
        number /= 1000;
        unit++;
    }
    snprintf(to, BI_TOP_FORMAT_SIZE, number < 99.95 ? "%.1f%c" : "%.0f%c", number, units[unit]);
}

void bi_top_format_count(char *to, uint64_t number)
{
    if (number < 100000)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%u", (unsigned)number);
    else
        format_large(to, (double)number);
}

void bi_top_format_rate(char *to, double rate)
{
    if (rate < 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "-");
    else if (rate >= 9999.5)
        format_large(to, rate);
    else if (rate < 0.05)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%s", rate > 0 ? "0.0" : "0");
    else
        snprintf(to, BI_TOP_FORMAT_SIZE, rate < 99.95 ? "%.1f" : "%.0f", rate);
}

void bi_top_format_age(char *to, int64_t ms)
{
    long long seconds = ms < 0 ? 0 : ms / 1000;
    long long minutes = seconds / 60, hours = minutes / 60, days = hours / 24;

    if (minutes == 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%llds", seconds);
    else if (hours == 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%lldm%llds", minutes, seconds % 60);
    else if (days == 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%lldh%lldm", hours, minutes % 60);
    else if (days < 100)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%lldd%lldh", days, hours % 24);
    else
        snprintf(to, BI_TOP_FORMAT_SIZE, "%lldd", days);
}

void bi_top_format_sparkline(char *to, const float *values, size_t count, bool utf8)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii_bars[] = {" ", ".", ":", "-", "=", "+", "*", "#"};
    const char *const *bars = utf8 ? blocks : ascii_bars;
    float levels = utf8 ? 8 : 7, max = 0;

    for (size_t i = 0; i < count; i++)
        max = values[i] > max ? values[i] : max;

    for (size_t i = 0; i < count; i++) {
        float height = values[i] > 0 ? values[i] / max * levels : 0;
        int level = (int)height;
        level += (float)level < height; /* rounded up: a small value is still visible */
        assert(level <= (int)levels);
        to = stpcpy(to, bars[level]);
    }
    *to = 0;
}
