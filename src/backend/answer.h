/* SPDX-License-Identifier: MIT */
/*
 * answer - taking back an answer that was never given.
 *
 * An op whose change could not be stored has its results in it already. This clears them, so that
 * a failed op leaves nothing to free, and puts the error in their place.
 */
#ifndef BI_ANSWER_H
#define BI_ANSWER_H

#include <bide/op.h>

void bi_answer_take_back(bide_op *op, int code, const char *error);

#endif
