/* SPDX-License-Identifier: MIT */
/*
 * Compares the moments of util/cron.h with those of cron_model.h in a walk through local time, minute
 * by minute. A run covers one year of six zones, with --full (`make cron`) ten years of ten.
 */
#include "util/cron.h"

#include "cron_model.h"
#include "unit.h"

#include "util/message.h"
#include "util/timezone.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A sanitizer makes the walk ten times slower, and is not there to compare moments. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static bool full;

/* Ten years of each zone, and the one that is always compared; 0: none. */
static const struct span {
    const char *zone;
    int first_year, year;
} spans[] = {
    {"Europe/Berlin", 2019, 2026},
    {"America/New_York", 2030, 2038},    /* the rule behind the stored changes */
    {"Australia/Lord_Howe", 2020, 2025}, /* half an hour */
    {"Pacific/Apia", 2005, 2011},        /* a day is skipped */
    {"America/Sao_Paulo", 2010, 2018},   /* at midnight */
    {"Europe/Dublin", 2021, 2024},       /* DST in winter, backwards */
    {"Pacific/Chatham", 2022, 0},        /* three quarters of an hour off, in the south */
    {"Africa/Casablanca", 2015, 0},      /* four changes a year, then rules change */
    {"Asia/Kathmandu", 1980, 0},         /* once by a quarter of an hour */
    {"America/Caracas", 2007, 0},        /* half an hour, at 3:00, without DST */
};

static const char *const expressions[] = {
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 * * * *",
    "15,45 * * * *",
    "59 23 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "5 1 * * *",
    "30 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "45 2 * * *",
    "0 3 * * *",
    "*/10 2 * * *",
    "* 2,3 * * *",
    "*/20 1-3 * * *",
    "0 */2 * * *",
    "0 1/2 * * *",
    "30 */6 * * *",
    "17 22-3 * * *",
    "0 0-23 * * *",
    "0 9 * * 1-5",
    "30 8 * * MON-FRI",
    "0 12 * * sun",
    "0 12 * * 7",
    "0 12 * * fri-mon",
    "0 0 1 * *",
    "0 0 31 * *",
    "30 2 29 2 *",
    "0 0 L * *",
    "0 6 L-3 * *",
    "0 6 LW * *",
    "0 6 1W,15W,31W * *",
    "0 7 * * 5L",
    "0 7 * * fri#2,Mon#1",
    "0 7 * * 3#5",
    "0 0 13 * 5",
    "0 0 */2 * 1",
    "0 0 1-31 * 1",
    "0 0 ? * 2",
    "0 0 1,15 3,jun-aug *",
    "30 2 * 3,4,10,11 0",
    "0 12 30 12 *",
    "*/30 * 30 12 *",
    "0 0 1 nov-feb/2 ?",
    "@yearly",
    "@monthly",
    "@weekly",
    "@hourly",
    "30 30 2 * * *",
    "*/20 59 1,2 * * *",
    "10,50 */13 * * * *",
    "15 0 0 * * 0",
    "every 5400s",
    "every 97s",
    "0 0 29 2 1",
};
#define EXPRESSIONS COUNT_OF(expressions)

/* An expression, and where bi_cron_next() is. */
struct pair {
    const char *text;
    struct cron cron;
    struct cron_model model;
    int64_t next_ms;
    uint64_t count;
};

/* ---- walk ---- */

