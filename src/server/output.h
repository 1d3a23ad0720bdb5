/* SPDX-License-Identifier: MIT */
/*
 * output - what a connection is still to be told.
 *
 * Short answers are gathered in one run of bytes, so that many of them take one write. A large body
 * is not copied: the run remembers where it belongs and holds a reference to it.
 *
 * Failure    When memory is out, what is added is lost, and so is the stream: broken says so, and
 *            the connection is closed.
 */
#ifndef BI_OUTPUT_H
#define BI_OUTPUT_H

#include <bide/job.h>

#define OUTPUT_SMALL 512  /* bytes that need no memory of their own */
#define OUTPUT_COPY  4096 /* bodies up to this size are copied */

struct output_body {
    size_t at; /* in front of which byte of the run */
    bide_buf *buf;
};

struct output {
    char *data; /* NULL: small */
    size_t size, room;
    size_t sent; /* of data */
    struct output_body *bodies;
    size_t body_count, body_room;
    size_t body_first; /* the ones before have been sent */
    size_t body_sent;  /* of the first */
    size_t body_bytes; /* of those that are still to be sent */
    uint64_t gone;     /* bytes that have been sent since the beginning */
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
/* The bytes of a buffer; data and size are what of it is meant. */
void bi_output_body(struct output *output, bide_buf *buf, const void *data, size_t size);

/* How many bytes are still to be sent. */
static inline size_t bi_output_left(const struct output *output)
{
    return output->size - output->sent + output->body_bytes;
}

/* How many bytes of memory it has of its own. */
static inline size_t bi_output_memory(const struct output *output)
{
    return output->data == NULL ? 0 : output->room;
}

/* Writes what the socket takes, or a part of very much. False: the connection is broken. */
bool bi_output_write(struct output *output, int fd);

/* Gives back memory that an empty output does not need. */
void bi_output_trim(struct output *output, size_t keep);

#endif
