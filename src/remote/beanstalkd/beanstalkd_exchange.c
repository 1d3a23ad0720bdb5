/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_exchange - exchanges: an op and the commands that carry it out.
 *
 * The handler of the op queues commands and interprets replies. What is common to all ops is here:
 * begin, lost replies and restarts, the items of bulk ops, completion.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/bulk.h"
#include "op/op_args.h"
#include "op/op_payload.h"

#include <assert.h>
#include <stdlib.h>

/* ---- bulk ops ---- */

static size_t item_count(const struct exchange *exchange)
{
    return exchange->handler->item == NULL ? 0 : bi_op_args_item_count(exchange->base.op);
}

bool bi_beanstalkd_exchange_sends_item(const struct exchange *exchange, int status)
{
    return status == (exchange->again ? BIDE_PENDING : BIDE_OK);
}

bool bi_beanstalkd_exchange_has_pending_items(struct exchange *exchange)
{
    for (size_t i = 0; i < item_count(exchange); i++)
        if (*exchange->handler->item(exchange, i) == BIDE_PENDING)
            return true;
    return false;
}

/* Marks an item whose command was sent and has no reply. The op stays pending for its other
 * items. */
static void lose_item(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index)
{
    bide_op *op = exchange->base.op;
    struct bulk_errors items;

    bi_bulk_begin(&items, op);
    bi_remote_op_describe_unknown(&beanstalkd->remote, op, op->error);
    *exchange->handler->item(exchange, index) = BIDE_EUNKNOWN;
    bi_bulk_record(&items, op, index, BIDE_EUNKNOWN);
    bi_bulk_end(&items, op);
    exchange->told = true;
}

/* ---- completion ---- */

static void drop_jobs(struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->job_count; i++)
        bide_job_clear(&exchange->jobs[i]);
    exchange->job_count = 0;
}

void bi_beanstalkd_exchange_complete(struct beanstalkd *beanstalkd, struct exchange *exchange,
                                     int code)
{
    bide_op *op = exchange->base.op;

    assert(exchange->outstanding == 0 && !exchange->ended);
    /* Those that the exchange still owns; delivered ones are not counted any more. */
    drop_jobs(exchange);
    exchange->ended = true;

    /* A bulk op may succeed and still describe its first failed item. */
    op->private_.status = code;
    if (code == BIDE_OK && op->error_item == 0)
        op->error[0] = 0;
    else if (code != BIDE_OK && op->error[0] == 0)
        bi_text_copy(op->error, bide_code_text(code));

    bide_finish_item *finish = bi_op_finish_part(op);
    if (finish != NULL && exchange->settled)
        finish->status = exchange->finish_code;

    bi_op_payload_free(op);
    bi_op_args_dup_restore(op);
    bi_remote_op_complete(&beanstalkd->remote, &exchange->base);
}

void bi_beanstalkd_exchange_free_ended(struct beanstalkd *beanstalkd)
{
    while (beanstalkd->ended != NULL) {
        struct exchange *next = beanstalkd->ended->next_ended;
        free(beanstalkd->ended->jobs);
        free(beanstalkd->ended);
        beanstalkd->ended = next;
    }
}

static void end_good(struct beanstalkd *beanstalkd, struct exchange *exchange, int code)
{
    if (exchange->handler->end == NULL) {
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, code);
        return;
    }

    exchange->handler->end(beanstalkd, exchange);
    /* Out of memory for the next command: its connection is broken, and no reply will come. */
    if (!exchange->ended && exchange->base.started && exchange->outstanding == 0)
        bi_beanstalkd_exchange_restart(beanstalkd, exchange);
}

void bi_beanstalkd_exchange_fail(struct beanstalkd *beanstalkd, struct exchange *exchange, int code,
                                 const char *text)
{
    bide_op *op = exchange->base.op;
    struct bulk_errors items;

    bi_bulk_begin(&items, op);
    bi_remote_op_set_failed(op, code, text);

    for (size_t i = 0; i < item_count(exchange); i++) {
        int *status = exchange->handler->item(exchange, i);
        if (*status != BIDE_PENDING)
            continue;
        *status = code;
        bi_bulk_record(&items, op, i, code);
    }

    if (!exchange->told) {
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, code);
        return;
    }
    bi_bulk_end(&items, op);
    end_good(beanstalkd, exchange, BIDE_OK);
}

/* ---- begin, replies, restart ---- */

void bi_beanstalkd_exchange_begin(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    assert(!exchange->base.started && !exchange->ended && exchange->outstanding == 0);
    exchange->base.started = true;
    exchange->base.client_expires = false; /* not before it is blocked */
    exchange->stage = 0;
    exchange->code = BIDE_OK;

    exchange->handler->begin(beanstalkd, exchange);
    exchange->again = true;
    /* No command was queued and the op is not complete: out of memory. The connection is
     * broken then, and the exchange starts again on the next one. */
    if (!exchange->ended && exchange->outstanding == 0)
        exchange->base.started = false;
}

/* Forgets the state of a connection. */
static void reset(struct exchange *exchange)
{
    drop_jobs(exchange);
    exchange->lost = exchange->lost_sent = false;
    exchange->conn = NULL;
    /* Back to the op's own deadline. */
    exchange->base.deadline -= exchange->grace;
    exchange->grace = 0;
}

void bi_beanstalkd_exchange_restart(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    reset(exchange);
    bi_remote_op_requeue(&beanstalkd->remote, &exchange->base);
}

/* No reply is outstanding: completes or restarts the exchange. */
static void advance(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    if (exchange->lost) {
        bool sent = exchange->lost_sent;
        reset(exchange);
        bi_remote_op_lost(&beanstalkd->remote, &exchange->base, sent);
    } else if (bi_beanstalkd_exchange_has_pending_items(exchange)) {
        bi_beanstalkd_exchange_restart(beanstalkd, exchange);
    } else {
        end_good(beanstalkd, exchange, exchange->code);
    }
}

void bi_beanstalkd_exchange_handle_reply(struct beanstalkd *beanstalkd,
                                         const struct expected *expected, const struct reply *reply,
                                         bool sent)
{
    struct exchange *exchange = expected->exchange;

    if (exchange == NULL)
        return; /* of use, watch, ignore or a probe */

    assert(exchange->outstanding > 0);
    exchange->outstanding--;
    if (reply != NULL) {
        beanstalkd->remote.attempts = 0; /* only a reply resets the backoff */
        exchange->told = exchange->handler->item != NULL;
        exchange->handler->reply(beanstalkd, exchange, expected->index, reply);
    } else if (exchange->handler->item != NULL) {
        /* An item that was not sent stays BIDE_PENDING and is sent on the next connection. */
        if (sent)
            lose_item(beanstalkd, exchange, expected->index);
    } else {
        /* After `settled` what is outstanding is repeatable: its loss makes nothing unknown. */
        exchange->lost = true;
        exchange->lost_sent |= sent && !exchange->settled;
    }

    if (exchange->outstanding == 0)
        advance(beanstalkd, exchange);
}
