/* SPDX-License-Identifier: MIT */
/*
 * conn - one connection: its pipeline of requests, its output, its events and its end.
 *
 * Ordering   Replies leave in the order of the commands. A reply that is ready early waits in the
 *            pipeline until the requests ahead of it have completed.
 * Limits     A connection is not read while its input is full, while more than OUTPUT_HIGH bytes
 *            wait to be sent, and after its end. Only a close by the peer is watched for then.
 * Close      dead closes at once. quit and eof let requests in flight complete and the output
 *            drain; a TCP connection then lingers until the peer has acknowledged all of it.
 */
#define _GNU_SOURCE /* POLLRDHUP, struct ucred */
#include "server/server_internal.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
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

/* ---- pipeline ---- */

static bool reply_text(struct request *request)
{
    bi_output_add(&request->conn->output, request->text, request->text_size);
    return true;
}

/* Writes a reply to the output and returns true, or enqueues it behind pending requests and returns
 * false. *request is then the request, or NULL without memory. */
static bool reply_or_enqueue(struct conn *conn, const char *text, size_t size,
                             struct request **request)
{
    bi_schedule_mark_dirty(conn);
    if (conn->pipeline_head == NULL) {
        bi_output_add(&conn->output, text, size);
        return true;
    }

    /* A missing reply would shift all later ones: without memory the connection must end. */
    *request = bi_request_new(conn->server, conn, BIDE_OP_NONE, reply_text);
    if (*request == NULL) {
        conn->dead = true;
        return false;
    }
    (*request)->text = text;
    (*request)->text_size = size;
    (*request)->finished = true;

    conn->pipeline_tail->next = *request;
    conn->pipeline_tail = *request;
    conn->pipeline_count++;
    return false;
}

void bi_conn_reply(struct conn *conn, const char *text)
{
    struct request *request;
    reply_or_enqueue(conn, text, strlen(text), &request);
}

void bi_conn_reply_copy(struct conn *conn, const char *text, size_t size)
{
    struct request *request;
    assert(size <= OUTPUT_SMALL);

    if (reply_or_enqueue(conn, text, size, &request) || request == NULL)
        return;
    memcpy(request->copy, text, size);
    request->text = request->copy;
}

static void remove_from_pipeline(struct conn *conn, struct request *request)
{
    conn->pipeline_head = request->next;
    if (conn->pipeline_head == NULL)
        conn->pipeline_tail = NULL;
    conn->pipeline_count--;
    conn->blocking_count -= request->blocking;
    conn->expected_bytes -= request->expected_bytes;

    /* The session knows the reserved jobs now: the stalled command can be tried again. */
    conn->applied -= request->applied;
    conn->stalled = conn->stalled && !request->applied;
}

void bi_conn_drain_pipeline(struct conn *conn)
{
    struct request *request;

    bi_schedule_mark_dirty(conn);
    while ((request = conn->pipeline_head) != NULL && request->finished) {
        /* A request that is submitted again stays at the head. */
        if (!request->reply(request))
            return;
        remove_from_pipeline(conn, request);
        bi_request_free(request);
    }

    conn->last_active_at = conn->server->now;
    if (conn->input_size > 0)
        bi_schedule_enqueue_run(conn);
}

/* ---- limits ---- */

/* While clients use half of their memory, a connection gets less of everything. */
static bool is_full(const struct conn *conn)
{
    const struct server *server = conn->server;
    bool tight = server->client_bytes > server->limits.max_client_bytes / 2;

    return conn->pipeline_count >= (tight ? PIPELINE_MAX_TIGHT : PIPELINE_MAX) ||
           conn->expected_bytes >= EXPECTED_BYTES_HIGH ||
           conn->rpc_count - conn->rpc_waiting >= BI_RPC_IN_FLIGHT_MAX ||
           conn->rpc_reply_estimate >= RPC_UNREAD_MAX || conn->unreplied_head != NULL ||
           bi_output_left(&conn->output) > (tight ? THROTTLED_KEEP : OUTPUT_HIGH);
}

bool bi_conn_may_execute(struct conn *conn)
{
    if (conn->quit || conn->dead || conn->paused || conn->server->stopping ||
        conn->blocking_count > conn->speculative || conn->stalled || is_full(conn))
        return false;
    if (!bi_server_must_throttle(conn->server))
        return true;

    /* resume_throttled() in server.c searches the connections with this flag. */
    conn->throttled = conn->server->throttled = conn->server->conns_throttled = true;
    return false;
}

