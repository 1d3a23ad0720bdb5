/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strcasestr, qsort_r */
#include "cli/top/top.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MIN  12
#define TREND_MIN 8

/* ---- job states ---- */

const struct top_state bi_top_column_states[BI_TOP_STATES] = {
    {BIDE_STATE_READY, offsetof(bide_counts, ready), STYLE_HEADING, NULL, NULL},
    {BIDE_STATE_RESERVED, offsetof(bide_counts, reserved), STYLE_WARN, "LEASE", "lease ends in"},
    {BIDE_STATE_DELAYED, offsetof(bide_counts, delayed), STYLE_PLAIN, "DUE IN", "due in"},
    {BIDE_STATE_BURIED, offsetof(bide_counts, buried), STYLE_BAD, NULL, NULL},
    {BIDE_STATE_DONE, offsetof(bide_counts, done), STYLE_GOOD, "KEPT", "kept for"},
};

uint64_t bi_top_column_state_count(const struct top_state *state, const bide_counts *counts)
{
    const void *at = (const char *)counts + state->offset;
    return *(const uint64_t *)at;
}

/* ---- figures ---- */

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

void bi_top_column_format_count(char *to, uint64_t number)
{
    if (number < 100000)
        snprintf(to, BI_TOP_FORMAT_SIZE, "%u", (unsigned)number);
    else
        format_large(to, (double)number);
}

void bi_top_column_format_rate(char *to, double rate)
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

void bi_top_column_format_age(char *to, int64_t ms)
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

void bi_top_column_format_sparkline(char *to, const float *values, size_t count, bool utf8)
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

/* ---- columns ---- */

enum value_kind { VALUE_TEXT, VALUE_COUNT, VALUE_RATE, VALUE_AGE };

#define AT(member) offsetof(struct top_topic, member)

static const struct column {
    const char *heading;
    const char *alias; /* for --sort */
    int width;
    enum value_kind kind;
    size_t offset;    /* in struct top_topic */
    enum style style; /* of a value that is not 0 */
    bool bided_only;  /* a beanstalkd does not report it */
} columns[TOP_COLUMNS] = {
    [TOP_NAME] = {"TOPIC", "name", NAME_MIN, VALUE_TEXT, 0, STYLE_PLAIN, false},
    [TOP_READY] = {"READY", "ready", 5, VALUE_COUNT, AT(now.jobs.ready), STYLE_PLAIN, false},
    [TOP_RESERVED] = {"RESVD", "reserved", 5, VALUE_COUNT, AT(now.jobs.reserved), STYLE_WARN,
                      false},
    [TOP_DELAYED] = {"DELAY", "delayed", 5, VALUE_COUNT, AT(now.jobs.delayed), STYLE_PLAIN, false},
    [TOP_BURIED] = {"BURIED", "buried", 6, VALUE_COUNT, AT(now.jobs.buried), STYLE_BAD, false},
    [TOP_DONE] = {"DONE", "done", 5, VALUE_COUNT, AT(now.jobs.done), STYLE_GOOD, true},
    [TOP_IN] = {"IN/S", "in", 5, VALUE_RATE, AT(in), STYLE_PLAIN, false},
    [TOP_OUT] = {"OUT/S", "out", 5, VALUE_RATE, AT(out), STYLE_PLAIN, false},
    [TOP_OLDEST] = {"OLDEST", "age", 6, VALUE_AGE, AT(now.oldest_ready_age_ms), STYLE_PLAIN, true},
    [TOP_WAITING] = {"WAIT", "waiting", 5, VALUE_COUNT, AT(now.waiting), STYLE_PLAIN, false},
    [TOP_TREND] = {"TREND", "trend", TREND_MIN, VALUE_TEXT, 0, STYLE_TREND, false},
};

