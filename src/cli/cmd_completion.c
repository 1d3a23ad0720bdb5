/* SPDX-License-Identifier: MIT */
#include "cli/completion.h"
#include "cli/connect.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PAGE       500
#define TIMEOUT_S  2
#define TOPICS_MAX 10000

/* ---- topics ---- */

/* Whoever has pressed the tab key does not wait for a server that is silent. */
static void on_alarm(int number)
{
    (void)number;
    _exit(BI_EXIT_TIMED_OUT);
}

/* Of a file nothing is asked: to open it takes it away from whoever wants to work with it. */
static int open_server(struct cli *cli)
{
    cli->no_start = true;
    int exit = bi_connect_load_config(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    const char *url = bi_connect_explicit_url(cli);
    if (url != NULL && strncmp(url, "beanstalk:", 10) != 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "only a server is asked for its topics");
    return bi_connect_open(cli);
}

static int print_topics(struct cli *cli)
{
    static bide_topic_stats topics[PAGE];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count, total = 0;
    signal(SIGALRM, on_alarm);
    alarm(TIMEOUT_S);
    int exit = open_server(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    do {
        int code = bide_topics(cli->queue, cursor, topics, PAGE, &count);
        if (code != BIDE_OK)
            return bi_cli_report_last(cli, code);
        for (size_t i = 0; i < count; i++)
            printf("%s\n", topics[i].name);
        total += count;
    } while (cursor[0] != 0 && total < TOPICS_MAX);
    return BI_EXIT_OK;
}

/* ---- the verb ---- */

static int print_bash(struct cli *cli)
{
    (void)cli;
    bi_completion_print_bash(stdout);
    return BI_EXIT_OK;
}

static int print_zsh(struct cli *cli)
{
    (void)cli;
    bi_completion_print_zsh(stdout);
    return BI_EXIT_OK;
}

static const struct script {
    const char *name;
    int (*print)(struct cli *cli);
} scripts[] = {
    {"bash", print_bash},
    {"zsh", print_zsh},
    {"topics", print_topics},
};

static const struct script *find_script(const char *name)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (strcmp(scripts[i].name, name) == 0)
            return &scripts[i];
    return NULL;
}

static int check(struct cli *cli)
{
    if (find_script(cli->words[0]) != NULL)
        return BI_EXIT_OK;
    return bi_cli_usage_error(cli, "\"%.60s\" is neither bash, zsh nor topics", cli->words[0]);
}

static int run(struct cli *cli)
{
    return find_script(cli->words[0])->print(cli);
}

static const char details[] =
    "Where bide is installed, shells that look for completions find them. Else:\n"
    "\n"
    "  source <(bide completion bash)          now, in bash\n"
    "  bide completion zsh > ~/.zfunc/_bide    for zsh; the folder must be in fpath\n"
    "\n"
    "With \"topics\" it prints the names of the topics, which is how the scripts know\n"
    "them. Only a server is asked, and for two seconds at most.\n";

const struct verb bi_verb_completion = {
    .name = "completion",
    .group = BI_GROUP_SELF,
    .usage = "bash|zsh|topics",
    .summary = "a script that makes the tab key complete verbs, flags and topics",
    .details = details,
    .min = 1,
    .max = 1,
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG,
    .check = check,
    .run = run,
};
