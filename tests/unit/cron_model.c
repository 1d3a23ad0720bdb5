/* SPDX-License-Identifier: MIT */
#include "cron_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- fields ---- */

/* A number, or one of the names, each with three letters. */
static int value_of(const char *text, const char *names, int first)
{
    for (int i = 0; names[3 * i] != 0; i++)
        if (strncasecmp(text, names + 3 * i, 3) == 0)
            return first + i;
    return atoi(text);
}

/* Whether an item of the forms *, ?, N, N-M, each with /STEP, has a value. */
static bool item_has(const char *item, int value, int first, int last, const char *names)
{
    const char *slash = strchr(item, '/'), *dash = strchr(item, '-');
    int step = slash == NULL ? 1 : atoi(slash + 1), low, high;

    if (item[0] == '*' || item[0] == '?') {
        low = first;
        high = last;
    } else {
        low = value_of(item, names, first);
        high = dash != NULL ? value_of(dash + 1, names, first) : slash != NULL ? last : low;
    }

    /* Sunday is 7 at the end of a range, else 0. */
    bool is_week = first == 0 && last == 6;
    if (is_week && low == 7)
        low = high == 7 ? 7 : 0;

    for (int at = low, place = 0;; place++) {
        if (place % step == 0 && (at == value || (is_week && at % 7 == value)))
            return true;
        if (at == high)
            return false;
        at = at == last && !(is_week && high == 7) ? first : at + 1;
    }
}

/* Calls item_has() for each item of a list. */
static bool list_has(const char *list, int value, int first, int last, const char *names)
{
    char copy[200], *rest = copy, *item;
    snprintf(copy, sizeof(copy), "%s", list);
    while ((item = strsep(&rest, ",")) != NULL)
        if (item_has(item, value, first, last, names))
            return true;
    return false;
}

/* ---- days ---- */

static int days_of_month(const struct tm *tm)
{
    for (int day = 31;; day--) {
        struct tm same = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = day};
        timegm(&same);
        if (same.tm_mon == tm->tm_mon)
            return day;
    }
}

/* Whether a day of the month, which may not exist, is from Monday to Friday. */
static bool is_working_day(const struct tm *tm, int day)
{
    int weekday = (tm->tm_wday + (day - tm->tm_mday) + 70) % 7;
    return day >= 1 && day <= days_of_month(tm) && weekday >= 1 && weekday <= 5;
}

static bool is_nearest_working_day(const struct tm *tm, int to)
{
    if (to > days_of_month(tm))
        return false;
    for (int distance = 0;; distance++)
        if (is_working_day(tm, to - distance) || is_working_day(tm, to + distance))
            return is_working_day(tm, tm->tm_mday) && abs(tm->tm_mday - to) == distance;
}

static bool day_item_has(const char *item, const struct tm *tm)
{
    int last = days_of_month(tm);
    char letter = item[strlen(item) - 1];
    if (strcasecmp(item, "LW") == 0)
        return is_nearest_working_day(tm, last);
    if (letter == 'W' || letter == 'w')
        return is_nearest_working_day(tm, atoi(item));
    if (item[0] == 'L' || item[0] == 'l')
        return tm->tm_mday == last - (item[1] == '-' ? atoi(item + 2) : 0);
    return item_has(item, tm->tm_mday, 1, 31, "");
}

static bool weekday_item_has(const char *item, const struct tm *tm)
{
    static const char names[] = "sunmontuewedthufrisat";
    size_t size = strlen(item);
    const char *hash = strchr(item, '#');
    bool is_last = item[size - 1] == 'L' || item[size - 1] == 'l';

    if (hash != NULL || is_last) {
        bool is_day = value_of(item, names, 0) % 7 == tm->tm_wday;
        return is_day && (is_last ? tm->tm_mday + 7 > days_of_month(tm)
                                  : (tm->tm_mday - 1) / 7 + 1 == atoi(hash + 1));
    }
    return item_has(item, tm->tm_wday, 0, 6, names);
}

