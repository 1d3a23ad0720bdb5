/* SPDX-License-Identifier: MIT */
#include "cli/ordered_pipeline.h"

#include "queue/queue.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 128 /* ops that one call hands to the queue */

/* Three positions that only grow: completed <= submitted <= filled, at most as many apart as there
 * are slots. */
struct ordered_pipeline {
    bide *queue;
    bide_cq *cq;
    bi_ordered_pipeline_done *on_done;
    void *user;
    uint64_t completed, submitted, filled;
    size_t pending; /* ops that the queue has, and the completion queue will deliver */
    size_t bytes;
    size_t group; /* ops that are handed to the queue at a time */
    struct ordered_pipeline *next_abandoned;
    struct op_slot slots[BI_ORDERED_PIPELINE_SLOTS];
};

static struct op_slot *slot_at(struct ordered_pipeline *pipeline, uint64_t position)
{
    return &pipeline->slots[position % BI_ORDERED_PIPELINE_SLOTS];
}

/* Ops are handed over in groups only if the queue has room for all that the pipeline may hold.
 * Otherwise it could reject one op of a group with BIDE_EBUSY and accept those behind it. The
 * encoded arguments of an op may be larger than its bytes. */
static size_t group_size(const bide *queue)
{
    const bide_options *options = &queue->options;
    bool has_room = options->max_pending_ops >= BI_ORDERED_PIPELINE_SLOTS &&
                    options->max_pending_bytes >= 2 * BI_ORDERED_PIPELINE_BYTES;
    return has_room ? GROUP_MAX : 1;
}

struct ordered_pipeline *bi_ordered_pipeline_new(const struct cli *cli, bide *queue,
                                                 bi_ordered_pipeline_done *on_done, void *user)
{
    struct ordered_pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (pipeline == NULL) {
        bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
        return NULL;
    }

    pipeline->queue = queue;
    pipeline->on_done = on_done;
    pipeline->user = user;
    pipeline->group = group_size(queue);
    if (bi_cli_report_last(cli, bide_cq_new(&pipeline->cq)) == BI_EXIT_OK)
        return pipeline;

    free(pipeline);
    return NULL;
}

void bi_ordered_pipeline_set_manual(struct ordered_pipeline *pipeline)
{
    pipeline->group = GROUP_MAX;
}

/* ---- completion queue ---- */

static void on_complete(bide_op *op)
{
    struct op_slot *slot = op->user;
    assert(!slot->done);
    slot->done = true;
}

static void count_completed(struct ordered_pipeline *pipeline, int completed)
{
    if (completed <= 0)
        return;
    assert(pipeline->pending >= (size_t)completed);
    pipeline->pending -= (size_t)completed;
}

static void wait_for_completion(struct ordered_pipeline *pipeline)
{
    if (pipeline->pending > 0)
        count_completed(pipeline, bide_cq_wait(pipeline->cq, BIDE_FOREVER));
}

/* ---- submitting ---- */

/* Retries an op until the queue accepts it, or rejects it although none of our ops is pending. */
static void retry_while_busy(struct ordered_pipeline *pipeline, bide_op *op)
{
    assert(op->status != BIDE_PENDING);
    op->cq = pipeline->cq;
    while (op->status == BIDE_EBUSY && pipeline->pending > 0) {
        wait_for_completion(pipeline);
        if (bide_submit(pipeline->queue, &op, 1) > 0) {
            pipeline->pending++;
            return;
        }
    }
    on_complete(op);
}

static void hand_over(struct ordered_pipeline *pipeline, bide_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ops[i]->cq = pipeline->cq;
    int pending = bide_submit(pipeline->queue, ops, count);

    /* Ops that completed synchronously are marked before the completion queue is read: a pending op
     * that completes then has the same status. */
    for (size_t i = 0; i < count; i++) {
        if (pending < 0)
            ops[i]->status = pending;
        if (ops[i]->status != BIDE_PENDING)
            ops[i]->cq = NULL;
    }

    if (pending > 0)
        pipeline->pending += (size_t)pending;
    /* Of a group none is busy (group_size()), so a retry overtakes nothing. */
    for (size_t i = 0; i < count; i++)
        if (ops[i]->cq == NULL)
            retry_while_busy(pipeline, ops[i]);
}

void bi_ordered_pipeline_flush(struct ordered_pipeline *pipeline)
{
    bide_op *ops[GROUP_MAX];
    size_t count = 0;

    assert(pipeline->filled - pipeline->submitted <= GROUP_MAX);
    while (pipeline->submitted < pipeline->filled)
        ops[count++] = &slot_at(pipeline, pipeline->submitted++)->op;
    if (count > 0)
        hand_over(pipeline, ops, count);
}

void bi_ordered_pipeline_submit(struct ordered_pipeline *pipeline)
{
    assert(pipeline->submitted <= pipeline->filled);
    assert(pipeline->filled - pipeline->completed < BI_ORDERED_PIPELINE_SLOTS);
    pipeline->bytes += slot_at(pipeline, pipeline->filled)->bytes;
    pipeline->filled++;
    if (pipeline->filled - pipeline->submitted >= pipeline->group)
        bi_ordered_pipeline_flush(pipeline);
}

/* ---- completing ---- */

