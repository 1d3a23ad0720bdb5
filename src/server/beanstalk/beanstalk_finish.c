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

#include <stddef.h>

/* The arguments of all ops that end a lease begin with its id and token: op->lease reads them, here
 * and in request.c. */
#define IS_LEASE(type) (offsetof(type, id) == 0 && offsetof(type, token) == sizeof(uint64_t))
_Static_assert(IS_LEASE(bide_lease_args) && IS_LEASE(bide_release_args) &&
                   IS_LEASE(bide_bury_args) && IS_LEASE(bide_finish_item) &&
                   IS_LEASE(bide_fail_args) && offsetof(bide_finish_and_put_args, finish) == 0,
               "id and token come first");

uint64_t bi_beanstalk_finish_take_lease(struct request *request, const struct command *command)
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

/* ---- verbs that end a lease ---- */

bool bi_beanstalk_finish_retry_delete(struct request *request)
{
    if (request->op.kind != BIDE_OP_DELETE || request->op.status != BIDE_LEASE_LOST ||
        request->leased || request->op.lease.token == 0)
        return false;

    request->op.lease.token = 0;
    bi_request_submit(request);
    return true;
}

void bi_beanstalk_finish_keep_lease(struct request *request)
{
    const bide_lease_args *lease = &request->op.lease;

    if (bi_request_keeps_lease(request) &&
        !bi_session_add_lease(&request->conn->session, lease->id, lease->token, request->lease_end,
                              request->has_retry_limit))
        /* Without memory nothing would release it when the connection closes. */
        bi_release_lease(request->base.server, lease->id, lease->token, false);
}

static bool reply_finish(struct request *request)
{
    if (bi_beanstalk_finish_retry_delete(request))
        return false;
    bi_beanstalk_finish_keep_lease(request);
    return bi_beanstalk_verb_reply(request);
}

const char *bi_beanstalk_finish_delete(struct request *request, const struct command *command)
{
    request->reply = reply_finish;
    request->op.lease =
        (bide_lease_args){command->id, bi_beanstalk_finish_take_lease(request, command)};
    return NULL;
}

const char *bi_beanstalk_finish_release(struct request *request, const struct command *command)
{
    uint64_t token = bi_beanstalk_finish_take_lease(request, command);

    request->reply = reply_finish;
    request->op.release =
        (bide_release_args){command->id, token, command->priority, command->delay_ms};
    return token == 0 ? "NOT_FOUND\r\n" : NULL;
}

const char *bi_beanstalk_finish_bury(struct request *request, const struct command *command)
{
    uint64_t token = bi_beanstalk_finish_take_lease(request, command);

    request->reply = reply_finish;
    request->op.bury =
        (bide_bury_args){.id = command->id, .token = token, .priority = command->priority};
    return token == 0 ? "NOT_FOUND\r\n" : NULL;
}

/* done and fail are allowed without a lease for jobs that are not reserved; the token is 0 then. */

const char *bi_beanstalk_finish_done(struct request *request, const struct command *command)
{
    request->reply = reply_finish;
    request->op.finish =
        (bide_finish_item){.id = command->id,
                           .token = bi_beanstalk_finish_take_lease(request, command),
                           .keep = true,
                           .result = command->body,
                           .buf = command->buf,
                           .retain_ms = command->retain_ms};
    return NULL;
}

static void write_failed(struct request *request)
{
    const bide_fail_args *fail = &request->op.fail;
    struct output *output = &request->conn->base.output;

    if (fail->state == BIDE_STATE_BURIED)
        bi_output_text(output, "BURIED\r\n");
    else if (fail->state == BIDE_STATE_GONE)
        bi_output_text(output, "DELETED\r\n");
    else
        bi_output_format(output, "RETRY %lld\r\n", (long long)fail->delay_ms);
}

const char *bi_beanstalk_finish_fail(struct request *request, const struct command *command)
{
    request->reply = reply_finish;
    request->write = write_failed;
    request->op.fail = (bide_fail_args){.id = command->id,
                                        .token = bi_beanstalk_finish_take_lease(request, command),
                                        .error = command->body,
                                        .retry_in_ms = command->delay_ms};
    return NULL;
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

const char *bi_beanstalk_finish_touch(struct request *request, const struct command *command)
{
    struct session *session = &request->conn->session;
    const struct lease *lease = bi_session_find_lease(session, command->id);
    uint64_t token = command->leased ? command->token : lease == NULL ? 0 : lease->token;

    if (token == 0)
        return "NOT_FOUND\r\n";
    request->reply = reply_touch;
    request->leased = command->leased;
    request->op.touch = (bide_touch_item){.id = command->id, .token = token};
    /* While the touch is pending, the session must not drop the lease at its old deadline. */
    if (!command->leased)
        bi_session_begin_touch(session, command->id);
    return NULL;
}
