/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* POLLRDHUP, struct ucred */
#include "server/conn.h"

#include "server/server_internal.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_US   10000              /* first wait for the peer to acknowledge the output; */
#define LINGER_MAX  320000             /* doubles up to this, as thousands may linger */
#define OUTPUT_KEEP ((size_t)16 << 10) /* memory that an empty output retains */
#define THROTTLED_KEEP \
    ((size_t)4 << 10) /* input and output limit while clients' memory is half used */

/* ---- limits ---- */

static bool is_full(const struct conn *conn)
{
    const struct conn_load *load = &conn->load;
    bool tight = bi_server_is_memory_tight(conn->server);

    return load->pipelined >= (tight ? PIPELINE_MAX_TIGHT : PIPELINE_MAX) ||
           load->expected_bytes >= EXPECTED_BYTES_HIGH ||
           load->calls - load->calls_waiting >= CALLS_MAX || load->call_reply_bytes >= UNREAD_MAX ||
           load->unreplied_count > 0 ||
           bi_output_left(&conn->output) > (tight ? THROTTLED_KEEP : OUTPUT_HIGH);
}

bool bi_conn_may_execute(struct conn *conn)
{
    if (conn->quit || conn->dead || conn->paused || conn->server->stopping ||
        conn->load.blocking > conn->load.speculative || conn->blocked || is_full(conn))
        return false;
    if (!bi_batch_must_throttle(&conn->server->batch))
        return true;

    /* resume_throttled() in server.c enqueues it again. */
    if (!bi_conn_is_in(conn, LIST_THROTTLED))
        bi_conn_enqueue(conn, LIST_THROTTLED, &conn->server->fair_queue.throttled);
    return false;
}

size_t bi_conn_max_input(const struct conn *conn)
{
    return bi_server_is_memory_tight(conn->server) ? THROTTLED_KEEP : READ_MAX;
}

void bi_conn_update_memory(struct conn *conn)
{
    const struct conn_body *body = conn->body;
    size_t memory = conn->input_size + bi_output_memory(&conn->output) + conn->output.body_bytes +
                    conn->load.unreplied_bytes + conn->protocol->memory(conn);
    if (body != NULL)
        memory +=
            sizeof(*body) + (body->received < BODY_COUNTED_MIN ? BODY_COUNTED_MIN : body->received);

    /* The difference may be negative; unsigned arithmetic wraps to the right sum. */
    assert(conn->server->client_bytes >= conn->memory);
    conn->server->client_bytes += memory - conn->memory;
    conn->memory = memory;
}

size_t bi_conn_unread_bytes(const struct conn *conn)
{
    return bi_output_left(&conn->output) + conn->load.unreplied_bytes;
}

/* ---- events ---- */

/* Detects a close by the peer of a connection that is not being read. */
static void check_hangup(struct conn *conn)
{
    struct pollfd pfd = {.fd = conn->fd, .events = POLLRDHUP};

    if (poll(&pfd, 1, 0) <= 0)
        return;
    if ((pfd.revents & (POLLERR | POLLHUP)) != 0)
        conn->dead = true;
    else if ((pfd.revents & POLLRDHUP) != 0) {
        conn->half_closed = true;
        conn->protocol->cancel_waiting(conn, CANCEL_HALF_CLOSED);
    }
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;

    /* EV_ET is set only while input is not accepted, see wanted_events(). */
    if ((what & EV_READ) != 0 && (conn->events & EV_ET) != 0)
        check_hangup(conn);
    else if ((what & EV_READ) != 0)
        bi_fair_queue_on_readable(conn);

    /* Last, because the queue is chosen by the load and the end of the connection. */
    bi_fair_queue_mark_dirty(conn);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    (void)what;

    if (conn->lingering)
        bi_fair_queue_mark_dirty(conn);
    conn->protocol->on_alarm(conn);
}

void bi_conn_set_alarm(struct conn *conn, int64_t wait_us)
{
    assert(!conn->closed);
    conn->untimed = !bi_server_add_timer(&conn->timer, wait_us);
}

void bi_conn_clear_alarm(struct conn *conn)
{
    event_del(&conn->timer);
    conn->untimed = false;
}

void bi_conn_look_again(struct conn *conn)
{
    if (!conn->untimed)
        return;

    conn->untimed = false;
    on_timer(-1, EV_TIMEOUT, conn);
}

/* ---- the end of a turn ---- */

bool bi_conn_is_idle(const struct conn *conn)
{
    const struct conn_load *load = &conn->load;
    return load->pipelined == 0 && load->calls == 0 && load->unreplied_count == 0 &&
           bi_output_left(&conn->output) == 0;
}

