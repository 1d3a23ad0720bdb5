/* SPDX-License-Identifier: MIT */
/*
 * call_plain - fields that are a number or a run of bytes.
 */
#include "backend/call_field.h"

#include <limits.h>

/* ---- numbers ---- */

bool bi_call_read_limited(struct call_reader *reader, uint64_t *number, uint64_t max)
{
    if (!read_number(reader, number))
        return false;
    return *number <= max || nonsense(reader, "a number is too large for its field");
}

static void write_u32(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, *(const uint32_t *)in(base, field->at));
}

static bool read_u32(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!bi_call_read_limited(reader, &number, UINT32_MAX))
        return false;
    *(uint32_t *)at(base, field->at) = (uint32_t)number;
    return true;
}

static void write_u64(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, *(const uint64_t *)in(base, field->at));
}

static bool read_u64(struct call_reader *reader, const struct field *field, void *base)
{
    return read_number(reader, at(base, field->at));
}

static void write_i32(struct call_writer *writer, const struct field *field, const void *base)
{
    write_signed(writer, *(const int32_t *)in(base, field->at));
}

static bool read_i32(struct call_reader *reader, const struct field *field, void *base)
{
    int64_t number;
    if (!read_signed(reader, &number))
        return false;
    if (number < INT32_MIN || number > INT32_MAX)
        return nonsense(reader, "a number is too large for its field");
    *(int32_t *)at(base, field->at) = (int32_t)number;
    return true;
}

static void write_i64(struct call_writer *writer, const struct field *field, const void *base)
{
    write_signed(writer, *(const int64_t *)in(base, field->at));
}

static bool read_i64(struct call_reader *reader, const struct field *field, void *base)
{
    return read_signed(reader, at(base, field->at));
}

/* Several of one type in a row, limit of them. */

static void write_u32s(struct call_writer *writer, const struct field *field, const void *base)
{
    const uint32_t *numbers = in(base, field->at);
    for (size_t i = 0; i < field->limit; i++)
        write_number(writer, numbers[i]);
}

static bool read_u32s(struct call_reader *reader, const struct field *field, void *base)
{
    uint32_t *numbers = at(base, field->at);
    for (size_t i = 0; i < field->limit; i++) {
        uint64_t number = 0;
        if (left(reader) > 0 && !bi_call_read_limited(reader, &number, UINT32_MAX))
            return false;
        numbers[i] = (uint32_t)number;
    }
    return true;
}

static void write_u64s(struct call_writer *writer, const struct field *field, const void *base)
{
    const uint64_t *numbers = in(base, field->at);
    for (size_t i = 0; i < field->limit; i++)
        write_number(writer, numbers[i]);
}

static bool read_u64s(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t *numbers = at(base, field->at);
    for (size_t i = 0; i < field->limit; i++) {
        numbers[i] = 0;
        if (left(reader) > 0 && !read_number(reader, &numbers[i]))
            return false;
    }
    return true;
}

static void write_i64s(struct call_writer *writer, const struct field *field, const void *base)
{
    const int64_t *numbers = in(base, field->at);
    for (size_t i = 0; i < field->limit; i++)
        write_signed(writer, numbers[i]);
}

static bool read_i64s(struct call_reader *reader, const struct field *field, void *base)
{
    int64_t *numbers = at(base, field->at);
    for (size_t i = 0; i < field->limit; i++) {
        numbers[i] = 0;
        if (left(reader) > 0 && !read_signed(reader, &numbers[i]))
            return false;
    }
    return true;
}

static void write_size(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, size_at(base, field->at));
}

static bool read_size(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!bi_call_read_limited(reader, &number, SIZE_MAX))
        return false;
    *(size_t *)at(base, field->at) = (size_t)number;
    return true;
}

static void write_flag(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, *(const bool *)in(base, field->at));
}

static bool read_flag(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!bi_call_read_limited(reader, &number, 1))
        return false;
    *(bool *)at(base, field->at) = number != 0;
    return true;
}

