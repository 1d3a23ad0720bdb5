/* SPDX-License-Identifier: MIT */
/*
 * submit - passes ops to the backend: a list without waiting, or one op and waits for it.
 *
 * Ownership  From a submit until its completion an op belongs to the backend. The copies of its
 *            bytes belong to the op until the backend runs it.
 * Threads    Thread cancellation is disabled except while a blocking call waits for an event.
 */
#include "op/op_args.h"
#include "op/op_result.h"
#include "op/op_table.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* How long a cancelled call tries to give back its reservations, and the pause between tries. */
#define GIVE_BACK_US       5000000
#define GIVE_BACK_PAUSE_NS 10000000

/* Checks the op and copies its bytes. The status is then BIDE_PENDING, or the code of the
 * failure. */
static void prepare(const struct bide *queue, bide_op *op)
{
    op->private_.flags = BI_SUBMITTED;
    op->private_.bytes = 0;
    op->private_.args_dup = NULL;
    op->applied = false;
    op->error_item = 0;
    op->error[0] = 0;

    op->status = bi_op_check(&queue->options, op);
    if (op->status != BIDE_OK)
        return;

    op->private_.flags |= BI_CHECKED;
    op->status = bi_op_payload_copy(op);
    if (op->status == BIDE_OK)
        op->status = BIDE_PENDING;
}

void bi_submit_clear_error(bide_op *op)
{
    if (op->status != BIDE_OK)
        op->error_item = 0; /* the message is about the whole op */
    else if (op->error_item == 0)
        op->error[0] = 0;
}

void bi_submit_finalize(bide_op *op)
{
    assert(op->status != BIDE_PENDING);
    op->private_.flags &= ~BI_SUBMITTED;
    bi_op_payload_restore_options(op);
    bi_submit_clear_error(op);

    /* Rejected as a whole: nothing was finished. */
    bide_finish_item *finish = bi_op_is_kind((int)op->kind) ? bi_op_finish_part(op) : NULL;
    if (finish != NULL && finish->status == BIDE_PENDING)
        finish->status = op->status;

    /* The backend takes the copies when it runs the op. An op that never ran still owns them. */
    if (op->status != BIDE_OK && (op->private_.flags & BI_CHECKED) != 0) {
        bi_op_result_fail_items(op, op->status);
        bi_op_payload_free(op);
    }
}

void bi_submit_finish(bide_op *op)
{
    bi_cq_remove_pending(op->cq);
    bi_submit_finalize(op);
}

/* Rejects a finish_and_reserve without a cq that may have to wait: its finish would be applied
 * first, and could not be undone when the reserve has to wait. */
static void reject_unwaitable_finish(bide_op *op)
{
    if (op->status != BIDE_PENDING || op->cq != NULL || !bi_op_is(op, OP_TWO_PARTS) ||
        *bi_op_timeout(op) == 0)
        return;

    snprintf(op->error, sizeof(op->error), "%s: names no completion queue and may have to wait",
             bide_op_name(op->kind));
    op->status = BIDE_EINVAL;
}

static int check_list(const bide *queue, bide_op *const *ops, size_t n)
{
    if (queue == NULL || (ops == NULL && n > 0))
        return bi_last_error_set(BIDE_EINVAL, "submit: queue or ops is NULL");
    if (n > INT32_MAX)
        return bi_last_error_set(BIDE_EINVAL, "submit: the list is too long");
    for (size_t i = 0; i < n; i++)
        if (ops[i] == NULL)
            return bi_last_error_set(BIDE_EINVAL, "submit: op %zu of the list is NULL", i);
    return BIDE_OK;
}

/* Marks all ops as submitted, or none if an op is pending already or occurs twice in the list. */
static int mark_submitted(bide_op *const *ops, size_t n)
{
    size_t i = 0;
    for (; i < n && (ops[i]->private_.flags & BI_SUBMITTED) == 0; i++)
        ops[i]->private_.flags |= BI_SUBMITTED;
    if (i == n)
        return BIDE_OK;

    int code =
        bi_last_error_set(BIDE_EINVAL, "submit: op %zu is pending already, or was never zeroed", i);
    /* The marks of this call only: op i belongs to another submit, or to this list already. */
    while (i-- > 0)
        ops[i]->private_.flags &= ~BI_SUBMITTED;
    return code;
}

int bide_submit(bide *queue, bide_op *const *ops, size_t n)
{
    bi_last_error_clear();

    int code = check_list(queue, ops, n);
    if (code == BIDE_OK)
        code = mark_submitted(ops, n);
    if (code != BIDE_OK)
        return code;

    for (size_t i = 0; i < n; i++) {
        ops[i]->private_.wake = NULL;
        prepare(queue, ops[i]);
        reject_unwaitable_finish(ops[i]);
        /* Counted before the backend sees the op, which may complete on another thread at
         * once. */
        if (ops[i]->status == BIDE_PENDING)
            bi_cq_add_pending(ops[i]->cq);
        else
            bi_submit_finalize(ops[i]);
    }

    struct backend *backend = queue->backend;
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    /* A backend without cancellation points is spared the two calls. */
    bool may_block = backend->ops->may_block;
    if (may_block)
        cancel_state = bi_thread_disable_cancel();

    bi_queue_enter(queue);
    int pending = backend->ops->submit(backend, ops, n);
    bi_queue_leave(queue);
    if (may_block)
        bi_thread_restore_cancel(&cancel_state);
    return pending;
}

