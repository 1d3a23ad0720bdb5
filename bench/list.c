/* SPDX-License-Identifier: MIT */
#include "list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long a backend may take over one list before something must be wrong. */
#define PATIENCE_MS 60000

static void count_down(bide_op *op)
{
    struct list *list = op->user;

    list->pending--;
}

struct list *list_new(bide *queue)
{
    struct list *list = calloc(1, sizeof(*list));

    if (list == NULL)
        fail("out of memory");
    must("bide_cq_new", bide_cq_new(&list->cq));
    list->queue = queue;
    list->topic = (bide_slice){BENCH_TOPIC, strlen(BENCH_TOPIC)};
    memset(list->bodies, 'x', sizeof(list->bodies));
    for (size_t i = 0; i < LIST_SIZE; i++) {
        list->refs[i] = &list->ops[i];
        list->ops[i].cq = list->cq;
        list->ops[i].done = count_down;
        list->ops[i].user = list;
        list->options[i] = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    }
    return list;
}

void list_free(struct list *list)
{
    must("bide_cq_free", bide_cq_free(list->cq));
    free(list);
}

static void submit(struct list *list, size_t n)
{
    int pending = bide_submit(list->queue, list->refs, n);

    if (pending < 0)
        fail_call("bide_submit", pending, bide_last_error());
    list->pending = (size_t)pending;
    while (list->pending > 0) {
        int ran = bide_cq_wait(list->cq, PATIENCE_MS);
        if (ran < 0)
            fail_call("bide_cq_wait", ran, bide_last_error());
        if (ran == 0)
            fail("%zu of %zu ops did not complete", list->pending, n);
    }
    for (size_t i = 0; i < n; i++) {
        const bide_op *op = &list->ops[i];
        if (op->status != BIDE_OK)
            fail_call(bide_op_name(op->kind), op->status, op->error);
    }
}

void list_put(struct list *list, size_t n)
{
    assert(n <= LIST_SIZE);
    for (size_t i = 0; i < n; i++) {
        bide_op *op = &list->ops[i];
        op->kind = BIDE_OP_PUT;
        op->put = (bide_put_item){
            .topic = list->topic,
            .body = {list->bodies[i], BENCH_BODY_SIZE},
            .options = &list->options[i],
        };
    }
    submit(list, n);
}

void list_reserve(struct list *list, size_t n)
{
    assert(n <= LIST_SIZE);
    for (size_t i = 0; i < n; i++) {
        bide_op *op = &list->ops[i];
        op->kind = BIDE_OP_RESERVE;
        op->reserve = (bide_reserve_args){
            .topics = &list->topic,
            .topic_count = 1,
            .timeout_ms = 0,
            .jobs = &list->jobs[i],
            .job_max = 1,
        };
    }
    submit(list, n);
}

void list_delete(struct list *list, size_t n)
{
    assert(n <= LIST_SIZE);
    for (size_t i = 0; i < n; i++) {
        bide_op *op = &list->ops[i];
        op->kind = BIDE_OP_DELETE;
        op->lease.id = list->jobs[i].id;
        op->lease.token = list->jobs[i].token;
    }
    submit(list, n);
    for (size_t i = 0; i < n; i++)
        bide_job_clear(&list->jobs[i]);
}
