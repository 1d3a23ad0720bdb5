/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_verb - the table of verbs: each command becomes an op, its status becomes a reply.
 *
 * A row creates a request, and its function fills in the op. The request's reply function writes
 * the reply when all earlier replies of the connection have been written. The session maps the id
 * of a job to its token; the queue decides whether the token is still valid.
 *
 * Ordering   Ops gather in one batch for all connections and borrow names and bodies until it is
 *            submitted. A verb that changes what they borrow has the flag FLUSH_FIRST.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <bide/schedule.h>
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
    {BIDE_LIMITED, "NOT_FOUND\r\n", "NOT_FOUND\r\n"},
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

bool bi_beanstalk_verb_reply(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_verb_reject(request);
    if (request->write != NULL)
        request->write(request);
    else
        bi_output_text(&request->conn->base.output, request->text);
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
    bi_fair_queue_mark_dirty(&conn->base);
}

static void authenticate(struct beanstalk_conn *conn, const struct command *command)
{
    bi_admission_authenticate(&conn->base, command->name);
}

/* ---- the table ---- */

enum {
    SPECULATIVE = 1, /* consecutive reserves may be tried in one batch */
    FLUSH_FIRST = 2, /* submit the batch first: the verb changes or reads what its ops refer to */
    FLUSH_AFTER = 4, /* submit it at once: the op borrows from the command */
    NEEDS_LEASE = 8, /* takes the token of the job from the session */
    STORES = 16,     /* its reply may wait for a commit */
    BLOCKS = 32,     /* no command behind it executes before it is applied */
    JOB_ID = 64,     /* names a job by its id */
    JOB_BODY = 128,  /* replies with the body of a job */
    EXTENDED_ERRORS = 256, /* errors have the words of the extensions */
    ON_LEASE = JOB_ID | NEEDS_LEASE | STORES,
    SCHEDULE = STORES | BLOCKS | JOB_BODY | EXTENDED_ERRORS,
};

