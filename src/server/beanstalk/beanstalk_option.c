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

static struct reader reader_of(bide_slice value)
{
    return (struct reader){value.data, (const char *)value.data + value.size};
}

/* ---- values ---- */

/* Each function parses a value into the member of the command that its row names. */

static bool set_duration(struct command *command, void *member, bide_slice value)
{
    struct reader reader = reader_of(value);
    (void)command;
    return value.size > 0 && bi_beanstalk_field_duration(&reader, member) && at_end(&reader);
}

static bool set_positive_duration(struct command *command, void *member, bide_slice value)
{
    return set_duration(command, member, value) && *(const int64_t *)member > 0;
}

/* As in a put, 0 is one second. */
static bool set_ttr(struct command *command, void *member, bide_slice value)
{
    int64_t *ttr_ms = member;
    if (!set_duration(command, ttr_ms, value))
        return false;
    if (*ttr_ms == 0)
        *ttr_ms = 1000;
    return true;
}

static bool parse_number(bide_slice value, uint64_t max, int64_t *number)
{
    struct reader reader = reader_of(value);
    uint64_t parsed;

    if (!bi_beanstalk_field_digits(&reader, max, &parsed) || !at_end(&reader))
        return false;
    *number = (int64_t)parsed;
    return true;
}

static bool set_datetime(struct command *command, void *member, bide_slice value)
{
    (void)command;
    return parse_number(value, BIDE_TIMESTAMP_MAX_MS, member);
}

static bool set_priority(struct command *command, void *member, bide_slice value)
{
    (void)command;
    return parse_number(value, UINT32_MAX, member);
}

static bool set_retries(struct command *command, void *member, bide_slice value)
{
    int64_t number;
    (void)command;
    if (!parse_number(value, INT32_MAX, &number))
        return false;
    *(int32_t *)member = (int32_t)number;
    return true;
}

static bool set_key(struct command *command, void *member, bide_slice value)
{
    return decode_text(command, value, BIDE_KEY_MAX, member);
}

static bool set_text(struct command *command, void *member, bide_slice value)
{
    return decode_text(command, value, BIDE_TEXT_MAX, member);
}

static bool set_conflict(struct command *command, void *member, bide_slice value)
{
    bool replaces = bi_beanstalk_field_equals(value, "replace");
    (void)member;
    command->put.conflict = replaces ? BIDE_REPLACE : BIDE_REJECT;
    return replaces || bi_beanstalk_field_equals(value, "reject");
}

static bool set_hold(struct command *command, void *member, bide_slice value)
{
    (void)command;
    *(bool *)member = true;
    return bi_beanstalk_field_equals(value, "retained");
}

/* BASE or BASE,MAX. */
static bool set_backoff(struct command *command, void *member, bide_slice value)
{
    struct reader reader = reader_of(value);
    if (value.size == 0 || !bi_beanstalk_field_duration(&reader, member))
        return false;
    if (at_end(&reader))
        return true;

    if (*reader.at++ != ',' || !at_digit(&reader))
        return false;
    return bi_beanstalk_field_duration(&reader, &command->put.backoff_max_ms) && at_end(&reader);
}

static bool set_tube(struct command *command, void *member, bide_slice value)
{
    (void)command;
    *(bide_slice *)member = value;
    return bi_beanstalk_field_is_name(value.data, value.size);
}

static bool set_cursor(struct command *command, void *member, bide_slice value)
{
    char *cursor = member;
    int size = decode(cursor, sizeof(command->cursor) - 1, value);
    if (size <= 0)
        return false;
    cursor[size] = 0;
    /* A decoded NUL would truncate the cursor, and list from another position. */
    return memchr(cursor, 0, (size_t)size) == NULL;
}

/* ---- the table ---- */

static const struct option {
    enum verb verb;
    const char *name;
    bool (*set)(struct command *command, void *member, bide_slice value);
    size_t at; /* of the member */
} options[] = {
#define AT(member) offsetof(struct command, member)
    {VERB_PUT, "key", set_key, AT(put.key)},
    {VERB_PUT, "conflict", set_conflict, AT(put.conflict)},
    {VERB_PUT, "hold", set_hold, AT(put.key_hold_retained)},
    {VERB_PUT, "retries", set_retries, AT(put.max_retries)},
    {VERB_PUT, "backoff", set_backoff, AT(put.backoff_base_ms)},
    {VERB_PUT, "expires", set_positive_duration, AT(expires_ms)},
    {VERB_PUT, "retain", set_duration, AT(put.retain_ms)},
    {VERB_PUT, "at", set_datetime, AT(put.run_at_ms)},
    {VERB_DONE, "retain", set_duration, AT(retain_ms)},
    {VERB_FAIL, "retry", set_duration, AT(delay_ms)},
    {VERB_UPDATE, "pri", set_priority, AT(update.priority)},
    {VERB_UPDATE, "delay", set_duration, AT(update.delay_ms)},
    {VERB_UPDATE, "at", set_datetime, AT(update.run_at_ms)},
    {VERB_UPDATE, "ttr", set_ttr, AT(update.ttr_ms)},
    {VERB_UPDATE, "tube", set_tube, AT(update.topic)},
    {VERB_LIST_JOBS, "cursor", set_cursor, AT(cursor)},
    {VERB_LIST_JOBS, "key", set_key, AT(filter.key)},
    {VERB_LIST_JOBS, "text", set_text, AT(filter.text)},
    {VERB_LIST_JOBS, "min-age", set_duration, AT(filter.min_age_ms)},
    {VERB_LIST_JOBS, "max-age", set_duration, AT(filter.max_age_ms)},
#undef AT
};

static bool set_option(struct command *command, enum verb verb, bide_slice word)
{
    const char *equals = memchr(word.data, '=', word.size);
    if (equals == NULL)
        return false;

    bide_slice name = {word.data, (size_t)(equals - (const char *)word.data)};
    bide_slice value = {equals + 1, word.size - name.size - 1};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].verb == verb && bi_beanstalk_field_equals(name, options[i].name))
            return options[i].set(command, (char *)command + options[i].at, value);
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
