/* SPDX-License-Identifier: MIT */
/*
 * moment.c - moments as people write them.
 *
 * The text is taken apart into a day, a time and a zone, in any order in which each can be told
 * from the others; then the calendar says which moment that is.
 */
#include "cli/calendar.h"
#include "cli/when.h"

#include <bide/job.h>
#include <string.h>

#define TEXT_SIZE 64
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))

enum day { DAY_NONE, DAY_DATE, DAY_AHEAD, DAY_OF_WEEK };

/* What was read so far. */
struct reading {
    const char *at; /* what is still to be read: small letters, no space in front */
    enum day day;
    int ahead;          /* DAY_AHEAD: days from today; DAY_OF_WEEK: 0 is Sunday */
    struct civil civil; /* the date if it was said, the time if it was said */
    int ms;
    bool has_time, has_zone;
    struct zone zone;
    char *error; /* what is wrong with a part; "": nothing yet */
};

/* A part of a moment: true if it stands there; then it was taken. */
typedef bool part(struct reading *reading);

/* ---- words and numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z');
}

/* Exactly so many digits. */
static bool digits(const char *at, int count, int *number)
{
    *number = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit(at[i]))
            return false;
        *number = *number * 10 + (at[i] - '0');
    }
    return !is_digit(at[count]);
}

/* Takes a word that stands alone. */
static bool take_word(struct reading *reading, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(reading->at, word, size) != 0 || is_word(reading->at[size]))
        return false;
    reading->at += size;
    return true;
}

/* ---- days ---- */

static bool take_date(struct reading *reading)
{
    struct civil *civil = &reading->civil;
    const char *at = reading->at;
    if (!digits(at, 4, &civil->year) || at[4] != '-' || !digits(at + 5, 2, &civil->month) ||
        at[7] != '-' || !digits(at + 8, 2, &civil->day))
        return false;
    int days = bi_month_days(civil->year, civil->month);
    if (days == 0)
        return bi_refuse(reading->error, "is no date: the months are 01 to 12");
    if (civil->day < 1 || civil->day > days)
        return bi_refuse(reading->error, "is no date: %04d-%02d has %d days", civil->year,
                         civil->month, days);
    reading->at += 10;
    if (reading->at[0] == 't' && is_digit(reading->at[1]))
        reading->at++;
    reading->day = DAY_DATE;
    return true;
}

/* "next" before a day of the week changes nothing: it is the next one that is meant. */
static bool take_named_day(struct reading *reading)
{
    const char *begin = reading->at;
    bool is_next = take_word(reading, "next");
    static const struct {
        const char *name;
        enum day day;
        int ahead;
    } names[] = {
        {"today", DAY_AHEAD, 0},       {"tomorrow", DAY_AHEAD, 1},  {"yesterday", DAY_AHEAD, -1},
        {"sunday", DAY_OF_WEEK, 0},    {"sun", DAY_OF_WEEK, 0},     {"monday", DAY_OF_WEEK, 1},
        {"mon", DAY_OF_WEEK, 1},       {"tuesday", DAY_OF_WEEK, 2}, {"tue", DAY_OF_WEEK, 2},
        {"wednesday", DAY_OF_WEEK, 3}, {"wed", DAY_OF_WEEK, 3},     {"thursday", DAY_OF_WEEK, 4},
        {"thu", DAY_OF_WEEK, 4},       {"friday", DAY_OF_WEEK, 5},  {"fri", DAY_OF_WEEK, 5},
        {"saturday", DAY_OF_WEEK, 6},  {"sat", DAY_OF_WEEK, 6},
    };
    reading->at += strspn(reading->at, " ");
    for (size_t i = 0; i < COUNT(names); i++) {
        if ((is_next && names[i].day != DAY_OF_WEEK) || !take_word(reading, names[i].name))
            continue;
        reading->day = names[i].day;
        reading->ahead = names[i].ahead;
        return true;
    }
    reading->at = begin;
    return false;
}

static bool take_day(struct reading *reading)
{
    return reading->day == DAY_NONE && (take_date(reading) || take_named_day(reading));
}

/* ---- times ---- */

/* The digits behind a point, as milliseconds, rounded up. */
static const char *take_fraction(const char *at, int *ms)
{
    int place = 1000;
    bool more = false;
    *ms = 0;
    if (at[0] != '.' || !is_digit(at[1]))
        return at;
    for (at++; is_digit(*at); at++) {
        place /= 10;
        *ms += place * (*at - '0');
        more = more || (place == 0 && *at != '0');
    }
    *ms += more;
    return at;
}

/* am or pm, in which 12 is what others call 0. */
static bool take_half(struct reading *reading, const char *at)
{
    struct civil *civil = &reading->civil;
    at += strspn(at, " ");
    bool pm = at[0] == 'p';
    if ((at[0] != 'a' && !pm) || at[1] != 'm' || is_word(at[2]))
        return false;
    if (civil->hour < 1 || civil->hour > 12)
        return bi_refuse(reading->error, "is no time: with am and pm the hours are 1 to 12");
    civil->hour = civil->hour % 12 + (pm ? 12 : 0);
    reading->at = at + 2;
    return true;
}

