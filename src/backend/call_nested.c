/* SPDX-License-Identifier: MIT */
/*
 * call_nested - fields that are structs, lists of them, or room for them.
 */
#include "backend/call_field.h"

/* A struct within another takes at least its length, a topic at least a byte. */
#define STRUCT_MIN LENGTH_SIZE
#define TOPIC_MIN  1

/* ---- structs ---- */

static void write_inner(struct call_writer *writer, const struct shape *shape, const void *base)
{
    size_t opened = bi_call_open(writer);
    bi_fields_write(writer, shape, base);
    bi_call_close(writer, opened);
}

static bool read_inner(struct call_reader *reader, const struct shape *shape, void *base)
{
    const unsigned char *outer;
    if (!bi_call_enter(reader, &outer))
        return false;
    if (!bi_fields_read(reader, shape, base))
        return false;
    leave(reader, outer);
    return true;
}

/* A struct of which nothing is known yet. */
static bool read_whole(struct call_reader *reader, const struct shape *shape, void *base)
{
    memset(base, 0, shape->size);
    if (shape->sized)
        *(size_t *)base = shape->size;
    if (read_inner(reader, shape, base))
        return true;
    if (shape->clear != NULL)
        shape->clear(base);
    return false;
}

static void write_struct(struct call_writer *writer, const struct field *field, const void *base)
{
    write_inner(writer, field->shape, in(base, field->at));
}

static bool read_struct(struct call_reader *reader, const struct field *field, void *base)
{
    return read_inner(reader, field->shape, at(base, field->at));
}

static void write_pointed(struct call_writer *writer, const struct field *field, const void *base)
{
    const void *pointed = pointer_at(base, field->at);
    write_number(writer, pointed != NULL);
    if (pointed != NULL)
        write_inner(writer, field->shape, pointed);
}

static bool read_pointed(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t there;
    if (!bi_call_read_limited(reader, &there, 1))
        return false;
    if (there == 0)
        return true;
    void *pointed = bi_call_take(reader->owner, field->shape->size);
    if (pointed == NULL)
        return no_memory(reader);
    set_pointer(base, field->at, pointed);
    return read_whole(reader, field->shape, pointed);
}

static void write_nothing(struct call_writer *writer, const struct field *field, const void *base)
{
    (void)writer;
    (void)field;
    (void)base;
}

static bool read_space(struct call_reader *reader, const struct field *field, void *base)
{
    void *space = bi_call_take(reader->owner, field->shape->size);
    if (space == NULL)
        return no_memory(reader);
    set_pointer(base, field->at, space);
    return true;
}

static void write_one(struct call_writer *writer, const struct field *field, const void *base)
{
    write_inner(writer, field->shape, pointer_at(base, field->at));
}

static bool read_one(struct call_reader *reader, const struct field *field, void *base)
{
    return read_whole(reader, field->shape, pointer_at(base, field->at));
}

static void free_one(const struct field *field, void *base)
{
    if (field->shape->clear != NULL)
        field->shape->clear(pointer_at(base, field->at));
}

/* ---- lists ---- */

/* The count of a list whose items take at least so many bytes each. */
static bool read_count(struct call_reader *reader, size_t *count, size_t max, size_t item_min)
{
    uint64_t number;
    if (!read_number(reader, &number))
        return false;
    if (number > max)
        return nonsense(reader, "a list has more items than are allowed");
    if (number > left(reader) / item_min)
        return nonsense(reader, "the bytes end within a list");
    *count = (size_t)number;
    return true;
}

static bool read_weights(struct call_reader *reader, bide_reserve_args *args)
{
    uint64_t there;
    if (!bi_call_read_limited(reader, &there, 1))
        return false;
    if (there == 0)
        return true;
    uint32_t *weights = bi_call_take(reader->owner, args->topic_count * sizeof(*weights));
    if (weights == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < args->topic_count; i++) {
        uint64_t weight;
        if (!bi_call_read_limited(reader, &weight, UINT32_MAX))
            return false;
        weights[i] = (uint32_t)weight;
    }
    args->weights = weights;
    return true;
}

