/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strptime */
#include "util/datetime.h"

#include "unit.h"

#include <bide/job.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* ---- durations ---- */

static void reads(const char *text, int64_t ms)
{
    char error[BI_ERRMSG_SIZE] = "";
    int64_t read = -1;
    if (!bi_duration_parse(text, &read, error))
        fail_msg("\"%s\" %s", text, error);
    if (read != ms)
        fail_msg("\"%s\" is %lld, not %lld", text, (long long)read, (long long)ms);
}

/* Refused, with a reason that has these words in it, and nothing written. */
static void refuses(const char *text, const char *words)
{
    char error[BI_ERRMSG_SIZE] = "";
    int64_t read = -7;
    if (bi_duration_parse(text, &read, error))
        fail_msg("\"%s\" was read as %lld", text, (long long)read);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" %s", text, error);
    assert_int_equal(read, -7);
}

static void a_duration_is_a_number_with_a_unit(void **state)
{
    (void)state;
    reads("250ms", 250);
    reads("90s", 90000);
    reads("5m", 5 * MINUTE);
    reads("2h", 2 * HOUR);
    reads("2d", 2 * DAY);
    reads("1w", 7 * DAY);
    reads("007s", 7000);
}

static void several_units_are_added_the_largest_first(void **state)
{
    (void)state;
    reads("1h30m", 90 * MINUTE);
    reads("1w2d3h4m5s6ms", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5006);
    reads("1d1ms", DAY + 1);
    refuses("30m1h", "is not a valid duration");
    refuses("1h1h", "is not a valid duration");
    refuses("1m 2m", "is not a valid duration");
}

static void units_may_be_words_with_spaces(void **state)
{
    (void)state;
    reads("2 hours", 2 * HOUR);
    reads("1 hour 30 minutes", 90 * MINUTE);
    reads("  1h\t30m  ", 90 * MINUTE);
    reads("1 day", DAY);
    reads("3 weeks", 21 * DAY);
    reads("10 min", 10 * MINUTE);
    reads("10 secs", 10000);
    reads("1 millisecond", 1);
    refuses("1hou", "is not a valid duration");
    refuses("1 millisecondsandmore", "is not a valid duration");
}

static void letter_case_is_ignored(void **state)
{
    (void)state;
    reads("1H30M", 90 * MINUTE);
    reads("250MS", 250);
    reads("2 Hours", 2 * HOUR);
}

static void the_last_number_may_have_a_fraction(void **state)
{
    (void)state;
    reads("1.5h", 90 * MINUTE);
    reads("0.25s", 250);
    reads("1h0.5m", HOUR + 30000);
    reads("1.0000000000000h", HOUR);
    refuses("1.5h30m", "is not a valid duration");
    refuses("1.h", "is not a valid duration");
    refuses(".5h", "is not a valid duration");
    refuses("1,5h", "is not a valid duration");
    refuses("1.5.5h", "is not a valid duration");
}

static void a_part_of_a_millisecond_is_rounded_up(void **state)
{
    (void)state;
    reads("0.1ms", 1);
    reads("1.0001s", 1001);
    reads("0.0000000000001w", 1);
    reads("0.5000000000d", DAY / 2);
}

static void only_zero_needs_no_unit(void **state)
{
    (void)state;
    reads("0", 0);
    reads(" 00 ", 0);
    reads("0s", 0);
    refuses("90", "has no unit");
    refuses(" 90 ", "has no unit");
    refuses("1h30", "is not a valid duration");
    refuses("0.0", "is not a valid duration");
}

static void the_longest_duration_is_that_of_the_library(void **state)
{
    (void)state;
    reads("4294967295s", BIDE_TIME_MAX_MS);
    reads("4294967295000ms", BIDE_TIME_MAX_MS);
    refuses("4294967295001ms", "is too long");
    refuses("4294967295.001s", "is too long");
    refuses("49710d7h", "is too long");
    refuses("4294967295s1ms", "is too long");
    refuses("18446744073709551616s", "is too long");
    refuses("99999999999999999999999999999999999999w", "is too long");
}

