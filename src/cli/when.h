/* SPDX-License-Identifier: MIT */
/*
 * when - durations and moments as people write them, and said back.
 *
 * A duration is a number with a unit, or several, the largest first: 250ms, 90s, 1h30m, 2d, 1w,
 * "1.5h", "2 hours", "1h 30m". Only the last number may have a fraction. A bare number is refused
 * but for 0: nobody knows its unit. So are months and years, which are not always as long.
 *
 * A moment is a day, a time, or both, in either order, in the time zone of the user (TZ) unless it
 * says another: 2026-12-25T00:00, "2026-12-25 18:30:15", 2026-12-25T18:30Z,
 * 2026-12-25T18:30+01:00, 2026-12-25, 18:30, "today 18:30", "tomorrow 9:00", "tomorrow at 9pm",
 * tomorrow, "monday 9:00", noon, midnight, now, "in 2h", +90s, "2h ago", @1798153200 (seconds since
 * 1970). What bi_moment_say() says can be read again.
 *
 * A day without a time is its beginning, and midnight is 0:00. A time without a day, and a day of
 * the week, mean the next one that is not past: on a Monday at 8:00 "monday 9:00" is today, and
 * "monday" in a week. "next monday" is the same. Other days may be past.
 *
 * Capital letters are the same as small ones. Fractions of a millisecond are rounded up, as nothing
 * may happen early.
 *
 * Both refuse what is not there: 25:00, the 30th of February, a time that the change to summer
 * time skips. Of a time that there is twice, the first is meant, unless it is said by the name of
 * its zone: "2:30 CEST", "2:30 CET".
 */
#ifndef BI_WHEN_H
#define BI_WHEN_H

#include "util/sentence.h"

#include <stdint.h>

/* Milliseconds, 0 to BIDE_TIME_MAX_MS. False with a reason that goes on a sentence: "is no duration:
 * write 90s, 1h30m or 2d". */
bool bi_duration_read(const char *text, int64_t *ms, char *error);

/* Milliseconds since 1970, 1 (as 0 means never) to BIDE_WHEN_MAX_MS; now_ms is what time it is. */
bool bi_moment_read(const char *text, int64_t now_ms, int64_t *at_ms, char *error);

#define BI_WHEN_SIZE 80

/* The two largest units: "1h30m", "90s" as "1m30s", "250ms", "3d4h". */
void bi_duration_say(char *to, int64_t ms);

/* "2026-12-25 00:00:00 CET", in the zone of the user; milliseconds only if there are any. */
void bi_moment_say(char *to, int64_t at_ms);

/* "Fri 2026-12-25 00:00:00 CET (UTC+01:00), in 39d21h"; of a past one "3h2m ago", or "now" if that
 * is less than a second. */
void bi_moment_confirm(char *to, int64_t at_ms, int64_t now_ms);

/* RFC 3339 with milliseconds, in UTC: "2026-12-24T23:00:00.000Z". For programs. */
void bi_moment_stamp(char *to, int64_t at_ms);

#endif
