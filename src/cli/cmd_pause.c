/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

static int run(struct cli *cli)
{
    return bi_cli_failed(cli, BI_EXIT_FAILED, "this build has no %s", cli->verb->name);
}

const struct verb bi_verb_pause = {
    .name = "pause",
    .group = BI_GROUP_TOPIC,
    .usage = "",
    .summary = "",
    .most = BI_WORDS_MAX,
    .run = run,
};
