/* SPDX-License-Identifier: MIT */
#include "util/timezone_file.h"

#include "util/datetime.h"
#include "util/message.h"

#include <assert.h>
#include <bide/job.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S INT64_C(86400)

/* A rule becomes changes in these years. The first one is before 1970, because local time may be
 * behind UTC; the last one is behind BIDE_TIMESTAMP_MAX_MS. */
#define FIRST_YEAR 1968
#define LAST_YEAR  2201

/* Times beyond are damage: the database begins with -2^59, before the Big Bang. */
#define TIME_MAX (INT64_C(1) << 59)

/* ---- bytes ---- */

/* The rest of the file. */
struct input {
    const uint8_t *at;
    size_t left;
};

/* Consumes bytes; NULL if there are fewer. */
static const uint8_t *take(struct input *in, size_t size)
{
    const uint8_t *at = in->at;
    if (size > in->left)
        return NULL;
    in->at += size;
    in->left -= size;
    return at;
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* A signed number of 4 or 8 bytes. */
static int64_t be_signed(const uint8_t *at, size_t size)
{
    if (size == 4)
        return (int32_t)be32(at);
    return (int64_t)((uint64_t)be32(at) << 32 | be32(at + 4));
}

/* ---- the header ---- */

struct header {
    char version; /* 0, '2', '3' or '4' */
    size_t isut_count, isstd_count, leap_count, time_count, type_count, char_count;
};

#define HEADER_SIZE 44
#define TYPE_SIZE   6

static bool decode_header(struct input *in, struct header *header, char *error)
{
    const uint8_t *at = take(in, HEADER_SIZE);
    if (at == NULL || memcmp(at, "TZif", 4) != 0)
        return bi_errmsg_set(error, "is not in the format TZif");

    *header = (struct header){
        .version = (char)at[4],
        .isut_count = be32(at + 20),
        .isstd_count = be32(at + 24),
        .leap_count = be32(at + 28),
        .time_count = be32(at + 32),
        .type_count = be32(at + 36),
        .char_count = be32(at + 40),
    };
    if (header->type_count == 0 || header->type_count > 256 || header->char_count == 0 ||
        header->char_count > 256 || header->time_count > BI_TIMEZONE_FILE_MAX ||
        header->leap_count > BI_TIMEZONE_FILE_MAX || header->isut_count > header->type_count ||
        header->isstd_count > header->type_count)
        return bi_errmsg_set(error, "is damaged: its header is not valid");
    return true;
}

/* The size of the data behind a header whose times have time_size bytes. */
static size_t block_size(const struct header *header, size_t time_size)
{
    return header->time_count * (time_size + 1) + header->type_count * TYPE_SIZE +
           header->char_count + header->leap_count * (time_size + 4) + header->isstd_count +
           header->isut_count;
}

/* ---- the list of changes ---- */

/* What RFC 8536 allows in abbreviations. */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define SYMBOLS LETTERS "0123456789+-"

/* An abbreviation is a string within the bytes of the file. */
static bool is_abbreviation(const char *name, size_t room)
{
    size_t size = strnlen(name, room);
    return size > 0 && size < room && strspn(name, SYMBOLS) == size;
}

/* Checks a local time type and sets what a change to it means. */
static bool decode_type(const struct header *header, const uint8_t *types, const char *names,
                        size_t index, struct timezone_change *change)
{
    if (index >= header->type_count)
        return false;

    const uint8_t *type = types + index * TYPE_SIZE;
    int64_t offset_s = be_signed(type, 4);
    if (offset_s <= -BI_TIMEZONE_OFFSET_MAX || offset_s >= BI_TIMEZONE_OFFSET_MAX || type[4] > 1 ||
        type[5] >= header->char_count ||
        !is_abbreviation(names + type[5], header->char_count - type[5]))
        return false;

    change->offset_s = (int32_t)offset_s;
    change->is_dst = type[4] == 1;
    change->abbreviation = type[5];
    return true;
}

/* Appends a change, unless it changes nothing. */
static void append(struct timezone_rules *zone, const struct timezone_change *change)
{
    const struct timezone_change *last = zone->count == 0 ? NULL : &zone->changes[zone->count - 1];
    assert(last == NULL || change->at_s > last->at_s);

    if (last == NULL || change->offset_s != last->offset_s || change->is_dst != last->is_dst ||
        strcmp(zone->abbreviations + change->abbreviation,
               zone->abbreviations + last->abbreviation) != 0)
        zone->changes[zone->count++] = *change;
}

/* Decodes the block of data behind a header. *last_s: the time of the last change in it. */
static bool decode_block(struct input *in, const struct header *header, size_t time_size,
                         struct timezone_rules *zone, int64_t *last_s, char *error)
{
    const uint8_t *times = take(in, header->time_count * time_size);
    const uint8_t *indices = take(in, header->time_count);
    const uint8_t *types = take(in, header->type_count * TYPE_SIZE);
    const char *names = (const char *)take(in, header->char_count);
    struct timezone_change change = {.at_s = INT64_MIN};

    /* The caller has checked the size. */
    assert(times != NULL && indices != NULL && types != NULL && names != NULL);
    memcpy(zone->abbreviations, names, header->char_count);

    /* The first type applies before the first change. */
    if (!decode_type(header, types, names, 0, &change))
        return bi_errmsg_set(error, "is damaged: its first offset is not valid");
    append(zone, &change);

    for (size_t i = 0; i < header->time_count; i++) {
        int64_t at_s = be_signed(times + i * time_size, time_size);
        if (at_s < -TIME_MAX || at_s > TIME_MAX || (i > 0 && at_s <= *last_s) ||
            !decode_type(header, types, names, indices[i], &change))
            return bi_errmsg_set(error, "is damaged: its change %zu is not valid", i + 1);
        change.at_s = *last_s = at_s;
        append(zone, &change);
    }
    take(in, header->leap_count * (time_size + 4) + header->isstd_count + header->isut_count);
    return true;
}

/* ---- the rule for the times behind the last change ---- */

/* The day of a year on which clocks change, and the time of that day. */
struct rule_date {
    char form;       /* J: day 1 to 365, never February 29; N: day 0 to 365; M: see below */
    int day;         /* of M the day of the week, 0 to 6 */
    int month, week; /* M: 1 to 12; 1 to 5, 5 is the last one */
    int time_s;
};

struct rule {
    struct timezone_change standard, dst;
    bool has_dst;
    struct rule_date start, end;
};

static bool skip_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* Consumes a number of at most max. */
static bool parse_number(const char **at, int max, int *number)
{
    int value = 0;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > max)
            return false;
    }
    *number = value;
    return true;
}

