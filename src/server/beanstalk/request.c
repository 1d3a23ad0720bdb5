/* SPDX-License-Identifier: MIT */
/*
 * request - a command from its submission to its reply, and the pipeline of a connection.
 *
 * A request embeds its op. It stands in the pipeline of its connection until its reply is written.
 * When the connection closes first, the request is abandoned: it completes without a reply, and
 * what it has reserved is given back.
 *
 * Ordering   Ops complete in any order; replies are written from the head of the pipeline. `early`
 *            marks a request that has completed before it reached the head.
 * Ownership  The pipeline owns its requests; an abandoned request owns itself until it completes.
 *            Freed requests go to a spare list, up to SPARE_MAX.
 */
#include "op/op_result.h"
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_MAX 1024

static const struct server_op_type request_type;

/* ---- requests ---- */

struct request *bi_request_new(struct beanstalk *beanstalk, struct beanstalk_conn *conn,
                               bide_op_kind kind, bool (*reply)(struct request *request))
{
    struct request *request = STAILQ_FIRST(&beanstalk->spare);

    if (request != NULL) {
        assert(beanstalk->spare_count > 0);
        STAILQ_REMOVE_HEAD(&beanstalk->spare, next);
        beanstalk->spare_count--;
    } else {
        request = calloc(1, sizeof(*request));
        if (request == NULL)
            return NULL;
        request->beanstalk = beanstalk;
        request->base.type = &request_type;
        request->base.server = beanstalk->server;
        request->base.op = &request->op;
    }

    /* The arguments and the union are not reset: each command sets what it uses. */
    request->op.kind = kind;
    /* During recovery some ops wait and others do not; those of one connection keep their order. */
    request->op.private_.order = conn == NULL ? 0 : conn->base.order;
    request->base.abandoned = false;
    request->conn = conn;
    request->reply = reply;
    request->write = NULL;
    request->finished = request->early = request->blocking = request->speculative = false;
    request->has_steps = false;
    request->extended = request->leased = request->waited = false;
    request->applied = false;
    request->cancel_reason = CANCEL_NONE;
    request->timeout_ms = request->lease_end = 0;
    request->expected_bytes = request->base.bytes = 0;
    request->tube = NULL;
    request->free_extra = free;
    return request;
}

void bi_request_free(struct request *request)
{
    struct beanstalk *beanstalk = request->beanstalk;
    assert(!request->base.uncommitted);

    if (request->extra != NULL)
        request->free_extra(request->extra);
    request->extra = NULL;

    if (beanstalk->spare_count >= SPARE_MAX) {
        free(request);
        return;
    }
    STAILQ_INSERT_HEAD(&beanstalk->spare, request, next);
    beanstalk->spare_count++;
}

void bi_request_submit(struct request *request)
{
    request->finished = false;
    bi_batch_submit(&request->base);
}

void bi_request_yield(struct request *request)
{
    request->finished = false;
    bi_batch_yield(&request->base);
}

/* ---- pipeline ---- */

static void append_to_pipeline(struct request *request)
{
    struct beanstalk_conn *conn = request->conn;

    STAILQ_INSERT_TAIL(&conn->pipeline, request, next);
    assert(!request->speculative || request->blocking);
    conn->base.load.pipelined++;
    conn->base.load.blocking += request->blocking;
    conn->base.load.speculative += request->speculative;
    conn->base.load.expected_bytes += request->expected_bytes;
}

void bi_request_enqueue(struct request *request)
{
    append_to_pipeline(request);
    bi_request_submit(request);
}

void bi_request_enqueue_completed(struct request *request)
{
    request->finished = true;
    append_to_pipeline(request);
    if (STAILQ_FIRST(&request->conn->pipeline) == request)
        bi_request_drain_pipeline(request->conn);
}

static bool reply_copy(struct request *request)
{
    bi_output_add(&request->conn->base.output, request->copy, request->copy_size);
    return true;
}

void bi_request_reply(struct beanstalk_conn *conn, const char *text)
{
    bi_request_reply_bytes(conn, text, strlen(text));
}

