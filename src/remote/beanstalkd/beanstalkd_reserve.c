/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_reserve - reserve and reserve_job.
 *
 * A reserve proceeds in stages:
 *
 *     TRY       reserve without waiting, on the main connection. A busy queue has a job, and no
 *               further connection is needed.
 *     WAIT      no job: reserve with the timeout, on a connection of its own.
 *     JOB_SIZE  a job is there and more are wanted: query the max-job-size of the server, once.
 *     MORE      reserve without waiting, in rounds of as many jobs as surely fit BIDE_BATCH_BYTES.
 *     STATS     stats-job for each job: a RESERVED reply has the id and the body only, neither the
 *               topic nor the ttr.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "op/op_table.h"
#include "remote/beanstalkd/beanstalkd_client.h"
#include "util/clock.h"

#include <assert.h>
#include <poll.h>

enum stage { STAGE_TRY, STAGE_WAIT, STAGE_JOB_SIZE, STAGE_MORE, STAGE_STATS };

/* How long the end of the main connection may follow the failure of another connect. */
#define GONE_MS 100

#define MAX_JOB_SIZE 65535 /* beanstalkd's default, if the server does not report it */

static bide_reserve_args *args_of(struct exchange *exchange)
{
    return bi_op_reserve_args(exchange->base.op);
}

/* ---- reserved jobs ---- */

/* Drops the lease of a job that the caller does not get. beanstalkd releases the job when its ttr
 * expires, or when the connection is closed; a spare connection with strays is closed when idle. */
static void let_go(struct exchange *exchange, struct lease *lease)
{
    if (lease != NULL)
        bi_beanstalkd_lease_free(exchange->client, lease);
    exchange->conn->strays = true;
}

/* Adds a reserved job, with a new lease. On failure the job is a stray of its connection. */
static int add_job(struct exchange *exchange, const struct reply *reply)
{
    assert(exchange->conn != NULL && exchange->jobs != NULL);
    bide_job *job = &exchange->jobs[exchange->job_count];
    struct lease *lease =
        bi_beanstalkd_lease_new(exchange->client, reply->numbers[0], exchange->conn);

    if (lease == NULL || !bi_beanstalkd_yaml_set_body(reply, job)) {
        let_go(exchange, lease);
        return BIDE_ENOMEM;
    }

    job->id = lease->id;
    job->token = lease->token;
    exchange->job_count++;
    return BIDE_OK;
}

static int send_stats(struct exchange *exchange)
{
    assert(exchange->job_count > 0 && exchange->conn != NULL);
    exchange->stage = STAGE_STATS;
    for (size_t i = 0; i < exchange->job_count; i++)
        bi_beanstalkd_conn_command(exchange->conn, exchange, i, "stats-job %llu",
                                   (unsigned long long)exchange->jobs[i].id);
    return BIDE_PENDING;
}

/* Completes a job from its stats. A job that is missing or not reserved has already lost its short
 * lease. Such a job is left out (token 0), and so is one whose stats the server does not report. */
static int apply_stats(struct exchange *exchange, size_t index, const struct reply *reply)
{
    assert(index < exchange->job_count);
    bide_job *job = &exchange->jobs[index];
    uint64_t id = job->id;
    struct lease *lease = bi_beanstalkd_lease_find(exchange->client, id, job->token);
    int code = bi_beanstalkd_exchange_check(exchange, reply, "OK");

    if (code == BIDE_OK && (!bi_beanstalkd_yaml_job(reply, job) || job->id != id))
        code = bi_beanstalkd_exchange_reject_malformed(exchange);
    if (code != BIDE_OK || job->state != BIDE_STATE_RESERVED || lease == NULL) {
        job->token = 0;
        let_go(exchange, lease);
        return code == BIDE_NOT_FOUND ? BIDE_OK : code;
    }

    job->left_ms = job->ttr_ms; /* just reserved; time-left is truncated to seconds */
    /* The lease began at the server before this reply, so the client's deadline is a little
     * late. */
    lease->priority = job->priority;
    lease->ttr = job->ttr_ms * 1000;
    lease->deadline = bi_clock_boot() + lease->ttr;
    return BIDE_OK;
}

/* Removes jobs with token 0 and closes the gaps. */
static void leave_out(struct exchange *exchange)
{
    size_t count = 0;

    for (size_t i = 0; i < exchange->job_count; i++) {
        if (exchange->jobs[i].token == 0)
            bide_job_clear(&exchange->jobs[i]);
        else if (count++ < i) {
            exchange->jobs[count - 1] = exchange->jobs[i];
            exchange->jobs[i] = (bide_job){.id = 0};
        }
    }
    exchange->job_count = count;
}

/* ---- reserve ---- */

/* Returns how many further jobs surely fit. If a single job may exceed a whole batch, jobs are
 * reserved one by one, and the last one may exceed the limit. */
