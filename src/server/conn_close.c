/* SPDX-License-Identifier: MIT */
/*
 * conn_close - the end of a connection: releases what it holds in slices.
 *
 * A connection may hold a million jobs, watch ten thousand topics and have thousands of commands
 * that wait. Its socket is closed at once. The first slice is released with it, which is all of a
 * small connection. The rest follows in slices, between which other connections are served. The
 * connection is counted until everything is released.
 *
 * Limits     Releases pause while the queue is throttled, while enough of them are in flight, and
 *            while the store rejects them. The protocol decides which connections are released all
 *            the same, with their leases deferred (release.h).
 */
#include "server/server_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOSE_FIRST_US 500  /* time of the first slice, when a connection ends, */
#define CLOSE_SLICE_US 1000 /* and of the slice of all closed connections in a turn */

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
    assert(conn->closed && !conn->releasing && !conn->dirty);
    assert(conn->run_queue == NULL && conn->read_queue == NULL);
    assert(server->connections > 0);

    conn->protocol->forget(conn);
    server->connections--;
    free(conn);
}

void bi_conn_close_release(struct conn *conn)
{
    /* A lingering connection is released before it is closed. */
    if (conn->releasing)
        return;

    conn->failed = !conn->server->stopping;
    if (!conn->protocol->release(conn, conn->server->now + CLOSE_FIRST_US))
        enqueue_releasing(conn);
    else if (conn->closed)
        free_conn(conn);
}

bool bi_conn_close_has_more(const struct server *server)
{
    return server->releasing.head != NULL && bi_release_is_immediate(server);
}

void bi_conn_close_continue(struct server *server)
{
    struct conn_queue *releasing = &server->releasing;
    int64_t end = server->now + CLOSE_SLICE_US;

    while (releasing->head != NULL && server->now < end && bi_release_is_immediate(server)) {
        struct conn *conn = releasing->head;
        releasing->head = conn->next_releasing;
        if (releasing->head == NULL)
            releasing->tail = NULL;
        conn->releasing = false;

        if (!conn->protocol->release(conn, end))
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

        conn->releasing = false;

        /* Leases are not given back any more: the time of the stop is over. */
        conn->protocol->discard(conn);
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

void bi_conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    assert(!conn->closed && conn->run_queue == NULL);

    /* Set first: a closed connection is not inserted into the dirty and run queues again. */
    conn->closed = true;
    bi_schedule_clear_dirty(conn);
    bi_schedule_dequeue_read(conn);

    /* Its ops must leave the batch before they lose the connection: only an op that is submitted can
     * be cancelled, and ops in the batch borrow names from the connection. */
    bi_batch_flush(server);

    bi_conn_set_events(conn, 0);
    event_del(&conn->timer);
    bi_admission_release(conn);
    bi_conn_log(conn, "closed"); /* reads the address of the socket */
    close(conn->fd);

    conn->protocol->close(conn);
    bi_conn_input_free(conn);
    bi_output_done(&conn->output);
    assert(server->client_bytes >= conn->memory);
    server->client_bytes -= conn->memory;
    unlink_conn(server, conn);
    bi_conn_close_release(conn);
}
