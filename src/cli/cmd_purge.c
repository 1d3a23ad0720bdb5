/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/ordered_pipeline.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "op/job_json.h"

#include <string.h>

static struct words state_args;
static bool yes;

#define BIT(state) (1u << (state))
#define ALL_PURGEABLE                                                           \
    (BIT(BIDE_STATE_DELAYED) | BIT(BIDE_STATE_READY) | BIT(BIDE_STATE_BURIED) | \
     BIT(BIDE_STATE_DONE))

/* In this order, so that what is purged of ready does not come again from delayed. */
static const struct {
    bide_state state;
    size_t offset;
} purgeable[] = {
    {BIDE_STATE_DELAYED, offsetof(bide_counts, delayed)},
    {BIDE_STATE_READY, offsetof(bide_counts, ready)},
    {BIDE_STATE_BURIED, offsetof(bide_counts, buried)},
    {BIDE_STATE_DONE, offsetof(bide_counts, done)},
};
#define PURGEABLE_STATES (sizeof(purgeable) / sizeof(purgeable[0]))

struct purge {
    const struct cli *cli;
    unsigned states;
    uint64_t found[PURGEABLE_STATES]; /* before */
    uint64_t total;
    uint64_t removed[PURGEABLE_STATES];
    uint64_t removed_total;
    struct progress progress;
};

static uint64_t count_of(const bide_counts *jobs, size_t kind)
{
    uint64_t count;
    memcpy(&count, (const char *)jobs + purgeable[kind].offset, sizeof(count));
    return count;
}

/* ---- before ---- */

static int check(struct cli *cli)
{
    unsigned states;
    if (!bi_query_check_topic(cli, cli->words[0]) ||
        !bi_query_parse_states(cli, &state_args, &states))
        return BI_EXIT_USAGE;
    if ((states & BIT(BIDE_STATE_RESERVED)) != 0)
        return bi_cli_usage_error(cli,
                                  "reserved jobs cannot be purged; \"bide cancel ID\" tells their "
                                  "workers to stop");
    return BI_EXIT_OK;
}

/* The question names what would be deleted. */
static void describe(const struct purge *purge, uint64_t reserved, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < PURGEABLE_STATES; i++) {
        char number[32];
        if (purge->found[i] == 0 || used >= size)
            continue;
        bi_print_number(number, purge->found[i]);
        used += (size_t)snprintf(text + used, size - used, "%s%s %s", used == 0 ? "" : ", ", number,
                                 bide_state_name(purgeable[i].state));
    }
    if (reserved > 0 && used < size)
        snprintf(text + used, size - used, "; %llu reserved stay", (unsigned long long)reserved);
}

static bool confirm(const struct purge *purge, uint64_t reserved)
{
    char text[200], number[32];
    describe(purge, reserved, text, sizeof(text));
    bi_print_number(number, purge->total);
    return bi_cli_confirm(purge->cli, "Delete %s job%s of %s for good (%s)?", number,
                          purge->total == 1 ? "" : "s", purge->cli->words[0], text);
}

/* ---- purging ---- */

static void show_progress(struct purge *purge)
{
    bide_topic_stats topic;
    uint64_t left = 0;
    if (bide_topic_get_stats(purge->cli->queue, purge->cli->words[0], &topic) != BIDE_OK)
        return;
    for (size_t i = 0; i < PURGEABLE_STATES; i++)
        if ((purge->states & BIT(purgeable[i].state)) != 0)
            left += count_of(&topic.jobs, i);
    bi_progress_set(&purge->progress, left < purge->total ? purge->total - left : 0);
}

/* A purge that was submitted cannot be cancelled: the wait goes on after a signal. */
static int purge_state(struct purge *purge, size_t kind)
{
    const char *topic = purge->cli->words[0];
    struct ordered_pipeline *pipeline =
        bi_ordered_pipeline_new(purge->cli, purge->cli->queue, NULL, NULL);
    bool noted = false;
    if (pipeline == NULL)
        return BI_EXIT_FAILED;

    bide_op *op = &bi_ordered_pipeline_get_slot(pipeline, 0)->op;
    op->kind = BIDE_OP_PURGE;
    op->purge = (bide_purge_args){.topic = {topic, strlen(topic)}, .state = purgeable[kind].state};
    bi_ordered_pipeline_submit(pipeline);
    while (!bi_ordered_pipeline_wait(pipeline, 200)) {
        show_progress(purge);
        if (bi_interrupted() && !noted)
            bi_cli_note(purge->cli,
                        "the %s jobs are being deleted; press Ctrl-C again to stop at once",
                        bide_state_name(purgeable[kind].state));
        noted = bi_interrupted();
    }

    purge->removed[kind] = op->purge.count;
    purge->removed_total += op->purge.count;
    int exit = bi_cli_report(purge->cli, NULL, op->status, op->error);
    bi_ordered_pipeline_free(pipeline);
    return exit;
}

