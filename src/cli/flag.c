/* SPDX-License-Identifier: MIT */
#include "cli/flag.h"

#include "util/near.h"

#include <string.h>

/* ---- finding ---- */

static const struct flag *find_name(const struct flag_reading *reading, const char *name,
                                    size_t size)
{
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = reading->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            if (strncmp(flag->name, name, size) == 0 && flag->name[size] == 0)
                return flag;
    return NULL;
}

static const struct flag *find_letter(const struct flag_reading *reading, char letter)
{
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = reading->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            if (flag->letter == letter)
                return flag;
    return NULL;
}

static bool refuse_name(const struct flag_reading *reading, const char *name, size_t size,
                        char *error)
{
    struct near near = BI_NEAR_INIT;
    int shown = size < 60 ? (int)size : 60;
    for (int t = 0; t < 2; t++)
        for (const struct flag *flag = reading->tables[t]; flag != NULL && flag->name != NULL;
             flag++)
            bi_near_look(&near, flag->name, name, size);
    if (near.best == NULL)
        return bi_refuse(error, "there is no flag --%.*s", shown, name);
    return bi_refuse(error, "there is no flag --%.*s; did you mean --%s?", shown, name, near.best);
}

/* ---- reading ---- */

static bool take(const struct flag *flag, const char *text, char *error)
{
    char reason[BI_SENTENCE_SIZE];
    if (flag->read(text, flag->to, reason))
        return true;
    return bi_refuse(error, "--%s: \"%.100s\" %.300s", flag->name, text == NULL ? "" : text,
                     reason);
}

/* The value of a flag: given with it, or the next argument. */
static bool take_value(struct flag_reading *reading, const struct flag *flag, const char *given,
                       char *error)
{
    const char *text = given != NULL ? given : *reading->argv;
    if (text == NULL)
        return bi_refuse(error, "--%s wants a value: --%s %s", flag->name, flag->name, flag->takes);
    if (given == NULL)
        reading->argv++;
    return take(flag, text, error);
}

static bool take_name(struct flag_reading *reading, char *error)
{
    const char *name = *reading->argv++ + 2;
    size_t size = strcspn(name, "=");
    const struct flag *flag = find_name(reading, name, size);
    if (flag == NULL)
        return refuse_name(reading, name, size, error);
    const char *given = name[size] == '=' ? name + size + 1 : NULL;
    if (flag->takes != NULL)
        return take_value(reading, flag, given, error);
    if (given != NULL)
        return bi_refuse(error, "--%s takes no value", flag->name);
    return take(flag, NULL, error);
}

static bool take_letters(struct flag_reading *reading, char *error)
{
    for (const char *at = *reading->argv++ + 1; *at != 0; at++) {
        const struct flag *flag = find_letter(reading, *at);
        if (flag == NULL)
            return bi_refuse(error, "there is no flag -%c", *at);
        if (flag->takes != NULL)
            return take_value(reading, flag, at[1] != 0 ? at + 1 : NULL, error);
        if (!take(flag, NULL, error))
            return false;
    }
    return true;
}

/* Everything behind "--": words, or a program. */
static void take_rest(struct flag_reading *reading)
{
    reading->argv++;
    if (reading->has_program) {
        reading->program = reading->argv;
        return;
    }
    while (*reading->argv != NULL)
        reading->words[reading->word_count++] = *reading->argv++;
}

bool bi_flags_read(struct flag_reading *reading, char *error)
{
    for (const char *word; (word = *reading->argv) != NULL;) {
        bool good = true;
        if (strcmp(word, "--") == 0) {
            take_rest(reading);
            break;
        }
        if (word[0] == '-' && word[1] == '-')
            good = take_name(reading, error);
        else if (word[0] == '-' && word[1] != 0)
            good = take_letters(reading, error);
        else if (reading->stops_at_word)
            break;
        else
            reading->words[reading->word_count++] = *reading->argv++;
        if (!good)
            return false;
    }
    reading->words[reading->word_count] = NULL;
    return true;
}
