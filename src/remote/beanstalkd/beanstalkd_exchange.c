/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_exchange - exchanges: an op and the commands that carry it out.
 *
 * The handler of the op queues commands and interprets replies. What is common to all ops is here:
 * begin, lost replies and restarts, the items of bulk ops, completion.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_args.h"
#include "op/op_result.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

static size_t item_count(const struct exchange *exchange)
{
    return exchange->handler->bulk ? bi_op_args_item_count(exchange->base.op) : 0;
}

int bi_beanstalkd_exchange_command(struct exchange *exchange, size_t index, const char *format, ...)
{
    va_list args;
    assert(exchange->base.started && exchange->client->main != NULL);

    va_start(args, format);
    bi_beanstalkd_conn_vcommand(exchange->client->main, exchange, index, format, args);
    va_end(args);
    return BIDE_PENDING;
}

int bi_beanstalkd_exchange_check(const struct exchange *exchange, const struct reply *reply,
                                 const char *word)
{
    bide_op *op = exchange->base.op;
    static const struct {
        const char *word;
        int code;
    } errors[] = {
        {"JOB_TOO_BIG", BIDE_TOO_BIG},
        {"DRAINING", BIDE_DRAINING},
        {"OUT_OF_MEMORY", BIDE_EFULL},
        {REPLY_NO_MEMORY, BIDE_ENOMEM},
    };

    if (bi_reply_is(reply, word))
        return BIDE_OK;
    /* An outcome, not an error: it has the text of its code. */
    if (bi_reply_is(reply, "NOT_FOUND"))
        return BIDE_NOT_FOUND;

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (bi_reply_is(reply, errors[i].word))
            return bi_op_reject(op, errors[i].code, "%s", bide_code_text(errors[i].code));
    return bi_op_reject(op, BIDE_EIO, "the server at %.90s says %.40s",
                        exchange->client->remote.address.name, reply->word);
}

int bi_beanstalkd_exchange_reject_malformed(const struct exchange *exchange)
{
    return bi_op_reject(exchange->base.op, BIDE_EIO, "the server at %.90s sent a malformed reply",
                        exchange->client->remote.address.name);
}

int bi_beanstalkd_exchange_query_job(struct exchange *exchange, uint64_t id)
{
    assert(exchange->stage == 0 && exchange->outstanding == 0);
    exchange->stage = 1;
    exchange->settled = true;
    return bi_beanstalkd_exchange_command(exchange, 1, "stats-job %llu", (unsigned long long)id);
}

int bi_beanstalkd_exchange_end_by_id(struct exchange *exchange)
{
    if (exchange->stage == 0 && exchange->code == BIDE_NOT_FOUND && exchange->client->main != NULL)
        return bi_beanstalkd_exchange_query_job(exchange, exchange->base.op->lease.id);
    return exchange->code;
}

bool bi_beanstalkd_exchange_alloc_jobs(struct exchange *exchange, size_t count)
{
    assert(count > 0 && exchange->job_count == 0);
    /* A restart finds those of the first run. */
    if (exchange->jobs == NULL)
        exchange->jobs = calloc(count, sizeof(*exchange->jobs));
    return exchange->jobs != NULL;
}

/* ---- completion ---- */

static void drop_jobs(struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->job_count; i++)
        bide_job_clear(&exchange->jobs[i]);
    exchange->job_count = 0;
}

/* Completes the op. No reply may be outstanding. The error text is the code's own, unless the op
 * has one. The exchange stays readable until the turn ends. */
static void end_exchange(struct exchange *exchange, int code)
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
    bi_remote_op_complete(&exchange->client->remote, &exchange->base);
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

static void end(struct exchange *exchange, int code)
{
    assert(exchange->outstanding == 0);
    if (exchange->handler->end != NULL)
        code = exchange->handler->end(exchange);

    if (code != BIDE_PENDING)
        end_exchange(exchange, code);
    else if (!exchange->ended && exchange->base.started && exchange->outstanding == 0)
        /* Out of memory for the next command: its connection is broken, and no reply will come. */
        bi_beanstalkd_exchange_restart(exchange);
}

void bi_beanstalkd_exchange_fail(struct exchange *exchange, int code, const char *text)
{
    bide_op *op = exchange->base.op;
    struct bulk_errors items;

    bi_bulk_begin(&items, op);
    bi_remote_op_set_failed(op, code, text);

    for (size_t i = 0; i < item_count(exchange); i++) {
        int *status = bi_op_args_item_status(op, i);
        if (*status != BIDE_PENDING)
            continue;
        *status = code;
        bi_bulk_record(&items, op, i, code);
    }

    if (!exchange->told) {
        end_exchange(exchange, code);
        return;
    }
    bi_bulk_end(&items, op);
    end(exchange, BIDE_OK);
}

/* ---- the items of bulk ops ---- */

static bool has_pending_items(struct exchange *exchange)
{
    for (size_t i = 0; i < item_count(exchange); i++)
        if (*bi_op_args_item_status(exchange->base.op, i) == BIDE_PENDING)
            return true;
    return false;
}

