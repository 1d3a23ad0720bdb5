/* SPDX-License-Identifier: MIT */
#include "cli/each.h"
#include "cli/verb.h"

#include <string.h>

static int64_t priority = BIDE_KEEP;
static const char *reason = "";

static void aim(const struct each *each, bide_op *op, uint64_t id, uint64_t token)
{
    (void)each;
    op->kind = BIDE_OP_BURY;
    op->bury = (bide_bury_args){
        .id = id, .token = token, .priority = priority, .reason = {reason, strlen(reason)}};
}

static struct each each = {.did = "buried", .aim = aim};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &each.token, "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_TEXT('r', "reason", "TEXT", &reason, "why; shown as the job's last error"),
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
    return bi_each_check(cli, &each);
}

static int run(struct cli *cli)
{
    return bi_each_run(cli, &each);
}

const struct verb bi_verb_bury = {
    .name = "bury",
    .group = BI_GROUP_LEASE,
    .usage = "ID...|-",
    .summary = "set jobs aside until they are kicked",
    .details = details,
    .flags = flags,
    .least = 1,
    .most = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
