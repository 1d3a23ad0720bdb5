/* SPDX-License-Identifier: MIT */
#include "cli/calendar.h"

#include <string.h>

#define DAY_S INT64_C(86400)

int bi_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12)
        return 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool show(const struct zone *zone, int64_t at_s, struct tm *tm)
{
    time_t at = at_s + (zone->fixed ? zone->offset_s : 0);
    return (zone->fixed ? gmtime_r(&at, tm) : localtime_r(&at, tm)) != NULL;
}

bool bi_civil_at(const struct zone *zone, int64_t at_s, struct civil *civil, int *weekday)
{
    struct tm tm;
    if (!show(zone, at_s, &tm))
        return false;
    *civil = (struct civil){tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                            tm.tm_hour,        tm.tm_min,     tm.tm_sec};
    *weekday = tm.tm_wday;
    return true;
}

/* The moment at which the wall shows this in UTC. */
static int64_t in_utc(const struct civil *civil)
{
    struct tm tm = {
        .tm_year = civil->year - 1900,
        .tm_mon = civil->month - 1,
        .tm_mday = civil->day,
        .tm_hour = civil->hour,
        .tm_min = civil->minute,
        .tm_sec = civil->second,
    };
    return timegm(&tm);
}

struct civil bi_civil_later(const struct civil *civil, int days)
{
    static const struct zone utc = {.fixed = true};
    struct civil later = *civil;
    int weekday;
    bi_civil_at(&utc, in_utc(civil) + days * DAY_S, &later, &weekday);
    return later;
}

/* How far the user's zone is ahead of UTC about a moment. */
static int64_t offset_at(const struct zone *zone, int64_t at_s)
{
    struct tm tm;
    if (zone->fixed)
        return zone->offset_s;
    return show(zone, at_s, &tm) ? tm.tm_gmtoff : 0;
}

static bool is_called(const struct zone *zone, int64_t at_s)
{
    struct tm tm;
    return zone->name[0] == 0 || (show(zone, at_s, &tm) && strcasecmp(tm.tm_zone, zone->name) == 0);
}

static bool shows(const struct zone *zone, int64_t at_s, const struct civil *civil)
{
    struct civil shown;
    int weekday;
    return bi_civil_at(zone, at_s, &shown, &weekday) && in_utc(&shown) == in_utc(civil);
}

/* The offset before a change is the larger one when a time comes twice, so it is tried first: its
 * moment is the earlier one. */
enum bi_found bi_civil_moment(const struct zone *zone, const struct civil *civil, int64_t from_s,
                              int64_t *at_s)
{
    int64_t utc = in_utc(civil);
    int64_t before = offset_at(zone, utc - DAY_S), after = offset_at(zone, utc + DAY_S);
    const int64_t tries[] = {utc - before, utc - after};
    enum bi_found found = BI_SKIPPED;
    *at_s = utc - before;
    for (int i = 0; i < 2 && (found != BI_FOUND || *at_s < from_s); i++) {
        if (!shows(zone, tries[i], civil))
            continue;
        if (is_called(zone, tries[i])) {
            found = BI_FOUND;
            *at_s = tries[i];
        } else if (found == BI_SKIPPED) {
            found = BI_OTHER_ZONE;
        }
    }
    return found;
}

/* Where the clocks change at midnight a day may begin at 1:00, so its beginning is searched. */
enum bi_found bi_civil_day(const struct zone *zone, const struct civil *civil, int64_t *at_s)
{
    struct civil day = {.year = civil->year, .month = civil->month, .day = civil->day}, shown;
    int64_t utc = in_utc(&day), low = utc - 2 * DAY_S, high = utc + 2 * DAY_S;
    int weekday;
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        if (bi_civil_at(zone, middle, &shown, &weekday) && in_utc(&shown) < utc)
            low = middle;
        else
            high = middle;
    }
    *at_s = high;
    if (!bi_civil_at(zone, high, &shown, &weekday))
        return BI_SKIPPED;
    return shown.day == day.day ? BI_FOUND : BI_SKIPPED;
}
