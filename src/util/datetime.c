/* SPDX-License-Identifier: MIT */
/*
 * datetime.c - parses points in time as people write them; the syntax is in datetime.h.
 *
 * The text is split into a day, a time and a zone, in any order in which they can be distinguished.
 * The calendar then resolves them to one point in time.
 */
#include "util/datetime.h"

#include <bide/job.h>
#include <string.h>

#define TEXT_SIZE 64
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))

enum day { DAY_NONE, DAY_DATE, DAY_RELATIVE, DAY_OF_WEEK };

/* The state of a parse. */
struct parser {
    const char *at; /* the rest of the text: lower case, no leading space */
    enum day day;
    int day_offset; /* DAY_RELATIVE: days from today; DAY_OF_WEEK: 0 is Sunday */
    struct tm tm;   /* the date of DAY_DATE; the time if has_time */
    int64_t ms;
    bool has_time, has_zone;
    struct zone zone;
    char *error; /* the problem of a part; "": none so far */
};

/* Consumes one part if the text begins with it. False with an error: it begins with an invalid
 * one. */
typedef bool part_parser(struct parser *parser);

/* ---- words and numbers ---- */

static bool is_word_char(char c)
{
    return bi_is_digit(c) || (c >= 'a' && c <= 'z');
}

/* Parses exactly this many digits. */
static bool parse_digits(const char *at, int count, int *number)
{
    *number = 0;
    for (int i = 0; i < count; i++) {
        if (!bi_is_digit(at[i]))
            return false;
        *number = *number * 10 + (at[i] - '0');
    }
    /* A longer run of digits is another number. */
    return !bi_is_digit(at[count]);
}

/* Consumes a whole word. */
static bool match_word(struct parser *parser, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(parser->at, word, size) != 0 || is_word_char(parser->at[size]))
        return false;

    parser->at += size;
    return true;
}

/* ---- days ---- */

static bool parse_date(struct parser *parser)
{
    const char *at = parser->at;
    int year, month, day;
    if (!parse_digits(at, 4, &year) || at[4] != '-' || !parse_digits(at + 5, 2, &month) ||
        at[7] != '-' || !parse_digits(at + 8, 2, &day))
        return false;

    int days = bi_calendar_month_days(year, month);
    if (days == 0)
        return bi_errmsg_set(parser->error, "is not a valid date: the months are 01 to 12");
    if (day < 1 || day > days)
        return bi_errmsg_set(parser->error, "is not a valid date: %04d-%02d has %d days", year,
                             month, days);

    parser->tm.tm_year = year - 1900;
    parser->tm.tm_mon = month - 1;
    parser->tm.tm_mday = day;
    parser->at += 10;
    /* The T of ISO 8601, not the beginning of "today". */
    if (parser->at[0] == 't' && bi_is_digit(parser->at[1]))
        parser->at++;
    parser->day = DAY_DATE;
    return true;
}

/* "next" before a day of the week changes nothing: the next one is meant anyway. */
static bool parse_named_day(struct parser *parser)
{
    const char *begin = parser->at;
    bool is_next = match_word(parser, "next");
    static const struct {
        const char *name;
        enum day day;
        int day_offset;
    } names[] = {
        {"today", DAY_RELATIVE, 0},      {"tomorrow", DAY_RELATIVE, 1},
        {"yesterday", DAY_RELATIVE, -1}, {"sunday", DAY_OF_WEEK, 0},
        {"sun", DAY_OF_WEEK, 0},         {"monday", DAY_OF_WEEK, 1},
        {"mon", DAY_OF_WEEK, 1},         {"tuesday", DAY_OF_WEEK, 2},
        {"tue", DAY_OF_WEEK, 2},         {"wednesday", DAY_OF_WEEK, 3},
        {"wed", DAY_OF_WEEK, 3},         {"thursday", DAY_OF_WEEK, 4},
        {"thu", DAY_OF_WEEK, 4},         {"friday", DAY_OF_WEEK, 5},
        {"fri", DAY_OF_WEEK, 5},         {"saturday", DAY_OF_WEEK, 6},
        {"sat", DAY_OF_WEEK, 6},
    };

    parser->at += strspn(parser->at, " ");
    for (size_t i = 0; i < COUNT(names); i++) {
        if ((is_next && names[i].day != DAY_OF_WEEK) || !match_word(parser, names[i].name))
            continue;
        parser->day = names[i].day;
        parser->day_offset = names[i].day_offset;
        return true;
    }

    /* "next" alone is no part. */
    parser->at = begin;
    return false;
}

