/* SPDX-License-Identifier: MIT */
/*
 * conn - one connection: its input, its line of requests, its output.
 *
 * Input      What is read lies in the server's scratch memory until the batch has gone; what could
 *            not be executed (half a line, commands behind a blocking one) is kept in memory of the
 *            connection's own, up to READ_MAX. A large body is read to where it will stay.
 * Stopping   A connection is not read while it has that much of input, while more than OUTPUT_HIGH
 *            waits to be sent, and after its end. Then only a close by the peer is looked for.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "server/inside.h"
#include "util/buf.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUTPUT_KEEP ((size_t)16 << 10) /* of memory, when all is sent */
#define DIRECT_MIN  ((size_t)16 << 10) /* a body that lacks more is read into its place */
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
    if (conn->input_size > 0)
        bi_server_wake(conn);
}

/* ---- may it go on? ---- */

static bool is_full(const struct conn *conn)
{
    const struct server *server = conn->server;
    bool tight = server->client_bytes > server->limits.max_client_bytes / 2;
    return conn->line_count >= LINE_DEPTH || conn->expected >= EXPECTED_HIGH ||
           bi_output_left(&conn->output) > (tight ? PRESSED_KEEP : OUTPUT_HIGH);
}

static bool may_execute(struct conn *conn)
{
    if (conn->quit || conn->dead || conn->server->stopping || conn->blocked > conn->trying ||
        is_full(conn))
        return false;
    if (!bi_server_pressed(conn->server))
        return true;
    conn->pressed = conn->server->pressed = true;
    return false;
}

static size_t input_max(const struct conn *conn)
{
    const struct server *server = conn->server;
    return server->client_bytes > server->limits.max_client_bytes / 2 ? PRESSED_KEEP : READ_MAX;
}

static void count_memory(struct conn *conn)
{
    size_t memory = conn->input_size + bi_output_memory(&conn->output) + conn->output.body_bytes;
    if (conn->incoming != NULL)
        memory += sizeof(*conn->incoming) + conn->incoming->command.body_size;
    conn->server->client_bytes += memory - conn->memory;
    conn->memory = memory;
}

/* ---- bodies ---- */

static void drop_incoming(struct conn *conn)
{
    if (conn->incoming == NULL)
        return;
    bide_buf_unref(conn->incoming->buf);
    free(conn->incoming);
    conn->incoming = NULL;
}

static void skip(struct conn *conn, uint64_t bytes, const char *text)
{
    conn->stage = STAGE_SKIP;
    conn->skip = bytes;
    conn->skip_text = text;
}

/* A body that cannot be taken. A call is told at once, by its tag. */
static void refuse_body(struct conn *conn, const struct command *command, int code,
                        const char *text)
{
    if (command->verb == VERB_CALL) {
        bi_call_refuse(conn, command->tag, code, bide_code_text(code));
        text = "";
    }
    skip(conn, (uint64_t)command->body_size + 2, text);
}

/* The command as it will be needed when the body is there: nothing of it may point into a line that
 * is gone by then. */
static void keep_command(struct incoming *incoming, const struct command *command)
{
    incoming->command = *command;
    if (command->verb == VERB_PUT && command->put.key.size > 0) {
        size_t at = (size_t)((const char *)command->put.key.data - command->text);
        incoming->command.put.key.data = incoming->command.text + at;
    }
    if (command->verb == VERB_CALL) {
        size_t size = command->name.size;
        if (size > sizeof(incoming->name))
            size = sizeof(incoming->name);
        memcpy(incoming->name, command->name.data, size);
        incoming->command.name = (bide_slice){incoming->name, size};
    }
}

/* Bodies that are still coming are bounded, all of them together. */
static void await_body(struct conn *conn, const struct command *command)
{
    const struct server *server = conn->server;
    struct incoming *incoming = NULL;
    void *data = NULL;
    if (server->client_bytes + command->body_size <= server->limits.max_client_bytes ||
        server->client_bytes == 0)
        incoming = malloc(sizeof(*incoming));
    bide_buf *buf = incoming == NULL ? NULL : bi_buf_room(command->body_size, &data);
    if (buf == NULL) {
        free(incoming);
        refuse_body(conn, command, BIDE_EBUSY, "OUT_OF_MEMORY\r\n");
        return;
    }
    keep_command(incoming, command);
    incoming->buf = buf;
    incoming->data = data;
    incoming->got = 0;
    conn->incoming = incoming;
    conn->stage = STAGE_BODY;
    count_memory(conn);
}

