/* SPDX-License-Identifier: MIT */
/*
 * help - the output of bided --help, generated from the table of settings.
 */
#include "server/config.h"

#include "queue/queue.h"

#include <string.h>

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