/* Negative if unknown. */
static double value_of(const struct column *column, const struct top_topic *topic)
{
    const void *at = (const char *)topic + column->offset;

    assert(column->kind != VALUE_TEXT);
    if (column->kind == VALUE_COUNT)
        return (double)*(const uint64_t *)at;
    if (column->kind == VALUE_RATE)
        return *(const double *)at;
    return topic->now.jobs.ready == 0 ? -1 : (double)*(const int64_t *)at;
}

const char *bi_top_column_heading(enum top_column column)
{
    return columns[column].heading;
}

enum top_column bi_top_column_find(const char *name)
{
    enum top_column column = 0;

    while (column < TOP_COLUMNS && strcasecmp(columns[column].heading, name) != 0 &&
           strcasecmp(columns[column].alias, name) != 0)
        column++;
    return column;
}

enum style bi_top_column_format(char *to, enum top_column column, const struct top_topic *topic,
                                bool plain)
{
    const struct column *row = &columns[column];
    double value = plain && row->bided_only ? -1 : value_of(row, topic);

    if (value < 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "-");
    else if (row->kind == VALUE_COUNT)
        bi_top_column_format_count(to, (uint64_t)value);
    else if (row->kind == VALUE_RATE)
        bi_top_column_format_rate(to, value);
    else
        bi_top_column_format_age(to, (int64_t)value);

    /* Zero and unknown figures are dim, so that the others stand out. */
    return strcmp(to, "0") == 0 || strcmp(to, "-") == 0 ? STYLE_DIM : row->style;
}

void bi_top_column_layout(int width, int longest_name, int widths[TOP_COLUMNS])
{
    static const enum top_column by_importance[] = {
        TOP_NAME, TOP_READY,  TOP_RESERVED, TOP_BURIED,  TOP_DELAYED, TOP_OUT,
        TOP_IN,   TOP_OLDEST, TOP_TREND,    TOP_WAITING, TOP_DONE};
    int left = width + 1;

    memset(widths, 0, TOP_COLUMNS * sizeof(widths[0]));
    /* The first column that does not fit ends it, so that columns vanish in a fixed order. */
    for (size_t i = 0; i < TOP_COLUMNS && columns[by_importance[i]].width < left; i++) {
        widths[by_importance[i]] = columns[by_importance[i]].width;
        left -= columns[by_importance[i]].width + 1;
    }

    int extra = longest_name > NAME_MIN ? longest_name - NAME_MIN : 0;
    extra = extra < left ? extra : left;
    widths[TOP_NAME] += extra;
    left -= extra;

    if (widths[TOP_TREND] > 0)
        widths[TOP_TREND] += left < BI_TOP_HISTORY - TREND_MIN ? left : BI_TOP_HISTORY - TREND_MIN;
}

/* ---- order ---- */

static int compare(const void *a, const void *b, void *context)
{
    const struct top_topic *one = *(struct top_topic *const *)a;
    const struct top_topic *other = *(struct top_topic *const *)b;
    const struct top_order *order = context;
    int names = strcmp(one->now.name, other->now.name);

    if (order->by == TOP_NAME)
        return order->reverse ? -names : names;
    double left = value_of(&columns[order->by], one), right = value_of(&columns[order->by], other);
    if (left == right)
        return names;
    return (left > right) != order->reverse ? -1 : 1;
}

bool bi_top_column_sort(struct top_order *order, const struct top_model *model)
{
    assert(order->by < BI_TOP_SORTABLE);
    order->count = 0;
    order->longest_name = 0;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the items are pointers */
    if (!BI_CLI_RESERVE(order->list, model->count, order->capacity))
        return false;

    for (size_t i = 0; i < model->count; i++) {
        const char *name = model->topics[i]->now.name;
        int length = (int)strlen(name);
        if (order->filter[0] != 0 && strcasestr(name, order->filter) == NULL)
            continue;
        order->list[order->count++] = model->topics[i];
        order->longest_name = length > order->longest_name ? length : order->longest_name;
    }
    if (order->count > 1)
        qsort_r(order->list, order->count, sizeof(void *), compare, order);
    return true;
}
