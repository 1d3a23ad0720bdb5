/* SPDX-License-Identifier: MIT */
#include "cli/ordered_pipeline.h"
#include "cli/query.h"

#include <assert.h>
#include <string.h>

static struct words state_args;
static bool yes;

/* In this order, so that what is purged of ready does not come again from delayed. */
static struct {
    bide_state state;
    size_t offset; /* in bide_counts */
    bool selected;
    uint64_t found, removed;
} purgeable[] = {
    {.state = BIDE_STATE_DELAYED, .offset = offsetof(bide_counts, delayed)},
    {.state = BIDE_STATE_READY, .offset = offsetof(bide_counts, ready)},
    {.state = BIDE_STATE_BURIED, .offset = offsetof(bide_counts, buried)},
    {.state = BIDE_STATE_DONE, .offset = offsetof(bide_counts, done)},
};
#define PURGEABLE_STATES (sizeof(purgeable) / sizeof(purgeable[0]))

struct purge {
    const struct cli *cli;
    uint64_t total, removed;
    struct progress progress;
    bool noted;       /* that the jobs are still being deleted after a signal */
    bide_state state; /* that is being purged */
};

static uint64_t count_of(const bide_counts *jobs, size_t kind)
{
    uint64_t count = 0;
    if (purgeable[kind].selected)
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
    for (size_t i = 0; i < PURGEABLE_STATES; i++)
        purgeable[i].selected = states == 0 || (states & 1u << purgeable[i].state) != 0;
    if ((states & 1u << BIDE_STATE_RESERVED) != 0)
        return bi_cli_usage_error(cli,
                                  "reserved jobs cannot be purged; \"bide cancel ID\" tells their "
                                  "workers to stop");
    return BI_EXIT_OK;
}

/* The question names what would be deleted. */
static bool confirm(const struct purge *purge, uint64_t reserved)
{
    char text[200] = "";
    size_t used = 0;

    for (size_t i = 0; i < PURGEABLE_STATES; i++)
        if (purgeable[i].found > 0 && used < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s",
                                     used == 0 ? "" : ", ", bi_text_number(purgeable[i].found).s,
                                     bide_state_name(purgeable[i].state));
    if (reserved > 0 && used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, "; %llu reserved stay",
                 (unsigned long long)reserved);
    return bi_cli_confirm(purge->cli, "Delete %s of %s for good (%s)?",
                          bi_text_jobs(purge->total).s, purge->cli->words[0], text);
}

/* ---- purging ---- */

/* A purge that was submitted cannot be cancelled: the wait goes on after a signal. */
static bool on_wait(void *user)
{
    struct purge *purge = user;
    bide_topic_stats topic;
    uint64_t left = 0;

    if (bide_topic_get_stats(purge->cli->queue, purge->cli->words[0], &topic) == BIDE_OK) {
        for (size_t i = 0; i < PURGEABLE_STATES; i++)
            left += count_of(&topic.jobs, i);
        bi_progress_set(&purge->progress, left < purge->total ? purge->total - left : 0);
    }
    if (bi_interrupted() && !purge->noted)
        bi_cli_note(purge->cli, "the %s jobs are being deleted; press Ctrl-C again to stop at once",
                    bide_state_name(purge->state));
    purge->noted = bi_interrupted();
    return true;
}

static int purge_state(struct purge *purge, size_t kind)
{
    const char *topic = purge->cli->words[0];
    bide_op op = {
        .kind = BIDE_OP_PURGE,
        .purge = {.topic = {topic, strlen(topic)}, .state = purgeable[kind].state},
    };

    assert(purgeable[kind].selected);
    purge->state = purgeable[kind].state;
    int exit = bi_ordered_pipeline_run_op(purge->cli, &op, on_wait, purge);
    if (exit != BI_EXIT_OK)
        return exit;
    purgeable[kind].removed = op.purge.count;
    purge->removed += op.purge.count;
    return bi_cli_report(purge->cli, NULL, op.status, op.error);
}

static int print_result(const struct purge *purge)
{
    const char *topic = purge->cli->words[0];
    if (!purge->cli->json) {
        printf("%s job%s of %s deleted\n", bi_text_count(purge->cli, purge->removed).s,
               purge->removed == 1 ? "" : "s", topic);
        return BI_EXIT_OK;
    }
    json_t *states = json_object();
    for (size_t i = 0; i < PURGEABLE_STATES; i++)
        if (purgeable[i].selected)
            json_object_set_new(states, bide_state_name(purgeable[i].state),
                                json_integer((json_int_t)purgeable[i].removed));
    return bi_cli_print_json(purge->cli, json_pack("{s:s, s:I, s:o}", "topic", topic, "purged",
                                                   (json_int_t)purge->removed, "states", states));
}

static int purge_all(struct purge *purge)
{
    int exit = bi_interrupt_watch(purge->cli, purge->cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    bi_progress_begin(&purge->progress, purge->cli, "purging", purge->total);
    for (size_t i = 0; i < PURGEABLE_STATES && exit == BI_EXIT_OK && !bi_interrupted(); i++)
        if (purgeable[i].selected)
            exit = purge_state(purge, i);
    bi_progress_end(&purge->progress);
    int noted = print_result(purge);
    if (exit == BI_EXIT_OK && bi_interrupted())
        exit = bi_interrupt_exit();
    return exit == BI_EXIT_OK ? noted : exit;
}

/* ---- the verb ---- */

static int run(struct cli *cli)
{
    struct purge purge = {.cli = cli};
    bide_topic_stats topic;

    /* Not asked of the queue: a backend that lacks some other op would purge without a question. */
    if ((bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_cli_report(cli, NULL, BIDE_ENOTSUP,
                             "the server is a plain beanstalkd, which cannot do that");
    int exit = bi_query_topic_stats_or_zero(cli, cli->words[0], &topic);
    if (exit != BI_EXIT_OK)
        return exit;

    for (size_t i = 0; i < PURGEABLE_STATES; i++) {
        purgeable[i].found = count_of(&topic.jobs, i);
        purge.total += purgeable[i].found;
    }
    if (purge.total == 0)
        return print_result(&purge);
    if (!yes && !confirm(&purge, topic.jobs.reserved))
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
    .flags = flags,
    .check = check,
    .run = run,
};
