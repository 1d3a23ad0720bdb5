/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk_field.h"

#include <string.h>

bool bi_beanstalk_field_digits(struct reader *reader, uint64_t max, uint64_t *value)
{
    if (!at_digit(reader))
        return false;

    uint64_t number = 0;
    for (; at_digit(reader); reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        /* Check before the multiplication: a wrapped number would pass as a small one. */
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }

    *value = number;
    return number <= max;
}

bool bi_beanstalk_field_u64(struct reader *reader, uint64_t *value)
{
    skip_spaces(reader);
    return bi_beanstalk_field_digits(reader, UINT64_MAX, value);
}

bool bi_beanstalk_field_u32(struct reader *reader, uint32_t *value)
{
    uint64_t number;
    skip_spaces(reader);
    if (!bi_beanstalk_field_digits(reader, UINT32_MAX, &number))
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
    if (!bi_beanstalk_field_digits(reader, 999, thousandths) || reader->at - begin > 3)
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

bool bi_beanstalk_field_duration(struct reader *reader, int64_t *ms)
{
    uint64_t whole;
    uint64_t thousandths = 0;
    uint64_t factor = 1000;

    skip_spaces(reader);
    if (!bi_beanstalk_field_digits(reader, UINT32_MAX, &whole))
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

bool bi_beanstalk_field_is_name_char(unsigned char c)
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
        if (!bi_beanstalk_field_is_name_char((unsigned char)name[i]))
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

bool bi_beanstalk_field_state(bide_slice word, bool any, bide_state *state)
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
