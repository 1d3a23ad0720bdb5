/* SPDX-License-Identifier: MIT */
/*
 * cron - expressions for recurring moments, and the next moment of one.
 *
 * An expression is one of
 *
 *     [SECOND] MINUTE HOUR DAY-OF-MONTH MONTH DAY-OF-WEEK     without SECOND it is 0
 *     every DURATION, @every DURATION                         "every 15m", "every 1h30m"
 *     @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly
 *
 * A field is a list with commas of: * (all), N, N-M (a range; 22-2 wraps around), each with /STEP
 * (every STEP-th one, counted from the first; N/STEP ends with the last value of the field). Months
 * and days of the week may be named (jan, MON). Sunday is 0 and 7. Behind a day of the week, #2
 * means the second one of the month, and L the last one: fri#2, 5L. A day of the month may be L
 * (the last one), L-3 (the third before the last one), 15W (the day from Monday to Friday that is
 * nearest to the 15th in the same month) and LW (the last day from Monday to Friday). In these two
 * fields ? is the same as *.
 *
 * Days       If both the day of the month and the day of the week are restricted, a day matches if
 *            one of them matches, otherwise if both match, as in cron: "0 0 13 * 5" is every 13th and
 *            every Friday. A field with an item of * or ? is not restricted, even if that item has a
 *            step: * with the step 2 as the day of the month, and 5 as the day of the week, is each
 *            Friday with an odd number.
 *
 * Clock changes
 *            An expression occurs when the local clock reaches or passes a matching time that it has
 *            not shown before. So a time that is skipped occurs at the first moment behind the gap,
 *            once for all times of the gap, and a repeated time occurs the first time only. An
 *            expression that allows all 24 hours occurs whenever the clock shows a matching time:
 *            again in a repeated hour, and not for skipped times. So what happens each minute or
 *            each hour goes on in real time.
 *
 * Every      The moments are anchor_ms plus multiples of the duration, at least 1 s, in elapsed time:
 *            time zones and clock changes do not matter. The parser sets the anchor to 1970, in UTC;
 *            the caller may change it.
 *
 * Range      Moments lie behind 1970 and not behind BIDE_TIMESTAMP_MAX_MS.
 * Cost       No allocation. The search moves by months, and by the periods of the zone.
 */
#ifndef BI_CRON_H
#define BI_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timezone_rules;

#define BI_CRON_TEXT_MAX 250       /* bytes of an expression */
#define BI_CRON_NEVER    INT64_MAX /* there is no such moment */

/* Bit n of a set stands for the value n. */
struct cron {
    int64_t every_ms;  /* 0: the fields below apply */
    int64_t anchor_ms; /* only of every: any moment of it */
    uint64_t seconds, minutes;
    uint32_t hours;
    uint32_t days;             /* 1 to 31 */
    uint32_t days_before_last; /* bit 0: the last day of the month */
    uint32_t near_days;        /* 1 to 31: the working day nearest to it; bit 0: the last one */
    uint16_t months;           /* 1 to 12 */
    uint8_t weekdays;          /* bit 0: Sunday */
    uint8_t last_weekdays;     /* the last one of the month */
    uint8_t nth_weekdays[5];   /* [0]: the first one of the month */
    bool any_day;              /* the day of the month is not restricted */
    bool any_weekday;
};

/* Parses an expression. BIDE_EINVAL with a message in error (BI_ERRMSG_SIZE bytes) that names the
 * field, the value, its position and what is allowed; *out is then unchanged. An expression that
 * never occurs, as on the 30th of February, is not valid. */
int bi_cron_parse(const char *text, size_t size, struct cron *out, char *error);

/* Whether any day from 1970 to 2200 matches; true for every. */
bool bi_cron_has_days(const struct cron *cron);

/* The first moment after after_ms, both in milliseconds since 1970; BI_CRON_NEVER if there is none.
 * zone is not read for every. */
int64_t bi_cron_next(const struct cron *cron, const struct timezone_rules *zone, int64_t after_ms);

#endif
