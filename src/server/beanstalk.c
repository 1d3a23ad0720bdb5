/* SPDX-License-Identifier: MIT */
/*
 * beanstalk - the verbs of beanstalkd: each becomes an op, and its outcome becomes a reply.
 *
 * A handler makes a request and asks; answer_...() says what came of it. The session tells a job's
 * token; whether it is still good the queue decides.
 */
#include "server/inside.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

bool bi_beanstalk_refuse(struct request *request)
{
    bi_output_text(&request->conn->output, bi_beanstalk_refusal(request));
    return true;
}

/* The outcome is a word, or a refusal. */
static bool say_or_refuse(struct request *request, const char *word)
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

static bool is_id(uint64_t id)
{
    return id >= 1 && id <= BIDE_ID_MAX;
}

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

static void put(struct conn *conn, const struct command *command)
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
    int64_t deadline = bi_clock_boot() + job->left_ms * 1000;
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
    bool waits = request->timeout_ms != 0 && !conn->eof;
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
    if (request->op.status == BIDE_CANCELLED && request->why == WHY_GONE)
        return true;
    if (request->op.status == BIDE_TIMED_OUT && !request->waited)
        return wait_for_job(request);
    return bi_beanstalk_refuse(request);
}

static void reserve(struct conn *conn, const struct command *command)
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

static void reserve_job(struct conn *conn, const struct command *command)
{
    if (!is_id(command->id)) {
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
    return request->lease_end < bi_clock_boot() ? 0 : token;
}

/* What was to end the lease did not happen: it goes on. */
static void restore_lease(struct request *request, uint64_t id, uint64_t token)
{
    if (bi_request_keeps_lease(request))
        bi_session_hold(&request->conn->session, id, token, request->lease_end,
                        request->has_retries);
}

static bool is_token(const struct command *command)
{
    return !command->leased || command->token <= BIDE_ID_MAX;
}

/* A request of who holds the job; NULL: nobody could. */
static struct request *ask_about_job(struct conn *conn, const struct command *command,
                                     bide_op_kind kind, bool (*answer)(struct request *request))
{
    if (!is_id(command->id) || !is_token(command)) {
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
    return say_or_refuse(request, "DELETED\r\n");
}

static void delete_job(struct conn *conn, const struct command *command)
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
    return say_or_refuse(request, "RELEASED\r\n");
}

static void release(struct conn *conn, const struct command *command)
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
    return say_or_refuse(request, "BURIED\r\n");
}

static void bury(struct conn *conn, const struct command *command)
{
    uint64_t token;
    struct request *request = ask_as_holder(conn, command, BIDE_OP_BURY, answer_bury, &token);
    if (request == NULL)
        return;
    request->op.bury =
        (bide_bury_args){.id = command->id, .token = token, .priority = command->priority};
    bi_request_ask(request);
}

static bool answer_touch(struct request *request)
{
    bide_touch_item *touch = &request->op.touch;
    struct session *session = &request->conn->session;
    int status = request->op.status;
    if (status != BIDE_OK && status != BIDE_CANCEL_WANTED) {
        if (!request->leased && (status == BIDE_LEASE_LOST || status == BIDE_NOT_FOUND))
            bi_session_forget(session, touch->id);
        return bi_beanstalk_refuse(request);
    }
    if (!request->leased)
        bi_session_touch(session, touch->id, bi_clock_boot() + touch->left_ms * 1000);
    /* Old clients know only one word. */
    bool to_stop = request->leased && status == BIDE_CANCEL_WANTED;
    bi_output_text(&request->conn->output, to_stop ? "CANCEL_WANTED\r\n" : "TOUCHED\r\n");
    return true;
}

static void touch(struct conn *conn, const struct command *command)
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
    request->op.touch = (bide_touch_item){.id = command->id, .token = token};
    bi_request_ask(request);
}

/* done and fail are also allowed to who is not the holder, of jobs that nobody holds. */

static bool answer_done(struct request *request)
{
    restore_lease(request, request->op.finish.id, request->op.finish.token);
    return say_or_refuse(request, "DONE\r\n");
}

static void done(struct conn *conn, const struct command *command)
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

static void fail(struct conn *conn, const struct command *command)
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

/* ---- looking, kicking ---- */

static bool answer_peek(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    say_job(request, "FOUND ");
    bide_job_clear(&request->job);
    return true;
}