/* Calls on_done for the oldest ops that have completed. False: the oldest has not. */
static bool complete_ready(struct ordered_pipeline *pipeline)
{
    uint64_t before = pipeline->completed;

    assert(pipeline->completed <= pipeline->submitted);
    while (pipeline->completed < pipeline->submitted) {
        struct op_slot *slot = slot_at(pipeline, pipeline->completed);
        if (!slot->done)
            break;
        if (pipeline->on_done != NULL)
            pipeline->on_done(pipeline->user, slot);
        bide_job_clear(&slot->job);

        assert(pipeline->bytes >= slot->bytes);
        pipeline->bytes -= slot->bytes;
        pipeline->completed++;
    }
    return pipeline->completed > before;
}

static void complete_some(struct ordered_pipeline *pipeline)
{
    bi_ordered_pipeline_flush(pipeline);
    while (!complete_ready(pipeline))
        wait_for_completion(pipeline);
}

void bi_ordered_pipeline_drain(struct ordered_pipeline *pipeline)
{
    while (pipeline->completed < pipeline->filled)
        complete_some(pipeline);
}

/* Waits for a completion, input, a signal or the timeout. A descriptor of -1 is not waited for.
 * Returns true if there is input. */
static bool wait_for_event(struct ordered_pipeline *pipeline, int input, int signals,
                           int timeout_ms)
{
    struct pollfd fds[] = {{.fd = bide_cq_fd(pipeline->cq), .events = POLLIN},
                           {.fd = input, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};

    poll(fds, 3, timeout_ms);
    count_completed(pipeline, bide_cq_drain(pipeline->cq, 0));
    return fds[1].revents != 0;
}

bool bi_ordered_pipeline_wait(struct ordered_pipeline *pipeline, int timeout_ms)
{
    bi_ordered_pipeline_flush(pipeline);
    if (pipeline->completed == pipeline->filled || complete_ready(pipeline))
        return true;
    /* The descriptor of signals stays readable: only the first signal ends a wait. */
    wait_for_event(pipeline, -1, bi_interrupted() ? -1 : bi_interrupt_fd(), timeout_ms);
    return complete_ready(pipeline);
}

bool bi_ordered_pipeline_wait_input(struct ordered_pipeline *pipeline, int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};

    if (poll(&input, 1, 0) > 0)
        return true;

    /* A line of a slow producer is submitted at once. While ops are in flight, lines are collected:
     * a fast producer is not slowed down by small groups. */
    if (pipeline->completed == pipeline->submitted)
        bi_ordered_pipeline_flush(pipeline);
    bool has_completed = complete_ready(pipeline);
    fflush(stdout);
    if (has_completed)
        return false;
    bool ready = wait_for_event(pipeline, fd, bi_interrupt_fd(), -1);
    complete_ready(pipeline);
    return ready;
}

struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *pipeline, size_t bytes)
{
    while (pipeline->completed < pipeline->filled &&
           (pipeline->filled - pipeline->completed >= BI_ORDERED_PIPELINE_SLOTS ||
            pipeline->bytes + bytes > BI_ORDERED_PIPELINE_BYTES))
        complete_some(pipeline);

    struct op_slot *slot = slot_at(pipeline, pipeline->filled);
    memset(slot, 0, sizeof(*slot));
    slot->bytes = bytes;
    slot->op.done = on_complete;
    slot->op.user = slot;
    return slot;
}

struct op_slot *bi_ordered_pipeline_oldest(struct ordered_pipeline *pipeline)
{
    return pipeline->completed == pipeline->filled ? NULL : slot_at(pipeline, pipeline->completed);
}

struct op_slot *bi_ordered_pipeline_last_unsent(struct ordered_pipeline *pipeline)
{
    return pipeline->submitted == pipeline->filled ? NULL : slot_at(pipeline, pipeline->filled - 1);
}

void bi_ordered_pipeline_discard(struct ordered_pipeline *pipeline)
{
    while (pipeline->submitted < pipeline->filled) {
        struct op_slot *slot = slot_at(pipeline, pipeline->submitted++);
        slot->op.status = BIDE_PENDING;
        slot->done = true;
    }
    bi_ordered_pipeline_drain(pipeline);
    assert(pipeline->pending == 0);
}

/* ---- one op ---- */

int bi_ordered_pipeline_run_op(const struct cli *cli, bide_op *op, bool (*on_wait)(void *user),
                               void *user)
{
    struct ordered_pipeline *pipeline = bi_ordered_pipeline_new(cli, cli->queue, NULL, NULL);
    if (pipeline == NULL)
        return BI_EXIT_FAILED;

    assert(cli->queue != NULL && op->status == BIDE_OK);
    struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, 0);
    op->done = slot->op.done;
    op->user = slot->op.user;
    slot->op = *op;
    bi_ordered_pipeline_submit(pipeline);
    while (!bi_ordered_pipeline_wait(pipeline, 200) && on_wait(user))
        continue;
    *op = slot->op;
    bi_ordered_pipeline_abandon(pipeline);
    return BI_EXIT_OK;
}

/* ---- freeing ---- */

void bi_ordered_pipeline_free(struct ordered_pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    bi_ordered_pipeline_drain(pipeline);
    assert(pipeline->pending == 0 && pipeline->bytes == 0);
    bide_cq_free(pipeline->cq);
    free(pipeline);
}

void bi_ordered_pipeline_abandon(struct ordered_pipeline *pipeline)
{
    static struct ordered_pipeline *abandoned; /* keeps them reachable for leak checkers */

    if (pipeline == NULL)
        return;
    if (pipeline->completed == pipeline->filled) {
        bi_ordered_pipeline_free(pipeline);
        return;
    }
    pipeline->next_abandoned = abandoned;
    abandoned = pipeline;
}
