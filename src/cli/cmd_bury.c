/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/verb.h"

#include <string.h>

static int64_t priority = BIDE_KEEP;
static const char *reason = "";

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    op->kind = BIDE_OP_BURY;
    op->bury = (bide_bury_args){
        .id = id, .token = token, .priority = priority, .reason = {reason, strlen(reason)}};
}

static struct id_verb id_verb = {.past_tense = "buried", .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_STRING('r', "reason", "TEXT", &reason, "why; shown as the job's last error"),
    BI_FLAG_PRIORITY('p', "priority", &priority, "its new priority"),
    BI_FLAGS_END,
};

static const char details[] =
    "A buried job stays where it is, and nobody gets it, until somebody kicks it. Without a\n"
    "token a job that is reserved is refused.\n"
    "\n"
    "With - the ids are lines of standard input, each with its token behind it if it has one.\n"
    "\n"
    "  bide bury 12 --reason 'no such address'\n"
    "  bide bury 12 --token 4294967301\n"
    "  bide kick email\n";

static int check(struct cli *cli)
{
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    return bi_by_id_run(cli, &id_verb);
}

const struct verb bi_verb_bury = {
    .name = "bury",
    .group = BI_GROUP_LEASE,
    .usage = "ID...|-",
    .summary = "set jobs aside until they are kicked",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
