/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_take - the verbs that put jobs, take them and look at them.
 */
#include "server/inside.h"
#include "util/clock.h"

#include <string.h>

/* ---- put ---- */

static bool answer_put(struct request *request)
{
    struct output *output = &request->conn->output;
    int status = request->op.status;
    if (status == BIDE_OK || status == BIDE_EXISTS) {
        bi_output_text(output, status == BIDE_OK ? "INSERTED " : "EXISTS ");
        bi_output_number(output, request->op.put.id);
        bi_output_add(output, "\r\n", 2);
        return true;
    }
    return bi_beanstalk_refuse(request);
}

void bi_beanstalk_set_expiry(bide_put_options *options, int64_t expires_ms)
{
    if (expires_ms == 0)
        return;
    int64_t at = (bi_clock_wall() + 999) / 1000 + expires_ms; /* never early */
    options->expires_at_ms = at > BIDE_WHEN_MAX_MS ? BIDE_WHEN_MAX_MS : at;
}

void bi_beanstalk_put(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_PUT, answer_put);
    if (request == NULL)
        return;
    request->put.options = command->put;
    if (command->put.key.size > 0) {
        memcpy(request->put.key, command->put.key.data, command->put.key.size);
        request->put.options.key.data = request->put.key;
    }
    bi_beanstalk_set_expiry(&request->put.options, command->expires_ms);
    request->op.put = (bide_put_item){.topic = bi_tube_name(conn->session.used),
                                      .body = command->body,
                                      .buf = command->buf,
                                      .options = &request->put.options};
    request->bytes = command->body.size;
    bi_request_ask(request);
    /* The request holds no reference; one that waits in the batch must not lose its body. */
    if (command->buf != NULL)
        bi_server_flush(conn->server);
}

/* ---- reserve ---- */

static void say_job(struct request *request, const char *word)
{
    struct output *output = &request->conn->output;
    bide_job *job = &request->job;
    bi_output_text(output, word);
    bi_output_number(output, job->id);
    bi_output_add(output, " ", 1);
    bi_output_number(output, job->body_size);
    bi_output_add(output, "\r\n", 2);
    bi_output_body(output, job->bufs_[0], job->body, job->body_size);
    bi_output_add(output, "\r\n", 2);
}

static bool hold_and_say(struct request *request)
{
    struct conn *conn = request->conn;
    bide_job *job = &request->job;
    int64_t deadline = request->completed + job->left_ms * 1000;
    bool has_retries = job->max_retries != BIDE_NO_RETRY_LIMIT;
    if (bi_session_hold(&conn->session, job->id, job->token, deadline, has_retries)) {
        say_job(request, "RESERVED ");
    } else {
        bi_request_give_back(conn->server, job->id, job->token, false);
        bi_output_text(&conn->output, "OUT_OF_MEMORY\r\n");
    }
    bide_job_clear(job);
    return true;
}

bool bi_beanstalk_is_soon(struct conn *conn)
{
    int64_t now = bi_clock_boot();
    return conn->session.held_count > 0 &&
           bi_session_deadline(&conn->session, now) - SOON_US <= now;
}

void bi_beanstalk_alarm(struct conn *conn)
{
    int64_t now = bi_clock_boot();
    int64_t deadline = bi_session_deadline(&conn->session, now);
    if (deadline == INT64_MAX)
        return;
    int64_t wait = deadline - SOON_US - now;
    wait = wait < 0 ? 0 : wait;
    struct timeval after = {.tv_sec = wait / 1000000, .tv_usec = wait % 1000000};
    evtimer_add(&conn->alarm, &after);
}

static void reserve_now(struct request *request, int64_t timeout_ms)
{
    struct conn *conn = request->conn;
    request->op.reserve = (bide_reserve_args){.topics = conn->session.names,
                                              .topic_count = conn->session.watched_count,
                                              .timeout_ms = timeout_ms,
                                              .jobs = &request->job,
                                              .job_max = 1};
}

