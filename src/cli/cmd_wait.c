/* SPDX-License-Identifier: MIT */
/*
 * cmd_wait.c - bide wait, and the waiting of put --wait.
 */
#include "cli/put.h"
#include "cli/verb.h"
#include "op/job_json.h"

#include <assert.h>

struct job_wait {
    const struct cli *cli;
    size_t count;
    bool result_expected; /* the jobs were to keep a result */
    bool noted; /* the terminal shows what the command waits for, or there is no terminal */
    bool has_last_id;
    uint64_t last_id;
    int exit;
};

int bi_wait_check(const struct cli *cli)
{
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) != 0)
        return BI_EXIT_OK;
    return bi_cli_error(cli, BI_EXIT_REFUSED,
                        "%.200s is open in this process, so no worker can process its jobs; serve "
                        "the queue with bided to wait for jobs",
                        cli->shown);
}

/* ---- saying what became of a job ---- */

static int print_json(const struct job_wait *job_wait, const bide_op *op, const bide_job *job)
{
    json_t *object = json_pack("{s:I, s:s, s:b}", "id", (json_int_t)op->wait.id, "state",
                               bide_state_name(op->wait.state), "finished",
                               op->wait.finished || op->wait.state == BIDE_STATE_DONE);
    bool good = object != NULL;

    if (good && op->wait.result != NULL)
        good = bi_job_json_set_bytes(object, "result", bide_buf_data(op->wait.result),
                                     bide_buf_size(op->wait.result));
    if (good && job->last_error != NULL)
        good = bi_job_json_set_bytes(object, "last_error", job->last_error, job->last_error_size);
    if (good)
        return bi_cli_print_json(job_wait->cli, object);
    json_decref(object);
    return bi_cli_print_json(job_wait->cli, NULL);
}

/* Several results are kept apart by lines; a single one is printed as it is. */
static void print_result(const struct job_wait *job_wait, const bide_buf *result)
{
    const char *data = bide_buf_data(result);
    size_t size = bide_buf_size(result);
    bool terminal = job_wait->cli->out_terminal;

    bi_print_bytes(stdout, terminal, data, size);
    if (size > 0 && data[size - 1] != '\n' && (terminal || job_wait->count > 1))
        putchar('\n');
}

/* Ids rise: a higher one than any that was given never was a job. */
static bool id_was_assigned(struct job_wait *job_wait, uint64_t id)
{
    bide_stats stats;

    if (!job_wait->has_last_id && bide_queue_stats(job_wait->cli->queue, &stats) == BIDE_OK) {
        job_wait->has_last_id = true;
        job_wait->last_id = stats.last_id;
    }
    return !job_wait->has_last_id || id <= job_wait->last_id;
}

static int report_gone(struct job_wait *job_wait, const bide_op *op)
{
    unsigned long long id = op->wait.id;

    if (op->wait.finished) {
        if (!job_wait->cli->json)
            bi_cli_note(job_wait->cli, "job %llu is done, and kept no result", id);
        return BI_EXIT_OK;
    }
    if (!id_was_assigned(job_wait, id))
        return bi_cli_error(job_wait->cli, BI_EXIT_NOT_FOUND, "there never was a job %llu", id);
    return bi_cli_error(
        job_wait->cli, BI_EXIT_NOT_FOUND,
        "job %llu is gone: it was cancelled, deleted or purged, or it expired%s", id,
        job_wait->result_expected ? ""
                                  : ", or it was done before this command and kept no "
                                    "result (put --retain)");
}

static int report_end(struct job_wait *job_wait, const bide_op *op)
{
    bide_job job = {.id = 0};
    int exit = BI_EXIT_OK;

    if (op->wait.state == BIDE_STATE_BURIED)
        bide_job_stats(job_wait->cli->queue, op->wait.id, &job);
    if (job_wait->cli->json)
        print_json(job_wait, op, &job);
    else if (op->wait.result != NULL)
        print_result(job_wait, op->wait.result);

    int error_size = job.last_error_size < 300 ? (int)job.last_error_size : 300;
    if (op->wait.state == BIDE_STATE_BURIED)
        exit = bi_cli_error(job_wait->cli, BI_EXIT_REFUSED, "job %llu is buried%s%.*s",
                            (unsigned long long)op->wait.id, error_size == 0 ? "" : ": ",
                            error_size, error_size == 0 ? "" : job.last_error);
    else if (op->wait.state == BIDE_STATE_GONE)
        exit = report_gone(job_wait, op);
    bide_job_clear(&job);
    return exit;
}