static void invalid_durations_are_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",       " ",        "s",       "h1",         "-5s",       "+5s",  "1h30m!",
        "1h,30m", "5 y",      "1 month", "1 year",     "1e3s",      "0x1s", "1 hm",
        "1h 3x",  "tomorrow", "90s\n",   "1h\xc3\xa9", "\xd9\xa1s",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        refuses(texts[i], "is not a valid duration: write 250ms, 90s, 1h30m or 2d");
}

static void says(int64_t ms, const char *text)
{
    char said[BI_DATETIME_SIZE];
    bi_duration_format(said, ms);
    assert_string_equal(said, text);
}

static void duration_is_formatted_in_its_two_largest_units(void **state)
{
    (void)state;
    says(0, "0s");
    says(250, "250ms");
    says(1000, "1s");
    says(1500, "1s500ms");
    says(90000, "1m30s");
    says(90 * MINUTE, "1h30m");
    says(HOUR + 5000, "1h");
    says(DAY - 1, "23h59m");
    says(3 * DAY + 4 * HOUR + 59 * MINUTE, "3d4h");
    says(BIDE_TIME_MAX_MS, "49710d6h");
    says(-90000, "-1m30s");
    says(INT64_MIN, "-106751991167d7h");
}

static void formatted_duration_can_be_parsed(void **state)
{
    (void)state;
    for (int64_t ms = 0; ms < BIDE_TIME_MAX_MS; ms = ms * 3 + 7) {
        char said[BI_DATETIME_SIZE], again[BI_DATETIME_SIZE], error[BI_ERRMSG_SIZE];
        int64_t read;
        bi_duration_format(said, ms);
        assert_true(bi_duration_parse(said, &read, error));
        bi_duration_format(again, read);
        assert_string_equal(said, again);
        assert_true(read <= ms);
    }
}

/* ---- moments ---- */

static int64_t now_ms;

/* The zone of the user, and what time it is, in UTC. */
static void at(const char *zone, const char *utc)
{
    struct tm tm = {.tm_isdst = 0};
    setenv("TZ", zone, 1);
    tzset();
    assert_non_null(strptime(utc, "%Y-%m-%d %H:%M:%S", &tm));
    now_ms = timegm(&tm) * INT64_C(1000);
}

/* The moment, as a stamp in UTC. */
static void means(const char *text, const char *stamp)
{
    char error[BI_ERRMSG_SIZE] = "", said[BI_DATETIME_SIZE];
    int64_t ms;
    if (!bi_datetime_parse(text, &bi_calendar_local, now_ms, &ms, error))
        fail_msg("\"%s\" %s", text, error);
    bi_datetime_format_rfc3339(said, ms);
    if (strcmp(said, stamp) != 0)
        fail_msg("\"%s\" is %s, not %s", text, said, stamp);
}

static void is_none(const char *text, const char *words)
{
    char error[BI_ERRMSG_SIZE] = "";
    int64_t read = -7;
    if (bi_datetime_parse(text, &bi_calendar_local, now_ms, &read, error))
        fail_msg("\"%s\" was read as %lld", text, (long long)read);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" %s", text, error);
    assert_int_equal(read, -7);
}

static void a_date_and_a_time_are_in_the_zone_of_the_user(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("2026-12-25T00:00", "2026-12-24T23:00:00.000Z");
    means("2026-12-25 18:30:15", "2026-12-25T17:30:15.000Z");
    means("2026-12-25 18:30:15.25", "2026-12-25T17:30:15.250Z");
    means("2026-07-01T12:00", "2026-07-01T10:00:00.000Z");
    means("18:30 2026-12-25", "2026-12-25T17:30:00.000Z");
    means("2026-12-25 at 18:30", "2026-12-25T17:30:00.000Z");
    at("America/New_York", "2026-11-15 17:00:00");
    means("2026-12-25T00:00", "2026-12-25T05:00:00.000Z");
    at("Asia/Kathmandu", "2026-11-15 17:00:00");
    means("2026-12-25T00:00", "2026-12-24T18:15:00.000Z");
}