static size_t count_fitting(const struct exchange *exchange, size_t limit)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < exchange->job_count; i++)
        bytes += exchange->jobs[i].body_size;
    if (bytes >= BIDE_BATCH_BYTES)
        return 0;

    uint64_t fit = (BIDE_BATCH_BYTES - bytes) / exchange->client->max_job_size;
    if (exchange->client->max_job_size > BIDE_BATCH_BYTES)
        fit = 1;
    return fit < limit ? (size_t)fit : limit;
}

static int reserve_more(struct exchange *exchange)
{
    assert(exchange->job_count <= args_of(exchange)->job_max);
    size_t limit = args_of(exchange)->job_max - exchange->job_count;

    if (limit > 0 && exchange->client->max_job_size == 0) {
        exchange->stage = STAGE_JOB_SIZE;
        bi_beanstalkd_conn_command(exchange->conn, exchange, 0, "stats");
        return BIDE_PENDING;
    }

    size_t count = limit == 0 ? 0 : count_fitting(exchange, limit);
    /* No further job wanted or fitting. */
    if (count == 0)
        return send_stats(exchange);

    exchange->stage = STAGE_MORE;
    exchange->round_end = exchange->job_count + count;
    /* Another reserve may have changed what the connection watches since the last command. */
    bi_beanstalkd_conn_watch(exchange->conn, args_of(exchange)->topics,
                             args_of(exchange)->topic_count);
    for (size_t i = exchange->job_count; i < exchange->round_end; i++)
        bi_beanstalkd_conn_command(exchange->conn, exchange, i, "reserve-with-timeout 0");

    /* Out of memory for the commands: the connection is broken, but the jobs are leased. */
    return exchange->outstanding == 0 ? send_stats(exchange) : BIDE_PENDING;
}

/* A server that died has closed the main connection, too, or is about to. */
static bool is_server_gone(struct beanstalkd *beanstalkd)
{
    if (beanstalkd->main == NULL)
        return true;

    struct pollfd polled = {.fd = beanstalkd->main->fd, .events = POLLRDHUP};
    pthread_mutex_unlock(&beanstalkd->remote.lock);
    bool gone = poll(&polled, 1, GONE_MS) > 0;
    pthread_mutex_lock(&beanstalkd->remote.lock);
    return gone;
}

/* There is no connection to wait on. A reserve outlives the server; otherwise it fails. */
static int fail_wait(struct exchange *exchange)
{
    if (!is_server_gone(exchange->client))
        return bi_op_reject(exchange->base.op, BIDE_TOO_MANY_WAITERS,
                            "no further connection for a reserve that waits");

    if (exchange->client->main != NULL)
        exchange->client->main->broken = true;
    bi_beanstalkd_exchange_restart(exchange);
    return BIDE_PENDING;
}

/* Starts the wait at the server. beanstalkd waits for whole seconds; a deadline between two
 * seconds is enforced by the client, which closes the connection. */
static int wait_for_job(struct exchange *exchange)
{
    const bide_reserve_args *args = args_of(exchange);
    int64_t now = bi_clock_boot();

    if (exchange->base.waits && exchange->base.deadline != REMOTE_NEVER &&
        exchange->base.deadline <= now)
        return BIDE_TIMED_OUT;

    struct conn *conn = bi_beanstalkd_conn_pool_acquire(exchange->client);

    /* shutdown or cancel may have happened during the try, which cannot be aborted, or while the
     * lock was released for a connect. */
    if (exchange->base.cancelled || exchange->base.shut) {
        bi_remote_op_abort(&exchange->client->remote, &exchange->base, BIDE_CLOSED);
        return BIDE_PENDING;
    }
    if (conn == NULL)
        return fail_wait(exchange);

    exchange->stage = STAGE_WAIT;
    exchange->conn = conn;
    conn->blocked = true;
    bi_beanstalkd_conn_watch(conn, args->topics, args->topic_count);

    int64_t left = exchange->base.deadline == REMOTE_NEVER ? INT32_MAX * INT64_C(1000000)
                                                           : exchange->base.deadline - now;
    int64_t seconds = (left + 999999) / 1000000;
    if (seconds > INT32_MAX)
        seconds = INT32_MAX;

    /* The server's timeout is within 0.1 s of the deadline: the server ends the wait. The
     * connection can then be reused. The grace covers a late reply. */
    if (exchange->base.deadline != REMOTE_NEVER && seconds * 1000000 - left < 100000)
        exchange->grace = 2000000;
    exchange->base.deadline += exchange->grace;
    exchange->base.client_expires = true;
    bi_remote_op_arm_expiry(&exchange->client->remote, &exchange->base);

    if (exchange->base.deadline == REMOTE_NEVER)
        bi_beanstalkd_conn_command(conn, exchange, 0, "reserve");
    else
        bi_beanstalkd_conn_command(conn, exchange, 0, "reserve-with-timeout %lld",
                                   (long long)seconds);
    return BIDE_PENDING;
}