/* Takes bytes of the body and its CRLF; how many. */
static size_t fill_body(struct incoming *incoming, const char *data, size_t size)
{
    size_t body_size = incoming->command.body_size;
    size_t taken = 0;
    if (incoming->got < body_size) {
        taken = body_size - incoming->got < size ? body_size - incoming->got : size;
        memcpy(incoming->data + incoming->got, data, taken);
        incoming->got += taken;
    }
    while (taken < size && incoming->got >= body_size && incoming->got < body_size + 2) {
        incoming->end[incoming->got - body_size] = data[taken++];
        incoming->got++;
    }
    return taken;
}

/* The body of the incoming command is complete. */
static void end_body(struct conn *conn)
{
    struct incoming *incoming = conn->incoming;
    conn->incoming = NULL;
    conn->stage = STAGE_LINE;
    if (memcmp(incoming->end, "\r\n", 2) != 0) {
        bi_conn_say(conn, "EXPECTED_CRLF\r\n");
    } else {
        incoming->command.body = (bide_slice){incoming->data, incoming->command.body_size};
        incoming->command.buf = incoming->buf;
        bi_beanstalk_execute(conn, &incoming->command);
    }
    bide_buf_unref(incoming->buf);
    free(incoming);
}

/* ---- lines ---- */

static void *find_end(const char *data, size_t size)
{
    const char *at = data;
    const char *end = data + size;
    while (at < end) {
        const char *found = memchr(at, '\n', (size_t)(end - at));
        if (found == NULL)
            return NULL;
        if (found > data && found[-1] == '\r')
            return (void *)(uintptr_t)(found - 1);
        at = found + 1;
    }
    return NULL;
}

/* A command with its body, as far as it is there. Answers how many bytes of data it took. */
static size_t take_body(struct conn *conn, struct command *command, const char *data, size_t size)
{
    size_t body_size = command->body_size;
    if (size < body_size + 2) {
        await_body(conn, command);
        return 0;
    }
    command->body = (bide_slice){data, body_size};
    command->buf = NULL;
    if (memcmp(data + body_size, "\r\n", 2) != 0)
        bi_conn_say(conn, "EXPECTED_CRLF\r\n");
    else
        bi_beanstalk_execute(conn, command);
    return body_size + 2;
}

static size_t begin_body(struct conn *conn, struct command *command, const char *data, size_t size)
{
    if (command->verb == VERB_PUT || command->verb == VERB_PUT_MANY)
        bi_beanstalk_produces(conn);
    return take_body(conn, command, data, size);
}

/* Words for a line that was not understood. */
static void complain(struct conn *conn, const struct command *command, enum parse parse)
{
    bool too_big = command->wants_body &&
                   command->body_size > bi_beanstalk_body_max(conn->server, command->verb);
    if (too_big)
        refuse_body(conn, command, BIDE_TOO_BIG, "JOB_TOO_BIG\r\n");
    else if (parse == PARSE_BAD_OPTION)
        skip(conn, (uint64_t)command->body_size + 2, "BAD_FORMAT\r\n");
    else if (parse == PARSE_BAD_FORMAT)
        bi_conn_say(conn, "BAD_FORMAT\r\n");
    else
        bi_conn_say(conn, "UNKNOWN_COMMAND\r\n");
}

/* What somebody may ask who has not said the secret. */
static bool is_allowed(const struct conn *conn, const struct command *command)
{
    return conn->authorised || command->verb == VERB_AUTH || command->verb == VERB_QUIT;
}

static void demand_secret(struct conn *conn, const struct command *command)
{
    static const char text[] = "AUTH_REQUIRED\r\n";
    if (command->wants_body)
        skip(conn, (uint64_t)command->body_size + 2, text);
    else
        bi_conn_say(conn, text);
}

/* One line, and its body if that is there. Answers how many bytes were taken; 0: it cannot be
 * executed yet. */
