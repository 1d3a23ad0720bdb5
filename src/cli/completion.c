/* SPDX-License-Identifier: MIT */
/*
 * completion.c - bide completion, and what its scripts have in common.
 */
#include "cli/completion.h"
#include "cli/connect.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Strips brackets, optional suffixes ("TOPIC[:WEIGHT]") and "...", which means that the argument
 * repeats. */
static void add_slot(struct slots *slots, const char *text, size_t size)
{
    char *name = slots->name[slots->count];
    size_t length = 0;
    bool skipping = false;
    slots->repeats = false;
    for (size_t i = 0; i < size && length < BI_SLOT_SIZE - 1; i++) {
        skipping = (skipping && text[i] != ']') || (text[i] == '[' && length > 0);
        if (text[i] == '.')
            slots->repeats = true;
        else if (!skipping && strchr("[]()", text[i]) == NULL)
            name[length++] = text[i];
    }
    name[length] = 0;
    slots->count++;
}

/* A flag or a separate | in the usage begins an alternative usage. */
void bi_completion_parse_usage(struct slots *slots, const char *usage)
{
    *slots = (struct slots){.count = 0};
    while (usage[0] != 0 && usage[0] != '-' && slots->count < BI_SLOTS_MAX) {
        size_t size = strcspn(usage, " ");
        if (size == 1 && usage[0] == '|')
            break;
        add_slot(slots, usage, size);
        usage += size;
        usage += strspn(usage, " ");
    }
}

const char *bi_completion_next_choice(const char **at, size_t *size)
{
    const char *choice = *at;
    if (*choice == 0)
        return NULL;
    *size = strcspn(choice, "|");
    *at += *size + (choice[*size] == '|');
    return choice;
}

void bi_completion_print_states(FILE *to)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        fprintf(to, "%s%s", state == BIDE_STATE_DELAYED ? "" : " ", bide_state_name(state));
}

#define PAGE       500
#define TIMEOUT_S  2
#define TOPICS_MAX 10000

/* ---- topics ---- */

/* The tab key must not hang on a server that does not answer. */
static void on_alarm(int number)
{
    (void)number;
    _exit(BI_EXIT_TIMED_OUT);
}

/* A file is not opened: it would be locked for other processes meanwhile. */
static int open_server(struct cli *cli)
{
    cli->no_start = true;
    int exit = bi_connect_load_config(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    const char *url = bi_connect_explicit_url(cli);
    if (url != NULL && strncmp(url, "beanstalk:", 10) != 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "topics are completed from servers only");
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
    return bi_cli_usage_error(cli, "\"%.60s\" is not bash, zsh or topics", cli->words[0]);
}

static int run(struct cli *cli)
{
    return find_script(cli->words[0])->print(cli);
}

static const char details[] =
    "An installed bide has its completions installed. Otherwise:\n"
    "\n"
    "  source <(bide completion bash)          now, in bash\n"
    "  bide completion zsh > ~/.zfunc/_bide    for zsh; must be in fpath\n"
    "\n"
    "\"bide completion topics\" prints the topics of a server, for the scripts. It gives up\n"
    "after two seconds.\n";

const struct verb bi_verb_completion = {
    .name = "completion",
    .group = BI_GROUP_SELF,
    .usage = "bash|zsh|topics",
    .summary = "print a shell completion script",
    .details = details,
    .min = 1,
    .max = 1,
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG,
    .check = check,
    .run = run,
};
