/* SPDX-License-Identifier: MIT */
/*
 * beanstalk - the verbs of beanstalkd: each becomes an op, and its outcome becomes a reply.
 *
 * A handler makes a request and asks; answer_...() says what came of it. The session tells a job's
 * token; whether it is still good the queue decides.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TELL_US INT64_C(10000000) /* between two words about refusals */

/* ---- refusals ---- */

/* What old clients know, and what is said to verbs that they do not have. */
static const struct {
    int code;
    const char *old;
    const char *modern;
} refusals[] = {
    {BIDE_NOT_FOUND, "NOT_FOUND\r\n", "NOT_FOUND\r\n"},
    {BIDE_TIMED_OUT, "TIMED_OUT\r\n", "TIMED_OUT\r\n"},
    {BIDE_CANCELLED, "TIMED_OUT\r\n", "TIMED_OUT\r\n"},
    {BIDE_RESERVED, "NOT_FOUND\r\n", "NOT_FOUND\r\n"},
    {BIDE_LEASE_LOST, "NOT_FOUND\r\n", "LEASE_LOST\r\n"},
    {BIDE_WRONG_STATE, "NOT_FOUND\r\n", "WRONG_STATE\r\n"},
    {BIDE_TOUCH_LIMIT, "TOUCH_LIMIT\r\n", "TOUCH_LIMIT\r\n"},
    {BIDE_EXISTS, "EXISTS\r\n", "EXISTS\r\n"},
    {BIDE_TOO_BIG, "JOB_TOO_BIG\r\n", "JOB_TOO_BIG\r\n"},
    {BIDE_DRAINING, "DRAINING\r\n", "DRAINING\r\n"},
    {BIDE_TOPIC_FULL, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_TOO_MANY_TOPICS, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_TOO_MANY_WAITERS, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_EFULL, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_ENOMEM, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_EBUSY, "OUT_OF_MEMORY\r\n", "OUT_OF_MEMORY\r\n"},
    {BIDE_EINVAL, "BAD_FORMAT\r\n", "BAD_FORMAT\r\n"},
};

const char *bi_beanstalk_refusal(const struct request *request)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (refusals[i].code == request->op.status)
            return request->modern ? refusals[i].modern : refusals[i].old;
    return "INTERNAL_ERROR\r\n";
}

/* An operator must be able to tell one OUT_OF_MEMORY from another. */
void bi_beanstalk_tell_limit(struct server *server, const char *reply, const char *why)
{
    if (server->now < server->told_at)
        return;
    server->told_at = server->now + TELL_US;
    bi_log(&server->log, BIDE_LOG_WARN, "a client was answered %.*s: %s", (int)strcspn(reply, "\r"),
           reply, why);
}

static bool is_limit(int status)
{
    return status == BIDE_TOPIC_FULL || status == BIDE_TOO_MANY_TOPICS ||
           status == BIDE_TOO_MANY_WAITERS || status == BIDE_EFULL || status == BIDE_ENOMEM ||
           status == BIDE_EBUSY || status == BIDE_EIO || status == BIDE_EUNKNOWN;
}

bool bi_beanstalk_refuse(struct request *request)
{
    if (request->op.status == BIDE_CANCELLED && request->why == WHY_GONE)
        return true; /* the server stops, which no reply says */
    if (is_limit(request->op.status))
        bi_beanstalk_tell_limit(request->server, bi_beanstalk_refusal(request),
                                request->op.error[0] != 0 ? request->op.error
                                                          : bide_code_text(request->op.status));
    bi_output_text(&request->conn->output, bi_beanstalk_refusal(request));
    return true;
}

bool bi_beanstalk_say_or_refuse(struct request *request, const char *word)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_text(&request->conn->output, word);
    return true;
}

struct request *bi_beanstalk_ask(struct conn *conn, bide_op_kind kind,
                                 bool (*answer)(struct request *request))
{
    struct request *request = bi_request_new(conn->server, conn, kind, answer);
    if (request == NULL)
        bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
    return request;
}

void bi_beanstalk_produces(struct conn *conn)
{
    conn->server->producers += !conn->producer;
    conn->producer = true;
}

void bi_beanstalk_works(struct conn *conn)
{
    conn->server->workers += !conn->worker;
    conn->worker = true;
}

static void quit(struct conn *conn, const struct command *command)
{
    (void)command;
    conn->quit = true;
    bi_server_mark(conn);
}

/* ---- the table ---- */

enum {
    RUN = 1,    /* reserves in a row may be tried together */
    ALONE = 2,  /* what is in the batch goes first: it changes what that points to */
    HOLDER = 4, /* asks the session for the token of the job */
    STORES = 8, /* its answer may wait for the disk */
};

