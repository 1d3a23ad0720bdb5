/* SPDX-License-Identifier: MIT */
/*
 * rpc_reply - the replies to calls: written in order of completion, and what happens to calls whose
 * client does not read them.
 *
 * A reply is encoded when the output has room; until then the call holds its result. A call that
 * replies with leases is retained until the socket has accepted the whole reply. If the connection
 * closes earlier, the jobs are given back.
 *
 * Limits     A reserve that obtains jobs while UNREAD_MAX bytes are unread gives them back; it is
 *            parked, and resubmitted when the client has read. A client that leaves UNREAD_MAX
 *            bytes unread and makes no progress is disconnected.
 */
#include "op/op_result.h"
#include "server/beanstalk/rpc_internal.h"

#include <assert.h>
#include <stdio.h>

#define REPLY_KEEP        ((size_t)1 << 20) /* capacity of the reply buffer that is retained */
#define RESUBMIT_SLICE_US 1000              /* time to resubmit calls of one connection in a turn */
#define REVOKE_WORK       4                 /* work units: give back one job */

/* ---- encoding ---- */

static void write_line(struct beanstalk_conn *conn, uint64_t tag, int code,
                       const struct op_bytes *result)
{
    struct output *output = &conn->base.output;
    bi_output_format(output, "ANSWER %llu %d %zu\r\n", (unsigned long long)tag, code, result->size);
    bi_output_add(output, result->data, result->size);
    bi_output_add(output, "\r\n", 2);
    bi_fair_queue_mark_dirty(&conn->base);
}

/* Returns the shared reply buffer, empty. One large reply must not pin its memory forever. */
static struct op_bytes *reset_reply(struct beanstalk *beanstalk)
{
    if (beanstalk->rpc_reply.room > REPLY_KEEP)
        bi_op_codec_wire_free_bytes(&beanstalk->rpc_reply);
    beanstalk->rpc_reply.size = 0;
    return &beanstalk->rpc_reply;
}

void bi_rpc_reply_reject(struct beanstalk_conn *conn, uint64_t tag, int code, const char *sentence)
{
    struct op_bytes *result = reset_reply(conn->beanstalk);

    if (bi_op_codec_encode_error(sentence, result) == BIDE_OK)
        write_line(conn, tag, code, result);
    else
        /* A call without a reply would leave the client waiting forever. */
        conn->base.dead = true;
    bi_fair_queue_mark_dirty(&conn->base);
}

/* ---- results that no client receives ---- */

/* Sets *jobs to the jobs that a completed op has reserved and returns their number. */
static size_t leases_of(const bide_op *op, bide_job **jobs)
{
    return op->status == BIDE_OK ? bi_op_result_reserved(op, jobs) : 0;
}

void bi_rpc_reply_revoke(struct rpc *rpc)
{
    const bide_op *op = &rpc->coded.op;
    bide_job *jobs = NULL;
    size_t count = leases_of(op, &jobs);

    for (size_t i = 0; i < count; i++)
        bi_release_lease(rpc->base.server, jobs[i].id, jobs[i].token, false);
    bi_fair_queue_count_work(rpc->base.server, count * REVOKE_WORK);
    /* feed is 0 until the connection owns the subscription; later its own list ends it. */
    if (op->kind == BIDE_OP_SUBSCRIBE && op->status == BIDE_OK && rpc->coded.feed == 0)
        bi_rpc_submit_unsubscribe(rpc->beanstalk, op->subscription.handle);
}

static struct rpc *pop_unreplied(struct beanstalk_conn *conn)
{
    struct conn_load *load = &conn->base.load;
    struct rpc *rpc = STAILQ_FIRST(&conn->unreplied);
    assert(load->unreplied_count > 0 && load->unreplied_bytes >= rpc->unreplied);

    STAILQ_REMOVE_HEAD(&conn->unreplied, completed);
    load->unreplied_count--;
    load->unreplied_bytes -= rpc->unreplied;
    return rpc;
}

