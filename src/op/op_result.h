/* SPDX-License-Identifier: MIT */
/*
 * op_result - what a completed op returns, found by its layouts in the op table; and how results
 * are discarded.
 *
 * An op whose change could not be committed already contains its results. They are discarded and
 * replaced by the error, so that a failed op leaves nothing to free.
 */
#ifndef BI_OP_RESULT_H
#define BI_OP_RESULT_H

#include "op/op_table.h"
#include "util/message.h"

/* Sets *jobs to the snapshots that an op which has succeeded returns, and returns their number.
 * NULL: its kind returns none. */
size_t bi_op_result_snapshots(const bide_op *op, bide_job **jobs);

/* The same for jobs that the op has reserved. */
size_t bi_op_result_reserved(const bide_op *op, bide_job **jobs);

/* The buffer that an op which has succeeded returns; NULL if there is none. */
const bide_buf *bi_op_result_buf(const bide_op *op);

/* Bytes in the buffers that an op which has succeeded returns: of bodies, results, texts, workers. */
size_t bi_op_result_bytes(const bide_op *op);

/* The number of structs that the op has room for, and their size; 0: it returns no list. */
size_t bi_op_result_room(const bide_op *op, size_t *size);

/* The count of an op with OP_COUNTS. */
uint64_t *bi_op_result_count(bide_op *op);

/* Replaces the results of an op that has succeeded (private_.status) by a code and an error. Items
 * that have failed themselves retain their status. */
void bi_op_result_discard(bide_op *op, int code, const char *error);

/* Frees the results on success and restores what they have replaced: the op can be repeated. */
void bi_op_result_undo(bide_op *op);

/* Frees the results of a completed op, by its status. */
void bi_op_result_free(bide_op *op);

/* Gives the items of a list that was rejected as a whole this code. Items that have failed
 * themselves retain their status, except in an op that succeeds or fails as a whole. */
void bi_op_result_fail_items(bide_op *op, int code);

/* ---- ops on lists ---- */

/*
 * An op on a list succeeds even if some of its items are rejected. Each item has its own status;
 * the op's error describes the first rejected one, and error_item says which one that is.
 *
 * The arguments are checked before the core runs the op, and that check may have rejected items
 * already. begin() therefore saves an existing message: the op's error is overwritten by each item.
 */

struct bulk_errors {
    uint32_t item; /* as error_item of the op */
    char text[BIDE_ERROR_SIZE];
};

/* Call before the first item. */
static inline void bi_bulk_begin(struct bulk_errors *items, const bide_op *op)
{
    items->item = op->error_item;
    if (items->item != 0)
        bi_text_copy(items->text, op->error);
}

/* Call after each item. If code is an error, op->error says why. */
static inline void bi_bulk_record(struct bulk_errors *items, const bide_op *op, size_t item,
                                  int code)
{
    if (items->item != 0 || code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        return;
    items->item = (uint32_t)item + 1;
    bi_text_copy(items->text, op->error);
}

/* Call after the last item. */
static inline void bi_bulk_end(const struct bulk_errors *items, bide_op *op)
{
    if (items->item == 0)
        return;
    bi_text_copy(op->error, items->text);
    op->error_item = items->item;
}

#endif
