/* SPDX-License-Identifier: MIT */
/*
 * when.c - durations, and moments said; moment.c reads these.
 */
#define _GNU_SOURCE /* strcasestr */
#include "cli/when.h"

#include <bide/job.h>
#include <string.h>
#include <time.h>

#define BILLION UINT64_C(1000000000)

struct unit {
    const char *names; /* with a space before and behind each */
    int64_t ms;
};

/* The largest first. */
static const struct unit units[] = {
    {" w week weeks ", 604800000},         {" d day days ", 86400000},
    {" h hr hrs hour hours ", 3600000},    {" m min mins minute minutes ", 60000},
    {" s sec secs second seconds ", 1000}, {" ms millisecond milliseconds ", 1},
};
#define UNITS (sizeof(units) / sizeof(units[0]))

/* ---- reading durations ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t");
}

/* A number as it is written: what is before the point, and billionths, rounded up. */
struct amount {
    uint64_t whole; /* at most BIDE_TIME_MAX_MS and one, which is too much of any unit */
    uint64_t billionths;
    bool fraction;
};

static const char *read_amount(const char *at, struct amount *amount)
{
    uint64_t place = BILLION;
    bool more = false;
    *amount = (struct amount){.whole = 0};
    for (; is_digit(*at); at++) {
        amount->whole = amount->whole * 10 + (uint64_t)(*at - '0');
        if (amount->whole > BIDE_TIME_MAX_MS)
            amount->whole = BIDE_TIME_MAX_MS + 1;
    }
    if (at[0] != '.' || !is_digit(at[1]))
        return at;
    for (at++; is_digit(*at); at++) {
        place /= 10;
        amount->billionths += place * (uint64_t)(*at - '0');
        more = more || (place == 0 && *at != '0');
    }
    amount->billionths += more;
    amount->fraction = true;
    return at;
}

/* The index of the unit that stands there; UNITS: none. */
static size_t find_unit(const char *at, size_t size)
{
    char word[20];
    if (size == 0 || size > sizeof(word) - 3)
        return UNITS;
    snprintf(word, sizeof(word), " %.*s ", (int)size, at);
    for (size_t i = 0; i < UNITS; i++)
        if (strcasestr(units[i].names, word) != NULL)
            return i;
    return UNITS;
}

static bool no_duration(char *error)
{
    return bi_refuse(error, "is no duration: write 250ms, 90s, 1h30m or 2d");
}

static bool too_long(char *error)
{
    return bi_refuse(error, "is too long: 136 years (49710d) are the most");
}

/* Adds one number with its unit; those that follow must be of units below it. */
static bool add_part(const char **at, size_t *below, int64_t *total, char *error)
{
    struct amount amount;
    if (!is_digit(**at))
        return no_duration(error);
    const char *word = skip_spaces(read_amount(*at, &amount));
    size_t size = 0;
    while (is_letter(word[size]))
        size++;
    size_t unit = find_unit(word, size);
    if (unit == UNITS || unit < *below)
        return no_duration(error);
    uint64_t ms = (uint64_t)units[unit].ms;
    if (amount.whole > BIDE_TIME_MAX_MS / ms)
        return too_long(error);
    *total += (int64_t)(amount.whole * ms + (amount.billionths * ms + BILLION - 1) / BILLION);
    *below = amount.fraction ? UNITS : unit + 1;
    *at = skip_spaces(word + size);
    return *total <= BIDE_TIME_MAX_MS || too_long(error);
}

/* A number without a unit: 0 is the same in all of them. */
static bool read_bare(const char *at, int64_t *ms, char *error)
{
    if (at[strspn(at, "0 \t")] != 0)
        return bi_refuse(error,
                         "has no unit: write 90s for seconds, 90m for minutes, or 90ms, 90h, 90d");
    *ms = 0;
    return true;
}

bool bi_duration_read(const char *text, int64_t *ms, char *error)
{
    const char *at = skip_spaces(text);
    int64_t total = 0;
    size_t below = 0, digits = strspn(at, "0123456789");
    if (digits > 0 && *skip_spaces(at + digits) == 0)
        return read_bare(at, ms, error);
    do {
        if (!add_part(&at, &below, &total, error))
            return false;
    } while (*at != 0);
    *ms = total;
    return true;
}

