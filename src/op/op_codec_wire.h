/* SPDX-License-Identifier: MIT */
/*
 * op_codec_wire - encodes numbers and bytes into a growing buffer, and decodes them from a bounded
 * one.
 *
 * Failure    A writer that is out of memory sets `failed` and does not grow the buffer any more.
 *            Its output is incomplete from then on, and the caller discards it at the end; no
 *            write in between must be checked. A reader returns false and sets problem and code.
 */
#ifndef BI_OP_CODEC_WIRE_H
#define BI_OP_CODEC_WIRE_H

#include "op/op_codec.h"

#include <string.h>

/* The longest encoding of 64 bits, at seven bits per byte. */
#define VARINT_MAX 10

struct op_writer {
    struct op_bytes *out;
    uint64_t feed; /* of the op that is encoded */
    bool failed;
};

struct op_reader {
    const unsigned char *at, *end;
    struct decoded_op *owner; /* allocates and borrows bytes; NULL: a client, which copies */
    uint64_t feed;            /* of the op that was decoded */
    const char *problem;      /* why decoding failed */
    int code;
};

/* ---- writing ---- */

bool bi_op_codec_wire_grow(struct op_writer *writer, size_t more);

/* Ensures room for that many bytes; false when out of memory. */
static inline bool has_room(struct op_writer *writer, size_t more)
{
    const struct op_bytes *out = writer->out;
    return out->room - out->size >= more || bi_op_codec_wire_grow(writer, more);
}

static inline void write_number(struct op_writer *writer, uint64_t number)
{
    if (!has_room(writer, VARINT_MAX))
        return;

    /* LEB128: seven bits per byte, least significant first. */
    unsigned char *to = writer->out->data + writer->out->size;
    size_t size = 0;

    for (; number >= 0x80; number >>= 7)
        to[size++] = (unsigned char)(number | 0x80);
    to[size++] = (unsigned char)number;
    writer->out->size += size;
}

/* Zigzag: small numbers of either sign are short. */
static inline void write_signed(struct op_writer *writer, int64_t number)
{
    write_number(writer, ((uint64_t)number << 1) ^ (uint64_t)(number >> 63));
}

/* NULL is distinct from zero bytes. */
static inline void write_bytes(struct op_writer *writer, const void *data, size_t size)
{
    write_number(writer, data == NULL ? 0 : (uint64_t)size + 1);
    if (data == NULL || size == 0 || !has_room(writer, size))
        return;
    memcpy(writer->out->data + writer->out->size, data, size);
    writer->out->size += size;
}

/* The length precedes a struct and has a fixed size, because it is known only at the end. */
#define LENGTH_SIZE 4

size_t bi_op_codec_wire_begin_struct(struct op_writer *writer);
void bi_op_codec_wire_end_struct(struct op_writer *writer, size_t start);

/* ---- reading ---- */

/* Both record the failure and return false. */
static inline bool malformed(struct op_reader *reader, const char *problem)
{
    reader->problem = problem;
    reader->code = BIDE_EINVAL;
    return false;
}

static inline bool out_of_memory(struct op_reader *reader)
{
    reader->problem = bide_code_text(BIDE_ENOMEM);
    reader->code = BIDE_ENOMEM;
    return false;
}

bool bi_op_codec_wire_read_varint(struct op_reader *reader, uint64_t *number);

static inline size_t remaining(const struct op_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline bool read_number(struct op_reader *reader, uint64_t *number)
{
    /* Most numbers fit in one byte, without a call. */
    if (reader->at == reader->end || *reader->at >= 0x80)
        return bi_op_codec_wire_read_varint(reader, number);
    *number = *reader->at++;
    return true;
}

static inline bool read_signed(struct op_reader *reader, int64_t *number)
{
    uint64_t coded;
    if (!read_number(reader, &coded))
        return false;
    *number = (int64_t)((coded >> 1) ^ (0 - (coded & 1)));
    return true;
}

/* Borrows bytes from the input; data is NULL for a NULL. */
bool bi_op_codec_wire_read_bytes(struct op_reader *reader, bide_slice *bytes);

/* Enters a struct: from now on the reader ends at its end. *outer is the previous end. */
bool bi_op_codec_wire_enter_struct(struct op_reader *reader, const unsigned char **outer);

/* Skips fields of the struct that this version does not know. */
static inline void leave_struct(struct op_reader *reader, const unsigned char *outer)
{
    reader->at = reader->end;
    reader->end = outer;
}

/* ---- the memory of a decoded op ---- */

/* Uninitialized memory that lives as long as the op; NULL when out of memory. */
void *bi_op_codec_wire_alloc(struct decoded_op *decoded, size_t size);
void bi_op_codec_wire_free_blocks(struct decoded_op *decoded);

#endif
