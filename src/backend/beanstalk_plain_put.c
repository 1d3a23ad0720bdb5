/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_plain.h"

#include "core/items.h"
#include "util/clock.h"

/* Seconds as beanstalkd counts them: rounded up, so that nothing is early. */
static uint32_t seconds_of(int64_t ms)
{
    int64_t seconds = ms <= 0 ? 0 : (ms + 999) / 1000;
    return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

/* Is there anything among the options that beanstalkd does not know? */
static const char *unknown_option(const bide_put_options *options)
{
    const struct {
        bool used;
        const char *name;
    } unknown[] = {
        {options->key.size > 0, "keys"},
        {options->max_retries != BIDE_NO_RETRY_LIMIT, "limits of retries"},
        {options->backoff_base_ms != 0 || options->backoff_max_ms != 0, "backoff"},
        {options->expires_at_ms != 0, "expiry"},
        {options->retain_ms != 0, "results that are kept"},
    };
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (unknown[i].used)
            return unknown[i].name;
    return NULL;
}

static bide_slice body_of(const bide_put_item *item)
{
    const bide_buf *buf = item->buf != NULL ? item->buf : item->made_;
    return buf == NULL ? item->body : (bide_slice){bide_buf_data(buf), bide_buf_size(buf)};
}

/* BIDE_PENDING, or why it was not asked. */
static int ask(struct plain *plain, struct talk *talk, size_t index, const bide_put_item *item)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    const bide_put_options *options = item->options != NULL ? item->options : &init;
    const char *unknown = unknown_option(options);
    if (unknown != NULL)
        return bi_plain_cannot(talk->op, unknown);
    int64_t delay_ms = options->delay_ms;
    if (options->run_at_ms != 0)
        delay_ms = options->run_at_ms - bi_clock_wall() / 1000;
    int64_t ttr_ms = options->ttr_ms != 0 ? options->ttr_ms : plain->context.options.default_ttr_ms;
    bide_slice body = body_of(item);
    bi_wire_use(plain->main, item->topic);
    bi_wire_ask(plain->main, talk, index, "put %u %u %u %zu", options->priority,
                seconds_of(delay_ms), seconds_of(ttr_ms), body.size);
    bi_wire_body(plain->main, body);
    return BIDE_PENDING;
}

/* A job that beanstalkd had to bury, for want of memory, is there all the same. */
static int code_of(const struct plain *plain, bide_op *op, const struct reply *reply, uint64_t *id)
{
    if (!bi_reply_is(reply, "INSERTED") && !bi_reply_is(reply, "BURIED"))
        return bi_plain_error(plain, op, reply);
    *id = reply->numbers[0];
    return BIDE_OK;
}

static void begin_put(struct plain *plain, struct talk *talk)
{
    int code = ask(plain, talk, 0, &talk->op->put);
    if (code != BIDE_PENDING)
        bi_plain_end(plain, talk, code);
}

static void hear_put(struct plain *plain, struct talk *talk, size_t index,
                     const struct reply *reply)
{
    (void)index;
    talk->code = code_of(plain, talk->op, reply, &talk->op->put.id);
}

const struct plain_kind bi_plain_put = {begin_put, hear_put, NULL, NULL};

/* ---- put_many ---- */

/* Items that are asked for have this status until they are answered. */
static void begin_put_many(struct plain *plain, struct talk *talk)
{
    bide_put_many_args *args = &talk->op->put_many;
    struct items items;
    bi_items_begin(&items, talk->op);
    for (size_t i = 0; i < args->count; i++) {
        bide_put_item *item = &args->items[i];
        if (item->status != BIDE_OK)
            continue;
        int code = ask(plain, talk, i, item);
        if (code == BIDE_PENDING)
            continue;
        item->status = code;
        bi_items_note(&items, talk->op, i, code);
    }
    bi_items_end(&items, talk->op);
    if (talk->outstanding == 0) {
        args->accepted = 0;
        bi_plain_end(plain, talk, BIDE_OK);
    }
}

static void hear_put_many(struct plain *plain, struct talk *talk, size_t index,
                          const struct reply *reply)
{
    bide_put_item *item = &talk->op->put_many.items[index];
    struct items items;
    bi_items_begin(&items, talk->op);
    item->status = code_of(plain, talk->op, reply, &item->id);
    bi_items_note(&items, talk->op, index, item->status);
    bi_items_end(&items, talk->op);
}

static void end_put_many(struct plain *plain, struct talk *talk)
{
    bide_put_many_args *args = &talk->op->put_many;
    args->accepted = 0;
    for (size_t i = 0; i < args->count; i++)
        args->accepted += args->items[i].status == BIDE_OK;
    bi_plain_end(plain, talk, BIDE_OK);
}

static int *put_item(struct talk *talk, size_t index)
{
    return &talk->op->put_many.items[index].status;
}

const struct plain_kind bi_plain_put_many = {begin_put_many, hear_put_many, end_put_many, put_item};
