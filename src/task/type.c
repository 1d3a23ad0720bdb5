/* SPDX-License-Identifier: MIT */
/*
 * type - the public calls of bide/type.h, the type `bytes`, the arena of decoded values, and
 * errors.
 */
#include "task/type.h"

#include "queue/queue.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const bide_type *bide_type_of_bytes(void)
{
    static const bide_type bytes = {"bytes", sizeof(bide_slice), NULL, 0, true, {0, 0}};
    return &bytes;
}

#ifndef BIDE_WITH_JSON
int bi_type_no_json(const bide_type *type)
{
    return bi_last_error_set(
        BIDE_ENOTSUP,
        "%.80s: this bide was built without JSON (libjansson-dev); bytes can do "
        "without",
        type->name);
}
#endif

int bi_type_out_of_memory(void)
{
    return bi_last_error_set(BIDE_ENOMEM, "%s", bide_code_text(BIDE_ENOMEM));
}

#define PATH_SIZE 120 /* of BIDE_ERROR_SIZE; the rest is for the message */

int bi_type_error(const struct json_path *path, const char *format, ...)
{
    static const size_t dots = 3;
    char buffer[PATH_SIZE], step[PATH_SIZE], message[BIDE_ERROR_SIZE];
    char *begin = buffer + PATH_SIZE - 1;
    va_list args;

    /* Steps point to their parents only, so the text is built from its end. */
    *begin = 0;
    for (; path != NULL; path = path->parent) {
        size_t size =
            (size_t)(path->name == NULL ? snprintf(step, sizeof(step), "[%zu]", path->index)
                                        : snprintf(step, sizeof(step), "%s%s",
                                                   path->parent == NULL ? "" : ".", path->name));
        /* "..." replaces the steps that do not fit; there is always room for it. */
        bool fits = size + dots <= (size_t)(begin - buffer);
        begin -= fits ? size : dots;
        memcpy(begin, fits ? step : "...", fits ? size : dots);
        if (!fits)
            break;
    }

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    return bi_last_error_set(BIDE_EINVAL, "%s: %s", begin, message);
}

/* ---- arena ---- */

#define ALIGNMENT alignof(max_align_t)
#define BLOCK_MIN ((size_t)1024)

struct block {
    struct bi_alloc alloc; /* frees it */
    struct block *next;
    size_t room;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct block *block_new(const struct bi_alloc *alloc, size_t room)
{
    struct block *block = bi_alloc_malloc(alloc, sizeof(*block) + room);
    if (block == NULL)
        return NULL;

    block->alloc = *alloc;
    block->next = NULL;
    block->room = room;
    block->used = 0;
    return block;
}

int bi_type_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size, size_t extra)
{
    arena->first = block_new(alloc, round_up(size) + round_up(extra));
    arena->last = arena->first;
    return arena->first == NULL ? BIDE_ENOMEM : BIDE_OK;
}

void *bi_type_arena_alloc(struct arena *arena, size_t size)
{
    struct block *last = arena->last;

    if (size > PTRDIFF_MAX - BLOCK_MIN)
        return NULL; /* round_up() and block_new() would overflow */

    size = round_up(size);
    if (size > last->room - last->used) {
        /* Blocks double, so that many small pieces need few of them. The maximum bounds what the
         * last block wastes. */
        size_t room = last->room < SIZE_MAX / 4 ? last->room * 2 : last->room;
        if (room < BLOCK_MIN)
            room = BLOCK_MIN;
        if (room > 64 * BLOCK_MIN)
            room = 64 * BLOCK_MIN;
        last->next = block_new(&last->alloc, size > room ? size : room);
        if (last->next == NULL)
            return NULL;
        last = arena->last = last->next;
    }
    assert(size <= last->room - last->used && last->next == NULL);
    void *piece = last->bytes + last->used;
    last->used += size;
    return memset(piece, 0, size);
}

/* ---- bytes ---- */

static int write_raw(const bide_slice *value, bide_buf **out)
{
    if (value->data == NULL && value->size > 0)
        return bi_last_error_set(BIDE_EINVAL, "bytes: they are NULL and %zu", value->size);

    bide_buf *buf = bide_buf_new(value->data, value->size);
    if (buf == NULL)
        return bi_type_out_of_memory();

    *out = buf;
    return BIDE_OK;
}

/* A NUL that is not counted follows the last byte, as in a bide_buf: a handler may use text as a
 * string. */
static int read_raw(const void *data, size_t size, const struct bi_alloc *alloc, void **out)
{
    struct arena arena;

    if (size >= UINT32_MAX ||
        bi_type_arena_init(&arena, alloc, sizeof(bide_slice), size + 1) != BIDE_OK)
        return bi_type_out_of_memory();

    /* Neither call can fail: the first block has room for both. */
    bide_slice *value = bi_type_arena_alloc(&arena, sizeof(*value));
    char *bytes = bi_type_arena_alloc(&arena, size + 1);
    if (size > 0)
        memcpy(bytes, data, size);
    *value = (bide_slice){bytes, size};
    *out = value;
    return BIDE_OK;
}

/* ---- the public calls ---- */

int bide_type_encode(const bide_type *type, const void *value, bide_buf **json)
{
    bi_last_error_clear();
    if (type == NULL || value == NULL || json == NULL)
        return bi_last_error_set(BIDE_EINVAL, "encode: type, value or json is NULL");
    return type->raw ? write_raw(value, json) : bi_type_encode_json(type, value, json);
}

int bide_type_decode(const bide_type *type, const void *data, size_t size, void **value)
{
    struct bi_alloc alloc = bi_alloc_libc(); /* unit tests pass one that fails */

    bi_last_error_clear();
    if (type == NULL || value == NULL)
        return bi_last_error_set(BIDE_EINVAL, "decode: type or value is NULL");
    if (data == NULL && size > 0)
        return bi_last_error_set(BIDE_EINVAL, "decode: the data is NULL and has %zu bytes", size);
    return type->raw ? read_raw(data, size, &alloc, value)
                     : bi_type_decode_json(type, data, size, &alloc, value);
}

void bide_decoded_free(void *value)
{
    if (value == NULL)
        return;

    /* The value is the first piece, and bytes[] is aligned like a piece. */
    void *first = (unsigned char *)value - offsetof(struct block, bytes);
    struct block *block = first;
    while (block != NULL) {
        struct block *next = block->next;
        struct bi_alloc alloc = block->alloc; /* it is inside the memory that it frees */
        bi_alloc_free(&alloc, block);
        block = next;
    }
}
