/* SPDX-License-Identifier: MIT */
/*
 * slot - one thread of a worker: takes a job, runs its handler, tells the queue what came of it.
 *
 * The answer to one job and the reserve of the next go to the queue together. The next handler is
 * begun when both have come back: an answer that the queue could not take is then owed at once, and
 * not when a handler of ten minutes returns. No job is taken before there is a thread to run it.
 */
#include "task/inside.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After a reserve that failed the next one waits, each time twice as long. */
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 5000
/* A reserve that waits for ever would not show that the queue answers. */
#define TAKE_MS 60000
/* While too many answers are owed it looks again that often. */
#define OWED_LOOK_MS 1000

static void on_answered(bide_op *op)
{
    struct slot *slot = op->user;
    slot->answer.complete = true;
}

static void on_taken(bide_op *op)
{
    struct slot *slot = op->user;
    slot->came = true;
    if (slot->answering) /* it will not be begun at once */
        slot->context.taken = bi_clock_boot();
}

int bi_slot_init(struct slot *slot, bide_worker *worker)
{
    slot->worker = worker;
    bi_context_init(&slot->context, worker);
    int code = bide_cq_new(&slot->cq);
    if (code == BIDE_OK)
        bi_cq_attend(slot->cq); /* it sleeps in bide_cq_wait() only */
    return code;
}

void bi_slot_done(struct slot *slot)
{
    if (slot->worker == NULL)
        return; /* it was never begun */
    bi_context_done(&slot->context);
    bide_cq_free(slot->cq);
}

void bi_slot_wake(const struct slot *slot)
{
    if (slot->cq != NULL)
        bi_cq_wake(slot->cq);
}

static bool is_stopping(const struct slot *slot)
{
    return atomic_load_explicit(&slot->worker->stopping, memory_order_relaxed);
}

/* ---- the answer ---- */

/* The queue has answered, one way or the other. */
static void settle(struct slot *slot)
{
    bide_worker *worker = slot->worker;
    slot->answering = false;
    if (!bi_answer_settle(&slot->answer, worker) && !bi_keeper_owe(&worker->keeper, &slot->answer))
        bi_answer_give_up(&slot->answer, worker);
    bi_answer_clear(&slot->answer);
}

/* Waits until the queue has answered, or something came. */
static void wait_some(struct slot *slot, int64_t timeout_ms)
{
    bide_cq_wait(slot->cq, timeout_ms);
    if (slot->answering && slot->answer.complete)
        settle(slot);
}

static void await_answer(struct slot *slot)
{
    while (slot->answering)
        wait_some(slot, BIDE_FOREVER);
}

/* ---- taking ---- */

static void arm_take(struct slot *slot)
{
    const bide_worker *worker = slot->worker;
    slot->came = slot->cancelling = false;
    slot->gaps = atomic_load(&worker->keeper.gaps);
    slot->context.taken = 0;
    slot->take.kind = BIDE_OP_RESERVE;
    slot->take.cq = slot->cq;
    slot->take.done = on_taken;
    slot->take.user = slot;
    slot->take.reserve = (bide_reserve_args){
        .topics = worker->topics,
        .topic_count = worker->entry_count,
        .weights = worker->options.strategy == BIDE_WEIGHTED ? worker->weights : NULL,
        .strategy = worker->options.strategy,
        .timeout_ms = TAKE_MS,
        .jobs = &slot->context.job,
        .job_max = 1,
    };
}

static void arm_answer(struct slot *slot)
{
    slot->answer.op.cq = slot->cq;
    slot->answer.op.done = on_answered;
    slot->answer.op.user = slot;
    bi_answer_arm(&slot->answer);
}

/* Hands over the answer, if there is one, and the next reserve, if there is to be one. */
static void submit(struct slot *slot, bool answer, bool take)
{
    bide_op *ops[2];
    size_t count = 0;
    if (answer) {
        arm_answer(slot);
        slot->answering = true;
        ops[count++] = &slot->answer.op;
    }
    if (take) {
        arm_take(slot);
        ops[count++] = &slot->take;
    }
    bide_submit(slot->worker->queue, ops, count);
    if (answer && slot->answer.op.status != BIDE_PENDING)
        settle(slot);
    if (take && slot->take.status != BIDE_PENDING)
        on_taken(&slot->take);
}

/* Waits for the reserve; gives it up when the worker stops. */
static void await_take(struct slot *slot)
{
    while (!slot->came) {
        if (is_stopping(slot) && !slot->cancelling) {
            slot->cancelling = true;
            bide_cancel_op(slot->worker->queue, &slot->take);
        }
        wait_some(slot, BIDE_FOREVER);
    }
}

/* Sleeps after a failure, unless the worker stops. */
static void pause_taking(struct slot *slot)
{
    slot->pause_ms = slot->pause_ms == 0                 ? PAUSE_MIN_MS
                     : slot->pause_ms < PAUSE_MAX_MS / 2 ? slot->pause_ms * 2
                                                         : PAUSE_MAX_MS;
    int64_t end = bi_clock_boot() + slot->pause_ms * 1000;
    for (int64_t left; !is_stopping(slot) && (left = end - bi_clock_boot()) > 0;)
        wait_some(slot, left / 1000 + 1);
}

