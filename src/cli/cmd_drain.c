/* SPDX-License-Identifier: MIT */
#include "cli/job_json.h"
#include "cli/query.h"

#include <string.h>

static bool on;

static int check(struct cli *cli)
{
    on = strcmp(cli->words[0], "on") == 0;
    if (on || strcmp(cli->words[0], "off") == 0)
        return BI_EXIT_OK;
    return bi_cli_usage_error(cli, "\"%.60s\" is neither on nor off", cli->words[0]);
}

/* It is not stored: where the queue ends with this process nobody would notice. */
static int run(struct cli *cli)
{
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0)
        return bi_cli_error(cli, BI_EXIT_REFUSED,
                            "%.200s is used by nobody but this process, which ends at once, and "
                            "the draining with it; only a bided can be told",
                            cli->shown);
    int code = bide_drain(cli->queue, on);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:b}", "draining", on ? 1 : 0));
    bi_cli_note(cli, on ? "new jobs are refused until \"bide drain off\""
                        : "new jobs are accepted again");
    return BI_EXIT_OK;
}

const struct verb bi_verb_drain = {
    .name = "drain",
    .group = BI_GROUP_STORE,
    .usage = "on|off",
    .summary = "take no new jobs, and work off those that are there",
    .details = "While a server drains, whoever puts a job is refused; everything else goes on.\n"
               "A server that is started again takes jobs.\n"
               "\n"
               "  bide drain on\n"
               "  bide stats          until nothing is left\n"
               "  bide drain off\n",
    .min = 1,
    .max = 1,
    .check = check,
    .run = run,
};
