/* SPDX-License-Identifier: MIT */
#include "cli/await.h"

#include "cli/interrupt.h"
#include "cli/pipeline.h"
#include "cli/print.h"
#include "cli/record.h"

#include <stdlib.h>

struct awaited {
    bide_op op;
    bool answered;
};

struct waiting {
    const struct cli *cli;
    size_t count;
    bool expects; /* the jobs were to keep a result */
    bool is_told; /* for what it waits, or nobody sits there */
    bool has_last_id;
    uint64_t last_id;
};

int bi_await_possible(const struct cli *cli)
{
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) != 0)
        return BI_EXIT_OK;
    return bi_cli_failed(cli, BI_EXIT_REFUSED,
                         "nobody else can work on %.200s while this process has it open, so there "
                         "is nothing to wait for; let \"bided\" keep the queue and talk to that",
                         cli->shown);
}

/* ---- saying what became of a job ---- */

static int print_json(const struct waiting *waiting, const bide_op *op, const bide_job *job)
{
    json_t *object = json_pack("{s:I, s:s, s:b}", "id", (json_int_t)op->wait.id, "state",
                               bide_state_name(op->wait.state), "finished",
                               op->wait.finished || op->wait.state == BIDE_STATE_DONE);
    bool good = object != NULL;
    if (good && op->wait.result != NULL)
        good = bi_record_bytes(object, "result", bide_buf_data(op->wait.result),
                               bide_buf_size(op->wait.result));
    if (good && job->last_error != NULL)
        good = bi_record_bytes(object, "last_error", job->last_error, job->last_error_size);
    if (good)
        return bi_record_print(waiting->cli, object);
    json_decref(object);
    return bi_record_print(waiting->cli, NULL);
}

/* Several results are kept apart by lines; a single one is printed as it is. */
static void print_result(const struct waiting *waiting, const bide_buf *result)
{
    const char *data = bide_buf_data(result);
    size_t size = bide_buf_size(result);
    bool terminal = waiting->cli->out_terminal;
    bi_print_bytes(stdout, terminal, data, size);
    if (size > 0 && data[size - 1] != '\n' && (terminal || waiting->count > 1))
        putchar('\n');
}

static int say_buried(const struct waiting *waiting, const bide_op *op, const bide_job *job)
{
    int size = job->last_error_size < 300 ? (int)job->last_error_size : 300;
    return bi_cli_failed(waiting->cli, BI_EXIT_REFUSED, "job %llu is buried%s%.*s",
                         (unsigned long long)op->wait.id, size == 0 ? "" : ": ", size,
                         size == 0 ? "" : job->last_error);
}

/* Ids rise: a higher one than any that was given never was a job. */
static bool ever_was(struct waiting *waiting, uint64_t id)
{
    bide_stats stats;
    if (!waiting->has_last_id && bide_queue_stats(waiting->cli->queue, &stats) == BIDE_OK) {
        waiting->has_last_id = true;
        waiting->last_id = stats.last_id;
    }
    return !waiting->has_last_id || id <= waiting->last_id;
}

static int say_gone(struct waiting *waiting, const bide_op *op)
{
    unsigned long long id = op->wait.id;
    if (op->wait.finished) {
        if (!waiting->cli->json)
            bi_cli_note(waiting->cli, "job %llu is done, and kept no result", id);
        return BI_EXIT_OK;
    }
    if (!ever_was(waiting, id))
        return bi_cli_failed(waiting->cli, BI_EXIT_NOT_FOUND, "there never was a job %llu", id);
    return bi_cli_failed(waiting->cli, BI_EXIT_NOT_FOUND,
                         "job %llu is gone: it was cancelled, deleted or purged, or it expired%s",
                         id,
                         waiting->expects ? ""
                                          : ", or it was done before this command and kept no "
                                            "result (put --retain)");
}

