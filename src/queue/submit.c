/* SPDX-License-Identifier: MIT */
/*
 * submit - handing ops over: many without waiting, or one and wait for it.
 */
#include "backend/answer.h"
#include "backend/beanstalk_kind.h"
#include "core/items.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Set in private_.flags: copies may have been made. */
#define COPIED 256
/* How long a cancelled call tries to give back what it got, and how long it rests in between. */
#define GIVE_BACK_US       5000000
#define GIVE_BACK_PAUSE_NS 10000000

/* The op is good and its bytes are copied: its status is BIDE_PENDING. Else it is its code. */
static void prepare(const struct bide *queue, bide_op *op)
{
    op->private_.flags = BI_IN_HAND;
    op->private_.bytes = 0;
    op->private_.kept = NULL;
    op->applied = false;
    op->error[0] = 0;
    if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        op->finish_and_reserve.finish.status = BIDE_PENDING;
    op->status = bi_args_check(queue, op);
    if (op->status != BIDE_OK)
        return;
    op->private_.flags |= COPIED;
    op->status = bi_args_copy(op);
    if (op->status == BIDE_OK)
        op->status = BIDE_PENDING;
}

void bi_submit_hush(bide_op *op)
{
    if (op->status == BIDE_OK && (op->private_.flags & BI_ITEM_SAID) == 0)
        op->error[0] = 0;
}

void bi_submit_settle(bide_op *op)
{
    op->private_.flags &= ~BI_IN_HAND;
    bi_submit_hush(op);
    /* One that was refused as a whole has finished nothing. */
    if (op->kind == BIDE_OP_FINISH_AND_RESERVE &&
        op->finish_and_reserve.finish.status == BIDE_PENDING)
        op->finish_and_reserve.finish.status = op->status;
    /* One that was run has no copies any more; one that never was still has them. */
    if (op->status != BIDE_OK && (op->private_.flags & COPIED) != 0) {
        bi_args_fail(op);
        bi_answer_drop(op);
    }
}

void bi_submit_finish(bide_op *op)
{
    bi_cq_unexpect(op->cq);
    bi_submit_settle(op);
}

/* A finish that is applied before its reserve has to wait cannot be taken back. */
static void refuse_half_done(bide_op *op)
{
    if (op->status != BIDE_PENDING || op->cq != NULL || op->kind != BIDE_OP_FINISH_AND_RESERVE ||
        op->finish_and_reserve.reserve.timeout_ms == 0)
        return;
    bi_text_copy(op->error, "finish_and_reserve: names no completion queue and may have to wait");
    op->status = BIDE_EINVAL;
}

static int check_list(const bide *queue, bide_op *const *ops, size_t n)
{
    if (queue == NULL || (ops == NULL && n > 0))
        return bi_error_set(BIDE_EINVAL, "submit: queue or ops is NULL");
    if (n > INT32_MAX)
        return bi_error_set(BIDE_EINVAL, "submit: the list is too long");
    for (size_t i = 0; i < n; i++)
        if (ops[i] == NULL)
            return bi_error_set(BIDE_EINVAL, "submit: op %zu of the list is NULL", i);
    return BIDE_OK;
}

/* Marks all ops; none, if one of them is pending already or stands in the list twice. */
static int take_in_hand(bide_op *const *ops, size_t n)
{
    size_t i = 0;
    for (; i < n && (ops[i]->private_.flags & BI_IN_HAND) == 0; i++)
        ops[i]->private_.flags |= BI_IN_HAND;
    if (i == n)
        return BIDE_OK;
    int code =
        bi_error_set(BIDE_EINVAL, "submit: op %zu is pending already, or was never zeroed", i);
    while (i-- > 0)
        ops[i]->private_.flags &= ~BI_IN_HAND;
    return code;
}

int bide_submit(bide *queue, bide_op *const *ops, size_t n)
{
    bi_error_clear();
    int code = check_list(queue, ops, n);
    if (code == BIDE_OK)
        code = take_in_hand(ops, n);
    if (code != BIDE_OK)
        return code;
    for (size_t i = 0; i < n; i++) {
        ops[i]->private_.wake = NULL;
        prepare(queue, ops[i]);
        refuse_half_done(ops[i]);
        if (ops[i]->status == BIDE_PENDING)
            bi_cq_expect(ops[i]->cq);
        else
            bi_submit_settle(ops[i]);
    }
    struct backend *backend = queue->backend;
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    bool blocks = backend->ops->blocks;
    if (blocks)
        cancel_state = bi_thread_disable_cancel();
    bi_enter(queue);
    int pending = backend->ops->submit(backend, ops, n);
    bi_leave(queue);
    if (blocks)
        bi_thread_restore_cancel(&cancel_state);
    return pending;
}