/* ---- saying ---- */

static void say_units(char *to, size_t room, uint64_t ms)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } said[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {"", 1}};
    int i = 0;
    while (i < 4 && ms < said[i].ms)
        i++;
    uint64_t rest = ms % said[i].ms / said[i + 1].ms;
    if (ms == 0)
        snprintf(to, room, "0s");
    else if (rest == 0)
        snprintf(to, room, "%llu%s", (unsigned long long)(ms / said[i].ms), said[i].name);
    else
        snprintf(to, room, "%llu%s%llu%s", (unsigned long long)(ms / said[i].ms), said[i].name,
                 (unsigned long long)rest, said[i + 1].name);
}

void bi_duration_say(char *to, int64_t ms)
{
    if (ms >= 0) {
        say_units(to, BI_WHEN_SIZE, (uint64_t)ms);
        return;
    }
    to[0] = '-';
    say_units(to + 1, BI_WHEN_SIZE - 1, -(uint64_t)ms);
}

/* Seconds and milliseconds, of moments before 1970 too. */
static int64_t split(int64_t at_ms, int *ms)
{
    int64_t seconds = at_ms / 1000;
    *ms = (int)(at_ms % 1000);
    if (*ms < 0) {
        *ms += 1000;
        seconds--;
    }
    return seconds;
}

static bool say_local(char *to, int64_t at_ms, struct tm *tm)
{
    int ms;
    char fraction[8] = "";
    time_t seconds = split(at_ms, &ms);
    if (localtime_r(&seconds, tm) == NULL) {
        snprintf(to, BI_WHEN_SIZE, "%lld ms", (long long)at_ms);
        return false;
    }
    if (ms != 0)
        snprintf(fraction, sizeof(fraction), ".%03d", ms);
    snprintf(to, BI_WHEN_SIZE, "%04d-%02d-%02d %02d:%02d:%02d%s %.12s", tm->tm_year + 1900,
             tm->tm_mon + 1, tm->tm_mday, tm->tm_hour, tm->tm_min, tm->tm_sec, fraction,
             tm->tm_zone);
    return true;
}

void bi_moment_say(char *to, int64_t at_ms)
{
    struct tm tm;
    say_local(to, at_ms, &tm);
}

/* How far it is from now; its own words for each direction. Whoever has said "now" has said it a
 * moment ago. */
static void say_distance(char *to, size_t room, int64_t at_ms, int64_t now_ms)
{
    char duration[BI_WHEN_SIZE];
    bool past = at_ms < now_ms;
    bi_duration_say(duration, past ? now_ms - at_ms : at_ms - now_ms);
    if (at_ms <= now_ms && now_ms - at_ms < 1000)
        snprintf(to, room, "now");
    else
        snprintf(to, room, "%s%.20s%s", past ? "" : "in ", duration, past ? " ago" : "");
}

void bi_moment_confirm(char *to, int64_t at_ms, int64_t now_ms)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    char moment[BI_WHEN_SIZE], distance[40], offset[16] = "";
    struct tm tm;
    say_distance(distance, sizeof(distance), at_ms, now_ms);
    if (!say_local(moment, at_ms, &tm)) {
        snprintf(to, BI_WHEN_SIZE, "%.30s, %.30s", moment, distance);
        return;
    }
    long minutes = tm.tm_gmtoff / 60;
    unsigned ahead = (unsigned)(minutes < 0 ? -minutes : minutes) % 6000;
    if (strcmp(tm.tm_zone, "UTC") != 0)
        snprintf(offset, sizeof(offset), " (UTC%c%02u:%02u)", minutes < 0 ? '-' : '+', ahead / 60,
                 ahead % 60);
    snprintf(to, BI_WHEN_SIZE, "%s %.38s%s, %.20s", days[tm.tm_wday], moment, offset, distance);
}

void bi_moment_stamp(char *to, int64_t at_ms)
{
    int ms;
    struct tm tm;
    time_t seconds = split(at_ms, &ms);
    if (gmtime_r(&seconds, &tm) == NULL) {
        snprintf(to, BI_WHEN_SIZE, "%lld ms", (long long)at_ms);
        return;
    }
    snprintf(to, BI_WHEN_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ms);
}
