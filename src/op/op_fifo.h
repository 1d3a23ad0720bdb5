/* SPDX-License-Identifier: MIT */
/*
 * op_fifo - a doubly linked list of ops, first in, first out. Zeroed is empty.
 *
 * The links are in the op itself (private_.next, private_.prev), so insertion cannot fail.
 *
 * Ownership  Ops are borrowed; an op is in one list at a time.
 * Cost       Every function is O(1): a client may cancel each of a hundred thousand waiting ops.
 */
#ifndef BI_OP_FIFO_H
#define BI_OP_FIFO_H

#include <bide/op.h>

#include <assert.h>

struct op_fifo {
    bide_op *head, *tail;
};

static inline void bi_op_fifo_push(struct op_fifo *list, bide_op *op)
{
    op->private_.next = NULL;
    op->private_.prev = list->tail;
    if (list->tail != NULL)
        list->tail->private_.next = op;
    else
        list->head = op;
    list->tail = op;
}

/* Moves all ops of tail_list to the end of list. */
static inline void bi_op_fifo_append(struct op_fifo *list, struct op_fifo *tail_list)
{
    if (tail_list->head == NULL)
        return;

    tail_list->head->private_.prev = list->tail;
    if (list->tail != NULL)
        list->tail->private_.next = tail_list->head;
    else
        list->head = tail_list->head;

    list->tail = tail_list->tail;
    tail_list->head = tail_list->tail = NULL;
}

/* Returns the whole list and leaves it empty. */
static inline struct op_fifo bi_op_fifo_take(struct op_fifo *list)
{
    struct op_fifo all = *list;
    list->head = list->tail = NULL;
    return all;
}

/* Removes and returns the first op; NULL if the list is empty. */
static inline bide_op *bi_op_fifo_pop(struct op_fifo *list)
{
    bide_op *op = list->head;
    if (op == NULL)
        return NULL;

    list->head = op->private_.next;
    if (list->head == NULL)
        list->tail = NULL;
    else
        list->head->private_.prev = NULL;
    return op;
}

/* Removes an op, which must be in this list. */
static inline void bi_op_fifo_remove(struct op_fifo *list, bide_op *op)
{
    bide_op *prev = op->private_.prev;
    bide_op *next = op->private_.next;

    /* An op that is in another list, or in none, would corrupt both. */
    assert(prev == NULL ? list->head == op : prev->private_.next == op);
    assert(next == NULL ? list->tail == op : next->private_.prev == op);
    *(prev != NULL ? &prev->private_.next : &list->head) = next;
    *(next != NULL ? &next->private_.prev : &list->tail) = prev;
}

#endif
