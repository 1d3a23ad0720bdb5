/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strptime */
#include "util/cron.h"

#include "unit.h"

#include "util/message.h"
#include "util/timezone_file.h"

#include <bide/job.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- parse ---- */

static struct cron parsed(const char *text)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct cron cron;
    if (bi_cron_parse(text, strlen(text), &cron, error) != 0)
        fail_msg("\"%s\": %s", text, error);
    return cron;
}

/* Both texts mean the same. */
static void same(const char *text, const char *other)
{
    struct cron a = parsed(text), b = parsed(other);
    bool equal = a.every_ms == b.every_ms && a.seconds == b.seconds && a.minutes == b.minutes &&
                 a.hours == b.hours && a.days == b.days && a.months == b.months &&
                 a.days_before_last == b.days_before_last && a.near_days == b.near_days &&
                 a.weekdays == b.weekdays && a.last_weekdays == b.last_weekdays &&
                 memcmp(a.nth_weekdays, b.nth_weekdays, sizeof(a.nth_weekdays)) == 0 &&
                 a.any_day == b.any_day && a.any_weekday == b.any_weekday;
    if (!equal)
        fail_msg("\"%s\" is not \"%s\"", text, other);
}

/* Refused with a message that has these words in it, and nothing written. */
static void refuses(const char *text, const char *words)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct cron cron = {.every_ms = -7};
    if (bi_cron_parse(text, strlen(text), &cron, error) != BIDE_EINVAL)
        fail_msg("\"%s\" was accepted", text);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\": %s", text, error);
    if (strlen(error) >= BIDE_ERROR_SIZE)
        fail_msg("\"%s\": too long: %s", text, error);
    assert_true(cron.every_ms == -7);
}

static void a_list_has_values_ranges_and_steps(void **state)
{
    (void)state;
    same("0,15,30,45 * * * *", "*/15 * * * *");
    same("0-59 * * * *", "*/1 * * * *");
    same("5/20 * * * *", "5,25,45 * * * *");
    same("10-30/10 * * * *", "10,20,30 * * * *");
    same("1,2-4,2,20-25/2 * * * *", "1-4,20,22,24 * * * *");
    same("\t 0  9 *\t* *  ", "0 9 * * *");
    same("007 09 * * *", "7 9 * * *");
    same("*/60 */24 * * *", "0 0 * * *");
}

static void a_range_wraps_around(void **state)
{
    (void)state;
    same("0 22-2 * * *", "0 22,23,0,1,2 * * *");
    same("0 22-4/2 * * *", "0 22,0,2,4 * * *");
    same("0 0 * nov-feb *", "0 0 * 11,12,1,2 *");
    same("0 0 * * fri-mon", "0 0 * * 5,6,0,1");
    same("0 0 30-2 * *", "0 0 30,31,1,2 * *");
}

static void sunday_is_0_and_7(void **state)
{
    (void)state;
    same("0 0 * * 7", "0 0 * * 0");
    same("0 0 * * 5-7", "0 0 * * 5,6,0");
    same("0 0 * * 0-7", "0 0 * * 0-6");
    same("0 0 * * 7-2", "0 0 * * 0,1,2");
    same("0 0 * * 1-7/2", "0 0 * * 1,3,5,0");
    same("0 0 * * 7/2", "0 0 * * 0,2,4,6");
    same("0 0 * * sun-sat", "0 0 * * 0-6");
    same("0 0 * * sat-sun", "0 0 * * 6,0");
    same("0 0 * * 7L,7#2", "0 0 * * sunL,sun#2");
}

static void names_have_three_letters_of_any_case(void **state)
{
    (void)state;
    same("0 0 * JAN-mar,Dec MON-Fri", "0 0 * 1-3,12 1-5");
    same("0 0 l,lw,5w * friL,FRI#1", "0 0 L,LW,5W * 5l,5#1");
    refuses("0 0 * january *", "the month \"january\" (character 7) is not valid");
    refuses("0 0 * * sunday", "the day of the week \"sunday\" (character 9) is not valid");
    refuses("0 0 * * so", "sun to sat");
    refuses("0 0 * mon *", "jan to dec");
}

