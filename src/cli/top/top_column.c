/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strcasestr, qsort_r */
#include "cli/top/top_column.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MIN  12
#define TREND_MIN 8

/* ---- the table ---- */

static double ready(const struct top_topic *topic)
{
    return (double)topic->now.jobs.ready;
}
static double reserved(const struct top_topic *topic)
{
    return (double)topic->now.jobs.reserved;
}
static double delayed(const struct top_topic *topic)
{
    return (double)topic->now.jobs.delayed;
}
static double buried(const struct top_topic *topic)
{
    return (double)topic->now.jobs.buried;
}
static double done(const struct top_topic *topic)
{
    return (double)topic->now.jobs.done;
}
static double in(const struct top_topic *topic)
{
    return topic->in;
}
static double out(const struct top_topic *topic)
{
    return topic->out;
}
static double oldest(const struct top_topic *topic)
{
    return topic->now.jobs.ready == 0 ? -1 : (double)topic->now.oldest_ready_age_ms;
}
static double waiting(const struct top_topic *topic)
{
    return (double)topic->now.waiting;
}

static void format_count(char *to, double value)
{
    bi_top_format_count(to, (uint64_t)value);
}

static void format_age(char *to, double value)
{
    if (value < 0)
        snprintf(to, BI_TOP_FORMAT_SIZE, "-");
    else
        bi_top_format_age(to, (int64_t)value);
}

struct column {
    const char *heading;
    const char *alias; /* another name for it */
    int width;
    bool bided_only; /* a beanstalkd does not know it */
    double (*value)(const struct top_topic *topic);
    void (*format)(char *to, double value);
};

static const struct column columns[TOP_COLUMNS] = {
    [TOP_NAME] = {"TOPIC", "name", NAME_MIN, false, NULL, NULL},
    [TOP_READY] = {"READY", "ready", 5, false, ready, format_count},
    [TOP_RESERVED] = {"RESVD", "reserved", 5, false, reserved, format_count},
    [TOP_DELAYED] = {"DELAY", "delayed", 5, false, delayed, format_count},
    [TOP_BURIED] = {"BURIED", "buried", 6, false, buried, format_count},
    [TOP_DONE] = {"DONE", "done", 5, true, done, format_count},
    [TOP_IN] = {"IN/S", "in", 5, false, in, bi_top_format_rate},
    [TOP_OUT] = {"OUT/S", "out", 5, false, out, bi_top_format_rate},
    [TOP_OLDEST] = {"OLDEST", "age", 6, true, oldest, format_age},
    [TOP_WAITING] = {"WAIT", "waiting", 5, false, waiting, format_count},
    [TOP_TREND] = {"TREND", "trend", TREND_MIN, false, NULL, NULL},
};

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

void bi_top_column_format(char *to, enum top_column column, const struct top_topic *topic,
                          bool plain)
{
    const struct column *what = &columns[column];
    if (plain && what->bided_only)
        snprintf(to, BI_TOP_FORMAT_SIZE, "-");
    else
        what->format(to, what->value(topic));
}

/* ---- the widths ---- */

static int min_int(int value, int most)
{
    return value < most ? value : most;
}

void bi_top_column_layout(int width, int longest_name, int widths[TOP_COLUMNS])
{
    static const enum top_column by_importance[] = {
        TOP_NAME, TOP_READY,  TOP_RESERVED, TOP_BURIED,  TOP_DELAYED, TOP_OUT,
        TOP_IN,   TOP_OLDEST, TOP_TREND,    TOP_WAITING, TOP_DONE};
    int left = width + 1;
    memset(widths, 0, TOP_COLUMNS * sizeof(widths[0]));
    for (size_t i = 0; i < TOP_COLUMNS; i++) {
        enum top_column column = by_importance[i];
        if (columns[column].width + 1 > left)
            break;
        widths[column] = columns[column].width;
        left -= columns[column].width + 1;
    }
    int extra = min_int(left, longest_name > NAME_MIN ? longest_name - NAME_MIN : 0);
    widths[TOP_NAME] += extra;
    left -= extra;
    if (widths[TOP_TREND] > 0)
        widths[TOP_TREND] += min_int(left, BI_TOP_HISTORY - TREND_MIN);
}

/* ---- the order ---- */

static int compare(const void *a, const void *b, void *context)
{
    const struct top_topic *one = *(struct top_topic *const *)a;
    const struct top_topic *other = *(struct top_topic *const *)b;
    const struct top_order *order = context;
    int names = strcmp(one->now.name, other->now.name);
    if (order->by == TOP_NAME)
        return order->reverse ? -names : names;
    double (*value)(const struct top_topic *topic) = columns[order->by].value;
    double left = value(one), right = value(other);
    if (left == right)
        return names;
    return (left > right) != order->reverse ? -1 : 1;
}

static bool make_room(struct top_order *order, size_t count)
{
    order->count = 0;
    if (count <= order->capacity)
        return true;
    struct top_topic **list = realloc(order->list, count * sizeof(struct top_topic *));
    if (list == NULL)
        return false;
    order->list = list;
    order->capacity = count;
    return true;
}

bool bi_top_column_sort(struct top_order *order, const struct top_model *model)
{
    if (!make_room(order, model->count))
        return false;
    order->longest_name = 0;
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
