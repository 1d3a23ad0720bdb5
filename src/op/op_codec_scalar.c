/* SPDX-License-Identifier: MIT */
/*
 * op_codec_scalar - fields that are a number or a run of bytes.
 */
#include "op/op_codec_field.h"
#include "util/message.h"

#include <assert.h>
#include <limits.h>

/* ---- numbers ---- */

bool bi_op_codec_scalar_read_limited(struct op_reader *reader, uint64_t *number, uint64_t max)
{
    if (!read_number(reader, number))
        return false;
    return *number <= max || malformed(reader, "a number is too large for its field");
}

/* ---- fields that are numbers: their codec has the size, the sign and the maximum ---- */

static int64_t load(const struct field_codec *codec, const void *member)
{
    assert(codec->size == sizeof(bool) || codec->size == 4 || codec->size == 8);
    if (codec->size == 8)
        return *(const int64_t *)member;
    if (codec->size == sizeof(bool))
        return *(const bool *)member;
    if (codec->is_signed)
        return *(const int32_t *)member;
    return *(const uint32_t *)member;
}

static void store(const struct field_codec *codec, void *member, uint64_t number)
{
    if (codec->size == 8)
        *(uint64_t *)member = number;
    else if (codec->size == sizeof(bool))
        *(bool *)member = number != 0;
    else
        *(uint32_t *)member = (uint32_t)number;
}

/* One member, or a run of limit consecutive ones. */
static void write_numbers(struct op_writer *writer, const struct field *field, const void *base)
{
    const struct field_codec *codec = field->codec;
    const char *member = const_member_at(base, field->at);

    for (size_t left = field->limit == 0 ? 1 : field->limit; left > 0; left--) {
        int64_t number = load(codec, member);
        if (codec->is_signed)
            write_signed(writer, number);
        else
            /* The public enums have no negative values, but a caller may have stored one. The
             * maximum is another invalid value, which fits the field, and the server rejects it. */
            write_number(writer, (uint64_t)number > codec->max ? codec->max : (uint64_t)number);
        member += codec->size;
    }
}

/* A run may be cut off at the end of its struct: an older side sends fewer members, and the rest is
 * zero. */
static bool read_numbers(struct op_reader *reader, const struct field *field, void *base)
{
    const struct field_codec *codec = field->codec;
    char *member = member_at(base, field->at);

    for (size_t left = field->limit == 0 ? 1 : field->limit; left > 0; left--) {
        int64_t number = 0;
        if (remaining(reader) > 0) {
            if (!(codec->is_signed ? read_signed(reader, &number)
                                   : read_number(reader, (uint64_t *)&number)))
                return false;
            /* The complement of a negative number is not negative: it is compared instead. */
            uint64_t size = (uint64_t)(codec->is_signed && number < 0 ? ~number : number);
            if (size > codec->max)
                return malformed(reader, "a number is too large for its field");
        }
        store(codec, member, (uint64_t)number);
        member += codec->size;
    }
    return true;
}

static void discard_number(const struct field *field, void *base, int code)
{
    (void)code;
    store(field->codec, member_at(base, field->at), 0);
}

/* The zigzag code plus one: 0, as which a missing field is read, leaves the status unchanged. */
static void write_status(struct op_writer *writer, const struct field *field, const void *base)
{
    int64_t code = *(const int *)const_member_at(base, field->at);
    write_number(writer, (((uint64_t)code << 1) ^ (uint64_t)(code >> 63)) + 1);
}

static bool read_status(struct op_reader *reader, const struct field *field, void *base)
{
    uint64_t coded;
    if (!bi_op_codec_scalar_read_limited(reader, &coded, (uint64_t)UINT32_MAX + 1))
        return false;
    if (coded > 0)
        *(int *)member_at(base, field->at) =
            (int)(int64_t)(((coded - 1) >> 1) ^ (0 - ((coded - 1) & 1)));
    return true;
}

/* ---- bytes ---- */

/* Reads a text of fewer than room bytes, or the beginning of a longer one, which ends with a whole
 * character. */
static bool read_string(struct op_reader *reader, char *to, size_t room, bool may_cut)
{
    bide_slice bytes;
    assert(room > 0);
    if (!bi_op_codec_wire_read_bytes(reader, &bytes))
        return false;

    /* Leave room for the terminating NUL, which is not sent. */
    if (bytes.size >= room && !may_cut)
        return malformed(reader, "a text is too long for its field");
    bytes.size = bi_text_utf8_fit(bytes.data, bytes.size, room - 1);
    /* A NUL would cut the text short for C code and not for others. */
    if (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL)
        return malformed(reader, "there is a NUL in a text");

    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    to[bytes.size] = 0;
    return true;
}

