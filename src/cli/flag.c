/* SPDX-License-Identifier: MIT */
#include "cli/flag.h"

#include "util/clock.h"
#include "util/datetime.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lookup ---- */

const struct flag *bi_flag_find_name(const struct flag_parser *parser, const char *name,
                                     size_t size)
{
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = parser->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            if (strncmp(flag->name, name, size) == 0 && flag->name[size] == 0)
                return flag;
    return NULL;
}

const struct flag *bi_flag_find_letter(const struct flag_parser *parser, char letter)
{
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = parser->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            if (flag->letter == letter)
                return flag;
    return NULL;
}

static bool reject_name(const struct flag_parser *parser, const char *name, size_t size,
                        char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;
    int shown = size < 60 ? (int)size : 60;

    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = parser->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            bi_suggest_consider(&suggestion, flag->name, name, size);
    if (suggestion.best == NULL)
        return bi_errmsg_set(error, "unknown flag --%.*s", shown, name);
    return bi_errmsg_set(error, "unknown flag --%.*s; did you mean --%s?", shown, name,
                         suggestion.best);
}

const char *bi_flag_next_choice(const char **at, size_t *size)
{
    const char *choice = *at;

    if (*choice == 0)
        return NULL;
    *size = strcspn(choice, "|");
    *at += *size + (choice[*size] == '|');
    return choice;
}

/* ---- parsing ---- */

static void mark_given(struct flag_parser *parser, const struct flag *flag)
{
    const struct flag *table = parser->tables[0];
    for (unsigned i = 0; table != NULL && table[i].name != NULL; i++) {
        assert(i < 64);
        if (&table[i] == flag)
            parser->given |= UINT64_C(1) << i;
    }
}

static bool set_flag(struct flag_parser *parser, const struct flag *flag, const char *text,
                     char *error)
{
    assert((text == NULL) == (flag->value_name == NULL));
    char reason[BI_ERRMSG_SIZE];

    mark_given(parser, flag);
    if (flag->parse(text, flag->to, reason))
        return true;
    return bi_errmsg_set(error, "--%s: \"%.100s\" %.300s", flag->name, text == NULL ? "" : text,
                         reason);
}

/* Parses the value of a flag: the given one, or the next argument. */
static bool parse_value(struct flag_parser *parser, const struct flag *flag, const char *given,
                        char *error)
{
    const char *text = given != NULL ? given : *parser->argv;

    if (text == NULL)
        return bi_errmsg_set(error, "--%s wants a value: --%s %s", flag->name, flag->name,
                             flag->value_name);
    if (given == NULL)
        parser->argv++;
    return set_flag(parser, flag, text, error);
}

static bool parse_long(struct flag_parser *parser, char *error)
{
    const char *name = *parser->argv++ + 2;
    size_t size = strcspn(name, "=");

    const struct flag *flag = bi_flag_find_name(parser, name, size);
    if (flag == NULL)
        return reject_name(parser, name, size, error);
    const char *given = name[size] == '=' ? name + size + 1 : NULL;
    if (flag->value_name != NULL)
        return parse_value(parser, flag, given, error);
    if (given != NULL)
        return bi_errmsg_set(error, "--%s takes no value", flag->name);
    return set_flag(parser, flag, NULL, error);
}

static bool parse_short(struct flag_parser *parser, char *error)
{
    for (const char *at = *parser->argv++ + 1; *at != 0; at++) {
        const struct flag *flag = bi_flag_find_letter(parser, *at);
        if (flag == NULL)
            return bi_errmsg_set(error, "unknown flag -%c", *at);
        if (flag->value_name != NULL)
            return parse_value(parser, flag, at[1] != 0 ? at + 1 : NULL, error);
        if (!set_flag(parser, flag, NULL, error))
            return false;
    }
    return true;
}

/* Takes the arguments after "--": words, or a program. */
static void parse_rest(struct flag_parser *parser)
{
    parser->argv++;
    if (parser->has_program) {
        parser->program = parser->argv;
        return;
    }
    while (*parser->argv != NULL)
        parser->words[parser->word_count++] = *parser->argv++;
}

