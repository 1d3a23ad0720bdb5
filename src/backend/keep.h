/* SPDX-License-Identifier: MIT */
/*
 * keep - the arguments of an op that cannot be run before submit returns.
 *
 * What arguments point to is the caller's again when submit has returned. So an op that has to wait
 * before it can be run gets copies; when it completes, it has its own pointers back.
 */
#ifndef BI_KEEP_H
#define BI_KEEP_H

#include <bide/op.h>

/* BIDE_OK or BIDE_ENOMEM, and then nothing has changed. A caller that waits needs no copies. */
int bi_keep(bide_op *op);
/* Gives the op its own pointers back; false if they were not taken. */
bool bi_keep_end(bide_op *op);

#endif
