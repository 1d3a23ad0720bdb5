/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "backend/beanstalk_plain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_ROOM  ((size_t)16 << 10)
#define LINE_END 256 /* a reply's line has fewer bytes */

struct wire *bi_wire_new(int fd)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    if (wire == NULL)
        return NULL;
    static const char tube[] = "default"; /* used and watched from the start */
    wire->fd = fd;
    memcpy(wire->used, tube, sizeof(tube));
    wire->watched = strdup(tube);
    wire->watched_size = sizeof(tube);
    wire->watched_count = 1;
    if (wire->watched != NULL)
        return wire;
    free(wire);
    return NULL;
}

void bi_wire_free(struct wire *wire)
{
    close(wire->fd);
    free(wire->watched);
    free(wire->in);
    free(wire->out);
    free(wire->expected);
    free(wire);
}

/* ---- commands ---- */

/* Room for so many more bytes; a wire that has none is broken. */
static bool make_room(struct wire *wire, size_t more)
{
    if (wire->out_used > 0 && wire->out_used == wire->out_size)
        wire->out_used = wire->out_size = 0;
    if (wire->out_room - wire->out_size >= more)
        return true;
    size_t room = wire->out_room + more + IN_ROOM;
    unsigned char *out = realloc(wire->out, room);
    if (out == NULL) {
        wire->broken = true;
        return false;
    }
    wire->out = out;
    wire->out_room = room;
    return true;
}

static void append(struct wire *wire, const void *data, size_t size)
{
    if (!make_room(wire, size))
        return;
    if (size > 0)
        memcpy(wire->out + wire->out_size, data, size);
    wire->out_size += size;
    wire->appended += size;
}

static struct expected *last_expected(const struct wire *wire)
{
    return &wire->expected[wire->expected_size - 1];
}

/* Without memory the wire is broken, and the talk has one reply less to wait for. */
static void expect(struct wire *wire, struct talk *talk, size_t index)
{
    if (wire->expected_head == wire->expected_size)
        wire->expected_head = wire->expected_size = 0;
    if (wire->expected_size == wire->expected_room) {
        size_t room = wire->expected_room == 0 ? 64 : wire->expected_room * 2;
        struct expected *bigger = realloc(wire->expected, room * sizeof(*bigger));
        if (bigger == NULL) {
            wire->broken = true;
            return;
        }
        wire->expected = bigger;
        wire->expected_room = room;
    }
    wire->expected[wire->expected_size++] = (struct expected){talk, index, wire->appended};
    if (talk != NULL)
        talk->outstanding++;
}

static void end_line(struct wire *wire, struct talk *talk, size_t index, const char *line, int size)
{
    append(wire, line, (size_t)size);
    append(wire, "\r\n", 2);
    expect(wire, talk, index);
}

void bi_wire_ask(struct wire *wire, struct talk *talk, size_t index, const char *format, ...)
{
    char line[LINE_END];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    end_line(wire, talk, index, line, size);
}

void bi_wire_body(struct wire *wire, bide_slice body)
{
    append(wire, body.data, body.size);
    append(wire, "\r\n", 2);
    if (wire->expected_size > wire->expected_head)
        last_expected(wire)->end = wire->appended;
}

void bi_wire_use(struct wire *wire, bide_slice topic)
{
    if (strlen(wire->used) == topic.size && memcmp(wire->used, topic.data, topic.size) == 0)
        return;
    memcpy(wire->used, topic.data, topic.size);
    wire->used[topic.size] = 0;
    bi_wire_ask(wire, NULL, 0, "use %s", wire->used);
}

/* ---- what is watched ---- */

static bool is_watched(const struct wire *wire, bide_slice topic)
{
    const char *name = wire->watched;
    for (size_t i = 0; i < wire->watched_count; i++, name += strlen(name) + 1)
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

/* The names of topics, each once, with their NULs. */
static bool remember(struct wire *wire, const bide_slice *topics, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += topics[i].size + 1;
    char *names = malloc(size + 1);
    if (names == NULL)
        return false;
    free(wire->watched);
    wire->watched = names;
    wire->watched_size = wire->watched_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_watched(wire, topics[i]))
            continue;
        memcpy(names + wire->watched_size, topics[i].data, topics[i].size);
        names[wire->watched_size + topics[i].size] = 0;
        wire->watched_size += topics[i].size + 1;
        wire->watched_count++;
    }
    return true;
}

