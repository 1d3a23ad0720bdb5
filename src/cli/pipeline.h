/* SPDX-License-Identifier: MIT */
/*
 * pipeline - many ops on their way at the same time, so that a server, or a disk, is not waited for
 * once for each.
 *
 * Every op that is handed over has its done() called exactly once, also if it finished at once; by
 * submit or by wait, and never by another thread. The ops are the caller's memory, and stay where
 * they are until then.
 */
#ifndef BI_PIPELINE_H
#define BI_PIPELINE_H

#include "cli/cli.h"

struct pipeline {
    bide *queue;
    bide_cq *cq;
    size_t in_flight; /* handed over, and not answered yet */
};

/* BI_EXIT_OK, or says what is wrong. */
int bi_pipeline_open(struct pipeline *pipeline, const struct cli *cli);
/* The same on another queue than the one of the verb. */
int bi_pipeline_open_on(struct pipeline *pipeline, const struct cli *cli, bide *queue);
/* Waits for what is on its way. */
void bi_pipeline_close(struct pipeline *pipeline);

/* Hands over. done and the rest of each op are set by the caller; the completion queue is not. An op
 * that the queue is too busy for waits for others of this pipeline. */
void bi_pipeline_submit(struct pipeline *pipeline, bide_op *const *ops, size_t count);

/* Waits until at least one op has been answered; nothing is on its way: returns at once. */
void bi_pipeline_wait(struct pipeline *pipeline);
/* Takes the answers that are there. */
void bi_pipeline_poll(struct pipeline *pipeline);
/* Readable when there are answers. */
int bi_pipeline_fd(const struct pipeline *pipeline);

#endif
