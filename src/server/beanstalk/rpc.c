/* SPDX-License-Identifier: MIT */
/*
 * rpc - the verb `call`: any op, encoded as bytes, with a reply as soon as it completes.
 *
 * Calls are not part of the connection's pipeline. Each reply carries the tag of its call and
 * replies are written in order of completion, so a waiting reserve delays no other command. The
 * jobs that a call reserves do not belong to the connection: their tokens are valid on any other
 * connection.
 *
 * Ownership  The connection owns its calls, the event subscriptions they made and the topic
 *            references they acquired. Closing it cancels the calls that wait, gives back the jobs
 *            that still arrive, and ends the subscriptions and references.
 * Limits     The server stops reading a connection that has BI_RPC_IN_FLIGHT_MAX calls that do not
 *            wait, or replies that do not fit the output. max_waiters and
 *            max_waiters_per_connection bound waiting calls, max_feeds_per_connection bounds
 *            subscriptions. A call that does not fit max_client_bytes fails with BIDE_EBUSY.
 *            rpc_reply.c limits what a client may leave unread.
 * Threads    Everything runs on the thread of the server's loop. An op completes inside
 *            bi_batch_flush() or bide_cq_drain(), never inside bide_cancel_op().
 */
#include "op/op_args.h"
#include "op/op_codec.h"
#include "server/beanstalk/rpc_internal.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_SLICE_US 1000 /* time to cancel calls of one connection in a turn */
#define CANCEL_WORK     2    /* work units: cancel one call, */
#define TOPICS_PER_WORK 8    /* plus one per this many topics it waits for */

struct subscription {
    LIST_ENTRY(subscription) next;
    uint64_t number;
    bide_subscription *feed;
};

/* ---- subscriptions ---- */

static bool add_subscription(struct beanstalk_conn *conn, bide_subscription *feed, uint64_t *number)
{
    struct subscription *link = malloc(sizeof(*link));
    if (link == NULL)
        return false;

    *number = ++conn->last_subscription;
    link->number = *number;
    link->feed = feed;
    LIST_INSERT_HEAD(&conn->subscriptions, link, next);
    conn->subscription_count++;
    return true;
}

/* Resolves the number of a subscription to its handle, for ops that name one. */
static bool bind_subscription(struct rpc *rpc)
{
    bide_op *op = &rpc->coded.op;
    if (!bi_op_args_has_feed(op))
        return true;

    struct subscription *link = LIST_FIRST(&rpc->conn->subscriptions);
    while (link != NULL && link->number != rpc->coded.feed)
        link = LIST_NEXT(link, next);
    if (link == NULL)
        return false;

    op->subscription.handle = link->feed;
    /* Unlink it now: no later call may use a subscription that is about to end. It is linked again
     * if the op fails. */
    if (op->kind == BIDE_OP_UNSUBSCRIBE) {
        LIST_REMOVE(link, next);
        rpc->link = link;
    }
    return true;
}

/* ---- allocation and accounting ---- */

static const struct server_op_type rpc_type;

static struct rpc *rpc_new(struct beanstalk_conn *conn, uint64_t tag)
{
    struct rpc *rpc = malloc(sizeof(*rpc));
    if (rpc == NULL)
        return NULL;

    /* Not all of it: decoding sets the op, which is large. */
    memset(rpc, 0, offsetof(struct rpc, coded));
    rpc->base =
        (struct server_op){.type = &rpc_type, .server = conn->base.server, .op = &rpc->coded.op};
    rpc->beanstalk = conn->beanstalk;
    rpc->conn = conn;
    rpc->tag = tag;
    rpc->wait_deadline = INT64_MAX;
    return rpc;
}

void bi_rpc_free(struct rpc *rpc)
{
    bi_op_codec_free_op(&rpc->coded);
    bide_buf_unref(rpc->body);
    bide_buf_unref(rpc->holder);
    free(rpc->link);
    assert(rpc->base.server->client_bytes >= rpc->memory);
    assert(rpc->conn == NULL || rpc->conn->rpc_bytes >= rpc->memory);
    rpc->base.server->client_bytes -= rpc->memory;
    if (rpc->conn != NULL)
        rpc->conn->rpc_bytes -= rpc->memory;
    free(rpc);
}

