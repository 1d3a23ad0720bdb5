/* SPDX-License-Identifier: MIT */
#include "window.h"

#include <stdlib.h>
#include <string.h>

#include "measure.h"

/* How long an op may take before something must be wrong. */
#define PATIENCE_MS 60000

enum step { STEP_PUT, STEP_RESERVE, STEP_DELETE };

struct slot {
    bide_op op;
    struct window *window;
    enum step step;
    bide_job job;
};

struct window {
    bide *queue;
    bide_cq *cq;
    bide_slice topic;
    bide_slice body;
    size_t size;
    struct slot *slots;
    bide_op **list; /* to be submitted */
    size_t listed;
    bide_op **submitted; /* the list before */
    size_t pending;

    /* What is asked for. */
    enum step first, last;
    uint64_t left; /* jobs to begin */
    int64_t until_ns;
    uint64_t finished;
};

static void prepare_put(struct slot *slot)
{
    slot->op.kind = BIDE_OP_PUT;
    slot->op.put = (bide_put_item){
        .topic = slot->window->topic,
        .body = slot->window->body,
    };
}

static void prepare_reserve(struct slot *slot)
{
    slot->op.kind = BIDE_OP_RESERVE;
    slot->op.reserve = (bide_reserve_args){
        .topics = &slot->window->topic,
        .topic_count = 1,
        .timeout_ms = 0,
        .jobs = &slot->job,
        .job_max = 1,
    };
}

static void prepare_delete(struct slot *slot)
{
    slot->op.kind = BIDE_OP_DELETE;
    slot->op.lease.id = slot->job.id;
    slot->op.lease.token = slot->job.token;
}

/* Puts the slot's next op on the list. */
static void enlist(struct slot *slot, enum step step)
{
    static void (*const prepare[])(struct slot *) = {
        [STEP_PUT] = prepare_put,
        [STEP_RESERVE] = prepare_reserve,
        [STEP_DELETE] = prepare_delete,
    };

    slot->step = step;
    prepare[step](slot);
    slot->window->list[slot->window->listed++] = &slot->op;
}

static void begin(struct slot *slot)
{
    struct window *window = slot->window;

    if (window->left == 0 || measure_now_ns() >= window->until_ns)
        return;
    window->left--;
    enlist(slot, window->first);
}

/* The op of the slot was answered. */
static void advance(struct slot *slot)
{
    struct window *window = slot->window;

    if (slot->op.status != BIDE_OK)
        fail_call(bide_op_name(slot->op.kind), slot->op.status, slot->op.error);
    if (slot->step == STEP_RESERVE && slot->job.body_size != window->body.size)
        fail("a body of %zu bytes came back with %zu", window->body.size, slot->job.body_size);
    if (slot->step == STEP_DELETE)
        bide_job_clear(&slot->job);
    if (slot->step < window->last) {
        enlist(slot, slot->step + 1);
        return;
    }
    window->finished++;
    begin(slot);
}

static void completed(bide_op *op)
{
    struct slot *slot = op->user;

    slot->window->pending--;
    advance(slot);
}

/* Submits the list, and the list that follows from what was answered at once, and so on. */
static void flush(struct window *window)
{
    while (window->listed > 0) {
        bide_op **list = window->list;
        size_t count = window->listed;
        window->list = window->submitted;
        window->submitted = list;
        window->listed = 0;
        int pending = bide_submit(window->queue, list, count);
        if (pending < 0)
            fail_call("bide_submit", pending, bide_last_error());
        window->pending += (size_t)pending;
        for (size_t i = 0; i < count; i++) {
            if (list[i]->status != BIDE_PENDING)
                advance(list[i]->user);
        }
    }
}

static uint64_t run(struct window *window, enum step first, enum step last, uint64_t count,
                    int64_t until_ns)
{
    window->first = first;
    window->last = last;
    window->left = count;
    window->until_ns = until_ns;
    window->finished = 0;
    for (size_t i = 0; i < window->size; i++)
        begin(&window->slots[i]);
    flush(window);
    while (window->pending > 0) {
        int ran = bide_cq_wait(window->cq, PATIENCE_MS);
        if (ran < 0)
            fail_call("bide_cq_wait", ran, bide_last_error());
        if (ran == 0)
            fail("%zu ops did not complete", window->pending);
        flush(window);
    }
    return window->finished;
}

uint64_t window_put(struct window *window, uint64_t count)
{
    return run(window, STEP_PUT, STEP_PUT, count, INT64_MAX);
}

uint64_t window_take(struct window *window, uint64_t count)
{
    return run(window, STEP_RESERVE, STEP_DELETE, count, INT64_MAX);
}

uint64_t window_cycle(struct window *window, uint64_t count, int64_t until_ns)
{
    return run(window, STEP_PUT, STEP_DELETE, count, until_ns);
}

struct window *window_new(bide *queue, size_t size, size_t body_size)
{
    struct window *window = calloc(1, sizeof(*window));
    char *body = malloc(body_size);

    if (window == NULL || body == NULL)
        fail("out of memory");
    window->slots = calloc(size, sizeof(*window->slots));
    window->list = calloc(size, sizeof(*window->list));
    window->submitted = calloc(size, sizeof(*window->submitted));
    if (window->slots == NULL || window->list == NULL || window->submitted == NULL)
        fail("out of memory");
    must("bide_cq_new", bide_cq_new(&window->cq));
    memset(body, 'x', body_size);
    window->body = (bide_slice){body, body_size};
    window->topic = (bide_slice){BENCH_TOPIC, strlen(BENCH_TOPIC)};
    window->queue = queue;
    window->size = size;
    for (size_t i = 0; i < size; i++) {
        window->slots[i].window = window;
        window->slots[i].op.cq = window->cq;
        window->slots[i].op.done = completed;
        window->slots[i].op.user = &window->slots[i];
    }
    return window;
}

void window_free(struct window *window)
{
    must("bide_cq_free", bide_cq_free(window->cq));
    free((void *)(uintptr_t)window->body.data);
    free(window->slots);
    free(window->list);
    free(window->submitted);
    free(window);
}
