/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_query - peek, peek_first, job_stats, body, ping, recovered.
 *
 * None of them changes the server, so all are resent after a lost connection.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include <stdlib.h>

/* ---- a job by id: body from peek, all else from stats-job ---- */

static bool alloc_job(struct exchange *exchange)
{
    if (exchange->jobs == NULL)
        exchange->jobs = calloc(1, sizeof(*exchange->jobs));
    exchange->job_count = exchange->jobs != NULL;
    if (exchange->jobs == NULL)
        bi_beanstalkd_exchange_complete(exchange, BIDE_ENOMEM);
    return exchange->jobs != NULL;
}

static void send_stats_job(struct exchange *exchange, uint64_t id)
{
    bi_beanstalkd_exchange_command(exchange, 1, "stats-job %llu", (unsigned long long)id);
}

static void begin_peek(struct exchange *exchange)
{
    uint64_t id = exchange->base.op->query.id;
    if (!alloc_job(exchange))
        return;
    /* Both commands at once: one round trip. The job may change between them. */
    bi_beanstalkd_exchange_command(exchange, 0, "peek %llu", (unsigned long long)id);
    send_stats_job(exchange, id);
}

static void reply_peek(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_job *job = &exchange->jobs[0];

    if (bi_reply_is(reply, "NOT_FOUND")) {
        exchange->code = BIDE_NOT_FOUND;
    } else if (index == 0 && bi_reply_is(reply, "FOUND")) {
        job->id = reply->numbers[0];
        if (!bi_beanstalkd_yaml_set_body(reply, job))
            exchange->code = BIDE_ENOMEM;
    } else if (index == 0 || !bi_reply_is(reply, "OK") || !bi_beanstalkd_yaml_job(reply, job)) {
        exchange->code = bi_beanstalkd_exchange_map_error(exchange, reply);
    }
}

static void end_peek(struct exchange *exchange)
{
    bide_job *job = &exchange->jobs[0];

    if (exchange->code == BIDE_OK) {
        if (exchange->base.op->kind == BIDE_OP_JOB_STATS)
            job->body = NULL; /* only its size is wanted */
        /* The caller owns the job now; complete() must not clear it. */
        *exchange->base.op->query.job = *job;
        exchange->job_count = 0;
    }
    bi_beanstalkd_exchange_complete(exchange, exchange->code);
}

const struct op_handler bi_beanstalkd_query_peek = {
    .begin = begin_peek, .reply = reply_peek, .end = end_peek};

/* ---- the first job of a state ---- */

static void begin_peek_first(struct exchange *exchange)
{
    static const char *const words[] = {[BIDE_STATE_DELAYED] = "delayed",
                                        [BIDE_STATE_READY] = "ready",
                                        [BIDE_STATE_BURIED] = "buried",
                                        [BIDE_STATE_DONE] = NULL};
    const char *word = words[exchange->base.op->query.state];

    if (word == NULL) {
        bi_beanstalkd_exchange_reject(exchange, "a look at the first reserved or done job");
        return;
    }
    if (!alloc_job(exchange))
        return;

    bi_beanstalkd_conn_use(exchange->client->main, exchange->base.op->query.topic);
    bi_beanstalkd_exchange_command(exchange, 0, "peek-%s", word);
}

static void end_peek_first(struct exchange *exchange)
{
    /* peek-<state> names the job; stats-job needs its id. */
    if (exchange->stage == 0 && exchange->code == BIDE_OK && exchange->client->main != NULL) {
        exchange->stage = 1;
        send_stats_job(exchange, exchange->jobs[0].id);
        return;
    }
    end_peek(exchange);
}

const struct op_handler bi_beanstalkd_query_peek_first = {
    .begin = begin_peek_first, .reply = reply_peek, .end = end_peek_first};

/* ---- body ---- */

static void begin_body(struct exchange *exchange)
{
    bi_beanstalkd_exchange_command(exchange, 0, "peek %llu",
                                   (unsigned long long)exchange->base.op->fetch.id);
}

static void reply_body(struct exchange *exchange, size_t index, const struct reply *reply)
{
    (void)index;
    if (!bi_reply_is(reply, "FOUND")) {
        exchange->code = bi_reply_is(reply, "NOT_FOUND")
                             ? BIDE_NOT_FOUND
                             : bi_beanstalkd_exchange_map_error(exchange, reply);
        return;
    }
    exchange->base.op->fetch.buf = bide_buf_new(reply->data, reply->size);
    exchange->code = exchange->base.op->fetch.buf == NULL ? BIDE_ENOMEM : BIDE_OK;
}

const struct op_handler bi_beanstalkd_query_body = {.begin = begin_body, .reply = reply_body};

/* ---- ping ---- */

static void begin_ping(struct exchange *exchange)
{
    bi_beanstalkd_exchange_command(exchange, 0, "list-tube-used");
}

static void reply_ping(struct exchange *exchange, size_t index, const struct reply *reply)
{
    (void)index;
    exchange->code =
        bi_reply_is(reply, "USING") ? BIDE_OK : bi_beanstalkd_exchange_map_error(exchange, reply);
}

const struct op_handler bi_beanstalkd_query_ping = {.begin = begin_ping, .reply = reply_ping};

/* beanstalkd replays its log before it listens: a server that accepts connections has recovered. */
static void begin_recovered(struct exchange *exchange)
{
    exchange->base.op->recovered.progress = (bide_recovery){.phase = BIDE_PHASE_RECOVERED};
    bi_beanstalkd_exchange_complete(exchange, BIDE_OK);
}

const struct op_handler bi_beanstalkd_query_recovered = {.begin = begin_recovered};
