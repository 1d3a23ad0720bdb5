/* SPDX-License-Identifier: MIT */
/*
 * op_codec_nested - fields that are structs, lists of structs, or room for them.
 */
#include "op/op_codec_field.h"

#include <assert.h>

/* The least bytes of an encoded item. They bound a count by the bytes that are left, so that a
 * short message cannot make the server allocate a long list. */
#define STRUCT_MIN LENGTH_SIZE
#define TOPIC_MIN  1

/* ---- structs ---- */

static void write_struct_body(struct op_writer *writer, const struct layout *layout,
                              const void *base)
{
    size_t start = bi_op_codec_wire_begin_struct(writer);
    bi_op_codec_nested_write_fields(writer, layout, base);
    bi_op_codec_wire_end_struct(writer, start);
}

static bool read_struct_body(struct op_reader *reader, const struct layout *layout, void *base)
{
    const unsigned char *outer;
    if (!bi_op_codec_wire_enter_struct(reader, &outer))
        return false;
    if (!bi_op_codec_nested_read_fields(reader, layout, base))
        return false;
    /* A newer peer may have sent fields that this version does not know. */
    leave_struct(reader, outer);
    return true;
}

/* Reads a struct into uninitialized memory. On failure it holds nothing. */
static bool read_new_struct(struct op_reader *reader, const struct layout *layout, void *base)
{
    memset(base, 0, layout->size);
    if (layout->has_size_member)
        *(size_t *)base = layout->size;

    if (read_struct_body(reader, layout, base))
        return true;

    if (layout->clear != NULL)
        layout->clear(base);
    return false;
}

static void write_struct(struct op_writer *writer, const struct field *field, const void *base)
{
    write_struct_body(writer, field->layout, const_member_at(base, field->at));
}

static bool read_struct(struct op_reader *reader, const struct field *field, void *base)
{
    return read_struct_body(reader, field->layout, member_at(base, field->at));
}

static void write_pointed(struct op_writer *writer, const struct field *field, const void *base)
{
    const void *pointed = pointer_at(base, field->at);
    /* NULL is distinct from a struct of zeros: options that are NULL mean the defaults. */
    write_number(writer, pointed != NULL);
    if (pointed != NULL)
        write_struct_body(writer, field->layout, pointed);
}

/* Lets a pointer of the op point to new memory, which lives as long as the op. It is not
 * initialized. NULL when out of memory. */
static void *alloc_at(struct op_reader *reader, const struct field *field, void *base, size_t size)
{
    assert(reader->owner != NULL); /* only a server allocates what arguments point to */
    void *memory = bi_op_codec_wire_alloc(reader->owner, size);
    if (memory == NULL)
        out_of_memory(reader);
    else
        set_pointer(base, field->at, memory);
    return memory;
}

static bool read_pointed(struct op_reader *reader, const struct field *field, void *base)
{
    uint64_t present;
    if (!bi_op_codec_scalar_read_limited(reader, &present, 1))
        return false;
    if (present == 0)
        return true;

    void *pointed = alloc_at(reader, field, base, field->layout->size);
    return pointed != NULL && read_new_struct(reader, field->layout, pointed);
}

/* The op fills it when it succeeds, and only then is it read. */
static bool read_space(struct op_reader *reader, const struct field *field, void *base)
{
    return alloc_at(reader, field, base, field->layout->size) != NULL;
}

static void write_one(struct op_writer *writer, const struct field *field, const void *base)
{
    write_struct_body(writer, field->layout, pointer_at(base, field->at));
}

static bool read_one(struct op_reader *reader, const struct field *field, void *base)
{
    return read_new_struct(reader, field->layout, pointer_at(base, field->at));
}

/* ---- lists ---- */

/* Reads the count of a list whose items take at least item_min bytes each. */
static bool read_count(struct op_reader *reader, size_t *count, size_t max, size_t item_min)
{
    uint64_t number;
    if (!read_number(reader, &number))
        return false;

    if (number > max)
        return malformed(reader, "a list has more items than are allowed");
    if (number > remaining(reader) / item_min)
        return malformed(reader, "the bytes end within a list");

    *count = (size_t)number;
    return true;
}