static void count_memory(struct rpc *rpc, size_t bytes)
{
    rpc->memory += bytes;
    rpc->base.server->client_bytes += bytes;
    if (rpc->conn != NULL)
        rpc->conn->rpc_bytes += bytes;
}

/* Adds delta to the counters that the limits per connection check. */
static void count_limited(const struct rpc *rpc, int delta)
{
    struct beanstalk_conn *conn = rpc->conn;

    assert(delta > 0 || !rpc->may_wait || conn->waiter_count > 0);
    if (rpc->may_wait) {
        conn->waiter_count += (uint32_t)delta;
        rpc->beanstalk->waiter_count += (uint64_t)(int64_t)delta;
    }
    if (rpc->coded.op.kind == BIDE_OP_SUBSCRIBE)
        conn->subscriptions_pending += (uint32_t)delta;
}

bool bi_rpc_link(struct rpc *rpc)
{
    struct beanstalk_conn *conn = rpc->conn;
    if (!bi_tag_table_add(&conn->tags, &rpc->by_tag, rpc->tag))
        return false;

    LIST_INSERT_HEAD(&conn->rpcs, rpc, in_flight);
    conn->base.load.calls++;
    count_limited(rpc, 1);
    conn->has_uncancelled = true;
    /* The estimate counts as expected until the op is submitted; release_estimate() moves it. */
    conn->base.load.expected_bytes += rpc->reply_estimate;
    rpc->batched = true;
    return true;
}

/* Subtracts the reply estimate from the counter it is in: the call completed, or left the batch. */
static void release_estimate(struct rpc *rpc)
{
    struct beanstalk_conn *conn = rpc->conn;
    size_t *counted =
        rpc->batched ? &conn->base.load.expected_bytes : &conn->base.load.call_reply_bytes;

    assert(rpc->waits || *counted >= rpc->reply_estimate);
    /* A waiting call is in neither counter. park_reserve() in rpc_reply.c limits what waiting
     * reserves bring. */
    *counted -= rpc->waits ? 0 : rpc->reply_estimate;
    rpc->batched = false;
}

static void unlink_rpc(struct rpc *rpc)
{
    struct beanstalk_conn *conn = rpc->conn;

    assert(conn->base.load.calls > 0 && conn->base.load.calls_waiting >= rpc->waits);
    LIST_REMOVE(rpc, in_flight);
    conn->base.load.calls--;
    count_limited(rpc, -1);
    bi_tag_table_remove(&conn->tags, &rpc->by_tag);

    release_estimate(rpc);
    conn->base.load.calls_waiting -= rpc->waits;
    rpc->waits = false;
}

/*
 * Copies the topic names of a pending reserve: they point into the command, which is valid only
 * until the batch is submitted. FINISH_AND_RESERVE is never resubmitted, since that would repeat
 * the finish.
 */
static void dup_topics(struct rpc *rpc)
{
    size_t before = rpc->coded.bytes;

    if (rpc->resubmittable || rpc->coded.op.kind != BIDE_OP_RESERVE)
        return;

    rpc->resubmittable = bi_op_codec_dup_topics(&rpc->coded) == BIDE_OK;
    /* Without memory for the copy the call still waits, but can no longer be parked. */
    count_memory(rpc,
                 rpc->coded.bytes - before + rpc->coded.op.reserve.topic_count * WAITER_LINK_SIZE);
}

static void on_pending(struct server_op *server_op)
{
    struct rpc *rpc = (struct rpc *)(void *)server_op;
    bide_op *op = server_op->op;

    dup_topics(rpc);
    /* Kinds with a timeout stay pending until an event occurs, unless they have been applied. All
     * others wait for a commit, and count against the server's limit of uncommitted changes. */
    const int64_t *timeout = bi_op_timeout(op);
    if (op->applied || timeout == NULL)
        bi_batch_count_change(server_op, rpc->conn == NULL ? NULL : &rpc->conn->base);

    if (rpc->conn == NULL || !rpc->batched)
        return;

    release_estimate(rpc);
    rpc->waits = timeout != NULL && *timeout != 0 && !op->applied;
    rpc->conn->base.load.calls_waiting += rpc->waits;
    rpc->conn->base.load.call_reply_bytes += rpc->waits ? 0 : rpc->reply_estimate;
}