static void peek(struct conn *conn, const struct command *command)
{
    static const bide_state states[VERB_COUNT] = {
        [VERB_PEEK_READY] = BIDE_STATE_READY,
        [VERB_PEEK_DELAYED] = BIDE_STATE_DELAYED,
        [VERB_PEEK_BURIED] = BIDE_STATE_BURIED,
    };
    bide_state state = states[command->verb];
    if (state == BIDE_STATE_GONE && !is_id(command->id)) {
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

static void kick(struct conn *conn, const struct command *command)
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
    return say_or_refuse(request, "KICKED\r\n");
}

static void kick_job(struct conn *conn, const struct command *command)
{
    if (!is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_KICK_JOB, answer_kick_job);
    if (request == NULL)
        return;
    request->op.lease = (bide_lease_args){command->id, 0};
    bi_request_ask(request);
}

/* ---- tubes ---- */

static bool forget_reference(struct request *request)
{
    (void)request;
    return true;
}

/* The topic of a tube has one reference less. */
static void drop_reference(struct server *server, const struct tube *tube)
{
    struct request *request = bi_request_new(server, NULL, BIDE_OP_TOPIC_REF, forget_reference);
    if (request == NULL)
        return;
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = -1};
    bi_request_submit(request);
    bi_server_flush(server);
}

void bi_beanstalk_referenced(struct server *server, struct tube *tube)
{
    if (tube->referenced) /* two connections have asked for it at the same time */
        drop_reference(server, tube);
    tube->referenced = true;
}

void bi_beanstalk_let_go(struct server *server, struct tube *tube)
{
    if (!bi_tubes_release(&server->tubes, tube))
        return;
    if (tube->referenced)
        drop_reference(server, tube);
    free(tube);
}

/* The session uses the tube, which has been held for it. */
static void use_tube(struct conn *conn, struct tube *tube, struct output *reply)
{
    struct tube *old = conn->session.used;
    old->using --;
    tube->using ++;
    conn->session.used = tube;
    bi_beanstalk_let_go(conn->server, old);
    bi_output_format(reply, "USING %s\r\n", tube->name);
}

static void say_watching(struct conn *conn, struct output *reply)
{
    bi_output_format(reply, "WATCHING %u\r\n", conn->session.watched_count);
}

static void watch_tube(struct conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    bool fresh = bi_session_find_tube(session, tube) == session->watched_count;
    if (fresh && bi_session_reserve_tube(session)) {
        tube->watching++;
        bi_session_add_tube(session, tube);
        say_watching(conn, reply);
        return;
    }
    bi_beanstalk_let_go(conn->server, tube);
    if (fresh)
        bi_output_text(reply, "OUT_OF_MEMORY\r\n");
    else
        say_watching(conn, reply);
}

/* The topic of a tube that nobody had knows of it now, or could not be made. */
static bool answer_hold(struct request *request)
{
    struct tube *tube = request->tube;
    request->tube = NULL;
    if (request->op.status == BIDE_OK) {
        bi_beanstalk_referenced(request->server, tube);
        request->take_tube(request->conn, tube, &request->conn->output);
        return true;
    }
    bi_beanstalk_refuse(request);
    bi_beanstalk_let_go(request->server, tube);
    return true;
}

/* What changes only the session is done at once; its reply comes in its turn. */
static void take_at_once(struct conn *conn, struct tube *tube, tube_taker take)
{
    struct output reply;
    bi_output_init(&reply);
    take(conn, tube, &reply);
    bi_conn_say_copy(conn, reply.small, reply.size);
    bi_output_done(&reply);
}

static void hold_tube(struct conn *conn, const struct command *command, tube_taker take)
{
    struct server *server = conn->server;
    struct tube *tube = bi_tubes_hold(&server->tubes, command->name);
    if (tube == NULL) {
        bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
        return;
    }
    if (tube->referenced) {
        take_at_once(conn, tube, take);
        return;
    }
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_TOPIC_REF, answer_hold);
    if (request == NULL) {
        bi_beanstalk_let_go(server, tube);
        return;
    }
    request->tube = tube;
    request->take_tube = take;
    request->blocking = true;
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = 1};
    bi_request_ask(request);
    bi_server_flush(server);
}

static void use(struct conn *conn, const struct command *command)
{
    hold_tube(conn, command, use_tube);
}

static void watch(struct conn *conn, const struct command *command)
{
    hold_tube(conn, command, watch_tube);
}

static void ignore_tube(struct conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    uint32_t at = tube == NULL ? session->watched_count : bi_session_find_tube(session, tube);
    if (at < session->watched_count && session->watched_count < 2) {
        bi_output_text(reply, "NOT_IGNORED\r\n");
        return;
    }
    if (at < session->watched_count) {
        bi_session_remove_tube(session, at);
        tube->watching--;
        bi_beanstalk_let_go(conn->server, tube);
    }
    say_watching(conn, reply);
}

static void ignore(struct conn *conn, const struct command *command)
{
    take_at_once(conn, bi_tubes_find(&conn->server->tubes, command->name), ignore_tube);
}

