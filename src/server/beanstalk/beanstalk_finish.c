/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_finish - the verbs that end or extend a lease: delete, release, bury, touch, done and
 * fail.
 *
 * Clients of beanstalkd name a job by its id, so the token comes from the session. Under `lease`
 * the client names the token itself. The queue decides whether a token is still valid.
 *
 * Ordering   A verb that ends a lease removes it from the session when it is submitted, not when it
 *            completes: the next command must see the job as beanstalkd would show it.
 * Failure    If the op fails and the lease is still valid, it returns to the session.
 */
#include "server/beanstalk/beanstalk.h"

/* ---- leases of the session ---- */

/* Removes the lease from the session and returns its token, or the token that the client named. 0:
 * the connection does not hold the job. */
static uint64_t take_lease(struct request *request, const struct command *command)
{
    struct session *session = &request->conn->session;
    request->leased = command->leased;
    request->lease_end = 0;

    if (command->leased)
        return command->token;

    const struct lease *lease = bi_session_find_lease(session, command->id);
    if (lease == NULL)
        return 0;

    /* Copy before the removal: lease points into the session. */
    uint64_t token = lease->token;
    request->has_retry_limit = lease->has_retry_limit;
    request->lease_end = bi_session_lease_end(session, lease);
    bi_session_remove_lease(session, command->id);
    return token;
}

/* The op failed and did not end the lease, so the connection holds the job again. */
static void restore_lease(struct request *request, uint64_t id, uint64_t token)
{
    if (bi_request_keeps_lease(request) &&
        !bi_session_add_lease(&request->conn->session, id, token, request->lease_end,
                              request->has_retry_limit))
        /* Without memory nothing would release it when the connection closes. */
        bi_release_lease(request->base.server, id, token, false);
}

static bool is_token(const struct command *command)
{
    return !command->leased || command->token <= BIDE_ID_MAX;
}

/* Returns NULL after replying NOT_FOUND or OUT_OF_MEMORY. */
static struct request *new_job_request(struct beanstalk_conn *conn, const struct command *command,
                                       bide_op_kind kind, bool (*reply)(struct request *request))
{
    if (!bi_beanstalk_verb_is_id(command->id) || !is_token(command)) {
        bi_request_reply(conn, "NOT_FOUND\r\n");
        return NULL;
    }

    struct request *request = bi_beanstalk_verb_new_request(conn, kind, reply);
    if (request != NULL)
        request->extended = command->leased;
    return request;
}

/* The same for verbs that only the holder of the job may use. */
static struct request *new_holder_request(struct beanstalk_conn *conn,
                                          const struct command *command, bide_op_kind kind,
                                          bool (*reply)(struct request *request), uint64_t *token)
{
    struct request *request = new_job_request(conn, command, kind, reply);
    if (request == NULL)
        return NULL;

    *token = take_lease(request, command);
    if (*token != 0)
        return request;

    bi_request_free(request);
    bi_request_reply(conn, "NOT_FOUND\r\n");
    return NULL;
}

/* ---- delete, release, bury ---- */

bool bi_beanstalk_finish_retry_delete(struct request *request)
{
    if (request->op.kind != BIDE_OP_DELETE || request->op.status != BIDE_LEASE_LOST ||
        request->leased || request->op.lease.token == 0)
        return false;

    request->op.lease.token = 0;
    bi_request_submit(request);
    return true;
}

static bool reply_delete(struct request *request)
{
    if (bi_beanstalk_finish_retry_delete(request))
        return false;

    restore_lease(request, request->op.lease.id, request->op.lease.token);
    return bi_beanstalk_verb_reply_or_reject(request, "DELETED\r\n");
}

void bi_beanstalk_finish_delete(struct beanstalk_conn *conn, const struct command *command)
{
    struct request *request = new_job_request(conn, command, BIDE_OP_DELETE, reply_delete);
    if (request == NULL)
        return;

    request->op.lease = (bide_lease_args){command->id, take_lease(request, command)};
    bi_request_enqueue(request);
}

static bool reply_release(struct request *request)
{
    restore_lease(request, request->op.release.id, request->op.release.token);
    return bi_beanstalk_verb_reply_or_reject(request, "RELEASED\r\n");
}

void bi_beanstalk_finish_release(struct beanstalk_conn *conn, const struct command *command)
{
    uint64_t token;
    struct request *request =
        new_holder_request(conn, command, BIDE_OP_RELEASE, reply_release, &token);
    if (request == NULL)
        return;

    request->op.release =
        (bide_release_args){command->id, token, command->priority, command->delay_ms};
    bi_request_enqueue(request);
}

