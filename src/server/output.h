/* SPDX-License-Identifier: MIT */
/*
 * output - the unsent bytes of a connection.
 *
 * Short replies are appended to one buffer, so that many of them take one system call. A large body
 * is not copied: the output holds a reference to it and its position in the buffer.
 *
 * Ownership  A body is referenced until its last byte is sent.
 * Failure    Without memory the added bytes are lost, and the stream with them. `broken` is set,
 *            and the connection must be closed.
 * Cost       Appending is O(size), amortised. A small output needs no allocation.
 */
#ifndef BI_OUTPUT_H
#define BI_OUTPUT_H

#include <bide/job.h>

#define OUTPUT_SMALL 512  /* bytes that need no allocation */
#define OUTPUT_COPY  4096 /* bodies up to this size are copied */

struct output_body {
    size_t at; /* offset in data that it precedes */
    bide_buf *buf;
};

struct output {
    char *data; /* NULL: small is used */
    size_t size, room;
    size_t sent; /* bytes of data */
    struct output_body *bodies;
    size_t body_count, body_room;
    size_t body_first;   /* the bodies before it are sent */
    size_t body_sent;    /* bytes of the first unsent body */
    size_t body_bytes;   /* unsent bytes of all bodies */
    uint64_t sent_total; /* bytes sent since the connection was opened */
    bool broken;
    char small[OUTPUT_SMALL];
};

void bi_output_init(struct output *output);
void bi_output_done(struct output *output);

void bi_output_add(struct output *output, const void *data, size_t size);
void bi_output_text(struct output *output, const char *text);
void bi_output_number(struct output *output, uint64_t number);
void bi_output_format(struct output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends a body. Holds a reference to buf if data is the whole of it and large; otherwise
 * copies. */
void bi_output_body(struct output *output, bide_buf *buf, const void *data, size_t size);

static inline char *bi_output_bytes(struct output *output)
{
    return output->data == NULL ? output->small : output->data;
}

static inline size_t bi_output_left(const struct output *output)
{
    return output->size - output->sent + output->body_bytes;
}

/* Allocated bytes, without bodies. */
static inline size_t bi_output_memory(const struct output *output)
{
    return output->data == NULL ? 0 : output->room;
}

/* Sends until the socket is full or the share of the connection is used. False if the socket
 * failed. */
bool bi_output_write(struct output *output, int fd);

/* Frees the memory of an empty output if it has more than keep_bytes. */
void bi_output_trim(struct output *output, size_t keep_bytes);

#endif
