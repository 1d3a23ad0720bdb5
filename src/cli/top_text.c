/* SPDX-License-Identifier: MIT */
#include "cli/top_text.h"

#include <stdio.h>
#include <string.h>

/* A number of thousands of thousands, in at most 5 columns with its letter. */
static void say_large(char *to, double number)
{
    static const char letters[] = "kMGTPE";
    size_t unit = 0;
    number /= 1000;
    while (number >= 999.5 && letters[unit + 1] != 0) {
        number /= 1000;
        unit++;
    }
    snprintf(to, BI_TOP_TEXT_SIZE, number < 99.95 ? "%.1f%c" : "%.0f%c", number, letters[unit]);
}

void bi_top_count(char *to, uint64_t number)
{
    if (number < 100000)
        snprintf(to, BI_TOP_TEXT_SIZE, "%u", (unsigned)number);
    else
        say_large(to, (double)number);
}

void bi_top_rate(char *to, double rate)
{
    if (rate < 0)
        snprintf(to, BI_TOP_TEXT_SIZE, "-");
    else if (rate >= 9999.5)
        say_large(to, rate);
    else if (rate < 0.05)
        snprintf(to, BI_TOP_TEXT_SIZE, "%s", rate > 0 ? "0.0" : "0");
    else
        snprintf(to, BI_TOP_TEXT_SIZE, rate < 99.95 ? "%.1f" : "%.0f", rate);
}

void bi_top_age(char *to, int64_t ms)
{
    long long seconds = ms < 0 ? 0 : ms / 1000;
    long long minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (minutes == 0)
        snprintf(to, BI_TOP_TEXT_SIZE, "%llds", seconds);
    else if (hours == 0)
        snprintf(to, BI_TOP_TEXT_SIZE, "%lldm%llds", minutes, seconds % 60);
    else if (days == 0)
        snprintf(to, BI_TOP_TEXT_SIZE, "%lldh%lldm", hours, minutes % 60);
    else if (days < 100)
        snprintf(to, BI_TOP_TEXT_SIZE, "%lldd%lldh", days, hours % 24);
    else
        snprintf(to, BI_TOP_TEXT_SIZE, "%lldd", days);
}

void bi_top_spark(char *to, const float *values, size_t count, bool utf8)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const signs[] = {" ", ".", ":", "-", "=", "+", "*", "#"};
    const char *const *bars = utf8 ? blocks : signs;
    float levels = utf8 ? 8 : 7, most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < count; i++) {
        float height = values[i] > 0 ? values[i] / most * levels : 0;
        int level = (int)height;
        level += (float)level < height;
        size_t size = strlen(bars[level]);
        memcpy(to, bars[level], size);
        to += size;
    }
    *to = 0;
}
