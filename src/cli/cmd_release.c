/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/verb.h"

static int64_t priority = BIDE_KEEP;
static int64_t delay_ms;
static bool give_back;

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    if (give_back) {
        op->kind = BIDE_OP_GIVE_BACK;
        op->lease = (bide_lease_args){.id = id, .token = token};
        return;
    }
    op->kind = BIDE_OP_RELEASE;
    op->release =
        (bide_release_args){.id = id, .token = token, .priority = priority, .delay_ms = delay_ms};
}

static struct id_verb id_verb = {
    .past_tense = "released", .requires_token = true, .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_DURATION('d', "delay", &delay_ms, "ready that much later"),
    BI_FLAG_PRIORITY('p', "priority", &priority, "its new priority"),
    BI_FLAG_BOOL(0, "uncounted", &give_back, "as if it had never been begun: counts nothing"),
    BI_FLAGS_END,
};

static const char details[] =
    "Gives a reserved job back, for others to take; that is no failure. \"bide fail\" is for work\n"
    "that went wrong.\n"
    "\n"
    "With - the jobs are lines of standard input: the id, a space, and the token.\n"
    "\n"
    "  bide release 12 --token 4294967301\n"
    "  bide release 12 --token 4294967301 --delay 10m --priority 2000\n";

static int check(struct cli *cli)
{
    if (give_back && (delay_ms != 0 || priority != BIDE_KEEP))
        return bi_cli_usage_error(cli,
                                  "--uncounted leaves a job as it was: no --delay, no --priority");
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    int exit = bi_cli_require_leases(cli);
    return exit == BI_EXIT_OK ? bi_by_id_run(cli, &id_verb) : exit;
}

const struct verb bi_verb_release = {
    .name = "release",
    .group = BI_GROUP_LEASE,
    .usage = "ID --token TOKEN | -",
    .summary = "give a reserved job back",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = 1,
    .check = check,
    .run = run,
};
