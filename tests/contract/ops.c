/* SPDX-License-Identifier: MIT */
/* ops.c - submitting ops, and waiting until they have completed. */
#include "contract.h"

void submit_pending_at(struct where at, bide *queue, struct waiter *waiter)
{
    bide_op *ops[] = {&waiter->op};
    check_equal(at, bide_submit(queue, ops, 1), 1, "how many ops are pending after bide_submit()");
    check_equal(at, waiter->op.status, BIDE_PENDING, "the status of the pending op");
}

void submit_code_at(struct where at, bide *queue, struct waiter *waiter, int want, const char *text)
{
    bide_op *ops[] = {&waiter->op};
    int pending = bide_submit(queue, ops, 1);
    check_between(at, pending, 0, 1, "how many ops are pending after bide_submit()");
    if (pending == 1) {
        check_true(at, waiter->op.cq != NULL, "that an op without a cq is not pending");
        completes_at(at, waiter, want, text);
        return;
    }
    check_equal(at, waiter->calls, 0, "callbacks of an op that finished within bide_submit()");
    if (waiter->op.status != want)
        fail_test(at, "%s: expected %s, got %s, \"%s\"", text, bide_code_name(want),
                  bide_code_name(waiter->op.status), waiter->op.error);
    check_true(
        at, (want == BIDE_OK && waiter->op.error_item == 0) == (waiter->op.error[0] == '\0'),
        "a sentence in the op when, and only when, its status is not 0 or an item is refused");
}

struct waiter *begin_reserve_at(struct where at, bide *queue, bide_cq *cq, const bide_slice *topics,
                                size_t topic_count)
{
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
    waiter->op.reserve = reserve_args(topics, topic_count, BIDE_FOREVER, &waiter->job, 1);
    submit_pending_at(at, queue, waiter);
    return waiter;
}

struct waiter *begin_wait_at(struct where at, bide *queue, bide_cq *cq, uint64_t id)
{
    struct waiter *waiter = new_op(BIDE_OP_WAIT, cq);
    waiter->op.wait.id = id;
    waiter->op.wait.timeout_ms = BIDE_FOREVER;
    submit_pending_at(at, queue, waiter);
    return waiter;
}

void completes_at(struct where at, struct waiter *waiter, int want, const char *text)
{
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (waiter->op.status == BIDE_PENDING && clock_us() < limit_us)
        check_true(at, bide_cq_wait(waiter->op.cq, 100) >= 0, "bide_cq_wait() to drain");
    if (waiter->op.status != want)
        fail_test(at, "%s: expected %s, got %s, \"%s\"", text, bide_code_name(want),
                  bide_code_name(waiter->op.status), waiter->op.error);
    check_true(
        at, (want == BIDE_OK && waiter->op.error_item == 0) == (waiter->op.error[0] == '\0'),
        "a sentence in the op when, and only when, its status is not 0 or an item is refused");
    check_equal(at, waiter->calls, 1, "how often the callback was called");
}

void still_pending_at(struct where at, struct waiter *waiter, const char *text)
{
    check_true(at, bide_cq_drain(waiter->op.cq, 0) >= 0, "bide_cq_drain() to drain");
    if (waiter->op.status != BIDE_PENDING)
        fail_test(at, "%s: expected a pending op, got %s", text, bide_code_name(waiter->op.status));
    check_equal(at, waiter->calls, 0, "callbacks of a pending op");
}