/* The connection has nothing left to execute, to wait for or to send. */
static bool is_over(const struct conn *conn)
{
    if (conn->dead || conn->output.broken)
        return true;
    if (!bi_conn_is_idle(conn))
        return false;

    /* After end of file an incomplete command never becomes complete. */
    return conn->quit ||
           (conn->eof && !conn->paused && (conn->input_size == 0 || conn->need_input));
}

bool bi_conn_accepts_input(const struct conn *conn)
{
    return !conn->eof && !conn->quit && !conn->dead && !conn->paused && !conn->server->stopping &&
           conn->input_size < bi_conn_max_input(conn) && !is_full(conn);
}

bool bi_conn_has_partial_command(const struct conn *conn)
{
    bool part = conn->input_size == 0 ? conn->mid_command : conn->need_input;
    return part && !bi_conn_is_in(conn, LIST_READ) && bi_conn_accepts_input(conn);
}

static short wanted_events(const struct conn *conn)
{
    short write =
        bi_output_left(&conn->output) > 0 || conn->load.unreplied_count > 0 ? EV_WRITE : 0;
    if (conn->eof || conn->quit)
        return write;
    if (!bi_conn_is_in(conn, LIST_READ) && bi_conn_accepts_input(conn))
        return (short)(EV_READ | write);

    /* Only a hangup is of interest. Edge-triggered, as unread input would wake the loop for ever;
     * with output left, the write reports the hangup. */
    return write != 0 ? write : (short)(EV_READ | EV_ET);
}

/* Watches the socket for EV_READ, EV_WRITE, EV_ET; 0: nothing. On failure the connection is
 * dead. */
static void set_events(struct conn *conn, short events)
{
    if (events == conn->events)
        return;

    if (conn->events != 0)
        event_del(&conn->event);
    conn->events = events;
    if (events == 0)
        return;

    event_assign(&conn->event, conn->server->base, conn->fd, (short)(events | EV_PERSIST), on_event,
                 conn);
    if (event_add(&conn->event, NULL) != 0)
        conn->dead = true;
}

void bi_conn_write(struct conn *conn)
{
    size_t left = bi_output_left(&conn->output);

    if (!conn->dead && !conn->output.broken && left > 0 &&
        !bi_output_write(&conn->output, conn->fd))
        conn->dead = true;

    if (left == 0 || bi_output_left(&conn->output) < left)
        conn->last_drained_at = conn->server->now;

    conn->protocol->written(conn);
}

/*
 * Closing a TCP socket with unread input resets the connection; output that is not delivered is
 * lost, and so is the end of the stream. If the server ends the connection first, it therefore
 * shuts down its side and waits, for a limited time, until the peer has acknowledged all output.
 * POLLHUP does not end the wait: a peer that has closed its own side may still be reading. Only a
 * reset (POLLERR) does.
 */
static bool must_linger(struct conn *conn)
{
    int unsent = 0;

    if (conn->dead || conn->output.broken || conn->eof)
        return false;
    if (!conn->lingering)
        shutdown(conn->fd, conn->tcp ? SHUT_WR : SHUT_RDWR);

    /* A unix socket delivers output at once, but closing it with unread input resets the peer. So
     * both directions are shut down, and the input that has arrived is discarded. */
    char unread[4096];
    while (!conn->tcp && recv(conn->fd, unread, sizeof(unread), 0) > 0)
        continue;
    if (!conn->tcp || ioctl(conn->fd, SIOCOUTQ, &unsent) != 0 || unsent == 0)
        return false;

    struct pollfd pfd = {.fd = conn->fd};
    if (poll(&pfd, 1, 0) > 0 && (pfd.revents & POLLERR) != 0)
        return false;

    return !conn->lingering || conn->server->now < conn->linger_end;
}

static void linger(struct conn *conn)
{
    const struct server *server = conn->server;

    if (!conn->lingering) {
        conn->lingering = true;
        conn->linger_wait = LINGER_US;
        conn->linger_end = server->now + server->limits.stop_timeout_ms * 1000;
        bi_release_conn(conn); /* its jobs do not wait for the peer */
    }

    assert(conn->linger_wait >= LINGER_US && conn->linger_wait <= LINGER_MAX);
    set_events(conn, 0);
    bi_conn_set_alarm(conn, conn->linger_wait);
    conn->linger_wait = conn->linger_wait < LINGER_MAX ? conn->linger_wait * 2 : LINGER_MAX;
}

