/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

#include "cli/input.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ID_LINE_MAX 64 /* bytes of a line with an id and a token */

uint64_t bi_by_id_token;

struct id_run {
    const struct cli *cli;
    const struct id_verb *id_verb;
    struct ordered_pipeline *pipeline;
    uint64_t reported, failures;
    uint64_t line; /* the last that was reported; 0: the jobs are arguments */
    int exit;      /* of the first job that was rejected */
    bool failed;   /* further jobs would fail in the same way */
};

/* ---- arguments ---- */

static bool reads_input(const struct cli *cli)
{
    return cli->word_count == 1 && strcmp(cli->words[0], "-") == 0;
}

static int check_words(struct cli *cli, const struct id_verb *id_verb)
{
    if (reads_input(cli))
        return bi_by_id_token == 0
                   ? BI_EXIT_OK
                   : bi_cli_usage_error(cli,
                                        "--token and - are both given: with - the token follows "
                                        "the id in each line");
    if (bi_cli_parse_ids(cli) != BI_EXIT_OK)
        return BI_EXIT_USAGE;

    if (bi_by_id_token != 0 && cli->word_count > 1)
        return bi_cli_usage_error(cli, "--token is for one job, but %zu are given",
                                  cli->word_count);
    if (id_verb->token == BI_TOKEN_REQUIRED && bi_by_id_token == 0)
        return bi_cli_usage_error(
            cli,
            "missing --token, as printed by \"bide reserve\": only the holder "
            "of a job can %s it",
            cli->verb->name);
    return BI_EXIT_OK;
}

int bi_by_id_check(struct cli *cli)
{
    const struct id_verb *id_verb = cli->verb->data;
    int exit = id_verb->check == NULL ? BI_EXIT_OK : id_verb->check(cli);
    return exit == BI_EXIT_OK ? check_words(cli, id_verb) : exit;
}

/* ---- results ---- */

static void count_failure(struct id_run *run, int exit)
{
    run->failures++;
    if (run->exit == BI_EXIT_OK)
        run->exit = exit;
}

/* Names the line, and the job unless the error text of the op does. */
static void print_failure(struct id_run *run, const bide_op *op, uint64_t id)
{
    char job[40], line[40] = "", subject[80];
    const char *error = op->error;

    assert(op->status != BIDE_OK);
    snprintf(job, sizeof(job), "job %llu", (unsigned long long)id);
    if (run->line > 0)
        snprintf(line, sizeof(line), "line %llu", (unsigned long long)run->line);
    if (strstr(error, job) != NULL)
        job[0] = 0;
    snprintf(subject, sizeof(subject), "%s%s%s", line, line[0] != 0 && job[0] != 0 ? ", " : "",
             job);

    if (op->status == BIDE_CANCEL_WANTED)
        error = "the lease is extended, but the job was cancelled and should stop";
    count_failure(run, bi_cli_report(run->cli, subject, op->status, error));
}

static void on_done(void *user, struct op_slot *slot)
{
    struct id_run *run = user;
    const struct cli *cli = run->cli;
    const struct id_verb *id_verb = run->id_verb;
    int code = slot->op.status;

    run->reported++;
    run->line = (uint64_t)(uintptr_t)slot->extra;
    if (code == BIDE_OK || code == id_verb->accepted_status) {
        if (id_verb->print != NULL)
            id_verb->print(cli, &slot->op, slot->number);
        else if (cli->json)
            bi_cli_print_json(cli, json_pack("{s:I, s:s}", "id", (json_int_t)slot->number, "verb",
                                             cli->verb->name));
        else if (cli->out_terminal)
            printf("job %llu %s\n", (unsigned long long)slot->number, id_verb->past_tense);
    }
    if (code != BIDE_OK)
        print_failure(run, &slot->op, slot->number);

    /* All ops are of the same kind, so one that is not supported is fatal, too. */
    run->failed = run->failed || bi_cli_is_fatal(code) || code == BIDE_ENOTSUP;
}

/* ---- jobs ---- */

/* The arguments of all ops by id begin as bide_lease_args: the id, then the token if they have
 * one. */
#define HAS_LEASE(type) \
    (offsetof(type, id) == 0 && offsetof(type, token) == offsetof(bide_lease_args, token))
_Static_assert(HAS_LEASE(bide_lease_args), "delete, give_back, cancel, kick_job");
_Static_assert(HAS_LEASE(bide_touch_item), "touch");
_Static_assert(HAS_LEASE(bide_finish_item), "done");
_Static_assert(HAS_LEASE(bide_release_args), "release");
_Static_assert(HAS_LEASE(bide_fail_args), "fail");
_Static_assert(HAS_LEASE(bide_bury_args), "bury");
_Static_assert(offsetof(bide_update_args, id) == 0, "update");

