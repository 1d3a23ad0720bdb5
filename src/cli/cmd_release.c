/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

static int run(struct cli *cli)
{
    return bi_cli_failed(cli, BI_EXIT_FAILED, "this build has no %s", cli->verb->name);
}

const struct verb bi_verb_release = {
    .name = "release",
    .group = BI_GROUP_LEASE,
    .usage = "",
    .summary = "",
    .most = BI_WORDS_MAX,
    .run = run,
};
