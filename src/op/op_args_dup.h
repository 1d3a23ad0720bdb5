/* SPDX-License-Identifier: MIT */
/*
 * op_args_dup - copies the arguments of an op that cannot run before submit returns.
 *
 * The caller may free what the arguments point to when submit has returned. So an op that must wait
 * before it runs gets copies, and its original pointers back when it completes.
 *
 * Ownership  The op owns the copies (private_.args_dup), and a reference to each bide_buf.
 * Cost       One allocation for all copies of an op.
 */
#ifndef BI_OP_ARGS_DUP_H
#define BI_OP_ARGS_DUP_H

#include <bide/op.h>

/* BIDE_OK, or BIDE_ENOMEM and the op is unchanged. The op of a blocking caller is not copied: its
 * arguments stay valid until it completes. */
int bi_op_args_dup(bide_op *op);
/* Restores the original pointers and frees the copies; false if the op has none. */
bool bi_op_args_dup_restore(bide_op *op);

#endif
