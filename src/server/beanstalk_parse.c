/* SPDX-License-Identifier: MIT */
#include "server/beanstalk_parse.h"

#include <limits.h>
#include <string.h>

struct reader {
    const char *at, *end;
};

/* ---- numbers, durations, names ---- */

static void skip_spaces(struct reader *reader)
{
    while (reader->at < reader->end && *reader->at == ' ')
        reader->at++;
}

static bool at_digit(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static bool at_end(const struct reader *reader)
{
    return reader->at == reader->end;
}

/* Digits, at most max. */
static bool take_digits(struct reader *reader, uint64_t max, uint64_t *value)
{
    if (!at_digit(reader))
        return false;
    uint64_t number = 0;
    for (; at_digit(reader); reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *value = number;
    return number <= max;
}

static bool take_u64(struct reader *reader, uint64_t *value)
{
    skip_spaces(reader);
    return take_digits(reader, UINT64_MAX, value);
}

static bool take_u32(struct reader *reader, uint32_t *value)
{
    uint64_t number;
    skip_spaces(reader);
    if (!take_digits(reader, UINT32_MAX, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

/* The digits behind a point, as thousandths. */
static bool take_fraction(struct reader *reader, uint64_t *thousandths)
{
    static const uint64_t scale[] = {0, 100, 10, 1};
    const char *begin = ++reader->at;
    if (!take_digits(reader, 999, thousandths) || reader->at - begin > 3)
        return false;
    *thousandths *= scale[reader->at - begin];
    return true;
}

static const struct {
    const char *name;
    size_t size;
    uint64_t ms;
} units[] = {{"ms", 2, 1}, {"s", 1, 1000}, {"m", 1, 60000}, {"h", 1, 3600000}, {"d", 1, 86400000}};

/* A unit, if there is one; then the field must end. */
static bool take_unit(struct reader *reader, uint64_t *factor)
{
    size_t left = (size_t)(reader->end - reader->at);
    *factor = 1000;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t size = units[i].size;
        if (left < size || memcmp(reader->at, units[i].name, size) != 0)
            continue;
        if (left > size && reader->at[size] != ' ' && reader->at[size] != ',')
            continue;
        *factor = units[i].ms;
        reader->at += size;
        break;
    }
    return true;
}

/* Seconds, or a number with a unit; longer than the queue's longest time is that. */
static bool take_duration(struct reader *reader, int64_t *ms)
{
    uint64_t whole;
    uint64_t thousandths = 0;
    uint64_t factor = 1000;
    skip_spaces(reader);
    if (!take_digits(reader, UINT32_MAX, &whole))
        return false;
    if (!at_end(reader) && *reader->at == '.' && !take_fraction(reader, &thousandths))
        return false;
    if (!at_end(reader) && *reader->at != ' ')
        take_unit(reader, &factor);
    uint64_t total = whole * factor + (thousandths * factor + 999) / 1000;
    *ms = total > (uint64_t)BIDE_TIME_MAX_MS ? BIDE_TIME_MAX_MS : (int64_t)total;
    return true;
}

static bool is_name_char(unsigned char c)
{
    static const char others[] = "-+/;.$_()";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr(others, c) != NULL);
}

bool bi_beanstalk_is_name(const char *name, size_t size)
{
    if (size == 0 || size > BIDE_TOPIC_MAX || name[0] == '-')
        return false;
    for (size_t i = 0; i < size; i++)
        if (!is_name_char((unsigned char)name[i]))
            return false;
    return true;
}

/* All bytes up to a space. */
static bide_slice take_word(struct reader *reader)
{
    skip_spaces(reader);
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at != ' ')
        reader->at++;
    return (bide_slice){begin, (size_t)(reader->at - begin)};
}

static bool is_word(bide_slice slice, const char *word)
{
    size_t size = strlen(word);
    return slice.size == size && memcmp(slice.data, word, size) == 0;
}

static bool state_of(bide_slice word, bool any, bide_state *state)
{
    if (any && is_word(word, "any")) {
        *state = BIDE_STATE_ANY;
        return true;
    }
    for (int i = BIDE_STATE_DELAYED; i <= BIDE_STATE_DONE; i++) {
        *state = (bide_state)i;
        if (is_word(word, bide_state_name(*state)))
            return true;
    }
    return false;
}

/* ---- options: name=value ---- */

static int hex_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == 0 ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Percent signs decoded into to; how many bytes, or -1. */
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
        int high = i + 2 < value.size ? hex_of(from[i + 1]) : -1;
        int low = i + 2 < value.size ? hex_of(from[i + 2]) : -1;
        if (high < 0 || low < 0)
            return -1;
        to[size++] = (char)(high * 16 + low);
        i += 2;
    }
    return (int)size;
}