static void set_zone(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static int64_t minute_of_year(int year)
{
    struct tm tm = {.tm_year = year - 1900, .tm_mday = 1};
    return timegm(&tm) / 60;
}

/* What the local clock shows. */
static int64_t reading_at(int64_t minute)
{
    time_t at = minute * 60;
    struct tm tm;
    assert_non_null(localtime_r(&at, &tm));
    return timegm(&tm) / 60;
}

/* An expression that is rejected because it never occurs must not occur in the model. */
static void start_pair(struct pair *pair, const char *text, const struct timezone_rules *zone,
                       int64_t minute)
{
    char error[BI_ERRMSG_SIZE] = "";
    pair->text = text;
    pair->count = 0;
    bool parsed = bi_cron_parse(text, strlen(text), &pair->cron, error) == 0;
    if (!parsed && strstr(error, "never occurs") == NULL)
        fail_msg("%s: %s", text, error);
    cron_model_init(&pair->model, text);
    pair->next_ms = parsed ? bi_cron_next(&pair->cron, zone, minute * 60000 - 1) : BI_CRON_NEVER;
}

static void differ(const struct pair *pair, const struct timezone_rules *zone, int64_t model_s)
{
    fail_msg("\"%s\" in %s: the model occurs at %lld, the next moment is %lld", pair->text,
             bi_timezone_name(zone), (long long)model_s, (long long)(pair->next_ms / 1000));
}

static void compare_minute(struct pair *pair, const struct timezone_rules *zone, int64_t minute,
                           int64_t reading, int64_t highest)
{
    bool occurs[60], any = true;
    if (pair->model.every_s != 0)
        cron_model_every(&pair->model, minute, occurs);
    else
        any = cron_model_minute(&pair->model, reading, highest, occurs);

    if (any)
        for (int second = 0; second < 60; second++)
            if (occurs[second]) {
                int64_t at_ms = (minute * 60 + second) * 1000;
                if (pair->next_ms != at_ms)
                    differ(pair, zone, at_ms / 1000);
                pair->next_ms = bi_cron_next(&pair->cron, zone, at_ms);
                pair->count++;
            }
    if (pair->next_ms < (minute + 1) * 60000)
        differ(pair, zone, -1);
}

/* Compares the moments of all pairs from one minute to before another. */
static void walk(struct pair *pairs, size_t count, const struct timezone_rules *zone, int64_t from,
                 int64_t to)
{
    int64_t highest = INT64_MIN;

    /* Three days before: longer than any clock has been set back. */
    for (int64_t minute = from - 3 * 1440; minute < to; minute++) {
        int64_t reading = reading_at(minute);
        if (highest == INT64_MIN)
            highest = reading;
        for (size_t i = 0; minute >= from && i < count; i++)
            compare_minute(&pairs[i], zone, minute, reading, highest);
        if (reading > highest)
            highest = reading;
    }
}

static struct timezone_rules *open_zone(const char *name)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct timezone_rules *zone = NULL;
    if (bi_timezone_open(name, strlen(name), &zone, error) != 0)
        fail_msg("%s: %s", name, error);
    return zone;
}

static void moments_are_those_of_the_naive_model(void **state)
{
    (void)state;
    static struct pair pairs[EXPRESSIONS];
    for (size_t i = 0; i < COUNT_OF(spans); i++) {
        const struct span *span = &spans[i];
        if (!full && span->year == 0)
            continue;

        struct timezone_rules *zone = open_zone(span->zone);
        int64_t from = minute_of_year(full ? span->first_year : span->year);
        int64_t to = minute_of_year(full ? span->first_year + 10 : span->year + 1);
        if (SANITIZED && !full)
            to = from + (to - from) / 8;
        uint64_t total = 0;

        set_zone(span->zone);
        for (size_t k = 0; k < EXPRESSIONS; k++)
            start_pair(&pairs[k], expressions[k], zone, from);
        walk(pairs, EXPRESSIONS, zone, from, to);

        for (size_t k = 0; k < EXPRESSIONS; k++)
            total += pairs[k].count;
        /* Of every minute, at least. */
        assert_true(pairs[0].count == (uint64_t)(to - from) && total > pairs[0].count);
        bi_timezone_free(zone);
    }
}

/* ---- random expressions around clock changes ---- */

static uint64_t random_state;

/* 0 to before limit. */
static int draw(int limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random_state >> 33) % (uint64_t)limit);
}

/* A field of one or two items. */
static size_t draw_field(char *to, size_t room, int first, int last)
{
    int count = last - first + 1, size = 0;
    for (int items = draw(3) == 0 ? 2 : 1; items > 0; items--) {
        int low = first + draw(count), high = first + draw(count), step = 1 + draw(count / 2);
        switch (draw(5)) {
        case 0:
            size += snprintf(to + size, room - (size_t)size, "*");
            break;
        case 1:
            size += snprintf(to + size, room - (size_t)size, "*/%d", step);
            break;
        case 2:
            size += snprintf(to + size, room - (size_t)size, "%d-%d", low, high);
            break;
        case 3:
            size += snprintf(to + size, room - (size_t)size, "%d-%d/%d", low, high, step);
            break;
        default:
            size += snprintf(to + size, room - (size_t)size, "%d", low);
        }
        size += snprintf(to + size, room - (size_t)size, "%s", items > 1 ? "," : " ");
    }
    return (size_t)size;
}

static void draw_expression(char *to, size_t room)
{
    static const int limits[][2] = {{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}};
    size_t size = 0;
    if (draw(4) == 0)
        size += draw_field(to, room, 0, 59);
    for (size_t i = 0; i < 5; i++) {
        bool is_star = i >= 2 && draw(2) == 0;
        size += is_star ? (size_t)snprintf(to + size, room - size, "* ")
                        : draw_field(to + size, room - size, limits[i][0], limits[i][1]);
    }
    to[size - 1] = 0;
}

