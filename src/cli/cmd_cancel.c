/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/verb.h"

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    (void)token;
    op->kind = BIDE_OP_CANCEL;
    op->lease = (bide_lease_args){.id = id};
}

static const struct id_verb id_verb = {.past_tense = "cancelled", .build_op = build_op};

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
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    return bi_by_id_run(cli, &id_verb);
}

const struct verb bi_verb_cancel = {
    .name = "cancel",
    .group = BI_GROUP_JOBS,
    .usage = "ID...|-",
    .summary = "delete jobs, or tell those who work on them to stop",
    .details = details,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