/* First what is new, then what is not wanted: beanstalkd keeps at least one. */
void bi_wire_watch(struct wire *wire, const bide_slice *topics, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_watched(wire, topics[i]))
            bi_wire_ask(wire, NULL, 0, "watch %.*s", (int)topics[i].size,
                        (const char *)topics[i].data);
    const char *name = wire->watched;
    for (size_t i = 0; i < wire->watched_count; i++, name += strlen(name) + 1)
        if (!is_wanted(name, topics, count))
            bi_wire_ask(wire, NULL, 0, "ignore %s", name);
    if (!remember(wire, topics, count))
        wire->broken = true;
}

/* ---- writing ---- */

void bi_wire_write(struct wire *wire)
{
    wire->wants_room = false;
    while (!wire->broken && wire->out_used < wire->out_size) {
        ssize_t size = send(wire->fd, wire->out + wire->out_used, wire->out_size - wire->out_used,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size > 0) {
            wire->out_used += (size_t)size;
            wire->written += (uint64_t)size;
            continue;
        }
        if (errno == EINTR)
            continue;
        wire->wants_room = errno == EAGAIN;
        wire->broken = errno != EAGAIN;
        return;
    }
}

/* ---- reading ---- */

static bool has_data(const char *word)
{
    return strcmp(word, "OK") == 0 || strcmp(word, "FOUND") == 0 || strcmp(word, "RESERVED") == 0;
}

/* Takes a line apart: a word, and up to two numbers. */
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

/* The first reply in the buffer. 1 it is there, 0 not all of it, -1 it makes no sense. */
static int next_reply(struct wire *wire, char *line, struct reply *reply, size_t *all)
{
    unsigned char *from = wire->in + wire->in_used;
    size_t there = wire->in_size - wire->in_used;
    const unsigned char *end = there == 0 ? NULL : memmem(from, there, "\r\n", 2);
    size_t size = end == NULL ? 0 : (size_t)(end - from);
    if (end == NULL)
        return there < LINE_END ? 0 : -1;
    if (size >= LINE_END)
        return -1;
    memcpy(line, from, size);
    line[size] = 0;
    parse_line(line, reply);
    *all = size + 2;
    if (!has_data(reply->word))
        return 1;
    uint64_t bytes = reply->numbers[strcmp(reply->word, "OK") != 0];
    if (bytes > SIZE_MAX / 2)
        return -1;
    *all += (size_t)bytes + 2;
    if (there < *all)
        return 0;
    reply->data = from + size + 2;
    reply->size = (size_t)bytes;
    return memcmp(from + *all - 2, "\r\n", 2) == 0 ? 1 : -1;
}

/* Reads once; the buffer grows with what has come, not with what was announced. */
static void read_some(struct wire *wire)
{
    if (wire->in_used > 0) {
        wire->in_size -= wire->in_used;
        memmove(wire->in, wire->in + wire->in_used, wire->in_size);
        wire->in_used = 0;
    }
    if (wire->in_size == wire->in_room) {
        size_t room = wire->in_room == 0 ? IN_ROOM : wire->in_room * 2;
        unsigned char *in = realloc(wire->in, room);
        if (in == NULL) {
            wire->broken = wire->ended = true;
            return;
        }
        wire->in = in;
        wire->in_room = room;
    }
    ssize_t size = recv(wire->fd, wire->in + wire->in_size, wire->in_room - wire->in_size, 0);
    if (size > 0)
        wire->in_size += (size_t)size;
    else if (size == 0 || (errno != EAGAIN && errno != EINTR))
        wire->broken = wire->ended = true;
}

void bi_wire_read(struct plain *plain, struct wire *wire)
{
    char line[LINE_END];
    struct reply reply;
    size_t all;
    read_some(wire);
    for (int code = 1; code > 0;) {
        code = next_reply(wire, line, &reply, &all);
        if (code < 0 || (code > 0 && wire->expected_head == wire->expected_size)) {
            wire->broken = wire->ended = true;
            return;
        }
        if (code == 0)
            return;
        wire->in_used += all;
        struct expected expected = wire->expected[wire->expected_head++];
        bi_plain_heard(plain, &expected, &reply, true);
    }
}

void bi_wire_lose(struct plain *plain, struct wire *wire)
{
    while (wire->expected_head < wire->expected_size) {
        struct expected expected = wire->expected[wire->expected_head++];
        bi_plain_heard(plain, &expected, NULL, expected.end <= wire->written);
    }
}
