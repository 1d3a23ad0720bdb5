/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/job_json.h"
#include "cli/pipeline.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_OPS   256 /* ops on their way at the same time */
#define ID_LINE_MAX 64  /* bytes of a line with an id and a token */

struct batch_op {
    bide_op op;
    uint64_t id;
    uint64_t line; /* 0: it was a word */
};

struct batch {
    const struct cli *cli;
    const struct id_verb *id_verb;
    struct pipeline pipeline;
    struct batch_op *items;
    size_t count;
    uint64_t reported, failures;
    uint64_t line; /* the last that was told */
    int exit;      /* of the first that was refused */
    bool failed;   /* for a reason that others do not escape */
};

/* ---- words ---- */

static bool reads_input(const struct cli *cli)
{
    return cli->word_count == 1 && strcmp(cli->words[0], "-") == 0;
}

int bi_by_id_check(const struct cli *cli, const struct id_verb *id_verb)
{
    uint64_t id;
    if (reads_input(cli))
        return id_verb->token == 0
                   ? BI_EXIT_OK
                   : bi_cli_usage_error(cli, "with - the token stands behind the id in "
                                             "each line, and there is no --token");
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_cli_parse_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
    if (id_verb->token != 0 && cli->word_count > 1)
        return bi_cli_usage_error(cli, "a --token is that of one job, and there are %zu",
                                  cli->word_count);
    if (id_verb->requires_token && id_verb->token == 0)
        return bi_cli_usage_error(cli,
                                  "the --token is missing, which \"bide reserve\" printed: only "
                                  "the holder of a job can %s it",
                                  cli->verb->name);
    return BI_EXIT_OK;
}

/* ---- telling ---- */

void bi_by_id_print(const struct id_verb *id_verb, const struct cli *cli, const bide_op *op,
                    uint64_t id)
{
    (void)op;
    if (cli->json)
        bi_cli_print_json(cli,
                          json_pack("{s:I, s:s}", "id", (json_int_t)id, "verb", cli->verb->name));
    else if (cli->out_terminal)
        printf("job %llu %s\n", (unsigned long long)id, id_verb->past_tense);
}

static void count_failure(struct batch *batch, int exit)
{
    batch->failures++;
    if (batch->exit == BI_EXIT_OK)
        batch->exit = exit;
}

/* Most sentences name the job themselves. */
static void print_failure(struct batch *batch, const struct batch_op *batch_op)
{
    char job[40], line[40] = "", subject[80];
    const char *error = batch_op->op.error;
    snprintf(job, sizeof(job), "job %llu", (unsigned long long)batch_op->id);
    if (batch_op->line > 0)
        snprintf(line, sizeof(line), "line %llu", (unsigned long long)batch_op->line);
    if (strstr(error, job) != NULL)
        job[0] = 0;
    snprintf(subject, sizeof(subject), "%s%s%s", line, line[0] != 0 && job[0] != 0 ? ", " : "",
             job);
    if (batch_op->op.status == BIDE_CANCEL_WANTED)
        error = "it is extended, but somebody wants it to stop";
    count_failure(batch, bi_cli_report(batch->cli, subject[0] == 0 ? NULL : subject,
                                       batch_op->op.status, error));
}

static void print(struct batch *batch, const struct batch_op *batch_op)
{
    const struct id_verb *id_verb = batch->id_verb;
    int code = batch_op->op.status;
    batch->reported++;
    batch->line = batch_op->line;
    if (code == BIDE_OK || code == id_verb->accepted_status)
        (id_verb->print != NULL ? id_verb->print : bi_by_id_print)(id_verb, batch->cli,
                                                                   &batch_op->op, batch_op->id);
    if (code != BIDE_OK)
        print_failure(batch, batch_op);
    batch->failed = batch->failed || (code < 0 && code != BIDE_EINVAL);
}

/* ---- one round ---- */

static void ignore_completion(bide_op *op)
{
    (void)op;
}

static void add(struct batch *batch, uint64_t id, uint64_t token, uint64_t line)
{
    struct batch_op *batch_op = &batch->items[batch->count++];
    *batch_op = (struct batch_op){.id = id, .line = line};
    batch->id_verb->build_op(batch->id_verb, &batch_op->op, id, token);
    batch_op->op.done = ignore_completion;
}

static void run_batch(struct batch *batch)
{
    bide_op *ops[BATCH_OPS];
    for (size_t i = 0; i < batch->count; i++)
        ops[i] = &batch->items[i].op;
    bi_pipeline_submit(&batch->pipeline, ops, batch->count);
    while (batch->pipeline.in_flight > 0)
        bi_pipeline_wait(&batch->pipeline);
    for (size_t i = 0; i < batch->count; i++)
        print(batch, &batch->items[i]);
    batch->count = 0;
}

static bool should_stop(const struct batch *batch)
{
    return bi_interrupted() || batch->failed || ferror(stdout);
}