static void submit(struct id_run *run, uint64_t id, uint64_t token, uint64_t line)
{
    struct op_slot *slot = bi_ordered_pipeline_get_slot(run->pipeline, 0);
    void (*done)(bide_op * op) = slot->op.done;

    assert(id > 0 && id <= BIDE_ID_MAX);
    slot->op = *run->id_verb->op;
    slot->op.done = done;
    slot->op.user = slot;
    slot->op.lease.id = id;
    if (run->id_verb->token != BI_TOKEN_NONE)
        slot->op.lease.token = token;
    slot->number = id;
    slot->extra = (void *)(uintptr_t)line;
    bi_ordered_pipeline_submit(run->pipeline);
}

static bool should_stop(const struct id_run *run)
{
    return bi_interrupted() || run->failed || ferror(stdout);
}

/* ---- lines ---- */

static bool parse_line(bide_slice record, uint64_t *id, uint64_t *token, char *error)
{
    char text[ID_LINE_MAX + 1], reason[BI_ERRMSG_SIZE];
    if (record.data == NULL || memchr(record.data, 0, record.size) != NULL)
        return bi_errmsg_set(error, "this is not a job id");
    memcpy(text, record.data, record.size);
    text[record.size] = 0;
    char *rest, *word = strtok_r(text, " \t\r", &rest);
    if (word == NULL || !bi_flag_parse_id(word, id, reason))
        return bi_errmsg_set(error, "\"%s\" is not a job id", word == NULL ? "" : word);
    word = strtok_r(NULL, " \t\r", &rest);
    *token = 0;
    if (word != NULL && !bi_flag_parse_id(word, token, reason))
        return bi_errmsg_set(error, "\"%s\" is not a token", word);
    if (word != NULL && strtok_r(NULL, " \t\r", &rest) != NULL)
        return bi_errmsg_set(error, "unexpected text after the id and the token");
    return true;
}

static int submit_line(struct id_run *run, uint64_t line, bide_slice record)
{
    char error[BI_ERRMSG_SIZE];
    uint64_t id = 0, token = 0;

    bool valid = parse_line(record, &id, &token, error);
    if (valid && token == 0 && run->id_verb->token == BI_TOKEN_REQUIRED)
        valid = bi_errmsg_set(error, "missing token after the id");
    if (!valid) {
        /* Errors are printed in the order of the lines. */
        bi_ordered_pipeline_drain(run->pipeline);
        run->reported++;
        count_failure(run, bi_cli_error(run->cli, BI_EXIT_USAGE, "line %llu: %s",
                                        (unsigned long long)line, error));
        return BI_EXIT_OK;
    }

    int exit = token == 0 ? BI_EXIT_OK : bi_cli_require_leases(run->cli);
    if (exit == BI_EXIT_OK)
        submit(run, id, token, line);
    return exit;
}

static int run_lines(struct id_run *run)
{
    enum bi_input_status status = BI_INPUT_NEED_MORE;
    struct input input;
    int exit = BI_EXIT_OK;

    bi_input_init(&input, STDIN_FILENO, '\n', ID_LINE_MAX);
    while (exit == BI_EXIT_OK && status != BI_INPUT_EOF && !should_stop(run)) {
        bide_slice record = {NULL, 0};
        status = bi_input_read(&input, run->pipeline, &record);
        if (status == BI_INPUT_FAILED)
            exit = bi_cli_error(run->cli, BI_EXIT_FAILED, "cannot read standard input: %s",
                                strerror(errno));
        else if (status == BI_INPUT_TOO_LONG)
            exit = submit_line(run, input.number, (bide_slice){NULL, 0});
        else if (status == BI_INPUT_RECORD && record.size > 0)
            exit = submit_line(run, input.number, record);
    }
    bi_input_done(&input);
    return exit;
}

/* ---- the verb ---- */

static int final_exit(const struct id_run *run, int exit)
{
    if (bi_interrupted()) {
        if (run->line > 0)
            bi_cli_note(run->cli, "Interrupted; all up to line %llu is done.",
                        (unsigned long long)run->line);
        return bi_interrupt_exit();
    }
    if (exit != BI_EXIT_OK)
        return exit;
    if (run->failed || run->reported <= 1)
        return run->exit;
    return run->failures > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

int bi_by_id_run(struct cli *cli)
{
    struct id_run run = {.cli = cli, .id_verb = cli->verb->data};
    bool wants_lease = bi_by_id_token != 0 || run.id_verb->token == BI_TOKEN_REQUIRED;

    assert(run.id_verb->past_tense != NULL || run.id_verb->print != NULL);
    int exit = wants_lease ? bi_cli_require_leases(cli) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK && run.id_verb->prepare != NULL)
        exit = run.id_verb->prepare(cli);
    if (exit == BI_EXIT_OK)
        exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;

    run.pipeline = bi_ordered_pipeline_new(cli, cli->queue, on_done, &run);
    if (run.pipeline == NULL)
        return BI_EXIT_FAILED;
    if (reads_input(cli))
        exit = run_lines(&run);
    else
        for (size_t i = 0; i < cli->word_count && !should_stop(&run); i++)
            submit(&run, cli->ids[i], bi_by_id_token, 0);
    bi_ordered_pipeline_free(run.pipeline);
    return final_exit(&run, exit);
}
