/* SPDX-License-Identifier: MIT */
/*
 * request - a command from its submission to its reply, and the release of leases.
 *
 * A request embeds its op. It stands in the pipeline of its connection until its reply is written.
 * When the connection closes first, the request is abandoned: it completes without a reply, and
 * what it has reserved is given back.
 *
 * Ordering   Ops complete in any order; replies are written from the head of the pipeline. `early`
 *            marks a request that has completed before it reached the head.
 * Ownership  The pipeline owns its requests; an abandoned request owns itself until on_done().
 *            Freed requests go to a spare list of the server, up to SPARE_MAX.
 * Failure    A lease that cannot be given back now is deferred and retried. If that fails, too, the
 *            ttr of the job ends the lease.
 */
#include "server/server_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_MAX             1024
#define YIELDED_PER_TURN      8 /* yielded requests submitted in one pass */
#define DEFERRED_RELEASES_MAX ((size_t)1 << 20)
#define RELEASE_RETRY_US      INT64_C(1000000)
#define RELEASE_SLICE         256  /* deferred leases given back with one submit, */
#define RELEASE_SLICE_US      1000 /* and the time for all of them in a pass */

static void on_done(bide_op *op);

struct request *bi_request_new(struct server *server, struct conn *conn, bide_op_kind kind,
                               bool (*reply)(struct request *request))
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
        request->op.done = on_done;
    }

    /* The arguments and the union are not reset: each command sets what it uses. */
    request->op.kind = kind;
    request->conn = conn;
    request->next = NULL;
    request->reply = reply;
    request->finished = request->early = request->blocking = request->speculative = false;
    request->counted = request->extended = request->leased = request->waited = false;
    request->applied = false;
    request->cancel_reason = CANCEL_NONE;
    request->timeout_ms = request->lease_end = 0;
    request->expected_bytes = request->bytes = 0;
    request->tube = NULL;
    request->free_extra = free;
    return request;
}

void bi_request_free(struct request *request)
{
    struct server *server = request->server;

    if (request->extra != NULL)
        request->free_extra(request->extra);
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
    request->server->in_flight++;

    /* During recovery some ops wait and others do not; those of one connection keep their order. */
    request->op.private_.order = request->conn == NULL ? 0 : request->conn->order;
    bi_server_submit(request->server, &request->op);
}

void bi_request_yield(struct request *request)
{
    struct server *server = request->server;

    /* Counted as in flight already: a stop must wait for it. */
    request->finished = false;
    request->next_yielded = NULL;
    server->in_flight++;

    *(server->yielded_tail != NULL ? &server->yielded_tail->next_yielded : &server->yielded_head) =
        request;
    server->yielded_tail = request;
}

