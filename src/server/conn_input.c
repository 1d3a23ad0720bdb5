/* SPDX-License-Identifier: MIT */
/*
 * conn_input - the input of a connection: receives bytes and has the protocol execute them.
 *
 * The protocol consumes one command, or a part of one, at a time. The input stops at an incomplete
 * command, behind a blocking one, at a limit of the connection, and when its time slice is over.
 *
 * Ownership  Bytes are received into the scratch memory of the server. The ops of a batch borrow
 *            names and bodies from it, so it is reused only after the batch is submitted. Input
 *            that is not executed yet is copied to memory of the connection, up to READ_MAX. The
 *            bulk of a large body is received directly into the buffer of the job.
 * Failure    Without memory for a body the protocol skips it; the stream stays in step. Without
 *            memory for unexecuted input the connection is closed.
 * Cost       A command that may not execute yet is parsed again at the next attempt.
 */
#include "server/server_internal.h"
#include "util/alloc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REPLY_BYTES_PER_WORK 32                  /* reply bytes that cost as much as a command */
#define DIRECT_READ_MIN      ((size_t)16 << 10)  /* missing bytes that justify a direct read */
#define READ_STEP            ((size_t)256 << 10) /* bytes of one direct read */
#define BULK_FREE_COMMANDS   16 /* commands of a large input that are never deferred */
#define BODY_FIRST_MAX       ((size_t)1 << 20) /* first buffer of a large body */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- bodies ---- */

/* The limit of the clients' memory applies to the bytes that have arrived, not to the declared
 * size: a client that declares a large body and sends nothing takes no memory from others. */
bool bi_conn_input_begin_body(struct conn *conn, size_t size, size_t received)
{
    size_t room = min_size(size, received < BODY_FIRST_MAX / 2 ? BODY_FIRST_MAX : 2 * received);
    struct conn_body *body = NULL;
    void *data = NULL;
    assert(conn->body == NULL && received <= size);

    /* The minimum that bi_conn_update_memory() counts is included. */
    if (bi_server_has_memory(conn->server, conn, size, received + BODY_COUNTED_MIN))
        body = malloc(sizeof(*body));
    bide_buf *buf = body == NULL ? NULL : bi_buf_alloc(room, &data);
    if (buf == NULL) {
        free(body);
        return false;
    }

    *body = (struct conn_body){
        .buf = buf, .data = data, .room = room, .size = size, .started_at = conn->server->now};
    conn->body = body;
    return true;
}

bool bi_conn_input_reserve_body(struct conn *conn, size_t extra)
{
    struct conn_body *body = conn->body;
    assert(body != NULL && body->received <= body->room && body->room <= body->size);
    size_t wanted = min_size(body->size, body->received + extra);
    size_t room = body->room;

    /* The buffer grows by doubling. */
    if (wanted > room)
        room = min_size(body->size, wanted > 2 * room ? wanted : 2 * room);

    /* The limit is checked also if the buffer has room: only bytes that have arrived are counted,
     * and other connections may have used up the memory since the buffer was allocated. */
    if (!bi_server_has_memory(conn->server, conn, body->size, extra))
        return false;
    if (room == body->room)
        return true;

    void *data;
    bide_buf *buf = bi_buf_resize(body->buf, room, &data);
    if (buf == NULL)
        return false;

    body->buf = buf;
    body->data = data;
    body->room = room;
    return true;
}

size_t bi_conn_input_fill_body(struct conn *conn, const char *data, size_t size)
{
    struct conn_body *body = conn->body;
    size_t consumed = min_size(body->size - body->received, size);
    assert(body->received + consumed <= body->room);

    if (consumed > 0)
        memcpy(body->data + body->received, data, consumed);
    body->received += consumed;
    return consumed;
}

struct conn_body *bi_conn_input_take_body(struct conn *conn)
{
    struct conn_body *body = conn->body;
    assert(body != NULL);
    conn->body = NULL;
    return body;
}

void bi_conn_input_free_body(struct conn_body *body)
{
    if (body == NULL)
        return;
    bide_buf_unref(body->buf);
    free(body);
}

/* ---- execution ---- */

/* Submits a blocking command before the test: it often completes synchronously, and the commands
 * behind it then execute without being copied to the input. */
