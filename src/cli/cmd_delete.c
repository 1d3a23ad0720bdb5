/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/verb.h"

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    op->kind = BIDE_OP_DELETE;
    op->lease = (bide_lease_args){.id = id, .token = token};
}

static struct id_verb id_verb = {.past_tense = "deleted", .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAGS_END,
};

static const char details[] =
    "Without a token it deletes jobs that nobody works on; one that is reserved is refused. With\n"
    "the token of its lease the job's work is finished, and it is forgotten.\n"
    "\n"
    "With - the ids are lines of standard input, each with its token behind it if it has one.\n"
    "\n"
    "  bide delete 12\n"
    "  bide delete 12 --token 4294967301\n"
    "  bide list email --state buried --json | jq .id | bide delete -\n";

static int check(struct cli *cli)
{
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    return bi_by_id_run(cli, &id_verb);
}

const struct verb bi_verb_delete = {
    .name = "delete",
    .group = BI_GROUP_LEASE,
    .usage = "ID...|-",
    .summary = "delete jobs: finished, or not wanted any more",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
