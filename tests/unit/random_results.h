/* SPDX-License-Identifier: MIT */
/*
 * random_results - random results of ops of every kind, and their comparison.
 */
#ifndef BI_RANDOM_RESULTS_H
#define BI_RANDOM_RESULTS_H

#include "random_ops.h"

/* The code other than BIDE_OK with which an op of this kind has results; BIDE_OK if there is
 * none. */
int other_good_code(bide_op_kind kind);

/* Completes an op with random results, as a queue would. */
void any_answer(bide_op *op, int code);

/* Asserts that the results of b, the decoded op, are those of a, the encoded one. */
void same_answer(const bide_op *a, const bide_op *b);

/* Frees the results of an op that are not in its op_world. */
void end_answer(bide_op *op);

#endif
