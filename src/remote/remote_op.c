/* SPDX-License-Identifier: MIT */
/*
 * remote_op - pending ops: their list and limits, expiry, the loss of their connection, and the
 * error texts of ops that fail without a reply.
 */
#include "op/op_table.h"
#include "remote/remote.h"
#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* An op that has been on this many lost connections may be what breaks them. */
#define RECONNECTS_MAX 5

/* ---- error texts ---- */

void bi_remote_op_set_code(bide_op *op, int code)
{
    op->private_.status = code;
    bi_text_copy(op->error, bide_code_text(code));
}

void bi_remote_op_set_failed(bide_op *op, int code, const char *error)
{
    op->private_.status = code;
    bi_text_copy(op->error, error != NULL ? error : bide_code_text(code));
    /* This op has a second result, which would otherwise stay BIDE_PENDING. */
    bide_finish_item *finish = bi_op_finish_part(op);
    if (finish != NULL)
        finish->status = code;
}

void bi_remote_op_describe_unknown(const struct remote *remote, const bide_op *op, char *text)
{
    snprintf(text, BIDE_ERROR_SIZE,
             "%s: the connection to %.90s was lost before the reply arrived; it may have happened",
             bide_op_name(op->kind), remote->address.name);
}

static void fail_for(struct remote *remote, struct remote_op *op, int code, const char *reason)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: %.170s", bide_op_name(op->op->kind), reason);
    remote->client->fail(remote, op, code, text);
}

/* ---- the list ---- */

void bi_remote_op_init(const struct remote *remote, struct remote_op *remote_op, bide_op *op,
                       bool shut)
{
    const int64_t *timeout = bi_op_timeout(op);
    int64_t timeout_ms = timeout == NULL ? 0 : *timeout;
    bool waits = timeout_ms != 0;

    remote_op->op = op;
    remote_op->waits = waits && !shut;
    remote_op->shut = shut && (waits || bi_op_is(op, OP_TWO_PARTS));

    /* A negative timeout means forever. An op that does not wait gets connect_timeout, which counts
     * only while there is no connection. */
    int64_t wait_us = remote_op->waits ? timeout_ms * 1000 : remote->address.connect_timeout;
    remote_op->deadline = wait_us < 0 ? REMOTE_NEVER : bi_clock_boot() + wait_us;
}

bool bi_remote_op_is_full(const struct remote *remote, const struct remote_op *op)
{
    const bide_options *options = &remote->context.options;
    /* A single op above the byte limit is accepted when nothing else is pending; otherwise it could
     * never be sent. */
    return !op->waits && remote->pending_ops > 0 &&
           (remote->pending_ops >= options->max_pending_ops ||
            remote->pending_bytes + op->bytes > options->max_pending_bytes);
}

/* Each caller that proceeds wakes the next one, so a completion does not wake all of them. A caller
 * that needs more bytes than are free waits for the next completion. */
void bi_remote_op_wake_caller(struct remote *remote)
{
    const bide_options *options = &remote->context.options;
    if (remote->callers > 0 &&
        (remote->pending_ops == 0 || (remote->pending_ops < options->max_pending_ops &&
                                      remote->pending_bytes < options->max_pending_bytes)))
        pthread_cond_signal(&remote->below_limit);
}

void bi_remote_op_add(struct remote *remote, struct remote_op *op)
{
    assert(op->prev == NULL && op->next == NULL && !op->started);

    op->prev = remote->last;
    *(remote->last != NULL ? &remote->last->next : &remote->first) = op;
    remote->last = op;

    if (op->waits)
        op->bytes = 0;
    remote->waiting += op->waits;
    remote->pending_ops += !op->waits;
    remote->pending_bytes += op->bytes;

    /* cancel_remote() in remote.c finds the op here. */
    op->op->private_.waiter = op;
}

void bi_remote_op_remove(struct remote *remote, struct remote_op *op)
{
    assert(op->op->private_.waiter == op);
    assert(op->waits ? remote->waiting > 0 : remote->pending_ops > 0);
    assert(remote->pending_bytes >= op->bytes);

    *(op->prev != NULL ? &op->prev->next : &remote->first) = op->next;
    *(op->next != NULL ? &op->next->prev : &remote->last) = op->prev;
    op->prev = op->next = NULL;

    remote->waiting -= op->waits;
    remote->pending_ops -= !op->waits;
    remote->pending_bytes -= op->bytes;
    op->op->private_.waiter = NULL;

    bi_remote_op_wake_caller(remote);
}

void bi_remote_op_complete(struct remote *remote, struct remote_op *op)
{
    assert(op->internal || op->op->private_.status != BIDE_PENDING);
    bi_remote_op_remove(remote, op);
    if (!op->internal)
        bi_op_fifo_push(&remote->completed, op->op);
    remote->client->release(remote, op);
}

void bi_remote_op_queue(struct remote *remote, struct remote_op *op)
{
    assert(!op->started);
    /* The server does not know its timeout yet, or would start counting again. */
    op->client_expires = op->waits;
    remote->has_queued = true;
    bi_remote_op_arm_expiry(remote, op);
}