static size_t take_line(struct conn *conn, const char *data, size_t line_size, size_t size)
{
    struct command command;
    size_t taken = line_size + 2;
    enum parse parse = bi_beanstalk_parse(&command, data, line_size);
    if (!bi_beanstalk_may(conn, &command))
        return 0;
    if (command.counted)
        conn->server->commands[command.verb]++;
    if (!is_allowed(conn, &command))
        demand_secret(conn, &command);
    else if (parse != PARSE_OK ||
             (command.wants_body &&
              command.body_size > bi_beanstalk_body_max(conn->server, command.verb)))
        complain(conn, &command, parse);
    else if (command.wants_body)
        taken += begin_body(conn, &command, data + taken, size - taken);
    else
        bi_beanstalk_execute(conn, &command);
    return taken;
}

static size_t begin_line(struct conn *conn, const char *data, size_t size)
{
    size_t look = size < LINE_MAX_MORE ? size : LINE_MAX_MORE;
    const char *end = find_end(data, look < LINE_MAX_OLD ? look : LINE_MAX_OLD);
    if (end == NULL && look >= LINE_MAX_OLD) {
        size_t max = bi_beanstalk_line_max(data, LINE_MAX_OLD);
        end = max == LINE_MAX_OLD ? NULL : find_end(data, look);
        if (end == NULL && size >= max) {
            conn->stage = STAGE_DISCARD;
            return max - 1; /* the last byte may be the CR of the end */
        }
    }
    return end == NULL ? 0 : take_line(conn, data, (size_t)(end - data), size);
}

/* ---- stages ---- */

static size_t skip_some(struct conn *conn, const char *data, size_t size)
{
    (void)data;
    size_t taken = conn->skip < size ? (size_t)conn->skip : size;
    conn->skip -= taken;
    if (conn->skip == 0) {
        conn->stage = STAGE_LINE;
        bi_conn_say(conn, conn->skip_text);
    }
    return taken;
}

static size_t discard_some(struct conn *conn, const char *data, size_t size)
{
    const char *end = find_end(data, size);
    if (end == NULL)
        return data[size - 1] == '\r' ? size - 1 : size;
    conn->stage = STAGE_LINE;
    bi_conn_say(conn, "BAD_FORMAT\r\n");
    return (size_t)(end - data) + 2;
}

static size_t take_more_body(struct conn *conn, const char *data, size_t size)
{
    struct incoming *incoming = conn->incoming;
    size_t taken = fill_body(incoming, data, size);
    if (incoming->got == (size_t)incoming->command.body_size + 2)
        end_body(conn);
    return taken;
}

static size_t (*const stages[])(struct conn *conn, const char *data, size_t size) = {
    [STAGE_LINE] = begin_line,
    [STAGE_BODY] = take_more_body,
    [STAGE_SKIP] = skip_some,
    [STAGE_DISCARD] = discard_some,
};

/* A blocking command may well be answered at once: then there is no need to put the rest aside. */
static bool may_go_on(struct conn *conn)
{
    if (conn->blocked > conn->trying)
        bi_server_flush(conn->server);
    return may_execute(conn);
}

/* Executes what can be; answers how many bytes that were. */
static size_t execute(struct conn *conn, const char *data, size_t size)
{
    size_t at = 0;
    conn->hungry = false;
    while (at < size && may_go_on(conn)) {
        size_t taken = stages[conn->stage](conn, data + at, size - at);
        if (taken == 0) {
            conn->hungry = conn->blocked == 0;
            break;
        }
        at += taken;
    }
    return at;
}

/* ---- input ---- */

/* Keeps what was not executed. */
static void keep_input(struct conn *conn, const char *data, size_t size)
{
    if (size == 0) {
        free(conn->input);
        conn->input = NULL;
        conn->input_size = 0;
        return;
    }
    char *input = data == conn->input ? conn->input : malloc(size);
    if (input == NULL) {
        conn->dead = true;
        return;
    }
    if (input != conn->input) {
        memcpy(input, data, size);
        free(conn->input);
    }
    conn->input = input;
    conn->input_size = size;
}

