/* SPDX-License-Identifier: MIT */
#include "cli/ordered_pipeline.h"

#include "cli/interrupt.h"
#include "queue/queue.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 128 /* ops that one call hands to the queue */

/* Three positions that only grow: completed <= submitted <= filled, at most op_max apart. */
struct ordered_pipeline {
    bide *queue;
    bide_cq *cq;
    bi_ordered_pipeline_done *on_done;
    void *user;
    uint64_t completed, submitted, filled;
    size_t pending; /* ops that the queue has, and the completion queue will deliver */
    size_t bytes;
    size_t op_max, byte_max, group;
    struct ordered_pipeline *next_abandoned;
    struct op_slot slots[BI_ORDERED_PIPELINE_SLOTS];
};

static struct op_slot *slot_at(struct ordered_pipeline *ordered_pipeline, uint64_t position)
{
    return &ordered_pipeline->slots[position % BI_ORDERED_PIPELINE_SLOTS];
}

/* Ops are handed over in groups only if the queue has room for all that the pipeline may hold. Otherwise
 * it could reject one op of a group with BIDE_EBUSY and accept those behind it. The encoded arguments of
 * an op may be larger than its bytes. */
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
    struct ordered_pipeline *ordered_pipeline = calloc(1, sizeof(*ordered_pipeline));
    if (ordered_pipeline == NULL) {
        bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
        return NULL;
    }

    ordered_pipeline->queue = queue;
    ordered_pipeline->on_done = on_done;
    ordered_pipeline->user = user;
    ordered_pipeline->op_max = BI_ORDERED_PIPELINE_SLOTS;
    ordered_pipeline->byte_max = BI_ORDERED_PIPELINE_BYTES;
    ordered_pipeline->group = group_size(queue);
    if (bi_cli_report_last(cli, bide_cq_new(&ordered_pipeline->cq)) == BI_EXIT_OK)
        return ordered_pipeline;

    free(ordered_pipeline);
    return NULL;
}

void bi_ordered_pipeline_set_limits(struct ordered_pipeline *ordered_pipeline, size_t op_max,
                                    size_t byte_max)
{
    assert(op_max >= 1 && op_max <= BI_ORDERED_PIPELINE_SLOTS);
    ordered_pipeline->op_max = op_max;
    ordered_pipeline->byte_max = byte_max;
    ordered_pipeline->group = 1;
}

/* ---- completion queue ---- */

static void on_complete(bide_op *op)
{
    struct op_slot *slot = op->user;
    assert(!slot->done);
    slot->done = true;
}

static void count_completed(struct ordered_pipeline *ordered_pipeline, int completed)
{
    if (completed <= 0)
        return;
    assert(ordered_pipeline->pending >= (size_t)completed);
    ordered_pipeline->pending -= (size_t)completed;
}

static void wait_for_completion(struct ordered_pipeline *ordered_pipeline)
{
    if (ordered_pipeline->pending > 0)
        count_completed(ordered_pipeline, bide_cq_wait(ordered_pipeline->cq, BIDE_FOREVER));
}

/* ---- submitting ---- */

/* Retries an op until the queue accepts it, or rejects it although none of our ops is pending. */
static void retry_while_busy(struct ordered_pipeline *ordered_pipeline, bide_op *op)
{
    op->cq = ordered_pipeline->cq;
    while (op->status == BIDE_EBUSY && ordered_pipeline->pending > 0) {
        wait_for_completion(ordered_pipeline);
        if (bide_submit(ordered_pipeline->queue, &op, 1) > 0) {
            ordered_pipeline->pending++;
            return;
        }
    }
    on_complete(op);
}

static void hand_over(struct ordered_pipeline *ordered_pipeline, bide_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ops[i]->cq = ordered_pipeline->cq;
    int pending = bide_submit(ordered_pipeline->queue, ops, count);

    /* Ops that completed synchronously are marked before the completion queue is read: a pending op
     * that completes then has the same status. */
    for (size_t i = 0; i < count; i++) {
        if (pending < 0)
            ops[i]->status = pending;
        if (ops[i]->status != BIDE_PENDING)
            ops[i]->cq = NULL;
    }

    if (pending > 0)
        ordered_pipeline->pending += (size_t)pending;
    /* Of a group none is busy (group_size()), so a retry overtakes nothing. */
    for (size_t i = 0; i < count; i++)
        if (ops[i]->cq == NULL)
            retry_while_busy(ordered_pipeline, ops[i]);
}

void bi_ordered_pipeline_flush(struct ordered_pipeline *ordered_pipeline)
{
    bide_op *ops[GROUP_MAX];
    size_t count = 0;

    assert(ordered_pipeline->filled - ordered_pipeline->submitted <= GROUP_MAX);
    while (ordered_pipeline->submitted < ordered_pipeline->filled)
        ops[count++] = &slot_at(ordered_pipeline, ordered_pipeline->submitted++)->op;
    if (count > 0)
        hand_over(ordered_pipeline, ops, count);
}