static bool read_weights(struct op_reader *reader, bide_reserve_args *args)
{
    uint64_t present;
    if (!bi_op_codec_scalar_read_limited(reader, &present, 1))
        return false;
    if (present == 0)
        return true;

    uint32_t *weights = bi_op_codec_wire_alloc(reader->owner, args->topic_count * sizeof(*weights));
    if (weights == NULL)
        return out_of_memory(reader);

    for (size_t i = 0; i < args->topic_count; i++) {
        uint64_t weight;
        if (!bi_op_codec_scalar_read_limited(reader, &weight, UINT32_MAX))
            return false;
        weights[i] = (uint32_t)weight;
    }

    args->weights = weights;
    return true;
}

static void write_topics(struct op_writer *writer, const struct field *field, const void *base)
{
    const bide_reserve_args *args = const_member_at(base, field->at);
    write_number(writer, args->topic_count);
    for (size_t i = 0; i < args->topic_count; i++)
        write_bytes(writer, args->topics[i].data, args->topics[i].size);
    write_number(writer, args->weights != NULL);
    for (size_t i = 0; args->weights != NULL && i < args->topic_count; i++)
        write_number(writer, args->weights[i]);
}

static bool read_topics(struct op_reader *reader, const struct field *field, void *base)
{
    bide_reserve_args *args = member_at(base, field->at);
    if (!read_count(reader, &args->topic_count, field->limit, TOPIC_MIN))
        return false;

    bide_slice *topics = bi_op_codec_wire_alloc(reader->owner, args->topic_count * sizeof(*topics));
    if (topics == NULL)
        return out_of_memory(reader);

    for (size_t i = 0; i < args->topic_count; i++)
        if (!bi_op_codec_wire_read_bytes(reader, &topics[i]))
            return false;

    /* bi_op_codec_dup_topics() needs its own pointer: the queue may redirect args->topics to a
     * copy. */
    args->topics = reader->owner->topics = topics;
    return read_weights(reader, args);
}

static int status_of(const struct layout *layout, const void *item)
{
    assert(layout->status > 0); /* only items have a status, and it is never their first member */
    return *(const int *)const_member_at(item, layout->status);
}

/* Whether the outcome of an item has fields besides its status. */
static bool is_success(const struct layout *layout, const void *item)
{
    if (layout->results_ok == NULL)
        return false;

    int status = status_of(layout, item);
    return status == BIDE_OK || status == layout->alt_ok;
}

/* Writes the items of an op, their outcomes, or a list of results. An item that was rejected
 * locally is sent as an empty struct, so that the positions of all others stay the same. */
static void write_items(struct op_writer *writer, const struct field *field, const void *base)
{
    bool arguments = field->codec == &bi_op_codec_field_items;
    const struct layout *layout = field->layout;
    const char *item = pointer_at(base, field->at);
    size_t count = size_at(base, field->aux[0]);

    write_number(writer, count);
    for (size_t i = 0; i < count; i++, item += layout->size) {
        size_t start = bi_op_codec_wire_begin_struct(writer);
        if (!arguments || status_of(layout, item) == BIDE_OK)
            bi_op_codec_nested_write_fields(writer, layout, item);
        if (!arguments && is_success(layout, item))
            bi_op_codec_nested_write_fields(writer, layout->results_ok, item);
        bi_op_codec_wire_end_struct(writer, start);
    }
}

static bool read_items(struct op_reader *reader, const struct field *field, void *base)
{
    const struct layout *layout = field->layout;
    size_t *count = member_at(base, field->aux[0]);
    if (!read_count(reader, count, field->limit, STRUCT_MIN))
        return false;

    char *item = alloc_at(reader, field, base, *count * layout->size);
    if (item == NULL)
        return false;

    for (size_t i = 0; i < *count; i++, item += layout->size)
        if (!read_new_struct(reader, layout, item))
            return false;
    return true;
}

/* An item that was rejected before it was sent retains its status. */
static bool read_outcome(struct op_reader *reader, const struct layout *layout, void *item)
{
    bool sent = status_of(layout, item) == BIDE_OK;
    const unsigned char *outer;

    if (!bi_op_codec_wire_enter_struct(reader, &outer))
        return false;

    if (sent && !bi_op_codec_nested_read_fields(reader, layout, item))
        return false;
    if (sent && is_success(layout, item) &&
        !bi_op_codec_nested_read_fields(reader, layout->results_ok, item))
        return false;

    leave_struct(reader, outer);
    return true;
}