static bool parse_day(struct parser *parser)
{
    return parser->day == DAY_NONE && (parse_date(parser) || parse_named_day(parser));
}

/* ---- times ---- */

/* Consumes am or pm. With them 12 stands for 0. */
static bool parse_am_pm(struct parser *parser, const char *at)
{
    struct tm *tm = &parser->tm;
    at += strspn(at, " ");
    bool pm = at[0] == 'p';
    if ((at[0] != 'a' && !pm) || at[1] != 'm' || is_word_char(at[2]))
        return false;

    if (tm->tm_hour < 1 || tm->tm_hour > 12)
        return bi_errmsg_set(parser->error,
                             "is not a valid time: with am and pm the hours are 1 to 12");
    tm->tm_hour = tm->tm_hour % 12 + (pm ? 12 : 0);
    parser->at = at + 2;
    return true;
}

static bool check_time(struct parser *parser)
{
    const struct tm *tm = &parser->tm;
    if (tm->tm_hour == 24 && tm->tm_min == 0)
        return bi_errmsg_set(parser->error, "is not a valid time: 24:00 is 0:00 of the next day");
    if (tm->tm_hour > 23)
        return bi_errmsg_set(parser->error, "is not a valid time: the hours are 0 to 23");
    if (tm->tm_min > 59 || tm->tm_sec > 59)
        return bi_errmsg_set(parser->error,
                             "is not a valid time: minutes and seconds are 00 to 59");
    return true;
}

/* 18:30, 18:30:15.250, 9:00, 9am, 9:00 pm */
static bool parse_clock(struct parser *parser)
{
    struct tm *tm = &parser->tm;
    const char *at = parser->at;
    int size = bi_is_digit(at[0]) && bi_is_digit(at[1]) ? 2 : 1;
    tm->tm_min = tm->tm_sec = 0;
    parser->ms = 0;
    if (!parse_digits(at, size, &tm->tm_hour))
        return false;
    at += size;
    if (parse_am_pm(parser, at))
        return true;

    if (at[0] != ':' || !parse_digits(at + 1, 2, &tm->tm_min))
        return false;
    at += 3;
    if (at[0] == ':' && parse_digits(at + 1, 2, &tm->tm_sec))
        at = bi_duration_parse_fraction(at + 3, 1000, &parser->ms);

    /* Before am and pm, which change the hour. */
    if (!check_time(parser))
        return false;
    if (!parse_am_pm(parser, at))
        parser->at = at;
    /* am or pm after an hour beyond 12 is an error, not a missing part. */
    return parser->error[0] == 0;
}

static bool parse_named_time(struct parser *parser)
{
    bool noon = match_word(parser, "noon");
    if (!noon && !match_word(parser, "midnight"))
        return false;

    parser->tm.tm_hour = noon ? 12 : 0;
    parser->tm.tm_min = parser->tm.tm_sec = 0;
    parser->ms = 0;
    return true;
}

static bool parse_time(struct parser *parser)
{
    if (parser->has_time)
        return false;

    /* "at" follows a day only. */
    if (parser->day != DAY_NONE)
        match_word(parser, "at");
    parser->at += strspn(parser->at, " ");
    parser->has_time = parse_clock(parser) || parse_named_time(parser);
    return parser->has_time;
}

/* ---- zones ---- */

/* +01:00, +0100, +01 */
static bool parse_offset(struct parser *parser)
{
    const char *at = parser->at;
    int sign = at[0] == '-' ? -1 : 1, hours, minutes = 0, both, size = 3;
    if (at[0] != '+' && at[0] != '-')
        return false;

    if (parse_digits(at + 1, 4, &both)) {
        hours = both / 100;
        minutes = both % 100;
        size = 5;
    } else if (!parse_digits(at + 1, 2, &hours)) {
        return false;
    } else if (at[3] == ':' && parse_digits(at + 4, 2, &minutes)) {
        size = 6;
    }

    if (hours * 60 + minutes > 14 * 60 || minutes > 59)
        return bi_errmsg_set(parser->error, "is not a valid time: zones are -14:00 to +14:00");
    parser->zone = (struct zone){.fixed = true, .offset_s = sign * (hours * 3600 + minutes * 60)};
    parser->at += size;
    return true;
}

