/* SPDX-License-Identifier: MIT */
/*
 * request - a command that has been handed to the queue, until it is answered.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_MAX     1024
#define LATER_MAX     8 /* steps of requests that give way, in one pass */
#define OWED_MAX      ((size_t)1 << 20)
#define OWED_PAUSE_US INT64_C(1000000)
#define OWED_SLICE    256  /* leases given back with one submit, */
#define OWED_SLICE_US 1000 /* and the time of all of these in a pass */

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
    request->counted = request->modern = request->leased = request->waited = false;
    request->applied = false;
    request->why = WHY_NONE;
    request->timeout_ms = request->lease_end = 0;
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
    request->op.private_.order = request->conn == NULL ? 0 : request->conn->order;
    bi_server_submit(request->server, &request->op);
}

void bi_request_submit_later(struct request *request)
{
    struct server *server = request->server;
    request->finished = false;
    request->next_later = NULL;
    server->under_way++;
    *(server->later_tail != NULL ? &server->later_tail->next_later : &server->later_head) = request;
    server->later_tail = request;
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

bool bi_request_waits(const struct request *request)
{
    bide_op_kind kind = request->op.kind;
    return kind == BIDE_OP_RESERVE || kind == BIDE_OP_WAIT;
}

bool bi_request_reserves(const struct request *request)
{
    bide_op_kind kind = request->op.kind;
    return kind == BIDE_OP_RESERVE || kind == BIDE_OP_RESERVE_JOB;
}

static bool lists(const struct request *request)
{
    bide_op_kind kind = request->op.kind;
    return kind == BIDE_OP_LIST || kind == BIDE_OP_TOPICS;
}

bool bi_request_keeps_lease(const struct request *request)
{
    int status = request->op.status;
    /* All ops that end a lease begin with its id and token. */
    return request->lease_end != 0 && request->op.lease.token != 0 && status != BIDE_OK &&
           status != BIDE_NOT_FOUND && status != BIDE_LEASE_LOST;
}

void bi_request_give_up(struct request *request, enum why why)
{
    /* A job that is reserved by its id and not wanted any more is to be left as it was. A list may wait
     * until the queue is loaded, and has much memory. */
    bool cancellable = bi_request_waits(request) ||
                       (why == WHY_GONE && (bi_request_reserves(request) || lists(request)));
    if (request->op.status != BIDE_PENDING || request->why != WHY_NONE || !cancellable)
        return;
    request->why = why;
    bide_cancel_op(request->server->queue, &request->op);
}

/* ---- without a connection ---- */

/* A lease to be given back when the queue has room again. */
struct owed {
    uint64_t id;
    uint64_t token;
    bool failed;
};

/* Room for one more behind the last: what has gone in front makes way, or there is twice as much. */
static bool grow_owed(struct server *server)
{
    if (server->owed_first > server->owed_room / 2) {
        memmove(server->owed, server->owed + server->owed_first,
                server->owed_count * sizeof(*server->owed));
        server->owed_first = 0;
        return true;
    }
    size_t room = server->owed_room == 0 ? 256 : server->owed_room * 2;
    struct owed *owed = room > OWED_MAX ? NULL : realloc(server->owed, room * sizeof(*owed));
    if (owed == NULL)
        return false;
    server->owed = owed;
    server->owed_room = room;
    return true;
}

/* One for which there is no room is brought back by its ttr. */
static void owe(struct server *server, struct owed owed)
{
    server->pressed = true;
    if (server->owed_first + server->owed_count < server->owed_room || grow_owed(server))
        server->owed[server->owed_first + server->owed_count++] = owed;
}

static bool answer_give_back(struct request *request)
{
    struct server *server = request->server;
    bool failed = request->op.kind == BIDE_OP_FAIL;
    assert(server->giving > 0);
    server->giving--;
    if (request->op.status >= BIDE_OK || request->op.status == BIDE_EINVAL)
        return true;
    /* A store that is full or broken is asked again a little later; when the time of a stop is over, by
     * the next start. */
    if (request->op.status != BIDE_EBUSY && server->ended)
        return true;
    if (request->op.status != BIDE_EBUSY)
        server->owed_at = server->now + OWED_PAUSE_US;
    owe(server, (struct owed){request->op.lease.id, request->op.lease.token, failed});
    return true;
}

static void give_back(struct server *server, struct owed owed)
{
    struct request *request = bi_request_new(
        server, NULL, owed.failed ? BIDE_OP_FAIL : BIDE_OP_GIVE_BACK, answer_give_back);
    if (request == NULL)
        return; /* its ttr will bring it back */
    if (owed.failed)
        request->op.fail = (bide_fail_args){.id = owed.id,
                                            .token = owed.token,
                                            .error = {"the connection was lost", 23},
                                            .retry_in_ms = BIDE_KEEP};
    else
        request->op.lease = (bide_lease_args){owed.id, owed.token};
    server->giving++;
    bi_request_submit(request);
}

/* What connections held that have gone is stored after a few commits at most, as what others bring that
 * send much: more would only make clients wait that send little. */
bool bi_request_has_room(const struct server *server)
{
    return server->giving < server->giving_max && !bi_server_pressed(server);
}

void bi_request_give_back(struct server *server, uint64_t id, uint64_t token, bool failed)
{
    struct owed owed = {id, token, failed};
    if (server->owed_count > 0 || !bi_request_has_room(server))
        owe(server, owed);
    else
        give_back(server, owed);
}

bool bi_request_may_give_back(const struct server *server)
{
    return server->owed_count > 0 && server->now >= server->owed_at && bi_request_has_room(server);
}

void bi_request_give_back_owed(struct server *server)
{
    int64_t end = server->now + OWED_SLICE_US;
    bool refused = false;
    while (!refused && server->now < end && bi_request_may_give_back(server)) {
        size_t count = server->owed_count < OWED_SLICE ? server->owed_count : OWED_SLICE;
        size_t left = server->owed_count - count;
        for (size_t i = 0; i < count; i++) {
            struct owed owed = server->owed[server->owed_first++];
            server->owed_count--;
            give_back(server, owed);
        }
        bi_server_flush(server);
        /* What was refused has come behind the others. */
        refused = server->owed_count > left;
    }
    if (server->owed_count > 0)
        return;
    free(server->owed);
    server->owed = NULL;
    server->owed_first = server->owed_room = 0;
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

/* The answer to somebody who has gone. */
static bool answer_nobody(struct request *request)
{
    drop_results(request);
    if (request->tube != NULL && request->op.kind == BIDE_OP_TOPIC_REF &&
        request->op.status == BIDE_OK)
        bi_beanstalk_referenced(request->server, request->tube);
    if (bi_request_keeps_lease(request))
        bi_request_give_back(request->server, request->op.lease.id, request->op.lease.token,
                             request->has_retries && !request->server->stopping);
    if (request->tube != NULL)
        bi_beanstalk_let_go(request->server, request->tube);
    return true;
}

static void end_alone(struct request *request)
{
    bool ended = request->answer(request);
    assert(ended);
    bi_request_free(request);
}

void bi_request_abandon(struct request *request)
{
    request->conn = NULL;
    request->answer = answer_nobody;
    if (request->finished)
        end_alone(request);
    else
        bi_request_give_up(request, WHY_GONE);
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
    bi_server_let_go(server, request->bulk, request->bytes);
}

static void done(bide_op *op)
{
    struct request *request = (struct request *)(void *)op;
    count_down(request);
    request->finished = true;
    request->completed = request->server->now;
    struct conn *conn = request->conn;
    if (conn != NULL && op->kind == BIDE_OP_TOUCH)
        bi_beanstalk_touched(request);
    if (conn == NULL) {
        end_alone(request);
        return;
    }
    request->early = conn->line_head != request;
    if (!request->early)
        bi_conn_settle(conn);
}

void bi_request_submit_some(struct server *server)
{
    for (int i = 0; i < LATER_MAX && server->later_head != NULL; i++) {
        struct request *request = server->later_head;
        server->later_head = request->next_later;
        if (server->later_head == NULL)
            server->later_tail = NULL;
        if (request->conn != NULL) {
            bi_server_submit(server, &request->op);
            continue;
        }
        request->op.status = BIDE_CANCELLED; /* its connection has gone */
        server->under_way--;
        end_alone(request);
    }
}
