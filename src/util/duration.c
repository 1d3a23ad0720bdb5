/* SPDX-License-Identifier: MIT */
/*
 * duration.c - parses durations, and formats durations and datetimes; datetime.c parses those.
 */
#define _GNU_SOURCE /* strcasestr */
#include "util/datetime.h"

#include <assert.h>
#include <bide/job.h>
#include <string.h>
#include <time.h>

#define BILLION UINT64_C(1000000000)

/* The largest first. Weeks are parsed, but never printed. */
static const struct unit {
    const char *symbol;
    const char *names; /* each between spaces, for strcasestr() */
    uint64_t ms;
} units[] = {
    {"w", " w week weeks ", 604800000},         {"d", " d day days ", 86400000},
    {"h", " h hr hrs hour hours ", 3600000},    {"m", " m min mins minute minutes ", 60000},
    {"s", " s sec secs second seconds ", 1000}, {"ms", " ms millisecond milliseconds ", 1},
};
#define UNITS (sizeof(units) / sizeof(units[0]))

/* ---- parse ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t");
}

const char *bi_duration_parse_fraction(const char *at, int64_t scale, int64_t *fraction)
{
    bool inexact = false;
    *fraction = 0;
    if (at[0] != '.' || !bi_is_digit(at[1]))
        return at;

    /* Digits behind the last that fits have scale 0; any that is not 0 rounds up. */
    for (at++; bi_is_digit(*at); at++) {
        scale /= 10;
        *fraction += scale * (*at - '0');
        inexact = inexact || (scale == 0 && *at != '0');
    }
    *fraction += inexact;
    return at;
}

/* Returns the index of the unit with this name; UNITS: none. */
static size_t find_unit(const char *at, size_t size)
{
    char word[20];
    if (size == 0 || size > sizeof(word) - 3)
        return UNITS;

    /* Between spaces, so that "m" does not match the beginning of "min". */
    snprintf(word, sizeof(word), " %.*s ", (int)size, at);
    for (size_t i = 0; i < UNITS; i++)
        if (strcasestr(units[i].names, word) != NULL)
            return i;
    return UNITS;
}

static bool invalid_duration(char *error)
{
    return bi_errmsg_set(error, "is not a valid duration: write 250ms, 90s, 1h30m or 2d");
}

static bool duration_too_long(char *error)
{
    return bi_errmsg_set(error, "is too long: 136 years (49710d) are the most");
}

/* Adds one number with its unit. The parts that follow must have smaller units. */
static bool parse_part(const char **at, size_t *next_unit, int64_t *total, char *error)
{
    uint64_t whole = 0;
    int64_t billionths;
    const char *digits = *at;
    if (!bi_is_digit(*digits))
        return invalid_duration(error);

    /* Saturates at what is too much in any unit. */
    for (; bi_is_digit(*digits); digits++)
        if (whole <= BIDE_TIME_MAX_MS)
            whole = whole * 10 + (uint64_t)(*digits - '0');

    const char *end = bi_duration_parse_fraction(digits, BILLION, &billionths);
    const char *word = skip_spaces(end);
    size_t size = 0;
    while (is_letter(word[size]))
        size++;

    size_t unit = find_unit(word, size);
    if (unit == UNITS || unit < *next_unit)
        return invalid_duration(error);

    uint64_t ms = units[unit].ms;
    if (whole > BIDE_TIME_MAX_MS / ms)
        return duration_too_long(error);

    assert(*total >= 0 && billionths >= 0 && (uint64_t)billionths <= BILLION);
    /* Neither product can overflow: the first was just checked, and a week has fewer
     * milliseconds than a billion. */
    *total += (int64_t)(whole * ms + ((uint64_t)billionths * ms + BILLION - 1) / BILLION);

    /* A fraction ends the duration: no unit follows it. */
    *next_unit = end > digits ? UNITS : unit + 1;
    *at = skip_spaces(word + size);
    return *total <= BIDE_TIME_MAX_MS || duration_too_long(error);
}

/* A number without a unit. Only 0 is the same in all of them. */
static bool parse_bare_number(const char *at, int64_t *ms, char *error)
{
    if (at[strspn(at, "0 \t")] != 0)
        return bi_errmsg_set(
            error, "has no unit: write 90s for seconds, 90m for minutes, or 90ms, 90h, 90d");

    *ms = 0;
    return true;
}

bool bi_duration_parse(const char *text, int64_t *ms, char *error)
{
    const char *at = skip_spaces(text);
    int64_t total = 0;
    size_t next_unit = 0, digits = strspn(at, "0123456789");

    if (digits > 0 && *skip_spaces(at + digits) == 0)
        return parse_bare_number(at, ms, error);

    do {
        if (!parse_part(&at, &next_unit, &total, error))
            return false;
    } while (*at != 0);

    *ms = total;
    return true;
}

