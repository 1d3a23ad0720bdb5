/* SPDX-License-Identifier: MIT */
/*
 * request - a command that has been handed to the queue, until it is answered.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_MAX 1024

static void done(bide_op *op);

struct request *bi_request_new(struct server *server, struct conn *conn, bide_op_kind kind,
                               bool (*answer)(struct request *request))
{
    struct request *request = server->spare;
    if (request != NULL) {
        server->spare = request->next;
        server->spare_count--;
    } else {
        request = calloc(1, sizeof(*request));
        if (request == NULL)
            return NULL;
        request->server = server;
        request->op.cq = server->cq;
        request->op.done = done;
    }
    request->op.kind = kind;
    request->conn = conn;
    request->next = NULL;
    request->answer = answer;
    request->finished = request->early = request->blocking = request->trying = false;
    request->counted = request->modern = request->leased = false;
    request->why = WHY_NONE;
    request->timeout_ms = 0;
    request->expected = request->bytes = 0;
    request->tube = NULL;
    request->drop = free;
    return request;
}

void bi_request_free(struct request *request)
{
    struct server *server = request->server;
    if (request->extra != NULL)
        request->drop(request->extra);
    request->extra = NULL;
    if (server->spare_count >= SPARE_MAX) {
        free(request);
        return;
    }
    request->next = server->spare;
    server->spare = request;
    server->spare_count++;
}

void bi_request_submit(struct request *request)
{
    request->finished = false;
    request->server->under_way++;
    bi_server_submit(request->server, &request->op);
}

static void join_line(struct request *request)
{
    struct conn *conn = request->conn;
    if (conn->line_tail != NULL)
        conn->line_tail->next = request;
    else
        conn->line_head = request;
    conn->line_tail = request;
    conn->line_count++;
    conn->blocked += request->blocking;
    conn->trying += request->trying;
    conn->expected += request->expected;
}

void bi_request_ask(struct request *request)
{
    join_line(request);
    bi_request_submit(request);
}

void bi_request_in_turn(struct request *request)
{
    request->finished = true;
    join_line(request);
    if (request->conn->line_head == request)
        bi_conn_settle(request->conn);
}

void bi_request_give_up(struct request *request, enum why why)
{
    if (request->op.status != BIDE_PENDING || request->why != WHY_NONE)
        return;
    request->why = why;
    bide_cancel_op(request->server->queue, &request->op);
}

/* ---- without a connection ---- */

static bool forget(struct request *request)
{
    (void)request;
    return true;
}

void bi_request_give_back(struct server *server, uint64_t id, uint64_t token, bool failed)
{
    struct request *request =
        bi_request_new(server, NULL, failed ? BIDE_OP_FAIL : BIDE_OP_GIVE_BACK, forget);
    if (request == NULL)
        return; /* its ttr will bring it back */
    if (failed)
        request->op.fail = (bide_fail_args){.id = id,
                                            .token = token,
                                            .error = {"the connection was lost", 23},
                                            .retry_in_ms = BIDE_KEEP};
    else
        request->op.lease = (bide_lease_args){id, token};
    bi_request_submit(request);
}

static void give_back_jobs(struct request *request)
{
    bide_job *jobs = request->op.reserve.jobs;
    for (size_t i = 0; i < request->op.reserve.count; i++) {
        bi_request_give_back(request->server, jobs[i].id, jobs[i].token, false);
        bide_job_clear(&jobs[i]);
    }
}

/* Whatever it brought goes back. */
static void drop_results(struct request *request)
{
    bide_op *op = &request->op;
    if (op->kind == BIDE_OP_RESERVE && op->status == BIDE_OK) {
        give_back_jobs(request);
    } else if (op->kind == BIDE_OP_RESERVE_JOB && op->status == BIDE_OK) {
        bi_request_give_back(request->server, request->job.id, request->job.token, false);
        bide_job_clear(&request->job);
    } else if ((op->kind == BIDE_OP_PEEK || op->kind == BIDE_OP_PEEK_FIRST ||
                op->kind == BIDE_OP_JOB_STATS) &&
               op->status == BIDE_OK) {
        bide_job_clear(&request->job);
    } else if (op->kind == BIDE_OP_WAIT && op->status == BIDE_OK) {
        bide_buf_unref(op->wait.result);
    } else if (op->kind == BIDE_OP_RESULT && op->status == BIDE_OK) {
        bide_buf_unref(op->fetch.buf);
    } else if (op->kind == BIDE_OP_LIST && op->status == BIDE_OK) {
        for (size_t i = 0; i < op->list.count; i++)
            bide_job_clear(&op->list.jobs[i]);
    }
}

void bi_request_abandon(struct request *request)
{
    request->conn = NULL;
    if (!request->finished) {
        bi_request_give_up(request, WHY_GONE);
        return;
    }
    drop_results(request);
    if (request->tube != NULL && request->op.kind == BIDE_OP_TOPIC_REF &&
        request->op.status == BIDE_OK)
        bi_beanstalk_referenced(request->server, request->tube);
    if (request->tube != NULL)
        bi_beanstalk_let_go(request->server, request->tube);
    bi_request_free(request);
}

/* ---- completion ---- */

static void count_down(struct request *request)
{
    struct server *server = request->server;
    server->under_way--;
    if (request->trying && request->conn != NULL)
        request->conn->trying--;
    request->trying = false;
    if (!request->counted)
        return;
    request->counted = false;
    server->held--;
    server->held_bytes -= request->bytes;
}

static void done(bide_op *op)
{
    struct request *request = (struct request *)(void *)op;
    count_down(request);
    request->finished = true;
    struct conn *conn = request->conn;
    if (conn == NULL) {
        bi_request_abandon(request);
        return;
    }
    request->early = conn->line_head != request;
    if (!request->early)
        bi_conn_settle(conn);
}