#define RANDOM_EXPRESSIONS 40

static void random_expressions_agree_around_clock_changes(void **state)
{
    (void)state;
    static const char *const zones[] = {
        "Europe/Berlin",    "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
        "Antarctica/Troll", "Asia/Amman",          "Africa/Cairo", "America/St_Johns",
    };
    static struct pair pairs[RANDOM_EXPRESSIONS];
    static char texts[RANDOM_EXPRESSIONS][128];

    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        struct timezone_rules *zone = open_zone(zones[i]);
        int64_t at_s = minute_of_year(2010 + draw(8)) * 60;
        set_zone(zones[i]);
        for (int change = 0; change < (full ? 60 : SANITIZED ? 1 : 6); change++) {
            struct timezone_period period = bi_timezone_period(zone, at_s);
            if (period.end_s == INT64_MAX)
                break;
            for (size_t k = 0; k < RANDOM_EXPRESSIONS; k++) {
                draw_expression(texts[k], sizeof(texts[k]));
                start_pair(&pairs[k], texts[k], zone, period.end_s / 60 - 1440);
            }
            walk(pairs, RANDOM_EXPRESSIONS, zone, period.end_s / 60 - 1440,
                 period.end_s / 60 + 3 * 1440);
            at_s = period.end_s;
        }
        bi_timezone_free(zone);
    }
}

/* ---- random days ---- */

/* An item that only this field has. */
static void draw_special_day(char *to, size_t room)
{
    switch (draw(5)) {
    case 0:
        snprintf(to, room, "L");
        break;
    case 1:
        snprintf(to, room, "L-%d", draw(31));
        break;
    case 2:
        snprintf(to, room, "LW");
        break;
    case 3:
        snprintf(to, room, "?");
        break;
    default:
        snprintf(to, room, "%dW", 1 + draw(31));
    }
}

static void draw_special_weekday(char *to, size_t room)
{
    static const char *const names[] = {"sun", "MON", "Tue", "wed", "THU", "fri", "sat", "7"};
    switch (draw(4)) {
    case 0:
        snprintf(to, room, "%sL", names[draw(8)]);
        break;
    case 1:
        snprintf(to, room, "%s-%s", names[draw(8)], names[draw(8)]);
        break;
    case 2:
        snprintf(to, room, "%d-7/%d", draw(8), 1 + draw(3));
        break;
    default:
        snprintf(to, room, "%s#%d", names[draw(8)], 1 + draw(5));
    }
}

/* At midnight, with one or two items for each of the fields of days. */
static void draw_days(char *to, size_t room)
{
    char items[4][32];
    for (int i = 0; i < 2; i++) {
        draw_field(items[i], sizeof(items[i]), 1, 31);
        draw_field(items[2 + i], sizeof(items[i]), 0, 6);
        items[i][strlen(items[i]) - 1] = items[2 + i][strlen(items[2 + i]) - 1] = 0;
        if (draw(2) == 0)
            draw_special_day(items[i], sizeof(items[i]));
        if (draw(2) == 0)
            draw_special_weekday(items[2 + i], sizeof(items[2 + i]));
    }

    const char *month = draw(2) == 0 ? "*" : draw(2) == 0 ? "feb" : "nov-mar/2";
    if (draw(2) == 0)
        snprintf(to, room, "0 0 %s,%s %s %s", items[0], items[1], month, items[2]);
    else
        snprintf(to, room, "0 0 %s %s %s,%s", items[0], month, items[2], items[3]);
}

/* From 2096, a leap year, to 2104, the next one. */
static void random_days_agree(void **state)
{
    (void)state;
    struct timezone_rules *zone = open_zone("UTC");
    for (int i = 0; i < (full ? 20000 : SANITIZED ? 50 : 500); i++) {
        char text[160];
        struct pair pair;
        draw_days(text, sizeof(text));
        start_pair(&pair, text, zone, minute_of_year(2096));
        for (int64_t minute = minute_of_year(2096); minute < minute_of_year(2105); minute += 1440) {
            compare_minute(&pair, zone, minute, minute, minute - 1);
            if (pair.next_ms < (minute + 1440) * 60000)
                differ(&pair, zone, -1);
        }
    }
    bi_timezone_free(zone);
}

int main(int argc, char **argv)
{
    unsetenv("TZDIR");
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_those_of_the_naive_model),
        cmocka_unit_test(random_expressions_agree_around_clock_changes),
        cmocka_unit_test(random_days_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