/* As many answers may be owed as there are threads: then no more jobs are begun. */
static bool owes_too_much(const bide_worker *worker)
{
    return atomic_load_explicit(&worker->owed_count, memory_order_relaxed) >=
           worker->options.threads;
}

static void await_owed(struct slot *slot)
{
    while (!is_stopping(slot) && owes_too_much(slot->worker))
        wait_some(slot, OWED_LOOK_MS);
}

/* The reserve has completed. True: there is a job. */
static bool has_job(struct slot *slot, bool *over)
{
    int code = slot->take.status;
    *over = code == BIDE_CLOSED || (code != BIDE_OK && is_stopping(slot));
    if (code == BIDE_OK || code == BIDE_TIMED_OUT) {
        bi_worker_feed(slot->worker, STARVED_TAKE);
        slot->pause_ms = 0;
    } else if (!*over) {
        bi_worker_starve(slot->worker, STARVED_TAKE, code, slot->take.error);
        pause_taking(slot);
    }
    return code == BIDE_OK;
}

/* ---- running ---- */

/* Sees that the data is there for the handler; answers BIDE_DONE, or what is to become of a job
 * that cannot be read. */
static int read_data(struct bide_context *context)
{
    const bide_type *type = context->entry->type;
    context->data = &context->body;
    if (type == NULL)
        return BIDE_DONE;
    context->data = NULL;
    int code = bide_type_decode(type, context->body.data, context->body.size, &context->owned);
    if (code == BIDE_EINVAL)
        return bide_context_bury(context, "%s", bide_last_error());
    if (code != BIDE_OK)
        return bide_context_retry(context, "%s", bide_last_error());
    context->data = context->owned;
    return BIDE_DONE;
}

static void tell_started(const struct bide_context *context)
{
    bide_work_event event = {
        .kind = BIDE_WORK_STARTED,
        .text = "",
        .id = context->job.id,
        .topic = context->entry->topic,
        .attempt = bide_context_attempt(context),
    };
    bi_worker_event(context->worker, &event);
}

static bool is_failure(int outcome, int told)
{
    return (outcome == BIDE_RETRY || outcome == BIDE_BURY) && told != BIDE_REASON_STOPPING &&
           told != BIDE_REASON_CANCELLED && told != BIDE_REASON_LEASE_LOST;
}

static void fall_back(struct bide_context *context)
{
    const struct entry *entry = context->entry;
    char text[TASK_ERROR_SIZE + 1];
    memcpy(text, context->error, context->error_size);
    text[context->error_size] = 0;
    entry->fall(context, context->data, text, entry->fallback, entry->fallback_arg);
}

static int run_handler(struct bide_context *context)
{
    int outcome = read_data(context);
    if (outcome == BIDE_DONE) {
        tell_started(context);
        bi_error_clear(); /* what the handler answers may be the code of a call that it made */
        outcome = bide_context_next(context);
    }
    return bi_answer_outcome(context, outcome);
}

/* Runs the handler of the job that was taken. True: the queue is to be told. */
static bool run(struct slot *slot)
{
    struct bide_context *context = &slot->context;
    bide_worker *worker = slot->worker;
    context->entry = bi_worker_entry(worker, context->job.topic);
    atomic_fetch_add_explicit(&slot->runs, 1, memory_order_relaxed);
    bi_context_begin(context);
    bi_keeper_check_cancel(&worker->keeper, slot);
    int outcome = run_handler(context);
    int told = atomic_load(&context->told);
    context->layer = worker->layer_count + 1; /* a fallback has no next one */
    context->buries = outcome == BIDE_BURY;
    if (is_failure(outcome, told) && context->entry->fall != NULL)
        fall_back(context);
    bool own = bi_context_end(context);
    if (own)
        bi_answer_make(&slot->answer, context, outcome, told);
    bi_context_clear(context);
    return own;
}

/* A job that came although nobody is to run it any more. */
static void give_back_unbegun(struct slot *slot)
{
    struct bide_context *context = &slot->context;
    context->entry = bi_worker_entry(slot->worker, context->job.topic);
    context->started = bi_clock_boot();
    context->lease_end = context->started + context->job.left_ms * 1000;
    atomic_store(&context->told, BIDE_REASON_NONE); /* that was about the job before */
    bi_answer_give_back(&slot->answer, context);
    bi_context_clear(context);
    submit(slot, true, false);
}

void bi_slot_work(struct slot *slot)
{
    bool answer = false;
    bool over = false;
    struct here here;
    bi_worker_enter(&here, slot->worker);
    while (!over && !is_stopping(slot)) {
        submit(slot, answer, true);
        answer = false;
        await_take(slot);
        await_answer(slot);
        if (!has_job(slot, &over))
            continue;
        if (is_stopping(slot)) {
            give_back_unbegun(slot);
            break;
        }
        answer = run(slot);
        if (owes_too_much(slot->worker)) {
            submit(slot, answer, false);
            answer = false;
            await_owed(slot);
        }
    }
    if (answer)
        submit(slot, true, false);
    await_answer(slot);
    bi_worker_leave(&here);
}
