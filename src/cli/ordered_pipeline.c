/* SPDX-License-Identifier: MIT */
#include "cli/ordered_pipeline.h"

#include "cli/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SUBMIT_MAX 128 /* ops in one call of bide_submit() */

/* A ring of slots with three positions that only rise: completed <= submitted <= filled, at most
 * BI_ORDERED_PIPELINE_SLOTS apart. */
struct ordered_pipeline {
    struct pipeline pipeline;
    bi_ordered_pipeline_done *on_done;
    void *user;
    uint64_t completed, submitted, filled;
    size_t bytes;
    struct op_slot slots[BI_ORDERED_PIPELINE_SLOTS];
};

static struct op_slot *slot_at(struct ordered_pipeline *ordered_pipeline, uint64_t position)
{
    return &ordered_pipeline->slots[position % BI_ORDERED_PIPELINE_SLOTS];
}

struct ordered_pipeline *bi_ordered_pipeline_new(const struct cli *cli, bide *queue,
                                                 bi_ordered_pipeline_done *on_done, void *user)
{
    struct ordered_pipeline *ordered_pipeline = calloc(1, sizeof(*ordered_pipeline));
    if (ordered_pipeline == NULL) {
        bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
        return NULL;
    }
    ordered_pipeline->on_done = on_done;
    ordered_pipeline->user = user;
    if (bi_pipeline_open_on(&ordered_pipeline->pipeline, cli, queue) == BI_EXIT_OK)
        return ordered_pipeline;
    free(ordered_pipeline);
    return NULL;
}

static void done(bide_op *op)
{
    struct op_slot *slot = op->user;
    slot->done = true;
}

static void submit(struct ordered_pipeline *ordered_pipeline)
{
    bide_op *ops[SUBMIT_MAX];
    size_t count = 0;

    assert(ordered_pipeline->filled - ordered_pipeline->submitted <= SUBMIT_MAX);
    while (ordered_pipeline->submitted < ordered_pipeline->filled)
        ops[count++] = &slot_at(ordered_pipeline, ordered_pipeline->submitted++)->op;
    if (count > 0)
        bi_pipeline_submit(&ordered_pipeline->pipeline, ops, count);
}

/* Waits for the oldest op, and delivers it and those behind it that are done. */
static void complete_some(struct ordered_pipeline *ordered_pipeline)
{
    struct op_slot *slot = slot_at(ordered_pipeline, ordered_pipeline->completed);

    assert(ordered_pipeline->completed < ordered_pipeline->filled);
    if (ordered_pipeline->completed == ordered_pipeline->submitted)
        submit(ordered_pipeline);
    while (!slot->done)
        bi_pipeline_wait(&ordered_pipeline->pipeline);

    while (ordered_pipeline->completed < ordered_pipeline->submitted && slot->done) {
        ordered_pipeline->on_done(ordered_pipeline->user, slot);
        bide_job_clear(&slot->job);
        assert(ordered_pipeline->bytes >= slot->bytes);
        ordered_pipeline->bytes -= slot->bytes;
        slot = slot_at(ordered_pipeline, ++ordered_pipeline->completed);
    }
}

struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *ordered_pipeline,
                                             size_t bytes)
{
    while (ordered_pipeline->completed < ordered_pipeline->filled &&
           (ordered_pipeline->filled - ordered_pipeline->completed == BI_ORDERED_PIPELINE_SLOTS ||
            ordered_pipeline->bytes + bytes > BI_ORDERED_PIPELINE_BYTES))
        complete_some(ordered_pipeline);

    struct op_slot *slot = slot_at(ordered_pipeline, ordered_pipeline->filled);
    memset(slot, 0, sizeof(*slot));
    slot->bytes = bytes;
    slot->op.done = done;
    slot->op.user = slot;
    return slot;
}

void bi_ordered_pipeline_submit(struct ordered_pipeline *ordered_pipeline)
{
    ordered_pipeline->bytes += slot_at(ordered_pipeline, ordered_pipeline->filled)->bytes;
    ordered_pipeline->filled++;
    if (ordered_pipeline->filled - ordered_pipeline->submitted == SUBMIT_MAX)
        submit(ordered_pipeline);
}

void bi_ordered_pipeline_flush(struct ordered_pipeline *ordered_pipeline)
{
    submit(ordered_pipeline);
}

void bi_ordered_pipeline_free(struct ordered_pipeline *ordered_pipeline)
{
    if (ordered_pipeline == NULL)
        return;

    while (ordered_pipeline->completed < ordered_pipeline->filled)
        complete_some(ordered_pipeline);
    bi_pipeline_close(&ordered_pipeline->pipeline);
    free(ordered_pipeline);
}
