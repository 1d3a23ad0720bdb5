/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_input - splits the input of a connection into lines and bodies, and executes commands.
 *
 * The input is a state machine (enum stage) that consumes one command, or a part of one, at a time.
 *
 * Failure    Without memory for a body, the body is skipped and the command rejected; the stream
 *            stays in step.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The server must know whether it waits for the rest of a command. */
static void set_stage(struct beanstalk_conn *conn, enum stage stage)
{
    conn->stage = stage;
    conn->base.mid_command = stage != STAGE_LINE;
    conn->base.discarding = stage == STAGE_DISCARD;
}

/* ---- bodies ---- */

static void skip(struct beanstalk_conn *conn, uint64_t bytes, const char *text)
{
    set_stage(conn, STAGE_SKIP);
    conn->skip = bytes;
    conn->skip_reply = text;
}

/*
 * Rejects a command of whose body `got` bytes are consumed. The reply, also that of a call, follows
 * the last byte of the body: a client does not read replies while it is still sending.
 */
static void reject_body(struct beanstalk_conn *conn, const struct command *command, size_t got,
                        int code, const char *text)
{
    bool is_call = command->verb == VERB_CALL;
    skip(conn, (uint64_t)command->body_size + 2 - got, is_call ? NULL : text);
    conn->skip_tag = is_call ? command->tag : 0;
    conn->skip_code = code;
}

/* Copies the command for the time when its body is complete. The line is overwritten by then, so no
 * pointer of the copy may refer to it. */
static void save_command(struct incoming *incoming, const struct command *command)
{
    incoming->command = *command;

    /* A decoded value points into the text of the command, which has just moved. */
    bide_slice *value = command->verb == VERB_PUT              ? &incoming->command.put.key
                        : command->verb == VERB_FINISH_AND_PUT ? &incoming->command.step.reason
                                                               : NULL;
    if (value != NULL && value->size > 0) {
        size_t at = (size_t)((const char *)value->data - command->text);
        value->data = incoming->command.text + at;
    }

    if (command->verb == VERB_CALL) {
        size_t size = command->name.size;
        if (size > sizeof(incoming->name))
            size = sizeof(incoming->name);
        memcpy(incoming->name, command->name.data, size);
        incoming->command.name = (bide_slice){incoming->name, size};
    }
}

/* Prepares for a body that is incomplete; `received` bytes of it are in the input. */
static void begin_partial_body(struct beanstalk_conn *conn, const struct command *command,
                               size_t received)
{
    struct incoming *incoming = malloc(sizeof(*incoming));
    if (incoming == NULL || !bi_conn_input_begin_body(&conn->base, command->body_size, received)) {
        free(incoming);
        reject_body(conn, command, 0, BIDE_EBUSY, "OUT_OF_MEMORY\r\n");
        return;
    }

    save_command(incoming, command);
    incoming->end_size = 0;
    conn->incoming = incoming;
    set_stage(conn, STAGE_BODY);
    bi_conn_update_memory(&conn->base);
}

/* Frees a partial body for lack of memory. Its remaining bytes are skipped, then the command is
 * rejected: the client must be able to send on, and its next command must not be lost. */
void bi_beanstalk_input_reject_body(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    struct incoming *incoming = conn->incoming;
    struct conn_body *body = bi_conn_input_take_body(base);
    assert(conn->stage == STAGE_BODY);

    conn->incoming = NULL;
    reject_body(conn, &incoming->command, body->received + incoming->end_size, BIDE_EBUSY,
                "OUT_OF_MEMORY\r\n");

    bi_conn_input_free_body(body);
    free(incoming);
    bi_conn_update_memory(base);
}

/* Executes the incoming command, whose body and CRLF are complete. */
static void end_body(struct beanstalk_conn *conn)
{
    struct incoming *incoming = conn->incoming;
    struct conn_body *body = bi_conn_input_take_body(&conn->base);
    assert(body->received == body->size && body->room == body->size);

    /* Uncount the body first: a call counts its body itself when it executes. */
    conn->incoming = NULL;
    set_stage(conn, STAGE_LINE);
    bi_conn_update_memory(&conn->base);

    if (memcmp(incoming->end, "\r\n", 2) != 0) {
        bi_request_reply(conn, "EXPECTED_CRLF\r\n");
    } else {
        incoming->command.body = (bide_slice){body->data, body->size};
        incoming->command.buf = body->buf;
        bi_beanstalk_verb_execute(conn, &incoming->command);
    }

    bi_conn_input_free_body(body);
    free(incoming);
}