static const struct {
    void (*handle)(struct conn *conn, const struct command *command);
    unsigned flags;
} verbs[VERB_COUNT] = {
    [VERB_PUT] = {bi_beanstalk_put, STORES},
    [VERB_RESERVE] = {bi_beanstalk_reserve, RUN | STORES},
    [VERB_RESERVE_WITH_TIMEOUT] = {bi_beanstalk_reserve, RUN | STORES},
    [VERB_RESERVE_JOB] = {bi_beanstalk_reserve_job, STORES},
    [VERB_DELETE] = {bi_beanstalk_delete, HOLDER | STORES},
    [VERB_RELEASE] = {bi_beanstalk_release, HOLDER | STORES},
    [VERB_BURY] = {bi_beanstalk_bury, HOLDER | STORES},
    [VERB_TOUCH] = {bi_beanstalk_touch, HOLDER | STORES},
    [VERB_DONE] = {bi_beanstalk_done, HOLDER | STORES},
    [VERB_FAIL] = {bi_beanstalk_fail, HOLDER | STORES},
    [VERB_PEEK] = {bi_beanstalk_peek, 0},
    [VERB_PEEK_READY] = {bi_beanstalk_peek, 0},
    [VERB_PEEK_DELAYED] = {bi_beanstalk_peek, 0},
    [VERB_PEEK_BURIED] = {bi_beanstalk_peek, 0},
    [VERB_KICK] = {bi_beanstalk_kick, STORES},
    [VERB_KICK_JOB] = {bi_beanstalk_kick_job, STORES},
    [VERB_USE] = {bi_beanstalk_use, ALONE},
    [VERB_WATCH] = {bi_beanstalk_watch, ALONE},
    [VERB_IGNORE] = {bi_beanstalk_ignore, ALONE},
    [VERB_LIST_TUBE_USED] = {bi_beanstalk_list_used, ALONE},
    [VERB_PAUSE_TUBE] = {bi_beanstalk_pause, STORES},
    [VERB_QUIT] = {quit, ALONE},
    [VERB_STATS] = {bi_beanstalk_stats, ALONE},
    [VERB_STATS_JOB] = {bi_beanstalk_stats_job, 0},
    [VERB_STATS_TUBE] = {bi_beanstalk_stats_tube, ALONE},
    [VERB_LIST_TUBES] = {bi_beanstalk_list_tubes, 0},
    [VERB_LIST_TUBES_WATCHED] = {bi_beanstalk_list_watched, ALONE},
    [VERB_PUT_MANY] = {bi_beanstalk_put_many, ALONE | STORES},
    [VERB_RESERVE_MANY] = {bi_beanstalk_reserve_many, ALONE | STORES},
    [VERB_RESULT] = {bi_beanstalk_result, 0},
    [VERB_UPDATE] = {bi_beanstalk_update, ALONE | STORES},
    [VERB_CANCEL] = {bi_beanstalk_cancel, STORES},
    [VERB_LIST_JOBS] = {bi_beanstalk_list_jobs, ALONE},
    [VERB_PURGE_TUBE] = {bi_beanstalk_purge, ALONE | STORES},
    [VERB_AUTH] = {bi_beanstalk_auth, ALONE},
    [VERB_CALL] = {bi_beanstalk_call, STORES},
    [VERB_CALL_CANCEL] = {bi_beanstalk_call_cancel, 0},
};

size_t bi_beanstalk_body_max(const struct server *server, enum verb verb)
{
    size_t list = BIDE_BATCH_BYTES + (size_t)BIDE_BATCH_JOBS * LINE_MAX_MORE;
    size_t single = server->max_job_size + LINE_MAX_MORE;
    switch (verb) {
    case VERB_PUT:
        return server->max_job_size;
    case VERB_DONE:
        return server->max_result_size;
    case VERB_FAIL:
        return 65536;
    case VERB_PUT_MANY:
        return list > single ? list : single;
    default:
        return 2 * (list > single ? list : single);
    }
}

/*
 * May a reserve whose answer is held have taken the job that the command names? The session learns
 * of it when that reserve is answered; the command waits until then, as it would on beanstalkd.
 */
static bool names_unanswered(const struct conn *conn, const struct command *command)
{
    if (conn->applied == 0 || command->leased)
        return false;
    const struct held *held = bi_session_find(&conn->session, command->id);
    return held == NULL || bi_session_end(&conn->session, held) <= conn->server->now;
}

bool bi_beanstalk_may(struct conn *conn, const struct command *command)
{
    unsigned flags = command->verb < VERB_COUNT ? verbs[command->verb].flags : 0;
    if (command->verb == VERB_AUTH && !bi_admit_may_try(conn))
        return false;
    if (conn->trying == 0 ? (flags & ALONE) != 0 : (flags & RUN) == 0)
        bi_server_flush(conn->server);
    conn->deferred = conn->may_defer && (flags & STORES) != 0;
    if (conn->blocked > conn->trying || conn->deferred)
        return false;
    conn->stalled = (flags & HOLDER) != 0 && names_unanswered(conn, command);
    return !conn->stalled;
}

void bi_beanstalk_execute(struct conn *conn, const struct command *command)
{
    assert(verbs[command->verb].handle != NULL);
    verbs[command->verb].handle(conn, command);
}
