/* SPDX-License-Identifier: MIT */
/*
 * items - the sentence of the first refused item of a list.
 *
 * An op on a list is good although some of its items are refused. Which one, and why, is said once,
 * for the first of them, in the op's error; the flag tells that it is there.
 */
#ifndef BI_ITEMS_H
#define BI_ITEMS_H

#include "util/text.h"

#include <bide/op.h>

#include <stdio.h>

/* In private_.flags: the op is good, and its error speaks of an item. */
#define BI_ITEM_SAID 1024

struct items {
    bool said;
    char text[BIDE_ERROR_SIZE];
};

/* Before the items are looked at. */
static inline void bi_items_begin(struct items *items, const bide_op *op)
{
    items->said = (op->private_.flags & BI_ITEM_SAID) != 0;
    if (items->said)
        bi_text_copy(items->text, op->error);
}

/* An item was looked at; if it was refused, the op's error says why. */
static inline void bi_items_note(struct items *items, const bide_op *op, size_t item, int code)
{
    if (items->said || code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        return;
    items->said = true;
    snprintf(items->text, sizeof(items->text), "item %zu: %.*s", item, BIDE_ERROR_SIZE - 30,
             op->error);
}

/* All were looked at. */
static inline void bi_items_end(const struct items *items, bide_op *op)
{
    if (!items->said)
        return;
    bi_text_copy(op->error, items->text);
    op->private_.flags |= BI_ITEM_SAID;
}

#endif