void bi_beanstalk_input_free(struct beanstalk_conn *conn)
{
    free(conn->incoming);
    conn->incoming = NULL;
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
static size_t execute_with_body(struct beanstalk_conn *conn, struct command *command,
                                const char *data, size_t size)
{
    size_t body_size = command->body_size;

    /* beanstalkd counts a producer when it sees the put, whether or not the body arrives. */
    if (command->verb == VERB_PUT || command->verb == VERB_PUT_MANY ||
        command->verb == VERB_FINISH_AND_PUT)
        bi_beanstalk_verb_set_producer(conn);

    if (size < body_size + 2) {
        begin_partial_body(conn, command, size < body_size ? size : body_size);
        return 0;
    }

    command->body = (bide_slice){data, body_size};
    command->buf = NULL;
    if (memcmp(data + body_size, "\r\n", 2) != 0)
        bi_request_reply(conn, "EXPECTED_CRLF\r\n");
    else
        bi_beanstalk_verb_execute(conn, command);
    return body_size + 2;
}

/* Replies to a line that cannot be parsed, or whose body is too large. The body of a command with a
 * bad option is skipped; its size is known. */
static void reply_parse_error(struct beanstalk_conn *conn, const struct command *command,
                              enum parse parse, bool too_big)
{
    if (too_big)
        reject_body(conn, command, 0, BIDE_TOO_BIG, "JOB_TOO_BIG\r\n");
    else if (parse == PARSE_BAD_OPTION)
        skip(conn, (uint64_t)command->body_size + 2, "BAD_FORMAT\r\n");
    else
        bi_request_reply(conn,
                         parse == PARSE_BAD_FORMAT ? "BAD_FORMAT\r\n" : "UNKNOWN_COMMAND\r\n");
}

static void require_auth(struct beanstalk_conn *conn, const struct command *command)
{
    static const char text[] = "AUTH_REQUIRED\r\n";

    /* The body must not be executed as commands. */
    if (command->wants_body)
        skip(conn, (uint64_t)command->body_size + 2, text);
    else
        bi_request_reply(conn, text);
    bi_admission_auth_required(&conn->base);
}

/* ---- HTTP ---- */

/*
 * A web page can make a browser send an HTTP request to any local port and choose its body, whose
 * lines would be executed as commands (cross-protocol request forgery). The connection is therefore
 * closed at the first line that looks like HTTP. No command does.
 */

static bool is_http(const char *line, size_t size)
{
    static const char version[] = " HTTP/";
    const size_t tail = sizeof(version) - 1 + 3; /* with the number, such as 1.1 */
    size_t at = 0;

    if (size >= 5 && strncasecmp(line, "Host:", 5) == 0)
        return true;

    /* A method, followed by the begin of a request target. */
    while (at < size && at < 20 && line[at] >= 'A' && line[at] <= 'Z')
        at++;
    if (at >= 3 && at + 1 < size && line[at] == ' ' &&
        (line[at + 1] == '/' || line[at + 1] == '*' || line[at + 1] == 'h'))
        return true;

    /* A line of at least three words that ends with an HTTP version. */
    return size > tail && memcmp(line + size - tail, version, sizeof(version) - 1) == 0 &&
           memchr(line, ' ', size - tail) != NULL;
}

/* Closes the connection without a reply; no further input is executed. */
static void reject_http(struct beanstalk_conn *conn)
{
    struct server *server = conn->base.server;
    char peer[PEER_SIZE];

    uint64_t count = bi_log_limit_hit(&conn->beanstalk->http_log, server->now);
    if (count > 0)
        bi_log(
            &server->log, BIDE_LOG_WARN,
            "closing connection from %s: it sent an HTTP request (an attack through a browser, or "
            "a wrong port); %llu connections closed so far",
            bi_conn_format_peer(&conn->base, peer), (unsigned long long)count);

    conn->base.quit = true;
    bi_fair_queue_mark_dirty(&conn->base);
}

/* ---- one command ---- */

/* Executes one line, with its body if that is complete. Returns the number of bytes consumed; 0 if
 * the command may not execute yet. */
static size_t execute_line(struct beanstalk_conn *conn, const char *data, size_t line_size,
                           size_t size)
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

    /* Before it has authenticated, a client may do so, or quit. */
    bool allowed =
        conn->base.admission.authorised || command.verb == VERB_AUTH || command.verb == VERB_QUIT;
    if (command.counted && allowed)
        conn->beanstalk->commands[command.verb]++;

    bool too_big = command.wants_body &&
                   command.body_size > bi_beanstalk_verb_body_max(conn->base.server, command.verb);
    if (!allowed)
        require_auth(conn, &command);
    else if (parse != PARSE_OK || too_big)
        reply_parse_error(conn, &command, parse, too_big);
    else if (command.wants_body)
        consumed += execute_with_body(conn, &command, data + consumed, size - consumed);
    else
        bi_beanstalk_verb_execute(conn, &command);
    return consumed;
}

