/* SPDX-License-Identifier: MIT */
/*
 * call_reference - references to topics that calls of a connection have made (topic_ref).
 *
 * The queue counts references, and does not know whose they are. The connection does: it gives back
 * only what it has taken, and when it ends all of it goes back. Its table has a tube for each topic; using
 * are the references that may be given back, holders these and those that are being given back.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static bool may_take(const struct conn *conn)
{
    const struct server *server = conn->server;
    uint64_t count = conn->references.count + conn->session.watched_count;
    return count < server->limits.max_tubes_per_connection;
}

static int take(struct conn *conn, bide_slice topic, struct tube **out, char *error)
{
    struct tubes *references = &conn->references;
    if (!may_take(conn) && bi_tubes_find(references, topic) == NULL) {
        snprintf(
            error, BIDE_ERROR_SIZE,
            "topic_ref: this connection has as many topics as max_tubes_per_connection allows, "
            "%u",
            conn->server->limits.max_tubes_per_connection);
        return BIDE_TOO_MANY_TOPICS;
    }
    if (references->bucket_count == 0)
        references->secret = conn->server->tubes.secret;
    struct tube *tube = bi_tubes_hold(references, topic);
    if (tube == NULL)
        return BIDE_ENOMEM;
    tube->using ++;
    *out = tube;
    return BIDE_OK;
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
    if (tube == NULL || (int32_t)tube->using <= 0)
        return BIDE_NOT_FOUND;
    tube->using --;
    *out = tube;
    return BIDE_OK;
}

void bi_call_reference_end(struct conn *conn, struct tube *tube, int delta, bool done)
{
    bool goes = delta > 0 ? !done : done;
    if (delta > 0 && !done)
        tube->using --;
    if (delta < 0 && !done)
        tube->using ++;
    if (goes && bi_tubes_release(&conn->references, tube))
        free(tube);
}

static bool forget(struct request *request)
{
    (void)request;
    return true;
}

bool bi_call_reference_drop(struct conn *conn)
{
    struct tube *tube = bi_tubes_pop(&conn->references);
    if (tube == NULL) {
        bi_tubes_done(&conn->references);
        return false;
    }
    /* The last one frees the name, which must be there until all are submitted. */
    struct request *last = NULL;
    for (uint32_t i = 0; i < tube->using; i++) {
        struct request *request = bi_request_new(conn->server, NULL, BIDE_OP_TOPIC_REF, forget);
        if (request == NULL)
            break;
        if (last != NULL)
            bi_request_submit(last);
        request->op.topic = (bide_topic_args){.topic = bi_tube_name(tube), .delta = -1};
        last = request;
    }
    bi_server_count_work(conn->server, tube->using);
    if (last == NULL) {
        free(tube);
        return true;
    }
    last->extra = tube;
    bi_request_submit(last);
    return true;
}