static void explicit_zone_overrides_the_local_zone(void **state)
{
    (void)state;
    at("America/New_York", "2026-11-15 17:00:00");
    means("2026-12-25T18:30Z", "2026-12-25T18:30:00.000Z");
    means("2026-12-25T18:30:15.125z", "2026-12-25T18:30:15.125Z");
    means("2026-12-25 18:30 UTC", "2026-12-25T18:30:00.000Z");
    means("2026-12-25T18:30+01:00", "2026-12-25T17:30:00.000Z");
    means("2026-12-25T18:30 +0530", "2026-12-25T13:00:00.000Z");
    means("2026-12-25T18:30-08", "2026-12-26T02:30:00.000Z");
    means("2026-12-25T18:30+14:00", "2026-12-25T04:30:00.000Z");
    is_none("2026-12-25T18:30+14:01", "zones are -14:00 to +14:00");
    is_none("2026-12-25T18:30+01:60", "zones are");
    is_none("2026-12-25+01:00", "is not a valid time");
    is_none("2026-12-25T18:30+1", "is not a valid time");
    is_none("2026-12-25T18:30 UTC UTC", "is not a valid time");
    is_none("2026-12-25T18:30 CET", "names a zone that is not yours");
}

static void today_is_that_of_the_given_zone(void **state)
{
    (void)state;
    at("America/New_York", "2026-11-15 02:00:00"); /* the 14th, 21:00 */
    means("today 18:30", "2026-11-14T23:30:00.000Z");
    means("today 18:30 UTC", "2026-11-15T18:30:00.000Z");
    means("18:30", "2026-11-15T23:30:00.000Z");
    means("18:30Z", "2026-11-15T18:30:00.000Z");
    means("tomorrow 1:00 +14:00", "2026-11-15T11:00:00.000Z");
}

static void a_day_without_a_time_is_its_beginning(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("2026-12-25", "2026-12-24T23:00:00.000Z");
    means("today", "2026-11-14T23:00:00.000Z");
    means("tomorrow", "2026-11-15T23:00:00.000Z");
    means("yesterday", "2026-11-13T23:00:00.000Z");
}

static void a_time_without_a_day_is_the_next_one(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00"); /* 18:00 there */
    means("18:30", "2026-11-15T17:30:00.000Z");
    means("18:00", "2026-11-15T17:00:00.000Z");
    means("17:59:59.999", "2026-11-16T16:59:59.999Z");
    means("9:00", "2026-11-16T08:00:00.000Z");
    means("09:00", "2026-11-16T08:00:00.000Z");
    means("noon", "2026-11-16T11:00:00.000Z");
    means("midnight", "2026-11-15T23:00:00.000Z");
    now_ms += 1;
    means("18:00", "2026-11-16T17:00:00.000Z");
    means("18:00:00.001", "2026-11-15T17:00:00.001Z");
}

static void tomorrow_is_the_next_day_even_a_minute_before_midnight(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 22:59:00"); /* 23:59 there */
    means("tomorrow 9:00", "2026-11-16T08:00:00.000Z");
    means("today 9:00", "2026-11-15T08:00:00.000Z");
    means("9:00 tomorrow", "2026-11-16T08:00:00.000Z");
    means("tomorrow noon", "2026-11-16T11:00:00.000Z");
    means("Tomorrow at 9:00", "2026-11-16T08:00:00.000Z");
    at("Europe/Berlin", "2026-11-15 23:00:00");
    means("tomorrow 9:00", "2026-11-17T08:00:00.000Z");
    at("Europe/Berlin", "2026-12-31 22:59:00");
    means("tomorrow", "2026-12-31T23:00:00.000Z");
    means("tomorrow 9:00", "2027-01-01T08:00:00.000Z");
}

static void a_day_of_the_week_is_today_only_if_its_time_is_still_to_come(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-16 07:00:00"); /* a Monday, 8:00 */
    means("monday 9:00", "2026-11-16T08:00:00.000Z");
    means("monday 8:00", "2026-11-16T07:00:00.000Z");
    means("monday 7:59", "2026-11-23T06:59:00.000Z");
    means("monday", "2026-11-22T23:00:00.000Z");
    means("MON 9:00", "2026-11-16T08:00:00.000Z");
    means("tuesday", "2026-11-16T23:00:00.000Z");
    means("Sunday 23:59", "2026-11-22T22:59:00.000Z");
    means("9:00 sat", "2026-11-21T08:00:00.000Z");
    at("Europe/Berlin", "2026-11-15 23:00:00");
    means("monday", "2026-11-15T23:00:00.000Z");
    is_none("mond 9:00", "is not a valid time");
    is_none("monday tuesday", "is not a valid time");
}

