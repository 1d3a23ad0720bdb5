/* SPDX-License-Identifier: MIT */
/*
 * op_args - what the arguments of an op name and point to, found by its layout in the op table.
 *
 * Duplicates. The caller may free what the arguments point to when submit has returned. So an op that
 * must wait before it runs gets copies, and its original pointers back when it completes.
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

/* BIDE_OK, or BIDE_ENOMEM and the op is unchanged. The op of a blocking caller is not copied: its
 * arguments stay valid until it completes. */
int bi_op_args_dup(bide_op *op);
/* Restores the original pointers and frees the copies; false if the op has none. */
bool bi_op_args_dup_restore(bide_op *op);

#endif
