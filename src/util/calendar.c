/* SPDX-License-Identifier: MIT */
#include "util/datetime.h"

#include "util/timezone.h"

#include <string.h>

#define DAY_S INT64_C(86400)

const struct zone bi_calendar_local = {.fixed = false};

int bi_calendar_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    if (month < 1 || month > 12)
        return 0;
    return days[month - 1] + (month == 2 && leap);
}

/* A year is counted from March, so that the leap day is its last one; an era has 400 years. */
int64_t bi_calendar_days(int year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

bool bi_calendar_break_down(const struct zone *zone, int64_t at_s, struct tm *tm)
{
    if (zone->rules != NULL)
        return bi_timezone_break_down(zone->rules, at_s, tm);

    time_t at = at_s + (zone->fixed ? zone->offset_s : 0);
    if ((zone->fixed ? gmtime_r(&at, tm) : localtime_r(&at, tm)) == NULL)
        return false;

    if (zone->fixed)
        tm->tm_gmtoff = zone->offset_s;
    return true;
}

/* Converts calendar time as if it were UTC. By value, because timegm() normalizes its argument. */
static int64_t to_utc(struct tm tm)
{
    return timegm(&tm);
}

struct tm bi_calendar_add_days(const struct tm *tm, int days)
{
    struct tm later = *tm;
    later.tm_mday += days;
    timegm(&later); /* normalizes the date, and sets the day of the week */
    return later;
}

/* The offset of the zone from UTC at this time. */
static int64_t offset_at(const struct zone *zone, int64_t at_s)
{
    struct tm tm;
    return bi_calendar_break_down(zone, at_s, &tm) ? tm.tm_gmtoff : 0;
}

static bool has_zone_name(const struct zone *zone, int64_t at_s)
{
    struct tm tm;
    return zone->name[0] == 0 || (!zone->fixed && bi_calendar_break_down(zone, at_s, &tm) &&
                                  strcasecmp(tm.tm_zone, zone->name) == 0);
}

static bool is_shown_at(const struct zone *zone, int64_t at_s, const struct tm *tm)
{
    struct tm shown;
    return bi_calendar_break_down(zone, at_s, &shown) && to_utc(shown) == to_utc(*tm);
}

enum bi_calendar_result bi_calendar_to_epoch(const struct zone *zone, const struct tm *tm,
                                             int64_t from_s, int64_t *at_s)
{
    int64_t utc = to_utc(*tm);
    /* At most one clock change lies between the two: one of the offsets applies to the time. */
    int64_t before = offset_at(zone, utc - DAY_S), after = offset_at(zone, utc + DAY_S);

    /* When clocks are set back, a time occurs twice. The offset before the change is the
     * larger one, so its candidate is the earlier time and comes first. */
    const int64_t candidates[] = {utc - before, utc - after};
    enum bi_calendar_result found = BI_CALENDAR_SKIPPED;
    *at_s = utc - before;

    /* The second candidate counts only if the first one is before from_s or has another name. */
    for (int i = 0; i < 2 && (found != BI_CALENDAR_FOUND || *at_s < from_s); i++) {
        /* In a gap neither candidate converts back to the same time. */
        if (!is_shown_at(zone, candidates[i], tm))
            continue;
        if (has_zone_name(zone, candidates[i])) {
            found = BI_CALENDAR_FOUND;
            *at_s = candidates[i];
        } else if (found == BI_CALENDAR_SKIPPED) {
            found = BI_CALENDAR_OTHER_ZONE;
        }
    }
    return found;
}

enum bi_calendar_result bi_calendar_day_start(const struct zone *zone, const struct tm *tm,
                                              int64_t *at_s)
{
    struct tm day = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday}, shown;
    int64_t utc = to_utc(day), low = utc - 2 * DAY_S, high = utc + 2 * DAY_S;

    /* Where clocks change at midnight a day may begin at 1:00. So its beginning is found by
     * bisection: the first second whose calendar time is not before 0:00. */
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        if (bi_calendar_break_down(zone, middle, &shown) && to_utc(shown) < utc)
            low = middle;
        else
            high = middle;
    }

    *at_s = high;
    bool exists = bi_calendar_break_down(zone, high, &shown) && shown.tm_mday == day.tm_mday;
    return exists ? BI_CALENDAR_FOUND : BI_CALENDAR_SKIPPED;
}
