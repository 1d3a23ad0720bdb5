/* SPDX-License-Identifier: MIT */
/*
 * flags - the command line: settings by long name, and the short flags of beanstalkd.
 *
 * Short flags keep the meaning that they have in beanstalkd, and its syntax: they may be combined,
 * and a value may follow without a space (-FV, -f0, -l127.0.0.1).
 */
#include "server/config.h"
#include "util/message.h"

#include <stdlib.h>
#include <string.h>

/* Long flags that are not settings. */
static const struct {
    const char *name;
    enum flags_action action;
} actions[] = {
    {"help", BI_ACTION_HELP},
    {"version", BI_ACTION_VERSION},
    {"check-config", BI_ACTION_CHECK},
};

static bool append_flag(struct flags *flags, size_t setting, const char *value, char *error)
{
    if (flags->count == BI_FLAGS_MAX)
        return bi_errmsg_set(error, "more than %d flags", BI_FLAGS_MAX);

    flags->list[flags->count].setting = setting;
    flags->list[flags->count].value = value;
    flags->count++;
    return true;
}

/* ---- short flags ---- */

struct letter {
    char letter;
    bool takes_value;
    const char *setting; /* NULL: none */
    const char *value;   /* of the setting; NULL: the value of the flag */
    bool (*check)(struct flags *flags, const char *value, const char **effective, char *error);
};

static bool is_number(const char *text)
{
    return text[0] != 0 && text[strspn(text, "0123456789")] == 0;
}

static bool check_sync(struct flags *flags, const char *value, const char **effective, char *error)
{
    (void)effective;

    /* There is no sync interval: each value selects sync=full, the safest mode. */
    if (!is_number(value))
        return bi_errmsg_set(error, "invalid argument of -f: \"%.60s\" (a number of milliseconds)",
                             value);
    bi_config_add_note(&flags->notes, BIDE_LOG_INFO,
                       "-f %.20s: every reply waits for the disk (sync=full), whatever the number",
                       value);
    return true;
}

static bool clamp_size(struct flags *flags, const char *value, const char **effective, char *error)
{
    (void)error;
    char *end;
    unsigned long long size = strtoull(value, &end, 10);

    /* As in beanstalkd, a larger size is lowered with a warning. Other values are checked later. */
    if (*end == 0 && is_number(value) && size > 1073741824) {
        bi_config_add_note(&flags->notes, BIDE_LOG_WARN, "maximum job size was set to 1073741824");
        *effective = "1GiB";
    }
    return true;
}

static bool check_log_size(struct flags *flags, const char *value, const char **effective,
                           char *error)
{
    (void)effective;
    if (!is_number(value))
        return bi_errmsg_set(error, "invalid argument of -s: \"%.60s\" (a number of bytes)", value);
    bi_config_add_note(&flags->notes, BIDE_LOG_INFO,
                       "-s %.20s has no effect: there are no log files", value);
    return true;
}

static bool ignore_removed(struct flags *flags, const char *value, const char **effective,
                           char *error)
{
    (void)value;
    (void)effective;
    (void)error;
    bi_config_add_note(&flags->notes, BIDE_LOG_WARN,
                       "-c and -n have no effect: what is stored is always kept small");
    return true;
}

static const struct letter letters[] = {
    {'l', true, "address", NULL, NULL},
    {'p', true, "port", NULL, NULL},
    {'z', true, "max_job_size", NULL, clamp_size},
    {'u', true, "user", NULL, NULL},
    {'b', true, "directory", NULL, NULL},
    {'f', true, "sync", "full", check_sync},
    {'F', false, "sync", "off", NULL},
    {'s', true, NULL, NULL, check_log_size},
    {'c', false, NULL, NULL, ignore_removed},
    {'n', false, NULL, NULL, ignore_removed},
    {'V', false, "log_level", "debug", NULL},
};

static const struct letter *find_letter(char wanted)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
        if (letters[i].letter == wanted)
            return &letters[i];
    return NULL;
}