/* [+-]H[:MM[:SS]] in seconds. */
static bool parse_time(const char **at, int hour_max, int *time_s)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes = 0, seconds = 0;
    if (**at == '-' || **at == '+')
        (*at)++;
    if (!parse_number(at, hour_max, &hours))
        return false;
    if (skip_char(at, ':') && (!parse_number(at, 59, &minutes) ||
                               (skip_char(at, ':') && !parse_number(at, 59, &seconds))))
        return false;
    *time_s = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

/* CET or <+0330>; appended to the abbreviations of the zone. */
static bool parse_abbreviation(const char **at, struct timezone_rules *zone, size_t *used,
                               uint16_t *abbreviation)
{
    bool quoted = skip_char(at, '<');
    size_t size = strspn(*at, quoted ? SYMBOLS : LETTERS);
    if (size < 3 || *used + size + 1 > sizeof(zone->abbreviations))
        return false;

    memcpy(zone->abbreviations + *used, *at, size);
    zone->abbreviations[*used + size] = 0;
    *abbreviation = (uint16_t)*used;
    *used += size + 1;
    *at += size;
    return !quoted || skip_char(at, '>');
}

/* ,M3.5.0/2 */
static bool parse_date(const char **at, struct rule_date *date)
{
    *date = (struct rule_date){.form = 'N', .time_s = 2 * 3600};
    bool valid = skip_char(at, ',');

    if (skip_char(at, 'M')) {
        date->form = 'M';
        valid = valid && parse_number(at, 12, &date->month) && date->month >= 1 &&
                skip_char(at, '.') && parse_number(at, 5, &date->week) && date->week >= 1 &&
                skip_char(at, '.') && parse_number(at, 6, &date->day);
    } else if (skip_char(at, 'J')) {
        date->form = 'J';
        valid = valid && parse_number(at, 365, &date->day) && date->day >= 1;
    } else {
        valid = valid && parse_number(at, 365, &date->day);
    }
    /* Up to a week either way, as version 3 of the format allows. */
    return valid && (!skip_char(at, '/') || parse_time(at, 167, &date->time_s));
}

/* The offset of a rule has the opposite sign: CET-1 is UTC plus one hour. */
static bool parse_offset(const char **at, struct timezone_change *change)
{
    int west_s;
    if (!parse_time(at, 24, &west_s))
        return false;
    change->offset_s = -west_s;
    return true;
}

static bool parse_rule(const char *at, size_t used, struct timezone_rules *zone, struct rule *rule)
{
    *rule = (struct rule){.dst.is_dst = true};
    if (!parse_abbreviation(&at, zone, &used, &rule->standard.abbreviation) ||
        !parse_offset(&at, &rule->standard))
        return false;
    if (*at == 0)
        return true;

    rule->has_dst = true;
    if (!parse_abbreviation(&at, zone, &used, &rule->dst.abbreviation))
        return false;
    rule->dst.offset_s = rule->standard.offset_s + 3600;
    if (*at != ',' && !parse_offset(&at, &rule->dst))
        return false;
    return parse_date(&at, &rule->start) && parse_date(&at, &rule->end) && *at == 0;
}

/* ---- the changes that follow from the rule ---- */

