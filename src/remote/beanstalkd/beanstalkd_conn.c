/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_conn - a connection: commands out, replies in.
 *
 * beanstalkd replies in the order of the commands, so a queue of expected replies maps each one
 * to its exchange.
 *
 * Failure    Out of memory and protocol errors set `broken`: nothing more is written, and the I/O
 *            thread closes the connection. A command that is queued in part is never sent.
 * Threads    Only the I/O thread.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_ROOM       ((size_t)16 << 10)
#define OUT_ROOM      ((size_t)16 << 10)
#define EXPECTED_ROOM (64 * sizeof(struct expected))
#define LINE_END      256               /* bytes of a line, with its NUL */
#define DATA_MAX      ((size_t)1 << 30) /* beanstalkd's own limit of max-job-size */

/* ---- commands ---- */

/* Appends to a buffer of the connection. False, and the connection broken: out of memory. */
static bool append(struct conn *conn, struct remote_buffer *buffer, size_t first_room,
                   const void *data, size_t size)
{
    if (size == 0)
        return true;
    if (!bi_remote_socket_reserve(buffer, size, first_room)) {
        conn->broken = true;
        return false;
    }

    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

static void append_line(struct conn *conn, const void *data, size_t size)
{
    if (append(conn, &conn->out, OUT_ROOM, data, size) &&
        append(conn, &conn->out, OUT_ROOM, "\r\n", 2))
        conn->appended += size + 2;
}

/* Adds an expected reply. Out of memory: the connection is broken, and the exchange has one
 * reply less outstanding. */
static void expect(struct conn *conn, struct exchange *exchange, size_t index)
{
    /* The first reply that is due: silence counts from now on. */
    if (!bi_beanstalkd_conn_expects(conn))
        conn->active = bi_clock_boot();

    /* A broken connection writes nothing any more, so this command is never sent. */
    uint64_t end = conn->broken ? UINT64_MAX : conn->appended;
    struct expected expected = {exchange, index, end};
    if (append(conn, &conn->expected, EXPECTED_ROOM, &expected, sizeof(expected)) &&
        exchange != NULL)
        exchange->outstanding++;
}

/* The copy outlives the queue: a handler may queue commands, which moves the array. */
static struct expected take_expected(struct conn *conn)
{
    struct expected expected;

    assert(bi_beanstalkd_conn_expects(conn));
    memcpy(&expected, conn->expected.data + conn->expected.used, sizeof(expected));
    conn->expected.used += sizeof(expected);
    return expected;
}

void bi_beanstalkd_conn_vcommand(struct conn *conn, struct exchange *exchange, size_t index,
                                 const char *format, va_list args)
{
    char line[LINE_END];
    int size = vsnprintf(line, sizeof(line), format, args);

    assert(size > 0 && size < LINE_END);
    append_line(conn, line, (size_t)size);
    expect(conn, exchange, index);
}

void bi_beanstalkd_conn_command(struct conn *conn, struct exchange *exchange, size_t index,
                                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bi_beanstalkd_conn_vcommand(conn, exchange, index, format, args);
    va_end(args);
}

void bi_beanstalkd_conn_append_body(struct conn *conn, bide_slice body)
{
    append_line(conn, body.data, body.size);
    /* The command ends with its body: if only the line was written, it was not executed. Broken:
     * the last expected reply may be that of an earlier command. */
    if (!conn->broken && bi_beanstalkd_conn_expects(conn)) {
        struct expected *last = (void *)(conn->expected.data + conn->expected.size - sizeof(*last));
        last->end = conn->appended;
    }
}

void bi_beanstalkd_conn_use(struct conn *conn, bide_slice topic)
{
    if (strlen(conn->used) == topic.size && memcmp(conn->used, topic.data, topic.size) == 0)
        return;

    /* Assume that `use` succeeds: the name was checked, and beanstalkd accepts every valid one. */
    memcpy(conn->used, topic.data, topic.size);
    conn->used[topic.size] = 0;
    bi_beanstalkd_conn_command(conn, NULL, 0, "use %s", conn->used);
}

/* ---- watch list ---- */

static bool contains(const bide_slice *names, size_t count, bide_slice name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].size == name.size && memcmp(names[i].data, name.data, name.size) == 0)
            return true;
    return false;
}

/* Replaces the watch list by the topics without duplicates. False: out of memory, unchanged. */
static bool set_watched(struct conn *conn, const bide_slice *topics, size_t count)
{
    size_t size = count * sizeof(*topics);

    for (size_t i = 0; i < count; i++)
        size += topics[i].size;

    bide_slice *watched = malloc(size);
    if (watched == NULL)
        return false;

    char *to = (char *)(watched + count);
    conn->watched_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (contains(watched, conn->watched_count, topics[i]))
            continue;
        memcpy(to, topics[i].data, topics[i].size);
        watched[conn->watched_count++] = (bide_slice){to, topics[i].size};
        to += topics[i].size;
    }

    free(conn->watched);
    conn->watched = watched;
    return true;
}

/* Watches before it ignores: beanstalkd rejects ignoring the last tube. */
void bi_beanstalkd_conn_watch(struct conn *conn, const bide_slice *topics, size_t count)
{
    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        if (!contains(conn->watched, conn->watched_count, topics[i]))
            bi_beanstalkd_conn_command(conn, NULL, 0, "watch %.*s", (int)topics[i].size,
                                       (const char *)topics[i].data);

    for (size_t i = 0; i < conn->watched_count; i++)
        if (!contains(topics, count, conn->watched[i]))
            bi_beanstalkd_conn_command(conn, NULL, 0, "ignore %.*s", (int)conn->watched[i].size,
                                       (const char *)conn->watched[i].data);

    if (!set_watched(conn, topics, count))
        conn->broken = true;
}