/* Decoded behind what text already has. */
static bool take_text(struct command *command, bide_slice value, size_t max, bide_slice *out)
{
    char *to = command->text + command->text_size;
    size_t room = sizeof(command->text) - command->text_size;
    int size = decode(to, room < max ? room : max, value);
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

static bool whole_duration(bide_slice value, int64_t *ms)
{
    struct reader reader = reader_of(value);
    return value.size > 0 && take_duration(&reader, ms) && at_end(&reader);
}

static bool whole_number(bide_slice value, uint64_t max, uint64_t *number)
{
    struct reader reader = reader_of(value);
    return take_digits(&reader, max, number) && at_end(&reader);
}

static bool whole_moment(bide_slice value, int64_t *ms)
{
    uint64_t number;
    if (!whole_number(value, BIDE_WHEN_MAX_MS, &number))
        return false;
    *ms = (int64_t)number;
    return true;
}

static bool set_key(struct command *command, bide_slice value)
{
    return take_text(command, value, BIDE_KEY_MAX, &command->put.key);
}

static bool set_conflict(struct command *command, bide_slice value)
{
    command->put.conflict = is_word(value, "replace") ? BIDE_REPLACE : BIDE_REJECT;
    return is_word(value, "replace") || is_word(value, "reject");
}

static bool set_hold(struct command *command, bide_slice value)
{
    command->put.key_hold_retained = true;
    return is_word(value, "retained");
}

static bool set_retries(struct command *command, bide_slice value)
{
    uint64_t number;
    if (!whole_number(value, INT32_MAX, &number))
        return false;
    command->put.max_retries = (int32_t)number;
    return true;
}

/* BASE, or BASE,MAX */
static bool set_backoff(struct command *command, bide_slice value)
{
    struct reader reader = reader_of(value);
    if (value.size == 0 || !take_duration(&reader, &command->put.backoff_base_ms))
        return false;
    if (at_end(&reader))
        return true;
    if (*reader.at++ != ',' || !at_digit(&reader))
        return false;
    return take_duration(&reader, &command->put.backoff_max_ms) && at_end(&reader);
}

static bool set_expires(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->expires_ms) && command->expires_ms > 0;
}

static bool set_put_retain(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->put.retain_ms);
}

static bool set_put_at(struct command *command, bide_slice value)
{
    return whole_moment(value, &command->put.run_at_ms);
}

static bool set_retain(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->retain_ms);
}

static bool set_retry(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->delay_ms);
}

static bool set_pri(struct command *command, bide_slice value)
{
    uint64_t number;
    if (!whole_number(value, UINT32_MAX, &number))
        return false;
    command->update.priority = (int64_t)number;
    return true;
}

static bool set_delay(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->update.delay_ms);
}

static bool set_at(struct command *command, bide_slice value)
{
    return whole_moment(value, &command->update.run_at_ms);
}

/* As in a put, 0 is one second. */
static bool set_ttr(struct command *command, bide_slice value)
{
    if (!whole_duration(value, &command->update.ttr_ms))
        return false;
    if (command->update.ttr_ms == 0)
        command->update.ttr_ms = 1000;
    return true;
}

