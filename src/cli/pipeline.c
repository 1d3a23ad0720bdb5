/* SPDX-License-Identifier: MIT */
#include "cli/pipeline.h"

int bi_pipeline_open(struct pipeline *pipeline, const struct cli *cli)
{
    return bi_pipeline_open_on(pipeline, cli, cli->queue);
}

int bi_pipeline_open_on(struct pipeline *pipeline, const struct cli *cli, bide *queue)
{
    *pipeline = (struct pipeline){.queue = queue};
    return bi_cli_report_last(cli, bide_cq_new(&pipeline->cq));
}

void bi_pipeline_close(struct pipeline *pipeline)
{
    while (pipeline->in_flight > 0)
        bi_pipeline_wait(pipeline);
    if (pipeline->cq != NULL)
        bide_cq_free(pipeline->cq);
    pipeline->cq = NULL;
}

static void count_completed(struct pipeline *pipeline, int completed)
{
    if (completed > 0)
        pipeline->in_flight -= (size_t)completed;
}

void bi_pipeline_wait(struct pipeline *pipeline)
{
    if (pipeline->in_flight > 0)
        count_completed(pipeline, bide_cq_wait(pipeline->cq, BIDE_FOREVER));
}

void bi_pipeline_poll(struct pipeline *pipeline)
{
    count_completed(pipeline, bide_cq_drain(pipeline->cq, 0));
}

int bi_pipeline_fd(const struct pipeline *pipeline)
{
    return bide_cq_fd(pipeline->cq);
}

/* Until the queue takes it, or refuses it although nothing of ours is on its way. */
static void retry_while_busy(struct pipeline *pipeline, bide_op *op)
{
    op->cq = pipeline->cq;
    while (op->status == BIDE_EBUSY && pipeline->in_flight > 0) {
        bi_pipeline_wait(pipeline);
        if (bide_submit(pipeline->queue, &op, 1) > 0) {
            pipeline->in_flight++;
            return;
        }
    }
    op->done(op);
}

/* Those that finished at once are marked before any answer is taken: an op that is answered
 * meanwhile looks the same. */
void bi_pipeline_submit(struct pipeline *pipeline, bide_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ops[i]->cq = pipeline->cq;
    int pending = bide_submit(pipeline->queue, ops, count);
    for (size_t i = 0; i < count; i++) {
        if (pending < 0)
            ops[i]->status = pending;
        if (ops[i]->status != BIDE_PENDING)
            ops[i]->cq = NULL;
    }
    if (pending > 0)
        pipeline->in_flight += (size_t)pending;
    for (size_t i = 0; i < count; i++)
        if (ops[i]->cq == NULL)
            retry_while_busy(pipeline, ops[i]);
}
