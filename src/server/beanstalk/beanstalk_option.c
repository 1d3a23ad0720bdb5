/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_option - the options name=value of a command, as one table of verb and name.
 *
 * Keys, texts and cursors are percent-encoded, since values cannot contain spaces. They are decoded
 * into the command; other values point into the line.
 */
#include "server/beanstalk/beanstalk_field.h"

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

static bool parse_duration(bide_slice value, int64_t *ms)
{
    struct reader reader = reader_of(value);
    return value.size > 0 && bi_beanstalk_field_duration(&reader, ms) && at_end(&reader);
}

static bool parse_number(bide_slice value, uint64_t max, uint64_t *number)
{
    struct reader reader = reader_of(value);
    return bi_beanstalk_field_digits(&reader, max, number) && at_end(&reader);
}

static bool parse_datetime(bide_slice value, int64_t *ms)
{
    uint64_t number;
    if (!parse_number(value, BIDE_TIMESTAMP_MAX_MS, &number))
        return false;
    *ms = (int64_t)number;
    return true;
}

static bool set_key(struct command *command, bide_slice value)
{
    return decode_text(command, value, BIDE_KEY_MAX, &command->put.key);
}

static bool set_conflict(struct command *command, bide_slice value)
{
    command->put.conflict =
        bi_beanstalk_field_equals(value, "replace") ? BIDE_REPLACE : BIDE_REJECT;
    return bi_beanstalk_field_equals(value, "replace") ||
           bi_beanstalk_field_equals(value, "reject");
}

static bool set_hold(struct command *command, bide_slice value)
{
    command->put.key_hold_retained = true;
    return bi_beanstalk_field_equals(value, "retained");
}

static bool set_retries(struct command *command, bide_slice value)
{
    uint64_t number;
    if (!parse_number(value, INT32_MAX, &number))
        return false;
    command->put.max_retries = (int32_t)number;
    return true;
}

/* BASE or BASE,MAX. */
static bool set_backoff(struct command *command, bide_slice value)
{
    struct reader reader = reader_of(value);
    if (value.size == 0 || !bi_beanstalk_field_duration(&reader, &command->put.backoff_base_ms))
        return false;
    if (at_end(&reader))
        return true;

    if (*reader.at++ != ',' || !at_digit(&reader))
        return false;
    return bi_beanstalk_field_duration(&reader, &command->put.backoff_max_ms) && at_end(&reader);
}

static bool set_expires(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->expires_ms) && command->expires_ms > 0;
}

static bool set_put_retain(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->put.retain_ms);
}

static bool set_put_at(struct command *command, bide_slice value)
{
    return parse_datetime(value, &command->put.run_at_ms);
}

static bool set_retain(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->retain_ms);
}

static bool set_retry(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->delay_ms);
}

static bool set_pri(struct command *command, bide_slice value)
{
    uint64_t number;
    if (!parse_number(value, UINT32_MAX, &number))
        return false;
    command->update.priority = (int64_t)number;
    return true;
}

static bool set_delay(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->update.delay_ms);
}

static bool set_at(struct command *command, bide_slice value)
{
    return parse_datetime(value, &command->update.run_at_ms);
}

/* As in a put, 0 is one second. */
static bool set_ttr(struct command *command, bide_slice value)
{
    if (!parse_duration(value, &command->update.ttr_ms))
        return false;
    if (command->update.ttr_ms == 0)
        command->update.ttr_ms = 1000;
    return true;
}

static bool set_tube(struct command *command, bide_slice value)
{
    command->update.topic = value;
    return bi_beanstalk_field_is_name(value.data, value.size);
}

static bool set_cursor(struct command *command, bide_slice value)
{
    int size = decode(command->cursor, BIDE_CURSOR_SIZE - 1, value);
    if (size <= 0)
        return false;
    command->cursor[size] = 0;
    /* A decoded NUL would truncate the cursor, and list from another position. */
    return memchr(command->cursor, 0, (size_t)size) == NULL;
}

static bool set_filter_key(struct command *command, bide_slice value)
{
    return decode_text(command, value, BIDE_KEY_MAX, &command->filter.key);
}

static bool set_filter_text(struct command *command, bide_slice value)
{
    return decode_text(command, value, BIDE_TEXT_MAX, &command->filter.text);
}

static bool set_min_age(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->filter.min_age_ms);
}

static bool set_max_age(struct command *command, bide_slice value)
{
    return parse_duration(value, &command->filter.max_age_ms);
}

static const struct option {
    enum verb verb;
    const char *name;
    bool (*set)(struct command *command, bide_slice value);
} options[] = {
    {VERB_PUT, "key", set_key},
    {VERB_PUT, "conflict", set_conflict},
    {VERB_PUT, "hold", set_hold},
    {VERB_PUT, "retries", set_retries},
    {VERB_PUT, "backoff", set_backoff},
    {VERB_PUT, "expires", set_expires},
    {VERB_PUT, "retain", set_put_retain},
    {VERB_PUT, "at", set_put_at},
    {VERB_DONE, "retain", set_retain},
    {VERB_FAIL, "retry", set_retry},
    {VERB_UPDATE, "pri", set_pri},
    {VERB_UPDATE, "delay", set_delay},
    {VERB_UPDATE, "at", set_at},
    {VERB_UPDATE, "ttr", set_ttr},
    {VERB_UPDATE, "tube", set_tube},
    {VERB_LIST_JOBS, "cursor", set_cursor},
    {VERB_LIST_JOBS, "key", set_filter_key},
    {VERB_LIST_JOBS, "text", set_filter_text},
    {VERB_LIST_JOBS, "min-age", set_min_age},
    {VERB_LIST_JOBS, "max-age", set_max_age},
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
            return options[i].set(command, value);
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
