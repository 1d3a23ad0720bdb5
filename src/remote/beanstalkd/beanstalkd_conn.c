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

#define IN_ROOM  ((size_t)16 << 10)
#define KEEP_MAX ((size_t)1 << 20) /* a larger buffer is freed when it is empty */
#define LINE_END 256               /* bytes of a line, with its NUL */
#define DATA_MAX ((size_t)1 << 30) /* beanstalkd's own limit of max-job-size */

struct conn *bi_beanstalkd_conn_new(int fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    static const char tube[] = "default"; /* used and watched by every new connection */
    conn->fd = fd;
    conn->active = bi_clock_boot();
    memcpy(conn->used, tube, sizeof(tube));
    conn->watched = strdup(tube);
    conn->watched_size = sizeof(tube);
    conn->watched_count = 1;
    if (conn->watched != NULL)
        return conn;
    free(conn);
    return NULL;
}

void bi_beanstalkd_conn_free(struct conn *conn)
{
    bi_remote_socket_close(conn->fd);
    free(conn->watched);
    free(conn->in.data);
    free(conn->out);
    free(conn->expected);
    free(conn);
}

/* ---- commands ---- */

/* Makes room for more bytes. False, and the connection broken: out of memory. */
static bool make_room(struct conn *conn, size_t more)
{
    if (conn->out_used > 0 && conn->out_used == conn->out_size)
        conn->out_used = conn->out_size = 0;

    if (conn->out_size == 0 && conn->out_room > KEEP_MAX) {
        free(conn->out);
        conn->out = NULL;
        conn->out_room = 0;
    }

    if (conn->out_room - conn->out_size >= more)
        return true;

    /* Move the rest to the front only if at least half is free: each byte is then moved O(1)
     * times. */
    if (conn->out_used >= more && conn->out_used >= conn->out_size / 2) {
        assert(conn->out != NULL); /* more > 0: its room is not less than its size */
        conn->out_size -= conn->out_used;
        memmove(conn->out, conn->out + conn->out_used, conn->out_size);
        conn->out_used = 0;
        return true;
    }

    size_t room = conn->out_room + more + IN_ROOM;
    unsigned char *out = realloc(conn->out, room);
    if (out == NULL) {
        conn->broken = true;
        return false;
    }

    conn->out = out;
    conn->out_room = room;
    return true;
}

static void append(struct conn *conn, const void *data, size_t size)
{
    if (!make_room(conn, size))
        return;

    if (size > 0)
        memcpy(conn->out + conn->out_size, data, size);
    conn->out_size += size;
    conn->appended += size;
}

static struct expected *last_expected(const struct conn *conn)
{
    return &conn->expected[conn->expected_size - 1];
}

/* Adds an expected reply. Out of memory: the connection is broken, and the exchange has one
 * reply less outstanding. */
static void expect(struct conn *conn, struct exchange *exchange, size_t index)
{
    /* The first reply that is due: silence counts from now on. */
    if (conn->expected_head == conn->expected_size) {
        conn->expected_head = conn->expected_size = 0;
        conn->active = bi_clock_boot();
    }

    if (conn->expected_size == conn->expected_room &&
        conn->expected_head > conn->expected_size / 2) {
        conn->expected_size -= conn->expected_head;
        memmove(conn->expected, conn->expected + conn->expected_head,
                conn->expected_size * sizeof(*conn->expected));
        conn->expected_head = 0;
    }

    if (conn->expected_size == conn->expected_room) {
        size_t room = conn->expected_room == 0 ? 64 : conn->expected_room * 2;
        struct expected *bigger = realloc(conn->expected, room * sizeof(*bigger));
        if (bigger == NULL) {
            conn->broken = true;
            return;
        }
        conn->expected = bigger;
        conn->expected_room = room;
    }

    /* A broken connection writes nothing any more, so this command is never sent. */
    uint64_t end = conn->broken ? UINT64_MAX : conn->appended;
    conn->expected[conn->expected_size++] = (struct expected){exchange, index, end};
    if (exchange != NULL)
        exchange->outstanding++;
}

void bi_beanstalkd_conn_vcommand(struct conn *conn, struct exchange *exchange, size_t index,
                                 const char *format, va_list args)
{
    char line[LINE_END];
    int size = vsnprintf(line, sizeof(line), format, args);

    assert(size > 0 && size < LINE_END);
    append(conn, line, (size_t)size);
    append(conn, "\r\n", 2);
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
    append(conn, body.data, body.size);
    append(conn, "\r\n", 2);
    /* The command ends with its body: if only the line was written, it was not executed. Broken:
     * the last expected reply may be that of an earlier command. */
    if (!conn->broken && conn->expected_size > conn->expected_head)
        last_expected(conn)->end = conn->appended;
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

static bool is_watched(const struct conn *conn, bide_slice topic)
{
    const char *name = conn->watched;
    for (size_t i = 0; i < conn->watched_count; i++, name += strlen(name) + 1)
        if (strlen(name) == topic.size && memcmp(name, topic.data, topic.size) == 0)
            return true;
    return false;
}

static bool is_wanted(const char *name, const bide_slice *topics, size_t count)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < count; i++)
        if (topics[i].size == size && memcmp(topics[i].data, name, size) == 0)
            return true;
    return false;
}

