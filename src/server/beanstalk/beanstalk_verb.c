/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_verb - the table of verbs: each command becomes an op, its status becomes a reply.
 *
 * A handler creates a request, fills in its op and enqueues it. The request's reply function writes
 * the reply when all earlier replies of the connection have been written. The session maps the id
 * of a job to its token; the queue decides whether the token is still valid.
 *
 * Ordering   Ops gather in one batch for all connections and borrow names and bodies until it is
 *            submitted. A verb that changes what they borrow has the flag FLUSH_FIRST.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_LOG_US INT64_C(10000000)  /* between two log lines about rejected commands */
#define ERROR_READ   ((size_t)64 << 10) /* bytes of an error text read at least */

/* ---- errors ---- */

/* classic: the replies that clients of beanstalkd know; extended: for verbs that bide adds. */
static const struct {
    int code;
    const char *classic;
    const char *extended;
} error_replies[] = {
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

const char *bi_beanstalk_verb_error_reply(const struct request *request)
{
    for (size_t i = 0; i < sizeof(error_replies) / sizeof(error_replies[0]); i++)
        if (error_replies[i].code == request->op.status)
            return request->extended ? error_replies[i].extended : error_replies[i].classic;
    return "INTERNAL_ERROR\r\n";
}

/* Several causes share the reply OUT_OF_MEMORY; the log tells the operator which one it was. */
void bi_beanstalk_verb_log_limit(struct beanstalk *beanstalk, const char *reply, const char *detail)
{
    const struct server *server = beanstalk->server;
    if (server->now < beanstalk->limit_log_at)
        return;

    beanstalk->limit_log_at = server->now + LIMIT_LOG_US;
    bi_log(&server->log, BIDE_LOG_WARN, "command rejected with %.*s: %s", (int)strcspn(reply, "\r"),
           reply, detail);
}

static bool is_limit(int status)
{
    return status == BIDE_TOPIC_FULL || status == BIDE_TOO_MANY_TOPICS ||
           status == BIDE_TOO_MANY_WAITERS || status == BIDE_EFULL || status == BIDE_ENOMEM ||
           status == BIDE_EBUSY || status == BIDE_EIO || status == BIDE_EUNKNOWN;
}

bool bi_beanstalk_verb_reject(struct request *request)
{
    if (request->op.status == BIDE_CANCELLED && request->cancel_reason == CANCEL_CLOSING)
        return true; /* the server stops: the connection closes without a reply */

    if (is_limit(request->op.status))
        bi_beanstalk_verb_log_limit(request->beanstalk, bi_beanstalk_verb_error_reply(request),
                                    request->op.error[0] != 0 ? request->op.error
                                                              : bide_code_text(request->op.status));

    bi_output_text(&request->conn->base.output, bi_beanstalk_verb_error_reply(request));
    return true;
}

bool bi_beanstalk_verb_reply_or_reject(struct request *request, const char *word)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_verb_reject(request);
    bi_output_text(&request->conn->base.output, word);
    return true;
}

struct request *bi_beanstalk_verb_new_request(struct beanstalk_conn *conn, bide_op_kind kind,
                                              bool (*reply)(struct request *request))
{
    struct request *request = bi_request_new(conn->beanstalk, conn, kind, reply);
    if (request == NULL)
        bi_request_reply(conn, "OUT_OF_MEMORY\r\n");
    return request;
}

void bi_beanstalk_verb_set_producer(struct beanstalk_conn *conn)
{
    conn->beanstalk->producers += !conn->producer;
    conn->producer = true;
}

void bi_beanstalk_verb_set_worker(struct beanstalk_conn *conn)
{
    conn->beanstalk->workers += !conn->worker;
    conn->worker = true;
}

static void quit(struct beanstalk_conn *conn, const struct command *command)
{
    (void)command;
    conn->base.quit = true;
    bi_schedule_mark_dirty(&conn->base);
}

static void authenticate(struct beanstalk_conn *conn, const struct command *command)
{
    bi_admission_authenticate(&conn->base, command->name);
}

/* ---- the table ---- */

enum {
    SPECULATIVE = 1, /* consecutive reserves may be tried in one batch */
    FLUSH_FIRST = 2, /* submit the batch first: the verb changes or reads what its ops refer to */
    NEEDS_LEASE = 4, /* takes the token of the job from the session */
    STORES = 8,      /* its reply may wait for a commit */
};

