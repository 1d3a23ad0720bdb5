/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/job_json.h"
#include "cli/verb.h"
#include "util/duration.h"

#include <string.h>

static int64_t extend_ms;
static const char *progress = "";
static bool keep_deadline;

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    op->kind = BIDE_OP_TOUCH;
    op->touch = (bide_touch_item){.id = id,
                                  .token = token,
                                  .extend_ms = keep_deadline ? BIDE_KEEP : extend_ms,
                                  .progress = {progress, strlen(progress)}};
}

static void print(const struct id_verb *id_verb, const struct cli *cli, const bide_op *op,
                  uint64_t id)
{
    char left[BI_DATETIME_SIZE];
    (void)id_verb;
    bi_duration_format(left, op->touch.left_ms);
    if (cli->json)
        bi_cli_print_json(cli, json_pack("{s:I, s:s, s:I, s:b}", "id", (json_int_t)id, "verb",
                                         "touch", "left_ms", (json_int_t)op->touch.left_ms,
                                         "cancel_wanted", op->status == BIDE_CANCEL_WANTED));
    else if (cli->out_terminal)
        printf("job %llu is yours for another %s\n", (unsigned long long)id, left);
}

static struct id_verb id_verb = {.past_tense = "touched",
                                 .requires_token = true,
                                 .accepted_status = BIDE_CANCEL_WANTED,
                                 .build_op = build_op,
                                 .print = print};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_DURATION('e', "extend", &extend_ms, "that long from now, instead of the job's ttr"),
    BI_FLAG_STRING('p', "progress", "TEXT", &progress, "how far the work is, up to 200 bytes"),
    BI_FLAG_BOOL('k', "keep", &keep_deadline,
                 "leave the end of the lease as it is: only say, or ask"),
    BI_FLAGS_END,
};

static const char details[] =
    "The lease of a reserved job runs again from now, for the job's ttr. Exit 5: the lease is\n"
    "lost, or it was extended but somebody wants the job to stop (\"bide cancel\"); either way\n"
    "the work should end.\n"
    "\n"
    "With - the jobs are lines of standard input: the id, a space, and the token.\n"
    "\n"
    "  bide touch 12 --token 4294967301\n"
    "  bide touch 12 --token 4294967301 --progress '40 of 100 pages'\n";

static int check(struct cli *cli)
{
    if (keep_deadline && extend_ms != 0)
        return bi_cli_usage_error(cli, "--keep and --extend are both given; choose one");
    if (strlen(progress) > BIDE_PROGRESS_MAX)
        return bi_cli_usage_error(cli, "--progress has %zu bytes; %d are allowed", strlen(progress),
                                  BIDE_PROGRESS_MAX);
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    int exit = bi_cli_require_leases(cli);
    return exit == BI_EXIT_OK ? bi_by_id_run(cli, &id_verb) : exit;
}

const struct verb bi_verb_touch = {
    .name = "touch",
    .group = BI_GROUP_LEASE,
    .usage = "ID --token TOKEN | -",
    .summary = "keep a reserved job for longer",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = 1,
    .check = check,
    .run = run,
};