/* Scratch memory for so many bytes, which stays as it is until the batch goes. */
static char *scratch(struct server *server, size_t size)
{
    assert(size <= SCRATCH_SIZE);
    if (SCRATCH_SIZE - server->scratch_at < size) {
        bi_server_flush(server);
        server->scratch_at = 0;
    }
    return server->scratch + server->scratch_at;
}

/* Executes the kept input and fresh bytes behind it, which lie in scratch memory. */
static void run_scratch(struct conn *conn, char *data, size_t size)
{
    struct server *server = conn->server;
    server->scratch_at += size;
    free(conn->input);
    conn->input = NULL;
    conn->input_size = 0;
    size_t taken = execute(conn, data, size);
    keep_input(conn, data + taken, size - taken);
}

void bi_conn_run(struct conn *conn)
{
    if (conn->dead || conn->input_size == 0 || !may_execute(conn)) {
        bi_server_mark(conn);
        return;
    }
    size_t size = conn->input_size;
    char *data = scratch(conn->server, size);
    memcpy(data, conn->input, size);
    run_scratch(conn, data, size);
    bi_server_mark(conn);
}

/* ---- reading ---- */

static bool lacks_much(const struct conn *conn)
{
    return conn->stage == STAGE_BODY && conn->input_size == 0 &&
           conn->incoming->command.body_size > conn->incoming->got + DIRECT_MIN;
}

/* What waits would wait for nobody. */
static void give_up_waiting(struct conn *conn, enum why why)
{
    for (struct request *request = conn->line_head; request != NULL; request = request->next)
        bi_request_give_up(request, why);
}

/* A read that brought nothing: the end, an error, or nothing yet. */
static void read_nothing(struct conn *conn, ssize_t got)
{
    if (got == 0)
        conn->eof = true;
    else if (errno != EAGAIN && errno != EINTR)
        conn->dead = true;
    if (!conn->eof)
        return;
    give_up_waiting(conn, WHY_HALF_CLOSED);
    bi_call_stop(conn);
}

static void read_body(struct conn *conn)
{
    struct incoming *incoming = conn->incoming;
    size_t room = incoming->command.body_size - incoming->got;
    ssize_t got = recv(conn->fd, incoming->data + incoming->got, room, 0);
    if (got <= 0)
        read_nothing(conn, got);
    else
        incoming->got += (size_t)got;
}

/* Behind a blocking command: the bytes are only kept. */
static void read_aside(struct conn *conn)
{
    size_t max = input_max(conn);
    if (conn->input_size >= max)
        return;
    char *data = scratch(conn->server, READ_MAX);
    ssize_t got = recv(conn->fd, data, max - conn->input_size, 0);
    if (got <= 0) {
        read_nothing(conn, got);
        return;
    }
    char *input = realloc(conn->input, conn->input_size + (size_t)got);
    if (input == NULL) {
        conn->dead = true;
        return;
    }
    memcpy(input + conn->input_size, data, (size_t)got);
    conn->input = input;
    conn->input_size += (size_t)got;
    conn->hungry = false;
}

static void read_and_run(struct conn *conn)
{
    size_t kept = conn->input_size;
    char *data = scratch(conn->server, kept + READ_MAX);
    if (kept > 0)
        memcpy(data, conn->input, kept);
    ssize_t got = recv(conn->fd, data + kept, READ_MAX, 0);
    if (got <= 0)
        read_nothing(conn, got);
    else
        run_scratch(conn, data, kept + (size_t)got);
}

/* Not being read: has the peer gone? */
static void look_for_end(struct conn *conn)
{
    struct pollfd look = {.fd = conn->fd, .events = POLLRDHUP};
    if (poll(&look, 1, 0) <= 0)
        return;
    if ((look.revents & (POLLERR | POLLHUP)) != 0)
        conn->dead = true;
    else if ((look.revents & POLLRDHUP) != 0)
        give_up_waiting(conn, WHY_HALF_CLOSED);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    bi_server_mark(conn);
    if ((what & EV_READ) == 0)
        return;
    if ((conn->wanted & EV_ET) != 0) {
        look_for_end(conn);
        return;
    }
    conn->active = conn->server->now;
    if (lacks_much(conn))
        read_body(conn);
    else if (conn->input_size < READ_MAX && may_execute(conn))
        read_and_run(conn);
    else
        read_aside(conn);
}

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    (void)what;
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
    return conn->line_head == NULL && conn->call_count == 0 && bi_output_left(&conn->output) == 0;
}

