/* SPDX-License-Identifier: MIT */
#include "server/fair_queue.h"

#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

#define READ_ROUND   ((size_t)256 << 10) /* bytes read in a round, before light connections queue */
#define BULK_US      2000                /* time to read queued connections, in one round */
#define OUTPUT_LIGHT ((size_t)64 << 10)  /* unsent reply bytes of a light connection */
#define RUN_WORK     4                   /* units of work: to resume the input of a connection, */
#define WRITE_WORK   16                  /* and to write its output */

/* ---- queues ---- */

/* Not inlined: the buffers of the clock would cost every call of bi_fair_queue_count_work() the
 * protection of its stack. */
static __attribute__((noinline)) void read_clock(struct server *server)
{
    server->fair_queue.next_clock_work = server->fair_queue.work + CLOCK_WORK;
    server->now = bi_clock_boot();
}

void bi_fair_queue_count_work(struct server *server, uint64_t units)
{
    server->fair_queue.work += units;
    if (server->fair_queue.work >= server->fair_queue.next_clock_work)
        read_clock(server);
}

/* A connection that has ended is heavy, too: thousands may end at once, and none of them is in a
 * hurry. */
static inline enum load load_of(const struct conn *conn)
{
    bool much = bi_conn_is_bulk(conn) || conn->eof || conn->dead ||
                conn->input_size > INPUT_LIGHT ||
                bi_output_left(&conn->output) + conn->load.unreplied_bytes > OUTPUT_LIGHT;

    return much ? LOAD_HEAVY : LOAD_LIGHT;
}

int64_t bi_fair_queue_slice_us(const struct conn *conn)
{
    return load_of(conn) == LOAD_HEAVY ? SLICE_US : LIGHT_SLICE_US;
}

void bi_fair_queue_mark_dirty(struct conn *conn)
{
    if (!bi_conn_is_in(conn, LIST_DIRTY) && !conn->closed)
        bi_conn_enqueue(conn, LIST_DIRTY, &conn->server->fair_queue.dirty[load_of(conn)]);
}

void bi_fair_queue_enqueue_run(struct conn *conn)
{
    struct fair_queue *fair_queue = &conn->server->fair_queue;

    if (!bi_conn_is_in(conn, LIST_RUN) && !conn->closed)
        bi_conn_enqueue(conn, LIST_RUN,
                        conn->deferred ? &fair_queue->deferred
                                       : &fair_queue->run_queue[load_of(conn)]);
}

static int64_t half_of_time(const struct server *server, int64_t end)
{
    return server->now + (end - server->now) / 2;
}

bool bi_fair_queue_accepts_bulk(const struct server *server)
{
    return server->batch.bulk_uncommitted < server->batch.bulk_uncommitted_max &&
           server->batch.bulk_uncommitted_bytes < server->batch.bulk_uncommitted_bytes_max;
}

static bool is_runnable(const struct server *server, const struct conn_queue *run_queue)
{
    return run_queue->head != NULL &&
           (run_queue != &server->fair_queue.deferred || bi_fair_queue_accepts_bulk(server));
}

/* Runs the connections that are in the queue now, until `end`. At least one runs, also if the time
 * is over already: earlier steps of the turn must not starve this queue. */
static void drain_run_queue(struct server *server, struct conn_queue *run_queue, int64_t end)
{
    /* Stop at the current tail: a connection that enqueues itself again waits for the next pass. */
    const struct conn *last = run_queue->tail;
    struct conn *conn = NULL;

    while (is_runnable(server, run_queue) && conn != last && (conn == NULL || server->now < end)) {
        conn = run_queue->head;
        bi_conn_dequeue(conn, LIST_RUN);
        bi_conn_input_run(conn);
        bi_fair_queue_count_work(server, RUN_WORK);
    }
}

void bi_fair_queue_run(struct server *server, int64_t end)
{
    drain_run_queue(server, &server->fair_queue.run_queue[LOAD_LIGHT], half_of_time(server, end));
    drain_run_queue(server, &server->fair_queue.run_queue[LOAD_HEAVY], end);
    drain_run_queue(server, &server->fair_queue.deferred, end);
}

