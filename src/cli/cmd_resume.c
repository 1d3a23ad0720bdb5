/* SPDX-License-Identifier: MIT */
#include "cli/job_json.h"
#include "cli/query.h"

static int check(struct cli *cli)
{
    return bi_query_check_topic(cli, cli->words[0]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int run(struct cli *cli)
{
    bide_topic_stats before;
    int code = bide_topic_get_stats(cli->queue, cli->words[0], &before);
    if (code == BIDE_OK)
        code = bide_resume(cli->queue, cli->words[0]);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:b}", "topic", cli->words[0], "paused", 0));
    bi_cli_note(cli, before.paused ? "%s is resumed" : "%s was not paused", cli->words[0]);
    return BI_EXIT_OK;
}

const struct verb bi_verb_resume = {
    .name = "resume",
    .group = BI_GROUP_TOPIC,
    .usage = "TOPIC",
    .summary = "ends a pause",
    .details = "Nothing happens when the topic is not paused; one that is not there is not\n"
               "found.\n"
               "\n"
               "  bide resume email\n",
    .min = 1,
    .max = 1,
    .check = check,
    .run = run,
};
