/* SPDX-License-Identifier: MIT */
/*
 * bided_reconnect - what happens to pending requests when a connection is lost and restored.
 *
 * A lost connection does not end a request. A request that was not written completely cannot have
 * been executed and is resent; so is a repeatable one. A non-repeatable request that was sent and
 * has no reply may have been executed: it completes with BIDE_EUNKNOWN.
 *
 * Without a connection a request fails after connect_timeout. A request that waits (a reserve, a
 * wait) keeps its own timeout instead. From then on the client enforces that timeout, because the
 * server would start counting again. A waiting request fails early only when the server rejects the
 * secret: waiting does not cure that.
 */
#include "remote/bided/bided_client.h"

#include "op/op_table.h"
#include "remote/op_traits.h"
#include "util/clock.h"
#include "util/text.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* A request that has been on this many lost connections may be what breaks them. */
#define RECONNECTS_MAX 5

/* ---- backoff ---- */

void bi_bided_reconnect_schedule(struct bided *bided, const char *reason)
{
    bided->attempts++;
    bided->reconnect_at =
        bi_clock_boot() + bi_client_address_pause(&bided->address, bided->attempts, &bided->random);
    bi_text_copy(bided->reason, reason);
}

/* ---- disconnect ---- */

static void resend_or_fail(struct bided *bided, struct request *request, int64_t now,
                           struct op_fifo *completed)
{
    bide_op *op = request->op;
    bool was_sent = request->sent;

    /* The send queue was cleared, so a cancel can be queued again on the next connection. */
    bi_bided_send_mark_unsent(bided, request);
    request->cancel.data = NULL;
    request->reconnects++;

    /* Order matters. A request that may have been executed reports that before anything else:
     * a cancelled delete that was sent is still BIDE_EUNKNOWN. */
    if (op->kind == BIDE_OP_UNSUBSCRIBE) { /* the server dropped the stream with the connection */
        op->private_.status = BIDE_OK;
    } else if (was_sent && !bi_op_is(op, OP_REPEATABLE)) {
        bi_op_traits_fail_unknown(op, &bided->address);
    } else if (bi_bided_event_stream_is_closed(request)) {
        bi_bided_request_set_abort_code(request, BIDE_CANCELLED);
    } else if (request->cancelled || request->timed_out || (request->shut && request->waits)) {
        bi_bided_request_set_abort_code(request, BIDE_CLOSED);
    } else if (!request->waits && request->reconnects > RECONNECTS_MAX) {
        bi_op_traits_fail_unreachable(op, bided->reason);
    } else if (!request->internal) {
        request->client_expires = request->waits;
        if (!request->waits)
            request->deadline = now + bided->address.connect_timeout;
        bi_bided_reconnect_arm_expiry(bided, request);
        return;
    }

    /* Internal requests complete here, too: resume() creates new ones for the new connection. */
    bi_bided_request_complete(bided, request, completed);
}

void bi_bided_reconnect_disconnect(struct bided *bided, const char *reason,
                                   struct op_fifo *completed)
{
    assert(bided->connected);
    /* `broken` keeps further writes from starting. The lock is released until the write in progress
     * has returned; only then do the socket and its send queue disappear, under one lock hold. A
     * request added meanwhile is queued for the old socket and handled below with all others. */
    bided->broken = true;
    bi_bided_send_wait_idle(bided);

    assert(bided->connected);
    bided->connected = false;
    bi_bided_send_clear(bided);
    close(bided->fd);
    bided->fd = -1;
    bided->blocked = bided->broken = false;
    bided->in_size = bided->in_used = 0;

    /* Before the loop: requests that fail there report the stored reason. */
    bi_bided_reconnect_schedule(bided, reason);
    bi_bided_event_stream_suspend(bided);

    int64_t now = bided->disconnected_at = bi_clock_boot();
    for (struct request *each = bided->first, *next; each != NULL; each = next) {
        next = each->next;
        resend_or_fail(bided, each, now, completed);
    }
}

/* ---- resume ---- */

