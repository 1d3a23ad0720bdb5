/* SPDX-License-Identifier: MIT */
/*
 * type - the public calls of bide/type.h, and the type `bytes`.
 */
#include "task/type.h"

#include "queue/queue.h"
#include "task/arena.h"

#include <string.h>

const bide_type *bide_type_of_bytes(void)
{
    static const bide_type bytes = {"bytes", sizeof(bide_slice), NULL, 0, true, {0, 0}};
    return &bytes;
}

#ifndef BIDE_WITH_JSON

static int no_json(const bide_type *type)
{
    return bi_last_error_set(
        BIDE_ENOTSUP,
        "%.80s: this bide was built without JSON (libjansson-dev); bytes can do "
        "without",
        type->name);
}

int bi_type_decode_json(const bide_type *type, const void *data, size_t size,
                        const struct bi_alloc *alloc, void **value)
{
    (void)data;
    (void)size;
    (void)alloc;
    (void)value;
    return no_json(type);
}

int bi_type_encode_json(const bide_type *type, const void *value, bide_buf **json)
{
    (void)value;
    (void)json;
    return no_json(type);
}

int bi_type_encode_key(const bide_type *type, const char *fields, const void *value, bide_buf **key)
{
    (void)fields;
    (void)value;
    (void)key;
    return no_json(type);
}

#endif

static int out_of_memory(void)
{
    return bi_last_error_set(BIDE_ENOMEM, "%s", bide_code_text(BIDE_ENOMEM));
}

/* ---- bytes ---- */

static int write_raw(const bide_slice *value, bide_buf **out)
{
    if (value->data == NULL && value->size > 0)
        return bi_last_error_set(BIDE_EINVAL, "bytes: they are NULL and %zu", value->size);

    bide_buf *buf = bide_buf_new(value->data, value->size);
    if (buf == NULL)
        return out_of_memory();

    *out = buf;
    return BIDE_OK;
}

/* A NUL that is not counted follows the last byte, as in a bide_buf: a handler may use text as a
 * string. */
static int read_raw(const void *data, size_t size, const struct bi_alloc *alloc, void **out)
{
    struct arena arena;

    if (size >= UINT32_MAX || bi_arena_init(&arena, alloc, sizeof(bide_slice), size + 1) != BIDE_OK)
        return out_of_memory();

    /* Neither call can fail: the first block has room for both. */
    bide_slice *value = bi_arena_alloc(&arena, sizeof(*value));
    char *bytes = bi_arena_alloc(&arena, size + 1);
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
    bi_arena_free(value);
}
