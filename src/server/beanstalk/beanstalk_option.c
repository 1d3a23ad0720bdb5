/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_option - the options name=value of a command, as one table of verb and name.
 *
 * Keys, texts and cursors are percent-encoded, since values cannot contain spaces. They are decoded
 * into the command; other values point into the line.
 */
#include "server/beanstalk/beanstalk_field.h"

#include <stddef.h>
#include <string.h>

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    /* strchr() would find the terminating zero of digits. */
    const char *at = c == 0 ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Percent-decodes value. Returns the number of bytes; -1: invalid, or more than room. */
static int decode(char *to, size_t room, bide_slice value)
{
    const char *from = value.data;
    size_t size = 0;

    for (size_t i = 0; i < value.size; i++) {
        if (size == room)
            return -1;
        if (from[i] != '%') {
            to[size++] = from[i];
            continue;
        }

        int high = i + 2 < value.size ? hex_digit(from[i + 1]) : -1;
        int low = i + 2 < value.size ? hex_digit(from[i + 2]) : -1;
        if (high < 0 || low < 0)
            return -1;
        to[size++] = (char)(high * 16 + low);
        i += 2;
    }
    return (int)size;
}

/* Decodes a value into the free part of command->text. An empty value is invalid. */
static bool decode_text(struct command *command, bide_slice value, size_t max, bide_slice *out)
{
    char *to = command->text + command->text_size;
    size_t room = sizeof(command->text) - command->text_size;
    int size = decode(to, room < max ? room : max, value);

    /* text is as large as the longest line, so all values of a line fit: only max is exceeded. */
    if (size <= 0)
        return false;

    command->text_size += (size_t)size;
    *out = (bide_slice){to, (size_t)size};
    return true;
}

/* ---- the table ---- */

enum value {
    DURATION,
    POSITIVE, /* a duration above 0 */
    TTR,      /* a duration; as in a put, 0 is one second */
    BACKOFF,  /* BASE or BASE,MAX: two durations */
    DATETIME, /* milliseconds since 1970 */
    PRIORITY,
    RETRIES,
    KEY,
    TEXT,
    CURSOR,
    TUBE,
    CONFLICT, /* replace or reject */
    HOLD,     /* retained */
};

/* The member that each value sets. */
#define DURATION_MEMBER int64_t
#define POSITIVE_MEMBER int64_t
#define TTR_MEMBER      int64_t
#define BACKOFF_MEMBER  int64_t /* base; max is the next member */
#define DATETIME_MEMBER int64_t
#define PRIORITY_MEMBER int64_t
#define RETRIES_MEMBER  int32_t
#define KEY_MEMBER      bide_slice
#define TEXT_MEMBER     bide_slice
#define CURSOR_MEMBER   char[BIDE_CURSOR_SIZE]
#define TUBE_MEMBER     bide_slice
#define CONFLICT_MEMBER bide_conflict
#define HOLD_MEMBER     bool

_Static_assert(offsetof(bide_put_options, backoff_max_ms) ==
                   offsetof(bide_put_options, backoff_base_ms) + sizeof(int64_t),
               "the maximum follows the base");

