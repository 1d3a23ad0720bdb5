/* SPDX-License-Identifier: MIT */
/*
 * main.c - bide: finds the verb, reads the flags, opens the queue, runs the verb.
 */
#include "cli/interrupt.h"
#include "cli/reach.h"
#include "cli/verb.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wishes {
    bool help;
    bool version;
};

static struct wishes wishes;

/* ---- flags of every verb ---- */

static bool read_color(const char *text, void *to, char *error)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *(enum bi_color *)to = (enum bi_color)i;
            return true;
        }
    }
    return bi_refuse(error, "is neither auto, always nor never");
}

const struct flag *bi_verb_common(struct cli *cli)
{
    static struct flag table[9];
    const struct flag rows[] = {
        BI_FLAG_TEXT('u', "url", "URL", &cli->url, "the queue: sqlite:PATH, beanstalk://HOST:PORT"),
        BI_FLAG_ON('J', "json", &cli->json, "answer in JSON, one value a line"),
        BI_FLAG_ON('q', "quiet", &cli->quiet, "no notes, no progress bars"),
        BI_FLAG_ON('v', "verbose", &cli->verbose, "more notes"),
        BI_FLAG_ON(0, "no-start", &cli->no_start, "do not start a server when none answers"),
        {0, "color", "auto|always|never", "when to use colours", read_color, &cli->color},
        BI_FLAG_ON('h', "help", &wishes.help, "this text"),
        BI_FLAG_ON('V', "version", &wishes.version, "the version"),
        BI_FLAGS_END,
    };
    _Static_assert(sizeof(table) == sizeof(rows), "a row for each");
    memcpy(table, rows, sizeof(rows));
    return table;
}

/* ---- reading the command line ---- */

/* An error in the arguments is answered as they ask for, even if --json stands behind it. */
static void look_for_json(struct cli *cli, const char *const *rest)
{
    for (; *rest != NULL && strcmp(*rest, "--") != 0; rest++)
        if (strcmp(*rest, "--json") == 0 || strcmp(*rest, "-J") == 0)
            cli->json = true;
}

static int no_such_verb(struct cli *cli, const char *const *argv)
{
    const char *name = argv[0], *near = bi_verb_near(name);
    look_for_json(cli, argv + 1);
    if (near != NULL)
        return bi_cli_misused(cli, "there is no verb \"%.60s\"; did you mean %s?", name, near);
    return bi_cli_misused(cli, "there is no verb \"%.60s\"", name);
}

static int misread(struct cli *cli, const struct flag_reading *reading, const char *error)
{
    look_for_json(cli, reading->argv);
    return bi_cli_misused(cli, "%s", error);
}

static int check_words(struct cli *cli)
{
    const struct verb *verb = cli->verb;
    if (cli->word_count < verb->least)
        return bi_cli_misused(cli, "something is missing: bide %s %s", verb->name, verb->usage);
    if (cli->word_count > verb->most)
        return bi_cli_misused(cli, "\"%.60s\" is one argument too many: bide %s %s",
                              cli->words[verb->most], verb->name, verb->usage);
    return BI_EXIT_OK;
}

/* What stands behind the verb. */
static int read_arguments(struct cli *cli, struct flag_reading *reading)
{
    char error[BI_SENTENCE_SIZE];
    cli->verb = bi_verb_find(reading->argv[0]);
    if (cli->verb == NULL)
        return no_such_verb(cli, reading->argv);
    reading->argv++;
    reading->tables[0] = cli->verb->flags;
    reading->tables[1] = bi_verb_common(cli);
    reading->stops_at_word = false;
    reading->has_program = (cli->verb->traits & BI_PROGRAM) != 0;
    if (!bi_flags_read(reading, error))
        return misread(cli, reading, error);
    cli->words = reading->words;
    cli->word_count = reading->word_count;
    cli->program = reading->program;
    return wishes.help || wishes.version ? BI_EXIT_OK : check_words(cli);
}

