/* SPDX-License-Identifier: MIT */
/*
 * list - up to 64 ops that are handed to bide_submit() as one list, and waited for.
 *
 * The same ops are used for list after list, with other kinds and arguments each time, as a
 * server would. In memory every op is finished when submit returns; for backends where some are
 * still pending the list has a completion queue, and is drained until they are done.
 *
 * Threads    A list belongs to one thread.
 */
#ifndef BENCH_LIST_H
#define BENCH_LIST_H

#include <stddef.h>

#include "bench.h"

#define LIST_SIZE 64

struct list {
    bide *queue;
    bide_cq *cq;
    size_t pending; /* ops that have not completed yet */
    bide_slice topic;
    bide_op *refs[LIST_SIZE];
    bide_op ops[LIST_SIZE];
    bide_put_options options[LIST_SIZE];     /* of the puts; begin as BIDE_PUT_OPTIONS_INIT */
    char bodies[LIST_SIZE][BENCH_BODY_SIZE]; /* of the puts; begin as 'x' */
    bide_job jobs[LIST_SIZE];                /* what the reserves took */
};

struct list *list_new(bide *queue);
void list_free(struct list *list);

/*
 * Each makes a list of n ops, submits it, waits for it, and ends the program unless every op
 * answered 0: n puts with bodies[i] and options[i]; n reserves with timeout 0, into jobs[i]; n
 * deletes of jobs[i], which are then cleared.
 */
void list_put(struct list *list, size_t n);
void list_reserve(struct list *list, size_t n);
void list_delete(struct list *list, size_t n);

#endif