static int run_args(struct batch *batch)
{
    int exit = batch->id_verb->token == 0 ? BI_EXIT_OK : bi_cli_require_leases(batch->cli);
    for (size_t i = 0; exit == BI_EXIT_OK && i < batch->cli->word_count && !should_stop(batch);
         i++) {
        uint64_t id;
        if (!bi_cli_parse_id(batch->cli, batch->cli->words[i], &id))
            return BI_EXIT_USAGE;
        add(batch, id, batch->id_verb->token, 0);
        if (batch->count == BATCH_OPS || i + 1 == batch->cli->word_count)
            run_batch(batch);
    }
    return exit;
}

/* ---- lines ---- */

static bool parse_line(bide_slice record, uint64_t *id, uint64_t *token, char *error)
{
    char text[ID_LINE_MAX + 1], reason[BI_ERRMSG_SIZE];
    if (record.data == NULL || memchr(record.data, 0, record.size) != NULL)
        return bi_errmsg_set(error, "this is no id of a job");
    memcpy(text, record.data, record.size);
    text[record.size] = 0;
    char *rest, *word = strtok_r(text, " \t\r", &rest);
    if (word == NULL || !bi_flag_parse_id(word, id, reason))
        return bi_errmsg_set(error, "\"%s\" is no id of a job", word == NULL ? "" : word);
    word = strtok_r(NULL, " \t\r", &rest);
    *token = 0;
    if (word != NULL && !bi_flag_parse_id(word, token, reason))
        return bi_errmsg_set(error, "\"%s\" is no token", word);
    if (word != NULL && strtok_r(NULL, " \t\r", &rest) != NULL)
        return bi_errmsg_set(error, "there is more than an id and a token");
    return true;
}

static int add_line(struct batch *batch, uint64_t line, bide_slice record)
{
    char error[BI_ERRMSG_SIZE];
    uint64_t id = 0, token = 0;
    bool valid = parse_line(record, &id, &token, error);
    if (valid && token == 0 && batch->id_verb->requires_token)
        valid = bi_errmsg_set(error, "there is no token behind the id");
    if (!valid) {
        batch->reported++;
        count_failure(batch, bi_cli_error(batch->cli, BI_EXIT_USAGE, "line %llu: %s",
                                          (unsigned long long)line, error));
        return BI_EXIT_OK;
    }
    int exit = token == 0 ? BI_EXIT_OK : bi_cli_require_leases(batch->cli);
    if (exit == BI_EXIT_OK)
        add(batch, id, token, line);
    return exit;
}

/* Does what has gathered while there is nothing to read. */
static int read_input(struct batch *batch, struct input *input)
{
    char none;
    if (batch->count > 0 && !bi_input_is_ready(input))
        run_batch(batch);
    fflush(stdout);
    /* Reading nothing waits until there is something, or a signal. */
    if (should_stop(batch) || (bi_interrupt_read(input->fd, &none, 0) < 0 && bi_interrupted()))
        return BI_EXIT_OK;
    if (bi_input_fill(input) || errno == EINTR || errno == EAGAIN)
        return BI_EXIT_OK;
    return bi_cli_error(batch->cli, BI_EXIT_FAILED, "cannot read standard input: %s",
                        strerror(errno));
}

static int run_lines(struct batch *batch)
{
    struct input input;
    enum bi_input_status result = BI_INPUT_NEED_MORE;
    int exit = BI_EXIT_OK;
    bi_input_init(&input, STDIN_FILENO, '\n', ID_LINE_MAX);
    while (exit == BI_EXIT_OK && result != BI_INPUT_EOF && !should_stop(batch)) {
        bide_slice record = {NULL, 0};
        result = bi_input_next(&input, &record);
        if (result == BI_INPUT_NEED_MORE)
            exit = read_input(batch, &input);
        else if (result == BI_INPUT_TOO_LONG)
            exit = add_line(batch, input.number, (bide_slice){NULL, 0});
        else if (result == BI_INPUT_RECORD && record.size > 0)
            exit = add_line(batch, input.number, record);
        if (batch->count == BATCH_OPS)
            run_batch(batch);
    }
    if (!should_stop(batch))
        run_batch(batch);
    bi_input_done(&input);
    return exit;
}

/* ---- all ---- */

static int final_exit(const struct batch *batch, int exit)
{
    if (bi_interrupted()) {
        if (batch->line > 0)
            bi_cli_note(batch->cli, "Interrupted; all up to line %llu is done.",
                        (unsigned long long)batch->line);
        return bi_interrupt_exit();
    }
    if (exit != BI_EXIT_OK || batch->failed || batch->reported <= 1)
        return exit != BI_EXIT_OK ? exit : batch->exit;
    return batch->failures > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

int bi_by_id_run(const struct cli *cli, const struct id_verb *id_verb)
{
    struct batch batch = {.cli = cli, .id_verb = id_verb};
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit == BI_EXIT_OK)
        exit = bi_pipeline_open(&batch.pipeline, cli);
    if (exit != BI_EXIT_OK)
        return exit;
    batch.items = calloc(BATCH_OPS, sizeof(*batch.items));
    if (batch.items == NULL)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    else
        exit = reads_input(cli) ? run_lines(&batch) : run_args(&batch);
    bi_pipeline_close(&batch.pipeline);
    free(batch.items);
    return final_exit(&batch, exit);
}
