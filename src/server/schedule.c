/* SPDX-License-Identifier: MIT */
/*
 * schedule - decides which connection is read, run and written next, and for how long.
 *
 * No connection may delay the others by what it sends. Work is counted, the clock is read every
 * CLOCK_WORK units, and what is left at the end of a slice stays in a queue for the next turn.
 *
 * Queues     dirty: connections to write, close or watch. run_queue: connections with input that
 *            may execute. deferred: the same, once fewer changes wait for a commit. heavy_reads and
 *            light_reads: readable connections that wait for their turn. All are FIFO.
 * Load       A connection is heavy while it sends or has in flight many commands, or much of its
 *            input or output waits; otherwise it is light. Light ones are served first, for half of
 *            the time.
 * Cost       O(1), except bi_schedule_clear_dirty().
 */
#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>

#define READ_ROUND   ((size_t)256 << 10) /* bytes read in a round, before light connections queue */
#define BULK_US      2000                /* time to read queued connections, in one round */
#define OUTPUT_LIGHT ((size_t)64 << 10)  /* unsent reply bytes of a light connection */
#define RUN_WORK     4                   /* units of work: to resume the input of a connection, */
#define WRITE_WORK   16                  /* and to write its output */

/* ---- queues ---- */

void bi_schedule_count_work(struct server *server, uint64_t units)
{
    server->work += units;
    if (server->work < server->next_clock_work)
        return;
    server->next_clock_work = server->work + CLOCK_WORK;
    server->now = bi_clock_boot();
}

static bool is_bulk(const struct conn *conn)
{
    return conn->bulk ||
           conn->pipeline_count + conn->rpc_count - conn->rpc_waiting >= BULK_COMMANDS;
}

/* A connection that has ended is heavy, too: thousands may end at once, and none of them is in a
 * hurry. */
static enum load load_of(const struct conn *conn)
{
    bool much = is_bulk(conn) || conn->eof || conn->dead || conn->input_size > INPUT_LIGHT ||
                bi_output_left(&conn->output) + conn->unreplied_bytes > OUTPUT_LIGHT;

    return much ? LOAD_HEAVY : LOAD_LIGHT;
}

int64_t bi_schedule_slice_us(const struct conn *conn)
{
    return load_of(conn) == LOAD_HEAVY ? SLICE_US : LIGHT_SLICE_US;
}

void bi_schedule_mark_dirty(struct conn *conn)
{
    struct conn_queue *dirty = &conn->server->dirty[load_of(conn)];

    if (conn->dirty || conn->closed)
        return;

    conn->dirty = true;
    conn->next_dirty = NULL;
    *(dirty->tail != NULL ? &dirty->tail->next_dirty : &dirty->head) = conn;
    dirty->tail = conn;
}

static bool remove_dirty(struct conn_queue *dirty, struct conn *conn)
{
    struct conn **link = &dirty->head;
    struct conn *before = NULL;

    while (*link != conn && *link != NULL) {
        before = *link;
        link = &before->next_dirty;
    }
    if (*link == NULL)
        return false;

    *link = conn->next_dirty;
    if (dirty->tail == conn)
        dirty->tail = before;
    return true;
}

/* O(n), but rare: drain_dirty() has removed most connections before it closes them. */
void bi_schedule_clear_dirty(struct conn *conn)
{
    struct conn_queue *dirty = conn->server->dirty;
    if (!conn->dirty)
        return;

    /* The load may have changed since the insertion, so either queue may hold it. */
    bool found = remove_dirty(&dirty[LOAD_LIGHT], conn) || remove_dirty(&dirty[LOAD_HEAVY], conn);
    assert(found);
    (void)found;
    conn->dirty = false;
}

void bi_schedule_enqueue_run(struct conn *conn)
{
    struct server *server = conn->server;
    struct conn_queue *run_queue =
        conn->deferred ? &server->deferred : &server->run_queue[load_of(conn)];

    if (conn->run_queue != NULL || conn->closed)
        return;

    conn->run_queue = run_queue;
    conn->next_run = NULL;
    conn->prev_run = run_queue->tail;
    *(run_queue->tail != NULL ? &run_queue->tail->next_run : &run_queue->head) = conn;
    run_queue->tail = conn;
}

void bi_schedule_dequeue_run(struct conn *conn)
{
    struct conn_queue *run_queue = conn->run_queue;

    if (run_queue == NULL)
        return;

    conn->run_queue = NULL;
    *(conn->prev_run != NULL ? &conn->prev_run->next_run : &run_queue->head) = conn->next_run;
    *(conn->next_run != NULL ? &conn->next_run->prev_run : &run_queue->tail) = conn->prev_run;
}

static int64_t half_of_time(const struct server *server, int64_t end)
{
    return server->now + (end - server->now) / 2;
}

bool bi_schedule_accepts_bulk(const struct server *server)
{
    return server->bulk_uncommitted < server->bulk_uncommitted_max &&
           server->bulk_uncommitted_bytes < server->bulk_uncommitted_bytes_max;
}

static bool is_runnable(const struct server *server, const struct conn_queue *run_queue)
{
    return run_queue->head != NULL &&
           (run_queue != &server->deferred || bi_schedule_accepts_bulk(server));
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
        bi_schedule_dequeue_run(conn);
        bi_conn_input_run(conn);
        bi_schedule_count_work(server, RUN_WORK);
    }
}