static bool set_tube(struct command *command, bide_slice value)
{
    command->update.topic = value;
    return bi_beanstalk_is_name(value.data, value.size);
}

static bool set_cursor(struct command *command, bide_slice value)
{
    int size = decode(command->cursor, BIDE_CURSOR_SIZE - 1, value);
    if (size <= 0)
        return false;
    command->cursor[size] = 0;
    return memchr(command->cursor, 0, (size_t)size) == NULL;
}

static bool set_filter_key(struct command *command, bide_slice value)
{
    return take_text(command, value, BIDE_KEY_MAX, &command->filter.key);
}

static bool set_filter_text(struct command *command, bide_slice value)
{
    return take_text(command, value, BIDE_TEXT_MAX, &command->filter.text);
}

static bool set_min_age(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->filter.min_age_ms);
}

static bool set_max_age(struct command *command, bide_slice value)
{
    return whole_duration(value, &command->filter.max_age_ms);
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
        if (options[i].verb == verb && is_word(name, options[i].name))
            return options[i].set(command, value);
    return false;
}

static bool take_options(struct command *command, enum verb verb, struct reader *reader)
{
    while (!at_end(reader)) {
        bide_slice word = take_word(reader);
        if (word.size == 0)
            return false;
        if (!set_option(command, verb, word))
            return false;
    }
    return true;
}

/* Does what follows look like options, and not like garbage? */
static bool at_options(const struct reader *reader)
{
    struct reader copy = *reader;
    if (at_end(reader) || *reader->at != ' ')
        return false;
    bide_slice word = take_word(&copy);
    return word.size > 0 && memchr(word.data, '=', word.size) != NULL;
}

static enum parse body_options(struct command *command, enum verb verb, struct reader *reader)
{
    if (at_end(reader))
        return PARSE_OK;
    if (!at_options(reader))
        return PARSE_BAD_FORMAT;
    return take_options(command, verb, reader) ? PARSE_OK : PARSE_BAD_OPTION;
}

/* ---- the verbs ---- */

static enum parse parse_put(struct command *command, struct reader *reader)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    command->put = init;
    command->expires_ms = 0;
    command->text_size = 0;
    if (!take_u32(reader, &command->put.priority) ||
        !take_duration(reader, &command->put.delay_ms) ||
        !take_duration(reader, &command->put.ttr_ms) || !take_u32(reader, &command->body_size))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    command->wants_body = true;
    if (command->put.ttr_ms == 0)
        command->put.ttr_ms = 1000;
    enum parse parse = body_options(command, VERB_PUT, reader);
    if (command->put.run_at_ms != 0 && command->put.delay_ms != 0 && parse == PARSE_OK)
        return PARSE_BAD_OPTION;
    return parse;
}

static enum parse parse_put_many(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->count) || !take_u32(reader, &command->body_size) ||
        !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    command->wants_body = true;
    bool fits = command->count >= 1 && command->count <= BIDE_BATCH_JOBS;
    return fits ? PARSE_OK : PARSE_BAD_OPTION;
}

/* Verbs without arguments. */
static enum parse parse_none(struct command *command, struct reader *reader)
{
    command->timeout_ms = BIDE_FOREVER;
    command->counted = at_end(reader);
    return at_end(reader) ? PARSE_OK : PARSE_BAD_FORMAT;
}

static enum parse parse_quit(struct command *command, struct reader *reader)
{
    (void)reader;
    command->counted = true;
    return PARSE_OK;
}