int bide_cancel_op(bide *queue, bide_op *op)
{
    bi_error_clear();
    if (queue == NULL || op == NULL)
        return bi_error_set(BIDE_EINVAL, "cancel_op: queue or op is NULL");
    if (op->status != BIDE_PENDING)
        return bi_error_set(BIDE_EINVAL, "cancel_op: the op is not pending");
    BI_NO_CANCEL;
    bi_enter(queue);
    queue->backend->ops->cancel(queue->backend, op);
    bi_leave(queue);
    return BIDE_OK;
}

/* ---- one op, and wait for it ---- */

/* A blocking call whose op is pending. */
struct call {
    struct bide *queue;
    bide_op *op;
    sem_t completed;
};

static void await_completion(struct call *call)
{
    while (sem_wait(&call->completed) != 0)
        ;
    call->op->status = call->op->private_.status;
    bi_submit_settle(call->op);
}

/* Gives back what was reserved. A store that fails is asked again for a while; then the leases run
 * out. */
static void give_back(struct bide *queue, const bide_reserve_args *reserved)
{
    int64_t until = bi_clock_boot() + GIVE_BACK_US;
    for (size_t i = 0; i < reserved->count; i++) {
        bide_op op;
        op.kind = BIDE_OP_GIVE_BACK;
        op.lease = (bide_lease_args){.id = reserved->jobs[i].id, .token = reserved->jobs[i].token};
        while (bi_call(queue, &op) < BIDE_OK && bi_clock_boot() < until)
            nanosleep(&(struct timespec){.tv_nsec = GIVE_BACK_PAUSE_NS}, NULL);
    }
}

/*
 * The thread was cancelled while its op waited. The op is on the stack that is being unwound, so it
 * has to complete first. A job that it got meanwhile is given back.
 */
static void abandon(void *arg)
{
    struct call *call = arg;
    struct bide *queue = call->queue;
    bide_op *op = call->op;
    queue->backend->ops->cancel(queue->backend, op);
    await_completion(call);
    if (op->status == BIDE_OK && op->kind == BIDE_OP_RESERVE)
        give_back(queue, &op->reserve);
    else if (op->status == BIDE_OK && op->kind == BIDE_OP_FINISH_AND_RESERVE)
        give_back(queue, &op->finish_and_reserve.reserve);
    if (op->status == BIDE_OK)
        bi_answer_take_back(op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));
    sem_destroy(&call->completed);
    bi_leave(queue);
}

/* The only place where a blocking call may be cancelled: its op waits for something to happen, for
 * as long as the caller has asked for. */
static void await_cancellable(struct call *call, int cancel_state)
{
    pthread_cleanup_push(abandon, call);
    pthread_setcancelstate(cancel_state, NULL);
    while (sem_wait(&call->completed) != 0)
        ;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    call->op->status = call->op->private_.status;
    bi_submit_settle(call->op);
}

/* May the op wait for something to happen, for as long as the caller has asked for? */
static bool may_wait(bide_op *op)
{
    const int64_t *timeout_ms = bi_kind_timeout(op);
    return timeout_ms != NULL && *timeout_ms != 0;
}

/* Submits an op that is prepared and waits for it with cancellation disabled, but where it may. */
static void run_blocking(struct call *call)
{
    struct backend *backend = call->queue->backend;
    int cancel_state = bi_thread_disable_cancel();
    bool waits = may_wait(call->op); /* a pending op is the backend's */
    if (backend->ops->submit(backend, &call->op, 1) > 0) {
        if (waits)
            await_cancellable(call, cancel_state);
        else
            await_completion(call);
    }
    bi_thread_restore_cancel(&cancel_state);
}

/* Waits for an op that a submit without cancellation points left pending. */
static void await_pending(struct call *call)
{
    int cancel_state = bi_thread_disable_cancel();
    if (may_wait(call->op))
        await_cancellable(call, cancel_state);
    else
        await_completion(call);
    bi_thread_restore_cancel(&cancel_state);
}

static inline void run_and_wait(struct bide *queue, bide_op *op)
{
    struct backend *backend = queue->backend;
    struct call call;
    call.queue = queue;
    call.op = op;
    sem_init(&call.completed, 0, 0);
    op->private_.wake = &call.completed;
    bi_enter(queue);
    if (backend->ops->blocks)
        run_blocking(&call);
    else if (backend->ops->submit(backend, &call.op, 1) > 0)
        await_pending(&call);
    bi_leave(queue);
    op->private_.wake = NULL;
    sem_destroy(&call.completed);
}

int bi_call(struct bide *queue, bide_op *op)
{
    bi_error_clear();
    if (queue == NULL)
        return bi_error_set(BIDE_EINVAL, "%s: queue is NULL", bide_op_name(op->kind));
    if (bi_in_callback())
        return bi_error_set(BIDE_ECALLBACK,
                            "%s: a blocking call was made from a completion callback",
                            bide_op_name(op->kind));
    op->cq = NULL;
    prepare(queue, op);
    if (op->status == BIDE_PENDING)
        run_and_wait(queue, op);
    else
        bi_submit_settle(op);
    bi_submit_hush(op);
    if (op->error[0] != 0)
        bi_error_set(op->status, "%s", op->error);
    return op->status;
}