static void write_topics(struct call_writer *writer, const struct field *field, const void *base)
{
    const bide_reserve_args *args = in(base, field->at);
    write_number(writer, args->topic_count);
    for (size_t i = 0; i < args->topic_count; i++)
        write_bytes(writer, args->topics[i].data, args->topics[i].size);
    write_number(writer, args->weights != NULL);
    for (size_t i = 0; args->weights != NULL && i < args->topic_count; i++)
        write_number(writer, args->weights[i]);
}

static bool read_topics(struct call_reader *reader, const struct field *field, void *base)
{
    bide_reserve_args *args = at(base, field->at);
    if (!read_count(reader, &args->topic_count, field->limit, TOPIC_MIN))
        return false;
    bide_slice *topics = bi_call_take(reader->owner, args->topic_count * sizeof(*topics));
    if (topics == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < args->topic_count; i++)
        if (!bi_call_read_bytes(reader, &topics[i]))
            return false;
    args->topics = reader->owner->topics = topics;
    return read_weights(reader, args);
}

static int status_of(const struct shape *shape, const void *item)
{
    return *(const int *)in(item, shape->status);
}

/* An item that is refused already travels as nothing at all: every field of it is missing. */
static void write_items(struct call_writer *writer, const struct field *field, const void *base)
{
    const struct shape *shape = field->shape;
    const char *item = pointer_at(base, field->at);
    size_t count = size_at(base, field->more[0]);
    write_number(writer, count);
    for (size_t i = 0; i < count; i++, item += shape->size) {
        if (status_of(shape, item) == BIDE_OK)
            write_inner(writer, shape, item);
        else
            bi_call_close(writer, bi_call_open(writer));
    }
}

static bool read_items(struct call_reader *reader, const struct field *field, void *base)
{
    const struct shape *shape = field->shape;
    size_t *count = at(base, field->more[0]);
    if (!read_count(reader, count, field->limit, STRUCT_MIN))
        return false;
    char *item = bi_call_take(reader->owner, *count * shape->size);
    if (item == NULL)
        return no_memory(reader);
    set_pointer(base, field->at, item);
    for (size_t i = 0; i < *count; i++, item += shape->size)
        if (!read_whole(reader, shape, item))
            return false;
    return true;
}

/* What became of an item: its status, and more if that is good. */
static bool is_good(const struct shape *shape, const void *item)
{
    int status = status_of(shape, item);
    return shape->good != NULL && (status == BIDE_OK || status == shape->also);
}

static void write_outcome(struct call_writer *writer, const struct shape *shape, const void *item)
{
    size_t opened = bi_call_open(writer);
    bi_fields_write(writer, shape, item);
    if (is_good(shape, item))
        bi_fields_write(writer, shape->good, item);
    bi_call_close(writer, opened);
}

/* An item that was refused before it was sent keeps its status. */
static bool read_outcome(struct call_reader *reader, const struct shape *shape, void *item)
{
    bool sent = status_of(shape, item) == BIDE_OK;
    const unsigned char *outer;
    if (!bi_call_enter(reader, &outer))
        return false;
    if (sent && !bi_fields_read(reader, shape, item))
        return false;
    if (sent && is_good(shape, item) && !bi_fields_read(reader, shape->good, item))
        return false;
    leave(reader, outer);
    return true;
}

static void write_outcomes(struct call_writer *writer, const struct field *field, const void *base)
{
    const struct shape *shape = field->shape;
    const char *item = pointer_at(base, field->at);
    size_t count = size_at(base, field->more[0]);
    write_number(writer, count);
    for (size_t i = 0; i < count; i++, item += shape->size)
        write_outcome(writer, shape, item);
}

/* Those of all items, or of none. */
static bool read_outcomes(struct call_reader *reader, const struct field *field, void *base)
{
    const struct shape *shape = field->shape;
    char *item = pointer_at(base, field->at);
    size_t expected = size_at(base, field->more[0]);
    size_t count;
    if (!read_count(reader, &count, expected, STRUCT_MIN))
        return false;
    if (count != 0 && count != expected)
        return nonsense(reader, "the answer is about some of the items only");
    for (size_t i = 0; i < count; i++, item += shape->size)
        if (!read_outcome(reader, shape, item))
            return false;
    return true;
}

