/* SPDX-License-Identifier: MIT */
/*
 * conn_input - what a connection has sent: bytes become lines, lines become commands.
 *
 * What is read lies in the server's scratch memory until the batch has gone; what could not be
 * executed (half a line, commands behind a blocking one) is kept in memory of the connection's own,
 * up to READ_MAX. A large body is read to where it will stay.
 */
#include "server/inside.h"
#include "util/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define ANSWER_WORK 32                  /* bytes of an answer that take as long as a command */
#define DIRECT_MIN  ((size_t)16 << 10)  /* a body that lacks more is read into its place */
#define READ_STEP   ((size_t)256 << 10) /* of that, at a time */
#define BULK_FIRST  16                  /* commands, before the rest of a large input waits */
#define BODY_MIN    ((size_t)4 << 10)   /* what counts of a body of which less has come */
#define ROOM_MAX    ((size_t)1 << 20)   /* of a body of which less than half of that has come */

/* ---- bodies ---- */

static void skip(struct conn *conn, uint64_t bytes, const char *text)
{
    conn->stage = STAGE_SKIP;
    conn->skip = bytes;
    conn->skip_text = text;
}

/*
 * A body that cannot be taken, of which got bytes were. A call, too, is answered when its whole body
 * has come: a client does not expect an answer while it still sends.
 */
static void refuse_body(struct conn *conn, const struct command *command, size_t got, int code,
                        const char *text)
{
    bool is_call = command->verb == VERB_CALL;
    skip(conn, (uint64_t)command->body_size + 2 - got, is_call ? NULL : text);
    conn->skip_tag = is_call ? command->tag : 0;
    conn->skip_code = code;
}