static void write_text(struct op_writer *writer, const struct field *field, const void *base)
{
    assert(field->limit > 0); /* the size of the array */
    const char *text = const_member_at(base, field->at);
    write_bytes(writer, text, strnlen(text, field->limit - 1));
}

/* Of a result: a newer server may have more to say than this version has room for. */
static bool read_text(struct op_reader *reader, const struct field *field, void *base)
{
    return read_string(reader, member_at(base, field->at), field->limit, true);
}

/* Rejects control characters: clients print topic names, and a malicious server must not be able to
 * send escape sequences to a terminal. */
static bool read_topic(struct op_reader *reader, const struct field *field, void *base)
{
    if (!read_string(reader, member_at(base, field->at), field->limit, false))
        return false;

    for (const char *name = member_at(base, field->at); *name != 0; name++)
        if (*name <= ' ' || *name > '~')
            return malformed(reader, "the name of a topic contains an invalid character");
    return true;
}

static void write_slice(struct op_writer *writer, const struct field *field, const void *base)
{
    const bide_slice *slice = const_member_at(base, field->at);
    write_bytes(writer, slice->data, slice->size);
}

static bool read_slice(struct op_reader *reader, const struct field *field, void *base)
{
    return bi_op_codec_wire_read_bytes(reader, member_at(base, field->at));
}

static void write_body(struct op_writer *writer, const struct field *field, const void *base)
{
    const bide_buf *buf = pointer_at(base, field->aux[0]);
    if (buf == NULL)
        buf = pointer_at(base, field->aux[1]);

    if (buf == NULL)
        write_slice(writer, field, base);
    else
        write_bytes(writer, bide_buf_data(buf), bide_buf_size(buf));
}

static void write_part(struct op_writer *writer, const struct field *field, const void *base)
{
    write_bytes(writer, pointer_at(base, field->at), size_at(base, field->aux[0]));
}

/* A body that is not sent has its size in a separate field before this one, so the size is set only
 * if there are bytes. */
static bool read_part(struct op_reader *reader, const struct field *field, void *base)
{
    bide_slice bytes;
    if (!bi_op_codec_wire_read_bytes(reader, &bytes))
        return false;

    /* A client copies, because the input buffer is reused. */
    if (bytes.data != NULL && reader->owner == NULL) {
        bide_buf *buf = bide_buf_new(bytes.data, bytes.size);
        if (buf == NULL)
            return out_of_memory(reader);
        *(bide_buf **)member_at(base, field->aux[1]) = buf;
        bytes.data = bide_buf_data(buf);
    }

    set_pointer(base, field->at, bytes.data);
    if (bytes.data != NULL)
        *(size_t *)member_at(base, field->aux[0]) = bytes.size;
    return true;
}

static void write_buf(struct op_writer *writer, const struct field *field, const void *base)
{
    const bide_buf *buf = pointer_at(base, field->at);
    write_bytes(writer, bide_buf_data(buf), bide_buf_size(buf));
}

static bool read_buf(struct op_reader *reader, const struct field *field, void *base)
{
    bide_slice bytes;
    if (!bi_op_codec_wire_read_bytes(reader, &bytes))
        return false;
    bide_buf *buf = bytes.data == NULL ? NULL : bide_buf_new(bytes.data, bytes.size);
    if (bytes.data != NULL && buf == NULL)
        return out_of_memory(reader);
    *(bide_buf **)member_at(base, field->at) = buf;
    return true;
}

static void unref_at(void *base, size_t offset)
{
    bide_buf **buf = member_at(base, offset);
    bide_buf_unref(*buf);
    *buf = NULL;
}

static void discard_buf(const struct field *field, void *base, int code)
{
    (void)code;
    unref_at(base, field->at);
}

static void write_cursor(struct op_writer *writer, const struct field *field, const void *base)
{
    const char *cursor = pointer_at(base, field->at);
    write_bytes(writer, cursor, strnlen(cursor, BIDE_CURSOR_SIZE - 1));
}

static bool read_cursor(struct op_reader *reader, const struct field *field, void *base)
{
    char **cursor = member_at(base, field->at);
    /* A client reads into the array that the caller of a list has passed. */
    if (reader->owner != NULL)
        *cursor = bi_op_codec_wire_alloc(reader->owner, BIDE_CURSOR_SIZE);
    if (*cursor == NULL)
        return out_of_memory(reader);
    return read_string(reader, *cursor, BIDE_CURSOR_SIZE, false);
}