static int print_result(const struct purge *purge)
{
    const char *topic = purge->cli->words[0];
    if (!purge->cli->json) {
        char number[32];
        bi_print_count(purge->cli, number, purge->removed_total);
        printf("%s job%s of %s deleted\n", number, purge->removed_total == 1 ? "" : "s", topic);
        return BI_EXIT_OK;
    }
    json_t *states = json_object();
    for (size_t i = 0; i < PURGEABLE_STATES; i++)
        if ((purge->states & BIT(purgeable[i].state)) != 0)
            json_object_set_new(states, bide_state_name(purgeable[i].state),
                                json_integer((json_int_t)purge->removed[i]));
    return bi_cli_print_json(purge->cli,
                             json_pack("{s:s, s:I, s:o}", "topic", topic, "purged",
                                       (json_int_t)purge->removed_total, "states", states));
}

static int purge_all(struct purge *purge)
{
    int exit = bi_interrupt_watch(purge->cli, purge->cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    bi_progress_begin(&purge->progress, purge->cli, "purging", purge->total);
    for (size_t i = 0; i < PURGEABLE_STATES && exit == BI_EXIT_OK && !bi_interrupted(); i++)
        if ((purge->states & BIT(purgeable[i].state)) != 0)
            exit = purge_state(purge, i);
    bi_progress_end(&purge->progress);
    int noted = print_result(purge);
    if (exit == BI_EXIT_OK && bi_interrupted())
        exit = bi_interrupt_exit();
    return exit == BI_EXIT_OK ? noted : exit;
}

/* ---- the verb ---- */

/* Counts the jobs in each state. */
static int count(struct purge *purge, uint64_t *reserved)
{
    bide_topic_stats topic;
    int exit = bi_query_topic_stats_or_zero(purge->cli, purge->cli->words[0], &topic);
    if (exit != BI_EXIT_OK)
        return exit;
    for (size_t i = 0; i < PURGEABLE_STATES; i++) {
        if ((purge->states & BIT(purgeable[i].state)) == 0)
            continue;
        purge->found[i] = count_of(&topic.jobs, i);
        purge->total += purge->found[i];
    }
    *reserved = topic.jobs.reserved;
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    struct purge purge = {.cli = cli};
    uint64_t reserved = 0;
    if (!bi_query_parse_states(cli, &state_args, &purge.states))
        return BI_EXIT_USAGE;
    if (purge.states == 0)
        purge.states = ALL_PURGEABLE;
    /* Not asked of the queue: a backend that lacks some other op would purge without a question. */
    if ((bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_cli_report(cli, NULL, BIDE_ENOTSUP,
                             "the server is a plain beanstalkd, which cannot do that");
    int exit = count(&purge, &reserved);
    if (exit != BI_EXIT_OK)
        return exit;
    if (purge.total == 0)
        return print_result(&purge);
    if (!yes && !confirm(&purge, reserved))
        return BI_EXIT_USAGE;
    return purge_all(&purge);
}

static const struct flag flags[] = {
    BI_FLAG_LIST('s', "state", "STATE", &state_args,
                 "only jobs in this state: delayed, ready, buried, done; repeatable"),
    BI_FLAG_BOOL('y', "yes", &yes, "do not ask for confirmation"),
    BI_FLAGS_END,
};

const struct verb bi_verb_purge = {
    .name = "purge",
    .usage = "TOPIC",
    .summary = "delete all jobs of a topic, or those in some states",
    .details = "Asks for confirmation, with the number of jobs, unless --yes is given. Without\n"
               "--state all jobs are deleted, except reserved ones. Jobs that are put meanwhile\n"
               "stay. If the answer is no, or there is no terminal, nothing is deleted and the\n"
               "exit code is 2. A topic that does not exist has no jobs: the exit code is 0.\n"
               "\n"
               "  bide purge email --state buried\n"
               "  bide purge email --state buried,done --yes\n"
               "  bide purge email\n",
    .flags = flags,
    .check = check,
    .run = run,
};
