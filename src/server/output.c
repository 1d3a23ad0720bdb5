/* SPDX-License-Identifier: MIT */
#include "server/output.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define IOV_COUNT 64                  /* in one sendmsg() */
#define WRITE_MAX ((uint64_t)1 << 20) /* bytes of one call, before other connections are served */

void bi_output_init(struct output *output)
{
    memset(output, 0, offsetof(struct output, small));
    output->room = OUTPUT_SMALL;
}

void bi_output_done(struct output *output)
{
    for (size_t i = output->body_first; i < output->body_count; i++)
        bide_buf_unref(output->bodies[i].buf);
    free(output->bodies);
    free(output->data);
    bi_output_init(output);
}

static bool grow(struct output *output, size_t extra)
{
    size_t room = output->room * 2;
    assert(output->sent <= output->size && output->size <= output->room);
    while (room < output->size + extra)
        room *= 2;

    char *data = realloc(output->data, room);
    if (data == NULL) {
        output->broken = true;
        return false;
    }

    if (output->data == NULL)
        memcpy(data, output->small, output->size);
    output->data = data;
    output->room = room;
    return true;
}

/* Removes the sent bytes, so that a stream which is never empty does not grow. */
static void compact(struct output *output)
{
    size_t sent = output->sent;
    char *data = bi_output_bytes(output);

    assert(sent <= output->size);
    memmove(data, data + sent, output->size - sent);
    output->size -= sent;
    output->sent = 0;

    /* The positions of the bodies refer to the moved bytes. */
    size_t left = output->body_count - output->body_first;
    assert(output->body_first <= output->body_count);
    for (size_t i = 0; i < left; i++) {
        output->bodies[i] = output->bodies[output->body_first + i];
        output->bodies[i].at -= sent;
    }
    output->body_first = 0;
    output->body_count = left;
}

/* Returns room for `extra` bytes at the end, or NULL without memory. */
static char *reserve(struct output *output, size_t extra)
{
    if (output->room - output->size < extra) {
        /* Only when most bytes are sent: the cost of the move is then amortised by them. */
        if (output->sent > output->size / 2)
            compact(output);
        if (output->room - output->size < extra && !grow(output, extra))
            return NULL;
    }
    return bi_output_bytes(output) + output->size;
}

void bi_output_add(struct output *output, const void *data, size_t size)
{
    char *to = reserve(output, size);
    if (to == NULL || size == 0)
        return;
    memcpy(to, data, size);
    output->size += size;
}

void bi_output_text(struct output *output, const char *text)
{
    bi_output_add(output, text, strlen(text));
}

void bi_output_number(struct output *output, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    bi_output_add(output, digits + at, sizeof(digits) - at);
}

void bi_output_format(struct output *output, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);

    /* One more for the terminating zero, which is not part of the output. */
    char *to = size < 0 ? NULL : reserve(output, (size_t)size + 1);
    if (to == NULL) {
        output->broken = true;
        return;
    }

    va_start(args, format);
    vsnprintf(to, (size_t)size + 1, format, args);
    va_end(args);
    output->size += (size_t)size;
}

void bi_output_body(struct output *output, bide_buf *buf, const void *data, size_t size)
{
    /* A reference costs an iovec and an allocation; for a small body a copy is cheaper. */
    if (size <= OUTPUT_COPY || buf == NULL || size != bide_buf_size(buf)) {
        bi_output_add(output, data, size);
        return;
    }
    if (output->body_count == output->body_room) {
        size_t room = output->body_room == 0 ? 4 : output->body_room * 2;
        struct output_body *bodies = realloc(output->bodies, room * sizeof(*bodies));
        if (bodies == NULL) {
            output->broken = true;
            return;
        }
        output->bodies = bodies;
        output->body_room = room;
    }

    /* The body follows the bytes that are in the buffer now. */
    output->bodies[output->body_count++] = (struct output_body){output->size, bide_buf_ref(buf)};
    output->body_bytes += size;
}

/* ---- writing ---- */

/* Collects the unsent bodies and the bytes between them, in order. Returns the number of
 * elements. */
static size_t gather(struct output *output, struct iovec *iov)
{
    char *data = bi_output_bytes(output);
    size_t count = 0;
    size_t at = output->sent;
    size_t skip = output->body_sent;
    size_t i = output->body_first;

    for (; i < output->body_count && count + 2 < IOV_COUNT; i++) {
        const struct output_body *body = &output->bodies[i];
        if (body->at > at)
            iov[count++] = (struct iovec){data + at, body->at - at};
        at = body->at;
        char *bytes = (char *)(uintptr_t)bide_buf_data(body->buf);
        iov[count++] = (struct iovec){bytes + skip, bide_buf_size(body->buf) - skip};
        skip = 0;
    }

    /* The bytes behind the last body, unless bodies are left for the next call. */
    if (i == output->body_count && at < output->size)
        iov[count++] = (struct iovec){data + at, output->size - at};
    return count;
}

/* Marks bytes as sent, and releases the bodies that are sent completely. */
static void advance(struct output *output, size_t sent)
{
    while (sent > 0 && output->body_first < output->body_count) {
        struct output_body *body = &output->bodies[output->body_first];
        size_t before = body->at - output->sent;
        assert(body->at >= output->sent && body->at <= output->size);
        if (sent < before)
            break;
        sent -= before;
        output->sent = body->at;

        size_t left = bide_buf_size(body->buf) - output->body_sent;
        size_t part = sent < left ? sent : left;
        assert(output->body_bytes >= part);
        output->body_sent += part;
        output->body_bytes -= part;
        sent -= part;
        if (part < left)
            return;

        bide_buf_unref(body->buf);
        output->body_first++;
        output->body_sent = 0;
    }

    output->sent += sent;
    assert(output->sent <= output->size);
}

bool bi_output_write(struct output *output, int fd)
{
    struct iovec iov[IOV_COUNT];
    uint64_t end = output->sent_total + WRITE_MAX;

    while (bi_output_left(output) > 0) {
        /* The socket stays writable, so the loop returns to it after other connections. */
        if (output->sent_total >= end)
            return true;

        ssize_t sent;
        size_t wanted = bi_output_left(output);
        if (output->body_bytes == 0) {
            sent = send(fd, bi_output_bytes(output) + output->sent, wanted, MSG_NOSIGNAL);
        } else {
            struct msghdr message = {.msg_iov = iov, .msg_iovlen = gather(output, iov)};
            sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        }

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;

        output->sent_total += (size_t)sent;
        advance(output, (size_t)sent);
    }

    assert(output->body_bytes == 0 && output->body_first == output->body_count);
    output->size = output->sent = 0;
    output->body_first = output->body_count = 0;
    return true;
}

void bi_output_trim(struct output *output, size_t keep_bytes)
{
    size_t bodies = output->body_room * sizeof(*output->bodies);
    if (bi_output_left(output) > 0 || bi_output_memory(output) + bodies <= keep_bytes)
        return;

    /* The total must survive: unsent leases are matched against it. So must `broken`: bytes of the
     * stream are missing, and the caller has yet to close the connection. */
    uint64_t sent_total = output->sent_total;
    bool broken = output->broken;
    bi_output_done(output);
    output->sent_total = sent_total;
    output->broken = broken;
}