static void the_next_day_of_the_week_is_the_one_that_comes(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-16 07:00:00"); /* a Monday, 8:00 */
    means("next tuesday", "2026-11-16T23:00:00.000Z");
    means("next tuesday 9:00", "2026-11-17T08:00:00.000Z");
    means("Next  Tue at 9pm", "2026-11-17T20:00:00.000Z");
    means("9:00 next sat", "2026-11-21T08:00:00.000Z");
    means("next monday", "2026-11-22T23:00:00.000Z");
    is_none("next", "is not a valid time");
    is_none("next 9:00", "is not a valid time");
    is_none("next tomorrow", "is not a valid time");
    is_none("next 2026-12-25", "is not a valid time");
    is_none("next next tuesday", "is not a valid time");
    is_none("nexttuesday", "is not a valid time");
}

static void twelve_hour_times_have_am_or_pm(void **state)
{
    (void)state;
    at("UTC", "2026-11-15 17:00:00");
    means("tomorrow 9am", "2026-11-16T09:00:00.000Z");
    means("tomorrow 9 PM", "2026-11-16T21:00:00.000Z");
    means("tomorrow 9:45pm", "2026-11-16T21:45:00.000Z");
    means("tomorrow 12am", "2026-11-16T00:00:00.000Z");
    means("tomorrow 12:30 pm", "2026-11-16T12:30:00.000Z");
    is_none("tomorrow 13pm", "the hours are 1 to 12");
    is_none("tomorrow 0:30am", "the hours are 1 to 12");
    is_none("tomorrow 9p", "is not a valid time");
    is_none("tomorrow 9", "is not a valid time");
}

static void in_is_followed_by_a_duration(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("now", "2026-11-15T17:00:00.000Z");
    means("in 2h", "2026-11-15T19:00:00.000Z");
    means("IN 1h 30m", "2026-11-15T18:30:00.000Z");
    means("+90s", "2026-11-15T17:01:30.000Z");
    means("+ 250 ms", "2026-11-15T17:00:00.250Z");
    means("2h ago", "2026-11-15T15:00:00.000Z");
    is_none("+90", "has no unit");
    is_none("in tomorrow", "is not a valid duration");
    is_none("+01:00", "is not a valid duration");
    is_none("in 140000 weeks", "is too long");
    is_none("2000w ago 9:00", "is not a valid time");
    is_none("3000w ago", "is too long ago");
    is_none("2h", "is a duration: write +2h or \"in 2h\"");
    at("UTC", "2190-01-01 00:00:00");
    is_none("in 49710d", "is too far away");
}

static void seconds_since_1970_follow_an_at_sign(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("@1798153200", "2026-12-24T23:00:00.000Z");
    means("@1798153200.5", "2026-12-24T23:00:00.500Z");
    means("@1798153200.0001", "2026-12-24T23:00:00.001Z");
    means("@7258118400", "2200-01-01T00:00:00.000Z");
    is_none("@7258118400.001", "is too far away");
    is_none("@99999999999999999999999999", "is too far away");
    is_none("@0", "is too long ago");
    is_none("@", "is not a valid time");
    is_none("@-1", "is not a valid time");
    is_none("@1798153200Z", "is not a valid time");
    is_none("@1798153200.", "is not a valid time");
}

static void invalid_dates_are_rejected(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("2028-02-29", "2028-02-28T23:00:00.000Z");
    means("2000-02-29T00:00Z", "2000-02-29T00:00:00.000Z");
    is_none("2026-02-29", "2026-02 has 28 days");
    is_none("2026-02-30 12:00", "2026-02 has 28 days");
    is_none("2100-02-29", "2100-02 has 28 days");
    is_none("2026-04-31", "2026-04 has 30 days");
    is_none("2026-12-32", "2026-12 has 31 days");
    is_none("2026-12-00", "2026-12 has 31 days");
    is_none("2026-13-01", "the months are 01 to 12");
    is_none("2026-00-01", "the months are 01 to 12");
    is_none("2026-1-1", "is not a valid time");
    is_none("26-01-01", "is not a valid time");
}