void bi_bided_reconnect_resume(struct bided *bided, int fd)
{
    assert(!bided->connected && bided->out_head == NULL);
    bided->fd = fd;
    bided->connected = true;
    bi_bided_keepalive_reset(bided);

    /* Streams and topic references are restored first. Their requests are appended to the list and
     * sent at once, so the loop stops at the request that was last before. Events calls are skipped
     * until their stream has its new number. */
    struct request *last = bided->last;
    bi_bided_event_stream_restore(bided);
    bi_bided_topic_ref_restore(bided);

    for (struct request *each = last == NULL ? NULL : bided->first; each != NULL;
         each = each == last ? NULL : each->next)
        if (bi_bided_event_stream_is_ready(each))
            bi_bided_send_call(bided, each);
    bi_bided_send_flush(bided);
}

void bi_bided_reconnect_reject_waiting(struct bided *bided, const char *reason,
                                       struct op_fifo *completed)
{
    assert(!bided->connected);
    for (struct request *each = bided->first, *next; each != NULL; each = next) {
        next = each->next;
        /* Other requests fail by themselves after connect_timeout. */
        if (!each->waits || each->internal)
            continue;
        bi_op_traits_fail_rejected(each->op, reason);
        bi_bided_request_complete(bided, each, completed);
    }
}

/* ---- expiry ---- */

/* On a connection the server enforces most timeouts; see client_expires. */
static bool has_deadline(const struct bided *bided, const struct request *request)
{
    return request->deadline != NEVER && (!bided->connected || request->client_expires);
}

void bi_bided_reconnect_arm_expiry(struct bided *bided, const struct request *request)
{
    if (request->deadline < bided->expire_at)
        bided->expire_at = request->deadline;
}

/* CANCEL_SENT: the request stays, with a later deadline. */
enum expiry { EXPIRED, CANCEL_SENT, UNRESPONSIVE };

/*
 * Expires a request that is past its deadline. A request that the server knows is cancelled there,
 * and the reply completes it. UNRESPONSIVE: a cancel was sent before, and nothing has been received
 * since. A server that still replies to other requests gets more time.
 */
static enum expiry expire_request(struct bided *bided, struct request *request, int64_t now,
                                  struct op_fifo *completed)
{
    /* A queued call may be partly written, so the server may know this request as well. */
    if (request->call.queued || request->sent) {
        bool cancel_sent = request->shut || request->timed_out;
        if (cancel_sent && request->activity == bided->activity)
            return UNRESPONSIVE;

        request->deadline = now + bided->address.connect_timeout;
        request->activity = bided->activity;
        if (!cancel_sent) {
            request->timed_out = true;
            bi_bided_send_cancel(bided, request);
        }
        return CANCEL_SENT;
    }

    /* Not sent: the request ends here. A waiting op times out even though the server never saw it;
     * any other op reports why there is no connection. */
    request->timed_out = request->waits;
    if (request->waits && !request->cancelled && !bided->connected)
        bi_op_traits_fail_timed_out(request->op, &bided->address,
                                    (now - bided->disconnected_at) / 1000000);
    else if (request->waits)
        bi_bided_request_set_abort_code(request, BIDE_TIMED_OUT);
    else
        bi_op_traits_fail_unreachable(request->op, bided->reason);
    bi_bided_request_complete(bided, request, completed);
    return EXPIRED;
}

bool bi_bided_reconnect_expire(struct bided *bided, int64_t now, struct op_fifo *completed)
{
    bool responsive = true;

    /* expire_at is a lower bound: completed requests do not raise it. Each pass recomputes it. */
    bided->expire_at = NEVER;
    for (struct request *each = bided->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!has_deadline(bided, each))
            continue;

        enum expiry expiry =
            each->deadline > now ? CANCEL_SENT : expire_request(bided, each, now, completed);

        if (expiry == CANCEL_SENT)
            bi_bided_reconnect_arm_expiry(bided, each);
        responsive = responsive && expiry != UNRESPONSIVE;
    }

    bi_bided_send_flush(bided);
    return responsive;
}

void bi_bided_reconnect_abort_all(struct bided *bided, struct op_fifo *completed)
{
    assert(!bided->connected);
    for (struct request *each = bided->first, *next; each != NULL; each = next) {
        next = each->next;
        bi_bided_request_set_abort_code(each, BIDE_CLOSED);
        bi_bided_request_complete(bided, each, completed);
    }
}
