/* SPDX-License-Identifier: MIT */
/*
 * conn_close - the end of a connection: releases its calls, leases and tubes in slices.
 *
 * A connection may hold a million jobs, watch ten thousand tubes and have thousands of calls that
 * wait. Its socket is closed at once. The first slice is released with it, which is all of a small
 * connection. The rest follows in slices, between which other connections are served. The
 * connection is counted until everything is released.
 *
 * Ordering   Calls, replies to reserve-many that were not sent, then jobs in the order of their
 *            reservations, then tubes.
 * Limits     Releases pause while the queue is throttled, while enough of them are in flight, and
 *            while the store rejects them. Connections with at most FEW_LEASES jobs are released
 *            all the same; their leases are deferred (see bi_request_give_back). Others wait.
 */
#include "server/server_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOSE_FIRST_US 500  /* time of the first slice, when a connection ends, */
#define CLOSE_SLICE_US 1000 /* and of the slice of all closed connections in a turn */
#define FEW_LEASES     1000 /* leases that may be deferred while the queue is throttled */
#define JOB_WORK       4    /* units of work: a job, */
#define TUBE_WORK      4    /* and a tube */

/* ---- releasing ---- */

/* Gives back the job that was reserved first. False if there is none. */
static bool release_job(struct conn *conn)
{
    const struct lease *lease = bi_session_take_oldest_lease(&conn->session);
    if (lease == NULL)
        return false;

    /* The loss of a worker counts against the retry limit of a job; a stop of the server does
     * not. */
    bi_request_give_back(conn->server, lease->id, lease->token,
                         lease->has_retry_limit && conn->failed);
    bi_schedule_count_work(conn->server, JOB_WORK);
    return true;
}

/* Releases the tube that was watched last, then the used one. False if there is none. */
static bool release_tube(struct conn *conn)
{
    struct session *session = &conn->session;
    struct tube *tube = session->used;

    if (session->watched_count > 0) {
        tube = session->watched[--session->watched_count];
        tube->watchers--;
    } else if (tube != NULL) {
        session->used = NULL;
        tube->users--;
    } else {
        return false;
    }

    bi_beanstalk_tube_release(conn->server, tube);
    bi_schedule_count_work(conn->server, TUBE_WORK);
    return true;
}

static bool may_release(const struct server *server)
{
    return server->deferred_count == 0 && bi_request_may_release(server);
}

/* Releases until `end`. Returns true when nothing is left. */
static bool release_some(struct conn *conn, int64_t end)
{
    struct server *server = conn->server;

    while (may_release(server) || conn->session.lease_count <= FEW_LEASES) {
        /* A lingering connection may still deliver the replies that carry leases. */
        bool gave = conn->closed && (bi_rpc_drop_one(conn) || bi_beanstalk_drop_unsent(conn));
        if (!gave && !release_job(conn) && !release_tube(conn)) {
            bi_session_done(&conn->session);
            return true;
        }
        if (server->now >= end)
            return false;
    }
    return false;
}

/* ---- connections with more to release ---- */

static void enqueue_releasing(struct conn *conn)
{
    struct conn_queue *releasing = &conn->server->releasing;
    assert(!conn->releasing);

    conn->releasing = true;
    conn->next_releasing = NULL;
    *(releasing->tail != NULL ? &releasing->tail->next_releasing : &releasing->head) = conn;
    releasing->tail = conn;
}

static void free_conn(struct conn *conn)
{
    struct server *server = conn->server;
    assert(conn->closed && conn->rpcs == NULL && conn->pipeline_head == NULL &&
           conn->many_head == NULL);

    server->connections--;
    server->producers -= conn->producer;
    server->workers -= conn->worker;
    free(conn);
}

void bi_conn_close_release(struct conn *conn)
{
    /* A lingering connection is released before it is closed. */
    if (conn->releasing)
        return;

    conn->failed = !conn->server->stopping;
    if (!release_some(conn, conn->server->now + CLOSE_FIRST_US))
        enqueue_releasing(conn);
    else if (conn->closed)
        free_conn(conn);
}

bool bi_conn_close_has_more(const struct server *server)
{
    return server->releasing.head != NULL && may_release(server);
}

void bi_conn_close_continue(struct server *server)
{
    struct conn_queue *releasing = &server->releasing;
    int64_t end = server->now + CLOSE_SLICE_US;

    while (releasing->head != NULL && server->now < end && may_release(server)) {
        struct conn *conn = releasing->head;
        releasing->head = conn->next_releasing;
        if (releasing->head == NULL)
            releasing->tail = NULL;
        conn->releasing = false;

        if (!release_some(conn, end))
            enqueue_releasing(conn);
        else if (conn->closed)
            free_conn(conn);
    }
}

void bi_conn_close_free_all(struct server *server)
{
    while (server->releasing.head != NULL) {
        struct conn *conn = server->releasing.head;
        server->releasing.head = conn->next_releasing;

        /* Leases are not given back any more: the time of the stop is over. */
        while (bi_rpc_drop_one(conn) || bi_beanstalk_drop_unsent(conn) || release_tube(conn))
            continue;
        bi_session_done(&conn->session);
        free_conn(conn);
    }
    server->releasing.tail = NULL;
}

/* ---- closing ---- */

static void unlink_conn(struct server *server, struct conn *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        server->first = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    else
        server->last = conn->prev;
}

static void abandon_pipeline(struct conn *conn)
{
    struct request *request = conn->pipeline_head;

    conn->pipeline_head = conn->pipeline_tail = NULL;
    while (request != NULL) {
        struct request *next = request->next;
        bi_request_abandon(request);
        request = next;
    }
}

void bi_conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    assert(conn->run_queue == NULL);

    /* Set first: a closed connection is not inserted into the dirty and run queues again. */
    conn->closed = true;
    bi_schedule_clear_dirty(conn);
    bi_schedule_dequeue_read(conn);

    /* Its ops must leave the batch before their requests lose the connection: only an op that is
     * submitted can be cancelled, and ops in the batch borrow names from the session. */
    bi_server_flush(server);

    bi_conn_set_events(conn, 0);
    event_del(&conn->timer);
    bi_admission_release(conn);
    bi_conn_log(conn, "went"); /* reads the address of the socket */
    close(conn->fd);

    abandon_pipeline(conn);
    bi_conn_input_free(conn);
    bi_output_done(&conn->output);
    server->client_bytes -= conn->memory;
    unlink_conn(server, conn);
    bi_conn_close_release(conn);
}