static void a_question_mark_is_a_star_of_days(void **state)
{
    (void)state;
    same("0 0 ? * 1", "0 0 * * 1");
    same("0 0 1 * ?", "0 0 1 * *");
    refuses("? 0 * * *", "the minute \"?\" (character 1) is not valid");
    refuses("0 0 ?/2 * *", "the day of the month \"?/2\" (character 5) is not valid");
}

static void six_fields_begin_with_the_second(void **state)
{
    (void)state;
    same("0 30 9 * * *", "30 9 * * *");
    assert_true(parsed("*/30 * * * * *").seconds == (1u | UINT64_C(1) << 30));
    refuses("60 * * * * *", "the second \"60\" (character 1) is out of range: write 0 to 59");
}

static void named_schedules_are_expressions(void **state)
{
    (void)state;
    same("@yearly", "0 0 1 1 *");
    same("@annually", "0 0 1 1 *");
    same("@monthly", "0 0 1 * *");
    same("@Weekly", "0 0 * * 0");
    same("@daily", "0 0 * * *");
    same("@MIDNIGHT", "0 0 * * *");
    same(" @hourly ", "0 * * * *");
    refuses("@reboot", "\"@reboot\" is not known: write @hourly");
    refuses("@", "\"@\" is not known");
    refuses("@daily 5", "nothing may follow");
}

static void every_takes_a_duration_of_at_least_a_second(void **state)
{
    (void)state;
    assert_true(parsed("every 15m").every_ms == 900000);
    assert_true(parsed("Every  1h 30m ").every_ms == 5400000);
    assert_true(parsed("@every 1.5s").every_ms == 1500);
    refuses("every 90", "the duration \"90\" (character 7) has no unit");
    refuses("every", "the duration \"\" (character 6) is not a valid duration");
    refuses("  every  5x", "the duration \"5x\" (character 10) is not a valid duration");
    refuses("every 999ms", "is too short: write at least 1s");
    refuses("every 0", "is too short");
    refuses("every 99999999h", "is too long");
}

static void an_error_names_field_value_position_and_range(void **state)
{
    (void)state;
    refuses("60 * * * *", "the minute \"60\" (character 1) is out of range: write 0 to 59");
    refuses("0 24 * * *", "the hour \"24\" (character 3) is out of range: write 0 to 23");
    refuses("0 0 0 * *", "the day of the month \"0\" (character 5) is out of range: write 1 to 31");
    refuses("0 0 * 13 *", "the month \"13\" (character 7) is out of range");
    refuses("0 0 * * 8", "the day of the week \"8\" (character 9) is out of range");
    refuses("0,5,61-70 * * * *", "the minute \"61-70\" (character 5) is out of range");
    refuses("0 0 1,32 * *", "the day of the month \"32\" (character 7)");
    refuses("99999999999999999999 * * * *", "is out of range");
    refuses("0 0 32W * *", "is out of range");
    refuses("0 0 L-31 * *", "is out of range: write L-1 to L-30");
    refuses("0 0 * * 5#6", "is out of range: write 1 to 5 after the #");
    refuses("0 0 * * 5#0", "is out of range");
}

static void a_step_beyond_the_field_is_an_error(void **state)
{
    (void)state;
    refuses("*/90 * * * *", "the minute \"*/90\" (character 1) has a step that is out of range: "
                            "write 1 to 60, or \"every 90m\"");
    refuses("*/0 * * * *", "has a step that is out of range");
    refuses("0 */25 * * *", "write 1 to 24");
    refuses("*/ * * * *", "is not valid");
    refuses("*/-5 * * * *", "is not valid");
    refuses("*/1.5 * * * *", "is not valid");
}

