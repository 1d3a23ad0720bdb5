/* SPDX-License-Identifier: MIT */
/*
 * call_reference - references to topics that calls of a connection have made (topic_ref).
 *
 * The queue counts references, and does not know whose they are. The connection does: it gives back
 * only what it has taken, and when it ends all of it goes back. Its table has a tube for each topic: using
 * are the references that may be given back, also those that are being made, and holders the calls under
 * way that name it. A tube is there while it has any of these.
 *
 * A call may be under way when its connection ends, and then succeed or fail. The server's table `orphans`
 * has a tube for each topic of such calls: holders are these calls, using the references that they have
 * left behind, less than 0 if some of their calls give back what others of them are about to make. So a
 * reference is given back only when the queue has said that there is one.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TUBES_FREE  100 /* that a connection may have however many others have, */
#define TUBES_LEAST 4   /* and that it may have at least: what it uses and watches */
#define DROP_WORK   4   /* units of work: to give a reference back */

static size_t free_tubes(const struct server *server)
{
    size_t tubes = (size_t)bi_call_free(server, TUBES_FREE, server->max_topics / 2);
    return tubes > TUBES_LEAST ? tubes : TUBES_LEAST;
}

/* All connections together leave half of the topics, and a fourth of the memory, to those that have few
 * of them, and to puts. */
bool bi_call_may_name(const struct conn *conn)
{
    struct server *server = conn->server;
    size_t count = conn->references.count + conn->session.watched_count;
    size_t all = server->references + server->tubes.count;
    return count < server->limits.max_tubes_per_connection &&
           (count < free_tubes(server) ||
            (all < server->max_topics / 2 && bi_server_has_room(server, conn, LARGE, 0)));
}

void bi_call_refuse_name(const struct conn *conn, const char *verb, char *error)
{
    size_t count = conn->references.count + conn->session.watched_count;
    snprintf(
        error, BIDE_ERROR_SIZE,
        "%s: this connection watches or refers to %zu topics; max_tubes_per_connection allows "
        "%u, and %zu while all connections have half of max_topics or most of max_client_bytes",
        verb, count, conn->server->limits.max_tubes_per_connection, free_tubes(conn->server));
}

static int take(struct conn *conn, bide_slice topic, struct tube **out, char *error)
{
    struct tubes *references = &conn->references;
    bool fresh = bi_tubes_find(references, topic) == NULL;
    if (fresh && !bi_call_may_name(conn)) {
        bi_call_refuse_name(conn, "topic_ref", error);
        return BIDE_TOO_MANY_TOPICS;
    }
    if (references->bucket_count == 0)
        references->secret = conn->server->tubes.secret;
    struct tube *tube = bi_tubes_hold(references, topic);
    if (tube == NULL)
        return BIDE_ENOMEM;
    conn->server->references += fresh;
    tube->using ++;
    *out = tube;
    return BIDE_OK;
}

static bool has_references(const struct tube *tube)
{
    return (int32_t)tube->using > 0; /* negative: one was given back, and could not be made */
}

/* A call that names the tube is over. True: nothing needs it any more; it is out of the table, and to be
 * freed. */
static bool release(struct conn *conn, struct tube *tube)
{
    assert(tube->holders > 0);
    if (has_references(tube)) {
        tube->holders--;
        return false;
    }
    bool last = bi_tubes_release(&conn->references, tube);
    assert(!last || conn->server->references > 0);
    conn->server->references -= last;
    return last;
}

int bi_call_reference_begin(struct conn *conn, const bide_op *op, struct tube **out, char *error)
{
    bide_slice topic = op->topic.topic;
    *out = NULL;
    /* What makes no sense the queue refuses. */
    bool one = op->topic.delta == 1 || op->topic.delta == -1;
    if (topic.size == 0 || topic.size > BIDE_TOPIC_MAX || !one)
        return BIDE_OK;
    if (op->topic.delta > 0)
        return take(conn, topic, out, error);
    struct tube *tube = bi_tubes_find(&conn->references, topic);
    if (tube == NULL || !has_references(tube))
        return BIDE_NOT_FOUND;
    tube->using --;
    tube->holders++;
    *out = tube;
    return BIDE_OK;
}

void bi_call_reference_end(struct conn *conn, struct tube *tube, int delta, bool done)
{
    if (!done)
        tube->using -= (uint32_t)delta;
    if (release(conn, tube))
        free(tube);
}

/* ---- the end of a connection ---- */

static bool forget(struct request *request)
{
    (void)request;
    return true;
}

/* Gives one reference back. last: the tube is in no table any more, and is freed when it is not needed. */
static void give_back(struct server *server, struct tube *tube, bool last)
{
    struct request *request = bi_request_new(server, NULL, BIDE_OP_TOPIC_REF, forget);
    if (request == NULL) {
        bi_server_flush(server); /* others in the batch have its name */
        if (last)
            free(tube);
        return;
    }
    /* The last one frees the name, which must be there until all are submitted. */
    request->extra = last ? tube : NULL;
    request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = -1};
    bi_request_submit(request);
}

struct tube *bi_call_reference_leave(struct conn *conn, struct tube *tube, int delta)
{
    struct tube *orphan = bi_tubes_hold(&conn->server->orphans, bi_tube_name(tube));
    bool made = delta < 0; /* one that is being made is not the connection's any more */
    if (orphan != NULL && !made && !has_references(tube)) {
        /* Another call under way gives it back. */
        orphan->using --;
        made = true;
    }
    bi_call_reference_end(conn, tube, delta, made);
    return orphan;
}

void bi_call_reference_settle(struct server *server, struct tube *orphan, int delta, bool done)
{
    orphan->using += done == (delta > 0);
    bool give = has_references(orphan);
    orphan->using -= give;
    bool last = bi_tubes_release(&server->orphans, orphan);
    if (give) {
        give_back(server, orphan, last);
    } else if (last) {
        bi_server_flush(server); /* others in the batch have its name */
        free(orphan);
    }
}

bool bi_call_reference_drop(struct conn *conn)
{
    struct tube *tube = bi_tubes_first(&conn->references);
    if (tube == NULL) {
        bi_tubes_done(&conn->references);
        return false;
    }
    assert(has_references(tube) && tube->holders == 0);
    tube->using --;
    tube->holders++;
    bool last = release(conn, tube);
    bi_server_count_work(conn->server, DROP_WORK);
    give_back(conn->server, tube, last);
    return true;
}