void bi_rpc_submit(struct rpc *rpc)
{
    rpc->coded.op.private_.order = rpc->conn->base.order;
    bi_batch_submit(&rpc->base);
}

static void on_unsubscribed(struct server_op *server_op)
{
    free(server_op);
}

void bi_rpc_submit_unsubscribe(struct beanstalk *beanstalk, bide_subscription *feed)
{
    static const struct server_op_type type = {NULL, on_unsubscribed};
    struct internal_op *unsubscribe = bi_batch_new_op(beanstalk->server, &type);
    if (unsubscribe == NULL)
        return;

    unsubscribe->op.kind = BIDE_OP_UNSUBSCRIBE;
    unsubscribe->op.subscription.handle = feed;
    bi_batch_submit(&unsubscribe->base);
}

bool bi_rpc_update_subscriptions(struct rpc *rpc)
{
    bide_op *op = &rpc->coded.op;
    struct beanstalk_conn *conn = rpc->conn;

    if (op->kind == BIDE_OP_SUBSCRIBE && op->status == BIDE_OK)
        return add_subscription(conn, op->subscription.handle, &rpc->coded.feed);

    if (rpc->link != NULL && op->status != BIDE_OK) {
        /* The queue still has it, so its number stays valid. */
        LIST_INSERT_HEAD(&conn->subscriptions, rpc->link, next);
        rpc->link = NULL;
    } else if (rpc->link != NULL) {
        assert(conn->subscription_count > 0);
        conn->subscription_count--;
    }
    return true;
}

/* ---- topic references ---- */

static int begin_reference(struct rpc *rpc, const struct command *command, char *error)
{
    int code = bi_rpc_topic_ref_begin(rpc->conn, &rpc->coded.op, &rpc->topic_ref, error);
    if (code != BIDE_NOT_FOUND)
        return code;

    /* The connection has no reference to release. The queue would take one of another connection,
     * so the op becomes a query whether the topic exists; end_reference() turns success into an
     * error. */
    bi_op_codec_free_op(&rpc->coded);
    rpc->ref_missing = true;
    return bi_op_codec_decode(&rpc->coded, BIDE_OP_TOPIC_STATS, command->body.data,
                              command->body.size, error);
}

static void end_reference(struct rpc *rpc)
{
    bide_op *op = &rpc->coded.op;

    if (rpc->topic_ref != NULL)
        bi_rpc_topic_ref_end(rpc->conn, rpc->topic_ref, op->topic.delta, op->status == BIDE_OK);
    rpc->topic_ref = NULL;

    if (!rpc->ref_missing || op->status != BIDE_OK)
        return;

    op->status = BIDE_EINVAL;
    snprintf(op->error, sizeof(op->error),
             "topic_ref: this connection has no reference to the topic left");
}

/* ---- completion ---- */

static void on_completed(struct server_op *server_op)
{
    struct rpc *rpc = (struct rpc *)(void *)server_op;
    const bide_op *op = server_op->op;

    if (rpc->conn == NULL) {
        /* The connection closed while the op was pending: nothing may stay acquired for it. */
        if (rpc->topic_ref != NULL)
            bi_rpc_topic_ref_settle(rpc->beanstalk, rpc->topic_ref, op->topic.delta,
                                    op->status == BIDE_OK);
        bi_rpc_reply_revoke(rpc);
        bi_rpc_free(rpc);
    } else {
        unlink_rpc(rpc);
        end_reference(rpc);
        bi_rpc_reply_write(rpc);
    }
}

static const struct server_op_type rpc_type = {on_pending, on_completed};

/* ---- the verbs ---- */