static bool apply_letter(struct flags *flags, const struct letter *letter, const char *value,
                         char *error)
{
    const char *effective = letter->value != NULL ? letter->value : value;

    if (letter->check != NULL && !letter->check(flags, value, &effective, error))
        return false;
    return letter->setting == NULL ||
           append_flag(flags, bi_setting_index(letter->setting), effective, error);
}

/* Parses an argument of combined flags. The value of the last is the rest of it, or the next
 * argument. */
static bool parse_letters(struct flags *flags, const char *const **argv, char *error)
{
    for (const char *at = *(*argv)++ + 1; *at != 0;) {
        const struct letter *letter = find_letter(*at);
        const char *value = NULL;

        if (*at == 'h' || *at == 'v') {
            flags->action = *at == 'h' ? BI_ACTION_HELP : BI_ACTION_VERSION;
            return true;
        }
        if (letter == NULL)
            return bi_errmsg_set(error, "unknown flag: -%.60s", at);

        at++;
        if (letter->takes_value) {
            value = *at != 0 ? at : **argv != NULL ? *(*argv)++ : NULL;
            at = "";
            if (value == NULL)
                return bi_errmsg_set(error, "flag requires an argument: -%c", letter->letter);
        }

        if (!apply_letter(flags, letter, value, error))
            return false;
    }
    return true;
}

/* ---- long flags ---- */

static bool is_name(const char *text, size_t size, const char *name)
{
    for (size_t i = 0; i < size; i++)
        if (name[i] == 0 || (text[i] == '_' ? '-' : text[i]) != name[i])
            return false;
    return name[size] == 0;
}

/* True if the name is an action, which is then set. */
static bool parse_action(struct flags *flags, const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (is_name(name, size, actions[i].name)) {
            flags->action = actions[i].action;
            return true;
        }
    }
    return false;
}

/* Replaces the message about an unknown setting if the name resembles an action: at most two
 * changes. */
static bool suggest_action(const char *name, size_t size, char *error)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]) && size <= BI_SUGGEST_NAME_MAX;
         i++) {
        size_t changes = bi_suggest_distance(actions[i].name, name, size);
        if (size > 2 && changes > 0 && changes <= 2)
            return bi_errmsg_set(error, "unknown flag --%.*s; did you mean --%s?", (int)size, name,
                                 actions[i].name);
    }
    return false;
}

static bool parse_long(struct flags *flags, const char *const **argv, char *error)
{
    const char *name = *(*argv)++ + 2;
    size_t size = strcspn(name, "="), index = 0;
    bool is_file = is_name(name, size, "config");

    /* An action takes no value. */
    if (name[size] == 0 && parse_action(flags, name, size))
        return true;
    if (!is_file && !bi_setting_find(name, size, &index, error))
        return suggest_action(name, size, error);
    if (!is_file && (bi_setting_get(index)->traits & BI_SECRET) != 0)
        return bi_errmsg_set(
            error, "%s belongs in the file: every user who lists processes would see a flag",
            bi_setting_get(index)->name);

    const char *value = name[size] == '=' ? name + size + 1 : **argv != NULL ? *(*argv)++ : NULL;
    if (value == NULL)
        return bi_errmsg_set(error, "flag requires an argument: --%.60s", name);

    if (!is_file)
        return append_flag(flags, index, value, error);
    flags->file = value;
    return true;
}

/* The part behind '=' may be a secret and is not shown. */
static int shown_size(const char *word)
{
    size_t size = strcspn(word, "=");
    return size < 60 ? (int)size : 60;
}

bool bi_flags_parse(struct flags *flags, const char *const *argv, char *error)
{
    memset(flags, 0, sizeof(*flags));

    /* As in beanstalkd, -h and -v end the parsing: later errors are not reported. */
    while (*argv != NULL && flags->action != BI_ACTION_HELP && flags->action != BI_ACTION_VERSION) {
        const char *word = *argv;
        bool good = word[0] != '-' || word[1] == 0
                        ? bi_errmsg_set(error, "unknown argument: %.*s", shown_size(word), word)
                    : word[1] == '-' ? parse_long(flags, &argv, error)
                                     : parse_letters(flags, &argv, error);
        if (!good)
            return false;
    }
    return true;
}
