/* SPDX-License-Identifier: MIT */
/*
 * answer - what an op holds, given back.
 *
 * An op whose change could not be stored has its results in it already: they are taken back, so
 * that a failed op leaves nothing to free, and the error is put in their place. And an op that was
 * not run, or whose bytes have gone elsewhere, has copies of bodies that nobody needs any more.
 */
#ifndef BI_ANSWER_H
#define BI_ANSWER_H

#include <bide/op.h>

void bi_answer_take_back(bide_op *op, int code, const char *error);

/* Gives back the copies of bodies and results that the op brought. */
void bi_answer_drop(bide_op *op);

#endif
