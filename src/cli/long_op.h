/* SPDX-License-Identifier: MIT */
/*
 * long_op - one op that may take long, watched while it runs.
 *
 *     static struct long_op slow;
 *     slow.op.kind = BIDE_OP_CHECK;
 *     ...
 *     int exit = bi_long_op_submit(&slow, cli);
 *     while (exit == BI_EXIT_OK && !bi_long_op_wait(&slow, 200))
 *         if (bi_interrupted())
 *             ...
 *     bi_long_op_end(&slow);
 *
 * Ownership  An op that has not completed belongs to the queue until that is closed, which main()
 *            does after the verb: so a slow one lives in static memory.
 */
#ifndef BI_LONG_OP_H
#define BI_LONG_OP_H

#include "cli/cli.h"

struct long_op {
    bide_op op; /* its kind and its arguments are the caller's; then its status and its results */
    bide_cq *cq;
};

/* Hands the op over. BI_EXIT_OK, or says what is wrong. */
int bi_long_op_submit(struct long_op *long_op, const struct cli *cli);
/* True once it has completed. False when the time is over, or a signal comes meanwhile. */
bool bi_long_op_wait(struct long_op *long_op, int timeout_ms);
/* Frees what can be freed. */
void bi_long_op_end(struct long_op *long_op);

#endif
