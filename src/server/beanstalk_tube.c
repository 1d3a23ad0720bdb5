/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_tube - the verbs that change what a connection uses and watches, and pause-tube.
 */
#include "server/inside.h"

#include <stdlib.h>
#include <string.h>

#define VISITS_PER_WORK 64 /* tubes that are looked at in a unit of work */

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
    struct request *request =
        !tube->referenced ? NULL
                          : bi_request_new(server, NULL, BIDE_OP_TOPIC_REF, forget_reference);
    if (request == NULL) {
        free(tube);
        return;
    }
    request->extra = tube; /* its name must be there until the batch goes */
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = -1};
    bi_request_submit(request);
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

/* Where it is in the list of watched tubes, or their number. */
static uint32_t find_watched(struct conn *conn, const struct tube *tube)
{
    uint32_t at = bi_session_find_tube(&conn->session, tube);
    bi_server_count_work(conn->server, at / VISITS_PER_WORK);
    return at;
}

static void watch_tube(struct conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    bool fresh = find_watched(conn, tube) == session->watched_count;
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

void bi_beanstalk_use(struct conn *conn, const struct command *command)
{
    hold_tube(conn, command, use_tube);
}

static void refuse_to_watch(struct conn *conn)
{
    char why[BIDE_ERROR_SIZE];
    bi_call_refuse_name(conn, "watch", why);
    bi_beanstalk_tell_limit(conn->server, "OUT_OF_MEMORY", why);
    bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
}

static bool is_watched(struct conn *conn, bide_slice name)
{
    const struct tube *tube = bi_tubes_find(&conn->server->tubes, name);
    return tube != NULL && find_watched(conn, tube) < conn->session.watched_count;
}

void bi_beanstalk_watch(struct conn *conn, const struct command *command)
{
    if (!bi_call_may_name(conn) && !is_watched(conn, command->name)) {
        refuse_to_watch(conn);
        return;
    }
    hold_tube(conn, command, watch_tube);
}

static void ignore_tube(struct conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    uint32_t at = tube == NULL ? session->watched_count : find_watched(conn, tube);
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

void bi_beanstalk_ignore(struct conn *conn, const struct command *command)
{
    take_at_once(conn, bi_tubes_find(&conn->server->tubes, command->name), ignore_tube);
}

static void say_used(struct conn *conn, struct tube *tube, struct output *reply)
{
    (void)tube;
    bi_output_format(reply, "USING %s\r\n", conn->session.used->name);
}

void bi_beanstalk_list_used(struct conn *conn, const struct command *command)
{
    (void)command;
    take_at_once(conn, NULL, say_used);
}

static bool answer_paused(struct request *request)
{
    return bi_beanstalk_say_or_refuse(request, "PAUSED\r\n");
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
    bi_admit_audit(request->conn, &request->op);
    bi_request_submit(request);
    return false;
}

void bi_beanstalk_pause(struct conn *conn, const struct command *command)
{
    struct request *request = bi_beanstalk_ask(conn, BIDE_OP_TOPIC_STATS, answer_pause);
    if (request == NULL)
        return;
    request->blocking = true;
    request->timeout_ms = command->delay_ms;
    request->op.topic_stats = (bide_topic_stats_args){command->name, &request->topic};
    bi_request_ask(request);
}