static void say_used(struct conn *conn, struct tube *tube, struct output *reply)
{
    (void)tube;
    bi_output_format(reply, "USING %s\r\n", conn->session.used->name);
}

static void list_tube_used(struct conn *conn, const struct command *command)
{
    (void)command;
    take_at_once(conn, NULL, say_used);
}

static bool answer_paused(struct request *request)
{
    return say_or_refuse(request, "PAUSED\r\n");
}

/* The tube exists: it is paused now. */
static bool answer_pause(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    request->op.kind = BIDE_OP_PAUSE;
    request->op.topic = (bide_topic_args){
        .topic = {request->topic.name, strlen(request->topic.name)}, .for_ms = request->timeout_ms};
    request->answer = answer_paused;
    bi_request_submit(request);
    return false;
}

static void pause_tube(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_TOPIC_STATS, answer_pause);
    if (request == NULL)
        return;
    request->blocking = true;
    request->timeout_ms = command->delay_ms;
    request->op.topic_stats = (bide_topic_stats_args){command->name, &request->topic};
    bi_request_ask(request);
}

static void quit(struct conn *conn, const struct command *command)
{
    (void)command;
    conn->quit = true;
    bi_server_mark(conn);
}

/* ---- the table ---- */

enum {
    RUN = 1,   /* reserves in a row may be tried together */
    ALONE = 2, /* what is in the batch goes first: it changes what that points to */
};

static const struct {
    void (*handle)(struct conn *conn, const struct command *command);
    unsigned flags;
} verbs[VERB_COUNT] = {
    [VERB_PUT] = {put, 0},
    [VERB_RESERVE] = {reserve, RUN},
    [VERB_RESERVE_WITH_TIMEOUT] = {reserve, RUN},
    [VERB_RESERVE_JOB] = {reserve_job, 0},
    [VERB_DELETE] = {delete_job, 0},
    [VERB_RELEASE] = {release, 0},
    [VERB_BURY] = {bury, 0},
    [VERB_TOUCH] = {touch, 0},
    [VERB_DONE] = {done, 0},
    [VERB_FAIL] = {fail, 0},
    [VERB_PEEK] = {peek, 0},
    [VERB_PEEK_READY] = {peek, 0},
    [VERB_PEEK_DELAYED] = {peek, 0},
    [VERB_PEEK_BURIED] = {peek, 0},
    [VERB_KICK] = {kick, 0},
    [VERB_KICK_JOB] = {kick_job, 0},
    [VERB_USE] = {use, ALONE},
    [VERB_WATCH] = {watch, ALONE},
    [VERB_IGNORE] = {ignore, ALONE},
    [VERB_LIST_TUBE_USED] = {list_tube_used, ALONE},
    [VERB_PAUSE_TUBE] = {pause_tube, 0},
    [VERB_QUIT] = {quit, ALONE},
    [VERB_STATS] = {bi_beanstalk_stats, ALONE},
    [VERB_STATS_JOB] = {bi_beanstalk_stats_job, 0},
    [VERB_STATS_TUBE] = {bi_beanstalk_stats_tube, ALONE},
    [VERB_LIST_TUBES] = {bi_beanstalk_list_tubes, 0},
    [VERB_LIST_TUBES_WATCHED] = {bi_beanstalk_list_watched, ALONE},
    [VERB_PUT_MANY] = {bi_beanstalk_put_many, ALONE},
    [VERB_RESERVE_MANY] = {bi_beanstalk_reserve_many, ALONE},
    [VERB_RESULT] = {bi_beanstalk_result, 0},
    [VERB_UPDATE] = {bi_beanstalk_update, ALONE},
    [VERB_CANCEL] = {bi_beanstalk_cancel, 0},
    [VERB_LIST_JOBS] = {bi_beanstalk_list_jobs, ALONE},
    [VERB_PURGE_TUBE] = {bi_beanstalk_purge, ALONE},
    [VERB_AUTH] = {bi_beanstalk_auth, ALONE},
    [VERB_CALL] = {bi_beanstalk_call, 0},
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

bool bi_beanstalk_may(struct conn *conn, const struct command *command)
{
    unsigned flags = command->verb < VERB_COUNT ? verbs[command->verb].flags : 0;
    if (conn->trying == 0 ? (flags & ALONE) == 0 : (flags & RUN) != 0)
        return true;
    bi_server_flush(conn->server);
    return conn->blocked == 0;
}

void bi_beanstalk_execute(struct conn *conn, const struct command *command)
{
    assert(verbs[command->verb].handle != NULL);
    verbs[command->verb].handle(conn, command);
}
