/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk_field.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

static bool at_digit(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

/* Digits with a value of at most max. Does not skip spaces. */
static bool parse_digits(struct reader *reader, uint64_t max, uint64_t *value)
{
    const uint64_t most = UINT64_MAX / 10;
    const char *at = reader->at;
    uint64_t number = 0;

    for (; at < reader->end && *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        /* Check before the multiplication: a wrapped number would pass as a small one. */
        if (number >= most && (number > most || digit > UINT64_MAX % 10))
            return false;
        number = number * 10 + digit;
    }
    if (at == reader->at)
        return false;

    reader->at = at;
    *value = number;
    return number <= max;
}

bool bi_beanstalk_field_u64(struct reader *reader, uint64_t *value)
{
    skip_spaces(reader);
    return parse_digits(reader, UINT64_MAX, value);
}

bool bi_beanstalk_field_u32(struct reader *reader, uint32_t *value)
{
    uint64_t number;
    skip_spaces(reader);
    if (!parse_digits(reader, UINT32_MAX, &number))
        return false;

    *value = (uint32_t)number;
    return true;
}

/* Digits after the decimal point, as thousandths. */
static bool parse_fraction(struct reader *reader, uint64_t *thousandths)
{
    static const uint64_t scale[] = {0, 100, 10, 1};
    const char *begin = ++reader->at;

    /* At most three digits. Leading zeros count, so limiting the value is not enough. */
    if (!parse_digits(reader, 999, thousandths) || reader->at - begin > 3)
        return false;

    *thousandths *= scale[reader->at - begin];
    return true;
}

static const struct {
    const char *name;
    size_t size;
    uint64_t ms;
} units[] = {{"ms", 2, 1}, {"s", 1, 1000}, {"m", 1, 60000}, {"h", 1, 3600000}, {"d", 1, 86400000}};

/* An optional unit; seconds without one. A longer word is no unit and is left for the caller. */
static bool parse_unit(struct reader *reader, uint64_t *factor)
{
    size_t left = (size_t)(reader->end - reader->at);
    *factor = 1000;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t size = units[i].size;
        if (left < size || memcmp(reader->at, units[i].name, size) != 0)
            continue;
        /* A comma separates the two durations of the option backoff. */
        if (left > size && reader->at[size] != ' ' && reader->at[size] != ',')
            continue;

        *factor = units[i].ms;
        reader->at += size;
        break;
    }
    return true;
}

/* Seconds, or a number with a unit (ms, s, m, h, d); limited to BIDE_TIME_MAX_MS. */
static bool parse_duration(struct reader *reader, int64_t *ms)
{
    uint64_t whole;
    uint64_t thousandths = 0;
    uint64_t factor = 1000;

    skip_spaces(reader);
    if (!parse_digits(reader, UINT32_MAX, &whole))
        return false;

    if (!at_end(reader) && *reader->at == '.' && !parse_fraction(reader, &thousandths))
        return false;
    if (!at_end(reader) && *reader->at != ' ')
        parse_unit(reader, &factor);

    /* Cannot overflow: whole has 32 bits and a day 27. Rounded up, so that no time ends early. */
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

bool bi_beanstalk_field_is_name(const char *name, size_t size)
{
    /* As beanstalkd: a name must not begin with '-'. */
    if (size == 0 || size > BIDE_TOPIC_MAX || name[0] == '-')
        return false;

    for (size_t i = 0; i < size; i++)
        if (!is_name_char((unsigned char)name[i]))
            return false;
    return true;
}

bide_slice bi_beanstalk_field_word(struct reader *reader)
{
    skip_spaces(reader);
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at != ' ')
        reader->at++;
    return (bide_slice){begin, (size_t)(reader->at - begin)};
}

bool bi_beanstalk_field_equals(bide_slice slice, const char *word)
{
    size_t size = strlen(word);
    return slice.size == size && memcmp(slice.data, word, size) == 0;
}

/* "any" only if allowed. */
static bool parse_state(bide_slice word, bool any, bide_state *state)
{
    if (any && bi_beanstalk_field_equals(word, "any")) {
        *state = BIDE_STATE_ANY;
        return true;
    }

    /* Not GONE: such jobs do not exist. */
    for (int i = BIDE_STATE_DELAYED; i <= BIDE_STATE_DONE; i++) {
        *state = (bide_state)i;
        if (bi_beanstalk_field_equals(word, bide_state_name(*state)))
            return true;
    }
    return false;
}

/* ---- percent-encoded values ---- */

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

static bool decode_cursor(char *cursor, bide_slice value)
{
    int size = decode(cursor, BIDE_CURSOR_SIZE - 1, value);
    if (size <= 0)
        return false;
    cursor[size] = 0;
    /* A decoded NUL would truncate the cursor, and list from another position. */
    return memchr(cursor, 0, (size_t)size) == NULL;
}

/* ---- members of a command ---- */

/* As beanstalkd: parsed like strtoul() does, then truncated to 32 bits. */
static bool parse_kick_count(struct reader *reader, uint64_t *count)
{
    while (!at_end(reader) && (*reader->at == ' ' || (*reader->at >= '\t' && *reader->at <= '\r')))
        reader->at++;

    bool minus = !at_end(reader) && *reader->at == '-';
    if (!at_end(reader) && (*reader->at == '-' || *reader->at == '+'))
        reader->at++;

    uint64_t number;
    if (!parse_digits(reader, UINT64_MAX, &number))
        return false;

    *count = (uint32_t)(minus ? 0 - number : number);
    return true;
}

