/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_finish - the verbs of who holds a job: delete, release, bury, touch, done, fail.
 *
 * The session tells a job's token; whether it is still good the queue decides.
 */
#include "server/inside.h"

/* ---- finishing ---- */

/*
 * The token of the job: as the client says, or of the session. What ends a lease takes it out of the
 * session at once, so that the command behind it finds what it would find on beanstalkd.
 */
static uint64_t take_lease(struct request *request, const struct command *command)
{
    struct session *session = &request->conn->session;
    request->leased = command->leased;
    request->lease_end = 0;
    if (command->leased)
        return command->token;
    const struct held *held = bi_session_find(session, command->id);
    if (held == NULL)
        return 0;
    uint64_t token = held->token;
    request->has_retries = held->has_retries;
    request->lease_end = bi_session_end(session, held);
    bi_session_forget(session, command->id);
    return token;
}

/* What was to end the lease did not happen: it goes on. */
static void restore_lease(struct request *request, uint64_t id, uint64_t token)
{
    if (bi_request_keeps_lease(request) &&
        !bi_session_hold(&request->conn->session, id, token, request->lease_end,
                         request->has_retries))
        bi_request_give_back(request->server, id, token, false);
}

static bool is_token(const struct command *command)
{
    return !command->leased || command->token <= BIDE_ID_MAX;
}

/* A request of who holds the job; NULL: nobody could. */
static struct request *ask_about_job(struct conn *conn, const struct command *command,
                                     bide_op_kind kind, bool (*answer)(struct request *request))
{
    if (!bi_beanstalk_is_id(command->id) || !is_token(command)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return NULL;
    }
    struct request *request = bi_beanstalk_ask(conn, kind, answer);
    if (request != NULL)
        request->modern = command->leased;
    return request;
}

/* The same, where only the holder may ask. */
static struct request *ask_as_holder(struct conn *conn, const struct command *command,
                                     bide_op_kind kind, bool (*answer)(struct request *request),
                                     uint64_t *token)
{
    struct request *request = ask_about_job(conn, command, kind, answer);
    if (request == NULL)
        return NULL;
    *token = take_lease(request, command);
    if (*token != 0)
        return request;
    bi_request_free(request);
    bi_conn_say(conn, "NOT_FOUND\r\n");
    return NULL;
}

static bool answer_delete(struct request *request)
{
    bide_lease_args *lease = &request->op.lease;
    /* A job that came back to the ready ones is anybody's to delete. */
    if (request->op.status == BIDE_LEASE_LOST && !request->leased && lease->token != 0) {
        lease->token = 0;
        bi_request_submit(request);
        return false;
    }
    restore_lease(request, lease->id, lease->token);
    return bi_beanstalk_say_or_refuse(request, "DELETED\r\n");
}

void bi_beanstalk_delete(struct conn *conn, const struct command *command)
{
    struct request *request = ask_about_job(conn, command, BIDE_OP_DELETE, answer_delete);
    if (request == NULL)
        return;
    request->op.lease = (bide_lease_args){command->id, take_lease(request, command)};
    bi_request_ask(request);
}

static bool answer_release(struct request *request)
{
    restore_lease(request, request->op.release.id, request->op.release.token);
    return bi_beanstalk_say_or_refuse(request, "RELEASED\r\n");
}

void bi_beanstalk_release(struct conn *conn, const struct command *command)
{
    uint64_t token;
    struct request *request = ask_as_holder(conn, command, BIDE_OP_RELEASE, answer_release, &token);
    if (request == NULL)
        return;
    request->op.release =
        (bide_release_args){command->id, token, command->priority, command->delay_ms};
    bi_request_ask(request);
}

static bool answer_bury(struct request *request)
{
    restore_lease(request, request->op.bury.id, request->op.bury.token);
    return bi_beanstalk_say_or_refuse(request, "BURIED\r\n");
}