static void write_path(struct op_writer *writer, const struct field *field, const void *base)
{
    const char *path = pointer_at(base, field->at);
    write_bytes(writer, path, strlen(path));
}

static bool read_path(struct op_reader *reader, const struct field *field, void *base)
{
    /* Of arguments only, so there is an owner. */
    bide_slice bytes;
    if (!bi_op_codec_wire_read_bytes(reader, &bytes))
        return false;

    if (bytes.size >= PATH_MAX || (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL))
        return malformed(reader, "a path is too long, or has a NUL in it");

    char *path = bi_op_codec_wire_alloc(reader->owner, bytes.size + 1);
    if (path == NULL)
        return out_of_memory(reader);

    if (bytes.size > 0)
        memcpy(path, bytes.data, bytes.size);
    path[bytes.size] = 0;

    set_pointer(base, field->at, path);
    return true;
}

static void write_feed(struct op_writer *writer, const struct field *field, const void *base)
{
    (void)field;
    (void)base;
    write_number(writer, writer->feed);
}

static bool read_feed(struct op_reader *reader, const struct field *field, void *base)
{
    (void)field;
    (void)base;
    return read_number(reader, &reader->feed);
}

/* ---- arguments of an op that waits ---- */

static void dup_slice(struct args_copy *copy, const struct field *field, void *base)
{
    bide_slice *slice = member_at(base, field->at);
    bi_op_args_visit(copy, &slice->data, slice->size);
}

/* The bytes of a slice are in made_ already. */
static void dup_body(struct args_copy *copy, const struct field *field, void *base)
{
    bi_op_args_visit_buf(copy, pointer_at(base, field->aux[0]));
}

static void dup_part(struct args_copy *copy, const struct field *field, void *base)
{
    bi_op_args_visit(copy, member_at(base, field->at), size_at(base, field->aux[0]));
}

static void dup_path(struct args_copy *copy, const struct field *field, void *base)
{
    bi_op_args_visit(copy, member_at(base, field->at), strlen(pointer_at(base, field->at)) + 1);
}

static void release_body(const struct field *field, void *base)
{
    unref_at(base, field->aux[1]);
}

static void release_made(const struct field *field, void *base)
{
    unref_at(base, field->at);
}

/* ---- results that are discarded ---- */

/* What was rejected retains its own reason. */
static void discard_status(const struct field *field, void *base, int code)
{
    int *status = member_at(base, field->at);
    if (*status == BIDE_OK || *status == BIDE_CANCEL_WANTED)
        *status = code;
}

/* ---- the table ---- */

#define CODEC(name, ...) const struct field_codec bi_op_codec_field_##name = {__VA_ARGS__}

#define NUMBER(name, type, sign, maximum, discard_fn)                                  \
    CODEC(name, .write = write_numbers, .read = read_numbers, .discard = (discard_fn), \
          .size = sizeof(type), .is_signed = (sign), .max = (maximum))

NUMBER(id, uint64_t, false, UINT64_MAX, discard_number);
NUMBER(timeout, int64_t, true, INT64_MAX, NULL);
NUMBER(u32, uint32_t, false, UINT32_MAX, NULL);
NUMBER(u64, uint64_t, false, UINT64_MAX, NULL);
NUMBER(i32, int32_t, true, INT32_MAX, NULL);
NUMBER(i64, int64_t, true, INT64_MAX, NULL);
NUMBER(size, size_t, false, SIZE_MAX, discard_number);
NUMBER(flag, bool, false, 1, NULL);
NUMBER(enum, unsigned, false, INT32_MAX, NULL);
NUMBER(error_item, uint32_t, false, BIDE_BATCH_JOBS, NULL);
CODEC(status, .write = write_status, .read = read_status, .discard = discard_status);
CODEC(text, .write = write_text, .read = read_text);
CODEC(topic, .write = write_text, .read = read_topic);
CODEC(slice, .write = write_slice, .read = read_slice, .dup = dup_slice);
CODEC(changed_topic, .write = write_slice, .read = read_slice, .dup = dup_slice);
CODEC(unused_slice, .write = write_slice, .read = read_slice);
CODEC(body, .write = write_body, .read = read_slice, .dup = dup_body, .release = release_body);
CODEC(part, .write = write_part, .read = read_part, .dup = dup_part);
CODEC(payload, .write = write_part, .read = read_part);
CODEC(made, .release = release_made);
CODEC(buf, .write = write_buf, .read = read_buf, .discard = discard_buf);
CODEC(cursor, .write = write_cursor, .read = read_cursor);
CODEC(path, .write = write_path, .read = read_path, .dup = dup_path);
CODEC(feed, .write = write_feed, .read = read_feed);