static bool parse_time(struct command *command, enum field_kind kind, struct reader *reader,
                       int64_t *ms)
{
    struct reader copy = *reader;
    uint32_t seconds;

    /* beanstalkd stores the seconds in an int, and rejects larger values. */
    if (kind == SECONDS && (!bi_beanstalk_field_u32(&copy, &seconds) || seconds > INT_MAX))
        return false;
    if (kind == MAY_TIMEOUT)
        command->has_timeout = !at_end(reader);
    if (kind == MAY_TIMEOUT && at_end(reader))
        return true;
    if (!parse_duration(reader, ms))
        return false;

    if (kind == TTR && *ms == 0)
        *ms = 1000;
    if (kind == BACKOFF && !at_end(reader))
        return *reader->at++ == ',' && at_digit(reader) && parse_duration(reader, ms + 1);
    return kind != POSITIVE || *ms > 0;
}

static bool parse_number(enum field_kind kind, struct reader *reader, void *member)
{
    const uint64_t max = kind == DATETIME  ? BIDE_TIMESTAMP_MAX_MS
                         : kind == RETRIES ? INT32_MAX
                                           : UINT32_MAX;
    uint64_t number;
    if (!parse_digits(reader, max, &number))
        return false;

    if (kind == RETRIES)
        *(int32_t *)member = (int32_t)number;
    else
        *(int64_t *)member = (int64_t)number;
    return true;
}

static bool parse_name(enum field_kind kind, struct reader *reader, bide_slice *name)
{
    bool to_end = kind == LINE || kind == NAME;
    if (!to_end)
        skip_spaces(reader);
    const char *begin = reader->at;

    while (!at_end(reader) &&
           (to_end ||
            (kind == NAME_CHARS ? is_name_char((unsigned char)*reader->at) : *reader->at != ' ')))
        reader->at++;
    *name = (bide_slice){begin, (size_t)(reader->at - begin)};

    if (kind == TUBE_OR_ALL && bi_beanstalk_field_equals(*name, "*")) {
        name->size = 0;
        return true;
    }
    if (kind == NAME_CHARS)
        return name->size > 0;
    return kind == WORD || kind == LINE || bi_beanstalk_field_is_name(begin, name->size);
}

/* done is the ending of a delete whose job is kept. */
static bool parse_ending(bide_finish_and_put_args *step, bide_slice word)
{
    static const struct {
        const char *word;
        bide_ending ending;
    } endings[] = {{"delete", BIDE_ENDING_FINISH},
                   {"done", BIDE_ENDING_FINISH},
                   {"release", BIDE_ENDING_RELEASE},
                   {"bury", BIDE_ENDING_BURY}};

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (!bi_beanstalk_field_equals(word, endings[i].word))
            continue;
        step->ending = endings[i].ending;
        step->finish.keep = i == 1;
        return true;
    }
    return false;
}

static bool parse_conflict(bide_conflict *conflict, bide_slice word)
{
    static const char *const words[] = {
        [BIDE_REJECT] = "reject", [BIDE_REPLACE] = "replace", [BIDE_SKIP] = "skip"};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        *conflict = (bide_conflict)i;
        if (bi_beanstalk_field_equals(word, words[i]))
            return true;
    }
    return false;
}

/* Words and percent-encoded values. */
static bool parse_word(struct command *command, enum field_kind kind, bide_slice word, void *member)
{
    switch (kind) {
    case STATE:
        return parse_state(word, false, member) && *(bide_state *)member != BIDE_STATE_RESERVED;
    case STATE_OR_ANY:
        return parse_state(word, true, member);
    case KEY:
        return decode_text(command, word, BIDE_KEY_MAX, member);
    case TEXT:
        return decode_text(command, word, BIDE_TEXT_MAX, member);
    case CURSOR:
        return decode_cursor(member, word);
    case CONFLICT:
        return parse_conflict(member, word);
    case ENDING:
        return parse_ending(&command->step, word);
    default:
        assert(kind == HOLD);
        *(bool *)member = true;
        return bi_beanstalk_field_equals(word, "retained");
    }
}

bool bi_beanstalk_field_parse(struct command *command, const struct field *field,
                              struct reader *reader)
{
    enum field_kind kind = field->kind;
    void *member = (char *)command + field->at;

    switch (kind) {
    case NONE:
        return true;
    case U32:
        return bi_beanstalk_field_u32(reader, member);
    case KICK_COUNT:
        return parse_kick_count(reader, member);
    case U64:
    case BATCH:
        return bi_beanstalk_field_u64(reader, member) &&
               (kind == U64 || bi_beanstalk_field_is_batch(*(const uint64_t *)member));
    case DURATION:
    case SECONDS:
    case MAY_TIMEOUT:
    case POSITIVE:
    case TTR:
    case BACKOFF:
        return parse_time(command, kind, reader, member);
    case DATETIME:
    case PRIORITY:
    case RETRIES:
        return parse_number(kind, reader, member);
    case WORD:
    case LINE:
    case NAME:
    case NAME_CHARS:
    case TUBE:
    case TUBE_OR_ALL:
        return parse_name(kind, reader, member);
    default:
        return parse_word(command, kind, bi_beanstalk_field_word(reader), member);
    }
}