/* The reply has the outcomes of all items, or of none if the op failed as a whole. */
static bool read_outcomes(struct op_reader *reader, const struct field *field, void *base)
{
    const struct layout *layout = field->layout;
    char *item = pointer_at(base, field->at);
    size_t expected = size_at(base, field->aux[0]);
    size_t count;

    if (!read_count(reader, &count, expected, STRUCT_MIN))
        return false;
    if (count != 0 && count != expected)
        return malformed(reader, "the reply does not cover all items");

    for (size_t i = 0; i < count; i++, item += layout->size)
        if (!read_outcome(reader, layout, item))
            return false;
    return true;
}

static void write_room(struct op_writer *writer, const struct field *field, const void *base)
{
    write_number(writer, size_at(base, field->aux[1]));
}

static bool read_room(struct op_reader *reader, const struct field *field, void *base)
{
    uint64_t number;
    if (!read_number(reader, &number))
        return false;
    if (number > field->limit)
        return malformed(reader, "more items are requested than one call may return");

    *(size_t *)member_at(base, field->aux[1]) = (size_t)number;
    return number == 0 || alloc_at(reader, field, base, (size_t)number * field->layout->size);
}

static void clear_items(const struct layout *layout, char *items, size_t count)
{
    for (size_t i = 0; layout->clear != NULL && i < count; i++)
        layout->clear(items + i * layout->size);
}

static bool read_list(struct op_reader *reader, const struct field *field, void *base)
{
    const struct layout *layout = field->layout;
    char *items = pointer_at(base, field->at);
    size_t count;

    /* A server must not return more than the caller has room for. */
    if (!read_count(reader, &count, size_at(base, field->aux[1]), STRUCT_MIN))
        return false;
    /* A reserve that succeeds without a job would break its callers. */
    if (count < field->limit)
        return malformed(reader, "the reply reports success and contains no job");

    for (size_t i = 0; i < count; i++)
        if (!read_new_struct(reader, layout, items + i * layout->size)) {
            clear_items(layout, items, i);
            return false;
        }

    /* Set last: after a failure the caller must find no jobs. */
    *(size_t *)member_at(base, field->aux[0]) = count;
    return true;
}

/* ---- copying, releasing, discarding ---- */

static void discard_list(const struct field *field, void *base, int code)
{
    (void)code;
    size_t *count = member_at(base, field->aux[0]);
    clear_items(field->layout, pointer_at(base, field->at), *count);
    *count = 0;
}

static void discard_one(const struct field *field, void *base, int code)
{
    (void)code;
    clear_items(field->layout, pointer_at(base, field->at), 1);
}

/* An item that has failed itself retains its results: with BIDE_EXISTS, the holder of the key. */
static void discard_outcomes(const struct field *field, void *base, int code)
{
    const struct layout *layout = field->layout;
    char *item = pointer_at(base, field->at);
    size_t count = size_at(base, field->aux[0]);

    for (size_t i = 0; i < count; i++, item += layout->size) {
        if (layout->results_ok != NULL && status_of(layout, item) == BIDE_OK)
            bi_op_codec_nested_discard_fields(layout->results_ok, item, code);
        bi_op_codec_nested_discard_fields(layout, item, code);
    }
}

/* The items of a list, or the embedded struct as the only one. */
static char *first_item(const struct field *field, void *base, size_t *count)
{
    bool list = field->codec == &bi_op_codec_field_items;
    *count = list ? size_at(base, field->aux[0]) : 1;
    return list ? pointer_at(base, field->at) : member_at(base, field->at);
}

/* The items of a list stay where they are, because they get results; only what they point to is
 * copied. An item that was rejected may point to anything, and is not used. */
static void dup_items(struct args_copy *copy, const struct field *field, void *base)
{
    const struct layout *layout = field->layout;
    bool list = field->codec == &bi_op_codec_field_items;
    size_t count;
    char *item = first_item(field, base, &count);

    for (; count > 0; count--, item += layout->size)
        if (!list || status_of(layout, item) == BIDE_OK)
            bi_op_codec_nested_dup_fields(copy, layout, item);
}