int bide_cancel_op(bide *queue, bide_op *op)
{
    bi_last_error_clear();
    if (queue == NULL || op == NULL)
        return bi_last_error_set(BIDE_EINVAL, "cancel_op: queue or op is NULL");
    if (op->status != BIDE_PENDING)
        return bi_last_error_set(BIDE_EINVAL, "cancel_op: the op is not pending");

    BI_NO_CANCEL;
    bi_queue_enter(queue);
    queue->backend->ops->cancel(queue->backend, op);
    bi_queue_leave(queue);
    return BIDE_OK;
}

/* ---- blocking calls ---- */

/* A blocking call whose op is pending. */
struct call {
    struct bide *queue;
    bide_op *op;
    sem_t completed;
};

static void finish_call(const struct call *call)
{
    assert((call->op->private_.flags & BI_SUBMITTED) != 0);
    call->op->status = call->op->private_.status;
    bi_submit_finalize(call->op);
}

/* Gives reservations back. A store that fails is retried for a while; then the leases expire. */
static void give_back(struct bide *queue, const bide_reserve_args *reserved)
{
    assert(reserved->count <= reserved->job_max);
    int64_t until = bi_clock_boot() + GIVE_BACK_US;

    for (size_t i = 0; i < reserved->count; i++) {
        bide_op op;
        op.kind = BIDE_OP_GIVE_BACK;
        op.lease = (bide_lease_args){.id = reserved->jobs[i].id, .token = reserved->jobs[i].token};

        while (bi_submit_and_wait(queue, &op) < BIDE_OK && bi_clock_boot() < until)
            nanosleep(&(struct timespec){.tv_nsec = GIVE_BACK_PAUSE_NS}, NULL);
    }
}

/* Cleanup of a blocking call whose thread is cancelled. The op is on the stack that is being
 * unwound, so it must complete first. Jobs that it reserved in the meantime are given back. */
static void cancel_call(void *arg)
{
    struct call *call = arg;
    struct bide *queue = call->queue;
    bide_op *op = call->op;

    queue->backend->ops->cancel(queue->backend, op);
    while (sem_wait(&call->completed) != 0)
        ;
    finish_call(call);

    if (op->status == BIDE_OK && bi_op_reserve_args(op) != NULL)
        give_back(queue, bi_op_reserve_args(op));

    /* The caller will never see the result. */
    if (op->status == BIDE_OK)
        bi_op_result_discard(op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));

    sem_destroy(&call->completed);
    bi_queue_leave(queue);
}

/* Waits for a pending op. A thread may be cancelled here, and only here, if the op waits for an
 * event, perhaps for ever. */
static void await_completion(struct call *call, bool cancellable, int cancel_state)
{
    pthread_cleanup_push(cancel_call, call);
    if (cancellable)
        pthread_setcancelstate(cancel_state, NULL);
    while (sem_wait(&call->completed) != 0)
        ;
    if (cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);

    finish_call(call);
}

/* Whether the op waits for an event, as long as its timeout permits. */
static bool may_wait(bide_op *op)
{
    const int64_t *timeout_ms = bi_op_timeout(op);
    return timeout_ms != NULL && *timeout_ms != 0;
}

static inline void run_and_wait(struct bide *queue, bide_op *op)
{
    struct backend *backend = queue->backend;
    struct call call;
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    bool may_block = backend->ops->may_block;
    bool waits = false;

    call.queue = queue;
    call.op = op;
    sem_init(&call.completed, 0, 0);
    op->private_.wake = &call.completed;

    bi_queue_enter(queue);
    if (may_block) {
        cancel_state = bi_thread_disable_cancel();
        /* Read before the submit: a pending op belongs to the backend. */
        waits = may_wait(op);
    }

    bool pending = backend->ops->submit(backend, &call.op, 1) > 0;

    /* A backend without cancellation points (memory) does not write the kind and timeout of a
     * pending op, so they can be read now, and ops that complete at once are spared it. */
    if (pending && !may_block) {
        cancel_state = bi_thread_disable_cancel();
        waits = may_wait(op);
    }
    if (pending)
        await_completion(&call, waits, cancel_state);
    if (pending || may_block)
        bi_thread_restore_cancel(&cancel_state);
    bi_queue_leave(queue);

    op->private_.wake = NULL;
    sem_destroy(&call.completed);
}

int bi_submit_and_wait(struct bide *queue, bide_op *op)
{
    bi_last_error_clear();
    if (queue == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: queue is NULL", bide_op_name(op->kind));
    if (bi_cq_in_callback())
        return bi_last_error_set(BIDE_ECALLBACK,
                                 "%s: a blocking call was made from a completion callback",
                                 bide_op_name(op->kind));

    op->cq = NULL;
    prepare(queue, op);
    if (op->status == BIDE_PENDING)
        run_and_wait(queue, op);
    else
        bi_submit_finalize(op);

    bi_submit_clear_error(op);
    if (op->error_item != 0)
        bi_last_error_set(op->status, "item %u: %s", op->error_item - 1, op->error);
    else if (op->error[0] != 0)
        bi_last_error_set(op->status, "%s", op->error);
    return op->status;
}
