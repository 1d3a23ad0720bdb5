/* SPDX-License-Identifier: MIT */
/*
 * ordered_pipeline - a pipeline whose answers are taken in the order of the asking.
 *
 * Whoever asks gets pieces, fills in their ops and sends them; the answers come to one function,
 * one by one, first asked first.
 *
 * Ordering   Ops run in the order in which they were sent: a copy has the order of its original.
 * Ownership  A piece belongs to whoever got it until it is sent, and from then on to the relay. Its
 *            job is cleared when its answer has been taken; so what a restore points to may lie
 *            there.
 * Cost       At most BI_ORDERED_PIPELINE_SLOTS ops, and as many bytes as BI_ORDERED_PIPELINE_BYTES, or one piece, has.
 */
#ifndef BI_ORDERED_PIPELINE_H
#define BI_ORDERED_PIPELINE_H

#include "cli/cli.h"

#define BI_ORDERED_PIPELINE_SLOTS 1024
#define BI_ORDERED_PIPELINE_BYTES ((size_t)16 << 20)

struct op_slot {
    bide_op op;
    bide_job job;             /* what the op brings, or takes */
    bide_put_options options; /* of a put */
    uint64_t number;          /* of whoever asks: an id, a line */
    void *extra;              /* his, too */
    size_t bytes;
    bool done;
};

/* The op of the piece has its status. */
typedef void bi_ordered_pipeline_done(void *user, struct op_slot *slot);

struct ordered_pipeline;

/* NULL, which is said, when there is not enough memory, or no file descriptor. */
struct ordered_pipeline *bi_ordered_pipeline_new(const struct cli *cli, bide *queue,
                                                 bi_ordered_pipeline_done *on_done, void *user);
/* Takes what is still under way, and frees. NULL is fine. */
void bi_ordered_pipeline_free(struct ordered_pipeline *ordered_pipeline);

/* A zeroed piece for an op that will hold so many bytes. If there is no room, takes answers until
 * there is. */
struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *ordered_pipeline,
                                             size_t bytes);
/* Sends the piece that was got last; it may wait for others, to go with them. */
void bi_ordered_pipeline_submit(struct ordered_pipeline *ordered_pipeline);
/* Lets nobody wait any longer: nothing more comes for the time being. */
void bi_ordered_pipeline_flush(struct ordered_pipeline *ordered_pipeline);

#endif