static void release_items(const struct field *field, void *base)
{
    size_t count;
    char *item = first_item(field, base, &count);
    for (; count > 0; count--, item += field->layout->size)
        bi_op_codec_nested_release_fields(field->layout, item);
}

/* The pointers that are redirected are those in the copy: the caller's struct is never written. */
static void dup_pointed(struct args_copy *copy, const struct field *field, void *base)
{
    void *pointed = bi_op_args_visit(copy, member_at(base, field->at), field->layout->size);
    if (pointed != NULL)
        bi_op_codec_nested_dup_fields(copy, field->layout, pointed);
}

static void dup_topics(struct args_copy *copy, const struct field *field, void *base)
{
    bide_reserve_args *args = member_at(base, field->at);
    size_t count = args->topic_count;
    bide_slice *topics = bi_op_args_visit(copy, &args->topics, count * sizeof(*topics));
    for (size_t i = 0; topics != NULL && i < count; i++)
        bi_op_args_visit(copy, &topics[i].data, topics[i].size);
    bi_op_args_visit(copy, &args->weights, count * sizeof(*args->weights));
}

/* ---- the table ---- */

#define CODEC(name, ...) const struct field_codec bi_op_codec_field_##name = {__VA_ARGS__}

CODEC(struct, .write = write_struct, .read = read_struct, .dup = dup_items,
      .release = release_items);
CODEC(pointed, .write = write_pointed, .read = read_pointed, .dup = dup_pointed);
CODEC(restored, .write = write_pointed, .read = read_pointed, .dup = dup_pointed);
CODEC(topics, .write = write_topics, .read = read_topics, .dup = dup_topics);
CODEC(items, .write = write_items, .read = read_items, .dup = dup_items, .release = release_items);
CODEC(outcomes, .write = write_items, .read = read_outcomes, .discard = discard_outcomes);
CODEC(space, .read = read_space);
CODEC(one, .write = write_one, .read = read_one, .discard = discard_one);
CODEC(room, .write = write_room, .read = read_room);
CODEC(list, .write = write_items, .read = read_list, .discard = discard_list);

/* ---- all fields of a struct ---- */

void bi_op_codec_nested_write_fields(struct op_writer *writer, const struct layout *layout,
                                     const void *base)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->fields[i].codec->write != NULL)
            layout->fields[i].codec->write(writer, &layout->fields[i], base);
}

/* A missing field is read from these bytes: a zero, or the length of an empty struct. No codec
 * reads more than that when they are zero. */
static const unsigned char missing_field[LENGTH_SIZE];

static void discard_some(const struct layout *layout, size_t count, void *base, int code)
{
    for (const struct field *field = layout->fields; count > 0; field++, count--)
        if (field->codec->discard != NULL)
            field->codec->discard(field, base, code);
}

bool bi_op_codec_nested_read_fields(struct op_reader *reader, const struct layout *layout,
                                    void *base)
{
    for (size_t i = 0; i < layout->count; i++) {
        const struct field *field = &layout->fields[i];
        const unsigned char *end = reader->end;
        if (field->codec->read == NULL)
            continue;

        /* At the end of the struct all further fields are missing: an older peer does not know
         * them. */
        bool missing = reader->at == end;
        if (missing) {
            reader->at = missing_field;
            reader->end = missing_field + sizeof(missing_field);
        }
        bool read = field->codec->read(reader, field, base);
        if (missing)
            reader->at = reader->end = end;
        if (read)
            continue;

        /* A server borrows bytes and frees its blocks as a whole. A client frees the fields that it
         * has read. */
        if (reader->owner == NULL)
            discard_some(layout, i, base, BIDE_OK);
        return false;
    }
    return true;
}

void bi_op_codec_nested_dup_fields(struct args_copy *copy, const struct layout *layout, void *base)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->fields[i].codec->dup != NULL)
            layout->fields[i].codec->dup(copy, &layout->fields[i], base);
}

void bi_op_codec_nested_release_fields(const struct layout *layout, void *base)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->fields[i].codec->release != NULL)
            layout->fields[i].codec->release(&layout->fields[i], base);
}

void bi_op_codec_nested_discard_fields(const struct layout *layout, void *base, int code)
{
    discard_some(layout, layout->count, base, code);
}
