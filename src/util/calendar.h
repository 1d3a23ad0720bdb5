/* SPDX-License-Identifier: MIT */
/*
 * calendar - converts between local calendar time and seconds since the epoch.
 *
 * mktime() is not used: its result is unspecified for a time that a clock change skips or repeats.
 * Instead the UTC offsets of the day before and the day after are tried, and each result is
 * converted back and compared.
 */
#ifndef BI_CALENDAR_H
#define BI_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BI_CALENDAR_ZONE_SIZE 16

struct zone {
    bool fixed; /* offset_s applies; otherwise the zone of the process (TZ) */
    int offset_s;
    char name[BI_CALENDAR_ZONE_SIZE]; /* only while the zone has this name; "": always */
};

/* The zone of the process. */
extern const struct zone bi_calendar_local;

/* Calendar and clock time in a zone, in whole seconds. */
struct civil {
    int year, month, day; /* month and day begin with 1 */
    int hour, minute, second;
};

enum bi_calendar_result { BI_CALENDAR_FOUND, BI_CALENDAR_SKIPPED, BI_CALENDAR_OTHER_ZONE };

/* The number of days of a month; 0 if there is no such month. */
int bi_calendar_month_days(int year, int month);

/* The same as localtime_r() in a zone, with its offset. tm_zone is not set for a fixed one. */
bool bi_calendar_break_down(const struct zone *zone, int64_t at_s, struct tm *tm);

/* Converts to calendar time; *weekday is 0 for Sunday. */
bool bi_calendar_from_epoch(const struct zone *zone, int64_t at_s, struct civil *civil,
                            int *weekday);

/* The same time of day, this many days later. */
struct civil bi_calendar_add_days(const struct civil *civil, int days);

/* The first time, not before from_s, that has this calendar time in the zone; the last one if
 * all are before from_s. BI_CALENDAR_SKIPPED: a clock change skips it, and *at_s is when it
 * would have been. BI_CALENDAR_OTHER_ZONE: it exists, but not under the name of the zone. */
enum bi_calendar_result bi_calendar_to_epoch(const struct zone *zone, const struct civil *civil,
                                             int64_t from_s, int64_t *at_s);

/* The first second of the day. BI_CALENDAR_SKIPPED: the zone skips that day. */
enum bi_calendar_result bi_calendar_day_start(const struct zone *zone, const struct civil *civil,
                                              int64_t *at_s);

#endif