static bool check_time(struct reading *reading)
{
    const struct civil *civil = &reading->civil;
    if (civil->hour == 24 && civil->minute == 0)
        return bi_refuse(reading->error, "is no time: 24:00 is 0:00 of the next day");
    if (civil->hour > 23)
        return bi_refuse(reading->error, "is no time: the hours are 0 to 23");
    if (civil->minute > 59 || civil->second > 59)
        return bi_refuse(reading->error, "is no time: minutes and seconds are 00 to 59");
    return true;
}

/* 18:30, 18:30:15.250, 9:00, 9am, 9:00 pm */
static bool take_clock(struct reading *reading)
{
    struct civil *civil = &reading->civil;
    const char *at = reading->at;
    int size = is_digit(at[0]) && is_digit(at[1]) ? 2 : 1;
    civil->minute = civil->second = reading->ms = 0;
    if (!digits(at, size, &civil->hour))
        return false;
    at += size;
    if (take_half(reading, at))
        return true;
    if (at[0] != ':' || !digits(at + 1, 2, &civil->minute))
        return false;
    at += 3;
    if (at[0] == ':' && digits(at + 1, 2, &civil->second))
        at = take_fraction(at + 3, &reading->ms);
    if (!check_time(reading))
        return false;
    if (!take_half(reading, at))
        reading->at = at;
    return reading->error[0] == 0;
}

static bool take_named_time(struct reading *reading)
{
    bool noon = take_word(reading, "noon");
    if (!noon && !take_word(reading, "midnight"))
        return false;
    reading->civil.hour = noon ? 12 : 0;
    reading->civil.minute = reading->civil.second = reading->ms = 0;
    return true;
}

static bool take_time(struct reading *reading)
{
    if (reading->has_time)
        return false;
    if (reading->day != DAY_NONE)
        take_word(reading, "at");
    reading->at += strspn(reading->at, " ");
    reading->has_time = take_clock(reading) || take_named_time(reading);
    return reading->has_time;
}

/* ---- zones ---- */

/* +01:00, +0100, +01 */
static bool take_offset(struct reading *reading)
{
    const char *at = reading->at;
    int sign = at[0] == '-' ? -1 : 1, hours, minutes = 0, both, size = 3;
    if (at[0] != '+' && at[0] != '-')
        return false;
    if (digits(at + 1, 4, &both)) {
        hours = both / 100;
        minutes = both % 100;
        size = 5;
    } else if (!digits(at + 1, 2, &hours)) {
        return false;
    } else if (at[3] == ':' && digits(at + 4, 2, &minutes)) {
        size = 6;
    }
    if (hours * 60 + minutes > 14 * 60 || minutes > 59)
        return bi_refuse(reading->error, "is no time: zones are -14:00 to +14:00");
    reading->zone = (struct zone){.fixed = true, .offset_s = sign * (hours * 3600 + minutes * 60)};
    reading->at += size;
    return true;
}

/* Any other word may be the name of the user's own zone, as it was said to him. */
static bool take_zone_name(struct reading *reading)
{
    size_t size = strspn(reading->at, "abcdefghijklmnopqrstuvwxyz");
    if (size < 3 || size >= BI_ZONE_SIZE || is_word(reading->at[size]))
        return false;
    memcpy(reading->zone.name, reading->at, size);
    reading->at += size;
    return true;
}

static bool take_utc(struct reading *reading)
{
    if (!take_word(reading, "z") && !take_word(reading, "utc") && !take_word(reading, "gmt"))
        return false;
    reading->zone = (struct zone){.fixed = true};
    return true;
}

/* Behind a time only: a day has many zones, and begins in each at another moment. */
static bool take_zone(struct reading *reading)
{
    if (!reading->has_time || reading->has_zone)
        return false;
    reading->has_zone = take_utc(reading) || take_offset(reading) || take_zone_name(reading);
    return reading->has_zone;
}

/* ---- which moment it is ---- */

static bool no_moment(char *error)
{
    return bi_refuse(error, "is no time: write 18:30, \"tomorrow 9:00\", 2026-12-25T18:30 or +2h");
}

static bool check_range(int64_t ms, int64_t *at_ms, char *error)
{
    if (ms < 1)
        return bi_refuse(error, "is too long ago: times begin with 1970");
    if (ms > BIDE_WHEN_MAX_MS)
        return bi_refuse(error, "is too far away: times end with 2199");
    *at_ms = ms;
    return true;
}

static enum bi_found look_up(const struct reading *reading, const struct civil *civil,
                             int64_t from_s, int64_t *at_s)
{
    return reading->has_time ? bi_civil_moment(&reading->zone, civil, from_s, at_s)
                             : bi_civil_day(&reading->zone, civil, at_s);
}

