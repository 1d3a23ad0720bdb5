/* SPDX-License-Identifier: MIT */
/*
 * slow - one op that may take long, watched while it runs.
 *
 *     static struct slow slow;
 *     slow.op.kind = BIDE_OP_CHECK;
 *     ...
 *     int exit = bi_slow_begin(&slow, cli);
 *     while (exit == BI_EXIT_OK && !bi_slow_wait(&slow, 200))
 *         if (bi_interrupted())
 *             ...
 *     bi_slow_end(&slow);
 *
 * Ownership  An op that has not completed belongs to the queue until that is closed, which main()
 *            does after the verb: so a slow one lives in static memory.
 */
#ifndef BI_SLOW_H
#define BI_SLOW_H

#include "cli/cli.h"

struct slow {
    bide_op op; /* its kind and its arguments are the caller's; then its status and its results */
    bide_cq *cq;
};

/* Hands the op over. BI_EXIT_OK, or says what is wrong. */
int bi_slow_begin(struct slow *slow, const struct cli *cli);
/* True once it has completed. False when the time is over, or a signal comes meanwhile. */
bool bi_slow_wait(struct slow *slow, int timeout_ms);
/* Frees what can be freed. */
void bi_slow_end(struct slow *slow);

#endif
