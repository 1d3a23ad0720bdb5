/* SPDX-License-Identifier: MIT */
/*
 * flags - the command line: settings by long name, the short flags of beanstalkd, and --help, which
 * is generated from the table of settings.
 *
 * Short flags keep the meaning that they have in beanstalkd, and its syntax: they may be combined,
 * and a value may follow without a space (-FV, -f0, -l127.0.0.1).
 */
#include "server/config.h"
#include "util/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

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

#define JOB_SIZE_MAX 1073741824 /* of -z */
#define REMOVED      "-c and -n have no effect: what is stored is always kept small"

struct letter {
    char letter;
    bool takes_value;
    const char *setting;   /* NULL: none */
    const char *value;     /* of the setting; NULL: the value of the flag */
    const char *number_of; /* what the value counts; NULL: it need not be a number */
    const char *note;      /* behind "-f 100" if the flag takes a value; NULL: none */
    bide_log_level level;  /* of the note */
};

static const struct letter letters[] = {
    {'l', true, "address", NULL, NULL, NULL, 0},
    {'p', true, "port", NULL, NULL, NULL, 0},
    {'z', true, "max_job_size", NULL, NULL, NULL, 0},
    {'u', true, "user", NULL, NULL, NULL, 0},
    {'b', true, "directory", NULL, NULL, NULL, 0},
    /* There is no sync interval: each value selects sync=full, the safest mode. */
    {'f', true, "sync", "full", "milliseconds",
     ": every reply waits for the disk (sync=full), whatever the number", BIDE_LOG_INFO},
    {'F', false, "sync", "off", NULL, NULL, 0},
    {'s', true, NULL, NULL, "bytes", " has no effect: there are no log files", BIDE_LOG_INFO},
    {'c', false, NULL, NULL, NULL, REMOVED, BIDE_LOG_WARN},
    {'n', false, NULL, NULL, NULL, REMOVED, BIDE_LOG_WARN},
    {'V', false, "log_level", "debug", NULL, NULL, 0},
};

static bool apply_letter(struct flags *flags, const struct letter *letter, const char *value,
                         char *error)
{
    const char *effective = letter->value != NULL ? letter->value : value;
    bool is_number = value != NULL && value[0] != 0 && value[strspn(value, "0123456789")] == 0;
    assert(letter->takes_value == (value != NULL));

    if (letter->number_of != NULL && !is_number)
        return bi_errmsg_set(error, "invalid argument of -%c: \"%.60s\" (a number of %s)",
                             letter->letter, value, letter->number_of);
    if (letter->note != NULL && letter->takes_value)
        bi_config_add_note(&flags->notes, letter->level, "-%c %.20s%s", letter->letter, value,
                           letter->note);
    else if (letter->note != NULL)
        bi_config_add_note(&flags->notes, letter->level, "%s", letter->note);

    /* As in beanstalkd, a larger size is lowered with a warning. Other values are checked later. */
    if (letter->letter == 'z' && is_number && strtoull(value, NULL, 10) > JOB_SIZE_MAX) {
        bi_config_add_note(&flags->notes, BIDE_LOG_WARN, "maximum job size was set to %d",
                           JOB_SIZE_MAX);
        effective = "1GiB";
    }

    return letter->setting == NULL ||
           append_flag(flags, bi_setting_index(letter->setting), effective, error);
}

/* Parses an argument of combined flags. The value of the last is the rest of it, or the next
 * argument. */
