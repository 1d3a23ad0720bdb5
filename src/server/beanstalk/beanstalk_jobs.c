/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_jobs - the verbs put, reserve*, peek*, kick* and cancel.
 *
 * A reserve is tried before it waits. It is first submitted with timeout 0, so that several
 * pipelined reserves run in one batch. Only a reserve at the head of the pipeline that found no job
 * is submitted again with its timeout: one request at a time waits for a connection.
 */
#include "server/beanstalk/beanstalk.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

/* ---- put ---- */

static bool reply_put(struct request *request)
{
    struct output *output = &request->conn->base.output;
    int status = request->op.status;

    if (status == BIDE_OK || status == BIDE_EXISTS) {
        bi_output_text(output, status == BIDE_OK ? "INSERTED " : "EXISTS ");
        bi_output_number(output, request->op.put.id);
        bi_output_add(output, "\r\n", 2);
        return true;
    }
    return bi_beanstalk_verb_reject(request);
}

void bi_beanstalk_jobs_set_expiry(bide_put_options *options, int64_t expires_ms)
{
    if (expires_ms == BIDE_NO_DEFAULT)
        options->expires_at_ms = BIDE_NO_DEFAULT;
    if (expires_ms <= 0)
        return;
    int64_t at = (bi_clock_wall() + 999) / 1000 + expires_ms; /* rounded up: never expires early */
    options->expires_at_ms = at > BIDE_TIMESTAMP_MAX_MS ? BIDE_TIMESTAMP_MAX_MS : at;
}

const char *bi_beanstalk_jobs_put(struct request *request, const struct command *command)
{
    request->reply = reply_put;
    request->put.options = command->put;
    /* The key lies in the command, which ends with this call. The op may stay in the batch. */
    if (command->put.key.size > 0) {
        memcpy(request->put.key, command->put.key.data, command->put.key.size);
        request->put.options.key.data = request->put.key;
    }

    bi_beanstalk_jobs_set_expiry(&request->put.options, command->expires_ms);
    request->op.put = (bide_put_item){.topic = bi_tube_name(request->conn->session.used),
                                      .body = command->body,
                                      .buf = command->buf,
                                      .options = &request->put.options};
    return NULL;
}

/* ---- reserve ---- */

static void write_job(struct request *request, const char *word)
{
    struct output *output = &request->conn->base.output;
    bide_job *job = &request->job;

    bi_output_text(output, word);
    bi_output_number(output, job->id);
    bi_output_add(output, " ", 1);
    bi_output_number(output, job->body_size);
    bi_output_add(output, "\r\n", 2);
    bi_output_body(output, job->bufs_[0], job->body, job->body_size);
    bi_output_add(output, "\r\n", 2);
}

static void write_reserved(struct request *request)
{
    struct beanstalk_conn *conn = request->conn;
    bide_job *job = &request->job;
    /* The lease began when the op completed. The reply may be written much later. */
    int64_t deadline = request->completed_at + job->left_ms * 1000;
    bool has_retry_limit = job->max_retries != BIDE_NO_RETRY_LIMIT;
    assert(STAILQ_FIRST(&conn->pipeline) == request);

    /* Without a lease in the session the client could neither finish the job nor lose it by
     * disconnecting, so it is given back at once. */
    if (bi_session_add_lease(&conn->session, job->id, job->token, deadline, has_retry_limit)) {
        write_job(request, "RESERVED ");
    } else {
        bi_release_lease(conn->base.server, job->id, job->token, false);
        bi_output_text(&conn->base.output, "OUT_OF_MEMORY\r\n");
    }

    bide_job_clear(job);
}

bool bi_beanstalk_jobs_is_deadline_soon(struct beanstalk_conn *conn)
{
    int64_t now = bi_clock_boot();
    return conn->session.lease_count > 0 &&
           bi_session_next_deadline(&conn->session, now) - DEADLINE_SOON_US <= now;
}

void bi_beanstalk_jobs_arm_deadline(struct beanstalk_conn *conn)
{
    int64_t now = bi_clock_boot();
    int64_t deadline = bi_session_next_deadline(&conn->session, now);

    if (deadline == INT64_MAX)
        return;

    int64_t wait = deadline - DEADLINE_SOON_US - now;
    bi_conn_set_alarm(&conn->base, wait < 0 ? 0 : wait);
}

static void set_reserve_args(struct request *request, int64_t timeout_ms)
{
    struct beanstalk_conn *conn = request->conn;
    request->op.reserve = (bide_reserve_args){.topics = conn->session.names,
                                              .topic_count = conn->session.watched_count,
                                              .timeout_ms = timeout_ms,
                                              .jobs = &request->job,
                                              .job_max = 1,
                                              .holder = bi_beanstalk_worker_holder(conn)};
}