static const struct {
    void (*handle)(struct beanstalk_conn *conn, const struct command *command);
    unsigned flags;
} verbs[VERB_COUNT] = {
    [VERB_PUT] = {bi_beanstalk_jobs_put, STORES},
    [VERB_RESERVE] = {bi_beanstalk_jobs_reserve, SPECULATIVE | STORES},
    [VERB_RESERVE_WITH_TIMEOUT] = {bi_beanstalk_jobs_reserve, SPECULATIVE | STORES},
    [VERB_RESERVE_JOB] = {bi_beanstalk_jobs_reserve_job, STORES},
    [VERB_DELETE] = {bi_beanstalk_finish_delete, NEEDS_LEASE | STORES},
    [VERB_RELEASE] = {bi_beanstalk_finish_release, NEEDS_LEASE | STORES},
    [VERB_BURY] = {bi_beanstalk_finish_bury, NEEDS_LEASE | STORES},
    [VERB_TOUCH] = {bi_beanstalk_finish_touch, NEEDS_LEASE | STORES},
    [VERB_DONE] = {bi_beanstalk_finish_done, NEEDS_LEASE | STORES},
    [VERB_FAIL] = {bi_beanstalk_finish_fail, NEEDS_LEASE | STORES},
    [VERB_PEEK] = {bi_beanstalk_jobs_peek, 0},
    [VERB_PEEK_READY] = {bi_beanstalk_jobs_peek, 0},
    [VERB_PEEK_DELAYED] = {bi_beanstalk_jobs_peek, 0},
    [VERB_PEEK_BURIED] = {bi_beanstalk_jobs_peek, 0},
    [VERB_KICK] = {bi_beanstalk_jobs_kick, STORES},
    [VERB_KICK_JOB] = {bi_beanstalk_jobs_kick_job, STORES},
    [VERB_USE] = {bi_beanstalk_tube_use, FLUSH_FIRST},
    [VERB_WATCH] = {bi_beanstalk_tube_watch, FLUSH_FIRST},
    [VERB_IGNORE] = {bi_beanstalk_tube_ignore, FLUSH_FIRST},
    [VERB_LIST_TUBE_USED] = {bi_beanstalk_tube_list_used, FLUSH_FIRST},
    [VERB_PAUSE_TUBE] = {bi_beanstalk_tube_pause, STORES},
    [VERB_QUIT] = {quit, FLUSH_FIRST},
    [VERB_STATS] = {bi_beanstalk_stats_server, FLUSH_FIRST},
    [VERB_STATS_JOB] = {bi_beanstalk_stats_job, 0},
    [VERB_STATS_TUBE] = {bi_beanstalk_stats_tube, FLUSH_FIRST},
    [VERB_LIST_TUBES] = {bi_beanstalk_stats_list_tubes, 0},
    [VERB_LIST_TUBES_WATCHED] = {bi_beanstalk_stats_list_watched, FLUSH_FIRST},
    [VERB_PUT_MANY] = {bi_beanstalk_ext_put_many, FLUSH_FIRST | STORES},
    [VERB_RESERVE_MANY] = {bi_beanstalk_ext_reserve_many, FLUSH_FIRST | STORES},
    [VERB_RESULT] = {bi_beanstalk_ext_result, 0},
    [VERB_UPDATE] = {bi_beanstalk_ext_update, FLUSH_FIRST | STORES},
    [VERB_CANCEL] = {bi_beanstalk_ext_cancel, STORES},
    [VERB_LIST_JOBS] = {bi_beanstalk_stats_list_jobs, FLUSH_FIRST},
    [VERB_PURGE_TUBE] = {bi_beanstalk_ext_purge, FLUSH_FIRST | STORES},
    [VERB_AUTH] = {authenticate, FLUSH_FIRST},
    [VERB_CALL] = {bi_rpc_call, STORES},
    [VERB_CALL_CANCEL] = {bi_rpc_cancel, 0},
};

size_t bi_beanstalk_verb_body_max(const struct server *server, enum verb verb)
{
    size_t list = BIDE_BATCH_BYTES + (size_t)BIDE_BATCH_JOBS * LINE_MAX_EXTENDED;
    size_t single = server->max_job_size + LINE_MAX_EXTENDED;

    switch (verb) {
    case VERB_PUT:
        return server->max_job_size;
    case VERB_DONE:
        return server->max_result_size;
    case VERB_FAIL:
        /* The queue truncates the text. Rejecting the command would lose the failure. */
        return server->max_error_size > ERROR_READ ? server->max_error_size : ERROR_READ;
    case VERB_PUT_MANY:
        return list > single ? list : single;
    default:
        /* call: an encoded put_many has more than its bodies. */
        return 2 * (list > single ? list : single);
    }
}

/*
 * True if the job of the command may belong to a reserve that is applied but waits for its commit.
 * The session learns of that lease only when the reserve replies. The command waits until then;
 * NOT_FOUND would be wrong, since beanstalkd would have replied to the reserve first.
 */
static bool names_unreplied_job(const struct beanstalk_conn *conn, const struct command *command)
{
    if (conn->applied == 0 || command->leased)
        return false;

    const struct lease *lease = bi_session_find_lease(&conn->session, command->id);
    /* An expired lease may have been reserved again, by this connection, with a new token. */
    return lease == NULL || bi_session_lease_end(&conn->session, lease) <= conn->base.server->now;
}

bool bi_beanstalk_verb_may_execute(struct beanstalk_conn *conn, const struct command *command,
                                   bool understood)
{
    unsigned flags = command->verb < VERB_COUNT ? verbs[command->verb].flags : 0;

    if (command->verb == VERB_AUTH && !bi_admission_may_authenticate(&conn->base))
        return false;
    /* A batched reserve blocks the commands behind it, other reserves aside. Submit it now: if it
     * completes at once, this command can be executed. */
    if (conn->base.load.speculative == 0 ? (flags & FLUSH_FIRST) != 0 : (flags & SPECULATIVE) == 0)
        bi_batch_flush(conn->base.server);

    /* With too many uncommitted changes, a connection that sends many commands waits; commands that
     * do not need the disk still go through. */
    conn->base.deferred = conn->base.may_defer && (flags & STORES) != 0;
    /* Reserves still in the batch do not block another reserve. Any other blocking request does. */
    if (conn->base.load.blocking > conn->base.load.speculative || conn->base.deferred)
        return false;

    conn->base.blocked =
        understood && (flags & NEEDS_LEASE) != 0 && names_unreplied_job(conn, command);
    return !conn->base.blocked;
}

void bi_beanstalk_verb_execute(struct beanstalk_conn *conn, const struct command *command)
{
    assert(verbs[command->verb].handle != NULL);
    verbs[command->verb].handle(conn, command);
}