int bi_beanstalkd_reserve_send(struct exchange *exchange, size_t index)
{
    const bide_reserve_args *args = args_of(exchange);

    /* The order of several topics is beanstalkd's; with one topic all strategies are the same. */
    if (args->strategy != BIDE_BY_PRIORITY && args->topic_count > 1)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op,
                                                       "strategies other than by priority");
    if (!bi_beanstalkd_exchange_alloc_jobs(exchange, args->job_max))
        return BIDE_ENOMEM;

    exchange->stage = STAGE_TRY;
    exchange->conn = exchange->client->main;
    bi_beanstalkd_conn_watch(exchange->client->main, args->topics, args->topic_count);
    return bi_beanstalkd_exchange_command(exchange, index, "reserve-with-timeout 0");
}

int bi_beanstalkd_reserve_reply(struct exchange *exchange, size_t index, const struct reply *reply)
{
    /* A job came before a cancel or the timeout took effect: it is delivered. */
    if (exchange->stage == STAGE_WAIT)
        exchange->conn->blocked = exchange->conn->abort = exchange->base.client_expires = false;

    if (exchange->stage == STAGE_STATS)
        return apply_stats(exchange, index, reply);
    if (exchange->stage == STAGE_JOB_SIZE) {
        uint64_t size =
            bi_reply_is(reply, "OK") ? bi_beanstalkd_yaml_number(reply, "max-job-size") : 0;
        exchange->client->max_job_size = size == 0 ? MAX_JOB_SIZE : size;
        return BIDE_OK;
    }

    if (bi_reply_is(reply, "RESERVED"))
        return add_job(exchange, reply);
    /* No job. DEADLINE_SOON: another job of this connection is about to lose its lease. */
    return bi_reply_is(reply, "DEADLINE_SOON")
               ? BIDE_OK
               : bi_beanstalkd_exchange_check(exchange, reply, "TIMED_OUT");
}

int bi_beanstalkd_reserve_end(struct exchange *exchange)
{
    bide_reserve_args *args = args_of(exchange);

    if (exchange->stage == STAGE_STATS)
        leave_out(exchange);

    /* An error after the first job is not reported: the jobs are leased and must be delivered. */
    if (exchange->code != BIDE_OK && exchange->job_count == 0)
        return exchange->code;

    if (exchange->stage == STAGE_STATS && exchange->job_count > 0) {
        memcpy(args->jobs, exchange->jobs, exchange->job_count * sizeof(*args->jobs));
        args->count = exchange->job_count;
        exchange->job_count = 0; /* they are the caller's now */
        return BIDE_OK;
    }

    if (exchange->stage == STAGE_STATS && exchange->base.waits) {
        /* Every job lost its lease before its stats arrived: wait for the rest of the timeout. */
        bi_beanstalkd_exchange_restart(exchange);
        return BIDE_PENDING;
    }

    if (exchange->stage == STAGE_MORE &&
        (exchange->code != BIDE_OK || exchange->job_count < exchange->round_end))
        return send_stats(exchange);
    if (exchange->job_count > 0)
        return reserve_more(exchange);
    return exchange->stage == STAGE_TRY && exchange->base.waits ? wait_for_job(exchange)
                                                                : BIDE_TIMED_OUT;
}

const struct op_handler bi_beanstalkd_reserve = {.send = bi_beanstalkd_reserve_send,
                                                 .reply = bi_beanstalkd_reserve_reply,
                                                 .end = bi_beanstalkd_reserve_end};

/* ---- reserve_job ---- */

static int send_reserve_job(struct exchange *exchange, size_t index)
{
    if (!bi_beanstalkd_exchange_alloc_jobs(exchange, 1))
        return BIDE_ENOMEM;
    exchange->conn = exchange->client->main;
    return bi_beanstalkd_exchange_command(exchange, index, "reserve-job %llu",
                                          (unsigned long long)exchange->base.op->reserve_job.id);
}

/* If the job cannot be reserved, its stats show whether it is missing or reserved by another
 * client. */
static int reply_reserve_job(struct exchange *exchange, size_t index, const struct reply *reply)
{
    if (exchange->stage == STAGE_STATS && exchange->job_count > 0)
        return apply_stats(exchange, index, reply);
    if (exchange->stage == STAGE_STATS)
        return bi_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
    if (bi_reply_is(reply, "RESERVED"))
        return add_job(exchange, reply);

    int code = bi_beanstalkd_exchange_check(exchange, reply, "RESERVED");
    return code == BIDE_NOT_FOUND ? BIDE_OK : code;
}

static int end_reserve_job(struct exchange *exchange)
{
    bool taken = exchange->job_count > 0;

    if (exchange->stage != STAGE_STATS && exchange->code == BIDE_OK) {
        exchange->stage = STAGE_STATS;
        return bi_beanstalkd_exchange_command(
            exchange, 0, "stats-job %llu", (unsigned long long)exchange->base.op->reserve_job.id);
    }

    leave_out(exchange);
    if (exchange->job_count > 0)
        *exchange->base.op->reserve_job.job = exchange->jobs[0];
    else if (taken && exchange->code == BIDE_OK)
        exchange->code = BIDE_NOT_FOUND;
    exchange->job_count = 0;
    return exchange->code;
}

const struct op_handler bi_beanstalkd_reserve_job = {
    .send = send_reserve_job, .reply = reply_reserve_job, .end = end_reserve_job};