static void invalid_fields_are_rejected(void **state)
{
    (void)state;
    static const char *const items[] = {
        ",",  "5,",  ",5",  "1,,2", "-",     "1-",  "-5",       "1-2-3",   "5-x", "*5",  "**",
        "5*", "*-5", "1/",  "/5",   "1/2/3", "5x",  "0x5",      "+5",      "5.5", "L",   "5L",
        "5W", "5#1", "\"5", "%",    "1_2",   "5-L", "\xc2\xbd", "\x1b[0m", "H",   "1~5", "!5",
    };
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s 0 * * *", items[i]);
        refuses(text, "(character ");
    }
    static const char *const days[] = {"WL",    "L5",  "LL",  "L-",   "L-x", "LW-1", "W",  "1-5W",
                                       "15W/2", "5#1", "L/2", "L-3W", "?5",  "*L",   "jan"};
    for (size_t i = 0; i < COUNT_OF(days); i++) {
        char text[64];
        snprintf(text, sizeof(text), "0 0 %s * *", days[i]);
        refuses(text, "the day of the month");
    }
    static const char *const weekdays[] = {"L",    "LW",   "5W",    "5#",   "#5", "5#1#2", "5L#1",
                                           "1-5L", "5L-6", "5#1-3", "5L/2", "fr", "*#2",   "jan"};
    for (size_t i = 0; i < COUNT_OF(weekdays); i++) {
        char text[64];
        snprintf(text, sizeof(text), "0 0 * * %s", weekdays[i]);
        refuses(text, "the day of the week");
    }
}

static void an_expression_has_five_or_six_fields(void **state)
{
    (void)state;
    refuses("", "is empty");
    refuses(" \t ", "is empty");
    refuses("* * * *",
            "has 5 fields (minute, hour, day of the month, month, day of the week) or 6");
    refuses("* * * *", "not 4");
    refuses("0 0 12 * * ? 2026", "not 7");
    refuses("every15m", "not 1");
    refuses("* * * * *\n", "is not valid");
}

static void messages_have_no_bytes_but_text(void **state)
{
    (void)state;
    char error[BI_ERRMSG_SIZE] = "", text[BI_CRON_TEXT_MAX + 2];
    struct cron cron;
    refuses("\x1b[31m\xff\n * * * *", "the minute \"?[31m??\"");
    memset(text, '9', sizeof(text));
    assert_int_equal(bi_cron_parse(text, BI_CRON_TEXT_MAX, &cron, error), BIDE_EINVAL);
    assert_non_null(strstr(error, "not 1"));
    assert_int_equal(bi_cron_parse(text, BI_CRON_TEXT_MAX + 1, &cron, error), BIDE_EINVAL);
    assert_non_null(strstr(error, "at most 250 bytes"));
    assert_int_equal(bi_cron_parse("0 0 * * *\0x", 11, &cron, error), BIDE_EINVAL);
    assert_non_null(strstr(error, "NUL"));
    assert_int_equal(bi_cron_parse(NULL, 0, &cron, error), BIDE_EINVAL);
}

/* ---- moments ---- */

static struct timezone_rules *zone;

static void in_zone(const char *name)
{
    char error[BI_ERRMSG_SIZE] = "";
    bi_timezone_free(zone);
    zone = NULL;
    if (bi_timezone_open(name, strlen(name), &zone, error) != 0)
        fail_msg("%s: %s", name, error);
}

static int close_zone(void **state)
{
    (void)state;
    bi_timezone_free(zone);
    zone = NULL;
    return 0;
}

/* A time of the form "2026-03-29 01:00" in UTC, with seconds if it has them. */
static int64_t utc(const char *text)
{
    struct tm tm = {.tm_isdst = 0};
    const char *end = strptime(text, "%Y-%m-%d %H:%M", &tm);
    assert_non_null(end);
    if (*end == ':')
        end = strptime(end, ":%S", &tm);
    assert_true(end != NULL && *end == 0);
    return timegm(&tm) * INT64_C(1000);
}

/* The moments of an expression behind a time, all in UTC; the list ends with NULL. */
static void occurs(const char *text, const char *after, ...)
{
    struct cron cron = parsed(text);
    int64_t at = utc(after);
    const char *expected;
    va_list list;

    va_start(list, after);
    while ((expected = va_arg(list, const char *)) != NULL) {
        int64_t next = bi_cron_next(&cron, zone, at);
        if (next != utc(expected)) {
            char said[32] = "never";
            time_t seconds = next / 1000;
            struct tm tm;
            if (next != BI_CRON_NEVER && gmtime_r(&seconds, &tm) != NULL)
                strftime(said, sizeof(said), "%Y-%m-%d %H:%M:%S", &tm);
            va_end(list);
            fail_msg("\"%s\" occurs at %s, not at %s", text, said, expected);
        }
        at = next;
    }
    va_end(list);
}