/* Local time, as seconds since 1970 as if it were UTC. */
static int64_t rule_time(const struct rule_date *date, int year)
{
    int64_t new_year = bi_calendar_days(year, 1, 1), day;
    bool is_leap = bi_calendar_days(year + 1, 1, 1) - new_year == 366;

    if (date->form == 'M') {
        int64_t first = bi_calendar_days(year, date->month, 1);
        int64_t behind = date->month == 12 ? bi_calendar_days(year + 1, 1, 1)
                                           : bi_calendar_days(year, date->month + 1, 1);
        int weekday = (int)(((first + 4) % 7 + 7) % 7); /* 1970 began with a Thursday */
        day = first + (date->day - weekday + 7) % 7 + 7 * (int64_t)(date->week - 1);
        while (day >= behind)
            day -= 7;
    } else {
        day = new_year + date->day;
        /* J60 is always March 1. */
        if (date->form == 'J' && !(is_leap && date->day >= 60))
            day--;
    }
    return day * DAY_S + date->time_s;
}

#define RULE_CHANGES (2 * (size_t)(LAST_YEAR - FIRST_YEAR + 1))

/* Appends the changes of all years behind last_s. */
static void apply_rule(const struct rule *rule, int64_t last_s, struct timezone_rules *zone)
{
    struct timezone_change changes[RULE_CHANGES];
    size_t count = 0;

    for (int year = FIRST_YEAR; year <= LAST_YEAR; year++) {
        const struct timezone_change both[] = {rule->dst, rule->standard};
        for (size_t i = 0; i < 2; i++) {
            struct timezone_change change = both[i];
            /* Each date is in the local time before the change. */
            change.at_s =
                rule_time(i == 0 ? &rule->start : &rule->end, year) - both[1 - i].offset_s;

            /* In the south a year begins with DST. Of two changes at the same time, which stand for
             * DST all year, the later one remains last. */
            size_t place = count++;
            for (; place > 0 && changes[place - 1].at_s > change.at_s; place--)
                changes[place] = changes[place - 1];
            changes[place] = change;
        }
    }

    for (size_t i = 0; i < count; i++)
        if (changes[i].at_s > last_s && (i + 1 == count || changes[i + 1].at_s > changes[i].at_s))
            append(zone, &changes[i]);
}

/* Decodes the last line. */
static bool decode_footer(struct input *in, const struct header *header, int64_t last_s,
                          struct timezone_rules *zone, char *error)
{
    char text[128];
    struct rule rule;
    const uint8_t *end = in->left < 2 ? NULL : memchr(in->at + 1, '\n', in->left - 1);
    size_t size = end == NULL ? 0 : (size_t)(end - in->at - 1);

    if (end == NULL || in->at[0] != '\n' || size >= sizeof(text) || memchr(in->at, 0, size + 1))
        return bi_errmsg_set(error, "is damaged: it does not end with a rule");
    memcpy(text, in->at + 1, size);
    text[size] = 0;

    /* Without a rule the last change applies for ever. */
    if (size == 0)
        return true;
    if (!parse_rule(text, header->char_count, zone, &rule))
        return bi_errmsg_set(error, "is damaged: its rule for later times is not valid");
    if (rule.has_dst)
        apply_rule(&rule, last_s, zone);
    return true;
}

/* ---- the file ---- */

/* Moves to the block that applies: from version 2 on it is the second one, with times of 8 bytes. */
static bool find_block(struct input *in, struct header *header, size_t *time_size, char *error)
{
    *time_size = 4;
    if (!decode_header(in, header, error))
        return false;

    if (header->version != 0) {
        *time_size = 8;
        if (take(in, block_size(header, 4)) == NULL)
            return bi_errmsg_set(error, "is truncated");
        if (!decode_header(in, header, error))
            return false;
    }
    if (block_size(header, *time_size) > in->left)
        return bi_errmsg_set(error, "is truncated");
    if (header->leap_count > 0)
        return bi_errmsg_set(error, "counts leap seconds, which the clock of the system does not");
    return true;
}

int bi_timezone_file_decode(const void *data, size_t size, struct timezone_rules **out, char *error)
{
    struct input in = {data, size};
    struct header header = {.version = 0};
    size_t time_size;
    int64_t last_s = INT64_MIN;

    if (size > BI_TIMEZONE_FILE_MAX)
        return bi_errmsg_fail(error, BIDE_EINVAL, "is too large: %zu bytes", size);
    if (!find_block(&in, &header, &time_size, error))
        return BIDE_EINVAL;

    size_t room = 1 + header.time_count + RULE_CHANGES;
    struct timezone_rules *zone = calloc(1, sizeof(*zone) + room * sizeof(zone->changes[0]));
    if (zone == NULL)
        return bi_errmsg_fail(error, BIDE_ENOMEM, "cannot be decoded: out of memory");

    if (!decode_block(&in, &header, time_size, zone, &last_s, error) ||
        (time_size == 8 && !decode_footer(&in, &header, last_s, zone, error))) {
        free(zone);
        return BIDE_EINVAL;
    }
    assert(zone->count >= 1 && zone->count <= room && zone->changes[0].at_s == INT64_MIN);
    /* Most zones have no rule, and need little of the room. */
    struct timezone_rules *small =
        realloc(zone, sizeof(*zone) + zone->count * sizeof(zone->changes[0]));
    *out = small != NULL ? small : zone;
    return 0;
}