/* Nothing is ready. Whoever may wait does so now, unless a lease is about to end. */
static bool wait_for_job(struct request *request)
{
    struct conn *conn = request->conn;
    /* A connection that ends is not read any more: one that waited would not notice that the client has
     * gone. */
    bool waits = request->timeout_ms != 0 && !conn->half_closed && !conn->quit;
    bool soon = bi_beanstalk_is_soon(conn);
    if (conn->server->stopping)
        return true;
    if (!request->early && (soon || !waits)) {
        bi_output_text(&conn->output, soon ? "DEADLINE_SOON\r\n" : "TIMED_OUT\r\n");
        return true;
    }
    request->early = false;
    request->waited = waits && !soon;
    reserve_now(request, request->waited ? request->timeout_ms : 0);
    bi_request_submit(request);
    if (request->waited)
        bi_beanstalk_alarm(conn);
    return false;
}

static bool answer_reserve(struct request *request)
{
    struct conn *conn = request->conn;
    event_del(&conn->alarm);
    if (request->op.status == BIDE_OK)
        return hold_and_say(request);
    if (request->op.status == BIDE_CANCELLED && request->why == WHY_SOON) {
        bi_output_text(&conn->output, "DEADLINE_SOON\r\n");
        return true;
    }
    if (request->op.status == BIDE_TIMED_OUT && !request->waited)
        return wait_for_job(request);
    return bi_beanstalk_refuse(request);
}

void bi_beanstalk_reserve(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_RESERVE, answer_reserve);
    if (request == NULL)
        return;
    bi_beanstalk_works(conn);
    request->blocking = request->trying = true;
    request->timeout_ms = command->timeout_ms;
    request->expected = conn->server->max_job_size;
    reserve_now(request, 0);
    bi_request_ask(request);
}

static bool answer_reserve_job(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_beanstalk_works(request->conn);
    return hold_and_say(request);
}

void bi_beanstalk_reserve_job(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_RESERVE_JOB, answer_reserve_job);
    if (request == NULL)
        return;
    request->blocking = true;
    request->expected = conn->server->max_job_size;
    request->op.reserve_job = (bide_reserve_job_args){command->id, &request->job};
    bi_request_ask(request);
}

/* ---- looking, kicking ---- */

static bool answer_peek(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    say_job(request, "FOUND ");
    bide_job_clear(&request->job);
    return true;
}

void bi_beanstalk_peek(struct conn *conn, const struct command *command)
{
    static const bide_state states[VERB_COUNT] = {
        [VERB_PEEK_READY] = BIDE_STATE_READY,
        [VERB_PEEK_DELAYED] = BIDE_STATE_DELAYED,
        [VERB_PEEK_BURIED] = BIDE_STATE_BURIED,
    };
    bide_state state = states[command->verb];
    if (state == BIDE_STATE_GONE && !bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    bool by_id = state == BIDE_STATE_GONE;
    struct request *request =
        bi_beanstalk_ask(conn, by_id ? BIDE_OP_PEEK : BIDE_OP_PEEK_FIRST, answer_peek);
    if (request == NULL)
        return;
    request->expected = conn->server->max_job_size;
    request->op.look = (bide_look_args){.id = by_id ? command->id : 0,
                                        .topic = bi_tube_name(conn->session.used),
                                        .state = state,
                                        .job = &request->job};
    bi_request_ask(request);
}

static bool answer_kick(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_format(&request->conn->output, "KICKED %llu\r\n",
                     (unsigned long long)request->op.kick.count);
    return true;
}

void bi_beanstalk_kick(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_KICK, answer_kick);
    if (request == NULL)
        return;
    request->blocking = true;
    request->op.kick =
        (bide_kick_args){.topic = bi_tube_name(conn->session.used), .max = command->count};
    bi_request_ask(request);
}

static bool answer_kick_job(struct request *request)
{
    return bi_beanstalk_say_or_refuse(request, "KICKED\r\n");
}

void bi_beanstalk_kick_job(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_KICK_JOB, answer_kick_job);
    if (request == NULL)
        return;
    request->op.lease = (bide_lease_args){command->id, 0};
    bi_request_ask(request);
}
