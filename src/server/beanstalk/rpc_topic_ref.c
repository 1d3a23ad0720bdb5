/* SPDX-License-Identifier: MIT */
/*
 * rpc_topic_ref - the topic references that calls of a connection acquire (op topic_ref).
 *
 * The queue counts the references of a topic but not their owners. The connection does: it releases
 * only references that it has acquired, and closing it releases the rest.
 *
 * conn->topic_refs has a tube for each topic. Its users are the references that may be released,
 * including those being acquired; its ref_count is the number of pending calls that name it. A tube
 * stays in the table while one of both is not 0.
 *
 * A call may be pending when its connection closes, and then succeed or fail. beanstalk->orphans
 * has a tube for each topic of such calls: ref_count is the number of these calls, users the
 * references that they left behind. users is negative while one orphaned call releases a reference
 * that another one has not acquired yet. So the server releases only references that the queue has
 * confirmed.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TUBES_GUARANTEED 100 /* topics of a connection, whatever the others have, */
#define TUBES_MIN        4   /* and the least that this shrinks to with many connections */
#define DROP_WORK        4   /* work units: release one reference */

static size_t guaranteed_tubes(const struct server *server)
{
    size_t tubes = (size_t)bi_rpc_limit_guaranteed_share(server, TUBES_GUARANTEED,
                                                         server->options->max_topics / 2);
    return tubes > TUBES_MIN ? tubes : TUBES_MIN;
}

/* Half of the topics and a quarter of the memory are left to puts and to connections that have few
 * references, so that one client cannot lock out the others. */
bool bi_rpc_topic_ref_may_add(const struct beanstalk_conn *conn)
{
    struct server *server = conn->base.server;
    size_t count = conn->topic_refs.count + conn->session.watched_count;
    size_t all = conn->beanstalk->topic_refs + conn->beanstalk->tubes.count;
    return count < server->limits.max_topics_per_connection &&
           (count < guaranteed_tubes(server) ||
            (all < server->options->max_topics / 2 &&
             bi_server_has_memory(server, &conn->base, BODY_LARGE, 0)));
}

void bi_rpc_topic_ref_limit_error(const struct beanstalk_conn *conn, const char *verb, char *error)
{
    size_t count = conn->topic_refs.count + conn->session.watched_count;
    snprintf(
        error, BIDE_ERROR_SIZE,
        "%s: this connection watches or refers to %zu topics; max_tubes_per_connection allows "
        "%u, and %zu while all connections have half of max_topics or most of max_client_bytes",
        verb, count, conn->base.server->limits.max_topics_per_connection,
        guaranteed_tubes(conn->base.server));
}

static int add_ref(struct beanstalk_conn *conn, bide_slice topic, struct tube **out, char *error)
{
    struct tubes *topic_refs = &conn->topic_refs;
    bool fresh = bi_tubes_find(topic_refs, topic) == NULL;

    if (fresh && !bi_rpc_topic_ref_may_add(conn)) {
        bi_rpc_topic_ref_limit_error(conn, "topic_ref", error);
        return BIDE_TOO_MANY_TOPICS;
    }

    /* The table of a connection has no buckets before its first reference. Topic names come from
     * clients, so it needs the server's hash secret. */
    if (topic_refs->bucket_count == 0)
        topic_refs->secret = conn->beanstalk->tubes.secret;

    struct tube *tube = bi_tubes_acquire(topic_refs, topic);
    if (tube == NULL)
        return BIDE_ENOMEM;

    conn->beanstalk->topic_refs += fresh;
    tube->users++;
    *out = tube;
    return BIDE_OK;
}

static bool has_references(const struct tube *tube)
{
    return (int32_t)tube->users > 0; /* of an orphan it may be negative, see above */
}

/* A call that names the tube has completed. True: the tube was removed from the table, and the
 * caller frees it. */
static bool release_tube(struct beanstalk_conn *conn, struct tube *tube)
{
    assert(tube->ref_count > 0);

    if (has_references(tube)) {
        /* Not through bi_tubes_release(): the tube stays in the table for its references. */
        tube->ref_count--;
        return false;
    }

    bool last = bi_tubes_release(&conn->topic_refs, tube);
    assert(!last || conn->beanstalk->topic_refs > 0);
    conn->beanstalk->topic_refs -= last;
    return last;
}

int bi_rpc_topic_ref_begin(struct beanstalk_conn *conn, const bide_op *op, struct tube **out,
                           char *error)
{
    bide_slice topic = op->topic.topic;
    *out = NULL;

    /* The queue rejects invalid arguments; there is nothing to account for. */
    bool one = op->topic.delta == 1 || op->topic.delta == -1;
    if (topic.size == 0 || topic.size > BIDE_TOPIC_MAX || !one)
        return BIDE_OK;

    if (op->topic.delta > 0)
        return add_ref(conn, topic, out, error);
    struct tube *tube = bi_tubes_find(&conn->topic_refs, topic);
    if (tube == NULL || !has_references(tube))
        return BIDE_NOT_FOUND;

    /* Count it as released now: a second release of the same reference must not be submitted. */
    tube->users--;
    tube->ref_count++;
    *out = tube;
    return BIDE_OK;
}

void bi_rpc_topic_ref_end(struct beanstalk_conn *conn, struct tube *tube, int delta, bool done)
{
    /* Undo what begin() counted in advance. */
    if (!done)
        tube->users -= (uint32_t)delta;
    if (release_tube(conn, tube))
        free(tube);
}

/* ---- closing a connection ---- */

struct tube *bi_rpc_topic_ref_orphan(struct beanstalk_conn *conn, struct tube *tube, int delta)
{
    struct tube *orphan = bi_tubes_acquire(&conn->beanstalk->orphans, bi_tube_name(tube));
    bool made = delta < 0; /* false: the reference does not exist yet, and is no longer conn's */

    if (orphan != NULL && !made && !has_references(tube)) {
        /* Another pending call releases this reference already. Its orphan must not do so again. */
        orphan->users--;
        made = true;
    }

    bi_rpc_topic_ref_end(conn, tube, delta, made);
    return orphan;
}

void bi_rpc_topic_ref_settle(struct beanstalk *beanstalk, struct tube *orphan, int delta, bool done)
{
    /* A reference exists now if it was acquired, or could not be released. */
    orphan->users += done == (delta > 0);
    bool give = has_references(orphan);
    orphan->users -= give;
    bool last = bi_tubes_release(&beanstalk->orphans, orphan);

    if (give) {
        bi_beanstalk_tube_submit_unref(beanstalk, orphan, last);
    } else if (last) {
        bi_batch_flush(beanstalk->server); /* batched ops borrow the name */
        free(orphan);
    }
}

bool bi_rpc_topic_ref_drop_one(struct beanstalk_conn *conn)
{
    struct tube *tube = bi_tubes_first(&conn->topic_refs);
    if (tube == NULL) {
        bi_tubes_done(&conn->topic_refs);
        return false;
    }

    /* All calls have been orphaned before (bi_rpc_drop_one), so only references are left. */
    assert(has_references(tube) && tube->ref_count == 0);
    tube->users--;
    tube->ref_count++;
    bool last = release_tube(conn, tube);

    bi_fair_queue_count_work(conn->base.server, DROP_WORK);
    bi_beanstalk_tube_submit_unref(conn->beanstalk, tube, last);
    return true;
}
