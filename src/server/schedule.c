/* SPDX-License-Identifier: MIT */
/*
 * schedule - which connection is read, run and written next, and for how long.
 *
 * Nothing that one connection sends may keep the others waiting: work is counted, the clock is read
 * as it goes on, and what is left when the time is over stays in a queue for the next turn.
 */
#include "server/inside.h"
#include "util/clock.h"

#include <assert.h>

#define READ_ROUND    ((size_t)256 << 10) /* bytes in one round of the loop, before others queue */
#define BULK_US       2000                /* of reading connections that queue, in one round */
#define OUTPUT_LITTLE ((size_t)64 << 10)  /* bytes of answers that wait */
#define RUN_WORK      4  /* units of work: to go on with the input of a connection, */
#define WRITE_WORK    16 /* and to write its output */

/* ---- queues ---- */

void bi_server_count_work(struct server *server, uint64_t units)
{
    server->work += units;
    if (server->work < server->look)
        return;
    server->look = server->work + LOOK_WORK;
    server->now = bi_clock_boot();
}

static bool sends_much(const struct conn *conn)
{
    return conn->bulk || conn->line_count + conn->call_count - conn->call_waiting >= BULK_COMMANDS;
}

/* Also one with commands or answers that wait, or that has ended and is to be closed, as thousands may
 * be at once: it does not matter to it who goes first. */
static enum load load_of(const struct conn *conn)
{
    bool much = sends_much(conn) || conn->eof || conn->dead || conn->input_size > INPUT_LITTLE ||
                bi_output_left(&conn->output) + conn->unsaid_bytes > OUTPUT_LITTLE;
    return much ? LOAD_MUCH : LOAD_LITTLE;
}

int64_t bi_schedule_slice_us(const struct conn *conn)
{
    return load_of(conn) == LOAD_MUCH ? SLICE_US : GLANCE_US;
}

void bi_server_mark(struct conn *conn)
{
    struct conn_queue *dirty = &conn->server->dirty[load_of(conn)];
    if (conn->dirty || conn->gone)
        return;
    conn->dirty = true;
    conn->next_dirty = NULL;
    *(dirty->tail != NULL ? &dirty->tail->next_dirty : &dirty->head) = conn;
    dirty->tail = conn;
}

static bool unmark_in(struct conn_queue *dirty, struct conn *conn)
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

/* Rare: a connection is not marked when it is closed. */
void bi_server_unmark(struct conn *conn)
{
    struct conn_queue *dirty = conn->server->dirty;
    if (!conn->dirty)
        return;
    bool found = unmark_in(&dirty[LOAD_LITTLE], conn) || unmark_in(&dirty[LOAD_MUCH], conn);
    assert(found);
    (void)found;
    conn->dirty = false;
}

void bi_server_wake(struct conn *conn)
{
    struct server *server = conn->server;
    struct conn_queue *runs = conn->deferred ? &server->deferred : &server->runs[load_of(conn)];
    if (conn->runs != NULL || conn->gone)
        return;
    conn->runs = runs;
    conn->next_run = NULL;
    conn->prev_run = runs->tail;
    *(runs->tail != NULL ? &runs->tail->next_run : &runs->head) = conn;
    runs->tail = conn;
}

void bi_server_unwake(struct conn *conn)
{
    struct conn_queue *runs = conn->runs;
    if (runs == NULL)
        return;
    conn->runs = NULL;
    *(conn->prev_run != NULL ? &conn->prev_run->next_run : &runs->head) = conn->next_run;
    *(conn->next_run != NULL ? &conn->next_run->prev_run : &runs->tail) = conn->prev_run;
}

static int64_t halfway(const struct server *server, int64_t end)
{
    return server->now + (end - server->now) / 2;
}

bool bi_schedule_takes_bulk(const struct server *server)
{
    return server->bulk_held < server->bulk_held_max && server->bulk_bytes < server->bulk_bytes_max;
}

static bool may_run(const struct server *server, const struct conn_queue *runs)
{
    return runs->head != NULL && (runs != &server->deferred || bi_schedule_takes_bulk(server));
}

/* At least one goes on, also if the time was over before: what comes first in a turn must not keep the
 * rest from ever having its own. */
static void run_queue(struct server *server, struct conn_queue *runs, int64_t end)
{
    const struct conn *last = runs->tail;
    struct conn *conn = NULL;
    while (may_run(server, runs) && conn != last && (conn == NULL || server->now < end)) {
        conn = runs->head;
        bi_server_unwake(conn);
        bi_conn_run(conn);
        bi_server_count_work(server, RUN_WORK);
    }
}