size_t bi_conn_max_input(const struct conn *conn)
{
    const struct server *server = conn->server;
    return server->client_bytes > server->limits.max_client_bytes / 2 ? THROTTLED_KEEP : READ_MAX;
}

void bi_conn_update_memory(struct conn *conn)
{
    size_t memory = conn->input_size + conn->pipeline_count * sizeof(struct request) +
                    bi_output_memory(&conn->output) + conn->output.body_bytes +
                    conn->unreplied_bytes + conn->listing_bytes + conn->many_bytes +
                    bi_session_memory(&conn->session) + bi_tubes_memory(&conn->topic_refs);
    if (conn->incoming != NULL)
        memory += sizeof(*conn->incoming) + bi_conn_input_body_memory(conn);

    /* The difference may be negative; unsigned arithmetic wraps to the right sum. */
    conn->server->client_bytes += memory - conn->memory;
    conn->memory = memory;
}

void bi_conn_cancel_waiting(struct conn *conn, enum cancel_reason cancel_reason)
{
    for (struct request *request = conn->pipeline_head; request != NULL; request = request->next)
        bi_request_cancel(request, cancel_reason);
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
        bi_conn_cancel_waiting(conn, CANCEL_HALF_CLOSED);
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
        bi_schedule_on_readable(conn);

    /* Last, because the queue is chosen by the load and the end of the connection. */
    bi_schedule_mark_dirty(conn);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    (void)what;

    if (conn->lingering)
        bi_schedule_mark_dirty(conn);
    if (conn->pipeline_head == NULL)
        return;

    /* libevent's clock has a resolution of milliseconds. A timer that fires early is armed
     * again. */
    if (bi_beanstalk_jobs_is_deadline_soon(conn))
        bi_request_cancel(conn->pipeline_head, CANCEL_DEADLINE_SOON);
    else
        bi_beanstalk_jobs_arm_deadline(conn);
}

void bi_conn_set_alarm(struct conn *conn, int64_t wait_us)
{
    struct timeval after = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
    conn->untimed = evtimer_add(&conn->timer, &after) != 0;
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
    return conn->pipeline_head == NULL && conn->rpc_count == 0 && conn->unreplied_head == NULL &&
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
    bool part = conn->input_size == 0 ? conn->stage != STAGE_LINE : conn->need_input;
    return part && conn->read_queue == NULL && bi_conn_accepts_input(conn);
}

static short wanted_events(const struct conn *conn)
{
    short write = bi_output_left(&conn->output) > 0 || conn->unreplied_head != NULL ? EV_WRITE : 0;
    if (conn->eof || conn->quit)
        return write;
    if (conn->read_queue == NULL && bi_conn_accepts_input(conn))
        return (short)(EV_READ | write);

    /* Only a hangup is of interest. Edge-triggered, as unread input would wake the loop for ever;
     * with output left, the write reports the hangup. */
    return write != 0 ? write : (short)(EV_READ | EV_ET);
}

void bi_conn_set_events(struct conn *conn, short events)
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

    bi_rpc_flush_replies(conn);
    bi_beanstalk_sent(conn);
}

/*
 * Ends the stream. A unix socket delivers output at once, but closing it with unread input resets
 * the peer. So both directions are shut down, and the input that has arrived is discarded.
 */
static void shut_down(const struct conn *conn)
{
    char unread[4096];

    shutdown(conn->fd, conn->tcp ? SHUT_WR : SHUT_RDWR);
    while (!conn->tcp && recv(conn->fd, unread, sizeof(unread), 0) > 0)
        continue;
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
        shut_down(conn);
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
        bi_conn_close_release(conn); /* its jobs do not wait for the peer */
    }

    bi_conn_set_events(conn, 0);
    bi_conn_set_alarm(conn, conn->linger_wait);
    conn->linger_wait = conn->linger_wait < LINGER_MAX ? conn->linger_wait * 2 : LINGER_MAX;
}

