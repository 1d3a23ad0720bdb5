/* SPDX-License-Identifier: MIT */
/*
 * main.c - bide: finds the verb, parses the flags, opens the queue, runs the verb.
 */
#include "cli/connect.h"
#include "cli/verb.h"

#include <assert.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct info_flags {
    bool help;
    bool version;
};

static struct info_flags info_flags;

/* ---- common flags ---- */

static bool parse_color(const char *text, void *to, char *error)
{
    static const char *const names[] = {"auto", "always", "never"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *(enum bi_color *)to = (enum bi_color)i;
            return true;
        }
    }
    return bi_errmsg_set(error, "is not auto, always or never");
}

const struct flag *bi_verb_common_flags(struct cli *cli)
{
    static struct flag read[9], shown[9];
    static struct cli nothing;
    struct flag *table = cli == NULL ? shown : read;
    if (cli == NULL)
        cli = &nothing;
    const struct flag rows[] = {
        BI_FLAG_STRING('u', "url", "URL", &cli->url,
                       "queue to use: sqlite:PATH, beanstalk://HOST:PORT"),
        BI_FLAG_BOOL('J', "json", &cli->json, "print JSON, one value per line"),
        BI_FLAG_BOOL('q', "quiet", &cli->quiet, "print no notes and no progress"),
        BI_FLAG_BOOL('v', "verbose", &cli->verbose, "print more notes"),
        BI_FLAG_BOOL(0, "no-start", &cli->no_start, "do not start a user server"),
        {0, "color", "auto|always|never", "when to use colors (default: auto)", parse_color,
         &cli->color},
        BI_FLAG_BOOL('h', "help", &info_flags.help, "print this help"),
        BI_FLAG_BOOL('V', "version", &info_flags.version, "print the version"),
        BI_FLAGS_END,
    };
    _Static_assert(sizeof(read) == sizeof(rows) && sizeof(shown) == sizeof(rows), "a row for each");
    memcpy(table, rows, sizeof(rows));
    return table;
}

/* ---- parsing the command line ---- */

/* A usage error is printed as JSON even if --json follows it. */
static void detect_json(struct cli *cli, const char *const *rest)
{
    for (; *rest != NULL && strcmp(*rest, "--") != 0; rest++)
        if (strcmp(*rest, "--json") == 0 || strcmp(*rest, "-J") == 0)
            cli->json = true;
}

static int reject_flags(struct cli *cli, const struct flag_parser *parser, const char *error)
{
    detect_json(cli, parser->argv);
    return bi_cli_usage_error(cli, "%s", error);
}

/* Parses the arguments after the verb. */
static int parse_arguments(struct cli *cli, struct flag_parser *parser)
{
    char error[BI_ERRMSG_SIZE];
    struct usage usage;

    cli->verb = bi_verb_find(parser->argv[0]);
    if (cli->verb == NULL) {
        detect_json(cli, parser->argv + 1);
        return bi_verb_reject(cli, parser->argv[0]);
    }
    parser->argv++;
    parser->tables[0] = cli->verb->flags;
    parser->tables[1] = bi_verb_common_flags(cli);
    parser->stop_at_word = false;
    parser->given = 0;
    parser->has_program = (cli->verb->traits & BI_VERB_PROGRAM) != 0;
    if (!bi_flag_parse_args(parser, error))
        return reject_flags(cli, parser, error);

    cli->words = parser->words;
    cli->word_count = parser->word_count;
    cli->given = parser->given;
    cli->program = parser->program;
    if (info_flags.help || info_flags.version || (cli->verb->traits & BI_VERB_COUNTS_WORDS) != 0)
        return BI_EXIT_OK;
    bi_verb_parse_usage(&usage, cli->verb->usage);
    return bi_verb_check_words(cli, usage.required, usage.repeats ? BI_WORDS_MAX : usage.count);
}