static bool any_item_has(const char *list, const struct tm *tm,
                         bool (*has)(const char *, const struct tm *))
{
    char copy[64], *rest = copy, *item;
    snprintf(copy, sizeof(copy), "%s", list);
    while ((item = strsep(&rest, ",")) != NULL)
        if (has(item, tm))
            return true;
    return false;
}

static bool matches_day(const struct cron_model *model, int64_t day)
{
    time_t at = day * 86400;
    struct tm tm;
    gmtime_r(&at, &tm);
    if (!model->month[tm.tm_mon + 1])
        return false;

    bool by_month = any_item_has(model->days, &tm, day_item_has);
    bool by_week = any_item_has(model->weekdays, &tm, weekday_item_has);
    bool both_restricted =
        strpbrk(model->days, "*?") == NULL && strpbrk(model->weekdays, "*?") == NULL;
    return both_restricted ? by_month || by_week : by_month && by_week;
}

/* ---- expressions ---- */

static const char *alias_of(const char *text)
{
    return strcasecmp(text, "@yearly") == 0    ? "0 0 1 1 *"
           : strcasecmp(text, "@monthly") == 0 ? "0 0 1 * *"
           : strcasecmp(text, "@weekly") == 0  ? "0 0 * * 0"
           : strcasecmp(text, "@daily") == 0   ? "0 0 * * *"
           : strcasecmp(text, "@hourly") == 0  ? "0 * * * *"
                                               : text;
}

void cron_model_init(struct cron_model *model, const char *text)
{
    char words[6][64];
    int every, count;
    *model = (struct cron_model){.day = INT64_MIN, .every_hour = true};
    if (sscanf(text, "every %ds", &every) == 1) {
        model->every_s = every;
        return;
    }

    count = sscanf(alias_of(text), "%63s %63s %63s %63s %63s %63s", words[0], words[1], words[2],
                   words[3], words[4], words[5]);
    assert(count == 5 || count == 6);
    const char *second = count == 6 ? words[0] : "0";
    char(*rest)[64] = words + (count - 5);

    for (int value = 0; value < 60; value++) {
        model->second[value] = list_has(second, value, 0, 59, "");
        model->minute[value] = list_has(rest[0], value, 0, 59, "");
    }
    for (int value = 0; value < 24; value++) {
        model->hour[value] = list_has(rest[1], value, 0, 23, "");
        model->every_hour = model->every_hour && model->hour[value];
    }
    for (int value = 1; value <= 12; value++)
        model->month[value] =
            list_has(rest[3], value, 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec");
    snprintf(model->days, sizeof(model->days), "%s", rest[2]);
    snprintf(model->weekdays, sizeof(model->weekdays), "%s", rest[4]);
}

/* Whether a reading matches, seconds aside. */
static bool matches(struct cron_model *model, int64_t reading)
{
    int64_t of_day = (reading % 1440 + 1440) % 1440, day = (reading - of_day) / 1440;
    if (!model->minute[of_day % 60] || !model->hour[of_day / 60])
        return false;
    if (day != model->day) {
        model->day = day;
        model->day_matches = matches_day(model, day);
    }
    return model->day_matches;
}

bool cron_model_minute(struct cron_model *model, int64_t reading, int64_t highest, bool occurs[60])
{
    /* A reading that the clock has shown before counts only for expressions of every hour. */
    bool is_over = !model->every_hour && reading <= highest;
    bool matches_now = !is_over && matches(model, reading), matches_passed = false;

    /* All that the clock has passed without showing it occurs now. */
    for (int64_t passed = highest + 1; !model->every_hour && passed < reading; passed++)
        matches_passed = matches_passed || matches(model, passed);
    if (!matches_now && !matches_passed)
        return false;

    for (int second = 0; second < 60; second++)
        occurs[second] = matches_now && model->second[second];
    occurs[0] = occurs[0] || matches_passed;
    return true;
}

void cron_model_every(const struct cron_model *model, int64_t minute, bool occurs[60])
{
    for (int second = 0; second < 60; second++)
        occurs[second] = (minute * 60 + second) % model->every_s == 0;
}
