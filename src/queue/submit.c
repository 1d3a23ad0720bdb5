/* SPDX-License-Identifier: MIT */
/*
 * submit - passes ops to the backend without waiting, and prepares and finalizes them.
 *
 * Ownership  From a submit until its completion an op belongs to the backend. The copies of its
 *            bytes belong to the op until the backend runs it.
 * Threads    Thread cancellation is disabled meanwhile, unless the backend has no cancellation
 *            points.
 */
#include "op/op_args.h"
#include "op/op_result.h"
#include "op/op_table.h"
#include "queue/queue.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>

void bi_submit_prepare(const struct bide *queue, bide_op *op)
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
    if (bi_op_is(op, OP_PAYLOAD))
        op->status = bi_op_payload_copy(op);
    if (op->status == BIDE_OK)
        op->status = BIDE_PENDING;
}

/* Clears the message of an op that succeeded, unless the message is about an item. */
static void clear_error(bide_op *op)
{
    if (op->status == BIDE_OK) {
        if (op->error_item == 0)
            op->error[0] = 0;
        return;
    }

    /* The message of a failure is about the whole op, or about the item that made it fail. */
    if (!bi_op_is_kind((int)op->kind) || !bi_op_is(op, OP_ATOMIC))
        op->error_item = 0;
}

void bi_submit_finalize(bide_op *op)
{
    assert(op->status != BIDE_PENDING);
    op->private_.flags &= ~BI_SUBMITTED;
    if ((op->private_.flags & BI_COPY_OPTIONS) != 0)
        bi_op_payload_restore_options(op);
    clear_error(op);

    /* The backend takes the copies when it runs the op. */
    if (op->status == BIDE_OK)
        return;

    /* Rejected as a whole: nothing was finished. */
    bide_finish_item *finish = bi_op_is_kind((int)op->kind) ? bi_op_finish_part(op) : NULL;
    if (finish != NULL && finish->status == BIDE_PENDING)
        finish->status = op->status;

    /* An op that never ran still owns its copies. */
    if ((op->private_.flags & BI_CHECKED) != 0) {
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
        bi_submit_prepare(queue, ops[i]);
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
