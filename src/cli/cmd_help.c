/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

static int run(struct cli *cli)
{
    if (cli->word_count == 0) {
        bi_help_print_all(stdout);
        return BI_EXIT_OK;
    }
    const struct verb *verb = bi_verb_find(cli->words[0]);
    const char *near = bi_verb_suggest(cli->words[0]);
    if (verb == NULL)
        cli->verb = NULL; /* the way out is the list of all verbs, not the help of help */
    if (verb == NULL && near != NULL)
        return bi_cli_usage_error(cli, "there is no verb \"%.60s\"; did you mean %s?",
                                  cli->words[0], near);
    if (verb == NULL)
        return bi_cli_usage_error(cli, "there is no verb \"%.60s\"", cli->words[0]);
    bi_help_print_verb(stdout, verb);
    return BI_EXIT_OK;
}

const struct verb bi_verb_help = {
    .name = "help",
    .group = BI_GROUP_SELF,
    .usage = "[VERB]",
    .summary = "what bide can do, or one verb with its flags and examples",
    .details = "\"bide VERB --help\" is the same.\n"
               "\n"
               "  bide help\n"
               "  bide help put\n",
    .max = 1,
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG,
    .run = run,
};