/* Creates the call of a command and checks its limits. On failure returns a code and sets error. */
static int rpc_begin(struct beanstalk_conn *conn, const struct command *command, struct rpc **out,
                     char *error)
{
    bide_op_kind kind = bi_op_codec_find_kind(command->name.data, command->name.size);

    if (kind == BIDE_OP_NONE)
        return bi_error_set(error, BIDE_ENOTSUP, "call: unknown op");

    struct rpc *rpc = rpc_new(conn, command->tag);
    int code = rpc == NULL ? BIDE_ENOMEM
                           : bi_op_codec_decode(&rpc->coded, kind, command->body.data,
                                                command->body.size, error);

    if (code != BIDE_OK) {
        free(rpc);
        return code;
    }

    rpc->base.bytes = command->body.size;
    size_t memory = sizeof(*rpc) + rpc->coded.bytes + bide_buf_size(command->buf);
    /* One check per kind. Those with side effects on the connection (topic_ref, subscriptions)
     * come last, so that no other failure has to undo them. */
    if (!bi_rpc_limit_has_memory(conn, memory)) {
        code = bi_error_set(error, BIDE_EBUSY, "%s: the server has no memory for this call",
                            bide_op_name(kind));
    } else if (kind == BIDE_OP_BACKUP) {
        code = bi_rpc_limit_check_backup(conn, rpc->coded.op.backup.path, error);
    } else if (kind == BIDE_OP_SUBSCRIBE) {
        code = bi_rpc_limit_check_subscriptions(conn, error);
    } else if (kind == BIDE_OP_TOPIC_REF) {
        code = begin_reference(rpc, command, error);
    } else if (!bind_subscription(rpc)) {
        code = bi_error_set(error, BIDE_EINVAL, "%s: this connection has no such feed",
                            bide_op_name(kind));
    }

    count_memory(rpc, memory);
    rpc->body = bide_buf_ref(command->buf);

    if (code != BIDE_OK)
        bi_rpc_free(rpc);
    else
        *out = rpc;
    return code;
}

/* Names the holder in memory that lasts as long as the call: the command does not, and a parked call
 * is submitted again. */
static void set_holder(struct rpc *rpc)
{
    bide_slice *holder = bi_op_holder(&rpc->coded.op);
    if (holder == NULL || holder->size > BIDE_HOLDER_MAX) /* which the queue rejects */
        return;
    rpc->holder = bi_beanstalk_worker_call_holder(rpc->conn, *holder);
    *holder = bi_buf_slice(rpc->holder);
}

/* Limits the timeout: a call waits only while its connection may have one more waiter. */
static void set_timeout(struct rpc *rpc)
{
    int64_t *timeout = bi_op_timeout(&rpc->coded.op);
    if (timeout == NULL || *timeout == 0 || *timeout < BIDE_FOREVER || *timeout > BIDE_TIME_MAX_MS)
        return; /* does not wait, or the queue rejects the value */

    rpc->may_wait = bi_rpc_limit_may_wait(rpc->conn);
    rpc->wait_rejected = !rpc->may_wait;
    /* It may still succeed at once. Only if it times out, the reply reports the limit instead. */
    if (rpc->wait_rejected)
        *timeout = 0;

    if (*timeout > 0)
        rpc->wait_deadline = rpc->base.server->now + *timeout * 1000;
}

void bi_rpc_call(struct beanstalk_conn *conn, const struct command *command)
{
    char error[BIDE_ERROR_SIZE] = "out of memory";
    struct rpc *rpc = NULL;
    int code = rpc_begin(conn, command, &rpc, error);

    if (code != BIDE_OK) {
        bi_rpc_reply_reject(conn, command->tag, code, error);
        return;
    }

    assert(rpc != NULL);
    set_holder(rpc);
    set_timeout(rpc);
    rpc->reply_estimate = bi_rpc_limit_reply_estimate(conn->base.server, &rpc->coded.op);
    bi_admission_audit(&conn->base, &rpc->coded.op);

    if (bi_rpc_link(rpc)) {
        bi_rpc_submit(rpc);
        return;
    }
    /* Never submitted: undo what rpc_begin() did to subscriptions and references. */
    rpc->coded.op.status = BIDE_ENOMEM;
    bi_rpc_update_subscriptions(rpc);
    end_reference(rpc);
    bi_rpc_reply_reject(conn, command->tag, BIDE_ENOMEM, "out of memory");
    bi_rpc_free(rpc);
}