/* Nothing more will come of it. */
static bool is_over(const struct conn *conn)
{
    if (conn->dead || conn->output.broken)
        return true;
    if (!bi_conn_is_done(conn))
        return false;
    return conn->quit || (conn->eof && (conn->input_size == 0 || conn->hungry));
}

static short events_wanted(const struct conn *conn)
{
    short write = bi_output_left(&conn->output) > 0 ? EV_WRITE : 0;
    bool stopped = conn->input_size >= input_max(conn) || is_full(conn) || conn->server->stopping;
    if (conn->eof || conn->quit)
        return write;
    if (!stopped)
        return (short)(EV_READ | write);
    return write != 0 ? write : (short)(EV_READ | EV_ET);
}

static void want(struct conn *conn, short wanted)
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

void bi_conn_finish_turn(struct conn *conn)
{
    if (!conn->dead && !conn->output.broken && bi_output_left(&conn->output) > 0 &&
        !bi_output_write(&conn->output, conn->fd))
        conn->dead = true;
    bi_output_trim(&conn->output, OUTPUT_KEEP);
    /* One that is about to go on is looked at again when it has. */
    if (!conn->runs && is_over(conn)) {
        bi_conn_close(conn);
        return;
    }
    count_memory(conn);
    if (conn->input_size > 0 && !conn->hungry && may_execute(conn))
        bi_server_wake(conn);
    want(conn, events_wanted(conn));
}

/* ---- opening and closing ---- */

static void link_conn(struct server *server, struct conn *conn)
{
    conn->prev = server->last;
    if (server->last != NULL)
        server->last->next = conn;
    else
        server->first = conn;
    server->last = conn;
}

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

/* A new connection uses and watches the tube default, which the server keeps. */
static bool begin_session(struct conn *conn)
{
    struct tube *tube = conn->server->default_tube;
    if (!bi_session_reserve_tube(&conn->session))
        return false;
    conn->session.used = tube;
    tube->using ++;
    tube->watching++;
    tube->holders += 2;
    bi_session_add_tube(&conn->session, tube);
    return true;
}

void bi_conn_open(struct server *server, int fd, bool local)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        close(fd);
        return;
    }
    conn->server = server;
    conn->fd = fd;
    conn->local = conn->authorised = local;
    conn->active = server->now;
    bi_output_init(&conn->output);
    evtimer_assign(&conn->alarm, server->base, on_alarm, conn);
    if (!begin_session(conn)) {
        bi_session_done(&conn->session);
        free(conn);
        close(fd);
        return;
    }
    link_conn(server, conn);
    server->connections++;
    server->total_connections++;
    want(conn, EV_READ);
    if (conn->dead)
        bi_server_mark(conn);
}

static void end_session(struct conn *conn)
{
    struct server *server = conn->server;
    struct session *session = &conn->session;
    size_t count = bi_session_sort(session);
    for (size_t i = 0; i < count; i++) {
        const struct held *held = &session->held[i];
        bi_request_give_back(server, held->id, held->token, held->has_retries);
    }
    session->used->using --;
    bi_beanstalk_let_go(server, session->used);
    for (uint32_t i = 0; i < session->watched_count; i++) {
        session->watched[i]->watching--;
        bi_beanstalk_let_go(server, session->watched[i]);
    }
    bi_session_done(session);
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
    bi_server_flush(server);
    want(conn, 0);
    event_del(&conn->alarm);
    close(conn->fd);
    abandon_line(conn);
    bi_call_drop(conn);
    end_session(conn);
    drop_incoming(conn);
    server->client_bytes -= conn->memory;
    server->connections--;
    server->producers -= conn->producer;
    server->workers -= conn->worker;
    bi_output_done(&conn->output);
    free(conn->input);
    unlink_conn(server, conn);
    free(conn);
}

void bi_conn_stop(struct conn *conn)
{
    give_up_waiting(conn, WHY_GONE);
    bi_call_stop(conn);
    conn->quit = true;
    bi_server_mark(conn);
}
