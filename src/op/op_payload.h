/* SPDX-License-Identifier: MIT */
/*
 * op_payload - copies bodies and results into buffers before the queue is locked.
 *
 * Ownership  A copy is in made_ of its item until the backend runs the op and takes it over.
 * Failure    An item of a list that cannot be copied fails alone, with BIDE_ENOMEM. An item that
 *            was rejected before is skipped.
 */
#ifndef BI_OP_PAYLOAD_H
#define BI_OP_PAYLOAD_H

#include "op/op_table.h"

/* Copies the bodies and results of an op into buffers, and put options of another size, so that the
 * layers below see only ours. BIDE_OK, or BIDE_ENOMEM and the message of the op. */
int bi_op_payload_copy(bide_op *op);

/* Releases the copies of bodies and results of an op that did not run, or that has been sent. */
void bi_op_payload_free(bide_op *op);

/* After the completion: restores the caller's pointers to put options. */
void bi_op_payload_restore_options(bide_op *op);

/* The functions in the rows of the op table: false when out of memory. */
typedef bool op_payload(bide_op *op);
op_payload bi_op_payload_put, bi_op_payload_put_many, bi_op_payload_done, bi_op_payload_finish_many,
    bi_op_payload_finish_and_reserve, bi_op_payload_restore;

#endif
