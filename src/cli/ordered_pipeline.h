/* SPDX-License-Identifier: MIT */
/*
 * ordered_pipeline - a pipeline that delivers completions in the order of submission.
 *
 * The user fills in slots one after the other and submits them; one callback gets the completed
 * slots, oldest first.
 *
 * Ordering   Ops run in the order in which they are submitted, so restored jobs keep their order.
 * Ownership  A slot belongs to the user until it is submitted, then to the pipeline. Its job is cleared
 *            after the callback, so the arguments of a restore may point into it.
 * Threads    All calls and callbacks happen in the thread of the user.
 * Cost       At most BI_ORDERED_PIPELINE_SLOTS ops, and BI_ORDERED_PIPELINE_BYTES or one slot that is
 *            larger.
 */
#ifndef BI_ORDERED_PIPELINE_H
#define BI_ORDERED_PIPELINE_H

#include "cli/cli.h"

#define BI_ORDERED_PIPELINE_SLOTS 1024
#define BI_ORDERED_PIPELINE_BYTES ((size_t)16 << 20)

struct op_slot {
    bide_op op;
    bide_job job;             /* argument or result of the op */
    bide_put_options options; /* of a put */
    uint64_t number;          /* free for the user: an id, a line */
    void *extra;              /* free for the user */
    size_t bytes;
    bool done;
};

/* Called once per submitted slot; the op has its status. */
typedef void bi_ordered_pipeline_done(void *user, struct op_slot *slot);

struct ordered_pipeline;

/* NULL, with a report, if memory or file descriptors are exhausted. */
struct ordered_pipeline *bi_ordered_pipeline_new(const struct cli *cli, bide *queue,
                                                 bi_ordered_pipeline_done *on_done, void *user);
/* Completes what is in flight, then frees. Accepts NULL. */
void bi_ordered_pipeline_free(struct ordered_pipeline *ordered_pipeline);

/* Returns a zeroed slot for an op that will hold this many bytes; if there is no room, first waits for
 * completions. A slot that is not submitted is returned again by the next call. */
struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *ordered_pipeline,
                                             size_t bytes);
/* Submits the slot that was returned last. It may be delayed until others fill a batch. */
void bi_ordered_pipeline_submit(struct ordered_pipeline *ordered_pipeline);
/* Submits an incomplete batch, because no further slot follows for some time. */
void bi_ordered_pipeline_flush(struct ordered_pipeline *ordered_pipeline);

#endif
