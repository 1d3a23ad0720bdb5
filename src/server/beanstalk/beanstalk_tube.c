/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_tube - the verbs use, watch, ignore, list-tube-used and pause-tube.
 *
 * A tube is in beanstalk->tubes while a connection uses or watches it, or is about to. The server
 * then has one reference to its topic, acquired before the first connection gets its reply, so the
 * topic cannot disappear while it is used.
 *
 * Ordering   Ops in the batch borrow the names of tubes. use, watch and ignore submit the batch
 *            first (FLUSH_FIRST), so a tube that they release is not named in it.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define VISITS_PER_WORK 64 /* watched tubes that are compared in a unit of work */

/* ---- references ---- */

static bool ignore_reply(struct request *request)
{
    (void)request;
    return true;
}

void bi_beanstalk_tube_submit_unref(struct beanstalk *beanstalk, struct tube *tube, bool last)
{
    struct request *request = bi_request_new(beanstalk, NULL, BIDE_OP_TOPIC_REF, ignore_reply);

    /* Out of memory: the topic keeps the reference until the server restarts. */
    if (request == NULL) {
        bi_batch_flush(beanstalk->server); /* batched ops borrow the name */
        if (last)
            free(tube);
        return;
    }

    /* Earlier ops in the batch borrow the name, too. The request of the last release owns the tube
     * and completes after all of them are submitted. */
    request->extra = last ? tube : NULL;
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = -1};
    bi_request_submit(request);
}

void bi_beanstalk_tube_set_referenced(struct beanstalk *beanstalk, struct tube *tube)
{
    /* Two connections acquired it at the same time; one reference is enough. */
    if (tube->referenced) {
        bi_beanstalk_tube_submit_unref(beanstalk, tube, false);
        bi_batch_flush(beanstalk->server); /* the tube may be freed before the next flush */
    }
    tube->referenced = true;
}

void bi_beanstalk_tube_release(struct beanstalk *beanstalk, struct tube *tube)
{
    if (!bi_tubes_release(&beanstalk->tubes, tube))
        return;
    if (tube->referenced)
        bi_beanstalk_tube_submit_unref(beanstalk, tube, true);
    else
        free(tube);
}

/* ---- use, watch, ignore ---- */

/* The caller's reference to the tube becomes the session's. */
static void use_tube(struct beanstalk_conn *conn, struct tube *tube, struct output *reply)
{
    struct tube *old = conn->session.used;

    assert(old->users > 0);
    old->users--;
    tube->users++;
    conn->session.used = tube;

    bi_beanstalk_tube_release(conn->beanstalk, old);
    bi_output_format(reply, "USING %s\r\n", tube->name);
}

static void write_watching(struct beanstalk_conn *conn, struct tube *tube, struct output *reply)
{
    (void)tube;
    bi_output_format(reply, "WATCHING %u\r\n", conn->session.watched_count);
}

/* Returns the index in the list of watched tubes, or watched_count. */
static uint32_t find_watched(struct beanstalk_conn *conn, const struct tube *tube)
{
    uint32_t at = bi_session_find_tube(&conn->session, tube);
    bi_fair_queue_count_work(conn->base.server, at / VISITS_PER_WORK);
    return at;
}

static void watch_tube(struct beanstalk_conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    bool fresh = find_watched(conn, tube) == session->watched_count;

    if (fresh && bi_session_reserve_tube(session)) {
        tube->watchers++;
        bi_session_add_tube(session, tube);
        conn->topics_changed = true;
        write_watching(conn, tube, reply);
        return;
    }

    /* The session has a reference already, or cannot take one: drop the caller's. */
    bi_beanstalk_tube_release(conn->beanstalk, tube);
    if (fresh)
        bi_output_text(reply, "OUT_OF_MEMORY\r\n");
    else
        write_watching(conn, NULL, reply);
}

/* The topic of a tube new to the server has been created, or could not be. */
static bool reply_tube_ref(struct request *request)
{
    struct tube *tube = request->tube;
    request->tube = NULL; /* from here on the session owns the reference, or it is released below */

    if (request->op.status == BIDE_OK) {
        bi_beanstalk_tube_set_referenced(request->beanstalk, tube);
        request->apply_tube(request->conn, tube, &request->conn->base.output);
        return true;
    }

    bi_beanstalk_verb_reject(request);
    bi_beanstalk_tube_release(request->beanstalk, tube);
    return true;
}