static int read_command(struct cli *cli, const char *const *argv, const char **words)
{
    char error[BI_SENTENCE_SIZE];
    struct flag_reading reading = {
        .tables = {bi_verb_common(cli), NULL},
        .argv = argv,
        .words = words,
        .stops_at_word = true,
    };
    if (!bi_flags_read(&reading, error))
        return misread(cli, &reading, error);
    if (reading.argv[0] != NULL)
        return read_arguments(cli, &reading);
    if (wishes.help || wishes.version)
        return BI_EXIT_OK;
    bi_help_all(stderr);
    return BI_EXIT_USAGE;
}

/* 'Authorization: Bearer ...': the name stays. */
static void hide_value(char *header)
{
    char *value = strchr(header, ':');
    if (value != NULL)
        memset(value + 1, '*', strlen(value + 1));
}

/* The arguments can be seen by every user of the machine: secrets are overwritten there, and the copy
 * is used from now on. NULL: no memory. The copy lives as long as the process. */
static const char *const *hide_secrets(int argc, char **argv)
{
    static char **copy;

    copy = calloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; i < argc && copy != NULL; i++) {
        copy[i] = strdup(argv[i]);
        if (copy[i] == NULL)
            return NULL;
        if (i > 0 && strcmp(copy[i - 1], "--header") == 0)
            hide_value(argv[i]);
        else if (strncmp(argv[i], "--header=", strlen("--header=")) == 0)
            hide_value(argv[i] + strlen("--header="));
        else
            bi_url_blot(argv[i]);
    }
    return (const char *const *)copy;
}

/* ---- running ---- */

/* A standard descriptor that is closed must not become that of a file; what is then written there
 * fails, as it would have. */
static bool fill_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd)
            return false;
    }
    return true;
}

static int show_wish(const struct cli *cli)
{
    if (wishes.version)
        printf("bide %s\n", bide_version());
    else if (cli->verb == NULL)
        bi_help_all(stdout);
    else
        bi_help_verb(stdout, cli->verb);
    return bi_cli_flush(cli);
}

/* The verb's own answer is more important than what became of its output. */
static int finish(struct cli *cli, int exit)
{
    int flushed = bi_cli_flush(cli);
    bi_interrupt_forget();
    return bi_reach_close(cli, cli->queue, cli->shown, exit == BI_EXIT_OK ? flushed : exit);
}

static int run(struct cli *cli)
{
    int exit = cli->verb->check == NULL ? BI_EXIT_OK : cli->verb->check(cli);
    if (exit == BI_EXIT_OK && (cli->verb->traits & BI_BARE) == 0)
        exit = bi_reach_configure(cli);
    if (exit == BI_EXIT_OK && (cli->verb->traits & BI_ALONE) == 0)
        exit = bi_reach_open(cli);
    if (exit == BI_EXIT_OK)
        exit = cli->verb->run(cli);
    return finish(cli, exit);
}

/*
 * Only what a character is, and how wide, is the user's: numbers, dates and sentences are the same
 * everywhere, or scripts could not read them. Whoever has no locale has a terminal of today.
 */
static void set_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    struct cli cli = {
        .out_terminal = isatty(STDOUT_FILENO) == 1,
        .err_terminal = isatty(STDERR_FILENO) == 1,
    };
    const char **words;
    const char *const *arguments;
    set_locale();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* if we were started with it ignored, no status would be known */
    if (argc < 1 || !fill_standard() || (arguments = hide_secrets(argc, argv)) == NULL ||
        (words = calloc((size_t)argc + 2, sizeof(*words))) == NULL)
        return BI_EXIT_FAILED;
    int exit = read_command(&cli, arguments + 1, words);
    if (exit == BI_EXIT_OK)
        exit = wishes.help || wishes.version ? show_wish(&cli) : run(&cli);
    free(words);
    return exit;
}