bool bi_fair_queue_has_runnable(const struct server *server)
{
    return is_runnable(server, &server->fair_queue.run_queue[LOAD_LIGHT]) ||
           is_runnable(server, &server->fair_queue.run_queue[LOAD_HEAVY]) ||
           is_runnable(server, &server->fair_queue.deferred);
}

/* ---- bulk senders ---- */

/*
 * A bulk sender brings many commands in one read, or has many in flight. Bulk senders queue, and
 * are read for BULK_US in a round of the loop. They are not read while their changes fill
 * a few commits: further changes would make no commit faster. Commands that write and are
 * already in the input are deferred then, too, because many new connections can each bring many
 * commands with their first read, before any of them counts as a bulk sender.
 *
 * So light clients, and replies that are ready, wait for a few milliseconds at most, whatever the
 * bulk senders do; and the bulk senders get their share, however many light clients there are.
 *
 * When a round has read READ_ROUND bytes, the remaining light connections queue as well, in a queue
 * of their own. The two queues alternate.
 */

/* Returns the connection to read next, or NULL if none may be read. */
static struct conn *next_read(const struct server *server)
{
    const struct fair_queue *fair_queue = &server->fair_queue;
    struct conn *light = fair_queue->reads[LOAD_LIGHT].head;
    struct conn *heavy =
        bi_fair_queue_accepts_bulk(server) ? fair_queue->reads[LOAD_HEAVY].head : NULL;

    return light == NULL || (heavy != NULL && fair_queue->last_read_light) ? heavy : light;
}

bool bi_fair_queue_has_readable(const struct server *server)
{
    return next_read(server) != NULL;
}

void bi_fair_queue_read(struct server *server)
{
    int64_t end = server->now + BULK_US;
    struct conn *conn;

    while (server->now < end && (conn = next_read(server)) != NULL) {
        server->fair_queue.last_read_light = conn == server->fair_queue.reads[LOAD_LIGHT].head;
        bi_conn_dequeue(conn, LIST_READ);

        /* It may have ended or filled up since it was enqueued. */
        if (bi_conn_accepts_input(conn)) {
            bi_conn_input_read(conn);
            server->now = bi_clock_boot();
        }

        /* The end of the turn watches the socket again: a queued connection has no read event. */
        bi_fair_queue_mark_dirty(conn);
    }
}

void bi_fair_queue_on_readable(struct conn *conn)
{
    struct server *server = conn->server;
    enum load load = load_of(conn);

    if (bi_conn_is_in(conn, LIST_READ))
        return;

    if (load == LOAD_HEAVY || server->fair_queue.read_bytes >= READ_ROUND)
        bi_conn_enqueue(conn, LIST_READ, &server->fair_queue.reads[load]);
    else
        bi_conn_input_read(conn);
}

/* ---- writing ---- */

static void drain_dirty(struct server *server, struct conn_queue *dirty, int64_t end)
{
    /* Stop at the current tail: connections that are marked meanwhile wait for the next pass. */
    const struct conn *last = dirty->tail;
    bool not_last = true;

    while (not_last && dirty->head != NULL && server->now < end) {
        struct conn *conn = dirty->head;
        assert(!conn->closed);
        bi_conn_dequeue(conn, LIST_DIRTY);

        /* The connection may be freed by the next call. A connection that may run is marked again
         * after it has run. */
        not_last = conn != last;
        bi_conn_finish_turn(conn);
        bi_fair_queue_count_work(server, WRITE_WORK);
    }
}

void bi_fair_queue_write_light(struct server *server, int64_t end)
{
    drain_dirty(server, &server->fair_queue.dirty[LOAD_LIGHT], half_of_time(server, end));
}

void bi_fair_queue_write(struct server *server, int64_t end)
{
    bi_fair_queue_write_light(server, end);
    drain_dirty(server, &server->fair_queue.dirty[LOAD_HEAVY], end);
}

bool bi_fair_queue_has_dirty(const struct server *server)
{
    return server->fair_queue.dirty[LOAD_LIGHT].head != NULL ||
           server->fair_queue.dirty[LOAD_HEAVY].head != NULL;
}