void bi_remote_op_start_queued(struct remote *remote)
{
    assert(remote->connected);
    remote->has_queued = false;
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next; /* start() may complete the op */
        assert(next == NULL || next->prev == each);
        if (!each->started)
            remote->client->start(remote, each);
    }
}

/* ---- cancel ---- */

void bi_remote_op_abort(struct remote *remote, struct remote_op *op, int code)
{
    /* A cancel by the user wins over a timeout, and both win over shutdown. */
    int abort_code = op->cancelled   ? BIDE_CANCELLED
                     : op->timed_out ? BIDE_TIMED_OUT
                     : op->shut      ? BIDE_CLOSED
                                     : code;
    remote->client->fail(remote, op, abort_code, NULL);
}

void bi_remote_op_cancel(struct remote *remote, struct remote_op *op)
{
    if (!remote->client->cancel(remote, op))
        bi_remote_op_abort(remote, op, BIDE_CANCELLED);
}

/* ---- loss of the connection ---- */

void bi_remote_op_requeue(struct remote *remote, struct remote_op *op)
{
    op->started = false;

    if (op->cancelled || op->timed_out || (op->shut && op->waits)) {
        bi_remote_op_abort(remote, op, BIDE_CLOSED);
        return;
    }

    if (!op->waits)
        op->deadline = bi_clock_boot() + remote->address.connect_timeout;
    bi_remote_op_queue(remote, op);
}

void bi_remote_op_lost(struct remote *remote, struct remote_op *op, bool sent)
{
    op->started = false;
    op->reconnects++;

    /* An op that may have been executed reports that before anything else: a cancelled delete that
     * was sent is still BIDE_EUNKNOWN. */
    if (sent && !bi_op_is(op->op, OP_REPEATABLE)) {
        char text[BIDE_ERROR_SIZE];
        bi_remote_op_describe_unknown(remote, op->op, text);
        remote->client->fail(remote, op, BIDE_EUNKNOWN, text);
    } else if (!op->waits && op->reconnects > RECONNECTS_MAX && !op->cancelled) {
        fail_for(remote, op, BIDE_EIO, remote->reason);
    } else {
        bi_remote_op_requeue(remote, op);
    }
}

/* ---- expiry ---- */

/* For an op that is started, the server enforces most timeouts. One that does not wait expires only
 * for want of a connection. */
static bool has_deadline(const struct remote *remote, const struct remote_op *op)
{
    return op->deadline != REMOTE_NEVER &&
           (op->started ? op->client_expires : op->waits || !remote->connected);
}

void bi_remote_op_arm_expiry(struct remote *remote, const struct remote_op *op)
{
    if (op->deadline < remote->expire_at)
        remote->expire_at = op->deadline;
}

/*
 * The server knows the op, which is past its deadline: cancels it there, and the reply completes
 * it. Returns false if a cancel was sent before, and nothing has been received since. A server that
 * still replies to other ops gets more time.
 */
static bool expire_started(struct remote *remote, struct remote_op *op, int64_t now)
{
    bool cancel_sent = op->shut || op->timed_out;
    bool responsive = !cancel_sent || op->activity != remote->activity;

    op->timed_out |= !op->shut;
    op->activity = remote->activity;
    op->deadline = now + remote->address.connect_timeout;
    bi_remote_op_arm_expiry(remote, op);
    if (!cancel_sent)
        bi_remote_op_cancel(remote, op);
    return responsive;
}

/* The op ends here. A waiting op times out even though the server never saw it; any other op
 * reports why there is no connection. */
static void expire_queued(struct remote *remote, struct remote_op *op, int64_t now)
{
    char text[BIDE_ERROR_SIZE];

    if (!op->waits) {
        fail_for(remote, op, BIDE_EIO, remote->reason);
        return;
    }

    op->timed_out = true;
    if (op->cancelled || remote->connected) {
        bi_remote_op_abort(remote, op, BIDE_TIMED_OUT);
        return;
    }

    snprintf(text, sizeof(text), "%s: no connection to %.100s since %lld s",
             bide_op_name(op->op->kind), remote->address.name,
             (long long)(now - remote->disconnected_at) / 1000000);
    remote->client->fail(remote, op, BIDE_TIMED_OUT, text);
}

bool bi_remote_op_expire(struct remote *remote, int64_t now)
{
    bool responsive = true;

    /* expire_at is a lower bound: completed ops do not raise it. Each pass recomputes it. */
    remote->expire_at = REMOTE_NEVER;
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!has_deadline(remote, each))
            continue;

        if (each->deadline > now)
            bi_remote_op_arm_expiry(remote, each);
        else if (each->started)
            responsive = expire_started(remote, each, now) && responsive;
        else
            expire_queued(remote, each, now);
    }

    if (remote->client->flush != NULL)
        remote->client->flush(remote);
    return responsive;
}

/* ---- rejection and close ---- */

void bi_remote_op_reject_waiting(struct remote *remote, const char *reason)
{
    assert(!remote->connected);
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        /* Other ops fail by themselves after connect_timeout. */
        if (each->waits && !each->started && !each->internal)
            fail_for(remote, each, BIDE_EINVAL, reason);
    }
}

void bi_remote_op_close_queued(struct remote *remote)
{
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!each->started)
            bi_remote_op_abort(remote, each, BIDE_CLOSED);
    }
}