void bi_request_reply_bytes(struct beanstalk_conn *conn, const char *text, size_t size)
{
    assert(size <= OUTPUT_SMALL);
    bi_fair_queue_mark_dirty(&conn->base);
    if (STAILQ_EMPTY(&conn->pipeline)) {
        bi_output_add(&conn->base.output, text, size);
        return;
    }

    /* A missing reply would shift all later ones: without memory the connection must end. */
    struct request *request = bi_request_new(conn->beanstalk, conn, BIDE_OP_NONE, reply_copy);
    if (request == NULL) {
        conn->base.dead = true;
        return;
    }

    memcpy(request->copy, text, size);
    request->copy_size = size;
    request->finished = true;
    append_to_pipeline(request);
}

static void remove_from_pipeline(struct beanstalk_conn *conn, struct request *request)
{
    struct conn_load *load = &conn->base.load;
    assert(STAILQ_FIRST(&conn->pipeline) == request && load->pipelined > 0);
    assert(load->blocking >= request->blocking && load->expected_bytes >= request->expected_bytes);
    assert(conn->applied >= request->applied);

    STAILQ_REMOVE_HEAD(&conn->pipeline, next);
    load->pipelined--;
    load->blocking -= request->blocking;
    load->expected_bytes -= request->expected_bytes;

    /* The session knows the reserved jobs now: the blocked command can be tried again. */
    conn->applied -= request->applied;
    conn->base.blocked = conn->base.blocked && !request->applied;
}

void bi_request_drain_pipeline(struct beanstalk_conn *conn)
{
    struct request *request;

    bi_fair_queue_mark_dirty(&conn->base);
    while ((request = STAILQ_FIRST(&conn->pipeline)) != NULL && request->finished) {
        /* A request that is submitted again stays at the head. */
        if (!request->reply(request))
            return;
        remove_from_pipeline(conn, request);
        bi_request_free(request);
    }

    conn->base.last_active_at = conn->base.server->now;
    if (conn->base.input_size > 0)
        bi_fair_queue_enqueue_run(&conn->base);
}

/* ---- cancelling ---- */

bool bi_request_waits(const struct request *request)
{
    return bi_op_row(&request->op)->timeout_at != 0;
}

/* True if the op reserves jobs, which enter the session with the reply. */
static bool reserves(const struct request *request)
{
    return bi_op_is(&request->op, OP_RESERVES);
}

bool bi_request_keeps_lease(const struct request *request)
{
    int status = request->op.status;

    /* All ops that end a lease begin with its id and token; beanstalk_finish.c asserts it. */
    return request->lease_end != 0 && request->op.lease.token != 0 && status != BIDE_OK &&
           status != BIDE_NOT_FOUND && status != BIDE_LEASE_LOST;
}

void bi_request_cancel(struct request *request, enum cancel_reason cancel_reason)
{
    /* When the connection closes, also cancel a reserve by id, so that the job is not reserved,
     * and a listing: it may wait for the recovery of the queue, and holds much memory. */
    bool cancellable =
        bi_request_waits(request) ||
        (cancel_reason == CANCEL_CLOSING && (reserves(request) || bi_op_is(&request->op, OP_PAGE)));
    if (request->op.status != BIDE_PENDING || request->cancel_reason != CANCEL_NONE || !cancellable)
        return;

    /* The first reason decides the reply; the op still completes once, through the cq. */
    request->cancel_reason = cancel_reason;
    bide_cancel_op(request->base.server->queue, &request->op);
}

/* As in beanstalkd, a waiting reserve ends when the client shuts down its side. */
void bi_request_cancel_waiting(struct conn *conn, enum cancel_reason cancel_reason)
{
    struct request *request;
    STAILQ_FOREACH(request, &bi_beanstalk_conn(conn)->pipeline, next)
        bi_request_cancel(request, cancel_reason);
}

/* ---- requests of closed connections ---- */