/*
 * The first try found no ready job. Replies, or submits the reserve again: to wait, or for a second
 * try. Called when all earlier replies of the connection have been written.
 */
static bool wait_for_job(struct request *request)
{
    struct beanstalk_conn *conn = request->conn;

    /* A closing connection is not read: a reserve that waits would not notice that the client is
     * gone. */
    assert(STAILQ_FIRST(&conn->pipeline) == request && request->blocking);
    bool waits = request->timeout_ms != 0 && !conn->base.half_closed && !conn->base.quit;
    bool deadline_soon = bi_beanstalk_jobs_is_deadline_soon(conn);

    if (conn->base.server->stopping)
        return true; /* no reply: the connection closes */

    /* early: the try completed while earlier replies were pending. Jobs may have become ready
     * since, so its result is stale and the client must not see it. */
    if (!request->early && (deadline_soon || !waits)) {
        bi_output_text(&conn->base.output, deadline_soon ? "DEADLINE_SOON\r\n" : "TIMED_OUT\r\n");
        return true;
    }

    request->early = false;
    request->waited = waits && !deadline_soon;
    set_reserve_args(request, request->waited ? request->timeout_ms : 0);
    bi_request_submit(request);

    if (request->waited)
        bi_beanstalk_jobs_arm_deadline(conn);
    return false;
}

static bool reply_reserve(struct request *request)
{
    struct beanstalk_conn *conn = request->conn;

    /* Armed while this reserve waited: DEADLINE_SOON is a reply to waiting reserves only. */
    bi_conn_clear_alarm(&conn->base);
    if (request->op.status == BIDE_OK) {
        write_reserved(request);
        return true;
    }

    if (request->op.status == BIDE_CANCELLED && request->cancel_reason == CANCEL_DEADLINE_SOON) {
        bi_output_text(&conn->base.output, "DEADLINE_SOON\r\n");
        return true;
    }

    if (request->op.status == BIDE_TIMED_OUT && !request->waited)
        return wait_for_job(request);
    return bi_beanstalk_verb_reject(request);
}

/* Blocking: while a reserve waits, beanstalkd executes no later command either. */
const char *bi_beanstalk_jobs_reserve(struct request *request, const struct command *command)
{
    bi_beanstalk_verb_set_worker(request->conn);
    request->reply = reply_reserve;
    request->timeout_ms = command->timeout_ms;
    set_reserve_args(request, 0);
    return NULL;
}

static void write_reserved_by_id(struct request *request)
{
    bi_beanstalk_verb_set_worker(request->conn);
    write_reserved(request);
}

const char *bi_beanstalk_jobs_reserve_job(struct request *request, const struct command *command)
{
    request->write = write_reserved_by_id;
    request->op.reserve_job = (bide_reserve_job_args){command->id, &request->job,
                                                      bi_beanstalk_worker_holder(request->conn)};
    return NULL;
}

/* ---- peek, kick, cancel ---- */

static void write_found(struct request *request)
{
    write_job(request, "FOUND ");
    bide_job_clear(&request->job);
}

const char *bi_beanstalk_jobs_peek(struct request *request, const struct command *command)
{
    /* The verb peek has no entry: it names a job by its id. */
    static const bide_state states[VERB_COUNT] = {
        [VERB_PEEK_READY] = BIDE_STATE_READY,
        [VERB_PEEK_DELAYED] = BIDE_STATE_DELAYED,
        [VERB_PEEK_BURIED] = BIDE_STATE_BURIED,
    };

    request->write = write_found;
    request->op.query = (bide_query_args){.id = command->verb == VERB_PEEK ? command->id : 0,
                                          .topic = bi_tube_name(request->conn->session.used),
                                          .state = states[command->verb],
                                          .job = &request->job};
    return NULL;
}

static void write_kicked(struct request *request)
{
    bi_output_format(&request->conn->base.output, "KICKED %llu\r\n",
                     (unsigned long long)request->op.kick.count);
}

/* Blocking: a kick of many jobs runs in slices, and the commands behind it must see its effect. */
const char *bi_beanstalk_jobs_kick(struct request *request, const struct command *command)
{
    request->write = write_kicked;
    request->op.kick =
        (bide_kick_args){.topic = bi_tube_name(request->conn->session.used), .max = command->count};
    return NULL;
}

const char *bi_beanstalk_jobs_by_id(struct request *request, const struct command *command)
{
    request->op.lease = (bide_lease_args){command->id, 0};
    return NULL;
}