/* Sets the status of an item, whose error text is in the op: empty means that of the code. */
static void set_item(struct exchange *exchange, struct bulk_errors *items, size_t index, int code)
{
    bide_op *op = exchange->base.op;

    *bi_op_args_item_status(op, index) = code;
    if (code == BIDE_PENDING)
        return;
    if (code != BIDE_OK && op->error[0] == 0)
        bi_text_copy(op->error, bide_code_text(code));
    bi_bulk_record(items, op, index, code);
}

/* Sends the items. An item is BIDE_PENDING from now until it has a result; one that was not sent
 * stays so, and is sent on the next connection. */
static void begin_items(struct exchange *exchange)
{
    bide_op *op = exchange->base.op;
    struct bulk_errors items;

    bi_bulk_begin(&items, op);
    for (size_t i = 0; i < item_count(exchange); i++) {
        /* Skip items that failed the check before submit, and those with a result from an earlier
         * run. */
        if (*bi_op_args_item_status(op, i) != (exchange->again ? BIDE_PENDING : BIDE_OK))
            continue;
        op->error[0] = 0;
        set_item(exchange, &items, i, exchange->handler->send(exchange, i));
    }
    bi_bulk_end(&items, op);

    /* Every item failed without a command: no reply will complete the op. */
    if (exchange->outstanding == 0 && !has_pending_items(exchange))
        end(exchange, BIDE_OK);
}

/* Handles the reply to an item, or (NULL) its loss after it was sent. */
static void finish_item(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_op *op = exchange->base.op;
    struct bulk_errors items;
    int code = BIDE_EUNKNOWN;

    bi_bulk_begin(&items, op);
    op->error[0] = 0;
    if (reply != NULL)
        code = exchange->handler->reply(exchange, index, reply);
    else
        bi_remote_op_describe_unknown(&exchange->client->remote, op, op->error);
    set_item(exchange, &items, index, code);
    bi_bulk_end(&items, op);
    exchange->told = true;
}

/* ---- begin, replies, restart ---- */

static int send_first(struct exchange *exchange)
{
    const struct op_handler *handler = exchange->handler;
    const bide_op *op = exchange->base.op;

    if (handler->send != NULL)
        return handler->send(exchange, 0);
    if (bi_op_args_id_count(op) == 0)
        return bi_beanstalkd_exchange_command(exchange, 0, "%s", handler->command);
    return bi_beanstalkd_exchange_command(exchange, 0, "%s %llu", handler->command,
                                          (unsigned long long)bi_op_args_id(op, 0));
}

void bi_beanstalkd_exchange_begin(struct exchange *exchange)
{
    assert(!exchange->base.started && !exchange->ended && exchange->outstanding == 0);
    exchange->base.started = true;
    exchange->base.client_expires = false; /* not before it is blocked */
    exchange->stage = 0;
    exchange->code = BIDE_OK;
    /* A restart repeats the change, apart from that of an op with two parts. */
    if (!bi_op_is(exchange->base.op, OP_TWO_PARTS))
        exchange->settled = false;

    int code = BIDE_PENDING;
    if (exchange->handler->bulk)
        begin_items(exchange);
    else
        code = send_first(exchange);
    exchange->again = true;
    if (code != BIDE_PENDING)
        end_exchange(exchange, code);
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

void bi_beanstalkd_exchange_restart(struct exchange *exchange)
{
    assert(exchange->outstanding == 0 && !exchange->ended);
    reset(exchange);
    bi_remote_op_requeue(&exchange->client->remote, &exchange->base);
}

/* No reply is outstanding: completes or restarts the exchange. */
static void advance(struct exchange *exchange)
{
    if (exchange->lost) {
        bool sent = exchange->lost_sent;
        reset(exchange);
        bi_remote_op_lost(&exchange->client->remote, &exchange->base, sent);
    } else if (has_pending_items(exchange)) {
        bi_beanstalkd_exchange_restart(exchange);
    } else {
        end(exchange, exchange->code);
    }
}

void bi_beanstalkd_exchange_handle_reply(const struct expected *expected, const struct reply *reply,
                                         bool sent)
{
    struct exchange *exchange = expected->exchange;

    if (exchange == NULL)
        return; /* of use, watch, ignore or a probe */

    assert(exchange->outstanding > 0);
    exchange->outstanding--;
    if (reply != NULL)
        exchange->client->remote.attempts = 0; /* only a reply resets the backoff */

    if (exchange->handler->bulk) {
        /* An item that was not sent stays BIDE_PENDING and is sent on the next connection. */
        if (reply != NULL || sent)
            finish_item(exchange, expected->index, reply);
    } else if (reply != NULL) {
        int code = exchange->handler->reply != NULL
                       ? exchange->handler->reply(exchange, expected->index, reply)
                       : bi_beanstalkd_exchange_check(exchange, reply, exchange->handler->done);
        if (code != BIDE_OK)
            exchange->code = code;
    } else {
        /* After `settled` what is outstanding is repeatable: its loss makes nothing unknown. */
        exchange->lost = true;
        exchange->lost_sent |= sent && !exchange->settled;
    }

    if (exchange->outstanding == 0)
        advance(exchange);
}
