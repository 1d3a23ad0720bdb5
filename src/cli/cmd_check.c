/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

static int run(struct cli *cli)
{
    return bi_cli_failed(cli, BI_EXIT_FAILED, "this build has no %s", cli->verb->name);
}

const struct verb bi_verb_check = {
    .name = "check",
    .group = BI_GROUP_STORE,
    .usage = "",
    .summary = "",
    .most = BI_WORDS_MAX,
    .run = run,
};
