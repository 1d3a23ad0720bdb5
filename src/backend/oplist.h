/* SPDX-License-Identifier: MIT */
/*
 * oplist - ops in a row, linked through themselves. An op is in one list at a time.
 *
 * Cost       Every function O(1): a client may have a hundred thousand ops wait and cancel each.
 */
#ifndef BI_OPLIST_H
#define BI_OPLIST_H

#include <bide/op.h>

#include <assert.h>

struct op_list {
    bide_op *head, *tail;
};

static inline void list_add(struct op_list *list, bide_op *op)
{
    op->private_.next = NULL;
    op->private_.prev = list->tail;
    if (list->tail != NULL)
        list->tail->private_.next = op;
    else
        list->head = op;
    list->tail = op;
}

static inline void list_join(struct op_list *list, struct op_list *more)
{
    if (more->head == NULL)
        return;
    more->head->private_.prev = list->tail;
    if (list->tail != NULL)
        list->tail->private_.next = more->head;
    else
        list->head = more->head;
    list->tail = more->tail;
    more->head = more->tail = NULL;
}

static inline struct op_list list_take(struct op_list *list)
{
    struct op_list taken = *list;
    list->head = list->tail = NULL;
    return taken;
}

/* The first op, taken out; NULL if there is none. */
static inline bide_op *list_pop(struct op_list *list)
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

/* Takes out an op that is in this list. */
static inline void list_remove(struct op_list *list, bide_op *op)
{
    bide_op *prev = op->private_.prev;
    bide_op *next = op->private_.next;
    assert(prev == NULL ? list->head == op : prev->private_.next == op);
    assert(next == NULL ? list->tail == op : next->private_.prev == op);
    *(prev != NULL ? &prev->private_.next : &list->head) = next;
    *(next != NULL ? &next->private_.prev : &list->tail) = prev;
}

#endif
