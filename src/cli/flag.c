/* SPDX-License-Identifier: MIT */
#include "cli/flag.h"

#include "util/suggest.h"

#include <string.h>

/* ---- finding ---- */

static const struct flag *find_name(const struct flag_parser *parser, const char *name, size_t size)
{
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = parser->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            if (strncmp(flag->name, name, size) == 0 && flag->name[size] == 0)
                return flag;
    return NULL;
}

static const struct flag *find_letter(const struct flag_parser *parser, char letter)
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
        return bi_errmsg_set(error, "there is no flag --%.*s", shown, name);
    return bi_errmsg_set(error, "there is no flag --%.*s; did you mean --%s?", shown, name,
                         suggestion.best);
}

/* ---- reading ---- */

static bool set_flag(const struct flag *flag, const char *text, char *error)
{
    char reason[BI_ERRMSG_SIZE];
    if (flag->parse(text, flag->to, reason))
        return true;
    return bi_errmsg_set(error, "--%s: \"%.100s\" %.300s", flag->name, text == NULL ? "" : text,
                         reason);
}

/* The value of a flag: given with it, or the next argument. */
static bool parse_value(struct flag_parser *parser, const struct flag *flag, const char *given,
                        char *error)
{
    const char *text = given != NULL ? given : *parser->argv;
    if (text == NULL)
        return bi_errmsg_set(error, "--%s wants a value: --%s %s", flag->name, flag->name,
                             flag->value_name);
    if (given == NULL)
        parser->argv++;
    return set_flag(flag, text, error);
}

static bool parse_long(struct flag_parser *parser, char *error)
{
    const char *name = *parser->argv++ + 2;
    size_t size = strcspn(name, "=");
    const struct flag *flag = find_name(parser, name, size);
    if (flag == NULL)
        return reject_name(parser, name, size, error);
    const char *given = name[size] == '=' ? name + size + 1 : NULL;
    if (flag->value_name != NULL)
        return parse_value(parser, flag, given, error);
    if (given != NULL)
        return bi_errmsg_set(error, "--%s takes no value", flag->name);
    return set_flag(flag, NULL, error);
}

static bool parse_short(struct flag_parser *parser, char *error)
{
    for (const char *at = *parser->argv++ + 1; *at != 0; at++) {
        const struct flag *flag = find_letter(parser, *at);
        if (flag == NULL)
            return bi_errmsg_set(error, "there is no flag -%c", *at);
        if (flag->value_name != NULL)
            return parse_value(parser, flag, at[1] != 0 ? at + 1 : NULL, error);
        if (!set_flag(flag, NULL, error))
            return false;
    }
    return true;
}

/* Everything behind "--": words, or a program. */
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