static void tomorrow_passes_the_ends_of_months_and_leap_days(void **state)
{
    (void)state;
    at("UTC", "2028-02-28 12:00:00");
    means("tomorrow", "2028-02-29T00:00:00.000Z");
    at("UTC", "2027-02-28 12:00:00");
    means("tomorrow", "2027-03-01T00:00:00.000Z");
    at("UTC", "2026-04-30 12:00:00");
    means("9:00", "2026-05-01T09:00:00.000Z");
    at("UTC", "2028-03-01 12:00:00");
    means("yesterday", "2028-02-29T00:00:00.000Z");
}

static void invalid_times_are_rejected(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    is_none("24:00", "24:00 is 0:00 of the next day");
    is_none("2026-12-25T24:00", "24:00 is 0:00 of the next day");
    is_none("25:00", "the hours are 0 to 23");
    is_none("24:01", "the hours are 0 to 23");
    is_none("12:60", "minutes and seconds are 00 to 59");
    is_none("23:59:60", "minutes and seconds are 00 to 59");
    is_none("9:5", "is not a valid time");
    is_none("9:00:5", "is not a valid time");
    is_none("100:00", "is not a valid time");
    is_none("9:000", "is not a valid time");
    is_none("9:00.5", "is not a valid time");
    is_none("9:00:00.", "is not a valid time");
}

static void times_are_between_1970_and_2200(void **state)
{
    (void)state;
    at("UTC", "2026-11-15 17:00:00");
    means("1970-01-01 00:00:00.001", "1970-01-01T00:00:00.001Z");
    means("2200-01-01", "2200-01-01T00:00:00.000Z");
    is_none("1970-01-01", "is too long ago");
    is_none("1969-12-31T23:59", "is too long ago");
    is_none("0000-01-01", "is too long ago");
    is_none("2200-01-01 00:00:00.001", "is too far away");
    is_none("9999-12-31", "is too far away");
    is_none("10000-01-01", "is not a valid time");
}

static void invalid_times_of_any_form_are_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "soon",
        "9",
        "90",
        "T9:00",
        "2026",
        "2026-12",
        "2026-12-25T",
        "2026-12-25T18",
        "2026-12-25X18:30",
        "2026/12/25",
        "25.12.2026",
        "tomorrow9:00",
        "tomorrow at",
        "tomorrow tomorrow",
        "9:00 10:00",
        "9:00 !",
        "tomorrow 9:00 please tell me",
        "2026-12-25 18:30 \xc3\xa9",
        "now now",
        "-2h",
        "9:00\n",
        "tomorrow 9:00 and a text that is longer than any moment that somebody could write down",
    };
    at("Europe/Berlin", "2026-11-15 17:00:00");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char error[BI_ERRMSG_SIZE] = "";
        int64_t ms = -7;
        if (bi_datetime_parse(texts[i], &bi_calendar_local, now_ms, &ms, error))
            fail_msg("\"%s\" was read as %lld", texts[i], (long long)ms);
        assert_true(strlen(error) > 10);
        assert_int_equal(ms, -7);
    }
}

static void spaces_and_capital_letters_do_not_matter(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-11-15 17:00:00");
    means("  TOMORROW   9:00\t", "2026-11-16T08:00:00.000Z");
    means("2026-12-25t18:30", "2026-12-25T17:30:00.000Z");
    means("Noon", "2026-11-16T11:00:00.000Z");
    means("NOW", "2026-11-15T17:00:00.000Z");
}

/* ---- the change of the clocks ---- */

static void time_skipped_by_summer_time_is_rejected(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-03-28 12:00:00");
    means("2026-03-29T01:59:59", "2026-03-29T00:59:59.000Z");
    is_none("2026-03-29T02:00", "the clocks go forward, and 02:00 is skipped");
    is_none("2026-03-29 02:30", "on 2026-03-29 the clocks go forward");
    is_none("tomorrow 2:59", "02:59 is skipped");
    means("2026-03-29T03:00", "2026-03-29T01:00:00.000Z");
    means("2026-03-29T02:30Z", "2026-03-29T02:30:00.000Z");
    at("America/New_York", "2026-03-07 12:00:00");
    is_none("tomorrow 2:30", "02:30 is skipped");
    means("tomorrow 3:00", "2026-03-08T07:00:00.000Z");
    means("tomorrow 1:59", "2026-03-08T06:59:00.000Z");
}