/* Frees the results of an op without a client, and gives back its leases. */
static void free_results(struct request *request)
{
    bide_op *op = &request->op;
    bide_job *jobs;
    size_t leases = op->status == BIDE_OK ? bi_op_result_reserved(op, &jobs) : 0;

    for (size_t i = 0; i < leases; i++)
        bi_release_lease(request->base.server, jobs[i].id, jobs[i].token, false);
    bi_op_result_free(op);
}

/* Completes a request whose connection is closed. Returns false if it was submitted again. */
static bool complete_orphan(struct request *request)
{
    if (bi_beanstalk_finish_retry_delete(request))
        return false;

    free_results(request);

    /* Record the reference that the op has made, so that the release below gives it back. */
    if (request->tube != NULL && request->op.kind == BIDE_OP_TOPIC_REF &&
        request->op.status == BIDE_OK)
        bi_beanstalk_tube_set_referenced(request->beanstalk, request->tube);

    /* The op did not end the lease, and the session that held it is gone. */
    if (bi_request_keeps_lease(request))
        bi_release_lease(request->base.server, request->op.lease.id, request->op.lease.token,
                         request->has_retry_limit && !request->base.server->stopping);

    if (request->tube != NULL)
        bi_beanstalk_tube_release(request->beanstalk, request->tube);
    return true;
}

static void complete_detached(struct request *request)
{
    if (request->reply(request))
        bi_request_free(request);
}

void bi_request_abandon_all(struct beanstalk_conn *conn)
{
    struct request *request;

    while ((request = STAILQ_FIRST(&conn->pipeline)) != NULL) {
        STAILQ_REMOVE_HEAD(&conn->pipeline, next);
        request->conn = NULL;
        request->base.abandoned = true;
        request->reply = complete_orphan;

        /* One in flight is freed by on_completed(). */
        if (request->finished)
            complete_detached(request);
        else
            bi_request_cancel(request, CANCEL_CLOSING);
    }
}

/* ---- completion ---- */

/* The op has left the batch: it completes now, or has to wait. */
static void end_speculation(struct request *request)
{
    if (request->speculative && request->conn != NULL) {
        assert(request->conn->base.load.speculative > 0);
        request->conn->base.load.speculative--;
    }
    request->speculative = false;
}

/* The queue has applied the request; only its completion waits for a commit. The commands behind it
 * may execute. A reserve stays marked: its jobs enter the session with the reply, and commands that
 * may name one of them wait until then (conn->blocked). */
static void unblock(struct request *request)
{
    struct beanstalk_conn *conn = request->conn;
    if (conn == NULL || !request->blocking)
        return;

    assert(conn->base.load.blocking > 0);
    request->blocking = false;
    conn->base.load.blocking--;
    request->applied = reserves(request);
    conn->applied += request->applied;
}

static void on_pending(struct server_op *server_op)
{
    struct request *request = (struct request *)(void *)server_op;

    end_speculation(request);
    /* Later commands see the effect of all ops of a request, so they wait for the last one. */
    if (request->op.applied && !request->has_steps)
        unblock(request);

    /* An op that waits for an event is not a change that waits for a commit. */
    if (!bi_request_waits(request) || request->op.applied)
        bi_batch_count_change(server_op, request->conn == NULL ? NULL : &request->conn->base);
}

static void on_completed(struct server_op *server_op)
{
    struct request *request = (struct request *)(void *)server_op;
    struct beanstalk_conn *conn = request->conn;

    end_speculation(request);
    request->finished = true;
    request->completed_at = server_op->server->now;
    if (conn == NULL) {
        complete_detached(request);
        return;
    }

    /* The session learns the new end of a lease now, not when the reply reaches the head. */
    if (request->op.kind == BIDE_OP_TOUCH)
        bi_beanstalk_finish_on_touched(request);

    request->early = STAILQ_FIRST(&conn->pipeline) != request;
    if (!request->early)
        bi_request_drain_pipeline(conn);
}

static const struct server_op_type request_type = {on_pending, on_completed};

void bi_request_free_spare(struct beanstalk *beanstalk)
{
    struct request *request;
    while ((request = STAILQ_FIRST(&beanstalk->spare)) != NULL) {
        STAILQ_REMOVE_HEAD(&beanstalk->spare, next);
        free(request);
    }
}
