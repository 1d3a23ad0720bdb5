/* SPDX-License-Identifier: MIT */
/*
 * oplist - ops in a row, linked through themselves. An op is in one list at a time.
 */
#ifndef BI_OPLIST_H
#define BI_OPLIST_H

#include <bide/op.h>

struct op_list {
    bide_op *head, *tail;
};

static inline void list_add(struct op_list *list, bide_op *op)
{
    op->private_.next = NULL;
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
    return op;
}

/* Takes one op out; false if it is not there. Walks the list. */
static inline bool list_remove(struct op_list *list, bide_op *op)
{
    struct op_list taken = list_take(list);
    bool found = false;
    for (bide_op *each = taken.head; each != NULL;) {
        bide_op *next = each->private_.next;
        if (each == op)
            found = true;
        else
            list_add(list, each);
        each = next;
    }
    return found;
}

#endif
