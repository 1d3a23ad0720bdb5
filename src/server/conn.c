/* SPDX-License-Identifier: MIT */
/*
 * conn - one connection: its line of requests, its output, and what it waits for.
 *
 * Stopping   A connection is not read while it has that much of input, while more than OUTPUT_HIGH
 *            waits to be sent, and after its end. Then only a close by the peer is looked for.
 */
#define _GNU_SOURCE /* POLLRDHUP, struct ucred */
#include "server/inside.h"

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

#define LINGER_US   10000              /* until the first look whether the peer has it all; later */
#define LINGER_MAX  320000             /* looks are rarer, as thousands may linger */
#define OUTPUT_KEEP ((size_t)16 << 10) /* of memory, when all is sent */
#define PRESSED_KEEP \
    ((size_t)4 << 10) /* buffers of a connection, when all together have too much */

/* ---- the line ---- */

static bool say_text(struct request *request)
{
    bi_output_add(&request->conn->output, request->text, request->text_size);
    return true;
}

/* True if it was said at once; else it stands in the line now, and may be NULL. */
static bool say(struct conn *conn, const char *text, size_t size, struct request **request)
{
    bi_server_mark(conn);
    if (conn->line_head == NULL) {
        bi_output_add(&conn->output, text, size);
        return true;
    }
    *request = bi_request_new(conn->server, conn, BIDE_OP_NONE, say_text);
    if (*request == NULL) {
        conn->dead = true;
        return false;
    }
    (*request)->text = text;
    (*request)->text_size = size;
    (*request)->finished = true;
    conn->line_tail->next = *request;
    conn->line_tail = *request;
    conn->line_count++;
    return false;
}

void bi_conn_say(struct conn *conn, const char *text)
{
    struct request *request;
    say(conn, text, strlen(text), &request);
}

void bi_conn_say_copy(struct conn *conn, const char *text, size_t size)
{
    struct request *request;
    assert(size <= OUTPUT_SMALL);
    if (say(conn, text, size, &request) || request == NULL)
        return;
    memcpy(request->copy, text, size);
    request->text = request->copy;
}

static void leave_line(struct conn *conn, struct request *request)
{
    conn->line_head = request->next;
    if (conn->line_head == NULL)
        conn->line_tail = NULL;
    conn->line_count--;
    conn->blocked -= request->blocking;
    conn->expected -= request->expected;
    conn->applied -= request->applied;
    conn->stalled = conn->stalled && !request->applied;
}

void bi_conn_settle(struct conn *conn)
{
    struct request *request;
    bi_server_mark(conn);
    while ((request = conn->line_head) != NULL && request->finished) {
        if (!request->answer(request))
            return;
        leave_line(conn, request);
        bi_request_free(request);
    }
    conn->active = conn->server->now;
    if (conn->input_size > 0)
        bi_server_wake(conn);
}

/* ---- may it go on? ---- */

static bool is_full(const struct conn *conn)
{
    const struct server *server = conn->server;
    bool tight = server->client_bytes > server->limits.max_client_bytes / 2;
    return conn->line_count >= (tight ? LINE_TIGHT : LINE_DEPTH) ||
           conn->expected >= EXPECTED_HIGH ||
           conn->call_count - conn->call_waiting >= BI_CALLS_MAX ||
           conn->call_promised >= ANSWERS_MAX || conn->unsaid_head != NULL ||
           bi_output_left(&conn->output) > (tight ? PRESSED_KEEP : OUTPUT_HIGH);
}

bool bi_conn_may_execute(struct conn *conn)
{
    if (conn->quit || conn->dead || conn->paused || conn->server->stopping ||
        conn->blocked > conn->trying || conn->stalled || is_full(conn))
        return false;
    if (!bi_server_pressed(conn->server))
        return true;
    conn->pressed = conn->server->pressed = conn->server->stopped_some = true;
    return false;
}

size_t bi_conn_input_max(const struct conn *conn)
{
    const struct server *server = conn->server;
    return server->client_bytes > server->limits.max_client_bytes / 2 ? PRESSED_KEEP : READ_MAX;
}

void bi_conn_count_memory(struct conn *conn)
{
    size_t memory = conn->input_size + conn->line_count * sizeof(struct request) +
                    bi_output_memory(&conn->output) + conn->output.body_bytes + conn->unsaid_bytes +
                    conn->listing_bytes + bi_session_memory(&conn->session) +
                    bi_tubes_memory(&conn->references);
    if (conn->incoming != NULL)
        memory += sizeof(*conn->incoming) + bi_conn_body_memory(conn);
    conn->server->client_bytes += memory - conn->memory;
    conn->memory = memory;
}

