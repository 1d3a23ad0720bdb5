/* SPDX-License-Identifier: MIT */
#include "backend/call_wire.h"

#include <stdlib.h>

/* ---- writing ---- */

void bi_call_bytes_free(struct call_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct call_bytes){NULL, 0, 0};
}

bool bi_call_grow(struct call_writer *writer, size_t more)
{
    struct call_bytes *out = writer->out;
    size_t room = out->room < 256 ? 256 : out->room;
    while (room - out->size < more && room <= SIZE_MAX / 2)
        room *= 2;
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

size_t bi_call_open(struct call_writer *writer)
{
    size_t opened = writer->out->size;
    if (has_room(writer, LENGTH_SIZE))
        writer->out->size += LENGTH_SIZE;
    return opened;
}

void bi_call_close(struct call_writer *writer, size_t opened)
{
    if (writer->failed)
        return;
    size_t size = writer->out->size - opened - LENGTH_SIZE;
    if (size > UINT32_MAX) {
        writer->failed = true;
        return;
    }
    for (int i = 0; i < LENGTH_SIZE; i++)
        writer->out->data[opened + (size_t)i] = (unsigned char)(size >> (8 * i));
}

/* ---- reading ---- */

bool bi_call_read_long(struct call_reader *reader, uint64_t *number)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * NUMBER_MAX; shift += 7) {
        if (reader->at == reader->end)
            return nonsense(reader, "the bytes end within a number");
        unsigned char byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = value;
            return true;
        }
    }
    return nonsense(reader, "a number has more than 64 bits");
}

bool bi_call_read_bytes(struct call_reader *reader, bide_slice *bytes)
{
    uint64_t coded;
    if (!read_number(reader, &coded))
        return false;
    if (coded > 0 && coded - 1 > left(reader))
        return nonsense(reader, "the bytes end within a text or body");
    bytes->data = coded == 0 ? NULL : reader->at;
    bytes->size = coded == 0 ? 0 : (size_t)(coded - 1);
    reader->at += bytes->size;
    return true;
}

bool bi_call_enter(struct call_reader *reader, const unsigned char **outer)
{
    if (left(reader) < LENGTH_SIZE)
        return nonsense(reader, "the bytes end within a length");
    size_t size = 0;
    for (int i = 0; i < LENGTH_SIZE; i++)
        size |= (size_t)*reader->at++ << (8 * i);
    if (size > left(reader))
        return nonsense(reader, "the bytes end within a struct");
    *outer = reader->end;
    reader->end = reader->at + size;
    return true;
}

/* ---- the memory of a decoded op ---- */

/* Most ops need less than the op has room for; what they need besides are lists, each of which is a
 * block, and the options of the items of one, which share blocks. */
#define BLOCK_SIZE ((size_t)4096)

struct call_block {
    struct call_block *next;
    size_t used, size;
    _Alignas(16) unsigned char room[];
};

static size_t aligned(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static struct call_block *add_block(struct call_op *call, size_t size)
{
    struct call_block *block = malloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    *block = (struct call_block){.next = call->blocks, .size = size};
    call->blocks = block;
    call->bytes += sizeof(*block) + size;
    return block;
}

void *bi_call_take(struct call_op *call, size_t size)
{
    size = aligned(size);
    if (size <= sizeof(call->room) - call->used) {
        call->used += size;
        return call->room + call->used - size;
    }
    struct call_block *block = call->blocks;
    if (block == NULL || block->size - block->used < size)
        block = add_block(call, size > BLOCK_SIZE / 4 || call->blocks == NULL ? size : BLOCK_SIZE);
    if (block == NULL)
        return NULL;
    block->used += size;
    return block->room + block->used - size;
}

void bi_call_give(struct call_op *call)
{
    while (call->blocks != NULL) {
        struct call_block *block = call->blocks;
        call->blocks = block->next;
        free(block);
    }
    call->bytes = 0;
    call->used = 0;
}
