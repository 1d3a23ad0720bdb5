/* SPDX-License-Identifier: MIT */
/*
 * op_args - what the arguments of an op name and point to, found by its layout in the op table.
 *
 * Duplicates. The caller may free what the arguments point to when submit has returned. So an op
 * that must wait before it runs gets copies, and its original pointers back when it completes.
 *
 * Ownership  The op owns the copies (private_.args_dup), and a reference to each bide_buf.
 * Cost       One allocation for all copies of an op.
 */
#ifndef BI_OP_ARGS_H
#define BI_OP_ARGS_H

#include "op/op_table.h"

/* The jobs that an op names by id. */
size_t bi_op_args_id_count(const bide_op *op);
uint64_t bi_op_args_id(const bide_op *op, size_t i);

/* The topics that an op inserts into, reserves from or changes. The topic of an item that the check
 * has rejected is empty. */
size_t bi_op_args_topic_count(const bide_op *op);
bide_slice bi_op_args_topic(const bide_op *op, size_t i);

/* True if the op names a subscription: it is then encoded with the number of its feed. */
bool bi_op_args_has_feed(const bide_op *op);

/* The items of an op on a list; 0 for other ops. */
size_t bi_op_args_item_count(const bide_op *op);
/* The status of an item, which must exist. */
int *bi_op_args_item_status(bide_op *op, size_t i);

/* BIDE_OK, or BIDE_ENOMEM and the op is unchanged. The op of a blocking caller is not copied: its
 * arguments stay valid until it completes. */
int bi_op_args_dup(bide_op *op);
/* Restores the original pointers and frees the copies; false if the op has none. */
bool bi_op_args_dup_restore(bide_op *op);

/* ---- payloads: bodies and results, copied into buffers before the queue is locked ---- */

/*
 * Ownership  A copy is in made_ of its item until the backend runs the op and takes it over.
 * Failure    An item of a list that cannot be copied fails alone, with BIDE_ENOMEM. An item that
 *            was rejected before is skipped.
 */

/* Copies the bodies and results of an op with OP_PAYLOAD into buffers, and put options of another
 * size, so that the layers below see only ours. BIDE_OK, or BIDE_ENOMEM and the message of the
 * op. */
int bi_op_payload_copy(bide_op *op);

/* Releases the copies of bodies and results of an op that did not run, or that has been sent. */
void bi_op_payload_free(bide_op *op);

/* After the completion: restores the caller's pointers to put options. */
void bi_op_payload_restore_options(bide_op *op);

#endif