void bi_conn_finish_turn(struct conn *conn)
{
    /* Waiting calls are cancelled in slices, one a turn. */
    if (conn->eof || conn->quit)
        bi_rpc_cancel_waiting(conn);
    bi_conn_write(conn);
    bi_output_trim(&conn->output, OUTPUT_KEEP);

    /* A connection in a run queue is closed after it has run. It must not wait there if it
     * executes nothing more: a deferred connection does not run while the disk hangs. */
    if (conn->dead || conn->output.broken || conn->quit || conn->server->stopping)
        bi_schedule_dequeue_run(conn);
    if (conn->run_queue == NULL && is_over(conn)) {
        if (must_linger(conn))
            linger(conn);
        else
            bi_conn_close(conn);
        return;
    }

    bi_conn_update_memory(conn);
    if (conn->input_size > 0 && !conn->need_input && bi_conn_may_execute(conn))
        bi_schedule_enqueue_run(conn);

    bi_conn_set_events(conn, wanted_events(conn));
}

/* ---- opening and closing ---- */

/* Formats "10.0.0.7:4711", also for an IPv4 client of a dual-stack socket, or "[fd00::7]:4711". */
static bool format_address(int fd, char *text_out)
{
    static const char mapped[] = "::ffff:";
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    char host[PEER_SIZE - 8], port[8];

    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;

    bool is_mapped = strncmp(host, mapped, sizeof(mapped) - 1) == 0;
    bool brackets = strchr(host, ':') != NULL && !is_mapped;
    snprintf(text_out, PEER_SIZE, brackets ? "[%.*s]:%s" : "%.*s:%s", PEER_SIZE - 11,
             is_mapped ? host + sizeof(mapped) - 1 : host, port);
    return true;
}

const char *bi_conn_format_peer(const struct conn *conn, char *text_out)
{
    struct ucred user = {.uid = 0};
    socklen_t size = sizeof(user);

    if (conn->tcp && !format_address(conn->fd, text_out))
        snprintf(text_out, PEER_SIZE, "an address that is not known any more");
    else if (!conn->tcp && getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0)
        snprintf(text_out, PEER_SIZE, "a unix socket, user %u, process %d", (unsigned)user.uid,
                 (int)user.pid);
    else if (!conn->tcp)
        snprintf(text_out, PEER_SIZE, "a unix socket");
    return text_out;
}

void bi_conn_log(const struct conn *conn, const char *verb)
{
    char peer[PEER_SIZE];
    bi_log(&conn->server->log, BIDE_LOG_DEBUG, "a connection %s: %s, %u are here", verb,
           bi_conn_format_peer(conn, peer), conn->server->connections);
}

static void link_conn(struct server *server, struct conn *conn)
{
    conn->prev = server->last;
    if (server->last != NULL)
        server->last->next = conn;
    else
        server->first = conn;
    server->last = conn;
}

/* A new connection uses and watches the tube "default", which exists as long as the server. Fails
 * without a change when out of memory. */
static bool begin_session(struct conn *conn)
{
    struct tube *tube = conn->server->default_tube;
    if (!bi_session_reserve_tube(&conn->session))
        return false;

    conn->session.used = tube;
    conn->session.hash_seed = conn->server->lease_hash_seed;
    tube->users++;
    tube->watchers++;
    tube->ref_count += 2;
    bi_session_add_tube(&conn->session, tube);
    return true;
}

struct conn *bi_conn_open(struct server *server, int fd, bool authorised, bool tcp)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        close(fd);
        return NULL;
    }

    conn->server = server;
    conn->fd = fd;
    conn->authorised = authorised;
    conn->auth_deadline = server->now + BI_AUTH_TIMEOUT_US;
    conn->tcp = tcp;
    conn->opened_at = conn->last_active_at = conn->last_drained_at = conn->last_received_at =
        server->now;
    bi_output_init(&conn->output);
    evtimer_assign(&conn->timer, server->base, on_timer, conn);

    if (!begin_session(conn)) {
        bi_session_done(&conn->session);
        free(conn);
        close(fd);
        return NULL;
    }

    link_conn(server, conn);
    server->connections++;
    server->total_connections++;
    /* Never 0, the order of ops without a connection. */
    conn->order = (uint32_t)(server->total_connections % UINT32_MAX) + 1;
    bi_conn_log(conn, "came");

    /* Without memory for the event the connection is dead; the end of the turn closes it. */
    bi_conn_set_events(conn, EV_READ);
    if (conn->dead)
        bi_schedule_mark_dirty(conn);
    return conn;
}

void bi_conn_stop(struct conn *conn)
{
    bi_conn_cancel_waiting(conn, CANCEL_CLOSING);
    bi_rpc_cancel_waiting(conn);
    conn->quit = true;
    bi_schedule_mark_dirty(conn);
}