void bi_conn_give_up_waiting(struct conn *conn, enum why why)
{
    for (struct request *request = conn->line_head; request != NULL; request = request->next)
        bi_request_give_up(request, why);
}

/* ---- events ---- */

/* Not being read: has the peer gone? */
static void look_for_end(struct conn *conn)
{
    struct pollfd look = {.fd = conn->fd, .events = POLLRDHUP};
    if (poll(&look, 1, 0) <= 0)
        return;
    if ((look.revents & (POLLERR | POLLHUP)) != 0)
        conn->dead = true;
    else if ((look.revents & POLLRDHUP) != 0) {
        conn->half_closed = true;
        bi_conn_give_up_waiting(conn, WHY_HALF_CLOSED);
    }
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    if ((what & EV_READ) != 0 && (conn->wanted & EV_ET) != 0)
        look_for_end(conn);
    else if ((what & EV_READ) != 0)
        bi_server_readable(conn);
    bi_server_mark(conn); /* when it is known what it has sent, or that it has ended */
}

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    (void)what;
    if (conn->lingers)
        bi_server_mark(conn);
    if (conn->line_head == NULL)
        return;
    /* The timers run on a clock of a few milliseconds, and may be early by that much. */
    if (bi_beanstalk_is_soon(conn))
        bi_request_give_up(conn->line_head, WHY_SOON);
    else
        bi_beanstalk_alarm(conn);
}

/* ---- the end of a turn ---- */

bool bi_conn_is_done(const struct conn *conn)
{
    return conn->line_head == NULL && conn->call_count == 0 && conn->unsaid_head == NULL &&
           bi_output_left(&conn->output) == 0;
}

/* Nothing more will come of it. */
static bool is_over(const struct conn *conn)
{
    if (conn->dead || conn->output.broken)
        return true;
    if (!bi_conn_is_done(conn))
        return false;
    return conn->quit || (conn->eof && !conn->paused && (conn->input_size == 0 || conn->hungry));
}

bool bi_conn_takes_input(const struct conn *conn)
{
    return !conn->eof && !conn->quit && !conn->dead && !conn->paused && !conn->server->stopping &&
           conn->input_size < bi_conn_input_max(conn) && !is_full(conn);
}

bool bi_conn_is_unfinished(const struct conn *conn)
{
    bool part = conn->input_size == 0 ? conn->stage != STAGE_LINE : conn->hungry;
    return part && conn->reads == NULL && bi_conn_takes_input(conn);
}

static short events_wanted(const struct conn *conn)
{
    short write = bi_output_left(&conn->output) > 0 || conn->unsaid_head != NULL ? EV_WRITE : 0;
    if (conn->eof || conn->quit)
        return write;
    if (conn->reads == NULL && bi_conn_takes_input(conn))
        return (short)(EV_READ | write);
    return write != 0 ? write : (short)(EV_READ | EV_ET);
}

