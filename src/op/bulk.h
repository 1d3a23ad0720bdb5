/* SPDX-License-Identifier: MIT */
/*
 * bulk - the error message of the first rejected item of a list.
 *
 * An op on a list succeeds even if some of its items are rejected. Each item has its own status;
 * the op's error describes the first rejected one, and error_item says which one that is.
 *
 * The arguments are checked before the core runs the op, and that check may have rejected items
 * already. begin() therefore saves an existing message: the op's error is overwritten by each item.
 */
#ifndef BI_BULK_H
#define BI_BULK_H

#include "op/op_table.h"
#include "util/text.h"

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