void bi_schedule_run(struct server *server, int64_t end)
{
    run_queue(server, &server->runs[LOAD_LITTLE], halfway(server, end));
    run_queue(server, &server->runs[LOAD_MUCH], end);
    run_queue(server, &server->deferred, end);
}

bool bi_schedule_may_run(const struct server *server)
{
    return may_run(server, &server->runs[LOAD_LITTLE]) ||
           may_run(server, &server->runs[LOAD_MUCH]) || may_run(server, &server->deferred);
}

/* ---- connections that send much ---- */

/*
 * A connection that brings many commands at a time, or has many under way, is read in turn with
 * others of its kind, for BULK_US in a round of the loop, and not while the changes of BULK_COMMITS
 * commits wait to be stored that connections of this kind have brought: more would make no commit
 * quicker. Commands that store something and were read before are deferred then, too: many new
 * connections that begin with many commands each bring more than all these commits together. So clients
 * that send little, and answers that are ready, wait for a few milliseconds, however many others send
 * however much; and those get their share, however many clients send little.
 *
 * When a round has read much of clients that send little, the rest of them queue, too, on their own:
 * the two queues take turns.
 */

bool bi_server_hold(struct server *server, const struct conn *conn, size_t bytes)
{
    bool bulk = conn != NULL && sends_much(conn);
    server->held++;
    server->held_bytes += bytes;
    server->bulk_held += bulk;
    server->bulk_bytes += bulk ? bytes : 0;
    return bulk;
}

void bi_server_let_go(struct server *server, bool bulk, size_t bytes)
{
    server->held--;
    server->held_bytes -= bytes;
    server->bulk_held -= bulk;
    server->bulk_bytes -= bulk ? bytes : 0;
}

static void queue_read(struct conn *conn, struct read_queue *queue)
{
    assert(conn->reads == NULL);
    conn->reads = queue;
    conn->next_read = NULL;
    conn->prev_read = queue->tail;
    *(queue->tail != NULL ? &queue->tail->next_read : &queue->head) = conn;
    queue->tail = conn;
}

void bi_server_unqueue_read(struct conn *conn)
{
    struct read_queue *queue = conn->reads;
    if (queue == NULL)
        return;
    conn->reads = NULL;
    *(conn->prev_read != NULL ? &conn->prev_read->next_read : &queue->head) = conn->next_read;
    *(conn->next_read != NULL ? &conn->next_read->prev_read : &queue->tail) = conn->prev_read;
}

/* The connection to read from next; NULL: none may be read. */
static struct conn *next_read(const struct server *server)
{
    bool bulk = server->much.head != NULL && bi_schedule_takes_bulk(server);
    bool little = server->little.head != NULL && !(bulk && server->read_little);
    return little ? server->little.head : bulk ? server->much.head : NULL;
}

bool bi_schedule_may_read(const struct server *server)
{
    return next_read(server) != NULL;
}

void bi_schedule_read(struct server *server)
{
    int64_t end = server->now + BULK_US;
    struct conn *conn;
    while (server->now < end && (conn = next_read(server)) != NULL) {
        server->read_little = conn->reads == &server->little;
        bi_server_unqueue_read(conn);
        if (bi_conn_takes_input(conn)) {
            bi_conn_read(conn);
            server->now = bi_clock_boot();
        }
        bi_server_mark(conn);
    }
}

void bi_server_readable(struct conn *conn)
{
    struct server *server = conn->server;
    if (conn->reads != NULL)
        return;
    if (load_of(conn) == LOAD_MUCH)
        queue_read(conn, &server->much);
    else if (server->read_bytes >= READ_ROUND)
        queue_read(conn, &server->little);
    else
        bi_conn_read(conn);
}

/* ---- writing ---- */

static void write_queue(struct server *server, struct conn_queue *dirty, int64_t end)
{
    const struct conn *last = dirty->tail;
    bool more = true;
    while (more && dirty->head != NULL && server->now < end) {
        struct conn *conn = dirty->head;
        dirty->head = conn->next_dirty;
        if (dirty->head == NULL)
            dirty->tail = NULL;
        conn->dirty = false;
        more = conn != last;
        /* One that also may go on is looked at again when it has. */
        bi_conn_finish_turn(conn);
        bi_server_count_work(server, WRITE_WORK);
    }
}

void bi_schedule_write_little(struct server *server, int64_t end)
{
    write_queue(server, &server->dirty[LOAD_LITTLE], halfway(server, end));
}

void bi_schedule_write(struct server *server, int64_t end)
{
    bi_schedule_write_little(server, end);
    write_queue(server, &server->dirty[LOAD_MUCH], end);
}

bool bi_schedule_may_write(const struct server *server)
{
    return server->dirty[LOAD_LITTLE].head != NULL || server->dirty[LOAD_MUCH].head != NULL;
}