/* ---- new and free ---- */

struct conn *bi_beanstalkd_conn_new(int fd)
{
    static const bide_slice tube = {"default", 7}; /* used and watched by every new connection */
    struct conn *conn = calloc(1, sizeof(*conn));

    assert(fd >= 0);
    if (conn == NULL || !set_watched(conn, &tube, 1)) {
        free(conn);
        return NULL;
    }
    memcpy(conn->used, tube.data, tube.size);
    conn->fd = fd;
    conn->active = bi_clock_boot();
    return conn;
}

void bi_beanstalkd_conn_free(struct conn *conn)
{
    assert(conn->leases == 0);
    bi_remote_socket_close(conn->fd);
    free(conn->watched);
    free(conn->in.data);
    free(conn->out.data);
    free(conn->expected.data);
    free(conn);
}

/* ---- writing ---- */

void bi_beanstalkd_conn_write(struct conn *conn)
{
    conn->want_write = false;
    while (!conn->broken && conn->out.used < conn->out.size) {
        ssize_t size = send(conn->fd, conn->out.data + conn->out.used,
                            conn->out.size - conn->out.used, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size > 0) {
            conn->out.used += (size_t)size;
            conn->written += (uint64_t)size;
            conn->active = bi_clock_boot(); /* the server reads, so it is alive */
            continue;
        }

        if (errno == EINTR)
            continue;
        conn->want_write = errno == EAGAIN;
        conn->broken = errno != EAGAIN;
        return;
    }
}

/* ---- reading ---- */

/* Splits a line into a word and up to two numbers. */
static void parse_line(char *line, struct reply *reply)
{
    char *at = strchr(line, ' ');

    *reply = (struct reply){.word = line};
    for (size_t i = 0; i < 2 && at != NULL; i++) {
        *at++ = 0;
        reply->numbers[i] = strtoull(at, &at, 10);
        at = *at == ' ' ? at : NULL;
    }
}

/* Parses the first reply of the buffer. Returns 1 if it is complete, 0 if not, -1 if it is
 * malformed. *total_size is 0 while it is unknown. */
static int next_reply(const struct conn *conn, char *line, struct reply *reply, size_t *total_size)
{
    size_t size;
    int found = bi_remote_socket_line(&conn->in, line, LINE_END, &size);

    *total_size = 0;
    if (found <= 0)
        return found;

    parse_line(line, reply);
    *total_size = size + 2;
    bool is_ok = bi_reply_is(reply, "OK");
    if (!is_ok && !bi_reply_is(reply, "FOUND") && !bi_reply_is(reply, "RESERVED"))
        return 1;

    /* "OK <bytes>", but "FOUND <id> <bytes>" and "RESERVED <id> <bytes>". */
    uint64_t bytes = reply->numbers[is_ok ? 0 : 1];
    if (bytes > DATA_MAX ||
        !bi_remote_socket_data(&conn->in, size + 2, (size_t)bytes, &reply->data))
        return -1;
    reply->size = (size_t)bytes;
    *total_size += reply->size + 2;
    return reply->data != NULL;
}

/* The buffer is full and cannot grow: skips the reply that it begins with. A job that it carries is
 * reserved without a lease. */
static void skip_reply(struct conn *conn)
{
    char line[LINE_END];
    struct reply reply;
    size_t total_size;

    if (next_reply(conn, line, &reply, &total_size) != 0 || total_size == 0 ||
        !bi_beanstalkd_conn_expects(conn)) {
        conn->broken = conn->eof = true;
        return;
    }

    conn->strays |= bi_reply_is(&reply, "RESERVED");
    bi_remote_socket_skip(&conn->in, total_size);
    struct expected expected = take_expected(conn);
    bi_beanstalkd_exchange_handle_reply(&expected, &(struct reply){.word = REPLY_NO_MEMORY}, true);
}

void bi_beanstalkd_conn_read(struct conn *conn)
{
    char line[LINE_END], reason[BIDE_ERROR_SIZE];
    struct reply reply;
    size_t total_size;

    ssize_t size = bi_remote_socket_read(conn->fd, &conn->in, IN_ROOM, reason);
    if (size == REMOTE_NO_MEMORY) {
        skip_reply(conn);
        return;
    }
    if (size < 0)
        conn->broken = conn->eof = true;
    if (size > 0)
        conn->active = bi_clock_boot();

    for (int code = 1; code > 0;) {
        code = next_reply(conn, line, &reply, &total_size);
        /* A reply without a command is as bad as a malformed one: the framing is lost. */
        if (code < 0 || (code > 0 && !bi_beanstalkd_conn_expects(conn))) {
            conn->broken = conn->eof = true;
            return;
        }

        if (code == 0)
            return;

        conn->in.used += total_size;
        struct expected expected = take_expected(conn);
        bi_beanstalkd_exchange_handle_reply(&expected, &reply, true);
    }
}

void bi_beanstalkd_conn_read_pending(struct conn *conn)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    while (!conn->eof && poll(&polled, 1, 0) > 0)
        bi_beanstalkd_conn_read(conn);
}

void bi_beanstalkd_conn_fail_expected(struct conn *conn)
{
    while (bi_beanstalkd_conn_expects(conn)) {
        /* A command counts as sent when its last byte was written: only then can it be executed. */
        struct expected expected = take_expected(conn);
        bi_beanstalkd_exchange_handle_reply(&expected, NULL, expected.end <= conn->written);
    }
}