/* A verb that has no handle() makes a request of this kind, and fill() its op. */
static const struct {
    bide_op_kind kind;
    verb_fill *fill;
    verb_handle *handle;
    unsigned flags;
    const char *done; /* the reply if the op succeeds; NULL: the request writes its own */
} verbs[VERB_COUNT] = {
#define REQUEST(name, kind, fill, flags, done) \
    [VERB_##name] = {BIDE_OP_##kind, bi_beanstalk_##fill, NULL, flags, done}
#define HANDLE(name, handle, flags) [VERB_##name] = {BIDE_OP_NONE, NULL, handle, flags, NULL}
    REQUEST(PUT, PUT, jobs_put, STORES, NULL),
    REQUEST(RESERVE, RESERVE, jobs_reserve, SPECULATIVE | STORES | BLOCKS | JOB_BODY, NULL),
    REQUEST(RESERVE_WITH_TIMEOUT, RESERVE, jobs_reserve, SPECULATIVE | STORES | BLOCKS | JOB_BODY,
            NULL),
    REQUEST(RESERVE_JOB, RESERVE_JOB, jobs_reserve_job, STORES | BLOCKS | JOB_ID | JOB_BODY, NULL),
    REQUEST(DELETE, DELETE, finish_delete, ON_LEASE, "DELETED\r\n"),
    REQUEST(RELEASE, RELEASE, finish_release, ON_LEASE, "RELEASED\r\n"),
    REQUEST(BURY, BURY, finish_bury, ON_LEASE, "BURIED\r\n"),
    REQUEST(TOUCH, TOUCH, finish_touch, ON_LEASE, NULL),
    REQUEST(DONE, DONE, finish_done, ON_LEASE | EXTENDED_ERRORS, "DONE\r\n"),
    REQUEST(FAIL, FAIL, finish_fail, ON_LEASE | EXTENDED_ERRORS, NULL),
    REQUEST(PEEK, PEEK, jobs_peek, JOB_ID | JOB_BODY, NULL),
    REQUEST(PEEK_READY, PEEK_FIRST, jobs_peek, JOB_BODY, NULL),
    REQUEST(PEEK_DELAYED, PEEK_FIRST, jobs_peek, JOB_BODY, NULL),
    REQUEST(PEEK_BURIED, PEEK_FIRST, jobs_peek, JOB_BODY, NULL),
    REQUEST(KICK, KICK, jobs_kick, STORES | BLOCKS, NULL),
    REQUEST(KICK_JOB, KICK_JOB, jobs_by_id, STORES | JOB_ID, "KICKED\r\n"),
    HANDLE(USE, bi_beanstalk_tube_use, FLUSH_FIRST),
    HANDLE(WATCH, bi_beanstalk_tube_watch, FLUSH_FIRST),
    HANDLE(IGNORE, bi_beanstalk_tube_ignore, FLUSH_FIRST),
    HANDLE(LIST_TUBE_USED, bi_beanstalk_tube_list_used, FLUSH_FIRST),
    REQUEST(PAUSE_TUBE, TOPIC_STATS, tube_pause, STORES | BLOCKS, "PAUSED\r\n"),
    HANDLE(QUIT, quit, FLUSH_FIRST),
    REQUEST(STATS, STATS, stats_server, FLUSH_FIRST | BLOCKS, NULL),
    REQUEST(STATS_JOB, JOB_STATS, stats_job, JOB_ID, NULL),
    REQUEST(STATS_TUBE, TOPIC_STATS, stats_tube, FLUSH_FIRST | BLOCKS, NULL),
    REQUEST(LIST_TUBES, TOPICS, stats_list_tubes, BLOCKS, NULL),
    HANDLE(LIST_TUBES_WATCHED, bi_beanstalk_stats_list_watched, FLUSH_FIRST),
    REQUEST(PUT_MANY, PUT_MANY, ext_put_many, FLUSH_FIRST | STORES | EXTENDED_ERRORS, NULL),
    REQUEST(FINISH_AND_PUT, FINISH_AND_PUT, ext_finish_and_put,
            ON_LEASE | FLUSH_FIRST | FLUSH_AFTER | EXTENDED_ERRORS, NULL),
    REQUEST(RESERVE_MANY, RESERVE, ext_reserve_many,
            FLUSH_FIRST | STORES | BLOCKS | EXTENDED_ERRORS, NULL),
    REQUEST(RESULT, RESULT, ext_result, JOB_ID | EXTENDED_ERRORS, NULL),
    REQUEST(UPDATE, UPDATE, ext_update,
            FLUSH_FIRST | FLUSH_AFTER | STORES | JOB_ID | EXTENDED_ERRORS, "UPDATED\r\n"),
    REQUEST(CANCEL, CANCEL, jobs_by_id, STORES | JOB_ID | EXTENDED_ERRORS, "CANCELLED\r\n"),
    REQUEST(LIST_JOBS, LIST, stats_list_jobs, FLUSH_FIRST | FLUSH_AFTER | BLOCKS | EXTENDED_ERRORS,
            NULL),
    REQUEST(PURGE_TUBE, PURGE, ext_purge,
            FLUSH_FIRST | FLUSH_AFTER | STORES | BLOCKS | EXTENDED_ERRORS, NULL),
    HANDLE(CLIENT_NAME, bi_beanstalk_worker_set_name, FLUSH_FIRST),
    REQUEST(TOPIC_SET, TOPIC_SET, ext_topic_set,
            FLUSH_FIRST | FLUSH_AFTER | STORES | BLOCKS | EXTENDED_ERRORS, "SET\r\n"),
    REQUEST(TOPIC_GET, TOPIC_GET, ext_topic_get,
            FLUSH_FIRST | FLUSH_AFTER | STORES | BLOCKS | EXTENDED_ERRORS, NULL),
    REQUEST(ANNOUNCE, ANNOUNCE, worker_announce, EXTENDED_ERRORS, "ANNOUNCED\r\n"),
    REQUEST(WORKERS, WORKERS, worker_list, FLUSH_FIRST | FLUSH_AFTER | EXTENDED_ERRORS, NULL),
    REQUEST(WHY, WHY, worker_why, EXTENDED_ERRORS, NULL),
    REQUEST(WHY_KEY, WHY, worker_why, FLUSH_FIRST | FLUSH_AFTER | EXTENDED_ERRORS, NULL),
    REQUEST(SCHEDULE_SET, FIND, schedule_set, FLUSH_FIRST | SCHEDULE, NULL),
    REQUEST(SCHEDULE_GET, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, NULL),
    REQUEST(SCHEDULE_LIST, LIST, schedule_list, FLUSH_FIRST | FLUSH_AFTER | SCHEDULE, NULL),
    REQUEST(SCHEDULE_REMOVE, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, "REMOVED\r\n"),
    REQUEST(SCHEDULE_PAUSE, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, "PAUSED\r\n"),
    REQUEST(SCHEDULE_RESUME, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, "RESUMED\r\n"),
    REQUEST(SCHEDULE_RUN, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, NULL),
    REQUEST(SCHEDULE_NEXT, FIND, schedule_call, FLUSH_FIRST | SCHEDULE, NULL),
    HANDLE(AUTH, authenticate, FLUSH_FIRST),
    HANDLE(CALL, bi_rpc_call, STORES),
    HANDLE(CALL_CANCEL, bi_rpc_cancel, 0),
#undef REQUEST
#undef HANDLE
};

size_t bi_beanstalk_verb_body_max(const struct server *server, enum verb verb)
{
    size_t list = BIDE_BATCH_BYTES + (size_t)BIDE_BATCH_JOBS * LINE_MAX_EXTENDED;
    size_t single = server->options->max_job_size + LINE_MAX_EXTENDED;

    switch (verb) {
    case VERB_PUT:
        return server->options->max_job_size;
    case VERB_DONE:
        return server->options->max_result_size;
    case VERB_FAIL:
        /* The queue truncates the text. Rejecting the command would lose the failure. */
        return server->options->max_error_size > ERROR_READ ? server->options->max_error_size
                                                            : ERROR_READ;
    case VERB_PUT_MANY:
        return list > single ? list : single;
    case VERB_FINISH_AND_PUT: /* with the CRLF behind the result */
        return (list > single ? list : single) + server->options->max_result_size + 2;
    case VERB_SCHEDULE_SET:
        return 2 * (size_t)BIDE_SCHEDULE_BODY_MAX; /* it may be base64 */
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

/* True if the id, and the token of `lease`, can be those of a job. */
static bool names_job(const struct command *command)
{
    return command->id >= 1 && command->id <= BIDE_ID_MAX &&
           (!command->leased || command->token <= BIDE_ID_MAX);
}

void bi_beanstalk_verb_execute(struct beanstalk_conn *conn, const struct command *command)
{
    unsigned flags = verbs[command->verb].flags;
    assert((verbs[command->verb].fill == NULL) != (verbs[command->verb].handle == NULL));

    if (verbs[command->verb].handle != NULL) {
        verbs[command->verb].handle(conn, command);
        return;
    }
    if ((flags & JOB_ID) != 0 && !names_job(command)) {
        bi_request_reply(conn, "NOT_FOUND\r\n");
        return;
    }

    struct request *request =
        bi_beanstalk_verb_new_request(conn, verbs[command->verb].kind, bi_beanstalk_verb_reply);
    if (request == NULL)
        return;
    request->text = verbs[command->verb].done;
    request->blocking = (flags & BLOCKS) != 0;
    request->speculative = (flags & SPECULATIVE) != 0;
    request->extended = (flags & EXTENDED_ERRORS) != 0 || command->leased;
    request->expected_bytes =
        (flags & JOB_BODY) != 0 ? conn->base.server->options->max_job_size : 0;
    request->base.bytes = command->wants_body ? command->body.size : 0;

    const char *rejected = verbs[command->verb].fill(request, command);
    if (rejected != NULL) {
        bi_request_free(request);
        bi_request_reply(conn, rejected);
        return;
    }

    bi_request_enqueue(request);
    /* The caller drops its reference to a large body when this returns; a batched op holds none. A
     * small body is in the scratch memory, which is reused only after a flush. */
    if ((flags & FLUSH_AFTER) != 0 || (command->wants_body && command->buf != NULL))
        bi_batch_flush(conn->base.server);
}
