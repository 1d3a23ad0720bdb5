/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/job_json.h"
#include "cli/verb.h"
#include "util/duration.h"

#include <string.h>

static int64_t retry_in_ms = BIDE_KEEP;
static const char *error = "";

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    op->kind = BIDE_OP_FAIL;
    op->fail = (bide_fail_args){
        .id = id, .token = token, .error = {error, strlen(error)}, .retry_in_ms = retry_in_ms};
}

static void print(const struct id_verb *id_verb, const struct cli *cli, const bide_op *op,
                  uint64_t id)
{
    const char *state = bide_state_name(op->fail.state);
    char delay[BI_DATETIME_SIZE];
    (void)id_verb;
    bi_duration_format(delay, op->fail.delay_ms);
    if (cli->json)
        bi_cli_print_json(cli,
                          json_pack("{s:I, s:s, s:s, s:I}", "id", (json_int_t)id, "verb", "fail",
                                    "state", state, "delay_ms", (json_int_t)op->fail.delay_ms));
    else if (!cli->out_terminal)
        printf("%s\n", state);
    else if (op->fail.state == BIDE_STATE_DELAYED)
        printf("job %llu is tried again in %s\n", (unsigned long long)id, delay);
    else
        printf("job %llu is %s\n", (unsigned long long)id, state);
}

static struct id_verb id_verb = {.past_tense = "failed", .build_op = build_op, .print = print};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_STRING('e', "error", "TEXT", &error, "what went wrong; shown as the job's last error"),
    BI_FLAG_DURATION('r', "retry-in", &retry_in_ms, "instead of what the job's backoff says"),
    BI_FLAGS_END,
};

static const char details[] =
    "The work went wrong: the job comes back after its backoff, or is buried when its retries\n"
    "are used up (put --retries). Prints what became of it: delayed, ready or buried, or gone if\n"
    "it was cancelled. Without a token a job that is reserved is refused.\n"
    "\n"
    "With - the ids are lines of standard input, each with its token behind it if it has one.\n"
    "\n"
    "  bide fail 12 --token 4294967301 --error 'no answer from the mail server'\n"
    "  bide fail 12 --token 4294967301 --retry-in 1h\n";

static int check(struct cli *cli)
{
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    return bi_by_id_run(cli, &id_verb);
}

const struct verb bi_verb_fail = {
    .name = "fail",
    .group = BI_GROUP_LEASE,
    .usage = "ID...|-",
    .summary = "say that a job went wrong: it is tried again, or buried",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