static void next_time_is_rejected_only_if_it_is_skipped(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-03-29 00:30:00"); /* 1:30, half an hour before the change */
    is_none("2:30", "02:30 is skipped");
    is_none("sunday 2:30", "02:30 is skipped");
    at("Europe/Berlin", "2026-03-29 10:00:00");
    means("2:30", "2026-03-30T00:30:00.000Z");
    means("sunday 2:30", "2026-04-05T00:30:00.000Z");
}

static void ambiguous_time_is_the_first_one(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-10-24 12:00:00");
    means("2026-10-25T02:30", "2026-10-25T00:30:00.000Z");
    means("tomorrow 2:00", "2026-10-25T00:00:00.000Z");
    means("tomorrow 3:00", "2026-10-25T02:00:00.000Z");
    means("tomorrow 2:30 CEST", "2026-10-25T00:30:00.000Z");
    means("tomorrow 2:30 CET", "2026-10-25T01:30:00.000Z");
    is_none("tomorrow 1:30 CET", "names a zone that is not yours");
    at("America/New_York", "2026-10-31 12:00:00");
    means("tomorrow 1:30", "2026-11-01T05:30:00.000Z");
    means("tomorrow 1:30 EST", "2026-11-01T06:30:00.000Z");
}

static void next_time_is_the_second_of_an_ambiguous_hour_if_the_first_has_passed(void **state)
{
    (void)state;
    at("Europe/Berlin", "2026-10-25 00:45:00"); /* 2:45, for the first time */
    means("2:30", "2026-10-25T01:30:00.000Z");
    means("2:50", "2026-10-25T00:50:00.000Z");
    at("Europe/Berlin", "2026-10-25 01:45:00"); /* 2:45 again */
    means("2:30", "2026-10-26T01:30:00.000Z");
}

static void a_change_may_be_half_an_hour(void **state)
{
    (void)state;
    at("Australia/Lord_Howe", "2026-10-03 00:00:00");
    means("2026-10-04T01:59", "2026-10-03T15:29:00.000Z");
    is_none("2026-10-04T02:00", "is skipped");
    is_none("2026-10-04T02:29", "is skipped");
    means("2026-10-04T02:30", "2026-10-03T15:30:00.000Z");
    means("2026-04-05T01:45", "2026-04-04T14:45:00.000Z");
    means("2026-04-05T01:45 +1030", "2026-04-04T15:15:00.000Z");
    means("2026-04-05T02:00", "2026-04-04T15:30:00.000Z");
}

static void day_may_start_at_one_oclock_or_be_skipped(void **state)
{
    (void)state;
    at("America/Sao_Paulo", "2018-11-01 12:00:00");
    means("2018-11-04", "2018-11-04T03:00:00.000Z");
    is_none("2018-11-04 00:00", "00:00 is skipped");
    means("2018-11-05", "2018-11-05T02:00:00.000Z");
    at("Pacific/Apia", "2011-12-29 12:00:00");
    is_none("2011-12-30", "your time zone has left out that day");
    is_none("2011-12-30 12:00", "is skipped");
    means("2011-12-31", "2011-12-30T10:00:00.000Z");
    at("America/Havana", "2026-10-31 12:00:00"); /* 1:00 becomes 0:00 */
    means("2026-11-01", "2026-11-01T04:00:00.000Z");
}

/* ---- said back ---- */

static void time_is_formatted_in_the_local_zone(void **state)
{
    (void)state;
    char said[BI_DATETIME_SIZE];
    at("Europe/Berlin", "2026-12-24 23:00:00");
    bi_datetime_format(said, &bi_calendar_local, now_ms);
    assert_string_equal(said, "2026-12-25 00:00:00 CET");
    bi_datetime_format(said, &bi_calendar_local, now_ms + 250);
    assert_string_equal(said, "2026-12-25 00:00:00.250 CET");
    at("America/New_York", "2026-07-01 12:00:00");
    bi_datetime_format(said, &bi_calendar_local, now_ms);
    assert_string_equal(said, "2026-07-01 08:00:00 EDT");
    bi_datetime_format(said, &bi_calendar_local, -1);
    assert_string_equal(said, "1969-12-31 18:59:59.999 EST");
}

