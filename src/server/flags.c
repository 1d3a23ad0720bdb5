/* SPDX-License-Identifier: MIT */
/*
 * flags.c - the command line: long names of settings, and the short flags of beanstalkd with
 * their meaning, also in one word (-FV, -f0, -l127.0.0.1).
 */
#include "server/config.h"
#include "util/near.h"

#include <stdlib.h>
#include <string.h>

/* What the flags after --name are, besides settings. */
static const struct {
    const char *name;
    enum flags_wish wish;
} wishes[] = {
    {"help", BI_WISH_HELP},
    {"version", BI_WISH_VERSION},
    {"check-config", BI_WISH_CHECK},
};

static bool say(struct flags *flags, size_t setting, const char *value, char *error)
{
    if (flags->count == BI_FLAGS_MAX)
        return bi_refuse(error, "more than %d flags", BI_FLAGS_MAX);
    flags->list[flags->count].setting = setting;
    flags->list[flags->count].value = value;
    flags->count++;
    return true;
}

/* ---- beanstalkd's ---- */

struct letter {
    char letter;
    bool takes_value;
    const char *setting; /* NULL: none */
    const char *value;   /* what is said of the setting; NULL: the value that was given */
    bool (*look)(struct flags *flags, const char *value, const char **use, char *error);
};

static bool is_number(const char *text)
{
    return text[0] != 0 && text[strspn(text, "0123456789")] == 0;
}

static bool look_sync(struct flags *flags, const char *value, const char **use, char *error)
{
    (void)use;
    if (!is_number(value))
        return bi_refuse(error, "-f takes a number of milliseconds, not \"%.60s\"", value);
    bi_notes_add(&flags->notes, BIDE_LOG_INFO,
                 "-f %.20s: every answer waits for the disk (sync=full), whatever the number",
                 value);
    return true;
}

static bool look_size(struct flags *flags, const char *value, const char **use, char *error)
{
    (void)error;
    char *end;
    unsigned long long size = strtoull(value, &end, 10);
    if (*end == 0 && is_number(value) && size > 1073741824) {
        bi_notes_add(&flags->notes, BIDE_LOG_WARN, "maximum job size was set to 1073741824");
        *use = "1GiB";
    }
    return true;
}

static bool look_log_size(struct flags *flags, const char *value, const char **use, char *error)
{
    (void)use;
    if (!is_number(value))
        return bi_refuse(error, "-s takes a number of bytes, not \"%.60s\"", value);
    bi_notes_add(&flags->notes, BIDE_LOG_INFO, "-s %.20s has no effect: there are no log files",
                 value);
    return true;
}

static bool look_removed(struct flags *flags, const char *value, const char **use, char *error)
{
    (void)value;
    (void)use;
    (void)error;
    bi_notes_add(&flags->notes, BIDE_LOG_WARN,
                 "-c and -n have no effect: what is stored is always kept small");
    return true;
}

static const struct letter letters[] = {
    {'l', true, "address", NULL, NULL},
    {'p', true, "port", NULL, NULL},
    {'z', true, "max_job_size", NULL, look_size},
    {'u', true, "user", NULL, NULL},
    {'b', true, "directory", NULL, NULL},
    {'f', true, "sync", "full", look_sync},
    {'F', false, "sync", "off", NULL},
    {'s', true, NULL, NULL, look_log_size},
    {'c', false, NULL, NULL, look_removed},
    {'n', false, NULL, NULL, look_removed},
    {'V', false, "log_level", "debug", NULL},
};

static const struct letter *find_letter(char wanted)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
        if (letters[i].letter == wanted)
            return &letters[i];
    return NULL;
}

static bool take_letter(struct flags *flags, const struct letter *letter, const char *value,
                        char *error)
{
    const char *use = letter->value != NULL ? letter->value : value;
    if (letter->look != NULL && !letter->look(flags, value, &use, error))
        return false;
    return letter->setting == NULL || say(flags, bi_setting_index(letter->setting), use, error);
}

/* One word of letters; the value of the last may be the rest of it, or the next word. */
static bool take_letters(struct flags *flags, const char *const **argv, char *error)
{
    for (const char *at = *(*argv)++ + 1; *at != 0;) {
        const struct letter *letter = find_letter(*at);
        const char *value = NULL;
        if (*at == 'h' || *at == 'v') {
            flags->wish = *at == 'h' ? BI_WISH_HELP : BI_WISH_VERSION;
            return true;
        }
        if (letter == NULL)
            return bi_refuse(error, "unknown flag: -%.60s", at);
        at++;
        if (letter->takes_value) {
            value = *at != 0 ? at : **argv != NULL ? *(*argv)++ : NULL;
            at = "";
            if (value == NULL)
                return bi_refuse(error, "flag requires an argument: -%c", letter->letter);
        }
        if (!take_letter(flags, letter, value, error))
            return false;
    }
    return true;
}

/* ---- ours ---- */

static bool is_name(const char *text, size_t size, const char *name)
{
    for (size_t i = 0; i < size; i++)
        if (name[i] == 0 || (text[i] == '_' ? '-' : text[i]) != name[i])
            return false;
    return name[size] == 0;
}

/* True if it was one of them. */
static bool take_wish(struct flags *flags, const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        if (is_name(name, size, wishes[i].name)) {
            flags->wish = wishes[i].wish;
            return true;
        }
    }
    return false;
}

/* It is no setting; perhaps it was to be one of these. More than two changes are another name. */
static bool suggest_wish(const char *name, size_t size, char *error)
{
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]) && size <= BI_NEAR_MAX; i++) {
        size_t changes = bi_near_distance(wishes[i].name, name, size);
        if (size > 2 && changes > 0 && changes <= 2)
            return bi_refuse(error, "there is no flag --%.*s; did you mean --%s?", (int)size, name,
                             wishes[i].name);
    }
    return false;
}

static bool take_name(struct flags *flags, const char *const **argv, char *error)
{
    const char *name = *(*argv)++ + 2;
    size_t size = strcspn(name, "="), index = 0;
    bool is_file = is_name(name, size, "config");
    if (name[size] == 0 && take_wish(flags, name, size))
        return true;
    if (!is_file && !bi_setting_find(name, size, &index, error))
        return suggest_wish(name, size, error);
    if (!is_file && (bi_setting_get(index)->traits & BI_SECRET) != 0)
        return bi_refuse(error,
                         "%s belongs into the file: a flag would be seen by everybody who lists "
                         "processes",
                         bi_setting_get(index)->name);
    const char *value = name[size] == '=' ? name + size + 1 : **argv != NULL ? *(*argv)++ : NULL;
    if (value == NULL)
        return bi_refuse(error, "flag requires an argument: --%.60s", name);
    if (!is_file)
        return say(flags, index, value, error);
    flags->file = value;
    return true;
}

/* What stands behind a = may be a secret. */
static int shown(const char *word)
{
    size_t size = strcspn(word, "=");
    return size < 60 ? (int)size : 60;
}

bool bi_flags_parse(struct flags *flags, const char *const *argv, char *error)
{
    memset(flags, 0, sizeof(*flags));
    while (*argv != NULL && flags->wish != BI_WISH_HELP && flags->wish != BI_WISH_VERSION) {
        const char *word = *argv;
        bool good = word[0] != '-' || word[1] == 0
                        ? bi_refuse(error, "unknown argument: %.*s", shown(word), word)
                    : word[1] == '-' ? take_name(flags, &argv, error)
                                     : take_letters(flags, &argv, error);
        if (!good)
            return false;
    }
    return true;
}