/* Any other word may be the name of the zone itself, as bi_datetime_format() prints it. */
static bool parse_zone_name(struct parser *parser)
{
    size_t size = strspn(parser->at, "abcdefghijklmnopqrstuvwxyz");
    if (size < 3 || size >= BI_CALENDAR_ZONE_SIZE || is_word_char(parser->at[size]))
        return false;

    memcpy(parser->zone.name, parser->at, size);
    parser->at += size;
    return true;
}

static bool parse_utc(struct parser *parser)
{
    if (!match_word(parser, "z") && !match_word(parser, "utc") && !match_word(parser, "gmt"))
        return false;
    parser->zone = (struct zone){.fixed = true};
    return true;
}

/* Only behind a time: a day alone begins at a different time in each zone. */
static bool parse_zone(struct parser *parser)
{
    if (!parser->has_time || parser->has_zone)
        return false;
    parser->has_zone = parse_utc(parser) || parse_offset(parser) || parse_zone_name(parser);
    return parser->has_zone;
}

/* ---- resolve ---- */

static bool invalid_datetime(char *error)
{
    return bi_errmsg_set(
        error, "is not a valid time: write 18:30, \"tomorrow 9:00\", 2026-12-25T18:30 or +2h");
}

static bool check_range(int64_t ms, int64_t *at_ms, char *error)
{
    if (ms < 1)
        return bi_errmsg_set(error, "is too long ago: times begin with 1970");
    if (ms > BIDE_TIMESTAMP_MAX_MS)
        return bi_errmsg_set(error, "is too far away: times end with 2199");
    *at_ms = ms;
    return true;
}

static enum bi_calendar_result resolve(const struct parser *parser, const struct tm *tm,
                                       int64_t from_s, int64_t *at_s)
{
    return parser->has_time ? bi_calendar_to_epoch(&parser->zone, tm, from_s, at_s)
                            : bi_calendar_day_start(&parser->zone, tm, at_s);
}

static bool set_resolve_error(const struct parser *parser, enum bi_calendar_result found,
                              const struct tm *tm)
{
    if (found == BI_CALENDAR_OTHER_ZONE)
        return bi_errmsg_set(parser->error,
                             "names a zone that is not yours then: write its hours, as in +01:00");
    if (!parser->has_time)
        return bi_errmsg_set(parser->error,
                             "is not a valid date: your time zone has left out that day");
    return bi_errmsg_set(
        parser->error,
        "is not a valid time: on %04d-%02d-%02d the clocks go forward, and %02d:%02d is skipped",
        tm->tm_year + 1900, tm->tm_mon + 1, tm->tm_mday, tm->tm_hour, tm->tm_min);
}

/* Resolves a known day. The result may be past. */
static bool resolve_date(const struct parser *parser, const struct tm *tm, int64_t *at_s)
{
    /* INT64_MIN: the first of a time that occurs twice, even if it is past. */
    enum bi_calendar_result found = resolve(parser, tm, INT64_MIN, at_s);
    return found == BI_CALENDAR_FOUND || set_resolve_error(parser, found, tm);
}

/* Resolves to the next time that is not past. Today's may be past, so the search goes on
 * beyond a week. */
static bool resolve_next(const struct parser *parser, const struct tm *today, int64_t from_s,
                         int64_t *at_s)
{
    for (int day_offset = 0; day_offset <= 8; day_offset++) {
        struct tm tm = bi_calendar_add_days(today, day_offset);
        if (parser->day == DAY_OF_WEEK && tm.tm_wday != parser->day_offset)
            continue;

        enum bi_calendar_result found = resolve(parser, &tm, from_s, at_s);
        /* A zone name such as CEST may apply on a later day of the week only. */
        if (found == BI_CALENDAR_OTHER_ZONE || *at_s < from_s)
            continue;
        return found == BI_CALENDAR_FOUND || set_resolve_error(parser, found, &tm);
    }
    return set_resolve_error(parser, BI_CALENDAR_OTHER_ZONE, today);
}