static bool reply_bury(struct request *request)
{
    restore_lease(request, request->op.bury.id, request->op.bury.token);
    return bi_beanstalk_verb_reply_or_reject(request, "BURIED\r\n");
}

void bi_beanstalk_finish_bury(struct beanstalk_conn *conn, const struct command *command)
{
    uint64_t token;
    struct request *request = new_holder_request(conn, command, BIDE_OP_BURY, reply_bury, &token);
    if (request == NULL)
        return;

    request->op.bury =
        (bide_bury_args){.id = command->id, .token = token, .priority = command->priority};
    bi_request_enqueue(request);
}

/* ---- touch ---- */

void bi_beanstalk_finish_on_touched(struct request *request)
{
    const bide_touch_item *touch = &request->op.touch;
    struct session *session = &request->conn->session;
    int status = request->op.status;

    if (request->leased)
        return;

    if (status == BIDE_OK || status == BIDE_CANCEL_WANTED)
        bi_session_end_touch(session, touch->id, request->completed_at + touch->left_ms * 1000);
    else if (status == BIDE_LEASE_LOST || status == BIDE_NOT_FOUND)
        bi_session_remove_lease(session, touch->id);
    else /* not touched, but the lease may still be valid until its old deadline */
        bi_session_end_touch(session, touch->id, 0);
}

static bool reply_touch(struct request *request)
{
    int status = request->op.status;
    if (status != BIDE_OK && status != BIDE_CANCEL_WANTED)
        return bi_beanstalk_verb_reject(request);

    /* beanstalkd has one reply only. */
    bool cancel_wanted = request->leased && status == BIDE_CANCEL_WANTED;
    bi_output_text(&request->conn->base.output,
                   cancel_wanted ? "CANCEL_WANTED\r\n" : "TOUCHED\r\n");
    return true;
}

void bi_beanstalk_finish_touch(struct beanstalk_conn *conn, const struct command *command)
{
    const struct lease *lease = bi_session_find_lease(&conn->session, command->id);
    uint64_t token = command->leased ? command->token : lease == NULL ? 0 : lease->token;
    struct request *request =
        token == 0 ? NULL : new_job_request(conn, command, BIDE_OP_TOUCH, reply_touch);

    if (token == 0)
        bi_request_reply(conn, "NOT_FOUND\r\n");
    if (request == NULL)
        return;

    request->leased = command->leased;
    /* While the touch is pending, the session must not drop the lease at its old deadline. */
    if (!command->leased)
        bi_session_begin_touch(&conn->session, command->id);
    request->op.touch = (bide_touch_item){.id = command->id, .token = token};
    bi_request_enqueue(request);
}

/* ---- done, fail ---- */

/* done and fail are allowed without a lease for jobs that are not reserved; the token is 0 then. */

static bool reply_done(struct request *request)
{
    restore_lease(request, request->op.finish.id, request->op.finish.token);
    return bi_beanstalk_verb_reply_or_reject(request, "DONE\r\n");
}

void bi_beanstalk_finish_done(struct beanstalk_conn *conn, const struct command *command)
{
    struct request *request = new_job_request(conn, command, BIDE_OP_DONE, reply_done);
    if (request == NULL)
        return;

    request->extended = true;
    request->op.finish = (bide_finish_item){.id = command->id,
                                            .token = take_lease(request, command),
                                            .keep = true,
                                            .result = command->body,
                                            .buf = command->buf,
                                            .retain_ms = command->retain_ms};
    request->base.bytes = command->body.size;
    bi_request_enqueue(request);
    bi_batch_flush(conn->base.server); /* a large body is released when this returns */
}

static bool reply_fail(struct request *request)
{
    const bide_fail_args *fail = &request->op.fail;
    struct output *output = &request->conn->base.output;

    restore_lease(request, fail->id, fail->token);
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_verb_reject(request);

    if (fail->state == BIDE_STATE_BURIED)
        bi_output_text(output, "BURIED\r\n");
    else if (fail->state == BIDE_STATE_GONE)
        bi_output_text(output, "DELETED\r\n");
    else
        bi_output_format(output, "RETRY %lld\r\n", (long long)fail->delay_ms);
    return true;
}

void bi_beanstalk_finish_fail(struct beanstalk_conn *conn, const struct command *command)
{
    struct request *request = new_job_request(conn, command, BIDE_OP_FAIL, reply_fail);
    if (request == NULL)
        return;

    request->extended = true;
    request->op.fail = (bide_fail_args){.id = command->id,
                                        .token = take_lease(request, command),
                                        .error = command->body,
                                        .retry_in_ms = command->delay_ms};
    request->base.bytes = command->body.size;
    bi_request_enqueue(request);
    bi_batch_flush(conn->base.server); /* a large body is released when this returns */
}