static int say_ended(struct waiting *waiting, const bide_op *op)
{
    bide_job job = {.id = 0};
    int exit = BI_EXIT_OK;
    if (op->wait.state == BIDE_STATE_BURIED)
        bide_job_stats(waiting->cli->queue, op->wait.id, &job);
    if (waiting->cli->json)
        print_json(waiting, op, &job);
    else if (op->wait.result != NULL)
        print_result(waiting, op->wait.result);
    if (op->wait.state == BIDE_STATE_BURIED)
        exit = say_buried(waiting, op, &job);
    else if (op->wait.state == BIDE_STATE_GONE)
        exit = say_gone(waiting, op);
    bide_job_clear(&job);
    return exit;
}

static int say(struct waiting *waiting, const bide_op *op)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)op->wait.id);
    if (op->status == BIDE_OK)
        return say_ended(waiting, op);
    if (op->status == BIDE_CLOSED && bi_interrupted()) {
        bi_cli_note(waiting->cli, "%s is not done yet; go on with: bide wait %llu", subject,
                    (unsigned long long)op->wait.id);
        return bi_interrupt_exit();
    }
    if (op->status == BIDE_TIMED_OUT)
        return bi_cli_refused(waiting->cli, subject, op->status, "it is not done yet");
    return bi_cli_refused(waiting->cli, subject, op->status, op->error);
}

/* ---- waiting ---- */

static void answered(bide_op *op)
{
    ((struct awaited *)op->user)->answered = true;
}

static void submit(struct pipeline *pipeline, struct awaited *list, const uint64_t *ids,
                   size_t count, int64_t timeout_ms)
{
    for (size_t i = 0; i < count; i++) {
        bide_op *op = &list[i].op;
        op->kind = BIDE_OP_WAIT;
        op->done = answered;
        op->user = &list[i];
        op->wait = (bide_wait_args){.id = ids[i], .timeout_ms = timeout_ms};
        bi_pipeline_submit(pipeline, &op, 1);
    }
}

/* Whoever sits there sees once that it hangs on the job, and not on the queue. */
static void tell_waiting(struct waiting *waiting, uint64_t id)
{
    bide_job job;
    if (waiting->is_told || bide_job_stats(waiting->cli->queue, id, &job) != BIDE_OK)
        return;
    bool ended = job.state == BIDE_STATE_BURIED || job.state == BIDE_STATE_DONE;
    waiting->is_told = !ended;
    if (!ended && waiting->count == 1)
        bi_cli_note(waiting->cli, "waiting for job %llu, which is %s", (unsigned long long)id,
                    bide_state_name(job.state));
    else if (!ended)
        bi_cli_note(waiting->cli, "waiting for %zu jobs, now for job %llu, which is %s",
                    waiting->count, (unsigned long long)id, bide_state_name(job.state));
    bide_job_clear(&job);
}

/* As soon as it and all before it have been answered. */
static int print_all(struct waiting *waiting, struct pipeline *pipeline, struct awaited *list)
{
    int worst = BI_EXIT_OK;
    for (size_t i = 0; i < waiting->count; i++) {
        if (!list[i].answered)
            tell_waiting(waiting, list[i].op.wait.id);
        while (!list[i].answered)
            bi_pipeline_wait(pipeline);
        int exit = say(waiting, &list[i].op);
        if (exit != BI_EXIT_OK)
            worst = waiting->count == 1 ? exit : BI_EXIT_PARTLY;
        fflush(stdout);
    }
    return worst;
}

int bi_await(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
             bool expects)
{
    struct waiting waiting = {.cli = cli, .count = count, .expects = expects};
    waiting.is_told = !cli->err_terminal || cli->quiet || timeout_ms == 0;
    struct pipeline pipeline;
    struct awaited *list = calloc(count, sizeof(*list));
    if (list == NULL)
        return bi_cli_failed(cli, BI_EXIT_FAILED, "out of memory");
    int exit = bi_pipeline_open(&pipeline, cli);
    if (exit == BI_EXIT_OK) {
        submit(&pipeline, list, ids, count, timeout_ms);
        exit = print_all(&waiting, &pipeline, list);
        bi_pipeline_close(&pipeline);
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].op.status == BIDE_OK)
            bide_buf_unref(list[i].op.wait.result);
    free(list);
    return bi_interrupted() ? bi_interrupt_exit() : exit;
}
