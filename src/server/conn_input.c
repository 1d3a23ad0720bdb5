/* SPDX-License-Identifier: MIT */
/*
 * conn_input - the input of a connection: splits bytes into lines and bodies, and executes
 * commands.
 *
 * The input is a state machine (enum stage) that consumes one command, or a part of one, at a time.
 * It stops at an incomplete command, behind a blocking request, at a limit of the connection, and
 * when the time slice of the connection is over.
 *
 * Ownership  Bytes are received into the scratch memory of the server. The ops of a batch borrow
 *            names and bodies from it, so it is reused only after the batch is submitted. Input
 *            that is not executed yet is copied to memory of the connection, up to READ_MAX. The
 *            bulk of a large body is received directly into the buffer of the job.
 * Failure    Without memory for a body, the body is skipped and the command rejected; the stream
 *            stays in step. Without memory for unexecuted input the connection is closed.
 * Cost       A command that may not execute yet is parsed again at the next attempt.
 */
#include "server/server_internal.h"
#include "util/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define REPLY_BYTES_PER_WORK 32                  /* reply bytes that cost as much as a command */
#define DIRECT_READ_MIN      ((size_t)16 << 10)  /* missing bytes that justify a direct read */
#define READ_STEP            ((size_t)256 << 10) /* bytes of one direct read */
#define BULK_FREE_COMMANDS   16 /* commands of a large input that are never deferred */
#define BODY_COUNTED_MIN     ((size_t)4 << 10) /* least memory counted for a partial body */
#define BODY_FIRST_MAX       ((size_t)1 << 20) /* first buffer of a large body */

/* ---- bodies ---- */

static void skip(struct conn *conn, uint64_t bytes, const char *text)
{
    conn->stage = STAGE_SKIP;
    conn->skip = bytes;
    conn->skip_reply = text;
}

/*
 * Rejects a command of whose body `got` bytes are consumed. The reply, also that of a call, follows
 * the last byte of the body: a client does not read replies while it is still sending.
 */
static void reject_body(struct conn *conn, const struct command *command, size_t got, int code,
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
    if (conn->skip_reply != NULL)
        bi_conn_reply(conn, conn->skip_reply);
    else
        bi_rpc_reject(conn, conn->skip_tag, conn->skip_code, bide_code_text(conn->skip_code));
}

/* Copies the command for the time when its body is complete. The line is overwritten by then, so no
 * pointer of the copy may refer to it. */
