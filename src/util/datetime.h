/* SPDX-License-Identifier: MIT */
/*
 * datetime - parses and formats durations and points in time as people write them; the calendar.
 *
 * A duration is a number with a unit, or several, the largest first: 250ms, 90s, 1h30m, 2d, 1w,
 * "1.5h", "2 hours", "1h 30m". Only the last number may have a fraction. A number without a unit
 * is rejected, except 0, because its unit is a guess. So are months and years, whose length varies.
 *
 * A datetime is a day, a time, or both, in either order, in the time zone of the argument unless it
 * names another: 2026-12-25T00:00, "2026-12-25 18:30:15", 2026-12-25T18:30Z,
 * 2026-12-25T18:30+01:00, 2026-12-25, 18:30, "today 18:30", "tomorrow 9:00", "tomorrow at 9pm",
 * tomorrow, "monday 9:00", noon, midnight, now, "in 2h", +90s, "2h ago", @1798153200 (seconds since
 * 1970). The output of bi_datetime_format() can be parsed again.
 *
 * A day without a time is its beginning, and midnight is 0:00. A time without a day, and a day of
 * the week, mean the next one that is not past: on a Monday at 8:00 "monday 9:00" is today, and
 * "monday" in a week. "next monday" is the same. Other days may be past.
 *
 * Case does not matter. Fractions of a millisecond are rounded up, because nothing may happen
 * early.
 *
 * Failure    Both parsers reject what does not exist: 25:00, the 30th of February, a time that the
 *            change to summer time skips. Of a time that occurs twice the first is taken, unless
 *            the name of its zone selects one: "2:30 CEST", "2:30 CET".
 */
#ifndef BI_DATETIME_H
#define BI_DATETIME_H

#include "util/message.h"

#include <time.h>

/* ---- the calendar: local calendar time and seconds since the epoch (calendar.c) ---- */

/*
 * mktime() is not used: its result is unspecified for a time that a clock change skips or repeats.
 * Instead the UTC offsets of the day before and the day after are tried, and each result is
 * converted back and compared.
 */

#define BI_CALENDAR_ZONE_SIZE 16

struct timezone_rules; /* timezone.h */

struct zone {
    const struct timezone_rules *rules; /* borrowed; NULL: fixed, or the zone of the process (TZ) */
    bool fixed;                         /* offset_s applies */
    int offset_s;
    char name[BI_CALENDAR_ZONE_SIZE]; /* only while the zone has this name; "": always */
};

/* The zone of the process. */
extern const struct zone bi_calendar_local;

enum bi_calendar_result { BI_CALENDAR_FOUND, BI_CALENDAR_SKIPPED, BI_CALENDAR_OTHER_ZONE };

/* Calendar time is a struct tm, of which only year, month, day and time of day are read. */

/* The number of days of a month, 1 to 12; 0 if there is no such month. */
int bi_calendar_month_days(int year, int month);

/* Days since 1970 of a date, month 1 to 12. */
int64_t bi_calendar_days(int year, int month, int day);

/* The same as localtime_r() in a zone, with its offset. tm_zone is not set for a fixed one, and
 * borrowed from the rules of a zone that has them. */
bool bi_calendar_break_down(const struct zone *zone, int64_t at_s, struct tm *tm);

/* The same time of day, this many days later. */
struct tm bi_calendar_add_days(const struct tm *tm, int days);

/* The first time, not before from_s, that has this calendar time in the zone; the last one if
 * all are before from_s. BI_CALENDAR_SKIPPED: a clock change skips it, and *at_s is when it
 * would have been. BI_CALENDAR_OTHER_ZONE: it exists, but not under the name of the zone. */
enum bi_calendar_result bi_calendar_to_epoch(const struct zone *zone, const struct tm *tm,
                                             int64_t from_s, int64_t *at_s);

/* The first second of the day. BI_CALENDAR_SKIPPED: the zone skips that day. */
enum bi_calendar_result bi_calendar_day_start(const struct zone *zone, const struct tm *tm,
                                              int64_t *at_s);

/* ---- parsing (duration.c, datetime.c) and formatting (duration.c) ---- */

/* Milliseconds, 0 to BIDE_TIME_MAX_MS. False with a reason that continues a sentence: "is no
 * duration: write 90s, 1h30m or 2d". */
bool bi_duration_parse(const char *text, int64_t *ms, char *error);

/* Milliseconds since 1970, from 1 (0 means never) to BIDE_TIMESTAMP_MAX_MS; now_ms is the
 * current time. */
bool bi_datetime_parse(const char *text, const struct zone *zone, int64_t now_ms, int64_t *at_ms,
                       char *error);

static inline bool bi_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses a point and the digits behind it, which may be missing, as a fraction of scale (a power
 * of ten), rounded up: the result may be scale itself. Returns the end. */
const char *bi_duration_parse_fraction(const char *at, int64_t scale, int64_t *fraction);

#define BI_DATETIME_SIZE 80

/* Formats the two largest units: "1h30m", "1m30s", "250ms", "3d4h". */
void bi_duration_format(char *to, int64_t ms);

/* "2026-12-25 00:00:00 CET"; milliseconds only if there are any. */
void bi_datetime_format(char *to, const struct zone *zone, int64_t at_ms);

/* "Fri 2026-12-25 00:00:00 CET (UTC+01:00), in 39d21h"; of a past time "3h2m ago", or "now" if
 * that is less than a second. */
void bi_datetime_describe(char *to, const struct zone *zone, int64_t at_ms, int64_t now_ms);

/* RFC 3339 with milliseconds, in UTC: "2026-12-24T23:00:00.000Z". For programs. */
void bi_datetime_format_rfc3339(char *to, int64_t at_ms);

#endif