void bi_conn_want(struct conn *conn, short wanted)
{
    if (wanted == conn->wanted)
        return;
    if (conn->wanted != 0)
        event_del(&conn->event);
    conn->wanted = wanted;
    if (wanted == 0)
        return;
    event_assign(&conn->event, conn->server->base, conn->fd, (short)(wanted | EV_PERSIST), on_event,
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
        conn->heard = conn->server->now;
    bi_call_sent(conn);
}

/*
 * Says that nothing more comes. At a unix socket the peer has it all at once, but is told of a reset
 * when something that it sent is left unread; so nothing more is let in, and what is there is read.
 */
static void end_stream(const struct conn *conn)
{
    char unread[4096];
    shutdown(conn->fd, conn->tcp ? SHUT_WR : SHUT_RDWR);
    while (!conn->tcp && recv(conn->fd, unread, sizeof(unread), 0) > 0)
        continue;
}

/*
 * Closing a socket at which something is unread resets the connection, and what has not been
 * delivered yet is lost, the end of the stream too. So whoever was not the first to end says that it
 * ends, and waits until the peer's system has it all, for a while. A peer that has closed its own
 * side is hung up on (POLLHUP) from then on, but may be reading: only a reset ends the wait.
 */
static bool must_linger(struct conn *conn)
{
    int unsent = 0;
    if (conn->dead || conn->output.broken || conn->eof)
        return false;
    if (!conn->lingers)
        end_stream(conn);
    if (!conn->tcp || ioctl(conn->fd, SIOCOUTQ, &unsent) != 0 || unsent == 0)
        return false;
    struct pollfd look = {.fd = conn->fd};
    if (poll(&look, 1, 0) > 0 && (look.revents & POLLERR) != 0)
        return false;
    return !conn->lingers || conn->server->now < conn->linger_end;
}

static void linger(struct conn *conn)
{
    const struct server *server = conn->server;
    if (!conn->lingers) {
        conn->lingers = true;
        conn->linger_wait = LINGER_US;
        conn->linger_end = server->now + server->limits.stop_timeout_ms * 1000;
        bi_conn_leave(conn); /* its jobs do not wait for the peer */
    }
    struct timeval after = {.tv_usec = conn->linger_wait};
    conn->linger_wait = conn->linger_wait < LINGER_MAX ? conn->linger_wait * 2 : LINGER_MAX;
    bi_conn_want(conn, 0);
    evtimer_add(&conn->alarm, &after);
}

void bi_conn_finish_turn(struct conn *conn)
{
    if (conn->eof || conn->quit)
        bi_call_stop(conn);
    bi_conn_write(conn);
    bi_output_trim(&conn->output, OUTPUT_KEEP);
    /* A connection in a run queue is looked at again after it has run. These execute nothing more, and
     * a deferred one may not run for as long as the disk hangs. */
    if (conn->dead || conn->output.broken || conn->quit || conn->server->stopping)
        bi_server_unwake(conn);
    if (conn->runs == NULL && is_over(conn)) {
        if (must_linger(conn))
            linger(conn);
        else
            bi_conn_close(conn);
        return;
    }
    bi_conn_count_memory(conn);
    if (conn->input_size > 0 && !conn->hungry && bi_conn_may_execute(conn))
        bi_server_wake(conn);
    bi_conn_want(conn, events_wanted(conn));
}

/* ---- opening and closing ---- */

/* "10.0.0.7:4711", also at a socket for both families, or "[fd00::7]:4711". */
static bool show_address(int fd, char *room)
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
    snprintf(room, PEER_SIZE, brackets ? "[%.*s]:%s" : "%.*s:%s", PEER_SIZE - 11,
             is_mapped ? host + sizeof(mapped) - 1 : host, port);
    return true;
}

const char *bi_conn_peer(const struct conn *conn, char *room)
{
    struct ucred user = {.uid = 0};
    socklen_t size = sizeof(user);
    if (conn->tcp && !show_address(conn->fd, room))
        snprintf(room, PEER_SIZE, "an address that is not known any more");
    else if (!conn->tcp && getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0)
        snprintf(room, PEER_SIZE, "a unix socket, user %u, process %d", (unsigned)user.uid,
                 (int)user.pid);
    else if (!conn->tcp)
        snprintf(room, PEER_SIZE, "a unix socket");
    return room;
}

void bi_conn_tell(const struct conn *conn, const char *verb)
{
    char peer[PEER_SIZE];
    bi_log(&conn->server->log, BIDE_LOG_DEBUG, "a connection %s: %s, %u are here", verb,
           bi_conn_peer(conn, peer), conn->server->connections);
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

/* A new connection uses and watches the tube default, which the server keeps. */
static bool begin_session(struct conn *conn)
{
    struct tube *tube = conn->server->default_tube;
    if (!bi_session_reserve_tube(&conn->session))
        return false;
    conn->session.used = tube;
    conn->session.secret = conn->server->held_secret;
    tube->using ++;
    tube->watching++;
    tube->holders += 2;
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
    conn->grace_end = server->now + BI_GRACE_US;
    conn->tcp = tcp;
    conn->opened = conn->active = conn->heard = conn->fed = server->now;
    bi_output_init(&conn->output);
    evtimer_assign(&conn->alarm, server->base, on_alarm, conn);
    if (!begin_session(conn)) {
        bi_session_done(&conn->session);
        free(conn);
        close(fd);
        return NULL;
    }
    link_conn(server, conn);
    server->connections++;
    server->total_connections++;
    conn->order = (uint32_t)(server->total_connections % UINT32_MAX) + 1;
    bi_conn_tell(conn, "came");
    bi_conn_want(conn, EV_READ);
    if (conn->dead)
        bi_server_mark(conn);
    return conn;
}

void bi_conn_stop(struct conn *conn)
{
    bi_conn_give_up_waiting(conn, WHY_GONE);
    bi_call_stop(conn);
    conn->quit = true;
    bi_server_mark(conn);
}