bool bi_rpc_reply_drop_one(struct beanstalk_conn *conn)
{
    struct rpc *rpc = NULL;

    if (!STAILQ_EMPTY(&conn->unreplied)) {
        rpc = pop_unreplied(conn);
    } else if (!STAILQ_EMPTY(&conn->unsent)) {
        rpc = STAILQ_FIRST(&conn->unsent);
        STAILQ_REMOVE_HEAD(&conn->unsent, completed);
    }
    if (rpc == NULL)
        return false;

    bi_tag_table_remove(&conn->tags, &rpc->by_tag);
    bi_rpc_reply_revoke(rpc);
    bi_rpc_free(rpc);
    return true;
}

/* ---- parked calls ---- */

static void set_cancelled_error(bide_op *op)
{
    snprintf(op->error, sizeof(op->error), "%s", bide_code_text(BIDE_CANCELLED));
}

/* Gives back the jobs of a reserve whose client has too much unread, and parks the call. */
static void park_reserve(struct rpc *rpc)
{
    bide_op *op = &rpc->coded.op;

    if (!rpc->resubmittable || op->status != BIDE_OK ||
        bi_conn_unread_bytes(&rpc->conn->base) <= UNREAD_MAX)
        return;
    /* A parked call can be cancelled, so it needs its tag. Without memory it replies normally. */
    if (!rpc->cancelled && !bi_tag_table_add(&rpc->conn->tags, &rpc->by_tag, rpc->tag))
        return;

    bi_rpc_reply_revoke(rpc);
    for (size_t i = 0; i < op->reserve.count; i++)
        bide_job_clear(&op->reserve.jobs[i]);
    op->reserve.count = 0;
    op->status = BIDE_CANCELLED; /* nothing to revoke if the connection closes while parked */

    rpc->parked = !rpc->cancelled;
    if (rpc->cancelled)
        set_cancelled_error(op);
}

void bi_rpc_reply_cancel_parked(struct rpc *rpc)
{
    assert(rpc->parked);
    /* It stays in the queue of replies and reports BIDE_CANCELLED there. */
    rpc->parked = false;
    set_cancelled_error(&rpc->coded.op);
}

