/* SPDX-License-Identifier: MIT */
/*
 * calendar - from what a calendar and a clock on the wall show to a moment.
 *
 * mktime() is not used: of a time that is skipped or repeated it makes what it likes. Instead the
 * offsets that hold a day before and a day after are tried, and what comes out is looked at.
 */
#ifndef BI_CALENDAR_H
#define BI_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BI_ZONE_SIZE 16

struct zone {
    bool fixed; /* offset_s holds; else the zone of the user */
    int offset_s;
    char name[BI_ZONE_SIZE]; /* only where the user's zone has this name; "": always */
};

/* What the wall shows. Seconds are whole. */
struct civil {
    int year, month, day; /* from 1 on */
    int hour, minute, second;
};

enum bi_found { BI_FOUND, BI_SKIPPED, BI_OTHER_ZONE };

/* The days of a month; 0 if there is no such month. */
int bi_month_days(int year, int month);

/* What the wall shows at a moment, and which day of the week it is (0: Sunday). */
bool bi_civil_at(const struct zone *zone, int64_t at_s, struct civil *civil, int *weekday);

/* The same time of day, so many days later. */
struct civil bi_civil_later(const struct civil *civil, int days);

/* The first moment, not before from_s, at which the wall shows this, or the last one if all are
 * before. BI_SKIPPED: it never does; at_s is then when it would have been. */
enum bi_found bi_civil_moment(const struct zone *zone, const struct civil *civil, int64_t from_s,
                              int64_t *at_s);

/* The first moment of the day. BI_SKIPPED: there is no such day. */
enum bi_found bi_civil_day(const struct zone *zone, const struct civil *civil, int64_t *at_s);

#endif
