/* SPDX-License-Identifier: MIT */
#include "op/op_codec_wire.h"

#include <assert.h>
#include <stdlib.h>

/* ---- writing ---- */

void bi_op_codec_wire_free_bytes(struct op_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct op_bytes){NULL, 0, 0};
}

bool bi_op_codec_wire_grow(struct op_writer *writer, size_t more)
{
    struct op_bytes *out = writer->out;
    size_t room = out->room < 256 ? 256 : out->room;
    assert(out->size <= out->room);

    /* Doubling keeps the cost per byte constant. The loop ends before the size could overflow. */
    while (room - out->size < more && room <= SIZE_MAX / 2)
        room *= 2;

    /* After a failure the output is discarded, so there is no second attempt to grow. */
    unsigned char *data =
        writer->failed || room - out->size < more ? NULL : realloc(out->data, room);
    if (data == NULL) {
        writer->failed = true;
        return false;
    }
    out->data = data;
    out->room = room;
    return true;
}

size_t bi_op_codec_wire_begin_struct(struct op_writer *writer)
{
    size_t start = writer->out->size;
    /* The length is written by end_struct(). */
    if (has_room(writer, LENGTH_SIZE))
        writer->out->size += LENGTH_SIZE;
    return start;
}

void bi_op_codec_wire_end_struct(struct op_writer *writer, size_t start)
{
    if (writer->failed)
        return;

    assert(writer->out->size >= start + LENGTH_SIZE);
    size_t size = writer->out->size - start - LENGTH_SIZE;
    if (size > UINT32_MAX) {
        writer->failed = true;
        return;
    }

    for (int i = 0; i < LENGTH_SIZE; i++)
        writer->out->data[start + (size_t)i] = (unsigned char)(size >> (8 * i));
}

/* ---- reading ---- */

bool bi_op_codec_wire_read_varint(struct op_reader *reader, uint64_t *number)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 7 * VARINT_MAX; shift += 7) {
        if (reader->at == reader->end)
            return malformed(reader, "the bytes end within a number");

        unsigned char byte = *reader->at++;
        /* The tenth byte has one bit left. */
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = value;
            return true;
        }
    }

    return malformed(reader, "a number has more than 64 bits");
}

bool bi_op_codec_wire_read_bytes(struct op_reader *reader, bide_slice *bytes)
{
    uint64_t coded;
    if (!read_number(reader, &coded))
        return false;
    /* Compare before the size is used: it comes from the peer. */
    if (coded > 0 && coded - 1 > remaining(reader))
        return malformed(reader, "the bytes end within a text or body");

    bytes->data = coded == 0 ? NULL : reader->at;
    bytes->size = coded == 0 ? 0 : (size_t)(coded - 1);
    reader->at += bytes->size;
    return true;
}

bool bi_op_codec_wire_enter_struct(struct op_reader *reader, const unsigned char **outer)
{
    if (remaining(reader) < LENGTH_SIZE)
        return malformed(reader, "the bytes end within a length");

    size_t size = 0;
    for (int i = 0; i < LENGTH_SIZE; i++)
        size |= (size_t)*reader->at++ << (8 * i);

    if (size > remaining(reader))
        return malformed(reader, "the bytes end within a struct");

    *outer = reader->end;
    reader->end = reader->at + size;
    assert(reader->end <= *outer);
    return true;
}

/* ---- the memory of a decoded op ---- */

/* Most ops need no more than the room in struct decoded_op. A list gets a block of its own, and the
 * options of its items share blocks of this size. */
#define BLOCK_SIZE ((size_t)4096)

struct decode_block {
    struct decode_block *next;
    size_t used, size;
    _Alignas(16) unsigned char room[];
};

static size_t aligned(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static struct decode_block *add_block(struct decoded_op *decoded, size_t size)
{
    struct decode_block *block = malloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    *block = (struct decode_block){.next = decoded->blocks, .size = size};
    decoded->blocks = block;
    decoded->bytes += sizeof(*block) + size;
    return block;
}

void *bi_op_codec_wire_alloc(struct decoded_op *decoded, size_t size)
{
    size = aligned(size);
    assert(decoded->used <= sizeof(decoded->room));

    if (size <= sizeof(decoded->room) - decoded->used) {
        decoded->used += size;
        return decoded->room + decoded->used - size;
    }

    struct decode_block *block = decoded->blocks;
    if (block == NULL || block->size - block->used < size)
        /* The first block has the exact size: most ops that need one need no second. */
        block = add_block(decoded,
                          size > BLOCK_SIZE / 4 || decoded->blocks == NULL ? size : BLOCK_SIZE);

    if (block == NULL)
        return NULL;

    block->used += size;
    return block->room + block->used - size;
}

void bi_op_codec_wire_free_blocks(struct decoded_op *decoded)
{
    while (decoded->blocks != NULL) {
        struct decode_block *block = decoded->blocks;
        decoded->blocks = block->next;
        free(block);
    }
    decoded->bytes = 0;
    decoded->used = 0;
}
