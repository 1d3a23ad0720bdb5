/* SPDX-License-Identifier: MIT */
/*
 * cron.c - computes the next moment of an expression; cron_parse.c parses expressions.
 *
 * Readings are what the local clock shows, as seconds since 1970 as if it were UTC. The search for
 * the next reading that matches knows the calendar only, and the periods of the zone turn readings
 * into moments.
 */
#include "util/cron.h"

#include "util/datetime.h"
#include "util/timezone.h"

#include <assert.h>
#include <bide/job.h>

#define DAY_S INT64_C(86400)

/* Offsets are smaller. */
#define OFFSET_MAX_S (26 * INT64_C(3600))

#define LAST_S     (BIDE_TIMESTAMP_MAX_MS / 1000)
#define LAST_YEAR  2200
#define ALL_HOURS  0xffffffu
#define NO_READING INT64_MAX

/* ---- days ---- */

struct date {
    int year, month, day;
};

/* The inverse of bi_calendar_days(). */
static struct date date_of_days(int64_t days)
{
    int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153; /* 0 is March */

    return (struct date){
        .year = (int)(year_of_era + era * 400 + (month >= 10)),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(day_of_year - (153 * month + 2) / 5 + 1),
    };
}

/* ---- the days of a month that match; bit n is the day n, as in struct cron ---- */

struct month {
    int days;
    int first_weekday; /* of the first day; 0 is Sunday */
};

static int weekday_of(const struct month *month, int day)
{
    return (month->first_weekday + day - 1) % 7;
}

/* The days on some days of the week. */
static uint32_t days_on(const struct month *month, unsigned weekdays)
{
    uint64_t first_week = 0;
    for (int day = 1; day <= 7; day++)
        first_week |= (uint64_t)(weekdays >> weekday_of(month, day) & 1) << day;
    return (uint32_t)(first_week | first_week << 7 | first_week << 14 | first_week << 21 |
                      first_week << 28);
}

/* A set of the days from first to last. */
static uint32_t days_between(int first, int last)
{
    return (uint32_t)((UINT64_C(2) << last) - (UINT64_C(1) << first));
}

/* The working day nearest to a day, in the same month. */
static int nearest_working_day(const struct month *month, int day)
{
    int weekday = weekday_of(month, day);
    assert(month->days >= 28 && day >= 1 && day <= month->days);
    if (weekday == 6)
        return day == 1 ? 3 : day - 1;
    if (weekday == 0)
        return day == month->days ? day - 2 : day + 1;
    return day;
}

static uint32_t days_of_month(const struct cron *cron, const struct month *month)
{
    uint32_t days = cron->days;
    for (int i = 0; cron->days_before_last >> i != 0; i++)
        if ((cron->days_before_last >> i & 1) != 0 && i < month->days)
            days |= UINT32_C(1) << (month->days - i);

    /* Bit 0 is the last working day, which is the one nearest to the last day. */
    for (int i = 0; i <= month->days; i++)
        if ((cron->near_days >> i & 1) != 0)
            days |= UINT32_C(1) << nearest_working_day(month, i == 0 ? month->days : i);
    return days;
}

static uint32_t days_of_week(const struct cron *cron, const struct month *month)
{
    uint32_t days = days_on(month, cron->weekdays);
    for (int i = 0; i < 5; i++)
        if (cron->nth_weekdays[i] != 0)
            days |= days_on(month, cron->nth_weekdays[i]) & days_between(7 * i + 1, 7 * i + 7);
    if (cron->last_weekdays != 0)
        days |= days_on(month, cron->last_weekdays) & days_between(month->days - 6, month->days);
    return days;
}

static uint32_t matching_days(const struct cron *cron, const struct date *date)
{
    if ((cron->months >> date->month & 1) == 0)
        return 0;

    int64_t first = bi_calendar_days(date->year, date->month, 1);
    int64_t behind =
        date->month == 12 ? first + 31 : bi_calendar_days(date->year, date->month + 1, 1);
    struct month month = {.days = (int)(behind - first),
                          .first_weekday = (int)(((first + 4) % 7 + 7) % 7)};

    uint32_t by_month = days_of_month(cron, &month), by_week = days_of_week(cron, &month);
    uint32_t days = cron->any_day || cron->any_weekday ? by_month & by_week : by_month | by_week;
    return days & days_between(1, month.days);
}

/* The first matching day, not before a date, as days since 1970; NO_READING: none. */
static int64_t first_day(const struct cron *cron, struct date date)
{
    /* Only the days of the first month have a lower limit. */
    uint32_t days = matching_days(cron, &date) & ~(days_between(1, date.day) >> 1);
    while (days == 0) {
        if (++date.month > 12) {
            date.month = 1;
            if (++date.year > LAST_YEAR)
                return NO_READING;
        }
        days = matching_days(cron, &date);
    }
    return bi_calendar_days(date.year, date.month, __builtin_ctz(days));
}