static bool refuse_found(const struct reading *reading, enum bi_found found,
                         const struct civil *civil)
{
    if (found == BI_OTHER_ZONE)
        return bi_refuse(reading->error,
                         "names a zone that is not yours then: write its hours, as in +01:00");
    if (!reading->has_time)
        return bi_refuse(reading->error, "is no date: your time zone has left out that day");
    return bi_refuse(
        reading->error,
        "is no time: on %04d-%02d-%02d the clocks go forward, and %02d:%02d is skipped",
        civil->year, civil->month, civil->day, civil->hour, civil->minute);
}

/* A day that is known: its moment may be past. */
static bool on_day(const struct reading *reading, const struct civil *civil, int64_t *at_s)
{
    enum bi_found found = look_up(reading, civil, INT64_MIN, at_s);
    return found == BI_FOUND || refuse_found(reading, found, civil);
}

/* The next one that is not past, from today until a week from now. */
static bool next_one(const struct reading *reading, const struct civil *today, int weekday,
                     int64_t from_s, int64_t *at_s)
{
    for (int ahead = 0; ahead <= 8; ahead++) {
        struct civil civil = bi_civil_later(today, ahead);
        if (reading->day == DAY_OF_WEEK && (weekday + ahead) % 7 != reading->ahead)
            continue;
        enum bi_found found = look_up(reading, &civil, from_s, at_s);
        if (found == BI_OTHER_ZONE || *at_s < from_s)
            continue;
        return found == BI_FOUND || refuse_found(reading, found, &civil);
    }
    return refuse_found(reading, BI_OTHER_ZONE, today);
}

static bool find(const struct reading *reading, int64_t now_ms, int64_t *at_ms)
{
    struct civil today;
    int weekday;
    int64_t at_s, from_s = (now_ms - reading->ms + 999) / 1000;
    bool found;
    if (!bi_civil_at(&reading->zone, now_ms / 1000, &today, &weekday))
        return no_moment(reading->error);
    today.hour = reading->civil.hour;
    today.minute = reading->civil.minute;
    today.second = reading->civil.second;
    if (reading->day == DAY_DATE) {
        found = on_day(reading, &reading->civil, &at_s);
    } else if (reading->day == DAY_AHEAD) {
        today = bi_civil_later(&today, reading->ahead);
        found = on_day(reading, &today, &at_s);
    } else {
        found = next_one(reading, &today, weekday, from_s, &at_s);
    }
    return found && check_range(at_s * 1000 + reading->ms, at_ms, reading->error);
}

static bool read_parts(const char *text, int64_t now_ms, int64_t *at_ms, char *error)
{
    static part *const parts[] = {take_day, take_time, take_zone};
    struct reading reading = {.at = text, .error = error};
    error[0] = 0;
    while (*reading.at != 0) {
        size_t i = 0;
        while (i < COUNT(parts) && error[0] == 0 && !parts[i](&reading))
            i++;
        if (error[0] != 0)
            return false;
        if (i == COUNT(parts))
            return no_moment(error);
        reading.at += strspn(reading.at, " ");
    }
    return find(&reading, now_ms, at_ms);
}

/* ---- those that need no calendar ---- */

static bool from_now(const char *duration, int sign, int64_t now_ms, int64_t *at_ms, char *error)
{
    int64_t ms;
    return bi_duration_read(duration, &ms, error) && check_range(now_ms + sign * ms, at_ms, error);
}

static bool read_seconds(const char *text, int64_t *at_ms, char *error)
{
    int64_t seconds = 0;
    int ms;
    if (!is_digit(*text))
        return no_moment(error);
    for (; is_digit(*text); text++)
        if (seconds <= BIDE_WHEN_MAX_MS)
            seconds = seconds * 10 + (*text - '0');
    text = take_fraction(text, &ms);
    if (*text != 0)
        return no_moment(error);
    if (seconds > BIDE_WHEN_MAX_MS / 1000)
        seconds = BIDE_WHEN_MAX_MS / 1000 + 1;
    return check_range(seconds * 1000 + ms, at_ms, error);
}

/* Small letters, single spaces, none at the ends. */
static bool tidy(const char *text, char *to)
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

bool bi_moment_read(const char *text, int64_t now_ms, int64_t *at_ms, char *error)
{
    char small[TEXT_SIZE] = "";
    int64_t ms;
    if (!tidy(text, small))
        return no_moment(error);
    size_t size = strlen(small);
    if (strcmp(small, "now") == 0)
        return check_range(now_ms, at_ms, error);
    if (small[0] == '@')
        return read_seconds(small + 1, at_ms, error);
    if (small[0] == '+')
        return from_now(small + 1, 1, now_ms, at_ms, error);
    if (strncmp(small, "in ", 3) == 0)
        return from_now(small + 3, 1, now_ms, at_ms, error);
    if (size > 4 && strcmp(small + size - 4, " ago") == 0) {
        small[size - 4] = 0;
        return from_now(small, -1, now_ms, at_ms, error);
    }
    if (bi_duration_read(small, &ms, error))
        return bi_refuse(error, "is a duration: write +%.20s or \"in %.20s\"", small, small);
    return read_parts(small, now_ms, at_ms, error);
}
