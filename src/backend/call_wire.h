/* SPDX-License-Identifier: MIT */
/*
 * call_wire - numbers and bytes, written to memory that grows and read from memory that ends.
 *
 * Failure    Both sides remember that something went wrong and do no harm from then on: a writer
 *            without memory writes nothing more, a reader at nonsense answers false.
 */
#ifndef BI_CALL_WIRE_H
#define BI_CALL_WIRE_H

#include "backend/call.h"

#include <string.h>

/* The longest number: 64 bits, seven a byte. */
#define NUMBER_MAX 10

struct call_writer {
    struct call_bytes *out;
    uint64_t feed; /* of the op that is written */
    bool failed;
};

struct call_reader {
    const unsigned char *at, *end;
    struct call_op *owner; /* whose memory is taken, and borrows bytes; NULL: they are copied */
    uint64_t feed;         /* of the op that was read */
    const char *problem;   /* why the reading failed */
    int code;
};

/* ---- writing ---- */

bool bi_call_grow(struct call_writer *writer, size_t more);

/* Is there room for that many bytes more? */
static inline bool has_room(struct call_writer *writer, size_t more)
{
    const struct call_bytes *out = writer->out;
    return out->room - out->size >= more || bi_call_grow(writer, more);
}

static inline void write_number(struct call_writer *writer, uint64_t number)
{
    if (!has_room(writer, NUMBER_MAX))
        return;
    unsigned char *to = writer->out->data + writer->out->size;
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        to[size++] = (unsigned char)(number | 0x80);
    to[size++] = (unsigned char)number;
    writer->out->size += size;
}

/* Small numbers of either sign are short. */
static inline void write_signed(struct call_writer *writer, int64_t number)
{
    write_number(writer, ((uint64_t)number << 1) ^ (uint64_t)(number >> 63));
}

/* NULL is not the same as no bytes. */
static inline void write_bytes(struct call_writer *writer, const void *data, size_t size)
{
    write_number(writer, data == NULL ? 0 : (uint64_t)size + 1);
    if (data == NULL || size == 0 || !has_room(writer, size))
        return;
    memcpy(writer->out->data + writer->out->size, data, size);
    writer->out->size += size;
}

/* The length of a struct stands in front of it and is known when it ends. */
#define LENGTH_SIZE 4

size_t bi_call_open(struct call_writer *writer);
void bi_call_close(struct call_writer *writer, size_t opened);

/* ---- reading ---- */

/* Both answer false, always. */
static inline bool nonsense(struct call_reader *reader, const char *problem)
{
    reader->problem = problem;
    reader->code = BIDE_EINVAL;
    return false;
}

static inline bool no_memory(struct call_reader *reader)
{
    reader->problem = bide_code_text(BIDE_ENOMEM);
    reader->code = BIDE_ENOMEM;
    return false;
}

bool bi_call_read_long(struct call_reader *reader, uint64_t *number);

static inline size_t left(const struct call_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline bool read_number(struct call_reader *reader, uint64_t *number)
{
    if (reader->at == reader->end || *reader->at >= 0x80)
        return bi_call_read_long(reader, number);
    *number = *reader->at++;
    return true;
}

static inline bool read_signed(struct call_reader *reader, int64_t *number)
{
    uint64_t coded;
    if (!read_number(reader, &coded))
        return false;
    *number = (int64_t)((coded >> 1) ^ (0 - (coded & 1)));
    return true;
}

/* The bytes where they lie; data is NULL if there are none. */
bool bi_call_read_bytes(struct call_reader *reader, bide_slice *bytes);

/* A struct: from now on the reader ends where it does. outer is the end to go back to. */
bool bi_call_enter(struct call_reader *reader, const unsigned char **outer);

static inline void leave(struct call_reader *reader, const unsigned char *outer)
{
    reader->at = reader->end;
    reader->end = outer;
}

/* ---- the memory of a decoded op ---- */

/* Undefined bytes that live as long as the op; NULL when out of memory. */
void *bi_call_take(struct call_op *call, size_t size);
void bi_call_give(struct call_op *call);

#endif