static void save_command(struct incoming *incoming, const struct command *command)
{
    incoming->command = *command;

    /* The key points into the text of the command, which has just moved. */
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

static void reject_for_memory(struct conn *conn, const struct command *command, size_t got)
{
    reject_body(conn, command, got, BIDE_EBUSY, "OUT_OF_MEMORY\r\n");
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Prepares for a body that is incomplete; `received` bytes of it are in the input. The limit of the
 * clients' memory applies to the bytes that have arrived, not to the declared size: a client that
 * declares a large body and sends nothing takes no memory from others.
 */
static void begin_partial_body(struct conn *conn, const struct command *command, size_t received)
{
    size_t room =
        min_size(command->body_size, received < BODY_FIRST_MAX / 2 ? BODY_FIRST_MAX : 2 * received);
    struct incoming *incoming = NULL;
    void *data = NULL;

    /* The minimum that bi_conn_input_body_memory() counts is included. */
    if (bi_server_has_memory(conn->server, conn, command->body_size, received + BODY_COUNTED_MIN))
        incoming = malloc(sizeof(*incoming));
    bide_buf *buf = incoming == NULL ? NULL : bi_buf_alloc(room, &data);
    if (buf == NULL) {
        free(incoming);
        reject_for_memory(conn, command, 0);
        return;
    }

    save_command(incoming, command);
    incoming->buf = buf;
    incoming->data = data;
    incoming->room = room;
    incoming->got = 0;
    incoming->body_started_at = conn->server->now;

    conn->incoming = incoming;
    conn->stage = STAGE_BODY;
    bi_conn_update_memory(conn);
}

size_t bi_conn_input_body_memory(const struct conn *conn)
{
    size_t got = conn->incoming->got;
    return got < BODY_COUNTED_MIN ? BODY_COUNTED_MIN : got;
}

/* Frees a partial body for lack of memory. Its remaining bytes are skipped, then the command is
 * rejected. */
static void discard_body(struct conn *conn)
{
    struct incoming *incoming = conn->incoming;

    conn->incoming = NULL;
    reject_for_memory(conn, &incoming->command, incoming->got);

    bide_buf_unref(incoming->buf);
    free(incoming);
    bi_conn_update_memory(conn);
}

/* Reserves room for `extra` more bytes of the body, at most up to its end. The buffer grows by
 * doubling. Returns false if there is no memory; the body is then discarded and the stage is
 * STAGE_SKIP. */
static bool reserve_body(struct conn *conn, size_t extra)
{
    struct incoming *incoming = conn->incoming;
    size_t body_size = incoming->command.body_size;
    size_t wanted = min_size(body_size, incoming->got + extra);
    size_t room = incoming->room;
    if (wanted > room)
        room = min_size(body_size, wanted > 2 * room ? wanted : 2 * room);

    /* The limit is checked also if the buffer has room: only bytes that have arrived are counted,
     * and other connections may have used up the memory since the buffer was allocated. */
    void *data = incoming->data;
    bide_buf *buf = incoming->buf;
    if (!bi_server_has_memory(conn->server, conn, body_size, extra))
        buf = NULL;
    else if (room > incoming->room)
        buf = bi_buf_resize(buf, room, &data);
    if (buf == NULL) {
        discard_body(conn);
        return false;
    }

    incoming->buf = buf;
    incoming->data = data;
    incoming->room = room;
    return true;
}

/* Copies bytes of the body and of its CRLF. Returns the number of bytes consumed. */
static size_t fill_body(struct incoming *incoming, const char *data, size_t size)
{
    size_t body_size = incoming->command.body_size;
    size_t consumed = 0;

    if (incoming->got < body_size) {
        consumed = min_size(body_size - incoming->got, size);
        assert(incoming->got + consumed <= incoming->room);
        memcpy(incoming->data + incoming->got, data, consumed);
        incoming->got += consumed;
    }

    /* The CRLF is stored apart: the buffer becomes the job's and holds the body only. */
    while (consumed < size && incoming->got >= body_size && incoming->got < body_size + 2) {
        incoming->end[incoming->got - body_size] = data[consumed++];
        incoming->got++;
    }
    return consumed;
}

/* Executes the incoming command, whose body and CRLF are complete. */
static void end_body(struct conn *conn)
{
    struct incoming *incoming = conn->incoming;
    assert(incoming->room == incoming->command.body_size);

    /* Uncount the body first: a call counts its body itself when it executes. */
    conn->incoming = NULL;
    conn->stage = STAGE_LINE;
    bi_conn_update_memory(conn);

    if (memcmp(incoming->end, "\r\n", 2) != 0) {
        bi_conn_reply(conn, "EXPECTED_CRLF\r\n");
    } else {
        incoming->command.body = (bide_slice){incoming->data, incoming->command.body_size};
        incoming->command.buf = incoming->buf;
        bi_beanstalk_verb_execute(conn, &incoming->command);
    }

    bide_buf_unref(incoming->buf);
    free(incoming);
}

/* ---- lines ---- */

/* Returns the position of the first CRLF, or NULL. */
static void *find_crlf(const char *data, size_t size)
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

/* Executes a command whose body is complete, or begins to collect the body. Returns the number of
 * bytes of the body that are consumed; a partial body is left to STAGE_BODY. */
static size_t execute_with_body(struct conn *conn, struct command *command, const char *data,
                                size_t size)
{
    size_t body_size = command->body_size;

    if (size < body_size + 2) {
        begin_partial_body(conn, command, min_size(size, body_size));
        return 0;
    }

    command->body = (bide_slice){data, body_size};
    command->buf = NULL;
    if (memcmp(data + body_size, "\r\n", 2) != 0)
        bi_conn_reply(conn, "EXPECTED_CRLF\r\n");
    else
        bi_beanstalk_verb_execute(conn, command);
    return body_size + 2;
}

static size_t begin_body(struct conn *conn, struct command *command, const char *data, size_t size)
{
    /* beanstalkd counts a producer when it sees the put, whether or not the body arrives. */
    if (command->verb == VERB_PUT || command->verb == VERB_PUT_MANY)
        bi_beanstalk_verb_set_producer(conn);
    return execute_with_body(conn, command, data, size);
}

/* Replies to a line that cannot be parsed, or whose body is too large. The body of a command with a
 * bad option is skipped; its size is known. */
static void reply_parse_error(struct conn *conn, const struct command *command, enum parse parse)
{
    bool too_big = command->wants_body &&
                   command->body_size > bi_beanstalk_verb_body_max(conn->server, command->verb);

    if (too_big)
        reject_body(conn, command, 0, BIDE_TOO_BIG, "JOB_TOO_BIG\r\n");
    else if (parse == PARSE_BAD_OPTION)
        skip(conn, (uint64_t)command->body_size + 2, "BAD_FORMAT\r\n");
    else if (parse == PARSE_BAD_FORMAT)
        bi_conn_reply(conn, "BAD_FORMAT\r\n");
    else
        bi_conn_reply(conn, "UNKNOWN_COMMAND\r\n");
}

/* Commands that a client may send before it has authenticated. */
static bool is_allowed(const struct conn *conn, const struct command *command)
{
    return conn->authorised || command->verb == VERB_AUTH || command->verb == VERB_QUIT;
}

static void require_auth(struct conn *conn, const struct command *command)
{
    static const char text[] = "AUTH_REQUIRED\r\n";

    /* The body must not be executed as commands. */
    if (command->wants_body)
        skip(conn, (uint64_t)command->body_size + 2, text);
    else
        bi_conn_reply(conn, text);
    bi_admission_auth_required(conn);
}

/* ---- HTTP ---- */

/*
 * A web page can make a browser send an HTTP request to any local port and choose its body, whose
 * lines would be executed as commands (cross-protocol request forgery). The connection is therefore
 * closed at the first line that looks like HTTP. No command does.
 */

/* A method, followed by the begin of a request target. */
static bool begins_as_http(const char *line, size_t size)
{
    size_t at = 0;

    while (at < size && at < 20 && line[at] >= 'A' && line[at] <= 'Z')
        at++;
    return at >= 3 && at + 1 < size && line[at] == ' ' &&
           (line[at + 1] == '/' || line[at + 1] == '*' || line[at + 1] == 'h');
}

/* A line of at least three words that ends with an HTTP version. */
static bool ends_as_http(const char *line, size_t size)
{
    static const char version[] = " HTTP/";
    const size_t tail = sizeof(version) - 1 + 3; /* with the number, such as 1.1 */

    return size > tail && memcmp(line + size - tail, version, sizeof(version) - 1) == 0 &&
           memchr(line, ' ', size - tail) != NULL;
}

static bool is_http(const char *line, size_t size)
{
    return (size >= 5 && strncasecmp(line, "Host:", 5) == 0) || begins_as_http(line, size) ||
           ends_as_http(line, size);
}

/* Closes the connection without a reply; no further input is executed. */
static void reject_http(struct conn *conn)
{
    struct server *server = conn->server;
    char peer[PEER_SIZE];

    uint64_t count = bi_log_limit_hit(&server->http_log, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "the connection from %s is closed: it sent an HTTP request, which bided does not "
               "speak (an attack through a browser, or a wrong port); %llu such connections so far",
               bi_conn_format_peer(conn, peer), (unsigned long long)count);

    conn->quit = true;
    bi_schedule_mark_dirty(conn);
}

/* ---- one command ---- */

/* Executes one line, with its body if that is complete. Returns the number of bytes consumed; 0 if
 * the command may not execute yet. */
static size_t execute_line(struct conn *conn, const char *data, size_t line_size, size_t size)
{
    struct command command;
    size_t consumed = line_size + 2;
    enum parse parse = bi_beanstalk_parse(&command, data, line_size);

    if (parse != PARSE_OK && is_http(data, line_size)) {
        reject_http(conn);
        return size;
    }

    /* A malformed line waits as its verb does: only the verb of the command is known to be set. */
    if (!bi_beanstalk_verb_may_execute(conn, &command, parse == PARSE_OK))
        return 0;

    bool allowed = is_allowed(conn, &command);
    if (command.counted && allowed)
        conn->server->commands[command.verb]++;

    if (!allowed)
        require_auth(conn, &command);
    else if (parse != PARSE_OK ||
             (command.wants_body &&
              command.body_size > bi_beanstalk_verb_body_max(conn->server, command.verb)))
        reply_parse_error(conn, &command, parse);
    else if (command.wants_body)
        consumed += begin_body(conn, &command, data + consumed, size - consumed);
    else
        bi_beanstalk_verb_execute(conn, &command);
    return consumed;
}

/* Only put and the extensions may have lines longer than LINE_MAX_CLASSIC, the limit of
 * beanstalkd. */
static size_t consume_line(struct conn *conn, const char *data, size_t size)
{
    size_t limit = size < LINE_MAX_EXTENDED ? size : LINE_MAX_EXTENDED;
    const char *end = find_crlf(data, limit < LINE_MAX_CLASSIC ? limit : LINE_MAX_CLASSIC);

    if (end == NULL && limit >= LINE_MAX_CLASSIC) {
        size_t max = bi_beanstalk_parse_line_max(data, LINE_MAX_CLASSIC);
        end = max == LINE_MAX_CLASSIC ? NULL : find_crlf(data, limit);
        if (end == NULL && size >= max) {
            if (is_http(data, max)) {
                reject_http(conn);
                return size;
            }
            conn->stage = STAGE_DISCARD;
            return max - 1; /* the last byte may be the CR of the CRLF */
        }
    }

    return end == NULL ? 0 : execute_line(conn, data, (size_t)(end - data), size);
}

/* ---- stages ---- */

static size_t consume_skipped(struct conn *conn, const char *data, size_t size)
{
    (void)data;

    size_t consumed = conn->skip < size ? (size_t)conn->skip : size;
    conn->skip -= consumed;
    if (conn->skip == 0)
        end_skip(conn);
    return consumed;
}

static size_t consume_discarded(struct conn *conn, const char *data, size_t size)
{
    const char *end = find_crlf(data, size);

    /* A CR at the end stays in the input: its LF may arrive with the next read. */
    if (end == NULL)
        return data[size - 1] == '\r' ? size - 1 : size;

    conn->stage = STAGE_LINE;
    bi_conn_reply(conn, "BAD_FORMAT\r\n");
    return (size_t)(end - data) + 2;
}

static size_t consume_body(struct conn *conn, const char *data, size_t size)
{
    if (!reserve_body(conn, size))
        return consume_skipped(conn, data, size);

    struct incoming *incoming = conn->incoming;
    size_t consumed = fill_body(incoming, data, size);
    bi_conn_update_memory(conn);

    if (incoming->got == (size_t)incoming->command.body_size + 2)
        end_body(conn);
    return consumed;
}

static size_t (*const stages[])(struct conn *conn, const char *data, size_t size) = {
    [STAGE_LINE] = consume_line,
    [STAGE_BODY] = consume_body,
    [STAGE_SKIP] = consume_skipped,
    [STAGE_DISCARD] = consume_discarded,
};

/* Submits a blocking command before the test: it often completes synchronously, and the commands
 * behind it then execute without being copied to the input. */
static bool flush_and_may_execute(struct conn *conn)
{
    if (conn->blocking_count > conn->speculative)
        bi_server_flush(conn->server);
    return bi_conn_may_execute(conn);
}

/* Estimates the work of a command, and of the replies since the previous one. */
static uint64_t work_of_reply(const struct conn *conn, size_t *output_before)
{
    size_t before = *output_before;
    *output_before = bi_output_left(&conn->output);
    return 1 + (*output_before > before ? (*output_before - before) / REPLY_BYTES_PER_WORK : 0);
}

/*
 * Executes commands until the input is consumed, a command is incomplete or must wait, or the slice
 * of the connection is over. Returns the number of bytes consumed.
 *
 * The caller learns from the connection why the loop has ended: need_input (incomplete command),
 * run_queue (slice over, or deferred). Otherwise it is blocked, full, paused or throttled, and the
 * event that ends this state resumes the connection.
 */
static size_t execute(struct conn *conn, const char *data, size_t size)
{
    struct server *server = conn->server;

    bi_schedule_count_work(server, 0); /* reads the clock if that is due */
    const int64_t end = server->now + bi_schedule_slice_us(conn);
    const uint64_t enough = server->work + SLICE_WORK;
    size_t at = 0;
    size_t output_before = bi_output_left(&conn->output);
    unsigned count = 0;

    /* A deferred connection has received more. Try again: its next command may need no commit. */
    conn->need_input = conn->deferred = false;
    if (conn->run_queue == &server->deferred)
        bi_schedule_dequeue_run(conn);

    while (at < size && flush_and_may_execute(conn)) {
        if (server->now > end || server->work >= enough) {
            bi_schedule_enqueue_run(conn);
            break;
        }

        /* While too many changes of bulk senders wait for a commit, the writes of a large input are
         * deferred, except for the first commands of a run. */
        conn->may_defer = count >= BULK_FREE_COMMANDS && size - at > INPUT_LIGHT &&
                          !bi_schedule_accepts_bulk(server);
        size_t consumed = stages[conn->stage](conn, data + at, size - at);

        if (conn->deferred) {
            conn->bulk = true;
            bi_schedule_enqueue_run(conn);
            break;
        }
        if (consumed == 0) {
            /* A command that nothing holds back is incomplete. */
            conn->need_input = conn->blocking_count == 0 && !conn->stalled && !conn->paused;
            break;
        }

        at += consumed;
        count++;
        bi_schedule_count_work(server, work_of_reply(conn, &output_before));
        if (server->batch_slow) {
            /* Submit slow ops one by one: each submit reads the clock, so the slice ends in time.
             * The connection counts as a bulk sender. */
            bi_server_flush(server);
            server->read_bytes += SLOW_OP_BYTES;
            count = BULK_COMMANDS;
        }
    }

    /* A read that brings no complete command is expensive as well; thousands of clients that send
     * byte by byte are scheduled as bulk senders. */
    bool part = conn->stage == STAGE_DISCARD || (count == 0 && conn->need_input);
    if (count >= BULK_COMMANDS || part)
        conn->bulk = true;
    return at;
}

/* ---- input ---- */

/* Copies the input that is not executed yet to memory of the connection. */
static void save_input(struct conn *conn, const char *data, size_t size)
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

/* Returns scratch memory for `size` bytes. It is not overwritten before the batch is submitted. */
static char *scratch(struct server *server, size_t size)
{
    assert(size <= SCRATCH_SIZE);

    if (SCRATCH_SIZE - server->scratch_at < size) {
        /* Ops in the batch borrow from the scratch memory: submit them before it is reused. */
        bi_server_flush(server);
        server->scratch_at = 0;
    }

    return server->scratch + server->scratch_at;
}

/* Executes scratch memory that holds a copy of the input and the bytes received after it. */
static void execute_scratch(struct conn *conn, char *data, size_t size)
{
    struct server *server = conn->server;

    server->scratch_at += size;
    free(conn->input);
    conn->input = NULL;
    conn->input_size = 0;

    size_t consumed = execute(conn, data, size);
    if (consumed > 0)
        conn->last_received_at = server->now; /* restarts command_timeout for the next command */
    save_input(conn, data + consumed, size - consumed);
}

void bi_conn_input_run(struct conn *conn)
{
    if (conn->dead || conn->input_size == 0 || !bi_conn_may_execute(conn)) {
        bi_schedule_mark_dirty(conn);
        return;
    }

    /* Execute a copy in scratch memory: the ops borrow from it until the batch is submitted. */
    size_t size = conn->input_size;
    char *data = scratch(conn->server, size);
    memcpy(data, conn->input, size);
    execute_scratch(conn, data, size);
    bi_schedule_mark_dirty(conn);
}

/* ---- reading ---- */

/* A direct read needs an empty input: bytes of the input precede those in the socket. It never
 * passes the end of the body; the CRLF goes through fill_body(). */
static bool reads_body_directly(const struct conn *conn)
{
    return conn->stage == STAGE_BODY && conn->input_size == 0 &&
           conn->incoming->command.body_size > conn->incoming->got + DIRECT_READ_MIN;
}

/* Handles a recv() without data: end of file, an error, or a spurious wakeup. */
static void on_empty_read(struct conn *conn, ssize_t got)
{
    if (got == 0)
        conn->eof = conn->half_closed = true;
    else if (errno != EAGAIN && errno != EINTR)
        conn->dead = true;
    if (!conn->eof)
        return;

    /* As in beanstalkd, a waiting reserve ends when the client shuts down its side. */
    bi_conn_cancel_waiting(conn, CANCEL_HALF_CLOSED);
    bi_rpc_cancel_waiting(conn);
}

static void read_body(struct conn *conn)
{
    if (!reserve_body(conn,
                      min_size(READ_STEP, conn->incoming->command.body_size - conn->incoming->got)))
        return;

    struct incoming *incoming = conn->incoming;
    size_t room = min_size(READ_STEP, incoming->room - incoming->got);
    ssize_t got = recv(conn->fd, incoming->data + incoming->got, room, 0);
    if (got <= 0) {
        on_empty_read(conn, got);
        return;
    }

    incoming->got += (size_t)got;
    conn->last_received_at = conn->server->now;
    conn->server->read_bytes += (size_t)got;
    bi_conn_update_memory(conn);
}

/* Receives input behind a blocking command without executing it. Reading on detects the end of the
 * stream, and a pipelining client does not block in its send. */
static void read_without_executing(struct conn *conn)
{
    size_t max = bi_conn_max_input(conn);
    if (conn->input_size >= max)
        return;

    /* A temporary buffer: scratch_at is not advanced. */
    char *data = scratch(conn->server, READ_MAX);
    ssize_t got = recv(conn->fd, data, max - conn->input_size, 0);
    if (got <= 0) {
        on_empty_read(conn, got);
        return;
    }

    char *input = realloc(conn->input, conn->input_size + (size_t)got);
    if (input == NULL) {
        conn->dead = true;
        return;
    }
    memcpy(input + conn->input_size, data, (size_t)got);

    conn->last_received_at = conn->server->now;
    conn->server->read_bytes += (size_t)got;
    conn->input = input;
    conn->input_size += (size_t)got;
    conn->need_input = false;
}

static void read_and_execute(struct conn *conn)
{
    size_t kept = conn->input_size;
    char *data = scratch(conn->server, kept + READ_MAX);

    /* Copied, not moved: if the read brings nothing, the input is still in its place. */
    if (kept > 0)
        memcpy(data, conn->input, kept);
    ssize_t got = recv(conn->fd, data + kept, bi_conn_max_input(conn), 0);
    if (got <= 0) {
        on_empty_read(conn, got);
        return;
    }

    conn->last_received_at = conn->server->now;
    conn->server->read_bytes += (size_t)got;
    conn->bulk = false;
    execute_scratch(conn, data, kept + (size_t)got);
}

void bi_conn_input_read(struct conn *conn)
{
    conn->last_active_at = conn->server->now;

    /* The bound of the input keeps the copy plus one read within the scratch memory. */
    if (reads_body_directly(conn))
        read_body(conn);
    else if (conn->input_size < READ_MAX && bi_conn_may_execute(conn))
        read_and_execute(conn);
    else
        read_without_executing(conn);
}

void bi_conn_input_free(struct conn *conn)
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