static bool flush_and_may_execute(struct conn *conn)
{
    if (conn->load.blocking > conn->load.speculative)
        bi_batch_flush(conn->server);
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
 * LIST_RUN (slice over, or deferred). Otherwise it is blocked, full, paused or throttled, and the
 * event that ends this state resumes the connection.
 */
static size_t execute(struct conn *conn, const char *data, size_t size)
{
    struct server *server = conn->server;

    bi_fair_queue_count_work(server, 0); /* reads the clock if that is due */
    const int64_t end = server->now + bi_fair_queue_slice_us(conn);
    const uint64_t enough = server->fair_queue.work + SLICE_WORK;
    size_t at = 0;
    size_t output_before = bi_output_left(&conn->output);
    unsigned count = 0;

    /* A deferred connection has received more. Try again: its next command may need no commit. */
    conn->need_input = conn->deferred = false;
    if (conn->nodes[LIST_RUN].queue == &server->fair_queue.deferred)
        bi_conn_dequeue(conn, LIST_RUN);

    while (at < size && flush_and_may_execute(conn)) {
        if (server->now > end || server->fair_queue.work >= enough) {
            bi_fair_queue_enqueue_run(conn);
            break;
        }

        /* While too many changes of bulk senders wait for a commit, the writes of a large input are
         * deferred, except for the first commands of a run. */
        conn->may_defer = count >= BULK_FREE_COMMANDS && size - at > INPUT_LIGHT &&
                          !bi_fair_queue_accepts_bulk(server);
        size_t consumed = conn->protocol->consume(conn, data + at, size - at);

        if (conn->deferred) {
            conn->bulk = true;
            bi_fair_queue_enqueue_run(conn);
            break;
        }
        if (consumed == 0) {
            /* A command that nothing holds back is incomplete. */
            conn->need_input = conn->load.blocking == 0 && !conn->blocked && !conn->paused;
            break;
        }

        assert(consumed <= size - at);
        at += consumed;
        count++;
        bi_fair_queue_count_work(server, work_of_reply(conn, &output_before));
        if (server->batch.slow) {
            /* Submit slow ops one by one: each submit reads the clock, so the slice ends in time.
             * The connection counts as a bulk sender. */
            bi_batch_flush(server);
            server->fair_queue.read_bytes += SLOW_OP_BYTES;
            count = BULK_COMMANDS;
        }
    }

    /* A read that brings no complete command is expensive as well; thousands of clients that send
     * byte by byte are scheduled as bulk senders. */
    bool part = conn->discarding || (count == 0 && conn->need_input);
    if (count >= BULK_COMMANDS || part)
        conn->bulk = true;
    return at;
}

/* ---- input ---- */

/* Returns scratch memory for `size` bytes. It is not overwritten before the batch is submitted. */
static char *scratch(struct server *server, size_t size)
{
    assert(size <= SCRATCH_SIZE);

    if (SCRATCH_SIZE - server->scratch_at < size) {
        /* Ops in the batch borrow from the scratch memory: submit them before it is reused. */
        bi_batch_flush(server);
        server->scratch_at = 0;
    }

    return server->scratch + server->scratch_at;
}

/* Executes scratch memory that holds a copy of the input and the bytes received after it. */
static void execute_scratch(struct conn *conn, char *data, size_t size)
{
    struct server *server = conn->server;
    assert(data == server->scratch + server->scratch_at);

    server->scratch_at += size;
    assert(server->scratch_at <= SCRATCH_SIZE);
    free(conn->input);
    conn->input = NULL;
    conn->input_size = 0;

    size_t consumed = execute(conn, data, size);
    if (consumed > 0)
        conn->last_received_at = server->now; /* restarts command_timeout for the next command */

    /* What is not executed yet is copied to memory of the connection. */
    size_t left = size - consumed;
    if (left == 0)
        return;
    conn->input = malloc(left);
    if (conn->input == NULL) {
        conn->dead = true;
        return;
    }
    memcpy(conn->input, data + consumed, left);
    conn->input_size = left;
}

void bi_conn_input_run(struct conn *conn)
{
    if (conn->dead || conn->input_size == 0 || !bi_conn_may_execute(conn)) {
        bi_fair_queue_mark_dirty(conn);
        return;
    }

    /* Execute a copy in scratch memory: the ops borrow from it until the batch is submitted. */
    size_t size = conn->input_size;
    char *data = scratch(conn->server, size);
    memcpy(data, conn->input, size);
    execute_scratch(conn, data, size);
    bi_fair_queue_mark_dirty(conn);
}

/* ---- reading ---- */

/* A direct read needs an empty input: bytes of the input precede those in the socket. It never
 * passes the end of the body; what follows goes through the protocol. */
static bool reads_body_directly(const struct conn *conn)
{
    const struct conn_body *body = conn->body;
    return body != NULL && conn->input_size == 0 && body->size > body->received + DIRECT_READ_MIN;
}

/* Receives bytes; 0 at the end of file, after an error, or if there are none. */
static size_t receive(struct conn *conn, void *data, size_t size)
{
    ssize_t got = recv(conn->fd, data, size, 0);
    if (got > 0) {
        conn->last_received_at = conn->server->now;
        conn->server->fair_queue.read_bytes += (size_t)got;
        return (size_t)got;
    }

    if (got < 0) {
        conn->dead = conn->dead || (errno != EAGAIN && errno != EINTR);
        return 0;
    }
    conn->eof = conn->half_closed = true;
    conn->protocol->cancel_waiting(conn, CANCEL_HALF_CLOSED);
    conn->protocol->wind_down(conn);
    return 0;
}

static void read_body(struct conn *conn)
{
    const size_t step = min_size(READ_STEP, conn->body->size - conn->body->received);
    if (!bi_conn_input_reserve_body(conn, step)) {
        conn->protocol->reject_body(conn);
        return;
    }

    struct conn_body *body = conn->body;
    size_t room = min_size(READ_STEP, body->room - body->received);
    size_t got = receive(conn, body->data + body->received, room);
    if (got == 0)
        return;
    body->received += got;
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
    size_t got = receive(conn, data, max - conn->input_size);
    if (got == 0)
        return;

    char *input = realloc(conn->input, conn->input_size + got);
    if (input == NULL) {
        conn->dead = true;
        return;
    }
    memcpy(input + conn->input_size, data, got);
    conn->input = input;
    conn->input_size += got;
    conn->need_input = false;
}

static void read_and_execute(struct conn *conn)
{
    size_t kept = conn->input_size;
    char *data = scratch(conn->server, kept + READ_MAX);

    /* Copied, not moved: if the read brings nothing, the input is still in its place. */
    if (kept > 0)
        memcpy(data, conn->input, kept);
    size_t got = receive(conn, data + kept, bi_conn_max_input(conn));
    if (got == 0)
        return;
    conn->bulk = false;
    execute_scratch(conn, data, kept + got);
}

void bi_conn_input_read(struct conn *conn)
{
    assert(!conn->closed && !conn->eof && !bi_conn_is_in(conn, LIST_READ));
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
    bi_conn_input_free_body(conn->body);
    free(conn->input);
    conn->body = NULL;
    conn->input = NULL;
    conn->input_size = 0;
}