void bi_beanstalk_bury(struct conn *conn, const struct command *command)
{
    uint64_t token;
    struct request *request = ask_as_holder(conn, command, BIDE_OP_BURY, answer_bury, &token);
    if (request == NULL)
        return;
    request->op.bury =
        (bide_bury_args){.id = command->id, .token = token, .priority = command->priority};
    bi_request_ask(request);
}

void bi_beanstalk_touched(struct request *request)
{
    const bide_touch_item *touch = &request->op.touch;
    struct session *session = &request->conn->session;
    int status = request->op.status;
    if (request->leased)
        return;
    if (status == BIDE_OK || status == BIDE_CANCEL_WANTED)
        bi_session_touch(session, touch->id, request->completed + touch->left_ms * 1000);
    else if (status == BIDE_LEASE_LOST || status == BIDE_NOT_FOUND)
        bi_session_forget(session, touch->id);
    else
        bi_session_touch(session, touch->id, 0);
}

static bool answer_touch(struct request *request)
{
    int status = request->op.status;
    if (status != BIDE_OK && status != BIDE_CANCEL_WANTED)
        return bi_beanstalk_refuse(request);
    /* Old clients know only one word. */
    bool to_stop = request->leased && status == BIDE_CANCEL_WANTED;
    bi_output_text(&request->conn->output, to_stop ? "CANCEL_WANTED\r\n" : "TOUCHED\r\n");
    return true;
}

void bi_beanstalk_touch(struct conn *conn, const struct command *command)
{
    const struct held *held = bi_session_find(&conn->session, command->id);
    uint64_t token = command->leased ? command->token : held == NULL ? 0 : held->token;
    struct request *request =
        token == 0 ? NULL : ask_about_job(conn, command, BIDE_OP_TOUCH, answer_touch);
    if (token == 0)
        bi_conn_say(conn, "NOT_FOUND\r\n");
    if (request == NULL)
        return;
    request->leased = command->leased;
    if (!command->leased)
        bi_session_touch_begins(&conn->session, command->id);
    request->op.touch = (bide_touch_item){.id = command->id, .token = token};
    bi_request_ask(request);
}

/* done and fail are also allowed to who is not the holder, of jobs that nobody holds. */

static bool answer_done(struct request *request)
{
    restore_lease(request, request->op.finish.id, request->op.finish.token);
    return bi_beanstalk_say_or_refuse(request, "DONE\r\n");
}

void bi_beanstalk_done(struct conn *conn, const struct command *command)
{
    struct request *request = ask_about_job(conn, command, BIDE_OP_DONE, answer_done);
    if (request == NULL)
        return;
    request->modern = true;
    request->op.finish = (bide_finish_item){.id = command->id,
                                            .token = take_lease(request, command),
                                            .keep = true,
                                            .result = command->body,
                                            .buf = command->buf,
                                            .retain_ms = command->retain_ms};
    request->bytes = command->body.size;
    bi_request_ask(request);
    bi_server_flush(conn->server);
}

static bool answer_fail(struct request *request)
{
    const bide_fail_args *fail = &request->op.fail;
    struct output *output = &request->conn->output;
    restore_lease(request, fail->id, fail->token);
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    if (fail->state == BIDE_STATE_BURIED)
        bi_output_text(output, "BURIED\r\n");
    else if (fail->state == BIDE_STATE_GONE)
        bi_output_text(output, "DELETED\r\n");
    else
        bi_output_format(output, "RETRY %lld\r\n", (long long)fail->delay_ms);
    return true;
}

void bi_beanstalk_fail(struct conn *conn, const struct command *command)
{
    struct request *request = ask_about_job(conn, command, BIDE_OP_FAIL, answer_fail);
    if (request == NULL)
        return;
    request->modern = true;
    request->op.fail = (bide_fail_args){.id = command->id,
                                        .token = take_lease(request, command),
                                        .error = command->body,
                                        .retry_in_ms = command->delay_ms};
    request->bytes = command->body.size;
    bi_request_ask(request);
    bi_server_flush(conn->server);
}