static const struct option {
    enum verb verb;
    const char *name;
    enum value value;
    size_t at; /* of the member of the command */
} options[] = {
/* Does not compile if the member has another size than the value: no array has a negative size. */
#define AT(value, member)               \
    (offsetof(struct command, member) + \
     0 * sizeof(char[sizeof(((struct command *)0)->member) == sizeof(value##_MEMBER) ? 1 : -1]))
    {VERB_PUT, "key", KEY, AT(KEY, put.key)},
    {VERB_PUT, "conflict", CONFLICT, AT(CONFLICT, put.conflict)},
    {VERB_PUT, "hold", HOLD, AT(HOLD, put.key_hold_retained)},
    {VERB_PUT, "retries", RETRIES, AT(RETRIES, put.max_retries)},
    {VERB_PUT, "backoff", BACKOFF, AT(BACKOFF, put.backoff_base_ms)},
    {VERB_PUT, "expires", POSITIVE, AT(POSITIVE, expires_ms)},
    {VERB_PUT, "retain", DURATION, AT(DURATION, put.retain_ms)},
    {VERB_PUT, "at", DATETIME, AT(DATETIME, put.run_at_ms)},
    {VERB_DONE, "retain", DURATION, AT(DURATION, retain_ms)},
    {VERB_FAIL, "retry", DURATION, AT(DURATION, delay_ms)},
    {VERB_UPDATE, "pri", PRIORITY, AT(PRIORITY, update.priority)},
    {VERB_UPDATE, "delay", DURATION, AT(DURATION, update.delay_ms)},
    {VERB_UPDATE, "at", DATETIME, AT(DATETIME, update.run_at_ms)},
    {VERB_UPDATE, "ttr", TTR, AT(TTR, update.ttr_ms)},
    {VERB_UPDATE, "tube", TUBE, AT(TUBE, update.topic)},
    {VERB_LIST_JOBS, "cursor", CURSOR, AT(CURSOR, cursor)},
    {VERB_LIST_JOBS, "key", KEY, AT(KEY, filter.key)},
    {VERB_LIST_JOBS, "text", TEXT, AT(TEXT, filter.text)},
    {VERB_LIST_JOBS, "min-age", DURATION, AT(DURATION, filter.min_age_ms)},
    {VERB_LIST_JOBS, "max-age", DURATION, AT(DURATION, filter.max_age_ms)},
#undef AT
};

/* ---- values ---- */

static bool parse_duration(enum value type, struct reader *reader, int64_t *ms)
{
    if (at_end(reader) || !bi_beanstalk_field_duration(reader, ms))
        return false;
    if (type == TTR && *ms == 0)
        *ms = 1000;

    if (type == BACKOFF && !at_end(reader)) {
        if (*reader->at++ != ',' || !at_digit(reader) ||
            !bi_beanstalk_field_duration(reader, ms + 1))
            return false;
    }
    return at_end(reader) && (type != POSITIVE || *ms > 0);
}

static bool parse_number(struct reader *reader, uint64_t max, int64_t *value)
{
    uint64_t number;
    if (!bi_beanstalk_field_digits(reader, max, &number) || !at_end(reader))
        return false;
    *value = (int64_t)number;
    return true;
}

static bool parse_value(struct command *command, const struct option *option, bide_slice value)
{
    struct reader reader = {value.data, (const char *)value.data + value.size};
    void *member = (char *)command + option->at;
    int64_t number;
    bool replaces;
    int size;

    switch (option->value) {
    case DURATION:
    case POSITIVE:
    case TTR:
    case BACKOFF:
        return parse_duration(option->value, &reader, member);
    case DATETIME:
        return parse_number(&reader, BIDE_TIMESTAMP_MAX_MS, member);
    case PRIORITY:
        return parse_number(&reader, UINT32_MAX, member);
    case RETRIES:
        if (!parse_number(&reader, INT32_MAX, &number))
            return false;
        *(int32_t *)member = (int32_t)number;
        return true;
    case KEY:
        return decode_text(command, value, BIDE_KEY_MAX, member);
    case TEXT:
        return decode_text(command, value, BIDE_TEXT_MAX, member);
    case CURSOR:
        size = decode(member, BIDE_CURSOR_SIZE - 1, value);
        if (size > 0)
            ((char *)member)[size] = 0;
        /* A decoded NUL would truncate the cursor, and list from another position. */
        return size > 0 && memchr(member, 0, (size_t)size) == NULL;
    case TUBE:
        *(bide_slice *)member = value;
        return bi_beanstalk_field_is_name(value.data, value.size);
    case CONFLICT:
        replaces = bi_beanstalk_field_equals(value, "replace");
        *(bide_conflict *)member = replaces ? BIDE_REPLACE : BIDE_REJECT;
        return replaces || bi_beanstalk_field_equals(value, "reject");
    case HOLD:
        *(bool *)member = true;
        return bi_beanstalk_field_equals(value, "retained");
    }
    return false;
}

static bool set_option(struct command *command, enum verb verb, bide_slice word)
{
    const char *equals = memchr(word.data, '=', word.size);
    if (equals == NULL)
        return false;

    bide_slice name = {word.data, (size_t)(equals - (const char *)word.data)};
    bide_slice value = {equals + 1, word.size - name.size - 1};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].verb == verb && bi_beanstalk_field_equals(name, options[i].name))
            return parse_value(command, &options[i], value);
    return false;
}

bool bi_beanstalk_option_parse(struct command *command, enum verb verb, struct reader *reader)
{
    while (!at_end(reader)) {
        bide_slice word = bi_beanstalk_field_word(reader);
        if (word.size == 0)
            return false;
        /* A repeated option replaces the value of the first. */
        if (!set_option(command, verb, word))
            return false;
    }
    return true;
}

bool bi_beanstalk_option_follows(const struct reader *reader)
{
    struct reader copy = *reader;
    if (at_end(reader) || *reader->at != ' ')
        return false;

    /* Decides between BAD_FORMAT (garbage, as in beanstalkd) and options that bide parses. */
    bide_slice word = bi_beanstalk_field_word(&copy);
    return word.size > 0 && memchr(word.data, '=', word.size) != NULL;
}

enum parse bi_beanstalk_option_parse_body(struct command *command, enum verb verb,
                                          struct reader *reader)
{
    if (at_end(reader))
        return PARSE_OK;

    if (!bi_beanstalk_option_follows(reader))
        return PARSE_BAD_FORMAT;
    return bi_beanstalk_option_parse(command, verb, reader) ? PARSE_OK : PARSE_BAD_OPTION;
}