/* The enums of the public headers have no negative values, but an int that is one may stand there:
 * it comes out as another that is none. */
static void write_enum(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, *(const unsigned *)in(base, field->at) & INT32_MAX);
}

static bool read_enum(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!bi_call_read_limited(reader, &number, INT32_MAX))
        return false;
    *(unsigned *)at(base, field->at) = (unsigned)number;
    return true;
}

/* One more than the code, zigzag, so that 0, which a missing field is, is none. */
static void write_status(struct call_writer *writer, const struct field *field, const void *base)
{
    int64_t code = *(const int *)in(base, field->at);
    write_number(writer, (((uint64_t)code << 1) ^ (uint64_t)(code >> 63)) + 1);
}

static bool read_status(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t coded;
    if (!bi_call_read_limited(reader, &coded, (uint64_t)UINT32_MAX + 1))
        return false;
    if (coded > 0)
        *(int *)at(base, field->at) = (int)(int64_t)(((coded - 1) >> 1) ^ (0 - ((coded - 1) & 1)));
    return true;
}

/* ---- bytes ---- */

static bool read_string(struct call_reader *reader, char *to, size_t room)
{
    bide_slice bytes;
    if (!bi_call_read_bytes(reader, &bytes))
        return false;
    if (bytes.size >= room)
        return nonsense(reader, "a text is too long for its field");
    if (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL)
        return nonsense(reader, "there is a NUL in a text");
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    to[bytes.size] = 0;
    return true;
}

static void write_text(struct call_writer *writer, const struct field *field, const void *base)
{
    const char *text = in(base, field->at);
    write_bytes(writer, text, strnlen(text, field->limit - 1));
}

static bool read_text(struct call_reader *reader, const struct field *field, void *base)
{
    return read_string(reader, at(base, field->at), field->limit);
}

/* Whoever shows the name of a topic relies on it to steer no terminal, whoever the server is. */
static bool read_topic(struct call_reader *reader, const struct field *field, void *base)
{
    if (!read_text(reader, field, base))
        return false;
    for (const char *name = at(base, field->at); *name != 0; name++)
        if (*name <= ' ' || *name > '~')
            return nonsense(reader, "a topic has a name that none can have");
    return true;
}

static void write_slice(struct call_writer *writer, const struct field *field, const void *base)
{
    const bide_slice *slice = in(base, field->at);
    write_bytes(writer, slice->data, slice->size);
}

static bool read_slice(struct call_reader *reader, const struct field *field, void *base)
{
    return bi_call_read_bytes(reader, at(base, field->at));
}

static void write_body(struct call_writer *writer, const struct field *field, const void *base)
{
    const bide_buf *buf = pointer_at(base, field->more[0]);
    if (buf == NULL)
        buf = pointer_at(base, field->more[1]);
    if (buf == NULL)
        write_slice(writer, field, base);
    else
        write_bytes(writer, bide_buf_data(buf), bide_buf_size(buf));
}

static void write_part(struct call_writer *writer, const struct field *field, const void *base)
{
    write_bytes(writer, pointer_at(base, field->at), size_at(base, field->more[0]));
}

/* The size of a body that is not there stands in a field of its own, in front. */
static bool read_part(struct call_reader *reader, const struct field *field, void *base)
{
    bide_slice bytes;
    if (!bi_call_read_bytes(reader, &bytes))
        return false;
    if (bytes.data != NULL && reader->owner == NULL) {
        bide_buf *buf = bide_buf_new(bytes.data, bytes.size);
        if (buf == NULL)
            return no_memory(reader);
        *(bide_buf **)at(base, field->more[1]) = buf;
        bytes.data = bide_buf_data(buf);
    }
    set_pointer(base, field->at, bytes.data);
    if (bytes.data != NULL)
        *(size_t *)at(base, field->more[0]) = bytes.size;
    return true;
}

static void write_buf(struct call_writer *writer, const struct field *field, const void *base)
{
    const bide_buf *buf = pointer_at(base, field->at);
    write_bytes(writer, bide_buf_data(buf), bide_buf_size(buf));
}