bool bi_cron_has_days(const struct cron *cron)
{
    return cron->every_ms > 0 ||
           first_day(cron, (struct date){.year = 1970, .month = 1, .day = 1}) != NO_READING;
}

/* ---- the time of day ---- */

/* The smallest member of a set that is not below from; -1: none. */
static int first_member(uint64_t set, int from)
{
    uint64_t rest = from > 63 ? 0 : set >> from << from;
    return rest == 0 ? -1 : __builtin_ctzll(rest);
}

/* The first matching time of day in seconds, not before another; -1: none. */
static int first_time(const struct cron *cron, int from)
{
    int hour = from / 3600, minute = from / 60 % 60, second = from % 60;
    int next_hour = first_member(cron->hours, hour);
    if (next_hour < 0)
        return -1;
    if (next_hour > hour)
        minute = second = 0;

    int next_minute = first_member(cron->minutes, minute);
    if (next_minute < 0)
        return first_time(cron, (next_hour + 1) * 3600);
    if (next_minute > minute)
        second = 0;

    int next_second = first_member(cron->seconds, second);
    if (next_second < 0)
        return first_time(cron, next_hour * 3600 + (next_minute + 1) * 60);
    return next_hour * 3600 + next_minute * 60 + next_second;
}

/* The first matching reading, not before another. */
static int64_t first_reading(const struct cron *cron, int64_t from)
{
    int64_t today = from / DAY_S - (from % DAY_S < 0), day;
    day = first_day(cron, date_of_days(today));
    if (day == today) {
        int time = first_time(cron, (int)(from - today * DAY_S));
        if (time >= 0)
            return day * DAY_S + time;
        day = first_day(cron, date_of_days(today + 1));
    }
    return day == NO_READING ? NO_READING : day * DAY_S + first_time(cron, 0);
}

/* ---- moments ---- */

/* The least reading that the clock had not shown yet when the period began. */
static int64_t shown_before(const struct timezone_rules *zone, const struct timezone_period *period)
{
    struct timezone_period earlier = *period;
    int64_t shown = INT64_MIN;

    /* A period that ended long ago cannot have shown more than the one behind it. */
    while (earlier.begin_s > INT64_MIN && earlier.begin_s + OFFSET_MAX_S > shown) {
        earlier = bi_timezone_period(zone, earlier.begin_s - 1);
        if (earlier.end_s + earlier.offset_s > shown)
            shown = earlier.end_s + earlier.offset_s;
    }
    return shown;
}

/* The first moment of an expression, not before at_s. */
static int64_t first_moment(const struct cron *cron, const struct timezone_rules *zone,
                            int64_t at_s)
{
    bool repeats = (cron->hours & ALL_HOURS) == ALL_HOURS;
    struct timezone_period period = bi_timezone_period(zone, at_s);
    int64_t shown = repeats ? INT64_MIN : shown_before(zone, &period);
    int64_t searched = INT64_MAX, reading = INT64_MIN;

    while (at_s <= LAST_S) {
        int64_t now = at_s + period.offset_s, from = now;
        /* Readings below `shown` are over. At a change the clock may pass others, up to now. */
        if (!repeats && (at_s == period.begin_s || shown > now))
            from = shown;

        /* A rare reading remains the first one for many periods. */
        if (from < searched || from > reading) {
            searched = from;
            reading = first_reading(cron, from);
        }
        if (reading == NO_READING)
            return NO_READING;
        int64_t moment = reading > now ? reading - period.offset_s : at_s;
        if (moment < period.end_s)
            return moment <= LAST_S ? moment : NO_READING;

        assert(period.end_s > at_s);
        at_s = period.end_s;
        if (at_s + period.offset_s > shown)
            shown = at_s + period.offset_s;
        period = bi_timezone_period(zone, at_s);
    }
    return NO_READING;
}

/* The first moment of "every" after a time. */
static int64_t next_multiple(const struct cron *cron, int64_t after_ms)
{
    int64_t since = (after_ms - cron->anchor_ms % cron->every_ms) % cron->every_ms;
    int64_t next = after_ms + cron->every_ms - (since < 0 ? since + cron->every_ms : since);
    return next <= BIDE_TIMESTAMP_MAX_MS ? next : BI_CRON_NEVER;
}

int64_t bi_cron_next(const struct cron *cron, const struct timezone_rules *zone, int64_t after_ms)
{
    if (after_ms < 0)
        after_ms = 0;
    if (after_ms >= BIDE_TIMESTAMP_MAX_MS)
        return BI_CRON_NEVER;
    if (cron->every_ms > 0)
        return next_multiple(cron, after_ms);

    assert(zone != NULL && cron->seconds != 0 && cron->minutes != 0 && cron->hours != 0);
    int64_t moment = first_moment(cron, zone, after_ms / 1000 + 1);
    assert(moment > after_ms / 1000);
    return moment == NO_READING ? BI_CRON_NEVER : moment * 1000;
}
