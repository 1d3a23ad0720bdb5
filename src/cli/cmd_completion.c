/* SPDX-License-Identifier: MIT */
#include "cli/completion.h"
#include "cli/reach.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PAGE        500
#define PATIENCE_S  2
#define TOPICS_MOST 10000

/* ---- topics ---- */

/* Whoever has pressed the tab key does not wait for a server that is silent. */
static void give_up(int number)
{
    (void)number;
    _exit(BI_EXIT_TIMED_OUT);
}

/* Of a file nothing is asked: to open it takes it away from whoever wants to work with it. */
static int open_server(struct cli *cli)
{
    cli->no_start = true;
    int exit = bi_reach_configure(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    const char *url = bi_reach_said(cli);
    if (url != NULL && strncmp(url, "beanstalk:", 10) != 0)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE, "only a server is asked for its topics");
    return bi_reach_open(cli);
}

static int print_topics(struct cli *cli)
{
    static bide_topic_stats topics[PAGE];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count, total = 0;
    signal(SIGALRM, give_up);
    alarm(PATIENCE_S);
    int exit = open_server(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    do {
        int code = bide_topics(cli->queue, cursor, topics, PAGE, &count);
        if (code != BIDE_OK)
            return bi_cli_answered(cli, code);
        for (size_t i = 0; i < count; i++)
            printf("%s\n", topics[i].name);
        total += count;
    } while (cursor[0] != 0 && total < TOPICS_MOST);
    return BI_EXIT_OK;
}

/* ---- the verb ---- */

static int print_bash(struct cli *cli)
{
    (void)cli;
    bi_completion_bash(stdout);
    return BI_EXIT_OK;
}

static int print_zsh(struct cli *cli)
{
    (void)cli;
    bi_completion_zsh(stdout);
    return BI_EXIT_OK;
}

static const struct kind {
    const char *name;
    int (*print)(struct cli *cli);
} kinds[] = {
    {"bash", print_bash},
    {"zsh", print_zsh},
    {"topics", print_topics},
};

static const struct kind *find(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int check(struct cli *cli)
{
    if (find(cli->words[0]) != NULL)
        return BI_EXIT_OK;
    return bi_cli_misused(cli, "\"%.60s\" is neither bash, zsh nor topics", cli->words[0]);
}

static int run(struct cli *cli)
{
    return find(cli->words[0])->print(cli);
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
    .least = 1,
    .most = 1,
    .traits = BI_ALONE | BI_BARE,
    .check = check,
    .run = run,
};
