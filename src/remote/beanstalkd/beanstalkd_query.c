/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_query - peek, peek_first, job_stats, body, ping, recovered.
 *
 * None of them changes the server, so all are resent after a lost connection.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

/* ---- a job by id: body from peek, all else from stats-job ---- */

static int send_peek(struct exchange *exchange, size_t index)
{
    unsigned long long id = exchange->base.op->query.id;

    if (!bi_beanstalkd_exchange_alloc_jobs(exchange, 1))
        return BIDE_ENOMEM;
    exchange->job_count = 1;
    /* Both commands at once: one round trip. The job may change between them. */
    bi_beanstalkd_exchange_command(exchange, index, "peek %llu", id);
    return bi_beanstalkd_exchange_command(exchange, index + 1, "stats-job %llu", id);
}

static int reply_peek(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_job *job = &exchange->jobs[0];
    int code = bi_beanstalkd_exchange_check(exchange, reply, index == 0 ? "FOUND" : "OK");

    if (code != BIDE_OK)
        return code;
    if (index > 0)
        return bi_beanstalkd_yaml_job(reply, job)
                   ? BIDE_OK
                   : bi_beanstalkd_exchange_reject_malformed(exchange);
    job->id = reply->numbers[0];
    return bi_beanstalkd_yaml_set_body(reply, job) ? BIDE_OK : BIDE_ENOMEM;
}

static int end_peek(struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;
    bide_job *job = &exchange->jobs[0];

    if (exchange->code != BIDE_OK)
        return exchange->code;
    /* peek-<state> names the job; stats-job needs its id. */
    if (op->kind == BIDE_OP_PEEK_FIRST && exchange->stage == 0 && exchange->client->main != NULL)
        return bi_beanstalkd_exchange_query_job(exchange, job->id);

    if (op->kind == BIDE_OP_JOB_STATS)
        job->body = NULL; /* only its size is wanted */
    /* The caller owns the job now; complete() must not clear it. */
    *op->query.job = *job;
    exchange->job_count = 0;
    return BIDE_OK;
}

const struct op_handler bi_beanstalkd_query_peek = {
    .send = send_peek, .reply = reply_peek, .end = end_peek};

/* ---- the first job of a state ---- */

static int send_peek_first(struct exchange *exchange, size_t index)
{
    bide_state state = exchange->base.op->query.state;

    if (state != BIDE_STATE_DELAYED && state != BIDE_STATE_READY && state != BIDE_STATE_BURIED)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op,
                                                       "a look at the first reserved or done job");
    if (!bi_beanstalkd_exchange_alloc_jobs(exchange, 1))
        return BIDE_ENOMEM;

    exchange->job_count = 1;
    bi_beanstalkd_conn_use(exchange->client->main, exchange->base.op->query.topic);
    return bi_beanstalkd_exchange_command(exchange, index, "peek-%s", bide_state_name(state));
}

const struct op_handler bi_beanstalkd_query_peek_first = {
    .send = send_peek_first, .reply = reply_peek, .end = end_peek};

/* ---- body ---- */

static int reply_body(struct exchange *exchange, size_t index, const struct reply *reply)
{
    int code = bi_beanstalkd_exchange_check(exchange, reply, "FOUND");

    (void)index;
    if (code != BIDE_OK)
        return code;
    exchange->base.op->fetch.buf = bide_buf_new(reply->data, reply->size);
    return exchange->base.op->fetch.buf == NULL ? BIDE_ENOMEM : BIDE_OK;
}

const struct op_handler bi_beanstalkd_query_body = {.command = "peek", .reply = reply_body};

/* ---- ping, recovered ---- */

const struct op_handler bi_beanstalkd_query_ping = {.command = "list-tube-used", .done = "USING"};

/* beanstalkd replays its log before it listens: a server that accepts connections has recovered. */
static int send_recovered(struct exchange *exchange, size_t index)
{
    (void)index;
    exchange->base.op->recovered.progress = (bide_recovery){.phase = BIDE_PHASE_RECOVERED};
    return BIDE_OK;
}

const struct op_handler bi_beanstalkd_query_recovered = {.send = send_recovered};