static int report(struct job_wait *job_wait, const bide_op *op)
{
    if (op->status == BIDE_OK)
        return report_end(job_wait, op);
    if (op->status == BIDE_CLOSED && bi_interrupted()) {
        bi_cli_note(job_wait->cli, "job %llu is not done yet; continue with: bide wait %llu",
                    (unsigned long long)op->wait.id, (unsigned long long)op->wait.id);
        return bi_interrupt_exit();
    }
    return bi_cli_report_job(job_wait->cli, op->wait.id, op->status,
                             op->status == BIDE_TIMED_OUT ? "it is not done yet" : op->error);
}

/* ---- waiting ---- */

/* Shows once that the command waits for a job, and not for the queue. */
static void note_waiting(struct job_wait *job_wait, uint64_t id)
{
    bide_job job;

    if (job_wait->noted || bide_job_stats(job_wait->cli->queue, id, &job) != BIDE_OK)
        return;
    bool finished_already = job.state == BIDE_STATE_BURIED || job.state == BIDE_STATE_DONE;
    job_wait->noted = !finished_already;
    if (!finished_already && job_wait->count == 1)
        bi_cli_note(job_wait->cli, "waiting for job %llu, which is %s", (unsigned long long)id,
                    bide_state_name(job.state));
    else if (!finished_already)
        bi_cli_note(job_wait->cli, "waiting for %zu jobs, now for job %llu, which is %s",
                    job_wait->count, (unsigned long long)id, bide_state_name(job.state));
    bide_job_clear(&job);
}

static void on_done(void *user, struct op_slot *slot)
{
    struct job_wait *job_wait = user;

    int exit = report(job_wait, &slot->op);
    if (exit != BI_EXIT_OK)
        job_wait->exit = job_wait->count == 1 ? exit : BI_EXIT_PARTIAL;
    fflush(stdout);
    if (slot->op.status == BIDE_OK)
        bide_buf_unref(slot->op.wait.result);
}

int bi_wait_run(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
                bool result_expected)
{
    struct job_wait job_wait = {.cli = cli, .count = count, .result_expected = result_expected};
    const struct op_slot *oldest;

    assert(count >= 1 && count <= BI_WORDS_MAX);
    struct ordered_pipeline *pipeline =
        bi_ordered_pipeline_new(cli, cli->queue, on_done, &job_wait);
    if (pipeline == NULL)
        return BI_EXIT_FAILED;

    for (size_t i = 0; i < count; i++) {
        struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, 0);
        slot->op.kind = BIDE_OP_WAIT;
        slot->op.wait = (bide_wait_args){.id = ids[i], .timeout_ms = timeout_ms};
        bi_ordered_pipeline_submit(pipeline);
    }

    /* All timeouts begin now. What is done already is reported before the note. */
    job_wait.noted = !cli->err_terminal || cli->quiet || timeout_ms == 0;
    bi_ordered_pipeline_wait(pipeline, 0);
    while ((oldest = bi_ordered_pipeline_oldest(pipeline)) != NULL) {
        note_waiting(&job_wait, oldest->op.wait.id);
        bi_ordered_pipeline_wait(pipeline, -1);
    }
    bi_ordered_pipeline_free(pipeline);
    return bi_interrupted() ? bi_interrupt_exit() : job_wait.exit;
}

/* ---- the verb ---- */

static int64_t timeout = BIDE_FOREVER;

static const struct flag flags[] = {
    BI_FLAG_TIMEOUT('t', "timeout", &timeout, "give up after this time (default: unlimited)"),
    BI_FLAGS_END,
};

static int run(struct cli *cli)
{
    bool alone = (bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0;

    /* Without other clients nothing can change: only the current state is reported. */
    int exit = bi_wait_run(cli, cli->ids, cli->word_count, alone ? 0 : timeout, false);
    return alone && exit == BI_EXIT_TIMED_OUT ? bi_wait_check(cli) : exit;
}

const struct verb bi_verb_wait = {
    .name = "wait",
    .usage = "ID...",
    .summary = "wait until jobs are done and print their results",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = bi_cli_parse_ids,
    .run = run,
};