static void never_occurs(const char *text, const char *after)
{
    struct cron cron = parsed(text);
    assert_true(bi_cron_next(&cron, zone, utc(after)) == BI_CRON_NEVER);
}

static void the_next_moment_is_after_the_given_one(void **state)
{
    (void)state;
    struct cron cron = parsed("*/5 * * * *");
    int64_t at = utc("2026-11-19 20:45");
    in_zone("UTC");
    assert_true(bi_cron_next(&cron, zone, at) == at + 300000);
    assert_true(bi_cron_next(&cron, zone, at - 1) == at);
    assert_true(bi_cron_next(&cron, zone, at + 299999) == at + 300000);
}

static void fields_select_local_times(void **state)
{
    (void)state;
    in_zone("Europe/Berlin");
    occurs("30 9 * * 1-5", "2026-11-19 20:00", "2026-11-20 08:30", "2026-11-23 08:30", NULL);
    occurs("15 30 9 * jul *", "2026-11-19 20:00", "2027-07-01 07:30:15", "2027-07-02 07:30:15",
           NULL);
    in_zone("Asia/Kathmandu");
    occurs("0 0 * * *", "2026-11-19 20:00", "2026-11-20 18:15", "2026-11-21 18:15", NULL);
    in_zone("-03:30");
    occurs("0 0 * * *", "2026-11-19 20:00", "2026-11-20 03:30", NULL);
}

static void two_restricted_fields_of_days_are_a_union(void **state)
{
    (void)state;
    in_zone("UTC");
    occurs("0 0 13 * 5", "2026-11-01 00:00", "2026-11-06 00:00", "2026-11-13 00:00",
           "2026-11-20 00:00", "2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00",
           "2026-12-13 00:00", NULL);
    /* A star restricts nothing, also with a step: both must match. */
    occurs("0 0 */2 * 1", "2026-11-01 00:00", "2026-11-09 00:00", "2026-11-23 00:00",
           "2026-12-07 00:00", NULL);
    occurs("0 0 7 * */3", "2026-11-01 00:00", "2026-11-07 00:00", "2027-02-07 00:00", NULL);
    /* All days without a star are a restriction. */
    occurs("0 0 1-31 * 1", "2026-11-01 00:00", "2026-11-02 00:00", "2026-11-03 00:00", NULL);
    occurs("0 0 L * 5L", "2026-11-01 00:00", "2026-11-27 00:00", "2026-11-30 00:00",
           "2026-12-25 00:00", "2026-12-31 00:00", NULL);
}

static void last_days_follow_the_length_of_the_month(void **state)
{
    (void)state;
    in_zone("UTC");
    occurs("0 0 L * *", "2027-12-31 12:00", "2028-01-31 00:00", "2028-02-29 00:00",
           "2028-03-31 00:00", "2028-04-30 00:00", NULL);
    occurs("0 0 L-3 * *", "2026-01-31 12:00", "2026-02-25 00:00", "2026-03-28 00:00", NULL);
    occurs("0 0 L-30 * *", "2026-01-31 12:00", "2026-03-01 00:00", "2026-05-01 00:00", NULL);
    occurs("0 0 * * 5L", "2026-10-31 00:00", "2026-11-27 00:00", "2026-12-25 00:00", NULL);
    occurs("0 0 * 2 sunL", "2026-10-31 00:00", "2027-02-28 00:00", "2028-02-27 00:00", NULL);
}

static void the_nth_day_of_the_week_may_be_missing(void **state)
{
    (void)state;
    in_zone("UTC");
    occurs("0 0 * * 5#2", "2026-10-31 00:00", "2026-11-13 00:00", "2026-12-11 00:00", NULL);
    occurs("0 0 * * 1#5", "2026-10-31 00:00", "2026-11-30 00:00", "2027-03-29 00:00", NULL);
    occurs("0 0 * * 1#1,3", "2026-10-31 00:00", "2026-11-02 00:00", "2026-11-04 00:00",
           "2026-11-11 00:00", NULL);
}