static void write_room(struct call_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, size_at(base, field->more[0]));
}

static bool read_room(struct call_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!read_number(reader, &number))
        return false;
    if (number > field->limit)
        return nonsense(reader, "more is asked for than one call may answer");
    *(size_t *)at(base, field->more[0]) = (size_t)number;
    if (number == 0)
        return true;
    void *room = bi_call_take(reader->owner, (size_t)number * field->shape->size);
    if (room == NULL)
        return no_memory(reader);
    set_pointer(base, field->at, room);
    return true;
}

static void write_list(struct call_writer *writer, const struct field *field, const void *base)
{
    const struct shape *shape = field->shape;
    const char *item = pointer_at(base, field->at);
    size_t count = size_at(base, field->more[1]);
    write_number(writer, count);
    for (size_t i = 0; i < count; i++, item += shape->size)
        write_inner(writer, shape, item);
}

static void clear_items(const struct shape *shape, char *items, size_t count)
{
    for (size_t i = 0; shape->clear != NULL && i < count; i++)
        shape->clear(items + i * shape->size);
}

static bool read_list(struct call_reader *reader, const struct field *field, void *base)
{
    const struct shape *shape = field->shape;
    char *items = pointer_at(base, field->at);
    size_t count;
    if (!read_count(reader, &count, size_at(base, field->more[0]), STRUCT_MIN))
        return false;
    if (count < field->limit)
        return nonsense(reader, "the answer is good, and nothing is in it");
    for (size_t i = 0; i < count; i++)
        if (!read_whole(reader, shape, items + i * shape->size)) {
            clear_items(shape, items, i);
            return false;
        }
    *(size_t *)at(base, field->more[1]) = count;
    return true;
}

static void free_list(const struct field *field, void *base)
{
    size_t *count = at(base, field->more[1]);
    clear_items(field->shape, pointer_at(base, field->at), *count);
    *count = 0;
}

/* ---- the table ---- */

const struct field_codec bi_field_struct = {write_struct, read_struct, NULL};
const struct field_codec bi_field_pointed = {write_pointed, read_pointed, NULL};
const struct field_codec bi_field_topics = {write_topics, read_topics, NULL};
const struct field_codec bi_field_items = {write_items, read_items, NULL};
const struct field_codec bi_field_outcomes = {write_outcomes, read_outcomes, NULL};
const struct field_codec bi_field_space = {write_nothing, read_space, NULL};
const struct field_codec bi_field_one = {write_one, read_one, free_one};
const struct field_codec bi_field_room = {write_room, read_room, NULL};
const struct field_codec bi_field_list = {write_list, read_list, free_list};

/* ---- all fields of a struct ---- */

void bi_fields_write(struct call_writer *writer, const struct shape *shape, const void *base)
{
    for (size_t i = 0; i < shape->count; i++)
        shape->fields[i].codec->write(writer, &shape->fields[i], base);
}

/* Every field reads no more than these when it is missing: a zero, or a struct without fields. */
static const unsigned char missing[LENGTH_SIZE];

static bool read_missing(struct call_reader *reader, const struct field *field, void *base)
{
    const unsigned char *end = reader->end;
    reader->at = missing;
    reader->end = missing + sizeof(missing);
    bool read = field->codec->read(reader, field, base);
    reader->at = reader->end = end;
    return read;
}

static void free_some(const struct shape *shape, size_t count, void *base)
{
    for (const struct field *field = shape->fields; count > 0; field++, count--)
        if (field->codec->free != NULL)
            field->codec->free(field, base);
}

bool bi_fields_read(struct call_reader *reader, const struct shape *shape, void *base)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *field = &shape->fields[i];
        bool read = reader->at == reader->end ? read_missing(reader, field, base)
                                              : field->codec->read(reader, field, base);
        if (read)
            continue;
        if (reader->owner == NULL)
            free_some(shape, i, base);
        return false;
    }
    return true;
}

void bi_fields_free(const struct shape *shape, void *base)
{
    free_some(shape, shape->count, base);
}