/* Submits a parked reserve again, with the rest of its timeout. */
static void resubmit(struct rpc *rpc)
{
    struct server *server = rpc->base.server;
    int64_t *timeout = &rpc->coded.op.reserve.timeout_ms;
    int64_t left = (rpc->wait_deadline - server->now) / 1000;

    assert(rpc->parked && rpc->resubmittable && rpc->coded.op.reserve.count == 0);
    rpc->parked = false;
    if (*timeout > 0)
        *timeout = left > 0 ? left : 0;

    if (bi_rpc_link(rpc)) {
        /* The submit may flush a full batch, and completions may call bi_rpc_reply_flush(). The
         * flag keeps that from resubmitting, and so the recursion from growing. */
        rpc->beanstalk->resubmitting = true;
        bi_rpc_submit(rpc);
        rpc->beanstalk->resubmitting = false;
        return;
    }

    bi_rpc_reply_reject(rpc->conn, rpc->tag, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
    bi_rpc_free(rpc);
}

/* ---- replies ---- */

/* Ends a connection whose client sends calls and does not read: for too long, or while memory is
 * exhausted. */
static void close_if_stalled(struct beanstalk_conn *conn)
{
    const struct server *server = conn->base.server;

    if (bi_conn_unread_bytes(&conn->base) > OUTPUT_HIGH) {
        /* Write first: the bytes may be unread only because this turn has not written yet. */
        bi_conn_write(&conn->base);
        bi_conn_update_memory(&conn->base);
    }

    bool stalled = bi_conn_timeout_is_reader_stalled(&conn->base) ||
                   (bi_conn_unread_bytes(&conn->base) > UNREAD_SHARE &&
                    server->client_bytes / 2 > server->limits.max_client_bytes);
    if (!stalled && !conn->base.dead)
        return;

    if (!conn->base.dead)
        bi_log(&server->log, BIDE_LOG_WARN,
               "closing connection: the client does not read the replies to its calls");
    conn->base.dead = true;
    bi_fair_queue_mark_dirty(&conn->base);
}

/* Frees a call whose result is not written: the connection is lost, or memory is lacking. */
static void drop_result(struct rpc *rpc)
{
    bi_rpc_reply_revoke(rpc);
    if (!rpc->conn->base.dead)
        bi_rpc_reply_reject(rpc->conn, rpc->tag, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
    bi_rpc_free(rpc);
}

/* Encodes the reply. Frees the call, or retains it until its leases have been sent. */
static void write_result(struct rpc *rpc)
{
    struct beanstalk_conn *conn = rpc->conn;
    struct op_bytes *result = reset_reply(rpc->beanstalk);
    bide_job *jobs = NULL;

    if (conn->base.dead || bi_op_codec_encode_result(&rpc->coded, result) != BIDE_OK) {
        drop_result(rpc);
        return;
    }

    write_line(conn, rpc->tag, rpc->coded.op.status, result);

    if (leases_of(&rpc->coded.op, &jobs) == 0) {
        bi_rpc_free(rpc);
        return;
    }
    /* The client learns the tokens from this reply only. Until the socket has accepted it, the
     * server must be able to give the jobs back. */
    rpc->end = conn->base.output.sent_total + bi_output_left(&conn->base.output);
    STAILQ_INSERT_TAIL(&conn->unsent, rpc, completed);
}

/*
 * Frees calls whose replies have been sent, then writes replies while the output has room.
 * Parked calls are resubmitted here in order, but not within another resubmit (see above) and for
 * RESUBMIT_SLICE_US at most; the connection is then marked dirty and continues in the next pass.
 */
void bi_rpc_reply_flush(struct beanstalk_conn *conn)
{
    const struct server *server = conn->base.server;
    const int64_t end = server->now + RESUBMIT_SLICE_US;
    struct rpc *rpc;

    while ((rpc = STAILQ_FIRST(&conn->unsent)) != NULL &&
           rpc->end <= conn->base.output.sent_total) {
        STAILQ_REMOVE_HEAD(&conn->unsent, completed);
        bi_rpc_free(rpc);
    }

    while ((rpc = STAILQ_FIRST(&conn->unreplied)) != NULL &&
           bi_output_left(&conn->base.output) <= OUTPUT_HIGH) {
        if (rpc->parked && !rpc->cancel_quietly &&
            (conn->beanstalk->resubmitting || server->now >= end)) {
            bi_fair_queue_mark_dirty(&conn->base);
            return;
        }

        pop_unreplied(conn);
        bi_tag_table_remove(&conn->tags, &rpc->by_tag);

        if (!rpc->parked)
            write_result(rpc);
        else if (rpc->cancel_quietly)
            bi_rpc_free(rpc);
        else
            resubmit(rpc);
    }
}

void bi_rpc_reply_write(struct rpc *rpc)
{
    struct beanstalk_conn *conn = rpc->conn;

    if (conn->base.closed) {
        /* The connection is being closed in slices and has not yet reached this call. */
        bi_rpc_reply_revoke(rpc);
        bi_rpc_free(rpc);
        return;
    }

    bi_fair_queue_mark_dirty(&conn->base);
    if (rpc->wait_rejected && rpc->coded.op.status == BIDE_TIMED_OUT)
        bi_rpc_limit_reject_wait(conn, &rpc->coded.op);

    if (conn->base.dead || !bi_rpc_update_subscriptions(rpc)) {
        drop_result(rpc);
    } else if (rpc->cancel_quietly && rpc->coded.op.status == BIDE_CANCELLED) {
        bi_rpc_free(rpc);
    } else {
        park_reserve(rpc);
        rpc->unreplied = rpc->coded.op.status == BIDE_OK ? bi_op_result_bytes(&rpc->coded.op) : 0;
        STAILQ_INSERT_TAIL(&conn->unreplied, rpc, completed);
        conn->base.load.unreplied_count++;
        conn->base.load.unreplied_bytes += rpc->unreplied;
        conn->has_uncancelled = true;
        bi_rpc_reply_flush(conn);
    }

    close_if_stalled(conn);
}