/* ---- format ---- */

void bi_duration_format(char *to, int64_t ms)
{
    /* Unsigned: the negation of the smallest int64_t is defined there. */
    uint64_t left = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    const struct unit *unit = &units[1];
    while (unit->ms > 1 && left < unit->ms)
        unit++;
    assert(unit < units + UNITS);

    int size = snprintf(to, BI_DATETIME_SIZE, "%s%llu%s", ms < 0 ? "-" : "",
                        (unsigned long long)(left / unit->ms), ms == 0 ? "s" : unit->symbol);
    uint64_t rest = unit->ms > 1 ? left % unit->ms / unit[1].ms : 0;
    if (rest > 0)
        snprintf(to + size, BI_DATETIME_SIZE - (size_t)size, "%llu%s", (unsigned long long)rest,
                 unit[1].symbol);
}

/* Splits into seconds and 0 to 999 milliseconds, also before 1970. */
static int64_t split_ms(int64_t at_ms, int *ms)
{
    int64_t seconds = at_ms / 1000;
    *ms = (int)(at_ms % 1000);
    if (*ms < 0) {
        *ms += 1000;
        seconds--;
    }
    return seconds;
}

/* "+01:00" */
static void format_offset(char *to, size_t room, const struct tm *tm)
{
    long minutes = tm->tm_gmtoff / 60;
    unsigned abs_minutes = (unsigned)(minutes < 0 ? -minutes : minutes) % 6000;
    snprintf(to, room, "%c%02u:%02u", minutes < 0 ? '-' : '+', abs_minutes / 60, abs_minutes % 60);
}

static bool format_in_zone(char *to, const struct zone *zone, int64_t at_ms, struct tm *tm)
{
    int ms;
    char fraction[8] = "", name[16];
    if (!bi_calendar_break_down(zone, split_ms(at_ms, &ms), tm)) {
        snprintf(to, BI_DATETIME_SIZE, "%lld ms", (long long)at_ms);
        return false;
    }

    if (ms != 0)
        snprintf(fraction, sizeof(fraction), ".%03d", ms);
    /* A fixed zone has no name but its offset. */
    if (zone->fixed && zone->offset_s != 0)
        format_offset(name, sizeof(name), tm);
    else
        snprintf(name, sizeof(name), "%.12s", zone->fixed ? "UTC" : tm->tm_zone);
    snprintf(to, BI_DATETIME_SIZE, "%04d-%02d-%02d %02d:%02d:%02d%s %s", tm->tm_year + 1900,
             tm->tm_mon + 1, tm->tm_mday, tm->tm_hour, tm->tm_min, tm->tm_sec, fraction, name);
    return true;
}

void bi_datetime_format(char *to, const struct zone *zone, int64_t at_ms)
{
    struct tm tm;
    format_in_zone(to, zone, at_ms, &tm);
}

/* Formats the distance from now. A time that passed less than a second ago is "now": the user
 * who wrote "now" wrote it a moment before. */
static void format_distance(char *to, size_t room, int64_t at_ms, int64_t now_ms)
{
    char duration[BI_DATETIME_SIZE];
    bool past = at_ms < now_ms;
    bi_duration_format(duration, past ? now_ms - at_ms : at_ms - now_ms);

    if (at_ms <= now_ms && now_ms - at_ms < 1000)
        snprintf(to, room, "now");
    else
        snprintf(to, room, "%s%.20s%s", past ? "" : "in ", duration, past ? " ago" : "");
}

void bi_datetime_describe(char *to, const struct zone *zone, int64_t at_ms, int64_t now_ms)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    char datetime[BI_DATETIME_SIZE], distance[40], offset[16], offset_text[24] = "";
    struct tm tm;

    format_distance(distance, sizeof(distance), at_ms, now_ms);
    if (!format_in_zone(datetime, zone, at_ms, &tm)) {
        snprintf(to, BI_DATETIME_SIZE, "%.30s, %.30s", datetime, distance);
        return;
    }

    format_offset(offset, sizeof(offset), &tm);
    if (!zone->fixed && strcmp(tm.tm_zone, "UTC") != 0)
        snprintf(offset_text, sizeof(offset_text), " (UTC%s)", offset);

    snprintf(to, BI_DATETIME_SIZE, "%s %.30s%s, %.20s", days[tm.tm_wday], datetime, offset_text,
             distance);
}

void bi_datetime_format_rfc3339(char *to, int64_t at_ms)
{
    int ms;
    struct tm tm;
    time_t seconds = split_ms(at_ms, &ms);
    if (gmtime_r(&seconds, &tm) == NULL) {
        snprintf(to, BI_DATETIME_SIZE, "%lld ms", (long long)at_ms);
        return;
    }

    snprintf(to, BI_DATETIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ms);
}