static bool resolve_parsed(const struct parser *parser, int64_t now_ms, int64_t *at_ms)
{
    struct tm today;
    /* The first second s for which s * 1000 + ms is not past. */
    int64_t at_s, from_s = (now_ms - parser->ms + 999) / 1000;
    bool found;

    if (!bi_calendar_break_down(&parser->zone, now_ms / 1000, &today))
        return invalid_datetime(parser->error);

    /* The time of the text; without one resolve() uses the beginning of the day. */
    today.tm_hour = parser->tm.tm_hour;
    today.tm_min = parser->tm.tm_min;
    today.tm_sec = parser->tm.tm_sec;

    if (parser->day == DAY_DATE) {
        found = resolve_date(parser, &parser->tm, &at_s);
    } else if (parser->day == DAY_RELATIVE) {
        today = bi_calendar_add_days(&today, parser->day_offset);
        found = resolve_date(parser, &today, &at_s);
    } else {
        found = resolve_next(parser, &today, from_s, &at_s);
    }

    return found && check_range(at_s * 1000 + parser->ms, at_ms, parser->error);
}

static bool parse_parts(const char *text, const struct zone *zone, int64_t now_ms, int64_t *at_ms,
                        char *error)
{
    static part_parser *const parts[] = {parse_day, parse_time, parse_zone};
    struct parser parser = {.at = text, .zone = *zone, .error = error};

    error[0] = 0;
    while (*parser.at != 0) {
        size_t i = 0;
        while (i < COUNT(parts) && error[0] == 0 && !parts[i](&parser))
            i++;
        /* An invalid part ends the parse: another parser must not hide its message. */
        if (error[0] != 0)
            return false;
        if (i == COUNT(parts))
            return invalid_datetime(error);
        parser.at += strspn(parser.at, " ");
    }
    return resolve_parsed(&parser, now_ms, at_ms);
}

/* ---- forms without a calendar ---- */

static bool parse_relative(const char *duration, int sign, int64_t now_ms, int64_t *at_ms,
                           char *error)
{
    int64_t ms;
    return bi_duration_parse(duration, &ms, error) && check_range(now_ms + sign * ms, at_ms, error);
}

static bool parse_epoch(const char *text, int64_t *at_ms, char *error)
{
    int64_t seconds = 0, ms;
    if (!bi_is_digit(*text))
        return invalid_datetime(error);
    /* Stops counting beyond the limit, so that any number of digits is safe. */
    for (; bi_is_digit(*text); text++)
        if (seconds <= BIDE_TIMESTAMP_MAX_MS)
            seconds = seconds * 10 + (*text - '0');

    text = bi_duration_parse_fraction(text, 1000, &ms);
    if (*text != 0)
        return invalid_datetime(error);

    if (seconds > BIDE_TIMESTAMP_MAX_MS / 1000)
        seconds = BIDE_TIMESTAMP_MAX_MS / 1000 + 1;
    return check_range(seconds * 1000 + ms, at_ms, error);
}

/* Lower case, single spaces, none at the ends. False if it is empty or too long. */
static bool normalize(const char *text, char *to)
{
    size_t size = 0;
    for (text += strspn(text, " \t"); *text != 0; text++) {
        bool space = *text == ' ' || *text == '\t';
        if (space && (text[1] == ' ' || text[1] == '\t' || text[1] == 0))
            continue;
        if (size == TEXT_SIZE - 1)
            return false;
        to[size++] = space ? ' ' : *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
    }

    to[size] = 0;
    return size > 0;
}

bool bi_datetime_parse(const char *text, const struct zone *zone, int64_t now_ms, int64_t *at_ms,
                       char *error)
{
    char lower[TEXT_SIZE] = "";
    int64_t ms;
    if (!normalize(text, lower))
        return invalid_datetime(error);

    size_t size = strlen(lower);
    if (strcmp(lower, "now") == 0)
        return check_range(now_ms, at_ms, error);
    if (lower[0] == '@')
        return parse_epoch(lower + 1, at_ms, error);
    if (lower[0] == '+')
        return parse_relative(lower + 1, 1, now_ms, at_ms, error);
    if (strncmp(lower, "in ", 3) == 0)
        return parse_relative(lower + 3, 1, now_ms, at_ms, error);
    if (size > 4 && strcmp(lower + size - 4, " ago") == 0) {
        lower[size - 4] = 0;
        return parse_relative(lower, -1, now_ms, at_ms, error);
    }

    /* A duration alone is ambiguous: from now, or before? Ask for the sign. */
    if (bi_duration_parse(lower, &ms, error))
        return bi_errmsg_set(error, "is a duration: write +%.20s or \"in %.20s\"", lower, lower);
    return parse_parts(lower, zone, now_ms, at_ms, error);
}
