/* SPDX-License-Identifier: MIT */
#include "cli/each.h"
#include "cli/verb.h"

static void aim(const struct each *each, bide_op *op, uint64_t id, uint64_t token)
{
    (void)each;
    (void)token;
    op->kind = BIDE_OP_CANCEL;
    op->lease = (bide_lease_args){.id = id};
}

static const struct each each = {.did = "cancelled", .aim = aim};

static const char details[] =
    "A job that nobody works on is deleted. One that is reserved is marked: its worker is told\n"
    "to stop, and whatever it then answers removes the job; only a result that it finished all\n"
    "the same is kept.\n"
    "\n"
    "With - the ids are lines of standard input.\n"
    "\n"
    "  bide cancel 12\n"
    "  bide cancel 12 13 14\n";

static int check(struct cli *cli)
{
    return bi_each_check(cli, &each);
}

static int run(struct cli *cli)
{
    return bi_each_run(cli, &each);
}

const struct verb bi_verb_cancel = {
    .name = "cancel",
    .group = BI_GROUP_JOBS,
    .usage = "ID...|-",
    .summary = "delete jobs, or tell those who work on them to stop",
    .details = details,
    .least = 1,
    .most = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
