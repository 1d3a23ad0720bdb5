/* SPDX-License-Identifier: MIT */
/*
 * op_result - frees what an op holds.
 *
 * An op whose change could not be committed already contains its results. They are discarded and
 * replaced by the error, so that a failed op leaves nothing to free. An op that was not run, or
 * whose bytes have been sent, holds copies of bodies that are not needed any more.
 */
#ifndef BI_OP_RESULT_H
#define BI_OP_RESULT_H

#include <bide/op.h>

/* Replaces the results of an op that has succeeded (private_.status) by a code and an error. Items
 * that have failed themselves retain their status. */
void bi_op_result_discard(bide_op *op, int code, const char *error);

/* Releases the copies of bodies and results that were made for the arguments of the op. */
void bi_op_result_free_copies(bide_op *op);

#endif
