/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_put - put and put_many.
 *
 * An option that beanstalkd lacks fails the item with BIDE_ENOTSUP. Ignoring it would silently
 * change what the job does.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/job_fields.h"
#include "util/clock.h"

/* Rounds up, so that no delay and no ttr is shorter than requested. */
static uint32_t seconds_of(int64_t ms)
{
    int64_t seconds = ms <= 0 ? 0 : (ms + 999) / 1000;
    return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

/* BIDE_NO_DEFAULT is what holds there anyway. */
#define REJECT_OPTION(kind, name)                                                         \
    BI_JOB_IF_PUT_##kind(if (options->BI_JOB_MEMBER_##kind(name) != BI_JOB_NONE_##kind && \
                             options->BI_JOB_MEMBER_##kind(name) !=                       \
                                 BIDE_NO_DEFAULT) return BI_JOB_NAME(kind, name);)

/* Returns the name of an option that beanstalkd does not support, or NULL. */
static const char *unsupported_option(const bide_put_options *options)
{
    if (options->key.size > 0)
        return "keys";
    BI_JOB_EXT(REJECT_OPTION)
    return NULL;
}

static bide_put_item *item_of(struct exchange *exchange, size_t index)
{
    bide_op *op = exchange->base.op;
    return op->kind == BIDE_OP_PUT ? &op->put : &op->put_many.items[index];
}

static int send_put(struct exchange *exchange, size_t index)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    const bide_put_item *item = item_of(exchange, index);
    const bide_put_options *options = item->options != NULL ? item->options : &init;
    const char *unsupported = unsupported_option(options);
    struct beanstalkd *client = exchange->client;

    if (unsupported != NULL)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, unsupported);

    /* beanstalkd has relative times only. A run_at in the past becomes delay 0. */
    int64_t delay_ms = options->delay_ms;
    if (options->run_at_ms != 0)
        delay_ms = options->run_at_ms - bi_clock_wall() / 1000;
    int64_t ttr_ms =
        options->ttr_ms > 0 ? options->ttr_ms : client->remote.context.options.default_ttr_ms;

    const bide_buf *buf = item->buf != NULL ? item->buf : item->made_;
    bide_slice body = item->body;
    if (buf != NULL)
        body = (bide_slice){bide_buf_data(buf), bide_buf_size(buf)};

    bi_beanstalkd_conn_use(client->main, item->topic);
    bi_beanstalkd_exchange_command(exchange, index, "put %u %u %u %zu", options->priority,
                                   seconds_of(delay_ms), seconds_of(ttr_ms), body.size);
    bi_beanstalkd_conn_append_body(client->main, body);
    return BIDE_PENDING;
}

static int reply_put(struct exchange *exchange, size_t index, const struct reply *reply)
{
    /* BURIED: beanstalkd was out of memory for its ready queue. The job exists, so the put
     * succeeded. */
    int code = bi_reply_is(reply, "BURIED")
                   ? BIDE_OK
                   : bi_beanstalkd_exchange_check(exchange, reply, "INSERTED");
    if (code == BIDE_OK)
        item_of(exchange, index)->id = reply->numbers[0];
    return code;
}

const struct op_handler bi_beanstalkd_put = {.send = send_put, .reply = reply_put};

/* Counts at the end: a restart would count items of the first run twice. */
static int end_put_many(struct exchange *exchange)
{
    bide_put_many_args *args = &exchange->base.op->put_many;

    args->accepted = 0;
    for (size_t i = 0; i < args->count; i++)
        args->accepted += args->items[i].status == BIDE_OK;
    return BIDE_OK;
}

const struct op_handler bi_beanstalkd_put_many = {
    .send = send_put, .reply = reply_put, .end = end_put_many, .bulk = true};