/* Replaces the watch list by the topics without duplicates. False: out of memory, unchanged. */
static bool set_watched(struct conn *conn, const bide_slice *topics, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += topics[i].size + 1;

    char *names = malloc(size + 1);
    if (names == NULL)
        return false;

    free(conn->watched);
    conn->watched = names;
    conn->watched_size = conn->watched_count = 0;

    for (size_t i = 0; i < count; i++) {
        if (is_watched(conn, topics[i]))
            continue;
        memcpy(names + conn->watched_size, topics[i].data, topics[i].size);
        names[conn->watched_size + topics[i].size] = 0;
        conn->watched_size += topics[i].size + 1;
        conn->watched_count++;
    }
    return true;
}

/* Watches before it ignores: beanstalkd rejects ignoring the last tube. */
void bi_beanstalkd_conn_watch(struct conn *conn, const bide_slice *topics, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_watched(conn, topics[i]))
            bi_beanstalkd_conn_command(conn, NULL, 0, "watch %.*s", (int)topics[i].size,
                                       (const char *)topics[i].data);

    const char *name = conn->watched;
    for (size_t i = 0; i < conn->watched_count; i++, name += strlen(name) + 1)
        if (!is_wanted(name, topics, count))
            bi_beanstalkd_conn_command(conn, NULL, 0, "ignore %s", name);

    if (!set_watched(conn, topics, count))
        conn->broken = true;
}

/* ---- writing ---- */

void bi_beanstalkd_conn_write(struct conn *conn)
{
    conn->want_write = false;
    while (!conn->broken && conn->out_used < conn->out_size) {
        ssize_t size = send(conn->fd, conn->out + conn->out_used, conn->out_size - conn->out_used,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size > 0) {
            conn->out_used += (size_t)size;
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

static bool has_data(const char *word)
{
    return strcmp(word, "OK") == 0 || strcmp(word, "FOUND") == 0 || strcmp(word, "RESERVED") == 0;
}

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
 * malformed. */
static int next_reply(const struct conn *conn, char *line, struct reply *reply, size_t *total_size)
{
    size_t size;
    int found = bi_remote_socket_line(&conn->in, line, LINE_END, &size);

    if (found <= 0)
        return found;

    parse_line(line, reply);
    *total_size = size + 2;
    if (!has_data(reply->word))
        return 1;

    /* "OK <bytes>", but "FOUND <id> <bytes>" and "RESERVED <id> <bytes>". */
    uint64_t bytes = reply->numbers[!bi_reply_is(reply, "OK")];
    if (bytes > DATA_MAX ||
        !bi_remote_socket_data(&conn->in, size + 2, (size_t)bytes, &reply->data))
        return -1;
    reply->size = (size_t)bytes;
    *total_size += reply->size + 2;
    return reply->data != NULL;
}

void bi_beanstalkd_conn_read(struct conn *conn)
{
    char line[LINE_END], reason[BIDE_ERROR_SIZE];
    struct reply reply;
    size_t total_size;

    ssize_t size = bi_remote_socket_read(conn->fd, &conn->in, IN_ROOM, reason);
    if (size < 0)
        conn->broken = conn->eof = true;
    if (size > 0)
        conn->active = bi_clock_boot();

    for (int code = 1; code > 0;) {
        code = next_reply(conn, line, &reply, &total_size);
        /* A reply without a command is as bad as a malformed one: the framing is lost. */
        if (code < 0 || (code > 0 && conn->expected_head == conn->expected_size)) {
            conn->broken = conn->eof = true;
            return;
        }

        if (code == 0)
            return;

        conn->in.used += total_size;
        /* Copied: the handler may queue commands, which moves the array. */
        struct expected expected = conn->expected[conn->expected_head++];
        bi_beanstalkd_exchange_handle_reply(&expected, &reply, true);
    }
}

void bi_beanstalkd_conn_fail_expected(struct conn *conn)
{
    while (conn->expected_head < conn->expected_size) {
        /* A command counts as sent when its last byte was written: only then can it be executed. */
        struct expected expected = conn->expected[conn->expected_head++];
        bi_beanstalkd_exchange_handle_reply(&expected, NULL, expected.end <= conn->written);
    }
}