static void parsed_time_is_echoed_with_day_zone_and_distance(void **state)
{
    (void)state;
    char said[BI_DATETIME_SIZE];
    at("Europe/Berlin", "2026-12-24 23:00:00");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms - 39 * DAY - 21 * HOUR);
    assert_string_equal(said, "Fri 2026-12-25 00:00:00 CET (UTC+01:00), in 39d21h");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms + 3 * HOUR + 2 * MINUTE);
    assert_string_equal(said, "Fri 2026-12-25 00:00:00 CET (UTC+01:00), 3h2m ago");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms);
    assert_string_equal(said, "Fri 2026-12-25 00:00:00 CET (UTC+01:00), now");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms + 999);
    assert_string_equal(said, "Fri 2026-12-25 00:00:00 CET (UTC+01:00), now");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms + 1000);
    assert_string_equal(said, "Fri 2026-12-25 00:00:00 CET (UTC+01:00), 1s ago");
    at("America/St_Johns", "2026-12-24 23:00:00");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms);
    assert_string_equal(said, "Thu 2026-12-24 19:30:00 NST (UTC-03:30), now");
    at("UTC", "2026-12-24 23:00:00");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms - 1);
    assert_string_equal(said, "Thu 2026-12-24 23:00:00 UTC, in 1ms");
}

static void time_beyond_the_calendar_is_formatted_as_a_number(void **state)
{
    (void)state;
    char said[BI_DATETIME_SIZE];
    at("<A-zone-with-a-name-that-is-longer-than-others>-12:34:56", "2026-12-24 23:00:00");
    bi_datetime_describe(said, &bi_calendar_local, now_ms, now_ms - 49710 * DAY - 1);
    assert_true(strlen(said) < BI_DATETIME_SIZE);
    bi_datetime_format(said, &bi_calendar_local, INT64_MAX);
    assert_true(strlen(said) < BI_DATETIME_SIZE);
    bi_datetime_describe(said, &bi_calendar_local, INT64_MAX, 0);
    assert_true(strlen(said) < BI_DATETIME_SIZE);
    bi_datetime_format_rfc3339(said, INT64_MIN);
    assert_true(strlen(said) < BI_DATETIME_SIZE);
}

/* Whatever TZ says. */
static void a_zone_with_a_fixed_offset_is_an_argument(void **state)
{
    (void)state;
    static const struct zone tokyo = {.fixed = true, .offset_s = 9 * 3600};
    static const struct zone marquesas = {.fixed = true, .offset_s = -(9 * 3600 + 30 * 60)};
    static const struct zone utc = {.fixed = true};
    char error[BI_ERRMSG_SIZE] = "", said[BI_DATETIME_SIZE];
    int64_t ms;

    at("Europe/Berlin", "2026-12-24 23:00:00"); /* the 25th, 8:00 in Tokyo */
    assert_true(bi_datetime_parse("tomorrow 9:00", &tokyo, now_ms, &ms, error));
    assert_int_equal(ms, now_ms + 25 * HOUR);
    assert_true(bi_datetime_parse("today", &tokyo, now_ms, &ms, error));
    assert_int_equal(ms, now_ms - 8 * HOUR);
    assert_true(bi_datetime_parse("2026-12-25 9:00 UTC", &tokyo, now_ms, &ms, error));
    assert_int_equal(ms, now_ms + 10 * HOUR);
    assert_false(bi_datetime_parse("9:00 CET", &tokyo, now_ms, &ms, error));
    assert_non_null(strstr(error, "names a zone that is not yours"));

    bi_datetime_format(said, &tokyo, now_ms);
    assert_string_equal(said, "2026-12-25 08:00:00 +09:00");
    assert_true(bi_datetime_parse(said, &utc, 1, &ms, error));
    assert_int_equal(ms, now_ms);
    bi_datetime_describe(said, &marquesas, now_ms, now_ms);
    assert_string_equal(said, "Thu 2026-12-24 13:30:00 -09:30, now");
    bi_datetime_describe(said, &utc, now_ms, now_ms);
    assert_string_equal(said, "Thu 2026-12-24 23:00:00 UTC, now");
}