static bool parse_letters(struct flags *flags, const char *const **argv, char *error)
{
    for (const char *at = *(*argv)++ + 1; *at != 0;) {
        const struct letter *letter = NULL;
        const char *value = NULL;

        for (size_t i = 0; i < COUNT_OF(letters); i++)
            if (letters[i].letter == *at)
                letter = &letters[i];
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

static bool parse_long(struct flags *flags, const char *const **argv, char *error)
{
    const char *name = *(*argv)++ + 2;
    size_t size = strcspn(name, "="), index = 0;
    bool is_file = bi_setting_name_equals("config", name, size);
    const char *similar = NULL;

    /* An action takes no value. A name that resembles one has at most two changes. */
    for (size_t i = 0; i < COUNT_OF(actions) && size <= BI_SUGGEST_NAME_MAX; i++) {
        size_t changes = bi_suggest_distance(actions[i].name, name, size);
        if (name[size] == 0 && bi_setting_name_equals(actions[i].name, name, size)) {
            flags->action = actions[i].action;
            return true;
        }
        if (size > 2 && changes > 0 && changes <= 2)
            similar = actions[i].name;
    }

    if (!is_file && !bi_setting_find(name, size, &index, error))
        return similar != NULL ? bi_errmsg_set(error, "unknown flag --%.*s; did you mean --%s?",
                                               (int)size, name, similar)
                               : false;
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

bool bi_flags_parse(struct flags *flags, const char *const *argv, char *error)
{
    memset(flags, 0, sizeof(*flags));

    /* As in beanstalkd, -h and -v end the parsing: later errors are not reported. */
    while (*argv != NULL && flags->action != BI_ACTION_HELP && flags->action != BI_ACTION_VERSION) {
        const char *word = *argv;

        if (word[0] != '-' || word[1] == 0) {
            /* The part behind '=' may be a secret and is not shown. */
            size_t size = strcspn(word, "=");
            return bi_errmsg_set(error, "unknown argument: %.*s", size < 60 ? (int)size : 60, word);
        }
        if (!(word[1] == '-' ? parse_long(flags, &argv, error)
                             : parse_letters(flags, &argv, error)))
            return false;
    }
    return true;
}

/* ---- help ---- */

#define COLUMN 30
#define WIDTH  80

static const char before[] =
    "Usage: bided [OPTIONS]\n"
    "\n"
    "A job queue server. Clients of beanstalkd in any language work unchanged.\n"
    "\n"
    "  bided                               a queue in the state directory, on\n"
    "                                      127.0.0.1:11300\n"
    "  bided --url memory: --listen 11301  in memory, lost when bided stops\n"
    "  bided --url sqlite:jobs.db --listen unix:bided.sock --listen '[::1]:11300'\n"
    "  bided --config bided.conf --check-config\n"
    "\n"
    "Every setting can be given in the file as name = value. Flags override the file.\n"
    "SIZE is a number of bytes, or of KiB, MiB or GiB: 64MiB. TIME is a number of\n"
    "milliseconds, or of s, m, h or d: 250, 90s, 1h.\n";

static const char after[] =
    "\n"
    "      --config FILE           read settings from FILE (default:\n"
    "                              " BI_CONFIG_FILE ", if it exists)\n"
    "      --check-config          check file and flags, report errors, exit\n"
    "  -h, --help                  show this help\n"
    "  -v, --version               show the version\n"
    "\n"
    "Flags of beanstalkd:\n"
    "  -l ADDR                     listen on ADDR or unix:PATH (default: 127.0.0.1)\n"
    "  -p PORT                     listen on PORT (default: 11300)\n"
    "  -b DIR                      keep bide.db in DIR, which must exist\n"
    "  -f MS                       --sync full, whatever MS\n"
    "  -F                          --sync off\n"
    "  -z BYTES                    --max-job-size\n"
    "  -u USER                     --user\n"
    "  -V                          --log-level debug\n"
    "  -s BYTES, -c, -n            no effect\n"
    "\n"
    "SIGTERM and SIGINT stop the server in an orderly way. SIGUSR1 rejects new jobs\n"
    "(drain). SIGHUP reloads the file. See bided(8) and bided.conf(5).\n";

/* Prints words in the right column, wrapped at WIDTH. '~' is a space that does not wrap. at: the
 * current column. */
static void print_wrapped(FILE *to, size_t at, const char *text)
{
    if (at + 1 > COLUMN) {
        fputc('\n', to);
        at = 0;
    }
    for (; at < COLUMN; at++)
        fputc(' ', to);

    while (*text != 0) {
        size_t size = strcspn(text, " ");
        if (at > COLUMN && at + size + 1 > WIDTH) {
            fprintf(to, "\n%*s", COLUMN, "");
            at = COLUMN;
        }

        if (at > COLUMN)
            at += fputc(' ', to) == ' ';
        for (size_t i = 0; i < size; i++, at++)
            fputc(text[i] == '~' ? ' ' : text[i], to);
        text += size;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

/* Formats the default of a setting, which may be in the table of the queue's options. */
static void format_default(char *text, size_t size, const struct setting *setting)
{
    struct bi_option option;
    const char *fallback = setting->fallback;

    for (size_t i = 0; fallback == NULL && bi_options_describe(i, &option); i++)
        if (strcmp(option.name, setting->name) == 0)
            fallback = option.fallback;

    /* 0 stands for "no limit" or "off", which the help text explains. */
    if (fallback == NULL || fallback[0] == 0 || strcmp(fallback, "0") == 0)
        text[0] = 0;
    else
        snprintf(text, size, " (default:~%s)", fallback);
}

static void print_setting(FILE *to, const struct setting *setting)
{
    char left[80], fallback[64], right[300];
    bool secret = (setting->traits & BI_SECRET) != 0;

    /* A secret is a setting of the file only and keeps its underscores. */
    snprintf(left, sizeof(left), secret ? "      %s" : "      --%s %s", setting->name,
             setting->kind);
    for (char *at = left; !secret && *at != 0 && at < left + 8 + strlen(setting->name); at++)
        if (*at == '_')
            *at = '-';

    format_default(fallback, sizeof(fallback), setting);
    snprintf(right, sizeof(right), "%s%s", setting->help, fallback);
    fputs(left, to);
    print_wrapped(to, strlen(left), right);
}

void bi_help_print(FILE *to)
{
    const char *group = "";

    fputs(before, to);
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const struct setting *setting = bi_setting_get(i);
        if (setting->group == NULL)
            continue;
        if (strcmp(group, setting->group) != 0)
            fprintf(to, "\n%s:\n", setting->group);
        group = setting->group;
        print_setting(to, setting);
    }
    fputs(after, to);
}