void bi_schedule_run(struct server *server, int64_t end)
{
    drain_run_queue(server, &server->run_queue[LOAD_LIGHT], half_of_time(server, end));
    drain_run_queue(server, &server->run_queue[LOAD_HEAVY], end);
    drain_run_queue(server, &server->deferred, end);
}

bool bi_schedule_has_runnable(const struct server *server)
{
    return is_runnable(server, &server->run_queue[LOAD_LIGHT]) ||
           is_runnable(server, &server->run_queue[LOAD_HEAVY]) ||
           is_runnable(server, &server->deferred);
}

/* ---- bulk senders ---- */

/*
 * A bulk sender brings many commands in one read, or has many in flight. Bulk senders queue, and
 * are read for BULK_US in a round of the loop. They are not read while their changes fill
 * BULK_COMMITS commits: further changes would make no commit faster. Commands that write and are
 * already in the input are deferred then, too, because many new connections can each bring many
 * commands with their first read, before any of them counts as a bulk sender.
 *
 * So light clients, and replies that are ready, wait for a few milliseconds at most, whatever the
 * bulk senders do; and the bulk senders get their share, however many light clients there are.
 *
 * When a round has read READ_ROUND bytes, the remaining light connections queue as well, in a queue
 * of their own. The two queues alternate.
 */

bool bi_schedule_add_uncommitted(struct server *server, const struct conn *conn, size_t bytes)
{
    bool bulk = conn != NULL && is_bulk(conn);
    server->uncommitted++;
    server->uncommitted_bytes += bytes;
    server->bulk_uncommitted += bulk;
    server->bulk_uncommitted_bytes += bulk ? bytes : 0;
    return bulk;
}

void bi_schedule_remove_uncommitted(struct server *server, bool bulk, size_t bytes)
{
    server->uncommitted--;
    server->uncommitted_bytes -= bytes;
    server->bulk_uncommitted -= bulk;
    server->bulk_uncommitted_bytes -= bulk ? bytes : 0;
}

static void enqueue_read(struct conn *conn, struct read_queue *queue)
{
    assert(conn->read_queue == NULL);
    conn->read_queue = queue;
    conn->next_read = NULL;
    conn->prev_read = queue->tail;
    *(queue->tail != NULL ? &queue->tail->next_read : &queue->head) = conn;
    queue->tail = conn;
}

void bi_schedule_dequeue_read(struct conn *conn)
{
    struct read_queue *queue = conn->read_queue;

    if (queue == NULL)
        return;

    conn->read_queue = NULL;
    *(conn->prev_read != NULL ? &conn->prev_read->next_read : &queue->head) = conn->next_read;
    *(conn->next_read != NULL ? &conn->next_read->prev_read : &queue->tail) = conn->prev_read;
}

/* Returns the connection to read next, or NULL if none may be read. */
static struct conn *next_read(const struct server *server)
{
    bool bulk = server->heavy_reads.head != NULL && bi_schedule_accepts_bulk(server);
    bool little = server->light_reads.head != NULL && !(bulk && server->last_read_light);
    return little ? server->light_reads.head : bulk ? server->heavy_reads.head : NULL;
}

bool bi_schedule_has_readable(const struct server *server)
{
    return next_read(server) != NULL;
}

void bi_schedule_read(struct server *server)
{
    int64_t end = server->now + BULK_US;
    struct conn *conn;

    while (server->now < end && (conn = next_read(server)) != NULL) {
        server->last_read_light = conn->read_queue == &server->light_reads;
        bi_schedule_dequeue_read(conn);

        /* It may have ended or filled up since it was enqueued. */
        if (bi_conn_accepts_input(conn)) {
            bi_conn_input_read(conn);
            server->now = bi_clock_boot();
        }

        /* The end of the turn watches the socket again: a queued connection has no read event. */
        bi_schedule_mark_dirty(conn);
    }
}

void bi_schedule_on_readable(struct conn *conn)
{
    struct server *server = conn->server;

    if (conn->read_queue != NULL)
        return;

    if (load_of(conn) == LOAD_HEAVY)
        enqueue_read(conn, &server->heavy_reads);
    else if (server->read_bytes >= READ_ROUND)
        enqueue_read(conn, &server->light_reads);
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
        dirty->head = conn->next_dirty;
        if (dirty->head == NULL)
            dirty->tail = NULL;
        conn->dirty = false;

        /* The connection may be freed by the next call. A connection that may run is marked again
         * after it has run. */
        not_last = conn != last;
        bi_conn_finish_turn(conn);
        bi_schedule_count_work(server, WRITE_WORK);
    }
}

void bi_schedule_write_light(struct server *server, int64_t end)
{
    drain_dirty(server, &server->dirty[LOAD_LIGHT], half_of_time(server, end));
}

void bi_schedule_write(struct server *server, int64_t end)
{
    bi_schedule_write_light(server, end);
    drain_dirty(server, &server->dirty[LOAD_HEAVY], end);
}

bool bi_schedule_has_dirty(const struct server *server)
{
    return server->dirty[LOAD_LIGHT].head != NULL || server->dirty[LOAD_HEAVY].head != NULL;
}