void bi_conn_finish_turn(struct conn *conn)
{
    assert(!conn->closed && !bi_conn_is_in(conn, LIST_DIRTY));
    if (conn->eof || conn->quit)
        conn->protocol->wind_down(conn);
    bi_conn_write(conn);
    bi_output_trim(&conn->output, OUTPUT_KEEP);

    /* A connection in a run queue is closed after it has run. It must not wait there if it
     * executes nothing more: a deferred connection does not run while the disk hangs. */
    if (conn->dead || conn->output.broken || conn->quit || conn->server->stopping)
        bi_conn_dequeue(conn, LIST_RUN);
    if (!bi_conn_is_in(conn, LIST_RUN) && is_over(conn)) {
        if (must_linger(conn))
            linger(conn);
        else
            bi_conn_close(conn);
        return;
    }

    bi_conn_update_memory(conn);
    if (conn->input_size > 0 && !conn->need_input && bi_conn_may_execute(conn))
        bi_fair_queue_enqueue_run(conn);

    set_events(conn, wanted_events(conn));
}

/* ---- opening and closing ---- */

const char *bi_conn_format_peer(const struct conn *conn, char *text_out)
{
    struct ucred user = {.uid = 0};
    struct sockaddr_storage address = {0};
    socklen_t user_size = sizeof(user), size = sizeof(address);

    if (conn->tcp && getpeername(conn->fd, (struct sockaddr *)&address, &size) == 0)
        bi_address_format(text_out, (struct sockaddr *)&address, size);
    else if (conn->tcp)
        snprintf(text_out, PEER_SIZE, "unknown address");
    else if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &user, &user_size) == 0)
        snprintf(text_out, PEER_SIZE, "unix socket, uid %u, pid %d", (unsigned)user.uid,
                 (int)user.pid);
    else
        snprintf(text_out, PEER_SIZE, "unix socket");
    return text_out;
}

/* Logs, at debug level, that the connection was opened or closed. */
static void log_conn(const struct conn *conn, const char *verb)
{
    char peer[PEER_SIZE];
    /* A connection that is being closed is still counted. */
    unsigned open = conn->server->connections - (conn->closed ? 1 : 0);
    bi_log(&conn->server->log, BIDE_LOG_DEBUG, "connection %s: %s; %u open", verb,
           bi_conn_format_peer(conn, peer), open);
}

struct conn *bi_conn_open(struct server *server, const struct protocol *protocol,
                          void *protocol_state, int fd, bool authorised, bool tcp)
{
    assert(protocol->conn_size >= sizeof(struct conn));

    struct conn *conn = calloc(1, protocol->conn_size);
    if (conn == NULL) {
        close(fd);
        return NULL;
    }

    assert(fd >= 0 && !server->stopping);
    conn->server = server;
    conn->protocol = protocol;
    conn->protocol_state = protocol_state;
    conn->fd = fd;
    conn->tcp = tcp;
    conn->opened_at = conn->last_active_at = conn->last_drained_at = conn->last_received_at =
        server->now;
    conn->admission.authorised = authorised;
    conn->admission.auth_deadline = server->now + BI_AUTH_TIMEOUT_US;
    bi_output_init(&conn->output);
    evtimer_assign(&conn->timer, server->base, on_timer, conn);

    if (!protocol->open(conn)) {
        free(conn);
        close(fd);
        return NULL;
    }

    bi_conn_enqueue(conn, LIST_ALL, &server->conns);
    server->connections++;
    server->total_connections++;
    /* Never 0, the order of ops without a connection. */
    conn->order = (uint32_t)(server->total_connections % UINT32_MAX) + 1;
    log_conn(conn, "opened");

    /* Without memory for the event the connection is dead; the end of the turn closes it. */
    set_events(conn, EV_READ);
    if (conn->dead)
        bi_fair_queue_mark_dirty(conn);
    return conn;
}

void bi_conn_stop(struct conn *conn)
{
    conn->protocol->cancel_waiting(conn, CANCEL_CLOSING);
    conn->protocol->wind_down(conn);
    conn->quit = true;
    bi_fair_queue_mark_dirty(conn);
}

void bi_conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    assert(!conn->closed);

    /* Set first: a closed connection is not inserted into the dirty and run queues again. */
    conn->closed = true;
    bi_conn_dequeue(conn, LIST_DIRTY);
    bi_conn_dequeue(conn, LIST_RUN);
    bi_conn_dequeue(conn, LIST_READ);
    bi_conn_dequeue(conn, LIST_THROTTLED);

    /* Its ops must leave the batch before they lose the connection: only an op that is submitted
     * can be cancelled, and ops in the batch borrow names from the connection. */
    bi_batch_flush(server);

    set_events(conn, 0);
    event_del(&conn->timer);
    bi_admission_release(conn);
    log_conn(conn, "closed"); /* reads the address of the socket */
    close(conn->fd);

    conn->protocol->close(conn);
    bi_conn_input_free(conn);
    bi_output_done(&conn->output);
    assert(server->client_bytes >= conn->memory);
    server->client_bytes -= conn->memory;
    bi_conn_dequeue(conn, LIST_ALL);
    bi_release_conn(conn);
}