static int parse_command(struct cli *cli, const char *const *argv, const char **words)
{
    char error[BI_ERRMSG_SIZE];

    struct flag_parser parser = {
        .tables = {bi_verb_common_flags(cli), NULL},
        .argv = argv,
        .words = words,
        .stop_at_word = true,
    };
    if (!bi_flag_parse_args(&parser, error))
        return reject_flags(cli, &parser, error);

    if (parser.argv[0] != NULL)
        return parse_arguments(cli, &parser);
    if (info_flags.help || info_flags.version)
        return BI_EXIT_OK;
    bi_verb_print_help(stderr);
    return BI_EXIT_USAGE;
}

/* Masks 'Authorization: Bearer ...' after the name. */
static void mask_value(char *header)
{
    char *value = strchr(header, ':');
    if (value != NULL)
        memset(value + 1, '*', strlen(value + 1));
}

/* Overwrites secrets in the arguments, which every user of the machine can see, and returns a copy
 * from before that lives as long as the process. NULL: out of memory. */
static const char *const *mask_secrets(int argc, char **argv)
{
    static char **copy;

    copy = calloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; i < argc && copy != NULL; i++) {
        copy[i] = strdup(argv[i]);
        if (copy[i] == NULL)
            return NULL;
        if (i > 0 && strcmp(copy[i - 1], "--header") == 0)
            mask_value(argv[i]);
        else if (strncmp(argv[i], "--header=", strlen("--header=")) == 0)
            mask_value(argv[i] + strlen("--header="));
        else
            bi_url_mask_secret(argv[i]);
    }
    return (const char *const *)copy;
}

/* ---- running ---- */

/* Opens standard descriptors that are closed, so that a file of the queue does not get their
 * numbers. Reads and writes still fail: the mode is the wrong one. */
static bool open_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd)
            return false;
    }
    return true;
}

static int print_info(const struct cli *cli)
{
    if (info_flags.version)
        printf("bide %s\n", bide_version());
    else if (cli->verb == NULL)
        bi_verb_print_help(stdout);
    else
        bi_verb_print_verb_help(stdout, cli->verb);
    return bi_cli_flush(cli);
}

static int run(struct cli *cli)
{
    assert(cli->verb != NULL && cli->verb->run != NULL);
    unsigned traits = cli->verb->traits;
    cli->creates_file = (traits & BI_VERB_CREATES_FILE) != 0;
    int exit = cli->verb->check == NULL ? BI_EXIT_OK : cli->verb->check(cli);

    if (exit == BI_EXIT_OK && (traits & BI_VERB_NO_CONFIG) == 0)
        exit = bi_connect_load_config(cli);
    if (exit == BI_EXIT_OK && (traits & BI_VERB_NO_QUEUE) == 0)
        exit = bi_connect_open(cli);
    if (exit == BI_EXIT_OK && (traits & (BI_VERB_INTERRUPT | BI_VERB_FINISH)) != 0)
        exit = bi_interrupt_watch(cli, (traits & BI_VERB_INTERRUPT) != 0 ? cli->queue : NULL);
    if (exit == BI_EXIT_OK)
        exit = cli->verb->run(cli);

    /* The exit code of the verb has precedence over that of its output. */
    int flushed = bi_cli_flush(cli);
    bi_interrupt_stop();
    return bi_connect_close(cli, cli->queue, cli->shown, exit == BI_EXIT_OK ? flushed : exit);
}

/*
 * Only LC_CTYPE follows the environment: numbers, dates and messages must be the same for scripts.
 * Without a locale the terminal is assumed to be UTF-8.
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
    signal(SIGCHLD, SIG_DFL); /* if it is inherited as ignored, waitpid() returns no status */
    if (argc < 1 || !open_standard_fds() || (arguments = mask_secrets(argc, argv)) == NULL ||
        (words = calloc((size_t)argc + 2, sizeof(*words))) == NULL)
        return BI_EXIT_FAILED;

    int exit = parse_command(&cli, arguments + 1, words);
    if (exit == BI_EXIT_OK)
        exit = info_flags.help || info_flags.version ? print_info(&cli) : run(&cli);
    free(words);
    return exit;
}