static bool read_buf(struct call_reader *reader, const struct field *field, void *base)
{
    bide_slice bytes;
    if (!bi_call_read_bytes(reader, &bytes))
        return false;
    bide_buf *buf = bytes.data == NULL ? NULL : bide_buf_new(bytes.data, bytes.size);
    if (bytes.data != NULL && buf == NULL)
        return no_memory(reader);
    *(bide_buf **)at(base, field->at) = buf;
    return true;
}

static void free_buf(const struct field *field, void *base)
{
    bide_buf **buf = at(base, field->at);
    bide_buf_unref(*buf);
    *buf = NULL;
}

static void write_cursor(struct call_writer *writer, const struct field *field, const void *base)
{
    const char *cursor = pointer_at(base, field->at);
    write_bytes(writer, cursor, strnlen(cursor, BIDE_CURSOR_SIZE - 1));
}

static bool read_cursor(struct call_reader *reader, const struct field *field, void *base)
{
    char **cursor = at(base, field->at);
    if (reader->owner != NULL)
        *cursor = bi_call_take(reader->owner, BIDE_CURSOR_SIZE);
    if (*cursor == NULL)
        return no_memory(reader);
    return read_string(reader, *cursor, BIDE_CURSOR_SIZE);
}

static void write_path(struct call_writer *writer, const struct field *field, const void *base)
{
    const char *path = pointer_at(base, field->at);
    write_bytes(writer, path, strlen(path));
}

/* Only of arguments: a server keeps it in memory of the op. */
static bool read_path(struct call_reader *reader, const struct field *field, void *base)
{
    bide_slice bytes;
    if (!bi_call_read_bytes(reader, &bytes))
        return false;
    if (bytes.size >= PATH_MAX || (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL))
        return nonsense(reader, "a path is too long, or has a NUL in it");
    char *path = bi_call_take(reader->owner, bytes.size + 1);
    if (path == NULL)
        return no_memory(reader);
    if (bytes.size > 0)
        memcpy(path, bytes.data, bytes.size);
    path[bytes.size] = 0;
    set_pointer(base, field->at, path);
    return true;
}

static void write_feed(struct call_writer *writer, const struct field *field, const void *base)
{
    (void)field;
    (void)base;
    write_number(writer, writer->feed);
}

static bool read_feed(struct call_reader *reader, const struct field *field, void *base)
{
    (void)field;
    (void)base;
    return read_number(reader, &reader->feed);
}

/* ---- the table ---- */

const struct field_codec bi_field_u32 = {write_u32, read_u32, NULL};
const struct field_codec bi_field_u64 = {write_u64, read_u64, NULL};
const struct field_codec bi_field_i32 = {write_i32, read_i32, NULL};
const struct field_codec bi_field_i64 = {write_i64, read_i64, NULL};
const struct field_codec bi_field_u32s = {write_u32s, read_u32s, NULL};
const struct field_codec bi_field_u64s = {write_u64s, read_u64s, NULL};
const struct field_codec bi_field_i64s = {write_i64s, read_i64s, NULL};
const struct field_codec bi_field_size = {write_size, read_size, NULL};
const struct field_codec bi_field_flag = {write_flag, read_flag, NULL};
const struct field_codec bi_field_enum = {write_enum, read_enum, NULL};
const struct field_codec bi_field_status = {write_status, read_status, NULL};
const struct field_codec bi_field_text = {write_text, read_text, NULL};
const struct field_codec bi_field_slice = {write_slice, read_slice, NULL};
const struct field_codec bi_field_topic = {write_text, read_topic, NULL};
const struct field_codec bi_field_body = {write_body, read_slice, NULL};
const struct field_codec bi_field_part = {write_part, read_part, NULL};
const struct field_codec bi_field_buf = {write_buf, read_buf, free_buf};
const struct field_codec bi_field_cursor = {write_cursor, read_cursor, NULL};
const struct field_codec bi_field_path = {write_path, read_path, NULL};
const struct field_codec bi_field_feed = {write_feed, read_feed, NULL};