static void the_nearest_working_day_is_in_the_same_month(void **state)
{
    (void)state;
    in_zone("UTC");
    /* August 15, 2026 is a Saturday, November 15 a Sunday. */
    occurs("0 0 15W 8,11,12 *", "2026-08-01 00:00", "2026-08-14 00:00", "2026-11-16 00:00",
           "2026-12-15 00:00", NULL);
    /* August 1 is a Saturday, November 1 a Sunday. */
    occurs("0 0 1W 8,11 *", "2026-07-31 12:00", "2026-08-03 00:00", "2026-11-02 00:00", NULL);
    /* January 31, 2026 is a Saturday, May 31 a Sunday. */
    occurs("0 0 LW 1,5 *", "2026-01-01 00:00", "2026-01-30 00:00", "2026-05-29 00:00", NULL);
    occurs("0 0 31W * *", "2026-01-01 00:00", "2026-01-30 00:00", "2026-03-31 00:00", NULL);
}

/* Berlin: on 2026-03-29 at 01:00 UTC 2:00 becomes 3:00. */
static void a_skipped_time_occurs_behind_the_gap(void **state)
{
    (void)state;
    in_zone("Europe/Berlin");
    occurs("30 2 * * *", "2026-03-27 12:00", "2026-03-28 01:30", "2026-03-29 01:00",
           "2026-03-30 00:30", NULL);
    occurs("0 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-30 00:00", NULL);
    occurs("59 59 2 29 3 *", "2026-03-28 12:00", "2026-03-29 01:00", "2027-03-29 00:59:59", NULL);
}