static void append_to_pipeline(struct request *request)
{
    struct conn *conn = request->conn;

    if (conn->pipeline_tail != NULL)
        conn->pipeline_tail->next = request;
    else
        conn->pipeline_head = request;
    conn->pipeline_tail = request;

    conn->pipeline_count++;
    conn->blocking_count += request->blocking;
    conn->speculative += request->speculative;
    conn->expected_bytes += request->expected_bytes;
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
    if (request->conn->pipeline_head == request)
        bi_conn_drain_pipeline(request->conn);
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

static bool is_listing(const struct request *request)
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

void bi_request_cancel(struct request *request, enum cancel_reason cancel_reason)
{
    /* When the connection closes, also cancel a reserve by id, so that the job is not reserved,
     * and a listing: it may wait for the recovery of the queue, and holds much memory. */
    bool cancellable =
        bi_request_waits(request) ||
        (cancel_reason == CANCEL_CLOSING && (bi_request_reserves(request) || is_listing(request)));
    if (request->op.status != BIDE_PENDING || request->cancel_reason != CANCEL_NONE || !cancellable)
        return;

    /* The first reason decides the reply; the op still completes once, through the cq. */
    request->cancel_reason = cancel_reason;
    bide_cancel_op(request->server->queue, &request->op);
}

/* ---- release of leases ---- */

/* A lease to give back when the queue is not throttled any more. */
struct deferred_release {
    uint64_t id;
    uint64_t token;
    bool failed;
};

/* Makes room for one more entry: moves the entries to the front, or doubles the array. */
static bool grow_deferred(struct server *server)
{
    if (server->deferred_first > server->deferred_room / 2) {
        memmove(server->deferred_releases, server->deferred_releases + server->deferred_first,
                server->deferred_count * sizeof(*server->deferred_releases));
        server->deferred_first = 0;
        return true;
    }

    size_t room = server->deferred_room == 0 ? 256 : server->deferred_room * 2;
    struct deferred_release *deferred_release =
        room > DEFERRED_RELEASES_MAX
            ? NULL
            : realloc(server->deferred_releases, room * sizeof(*deferred_release));
    if (deferred_release == NULL)
        return false;

    server->deferred_releases = deferred_release;
    server->deferred_room = room;
    return true;
}

/* Without room the lease is dropped; the ttr of its job ends it. */
static void defer_release(struct server *server, struct deferred_release deferred_release)
{
    /* Set also without connections to resume: resume_throttled() submits deferred releases. */
    server->throttled = true;

    if (server->deferred_first + server->deferred_count < server->deferred_room ||
        grow_deferred(server))
        server->deferred_releases[server->deferred_first + server->deferred_count++] =
            deferred_release;
}

static bool reply_give_back(struct request *request)
{
    struct server *server = request->server;
    bool failed = request->op.kind == BIDE_OP_FAIL;

    assert(server->releases_in_flight > 0);
    server->releases_in_flight--;
    if (request->op.status >= BIDE_OK || request->op.status == BIDE_EINVAL)
        return true;

    /* EBUSY is retried as soon as the queue has room, a full or broken store after
     * RELEASE_RETRY_US. When the time of a stop is over, the lease is left to the next start. */
    if (request->op.status != BIDE_EBUSY && server->stop_forced)
        return true;
    if (request->op.status != BIDE_EBUSY)
        server->release_retry_at = server->now + RELEASE_RETRY_US;

    defer_release(server,
                  (struct deferred_release){request->op.lease.id, request->op.lease.token, failed});
    return true;
}

static void submit_release(struct server *server, struct deferred_release deferred_release)
{
    struct request *request = bi_request_new(
        server, NULL, deferred_release.failed ? BIDE_OP_FAIL : BIDE_OP_GIVE_BACK, reply_give_back);
    if (request == NULL)
        return; /* the ttr of the job ends the lease */

    if (deferred_release.failed)
        request->op.fail = (bide_fail_args){.id = deferred_release.id,
                                            .token = deferred_release.token,
                                            .error = {"the connection was lost", 23},
                                            .retry_in_ms = BIDE_KEEP};
    else
        request->op.lease = (bide_lease_args){deferred_release.id, deferred_release.token};

    server->releases_in_flight++;
    bi_request_submit(request);
}

/* Releases in flight fill a few commits at most, like the changes of bulk senders. More of them
 * would only delay the changes of light clients. */
bool bi_request_may_release(const struct server *server)
{
    return server->releases_in_flight < server->releases_in_flight_max &&
           !bi_server_must_throttle(server);
}

void bi_request_give_back(struct server *server, uint64_t id, uint64_t token, bool failed)
{
    struct deferred_release deferred_release = {id, token, failed};

    /* A release never overtakes deferred ones. */
    if (server->deferred_count > 0 || !bi_request_may_release(server))
        defer_release(server, deferred_release);
    else
        submit_release(server, deferred_release);
}

bool bi_request_has_due_releases(const struct server *server)
{
    return server->deferred_count > 0 && server->now >= server->release_retry_at &&
           bi_request_may_release(server);
}

void bi_request_submit_deferred_releases(struct server *server)
{
    int64_t end = server->now + RELEASE_SLICE_US;
    bool refused = false;

    while (!refused && server->now < end && bi_request_has_due_releases(server)) {
        size_t count =
            server->deferred_count < RELEASE_SLICE ? server->deferred_count : RELEASE_SLICE;
        size_t left = server->deferred_count - count;

        for (size_t i = 0; i < count; i++) {
            struct deferred_release deferred_release =
                server->deferred_releases[server->deferred_first++];
            server->deferred_count--;
            submit_release(server, deferred_release);
        }

        /* Rejected releases are appended again. Stop then: the rest would be rejected as well. */
        bi_server_flush(server);
        refused = server->deferred_count > left;
    }
    if (server->deferred_count > 0)
        return;

    free(server->deferred_releases);
    server->deferred_releases = NULL;
    server->deferred_first = server->deferred_room = 0;
}

static void release_jobs(struct request *request)
{
    bide_job *jobs = request->op.reserve.jobs;
    for (size_t i = 0; i < request->op.reserve.count; i++) {
        bi_request_give_back(request->server, jobs[i].id, jobs[i].token, false);
        bide_job_clear(&jobs[i]);
    }
}

/* Frees the results of an op without a client, and gives back its leases. */
static void free_results(struct request *request)
{
    bide_op *op = &request->op;

    if (op->kind == BIDE_OP_RESERVE && op->status == BIDE_OK) {
        release_jobs(request);
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

/* Completes a request whose connection is closed. */
static bool complete_orphan(struct request *request)
{
    free_results(request);

    /* Record the reference that the op has made, so that the release below gives it back. */
    if (request->tube != NULL && request->op.kind == BIDE_OP_TOPIC_REF &&
        request->op.status == BIDE_OK)
        bi_beanstalk_tube_set_referenced(request->server, request->tube);

    /* The op did not end the lease, and the session that held it is gone. */
    if (bi_request_keeps_lease(request))
        bi_request_give_back(request->server, request->op.lease.id, request->op.lease.token,
                             request->has_retry_limit && !request->server->stopping);

    if (request->tube != NULL)
        bi_beanstalk_tube_release(request->server, request->tube);
    return true;
}

static void complete_detached(struct request *request)
{
    bool ended = request->reply(request);
    assert(ended);
    bi_request_free(request);
}

void bi_request_abandon(struct request *request)
{
    request->conn = NULL;
    request->reply = complete_orphan;

    /* One in flight is freed by on_done(). */
    if (request->finished)
        complete_detached(request);
    else
        bi_request_cancel(request, CANCEL_CLOSING);
}

/* ---- completion ---- */

static void uncount_pending(struct request *request)
{
    struct server *server = request->server;

    server->in_flight--;
    if (request->speculative && request->conn != NULL)
        request->conn->speculative--;
    request->speculative = false;

    if (!request->counted)
        return;
    request->counted = false;
    bi_schedule_remove_uncommitted(server, request->bulk, request->bytes);
}

static void on_done(bide_op *op)
{
    struct request *request = (struct request *)(void *)op;

    uncount_pending(request);
    request->finished = true;
    request->completed_at = request->server->now;

    /* The session learns the new end of a lease now, not when the reply reaches the head. */
    struct conn *conn = request->conn;
    if (conn != NULL && op->kind == BIDE_OP_TOUCH)
        bi_beanstalk_finish_on_touched(request);
    if (conn == NULL) {
        complete_detached(request);
        return;
    }

    request->early = conn->pipeline_head != request;
    if (!request->early)
        bi_conn_drain_pipeline(conn);
}

void bi_request_submit_yielded(struct server *server)
{
    for (int i = 0; i < YIELDED_PER_TURN && server->yielded_head != NULL; i++) {
        struct request *request = server->yielded_head;
        server->yielded_head = request->next_yielded;
        if (server->yielded_head == NULL)
            server->yielded_tail = NULL;

        if (request->conn != NULL) {
            bi_server_submit(server, &request->op);
            continue;
        }

        /* Its connection is closed: complete it here instead of a further step. */
        request->op.status = BIDE_CANCELLED;
        server->in_flight--;
        complete_detached(request);
    }
}
