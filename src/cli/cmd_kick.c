/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/job_json.h"
#include "cli/print.h"
#include "cli/query.h"
#include "cli/verb.h"

static bool by_id, delayed;
static uint64_t max = UINT64_MAX;

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    (void)token;
    op->kind = BIDE_OP_KICK_JOB;
    op->lease = (bide_lease_args){.id = id};
}

static const struct id_verb id_verb = {.past_tense = "kicked", .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_BOOL('i', "id", &by_id, "the words are ids of jobs, buried or delayed"),
    BI_FLAG_BOOL('d', "delayed", &delayed, "if none is buried: the delayed jobs, soonest first"),
    BI_FLAGS_END,
};

static const char details[] =
    "Makes the buried jobs of a topic ready, all of them or N, the one that was buried first\n"
    "first, with their failures forgotten. Prints how many. The delayed jobs of a topic are only\n"
    "kicked when that is asked for, and none is buried.\n"
    "\n"
    "With --id and - the ids are lines of standard input.\n"
    "\n"
    "  bide kick email\n"
    "  bide kick email 10\n"
    "  bide kick --id 12 13\n";

static int check(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];
    if (by_id)
        return delayed ? bi_cli_usage_error(cli, "--delayed is for a topic, not for --id")
                       : bi_by_id_check(cli, &id_verb);
    if (cli->word_count > 2)
        return bi_cli_usage_error(cli, "a topic and a number are enough; ids want --id");
    if (cli->word_count == 2 && !bi_flag_parse_count(cli->words[1], &max, reason))
        return bi_cli_usage_error(cli, "\"%.60s\" %s", cli->words[1], reason);
    return bi_query_check_topic(cli, cli->words[0]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int print_count(const struct cli *cli, uint64_t count)
{
    char number[32];
    bi_print_number(number, count);
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:s, s:I}", "topic", cli->words[0], "verb",
                                                "kick", "count", (json_int_t)count));
    if (cli->out_terminal)
        printf("%s job%s kicked\n", number, count == 1 ? "" : "s");
    else
        printf("%llu\n", (unsigned long long)count);
    return BI_EXIT_OK;
}

/* Without buried_only a kick turns to the delayed jobs when no job is buried, also when another client
 * has kicked the buried ones since the stats were read. A plain beanstalkd has no other kick: there the
 * count of buried jobs is the limit. */
static int kick_some(const struct cli *cli, uint64_t limit, uint64_t *count)
{
    bool plain = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0;
    return delayed || plain ? bide_kick(cli->queue, cli->words[0], limit, count)
                            : bide_kick_buried(cli->queue, cli->words[0], limit, count);
}

static int kick(const struct cli *cli)
{
    const char *topic = cli->words[0];
    bide_topic_stats stats;
    uint64_t count = 0;
    int code = bide_topic_get_stats(cli->queue, topic, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    uint64_t there = stats.jobs.buried > 0 ? stats.jobs.buried : delayed ? stats.jobs.delayed : 0;
    if (there > 0 && max > 0)
        code = kick_some(cli, there < max ? there : max, &count);
    else if (max > 0 && !delayed && stats.jobs.delayed > 0)
        bi_cli_note(cli, "no job of %s is buried; --delayed kicks those that are delayed: %llu",
                    topic, (unsigned long long)stats.jobs.delayed);
    int exit = bi_cli_report_last(cli, code);
    int printed = print_count(cli, count);
    return exit == BI_EXIT_OK ? printed : exit;
}

static int run(struct cli *cli)
{
    if (by_id)
        return bi_by_id_run(cli, &id_verb);
    return kick(cli);
}

const struct verb bi_verb_kick = {
    .name = "kick",
    .group = BI_GROUP_JOBS,
    .usage = "TOPIC [N] | --id ID...|-",
    .summary = "make buried (or delayed) jobs ready",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
