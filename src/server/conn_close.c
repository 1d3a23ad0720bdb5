/* SPDX-License-Identifier: MIT */
/*
 * conn_close - the end of a connection: what it has goes back, a slice at a time.
 *
 * A connection may hold a million jobs, watch ten thousand tubes and have thousands of calls wait. Its
 * socket is closed at once. The rest is given back in slices, between which other connections are
 * served; a small rest goes with the first of them. Until all is given back the connection counts as
 * one that is there.
 *
 * Order      Calls, then jobs in the order of their reservations, then tubes.
 * Pressure   While the queue has too much to do, jobs of a few commits are being given back, or a store
 *            refuses them, only connections with few jobs go: theirs are owed to the queue. Others stay
 *            until it has room.
 */
#include "server/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_US  500  /* what is given back at once when a connection ends, */
#define SLICE_US  1000 /* and later, of all connections in a turn */
#define FEW_JOBS  1000 /* that are owed to a queue without room */
#define GIVE_WORK 4    /* units of work: a job, */
#define TUBE_WORK 4    /* and a tube */

/* ---- what goes back ---- */

/* The job that was reserved first. False: there is none. */
static bool give_job(struct conn *conn)
{
    const struct held *held = bi_session_take_oldest(&conn->session);
    if (held == NULL)
        return false;
    bi_request_give_back(conn->server, held->id, held->token, held->has_retries && conn->failed);
    bi_server_count_work(conn->server, GIVE_WORK);
    return true;
}

/* The tube that was watched last, and then the used one. False: there is none. */
static bool give_tube(struct conn *conn)
{
    struct session *session = &conn->session;
    struct tube *tube = session->used;
    if (session->watched_count > 0) {
        tube = session->watched[--session->watched_count];
        tube->watching--;
    } else if (tube != NULL) {
        session->used = NULL;
        tube->using --;
    } else {
        return false;
    }
    bi_beanstalk_let_go(conn->server, tube);
    bi_server_count_work(conn->server, TUBE_WORK);
    return true;
}

static bool may_give(const struct server *server)
{
    return server->owed_count == 0 && bi_request_has_room(server);
}

/* Gives back until the time is over. True: there is nothing left. */
static bool give_some(struct conn *conn, int64_t end)
{
    struct server *server = conn->server;
    while (may_give(server) || conn->session.held_count <= FEW_JOBS) {
        if (!(conn->gone && bi_call_drop(conn)) && !give_job(conn) && !give_tube(conn)) {
            bi_session_done(&conn->session);
            return true;
        }
        if (server->now >= end)
            return false;
    }
    return false;
}

/* ---- connections that have more to give back ---- */

static void join_leaving(struct conn *conn)
{
    struct conn_queue *leaving = &conn->server->leaving;
    assert(!conn->leaving);
    conn->leaving = true;
    conn->next_leaving = NULL;
    *(leaving->tail != NULL ? &leaving->tail->next_leaving : &leaving->head) = conn;
    leaving->tail = conn;
}

/* It has nothing left. */
static void free_conn(struct conn *conn)
{
    struct server *server = conn->server;
    assert(conn->gone && conn->calls == NULL && conn->line_head == NULL);
    server->connections--;
    server->producers -= conn->producer;
    server->workers -= conn->worker;
    free(conn);
}

void bi_conn_leave(struct conn *conn)
{
    if (conn->leaving)
        return;
    conn->failed = !conn->server->stopping; /* an operator who stops the server is no failure */
    if (!give_some(conn, conn->server->now + FIRST_US))
        join_leaving(conn);
    else if (conn->gone)
        free_conn(conn);
}

bool bi_conn_may_leave(const struct server *server)
{
    return server->leaving.head != NULL && may_give(server);
}

void bi_conn_leave_more(struct server *server)
{
    struct conn_queue *leaving = &server->leaving;
    int64_t end = server->now + SLICE_US;
    while (leaving->head != NULL && server->now < end && may_give(server)) {
        struct conn *conn = leaving->head;
        leaving->head = conn->next_leaving;
        if (leaving->head == NULL)
            leaving->tail = NULL;
        conn->leaving = false;
        if (!give_some(conn, end))
            join_leaving(conn);
        else if (conn->gone)
            free_conn(conn);
    }
}

void bi_conn_free_leaving(struct server *server)
{
    while (server->leaving.head != NULL) {
        struct conn *conn = server->leaving.head;
        server->leaving.head = conn->next_leaving;
        while (bi_call_drop(conn) || give_tube(conn))
            continue;
        bi_session_done(&conn->session);
        free_conn(conn);
    }
    server->leaving.tail = NULL;
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

static void abandon_line(struct conn *conn)
{
    struct request *request = conn->line_head;
    conn->line_head = conn->line_tail = NULL;
    while (request != NULL) {
        struct request *next = request->next;
        bi_request_abandon(request);
        request = next;
    }
}

void bi_conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    assert(conn->runs == NULL);
    conn->gone = true; /* from here on it is in no list but that of those that leave */
    bi_server_unmark(conn);
    bi_server_unqueue_read(conn);
    bi_server_flush(server);
    bi_conn_want(conn, 0);
    event_del(&conn->alarm);
    bi_admit_leave(conn);
    bi_conn_tell(conn, "went");
    close(conn->fd);
    abandon_line(conn);
    bi_conn_drop_input(conn);
    bi_output_done(&conn->output);
    server->client_bytes -= conn->memory;
    unlink_conn(server, conn);
    bi_conn_leave(conn);
}