/* Every half hour of some days in which clocks change, and of some in which they do not. */
static void formatted_time_can_be_parsed(void **state)
{
    (void)state;
    static const char *const zones[] = {"Europe/Berlin",  "America/New_York", "Australia/Lord_Howe",
                                        "America/Havana", "Asia/Kathmandu",   "UTC"};
    static const char *const days[] = {"2026-03-07 12:00:00", "2026-03-28 12:00:00",
                                       "2026-04-04 00:00:00", "2026-10-03 00:00:00",
                                       "2026-10-24 12:00:00", "2026-10-31 12:00:00"};
    for (size_t i = 0; i < COUNT_OF(zones) * COUNT_OF(days); i++) {
        at(zones[i % COUNT_OF(zones)], days[i / COUNT_OF(zones)]);
        for (int64_t ms = now_ms; ms < now_ms + 2 * DAY; ms += 30 * MINUTE) {
            char said[BI_DATETIME_SIZE], stamp[BI_DATETIME_SIZE];
            bi_datetime_format(said, &bi_calendar_local, ms);
            bi_datetime_format_rfc3339(stamp, ms);
            means(said, stamp);
            means(stamp, stamp);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_a_number_with_a_unit),
        cmocka_unit_test(several_units_are_added_the_largest_first),
        cmocka_unit_test(units_may_be_words_with_spaces),
        cmocka_unit_test(letter_case_is_ignored),
        cmocka_unit_test(the_last_number_may_have_a_fraction),
        cmocka_unit_test(a_part_of_a_millisecond_is_rounded_up),
        cmocka_unit_test(only_zero_needs_no_unit),
        cmocka_unit_test(the_longest_duration_is_that_of_the_library),
        cmocka_unit_test(invalid_durations_are_rejected),
        cmocka_unit_test(duration_is_formatted_in_its_two_largest_units),
        cmocka_unit_test(formatted_duration_can_be_parsed),
        cmocka_unit_test(a_date_and_a_time_are_in_the_zone_of_the_user),
        cmocka_unit_test(explicit_zone_overrides_the_local_zone),
        cmocka_unit_test(today_is_that_of_the_given_zone),
        cmocka_unit_test(a_day_without_a_time_is_its_beginning),
        cmocka_unit_test(a_time_without_a_day_is_the_next_one),
        cmocka_unit_test(tomorrow_is_the_next_day_even_a_minute_before_midnight),
        cmocka_unit_test(a_day_of_the_week_is_today_only_if_its_time_is_still_to_come),
        cmocka_unit_test(the_next_day_of_the_week_is_the_one_that_comes),
        cmocka_unit_test(twelve_hour_times_have_am_or_pm),
        cmocka_unit_test(in_is_followed_by_a_duration),
        cmocka_unit_test(seconds_since_1970_follow_an_at_sign),
        cmocka_unit_test(invalid_dates_are_rejected),
        cmocka_unit_test(tomorrow_passes_the_ends_of_months_and_leap_days),
        cmocka_unit_test(invalid_times_are_rejected),
        cmocka_unit_test(times_are_between_1970_and_2200),
        cmocka_unit_test(invalid_times_of_any_form_are_rejected),
        cmocka_unit_test(spaces_and_capital_letters_do_not_matter),
        cmocka_unit_test(time_skipped_by_summer_time_is_rejected),
        cmocka_unit_test(next_time_is_rejected_only_if_it_is_skipped),
        cmocka_unit_test(ambiguous_time_is_the_first_one),
        cmocka_unit_test(next_time_is_the_second_of_an_ambiguous_hour_if_the_first_has_passed),
        cmocka_unit_test(a_change_may_be_half_an_hour),
        cmocka_unit_test(day_may_start_at_one_oclock_or_be_skipped),
        cmocka_unit_test(time_is_formatted_in_the_local_zone),
        cmocka_unit_test(parsed_time_is_echoed_with_day_zone_and_distance),
        cmocka_unit_test(time_beyond_the_calendar_is_formatted_as_a_number),
        cmocka_unit_test(a_zone_with_a_fixed_offset_is_an_argument),
        cmocka_unit_test(formatted_time_can_be_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