/* Only put and the extensions may have lines longer than LINE_MAX_CLASSIC, the limit of
 * beanstalkd. */
static size_t consume_line(struct beanstalk_conn *conn, const char *data, size_t size)
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
            set_stage(conn, STAGE_DISCARD);
            return max - 1; /* the last byte may be the CR of the CRLF */
        }
    }

    return end == NULL ? 0 : execute_line(conn, data, (size_t)(end - data), size);
}

/* ---- stages ---- */

static size_t consume_skipped(struct beanstalk_conn *conn, const char *data, size_t size)
{
    (void)data;

    size_t consumed = conn->skip < size ? (size_t)conn->skip : size;
    assert(conn->stage == STAGE_SKIP);
    conn->skip -= consumed;
    if (conn->skip > 0)
        return consumed;

    set_stage(conn, STAGE_LINE);
    if (conn->skip_reply != NULL)
        bi_request_reply(conn, conn->skip_reply);
    else
        bi_rpc_reply_reject(conn, conn->skip_tag, conn->skip_code, bide_code_text(conn->skip_code));
    return consumed;
}

static size_t consume_discarded(struct beanstalk_conn *conn, const char *data, size_t size)
{
    const char *end = find_crlf(data, size);

    /* A CR at the end stays in the input: its LF may arrive with the next read. */
    if (end == NULL)
        return data[size - 1] == '\r' ? size - 1 : size;

    set_stage(conn, STAGE_LINE);
    bi_request_reply(conn, "BAD_FORMAT\r\n");
    return (size_t)(end - data) + 2;
}

static size_t consume_body(struct beanstalk_conn *conn, const char *data, size_t size)
{
    struct incoming *incoming = conn->incoming;

    if (!bi_conn_input_reserve_body(&conn->base, size)) {
        bi_beanstalk_input_reject_body(&conn->base);
        return consume_skipped(conn, data, size);
    }

    /* The CRLF is stored apart: the buffer becomes the job's and holds the body only. */
    const struct conn_body *body = conn->base.body;
    size_t consumed = bi_conn_input_fill_body(&conn->base, data, size);
    while (body->received == body->size && consumed < size && incoming->end_size < 2)
        incoming->end[incoming->end_size++] = data[consumed++];
    bi_conn_update_memory(&conn->base);

    if (incoming->end_size == 2)
        end_body(conn);
    return consumed;
}

size_t bi_beanstalk_input_consume(struct conn *conn, const char *data, size_t size)
{
    static size_t (*const stages[])(struct beanstalk_conn * conn, const char *data, size_t size) = {
        [STAGE_LINE] = consume_line,
        [STAGE_BODY] = consume_body,
        [STAGE_SKIP] = consume_skipped,
        [STAGE_DISCARD] = consume_discarded,
    };
    return stages[bi_beanstalk_conn(conn)->stage](bi_beanstalk_conn(conn), data, size);
}