void bi_ordered_pipeline_submit(struct ordered_pipeline *ordered_pipeline)
{
    ordered_pipeline->bytes += slot_at(ordered_pipeline, ordered_pipeline->filled)->bytes;
    ordered_pipeline->filled++;
    if (ordered_pipeline->filled - ordered_pipeline->submitted >= ordered_pipeline->group)
        bi_ordered_pipeline_flush(ordered_pipeline);
}

/* ---- completing ---- */

/* Calls on_done for the oldest ops that have completed. False: the oldest has not. */
static bool complete_ready(struct ordered_pipeline *ordered_pipeline)
{
    uint64_t before = ordered_pipeline->completed;

    while (ordered_pipeline->completed < ordered_pipeline->submitted) {
        struct op_slot *slot = slot_at(ordered_pipeline, ordered_pipeline->completed);
        if (!slot->done)
            break;
        if (ordered_pipeline->on_done != NULL)
            ordered_pipeline->on_done(ordered_pipeline->user, slot);
        bide_job_clear(&slot->job);

        assert(ordered_pipeline->bytes >= slot->bytes);
        ordered_pipeline->bytes -= slot->bytes;
        ordered_pipeline->completed++;
    }
    return ordered_pipeline->completed > before;
}

static void complete_some(struct ordered_pipeline *ordered_pipeline)
{
    bi_ordered_pipeline_flush(ordered_pipeline);
    while (!complete_ready(ordered_pipeline))
        wait_for_completion(ordered_pipeline);
}

void bi_ordered_pipeline_drain(struct ordered_pipeline *ordered_pipeline)
{
    while (ordered_pipeline->completed < ordered_pipeline->filled)
        complete_some(ordered_pipeline);
}

void bi_ordered_pipeline_poll(struct ordered_pipeline *ordered_pipeline)
{
    count_completed(ordered_pipeline, bide_cq_drain(ordered_pipeline->cq, 0));
    complete_ready(ordered_pipeline);
}

bool bi_ordered_pipeline_wait(struct ordered_pipeline *ordered_pipeline, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = bide_cq_fd(ordered_pipeline->cq), .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};

    bi_ordered_pipeline_flush(ordered_pipeline);
    if (ordered_pipeline->completed == ordered_pipeline->filled || complete_ready(ordered_pipeline))
        return true;

    /* The descriptor of signals stays readable: it is polled for the first signal only. */
    poll(fds, bi_interrupted() ? 1 : 2, timeout_ms);
    count_completed(ordered_pipeline, bide_cq_drain(ordered_pipeline->cq, 0));
    return complete_ready(ordered_pipeline);
}

struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *ordered_pipeline,
                                             size_t bytes)
{
    while (ordered_pipeline->completed < ordered_pipeline->filled &&
           (ordered_pipeline->filled - ordered_pipeline->completed >= ordered_pipeline->op_max ||
            ordered_pipeline->bytes + bytes > ordered_pipeline->byte_max))
        complete_some(ordered_pipeline);

    struct op_slot *slot = slot_at(ordered_pipeline, ordered_pipeline->filled);
    memset(slot, 0, sizeof(*slot));
    slot->bytes = bytes;
    slot->op.done = on_complete;
    slot->op.user = slot;
    return slot;
}

const struct op_slot *bi_ordered_pipeline_oldest(const struct ordered_pipeline *ordered_pipeline)
{
    return ordered_pipeline->completed == ordered_pipeline->filled
               ? NULL
               : &ordered_pipeline->slots[ordered_pipeline->completed % BI_ORDERED_PIPELINE_SLOTS];
}

int bi_ordered_pipeline_fd(const struct ordered_pipeline *ordered_pipeline)
{
    return bide_cq_fd(ordered_pipeline->cq);
}

/* ---- freeing ---- */

void bi_ordered_pipeline_free(struct ordered_pipeline *ordered_pipeline)
{
    if (ordered_pipeline == NULL)
        return;
    bi_ordered_pipeline_drain(ordered_pipeline);
    assert(ordered_pipeline->pending == 0 && ordered_pipeline->bytes == 0);
    bide_cq_free(ordered_pipeline->cq);
    free(ordered_pipeline);
}

void bi_ordered_pipeline_abandon(struct ordered_pipeline *ordered_pipeline)
{
    static struct ordered_pipeline *abandoned; /* keeps them reachable for leak checkers */

    if (ordered_pipeline == NULL)
        return;
    if (ordered_pipeline->completed == ordered_pipeline->filled) {
        bi_ordered_pipeline_free(ordered_pipeline);
        return;
    }
    ordered_pipeline->next_abandoned = abandoned;
    abandoned = ordered_pipeline;
}