/* Applies a change of the session at once; the reply still waits for all earlier replies. */
static void apply_and_reply(struct beanstalk_conn *conn, struct tube *tube, tube_fn apply)
{
    struct output reply;

    bi_output_init(&reply);
    apply(conn, tube, &reply);
    /* The longest reply, a word and the name of a tube, fits in reply.small. */
    bi_request_reply_bytes(conn, reply.small, reply.size);
    bi_output_done(&reply);
}

static void acquire_tube(struct beanstalk_conn *conn, const struct command *command, tube_fn apply)
{
    struct beanstalk *beanstalk = conn->beanstalk;
    struct tube *tube = bi_tubes_acquire(&beanstalk->tubes, command->name);

    if (tube == NULL) {
        bi_request_reply(conn, "OUT_OF_MEMORY\r\n");
        return;
    }

    if (tube->referenced) {
        apply_and_reply(conn, tube, apply);
        return;
    }

    struct request *request =
        bi_beanstalk_verb_new_request(conn, BIDE_OP_TOPIC_REF, reply_tube_ref);
    if (request == NULL) {
        bi_beanstalk_tube_release(beanstalk, tube);
        return;
    }

    request->tube = tube;
    request->apply_tube = apply;
    /* Blocking: a put or reserve behind this command must use the new tube. */
    request->blocking = true;
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = 1};

    bi_request_enqueue(request);
    bi_batch_flush(beanstalk->server); /* often completes at once; the next command need not wait */
}

void bi_beanstalk_tube_use(struct beanstalk_conn *conn, const struct command *command)
{
    acquire_tube(conn, command, use_tube);
}

void bi_beanstalk_tube_watch(struct beanstalk_conn *conn, const struct command *command)
{
    if (bi_rpc_topic_ref_may_add(conn)) {
        acquire_tube(conn, command, watch_tube);
        return;
    }

    /* Watching a tube twice is no change, and allowed at the limit. */
    struct tube *tube = bi_tubes_find(&conn->beanstalk->tubes, command->name);
    if (tube != NULL && find_watched(conn, tube) < conn->session.watched_count) {
        apply_and_reply(conn, NULL, write_watching);
        return;
    }

    char detail[BIDE_ERROR_SIZE];
    bi_rpc_topic_ref_limit_error(conn, "watch", detail);
    bi_beanstalk_verb_log_limit(conn->beanstalk, "OUT_OF_MEMORY", detail);
    bi_request_reply(conn, "OUT_OF_MEMORY\r\n");
}

static void ignore_tube(struct beanstalk_conn *conn, struct tube *tube, struct output *reply)
{
    struct session *session = &conn->session;
    uint32_t at = tube == NULL ? session->watched_count : find_watched(conn, tube);

    /* As in beanstalkd, a connection watches one tube at least. */
    if (at < session->watched_count && session->watched_count < 2) {
        bi_output_text(reply, "NOT_IGNORED\r\n");
        return;
    }

    if (at < session->watched_count) {
        assert(tube->watchers > 0);
        bi_session_remove_tube(session, at);
        conn->topics_changed = true;
        tube->watchers--;
        bi_beanstalk_tube_release(conn->beanstalk, tube);
    }
    write_watching(conn, NULL, reply);
}

void bi_beanstalk_tube_ignore(struct beanstalk_conn *conn, const struct command *command)
{
    apply_and_reply(conn, bi_tubes_find(&conn->beanstalk->tubes, command->name), ignore_tube);
}

static void write_used(struct beanstalk_conn *conn, struct tube *tube, struct output *reply)
{
    (void)tube;
    bi_output_format(reply, "USING %s\r\n", conn->session.used->name);
}

void bi_beanstalk_tube_list_used(struct beanstalk_conn *conn, const struct command *command)
{
    (void)command;
    apply_and_reply(conn, NULL, write_used);
}

/* ---- pause-tube ---- */

/* The tube exists: submits the same request again, as a pause. */
static bool reply_pause_lookup(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_verb_reject(request);

    request->op.kind = BIDE_OP_PAUSE;
    /* The name of the command is no longer valid; the figures of the topic have a copy. */
    request->op.topic = (bide_topic_args){
        .topic = {request->topic.name, strlen(request->topic.name)}, .for_ms = request->timeout_ms};
    request->reply = bi_beanstalk_verb_reply;

    bi_admission_audit(&request->conn->base, &request->op);
    bi_request_submit(request);
    return false;
}

/* A pause would create a missing topic. beanstalkd replies NOT_FOUND, so look it up first. */
const char *bi_beanstalk_tube_pause(struct request *request, const struct command *command)
{
    request->reply = reply_pause_lookup;
    request->timeout_ms = command->delay_ms;
    request->op.topic_stats = (bide_topic_stats_args){command->name, &request->topic};
    return NULL;
}