static void end_skip(struct conn *conn)
{
    conn->stage = STAGE_LINE;
    if (conn->skip_text != NULL)
        bi_conn_say(conn, conn->skip_text);
    else
        bi_call_refuse(conn, conn->skip_tag, conn->skip_code, bide_code_text(conn->skip_code));
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

static void refuse_for_memory(struct conn *conn, const struct command *command, size_t got)
{
    refuse_body(conn, command, got, BIDE_EBUSY, "OUT_OF_MEMORY\r\n");
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Bodies that are still coming are bounded, all of them together, by what has come of them: a client that
 * declares a large one and sends nothing takes nothing from others. So many bytes are there already.
 */
static void await_body(struct conn *conn, const struct command *command, size_t there)
{
    size_t room = smaller(command->body_size, there < ROOM_MAX / 2 ? ROOM_MAX : 2 * there);
    struct incoming *incoming = NULL;
    void *data = NULL;
    if (bi_server_has_room(conn->server, conn, command->body_size, there + BODY_MIN))
        incoming = malloc(sizeof(*incoming));
    bide_buf *buf = incoming == NULL ? NULL : bi_buf_room(room, &data);
    if (buf == NULL) {
        free(incoming);
        refuse_for_memory(conn, command, 0);
        return;
    }
    keep_command(incoming, command);
    incoming->buf = buf;
    incoming->data = data;
    incoming->room = room;
    incoming->got = 0;
    incoming->began = conn->server->now;
    conn->incoming = incoming;
    conn->stage = STAGE_BODY;
    bi_conn_count_memory(conn);
}

size_t bi_conn_body_memory(const struct conn *conn)
{
    size_t got = conn->incoming->got;
    return got < BODY_MIN ? BODY_MIN : got;
}

/* The rest of a body for which there is no room any more is skipped. */
static void give_up_body(struct conn *conn)
{
    struct incoming *incoming = conn->incoming;
    conn->incoming = NULL;
    refuse_for_memory(conn, &incoming->command, incoming->got);
    bide_buf_unref(incoming->buf);
    free(incoming);
    bi_conn_count_memory(conn);
}

/* Room for more bytes of the body; a buffer that is too small becomes twice as large. False: there is
 * none, and the command is refused. */
static bool make_room(struct conn *conn, size_t more)
{
    struct incoming *incoming = conn->incoming;
    size_t body_size = incoming->command.body_size;
    size_t wanted = smaller(body_size, incoming->got + more);
    size_t room = incoming->room;
    if (wanted > room)
        room = smaller(body_size, wanted > 2 * room ? wanted : 2 * room);
    void *data = incoming->data;
    bide_buf *buf = incoming->buf;
    if (!bi_server_has_room(conn->server, conn, body_size, more))
        buf = NULL;
    else if (room > incoming->room)
        buf = bi_buf_resize(buf, room, &data);
    if (buf == NULL) {
        give_up_body(conn);
        return false;
    }
    incoming->buf = buf;
    incoming->data = data;
    incoming->room = room;
    return true;
}

/* Takes bytes of the body and its CRLF; how many. */
static size_t fill_body(struct incoming *incoming, const char *data, size_t size)
{
    size_t body_size = incoming->command.body_size;
    size_t taken = 0;
    if (incoming->got < body_size) {
        taken = smaller(body_size - incoming->got, size);
        assert(incoming->got + taken <= incoming->room);
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
    assert(incoming->room == incoming->command.body_size);
    conn->incoming = NULL;
    conn->stage = STAGE_LINE;
    bi_conn_count_memory(conn); /* a call counts its body itself */
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
        await_body(conn, command, smaller(size, body_size));
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
        refuse_body(conn, command, 0, BIDE_TOO_BIG, "JOB_TOO_BIG\r\n");
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
    bi_admit_demanded(conn);
}

/* ---- HTTP ---- */

/*
 * A web page can have a browser send a request to any port of the machine it runs on, and choose its
 * body, whose lines would be commands. No command looks like the first lines of such a request.
 */

/* A method, and the beginning of what it asks for. */
static bool begins_as_http(const char *line, size_t size)
{
    size_t at = 0;
    while (at < size && at < 20 && line[at] >= 'A' && line[at] <= 'Z')
        at++;
    return at >= 3 && at + 1 < size && line[at] == ' ' &&
           (line[at + 1] == '/' || line[at + 1] == '*' || line[at + 1] == 'h');
}

/* Three words, of which the last is a version. */
static bool ends_as_http(const char *line, size_t size)
{
    static const char version[] = " HTTP/";
    const size_t tail = sizeof(version) - 1 + 3; /* with the number, as 1.1 */
    return size > tail && memcmp(line + size - tail, version, sizeof(version) - 1) == 0 &&
           memchr(line, ' ', size - tail) != NULL;
}

static bool is_http(const char *line, size_t size)
{
    return (size >= 5 && strncasecmp(line, "Host:", 5) == 0) || begins_as_http(line, size) ||
           ends_as_http(line, size);
}

/* Nothing behind it is executed. */
static void refuse_http(struct conn *conn)
{
    struct server *server = conn->server;
    char peer[PEER_SIZE];
    uint64_t count = bi_log_repeats(&server->http, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "the connection from %s is closed: it sent an HTTP request, which bided does not "
               "speak (an attack through a browser, or a wrong port); %llu such connections so far",
               bi_conn_peer(conn, peer), (unsigned long long)count);
    conn->quit = true;
    bi_server_mark(conn);
}

/* ---- one command ---- */

/* One line, and its body if that is there. Answers how many bytes were taken; 0: it cannot be
 * executed yet. */
static size_t take_line(struct conn *conn, const char *data, size_t line_size, size_t size)
{
    struct command command;
    size_t taken = line_size + 2;
    enum parse parse = bi_beanstalk_parse(&command, data, line_size);
    if (parse != PARSE_OK && is_http(data, line_size)) {
        refuse_http(conn);
        return size;
    }
    if (!bi_beanstalk_may(conn, &command))
        return 0;
    bool allowed = is_allowed(conn, &command);
    if (command.counted && allowed)
        conn->server->commands[command.verb]++;
    if (!allowed)
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
            if (is_http(data, max)) {
                refuse_http(conn);
                return size;
            }
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
    if (conn->skip == 0)
        end_skip(conn);
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
    if (!make_room(conn, size))
        return skip_some(conn, data, size);
    struct incoming *incoming = conn->incoming;
    size_t taken = fill_body(incoming, data, size);
    bi_conn_count_memory(conn);
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
    return bi_conn_may_execute(conn);
}

/* In work, about: a command, and what was said to it, or to the one before. */
static uint64_t cost(const struct conn *conn, size_t *said)
{
    size_t before = *said;
    *said = bi_output_left(&conn->output);
    return 1 + (*said > before ? (*said - before) / ANSWER_WORK : 0);
}

/* Executes what can be; answers how many bytes that were. */
static size_t execute(struct conn *conn, const char *data, size_t size)
{
    struct server *server = conn->server;
    bi_server_count_work(server, 0);
    const int64_t end = server->now + bi_schedule_slice_us(conn);
    const uint64_t enough = server->work + SLICE_WORK;
    size_t at = 0;
    size_t said = bi_output_left(&conn->output);
    unsigned count = 0;
    conn->hungry = conn->deferred = false;
    if (conn->runs == &server->deferred)
        bi_server_unwake(conn); /* more was read: the next commands may not need the disk */
    while (at < size && may_go_on(conn)) {
        if (server->now > end || server->work >= enough) {
            bi_server_wake(conn);
            break;
        }
        conn->may_defer =
            count >= BULK_FIRST && size - at > INPUT_LITTLE && !bi_schedule_takes_bulk(server);
        size_t taken = stages[conn->stage](conn, data + at, size - at);
        if (conn->deferred) {
            conn->bulk = true;
            bi_server_wake(conn);
            break;
        }
        if (taken == 0) {
            conn->hungry = conn->blocked == 0 && !conn->stalled && !conn->paused;
            break;
        }
        at += taken;
        count++;
        bi_server_count_work(server, cost(conn, &said));
        if (server->batch_slow) {
            /* One by one, so that the clock goes on, and as one who sends much. */
            bi_server_flush(server);
            server->read_bytes += SLOW_READ;
            count = BULK_COMMANDS;
        }
    }
    /* Thousands that send byte by byte take much time, too. */
    bool part = conn->stage == STAGE_DISCARD || (count == 0 && conn->hungry);
    if (count >= BULK_COMMANDS || part)
        conn->bulk = true;
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
    if (taken > 0)
        conn->fed = server->now;
    keep_input(conn, data + taken, size - taken);
}

void bi_conn_run(struct conn *conn)
{
    if (conn->dead || conn->input_size == 0 || !bi_conn_may_execute(conn)) {
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

/* A read that brought nothing: the end, an error, or nothing yet. */
static void read_nothing(struct conn *conn, ssize_t got)
{
    if (got == 0)
        conn->eof = conn->half_closed = true;
    else if (errno != EAGAIN && errno != EINTR)
        conn->dead = true;
    if (!conn->eof)
        return;
    bi_conn_give_up_waiting(conn, WHY_HALF_CLOSED);
    bi_call_stop(conn);
}

static void read_body(struct conn *conn)
{
    if (!make_room(conn,
                   smaller(READ_STEP, conn->incoming->command.body_size - conn->incoming->got)))
        return;
    struct incoming *incoming = conn->incoming;
    size_t room = smaller(READ_STEP, incoming->room - incoming->got);
    ssize_t got = recv(conn->fd, incoming->data + incoming->got, room, 0);
    if (got <= 0) {
        read_nothing(conn, got);
        return;
    }
    incoming->got += (size_t)got;
    conn->fed = conn->server->now;
    conn->server->read_bytes += (size_t)got;
    bi_conn_count_memory(conn);
}

/* Behind a blocking command: the bytes are only kept. */
static void read_aside(struct conn *conn)
{
    size_t max = bi_conn_input_max(conn);
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
    conn->fed = conn->server->now;
    conn->server->read_bytes += (size_t)got;
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
    ssize_t got = recv(conn->fd, data + kept, bi_conn_input_max(conn), 0);
    if (got <= 0) {
        read_nothing(conn, got);
        return;
    }
    conn->fed = conn->server->now;
    conn->server->read_bytes += (size_t)got;
    conn->bulk = false;
    run_scratch(conn, data, kept + (size_t)got);
}

void bi_conn_read(struct conn *conn)
{
    conn->active = conn->server->now;
    if (lacks_much(conn))
        read_body(conn);
    else if (conn->input_size < READ_MAX && bi_conn_may_execute(conn))
        read_and_run(conn);
    else
        read_aside(conn);
}

void bi_conn_drop_input(struct conn *conn)
{
    if (conn->incoming != NULL) {
        bide_buf_unref(conn->incoming->buf);
        free(conn->incoming);
        conn->incoming = NULL;
    }
    free(conn->input);
    conn->input = NULL;
    conn->input_size = 0;
}
