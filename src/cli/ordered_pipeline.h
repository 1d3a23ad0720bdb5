/* SPDX-License-Identifier: MIT */
/*
 * ordered_pipeline - ops in flight, completed in the order of submission.
 *
 * A command that waited for each op would spend its time on round trips and syncs. A caller gets a
 * slot, fills in its op and submits it; the callback receives the slots one by one, in the order in
 * which they were submitted, from within the calls here and never from another thread.
 *
 * Ordering   Ops run in the order of submission: a copy has the order of its original. An op that
 *            the queue rejects with BIDE_EBUSY is submitted again when ops of this pipeline have
 *            completed, and before the ops behind it.
 * Ownership  A slot belongs to the caller until it is submitted, then to the pipeline until the
 *            callback returns. The job of the slot is cleared then, so the arguments of a restore
 *            may point to it. The op keeps its results until the slot is used again.
 * Cost       At most BI_ORDERED_PIPELINE_SLOTS ops and BI_ORDERED_PIPELINE_BYTES bytes, or one
 *            larger op. The bytes are those that the caller stated when it got the slot.
 */
#ifndef BI_ORDERED_PIPELINE_H
#define BI_ORDERED_PIPELINE_H

#include "cli/cli.h"

#define BI_ORDERED_PIPELINE_SLOTS 1024
#define BI_ORDERED_PIPELINE_BYTES ((size_t)16 << 20)

struct op_slot {
    bide_op op;
    bide_job job;             /* result or argument of the op */
    bide_put_options options; /* of a put */
    uint64_t number;          /* the caller's: an id, a line */
    void *extra;              /* the caller's */
    size_t bytes;
    bool done;
};

/* The op of the slot has its status. */
typedef void bi_ordered_pipeline_done(void *user, struct op_slot *slot);

struct ordered_pipeline;

/* Returns NULL, after an error message, if memory or descriptors are exhausted. on_done may be
 * NULL. */
struct ordered_pipeline *bi_ordered_pipeline_new(const struct cli *cli, bide *queue,
                                                 bi_ordered_pipeline_done *on_done, void *user);
/* Completes all ops that were submitted, and frees. NULL is ignored. */
void bi_ordered_pipeline_free(struct ordered_pipeline *pipeline);
/* As free, but does not wait: the memory of ops that have not completed stays until the process
 * ends, because the queue writes to it until it is closed. */
void bi_ordered_pipeline_abandon(struct ordered_pipeline *pipeline);

/* Hands ops to the queue only when the caller flushes or waits, which it does after each op. */
void bi_ordered_pipeline_set_manual(struct ordered_pipeline *pipeline);

/* Returns a zeroed slot for an op that will hold so many bytes. Completes ops until there is room.
 * A slot that is not submitted is returned again by the next call. */
struct op_slot *bi_ordered_pipeline_get_slot(struct ordered_pipeline *pipeline, size_t bytes);
/* Submits the slot that was got last; it may be handed to the queue later, in a group with
 * others. */
void bi_ordered_pipeline_submit(struct ordered_pipeline *pipeline);
/* Hands all submitted ops to the queue. */
void bi_ordered_pipeline_flush(struct ordered_pipeline *pipeline);

/* Waits until the oldest op completes. True: it has completed, or no op is in flight. False: the
 * timeout expired, or a signal was received (once). timeout_ms: -1 waits forever. */
bool bi_ordered_pipeline_wait(struct ordered_pipeline *pipeline, int timeout_ms);
/* Returns true if the descriptor is readable. If it is not, waits until it is, an op completes or a
 * signal is or was received. Flushes standard output before it waits. */
bool bi_ordered_pipeline_wait_input(struct ordered_pipeline *pipeline, int fd);
/* Completes all ops that were submitted. */
void bi_ordered_pipeline_drain(struct ordered_pipeline *pipeline);
/* The same, but ops that were not handed to the queue yet complete with BIDE_PENDING. */
void bi_ordered_pipeline_discard(struct ordered_pipeline *pipeline);

/* Returns the oldest slot that has not completed; NULL: none. */
struct op_slot *bi_ordered_pipeline_oldest(struct ordered_pipeline *pipeline);
/* Returns the slot that was submitted last, if its op was not handed to the queue yet; NULL
 * otherwise. */
struct op_slot *bi_ordered_pipeline_last_unsent(struct ordered_pipeline *pipeline);

/* Submits one op that may take minutes, copied from op, and waits until it completes. on_wait is
 * called every 200 ms, and after the first signal; if it returns false, the wait ends, and the op
 * has the status BIDE_PENDING: what its arguments point to must stay until the queue is closed.
 * BI_EXIT_OK, or BI_EXIT_FAILED after an error message. */
int bi_ordered_pipeline_run_op(const struct cli *cli, bide_op *op, bool (*on_wait)(void *user),
                               void *user);

#endif