/* beanstalkd does not look at what follows the number. */
static enum parse parse_timeout(struct command *command, struct reader *reader)
{
    struct reader copy = *reader;
    uint32_t seconds;
    if (!take_u32(&copy, &seconds) || seconds > INT_MAX ||
        !take_duration(reader, &command->timeout_ms))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_id(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->id) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_release(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->id) || !take_u32(reader, &command->priority) ||
        !take_duration(reader, &command->delay_ms) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_bury(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->id) || !take_u32(reader, &command->priority) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

/* As strtoul() reads it, and then cut to 32 bits: that is what beanstalkd does. */
static enum parse parse_kick(struct command *command, struct reader *reader)
{
    while (!at_end(reader) && (*reader->at == ' ' || (*reader->at >= '\t' && *reader->at <= '\r')))
        reader->at++;
    bool minus = !at_end(reader) && *reader->at == '-';
    if (!at_end(reader) && (*reader->at == '-' || *reader->at == '+'))
        reader->at++;
    uint64_t number;
    if (!take_digits(reader, UINT64_MAX, &number))
        return PARSE_BAD_FORMAT;
    command->count = (uint32_t)(minus ? 0 - number : number);
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_name(struct command *command, struct reader *reader)
{
    command->name = (bide_slice){reader->at, (size_t)(reader->end - reader->at)};
    if (!bi_beanstalk_is_name(command->name.data, command->name.size))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_pause(struct command *command, struct reader *reader)
{
    skip_spaces(reader);
    const char *begin = reader->at;
    while (!at_end(reader) && is_name_char((unsigned char)*reader->at))
        reader->at++;
    command->name = (bide_slice){begin, (size_t)(reader->at - begin)};
    if (command->name.size == 0 || !take_duration(reader, &command->delay_ms) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return bi_beanstalk_is_name(command->name.data, command->name.size) ? PARSE_OK
                                                                        : PARSE_BAD_FORMAT;
}

static enum parse parse_reserve_many(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->count) || !take_duration(reader, &command->timeout_ms) ||
        !at_end(reader) || command->count == 0 || command->count > BIDE_BATCH_JOBS)
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

/* fail and done: an id, and bytes that follow. */
static enum parse parse_text(struct command *command, struct reader *reader)
{
    command->delay_ms = BIDE_KEEP;
    command->retain_ms = BIDE_KEEP;
    if (!take_u64(reader, &command->id) || !take_u32(reader, &command->body_size))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    command->wants_body = true;
    return body_options(command, command->verb, reader);
}

static enum parse parse_result(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->id))
        return PARSE_BAD_FORMAT;
    command->has_timeout = !at_end(reader);
    if (command->has_timeout && (!take_duration(reader, &command->timeout_ms) || !at_end(reader)))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_update(struct command *command, struct reader *reader)
{
    static const bide_update_args init = BIDE_UPDATE_INIT;
    command->update = init;
    if (!take_u64(reader, &command->id) || !at_options(reader) ||
        !take_options(command, VERB_UPDATE, reader))
        return PARSE_BAD_FORMAT;
    if (command->update.delay_ms != BIDE_KEEP && command->update.run_at_ms != BIDE_KEEP)
        return PARSE_BAD_FORMAT;
    command->update.id = command->id;
    command->counted = true;
    return PARSE_OK;
}

/* A tube, or * for all of them. */
static bool take_tube(struct command *command, struct reader *reader)
{
    command->name = take_word(reader);
    if (is_word(command->name, "*")) {
        command->name.size = 0;
        return true;
    }
    return bi_beanstalk_is_name(command->name.data, command->name.size);
}

static enum parse parse_list_jobs(struct command *command, struct reader *reader)
{
    command->filter = (bide_filter){0};
    command->cursor[0] = 0;
    command->text_size = 0;
    if (!take_tube(command, reader) || !state_of(take_word(reader), true, &command->state) ||
        !take_u64(reader, &command->count) || command->count == 0 ||
        command->count > BIDE_BATCH_JOBS)
        return PARSE_BAD_FORMAT;
    if (!at_end(reader) && (!at_options(reader) || !take_options(command, VERB_LIST_JOBS, reader)))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_purge(struct command *command, struct reader *reader)
{
    if (!take_tube(command, reader) || command->name.size == 0 ||
        !state_of(take_word(reader), false, &command->state) || !at_end(reader) ||
        command->state == BIDE_STATE_RESERVED)
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_call(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->tag))
        return PARSE_BAD_FORMAT;
    command->name = take_word(reader);
    if (!take_u32(reader, &command->body_size) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    command->wants_body = true;
    return PARSE_OK;
}

static enum parse parse_call_cancel(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->tag) || !at_end(reader))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_auth(struct command *command, struct reader *reader)
{
    command->name = (bide_slice){reader->at, (size_t)(reader->end - reader->at)};
    command->counted = true;
    return PARSE_OK;
}

static enum parse parse_lease(struct command *command, struct reader *reader);

/* ---- the table ---- */

enum {
    NEW = 1,   /* beanstalkd does not have it */
    SPACE = 2, /* a space must follow, else it is another word */
    LEASED = 4 /* can stand under `lease` */
};

static const struct {
    enum parse (*parse)(struct command *command, struct reader *reader);
    unsigned flags;
} verbs[VERB_COUNT] = {
    [VERB_PUT] = {parse_put, SPACE},
    [VERB_RESERVE] = {parse_none, 0},
    [VERB_DELETE] = {parse_id, SPACE | LEASED},
    [VERB_RESERVE_WITH_TIMEOUT] = {parse_timeout, SPACE},
    [VERB_RELEASE] = {parse_release, SPACE | LEASED},
    [VERB_BURY] = {parse_bury, SPACE | LEASED},
    [VERB_TOUCH] = {parse_id, SPACE | LEASED},
    [VERB_CALL] = {parse_call, NEW | SPACE},
    [VERB_RESERVE_MANY] = {parse_reserve_many, NEW | SPACE},
    [VERB_PUT_MANY] = {parse_put_many, NEW | SPACE},
    [VERB_LEASE] = {parse_lease, NEW | SPACE},
    [VERB_DONE] = {parse_text, NEW | SPACE | LEASED},
    [VERB_FAIL] = {parse_text, NEW | SPACE | LEASED},
    [VERB_USE] = {parse_name, SPACE},
    [VERB_WATCH] = {parse_name, SPACE},
    [VERB_IGNORE] = {parse_name, SPACE},
    [VERB_KICK] = {parse_kick, SPACE},
    [VERB_KICK_JOB] = {parse_id, SPACE},
    [VERB_PEEK] = {parse_id, SPACE},
    [VERB_PEEK_READY] = {parse_none, 0},
    [VERB_PEEK_DELAYED] = {parse_none, 0},
    [VERB_PEEK_BURIED] = {parse_none, 0},
    [VERB_RESERVE_JOB] = {parse_id, SPACE},
    [VERB_STATS] = {parse_none, 0},
    [VERB_STATS_JOB] = {parse_id, SPACE},
    [VERB_STATS_TUBE] = {parse_name, SPACE},
    [VERB_LIST_TUBES] = {parse_none, 0},
    [VERB_LIST_TUBE_USED] = {parse_none, 0},
    [VERB_LIST_TUBES_WATCHED] = {parse_none, 0},
    [VERB_PAUSE_TUBE] = {parse_pause, 0},
    [VERB_QUIT] = {parse_quit, 0},
    [VERB_RESULT] = {parse_result, NEW | SPACE},
    [VERB_UPDATE] = {parse_update, NEW | SPACE},
    [VERB_CANCEL] = {parse_id, NEW | SPACE},
    [VERB_LIST_JOBS] = {parse_list_jobs, NEW | SPACE},
    [VERB_PURGE_TUBE] = {parse_purge, NEW | SPACE},
    [VERB_CALL_CANCEL] = {parse_call_cancel, NEW | SPACE},
    [VERB_AUTH] = {parse_auth, NEW | SPACE},
};

static const struct {
    const char *word;
    size_t size;
} words[VERB_COUNT] = {
#define BEANSTALK_VERB_WORD(NAME, word) {word, sizeof(word) - 1},
    BEANSTALK_VERBS(BEANSTALK_VERB_WORD)
#undef BEANSTALK_VERB_WORD
};

const char *bi_beanstalk_word(enum verb verb)
{
    return verb < VERB_COUNT ? words[verb].word : "?";
}

/* Verbs that beanstalkd finds although more letters follow, in its order. */
static const enum verb prefixes[] = {
    VERB_PEEK_READY,         VERB_PEEK_DELAYED,   VERB_PEEK_BURIED, VERB_RESERVE, VERB_STATS,
    VERB_LIST_TUBES_WATCHED, VERB_LIST_TUBE_USED, VERB_LIST_TUBES,  VERB_QUIT,    VERB_PAUSE_TUBE,
};

static enum verb find_prefix(const struct reader *reader)
{
    size_t left = (size_t)(reader->end - reader->at);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t size = words[prefixes[i]].size;
        if (left >= size && memcmp(reader->at, words[prefixes[i]].word, size) == 0)
            return prefixes[i];
    }
    return VERB_NONE;
}

/* The verb that the line begins with. */
static enum verb find_verb(const struct reader *reader)
{
    size_t left = (size_t)(reader->end - reader->at);
    for (unsigned verb = 0; verb < VERB_COUNT; verb++) {
        size_t size = words[verb].size;
        if (left < size || memcmp(reader->at, words[verb].word, size) != 0)
            continue;
        bool space = left > size && reader->at[size] == ' ';
        if (space || (left == size && (verbs[verb].flags & SPACE) == 0))
            return (enum verb)verb;
    }
    return find_prefix(reader);
}

static enum parse parse_lease(struct command *command, struct reader *reader)
{
    if (!take_u64(reader, &command->token) || command->token == 0 || at_end(reader) ||
        *reader->at != ' ')
        return PARSE_BAD_FORMAT;
    skip_spaces(reader);
    enum verb verb = find_verb(reader);
    if (verb == VERB_NONE || (verbs[verb].flags & LEASED) == 0)
        return PARSE_BAD_FORMAT;
    command->verb = verb;
    command->leased = true;
    reader->at += words[verb].size + 1;
    return verbs[verb].parse(command, reader);
}

enum parse bi_beanstalk_parse(struct command *command, const char *line, size_t size)
{
    struct reader reader = {line, line + size};
    command->counted = command->wants_body = command->leased = command->has_timeout = false;
    command->body_size = 0;
    command->token = 0;
    command->verb = VERB_NONE;
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;
    enum verb verb = find_verb(&reader);
    if (verb == VERB_NONE)
        return PARSE_UNKNOWN;
    command->verb = verb;
    reader.at += words[verb].size + ((verbs[verb].flags & SPACE) != 0);
    enum parse parse = verbs[verb].parse(command, &reader);
    /* beanstalkd never reads such a line. Only options make a put longer. */
    if (size + 2 > LINE_MAX_OLD && (verbs[verb].flags & NEW) == 0 &&
        (verb != VERB_PUT || memchr(line, '=', size) == NULL)) {
        command->counted = command->wants_body = false;
        return PARSE_BAD_FORMAT;
    }
    return parse;
}

enum parse bi_beanstalk_parse_item(struct command *command, const char *line, size_t size)
{
    struct reader reader = {line, line + size};
    command->verb = VERB_PUT;
    command->body_size = UINT32_MAX;
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;
    return parse_put(command, &reader);
}

size_t bi_beanstalk_line_max(const char *line, size_t size)
{
    struct reader reader = {line, line + size};
    enum verb verb = find_verb(&reader);
    bool more = verb != VERB_NONE && (verb == VERB_PUT || (verbs[verb].flags & NEW) != 0);
    return more ? LINE_MAX_MORE : LINE_MAX_OLD;
}