/* Returns the latest call with this tag that is pending or parked, or NULL. */
static struct rpc *find_by_tag(const struct beanstalk_conn *conn, uint64_t tag)
{
    struct tag_link *link = bi_tag_table_find(&conn->tags, tag);
    return link == NULL ? NULL
                        : (struct rpc *)(void *)((char *)link - offsetof(struct rpc, by_tag));
}

/* Cancels a pending call. The core unlinks a waiting reserve from each of its topics. */
static void cancel_wait(struct rpc *rpc)
{
    bide_op *op = &rpc->coded.op;
    const bide_reserve_args *args = bi_op_reserve_args(op);
    size_t topics = args == NULL ? 0 : args->topic_count;
    if (op->status == BIDE_PENDING)
        bide_cancel_op(rpc->base.server->queue, op);
    bi_fair_queue_count_work(rpc->base.server, CANCEL_WORK + topics / TOPICS_PER_WORK);
}

void bi_rpc_cancel(struct beanstalk_conn *conn, const struct command *command)
{
    struct rpc *rpc = find_by_tag(conn, command->tag);

    if (rpc != NULL && rpc->batched) {
        bi_batch_flush(
            conn->base.server); /* a batched op cannot be cancelled, and may complete here */
        rpc = find_by_tag(conn, command->tag);
    }

    if (rpc == NULL)
        return;
    /* Remove the tag now: the op completes later, and the next call-cancel with this tag must find
     * an older call. */
    bi_tag_table_remove(&conn->tags, &rpc->by_tag);
    rpc->cancelled = true;

    if (rpc->parked)
        bi_rpc_reply_cancel_parked(rpc);
    else
        cancel_wait(rpc);
}

/* ---- closing a connection ---- */

void bi_rpc_cancel_waiting(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    struct server *server = base->server;
    int64_t end = server->now + CANCEL_SLICE_US;

    if (!conn->has_uncancelled)
        return;

    /* Parked calls are freed instead of resubmitted; others still write their replies. */
    struct rpc *rpc;
    STAILQ_FOREACH(rpc, &conn->unreplied, completed)
        rpc->cancel_quietly = true;

    /* Only submitted ops can be cancelled. The flush may complete and free calls of this list, so
     * the walk starts after it. */
    if (!LIST_EMPTY(&conn->rpcs))
        bi_batch_flush(server);

    for (rpc = LIST_FIRST(&conn->rpcs); rpc != NULL && server->now < end;
         rpc = LIST_NEXT(rpc, in_flight)) {
        if (rpc->cancel_quietly)
            continue;
        rpc->cancel_quietly = true;
        /* Completes through the completion queue, so rpc and its links stay valid here. */
        cancel_wait(rpc);
    }

    conn->has_uncancelled = rpc != NULL;
    if (conn->has_uncancelled)
        bi_fair_queue_mark_dirty(&conn->base);
}

bool bi_rpc_drop_one(struct beanstalk_conn *conn)
{
    struct rpc *rpc = LIST_FIRST(&conn->rpcs);
    assert(conn->base.closed);

    if (rpc != NULL) {
        /* From here on the call has no connection; on_completed() gives back what it acquires. */
        unlink_rpc(rpc);
        if (rpc->topic_ref != NULL)
            rpc->topic_ref =
                bi_rpc_topic_ref_orphan(conn, rpc->topic_ref, rpc->coded.op.topic.delta);
        conn->rpc_bytes -= rpc->memory;
        rpc->conn = NULL;
        cancel_wait(rpc);
        return true;
    }

    if (bi_rpc_reply_drop_one(conn))
        return true;

    struct subscription *link = LIST_FIRST(&conn->subscriptions);
    if (link != NULL) {
        LIST_REMOVE(link, next);
        bi_rpc_submit_unsubscribe(conn->beanstalk, link->feed);
        free(link);
        return true;
    }

    bi_tag_table_done(&conn->tags);
    return bi_rpc_topic_ref_drop_one(conn);
}