static void several_skipped_times_are_one_moment(void **state)
{
    (void)state;
    in_zone("Europe/Berlin");
    occurs("*/15 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-30 00:00", NULL);
    /* 3:00 itself is the moment, too. */
    occurs("30 2,3 * * *", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-29 01:30",
           "2026-03-30 00:30", NULL);
    occurs("0 2,3 * * *", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-30 00:00", NULL);
    occurs("0 */2 * * *", "2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 02:00", NULL);
}

/* Berlin: on 2026-10-25 at 01:00 UTC 3:00 becomes 2:00. */
static void a_repeated_time_occurs_the_first_time(void **state)
{
    (void)state;
    in_zone("Europe/Berlin");
    occurs("30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30", "2026-10-26 01:30", NULL);
    occurs("0 2 * * *", "2026-10-24 12:00", "2026-10-25 00:00", "2026-10-26 01:00", NULL);
    occurs("0 3 * * *", "2026-10-24 12:00", "2026-10-25 02:00", "2026-10-26 02:00", NULL);
    occurs("*/30 1-3 * * *", "2026-10-24 23:30", "2026-10-25 00:00", "2026-10-25 00:30",
           "2026-10-25 02:00", "2026-10-25 02:30", NULL);
    /* Also for one that begins in the repeated hour. */
    occurs("30 2 * * *", "2026-10-25 01:15", "2026-10-26 01:30", NULL);
}

static void expressions_of_every_hour_go_on_in_real_time(void **state)
{
    (void)state;
    in_zone("Europe/Berlin");
    occurs("30 * * * *", "2026-03-29 00:00", "2026-03-29 00:30", "2026-03-29 01:30", NULL);
    occurs("*/30 * * * *", "2026-03-29 00:00", "2026-03-29 00:30", "2026-03-29 01:00",
           "2026-03-29 01:30", NULL);
    occurs("30 * * * *", "2026-10-24 23:45", "2026-10-25 00:30", "2026-10-25 01:30",
           "2026-10-25 02:30", NULL);
    occurs("0 0-23 * * *", "2026-10-24 23:45", "2026-10-25 00:00", "2026-10-25 01:00",
           "2026-10-25 02:00", NULL);
    occurs("59 59 * * * *", "2026-10-25 00:30", "2026-10-25 00:59:59", "2026-10-25 01:59:59", NULL);
}

/* On 2026-10-04 at 2:00 clocks go on to 2:30; on 2026-04-05 at 2:00 back to 1:30. */
static void a_change_may_be_half_an_hour(void **state)
{
    (void)state;
    in_zone("Australia/Lord_Howe");
    occurs("15 2 * * *", "2026-10-03 12:00", "2026-10-03 15:30", "2026-10-04 15:15", NULL);
    occurs("45 2 * * *", "2026-10-03 12:00", "2026-10-03 15:45", "2026-10-04 15:45", NULL);
    occurs("45 1 * * *", "2026-04-04 12:00", "2026-04-04 14:45", "2026-04-05 15:15", NULL);
    occurs("15 1 * * *", "2026-04-04 12:00", "2026-04-04 14:15", "2026-04-05 14:45", NULL);
    occurs("*/15 * * * *", "2026-04-04 14:30", "2026-04-04 14:45", "2026-04-04 15:00",
           "2026-04-04 15:15", NULL);
}

/* Sao Paulo, 2018-11-04: the day begins at 1:00, which is 03:00 UTC. 2018-02-18 begins twice. */
static void a_day_may_begin_at_one_oclock_or_twice(void **state)
{
    (void)state;
    in_zone("America/Sao_Paulo");
    occurs("@daily", "2018-11-03 12:00", "2018-11-04 03:00", "2018-11-05 02:00", NULL);
    occurs("0 0 * * 0", "2018-11-03 12:00", "2018-11-04 03:00", "2018-11-11 02:00", NULL);
    occurs("30 23 * * *", "2018-02-17 12:00", "2018-02-18 01:30", "2018-02-19 02:30", NULL);
    occurs("@daily", "2018-02-17 12:00", "2018-02-18 03:00", "2018-02-19 03:00", NULL);
}

/* Samoa had no 2011-12-30: at 10:00 UTC the 29th became the 31st. */
static void a_skipped_day_occurs_at_the_beginning_of_the_next(void **state)
{
    (void)state;
    in_zone("Pacific/Apia");
    occurs("0 12 30 12 *", "2011-12-29 12:00", "2011-12-30 10:00", "2012-12-29 22:00", NULL);
    occurs("0 12 * * *", "2011-12-29 12:00", "2011-12-29 22:00", "2011-12-30 10:00",
           "2011-12-30 22:00", NULL);
    occurs("0 12 * * 5", "2011-12-29 12:00", "2011-12-30 10:00", "2012-01-05 22:00", NULL);
    occurs("0 * 30 12 *", "2011-12-29 12:00", "2012-12-29 10:00", NULL);
}

/* Dublin calls its winter time DST, with a negative offset. */
static void dst_may_be_in_winter(void **state)
{
    (void)state;
    in_zone("Europe/Dublin");
    occurs("30 1 * * *", "2026-03-28 12:00", "2026-03-29 01:00", "2026-03-30 00:30", NULL);
    occurs("30 1 * * *", "2026-10-24 12:00", "2026-10-25 00:30", "2026-10-26 01:30", NULL);
}

/* Africa/Monrovia, 1972-01-07 00:44:30 UTC: 0:00 becomes 0:44:30. */
static void an_offset_may_have_seconds(void **state)
{
    (void)state;
    in_zone("Africa/Monrovia");
    occurs("0 0 * * *", "1972-01-06 00:50", "1972-01-07 00:44:30", "1972-01-08 00:00", NULL);
    occurs("45 0 * * *", "1972-01-06 12:00", "1972-01-07 00:45", NULL);
    occurs("0 12 * * *", "1972-01-05 00:00", "1972-01-05 12:44:30", "1972-01-06 12:44:30",
           "1972-01-07 12:00", NULL);
}

/* At 12:00 UTC the clock is set back by two hours, at 12:30 forward by one. */
static void changes_may_follow_each_other_within_the_hour(void **state)
{
    (void)state;
    const int64_t noon_s = utc("2026-06-01 12:00") / 1000;
    bi_timezone_free(zone);
    zone = calloc(1, sizeof(*zone) + 3 * sizeof(zone->changes[0]));
    assert_non_null(zone);
    zone->count = 3;
    zone->changes[0] = (struct timezone_change){.at_s = INT64_MIN, .offset_s = 7200};
    zone->changes[1] = (struct timezone_change){.at_s = noon_s};
    zone->changes[2] = (struct timezone_change){.at_s = noon_s + 1800, .offset_s = 3600};

    /* It shows 12:00 to 12:29 and 13:30 to 13:59 again, but 14:00 for the first time. */
    occurs("45 13 1 6 *", "2026-06-01 00:00", "2026-06-01 11:45", "2027-06-01 12:45", NULL);
    occurs("15 12 1 6 *", "2026-06-01 00:00", "2026-06-01 10:15", "2027-06-01 11:15", NULL);
    occurs("45 13,14 1 6 *", "2026-06-01 12:10", "2026-06-01 13:45", "2027-06-01 12:45", NULL);
    occurs("45 13,14 1 6 *", "2026-06-01 12:35", "2026-06-01 13:45", "2027-06-01 12:45", NULL);
    occurs("45 * 1 6 *", "2026-06-01 12:00", "2026-06-01 12:45", "2026-06-01 13:45", NULL);
}

static void changes_beyond_2037_follow_the_rule(void **state)
{
    (void)state;
    in_zone("America/New_York");
    occurs("30 2 * * *", "2199-03-09 12:00", "2199-03-10 07:00", "2199-03-11 06:30", NULL);
    in_zone("Europe/Berlin");
    occurs("0 12 1 1,7 *", "2100-01-01 12:00", "2100-07-01 10:00", "2101-01-01 11:00", NULL);
}

static void rare_days_are_found(void **state)
{
    (void)state;
    in_zone("UTC");
    /* February 29 on a Monday: every 28 years, but for 2100. */
    occurs("0 0 29 2 */7", "2026-01-01 00:00", "2032-02-29 00:00", NULL);
    occurs("0 0 29 2 *", "2096-02-29 00:00", "2104-02-29 00:00", NULL);
    occurs("0 0 29 2 ?", "2026-01-01 00:00", "2028-02-29 00:00", "2032-02-29 00:00", NULL);
    occurs("0 0 * 2 4#5", "2026-01-01 00:00", "2052-02-29 00:00", "2080-02-29 00:00",
           "2120-02-29 00:00", NULL);
    occurs("0 0 1 1 *", "1970-01-01 00:00", "1971-01-01 00:00", NULL);
    occurs("0 0 1 1 *", "2199-01-01 00:00", "2200-01-01 00:00", NULL);
}

static void expression_that_never_occurs_is_refused(void **state)
{
    (void)state;
    refuses("0 0 30 2 *", "never occurs: its months have no such day");
    refuses("0 0 31 2,4,6,9,11 *", "never occurs");
    refuses("0 0 L-30 2,4 *", "never occurs");
    refuses("0 0 30W 2 *", "never occurs");
    in_zone("Europe/Berlin");
    never_occurs("* * * * * *", "2200-01-01 00:00");
    occurs("0 0 29 2 *", "2190-01-01 00:00", "2192-02-28 23:00", "2196-02-28 23:00", NULL);
    never_occurs("0 0 29 2 *", "2196-03-01 00:00");
}

static void moments_are_between_1970_and_2200(void **state)
{
    (void)state;
    in_zone("UTC");
    struct cron second = parsed("* * * * * *"), every = parsed("every 1h");
    assert_true(bi_cron_next(&second, zone, INT64_MIN) == 1000);
    assert_true(bi_cron_next(&second, zone, -1) == 1000);
    assert_true(bi_cron_next(&second, zone, BIDE_TIMESTAMP_MAX_MS - 1) == BIDE_TIMESTAMP_MAX_MS);
    assert_true(bi_cron_next(&second, zone, BIDE_TIMESTAMP_MAX_MS) == BI_CRON_NEVER);
    assert_true(bi_cron_next(&second, zone, INT64_MAX) == BI_CRON_NEVER);
    assert_true(bi_cron_next(&every, NULL, INT64_MIN) == 3600000);
    assert_true(bi_cron_next(&every, NULL, BIDE_TIMESTAMP_MAX_MS - 1) == BIDE_TIMESTAMP_MAX_MS);
    assert_true(bi_cron_next(&every, NULL, BIDE_TIMESTAMP_MAX_MS) == BI_CRON_NEVER);
    assert_true(bi_cron_next(&every, NULL, INT64_MAX) == BI_CRON_NEVER);
    in_zone("-08:00"); /* where 1969 has not ended yet */
    occurs("0 20 * * *", "1970-01-01 00:00", "1970-01-01 04:00", "1970-01-02 04:00", NULL);
    occurs("0 0 1 1 *", "1970-01-01 00:00", "1970-01-01 08:00", "1971-01-01 08:00", NULL);
}

static void multiples_are_counted_from_the_anchor(void **state)
{
    (void)state;
    struct cron cron = parsed("every 15m");
    occurs("every 15m", "2026-11-19 20:46", "2026-11-19 21:00", "2026-11-19 21:15", NULL);
    int64_t start = utc("2026-11-19 20:50") + 7;
    cron.anchor_ms = start;
    assert_true(bi_cron_next(&cron, NULL, start - 1) == start);
    assert_true(bi_cron_next(&cron, NULL, start) == start + 900000);
    assert_true(bi_cron_next(&cron, NULL, start - 900001) == start - 900000);
    assert_true(bi_cron_next(&cron, NULL, start + 10 * 900000 + 1) == start + 11 * 900000);
    cron.anchor_ms = 600000;
    assert_true(bi_cron_next(&cron, NULL, 0) == 600000);
    assert_true(bi_cron_next(&cron, NULL, 600000) == 1500000);
    cron.anchor_ms = INT64_MIN;
    assert_true(bi_cron_next(&cron, NULL, start) - start <= 900000);
    cron.anchor_ms = INT64_MAX;
    assert_true(bi_cron_next(&cron, NULL, start) - start <= 900000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_values_ranges_and_steps),
        cmocka_unit_test(a_range_wraps_around),
        cmocka_unit_test(sunday_is_0_and_7),
        cmocka_unit_test(names_have_three_letters_of_any_case),
        cmocka_unit_test(a_question_mark_is_a_star_of_days),
        cmocka_unit_test(six_fields_begin_with_the_second),
        cmocka_unit_test(named_schedules_are_expressions),
        cmocka_unit_test(every_takes_a_duration_of_at_least_a_second),
        cmocka_unit_test(an_error_names_field_value_position_and_range),
        cmocka_unit_test(a_step_beyond_the_field_is_an_error),
        cmocka_unit_test(invalid_fields_are_rejected),
        cmocka_unit_test(an_expression_has_five_or_six_fields),
        cmocka_unit_test(messages_have_no_bytes_but_text),
        cmocka_unit_test(the_next_moment_is_after_the_given_one),
        cmocka_unit_test(fields_select_local_times),
        cmocka_unit_test(two_restricted_fields_of_days_are_a_union),
        cmocka_unit_test(last_days_follow_the_length_of_the_month),
        cmocka_unit_test(the_nth_day_of_the_week_may_be_missing),
        cmocka_unit_test(the_nearest_working_day_is_in_the_same_month),
        cmocka_unit_test(a_skipped_time_occurs_behind_the_gap),
        cmocka_unit_test(several_skipped_times_are_one_moment),
        cmocka_unit_test(a_repeated_time_occurs_the_first_time),
        cmocka_unit_test(expressions_of_every_hour_go_on_in_real_time),
        cmocka_unit_test(a_change_may_be_half_an_hour),
        cmocka_unit_test(a_day_may_begin_at_one_oclock_or_twice),
        cmocka_unit_test(a_skipped_day_occurs_at_the_beginning_of_the_next),
        cmocka_unit_test(dst_may_be_in_winter),
        cmocka_unit_test(an_offset_may_have_seconds),
        cmocka_unit_test(changes_may_follow_each_other_within_the_hour),
        cmocka_unit_test(changes_beyond_2037_follow_the_rule),
        cmocka_unit_test(rare_days_are_found),
        cmocka_unit_test(expression_that_never_occurs_is_refused),
        cmocka_unit_test(moments_are_between_1970_and_2200),
        cmocka_unit_test(multiples_are_counted_from_the_anchor),
    };
    unsetenv("TZDIR");
    return cmocka_run_group_tests(tests, NULL, close_zone);
}