bool bi_flag_parse_args(struct flag_parser *parser, char *error)
{
    for (const char *word; (word = *parser->argv) != NULL;) {
        bool good = true;
        if (strcmp(word, "--") == 0) {
            parse_rest(parser);
            break;
        }

        if (word[0] == '-' && word[1] == '-')
            good = parse_long(parser, error);
        else if (word[0] == '-' && word[1] != 0)
            good = parse_short(parser, error);
        else if (parser->stop_at_word)
            break;
        else
            parser->words[parser->word_count++] = *parser->argv++;
        if (!good)
            return false;
    }
    parser->words[parser->word_count] = NULL;
    return true;
}

/* ---- values ---- */

static bool parse_digits(const char *text, uint64_t max, uint64_t *number)
{
    char *end;

    if (text[0] == 0 || text[strspn(text, "0123456789")] != 0)
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || value > max)
        return false;
    *number = value;
    return true;
}

bool bi_flag_parse_bool(const char *text, void *to, char *error)
{
    (void)text;
    (void)error;
    *(bool *)to = true;
    return true;
}

bool bi_flag_parse_string(const char *text, void *to, char *error)
{
    (void)error;
    *(const char **)to = text;
    return true;
}

bool bi_flag_parse_slice(const char *text, void *to, char *error)
{
    (void)error;
    *(bide_slice *)to = (bide_slice){text, strlen(text)};
    return true;
}

bool bi_flag_parse_list(const char *text, void *to, char *error)
{
    struct words *words = to;
    if (words->count == BI_WORDS_MAX)
        return bi_errmsg_set(error, "is too many: at most %d are allowed", BI_WORDS_MAX);
    words->list[words->count++] = text;
    return true;
}

bool bi_flag_parse_count(const char *text, void *to, char *error)
{
    return parse_digits(text, UINT64_MAX, to) || bi_errmsg_set(error, "is not a number");
}

bool bi_flag_parse_id(const char *text, void *to, char *error)
{
    uint64_t id;
    if (!parse_digits(text, BIDE_ID_MAX, &id) || id == 0)
        return bi_errmsg_set(error, "is not a number from 1 to 2^53-1");
    *(uint64_t *)to = id;
    return true;
}

bool bi_flag_parse_priority(const char *text, void *to, char *error)
{
    uint64_t number;
    if (!parse_digits(text, UINT32_MAX, &number))
        return bi_errmsg_set(error, "is not a priority: 0 (most urgent) to 4294967295");
    *(int64_t *)to = (int64_t)number;
    return true;
}

bool bi_flag_parse_retries(const char *text, void *to, char *error)
{
    uint64_t number;

    if (strcmp(text, "unlimited") == 0 || strcmp(text, "forever") == 0) {
        *(int64_t *)to = BIDE_NO_RETRY_LIMIT;
        return true;
    }
    if (!parse_digits(text, INT32_MAX, &number))
        return bi_errmsg_set(error, "is neither a number of retries nor \"unlimited\"");
    *(int64_t *)to = (int64_t)number;
    return true;
}

bool bi_flag_parse_duration(const char *text, void *to, char *error)
{
    return bi_duration_parse(text, to, error);
}

bool bi_flag_parse_timeout(const char *text, void *to, char *error)
{
    if (strcmp(text, "forever") != 0)
        return bi_duration_parse(text, to, error);
    *(int64_t *)to = BIDE_FOREVER;
    return true;
}

bool bi_flag_parse_time(const char *text, void *to, char *error)
{
    return bi_datetime_parse(text, &bi_calendar_local, bi_clock_wall() / 1000, to, error);
}

bool bi_flag_parse_size(const char *text, void *to, char *error)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    char digits[24] = "";
    uint64_t number;
    size_t size = strspn(text, "0123456789");
    if (size < sizeof(digits))
        memcpy(digits, text, size);

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + size, units[i].unit) != 0)
            continue;
        if (!parse_digits(digits, UINT64_MAX >> units[i].shift, &number))
            break;
        *(uint64_t *)to = number << units[i].shift;
        return true;
    }
    return bi_errmsg_set(error, "is not a size: use bytes, or KiB, MiB, GiB");
}

bool bi_flag_parse_state(const char *text, void *to, char *error)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        if (strcmp(text, bide_state_name(state)) == 0) {
            *(bide_state *)to = state;
            return true;
        }
    }
    return bi_errmsg_set(error, "is not a state: delayed, ready, reserved, buried or done");
}
