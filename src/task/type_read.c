/* SPDX-License-Identifier: MIT */
/*
 * type_read - JSON becomes a struct.
 *
 * jansson makes a tree of the text; the tree is walked along the description, and what is not
 * described is never looked at. Everything that the struct points to is copied into one arena.
 */
#include "task/arena.h"
#include "task/base64.h"
#include "task/trail.h"
#include "task/type.h"

#include "queue/queue.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MORE_MAX ((size_t)4096) /* of memory that is got ahead, for texts and nested structs */

static int read_struct(struct arena *arena, const struct trail *at, const bide_type *type,
                       const json_t *json, void *to);

static int no_memory(void)
{
    return bi_error_set(BIDE_ENOMEM, "%s", bide_code_text(BIDE_ENOMEM));
}

/* ---- what is wanted, and what is there ---- */

static const char *name_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

static int unlike(const struct trail *at, const char *wanted, const json_t *json)
{
    return bi_trail_refuse(at, "%s is wanted, and this is %s", wanted, name_of(json));
}

/* ---- single values ---- */

static int read_bool(const struct trail *at, const json_t *json, void *to)
{
    if (!json_is_boolean(json))
        return unlike(at, "true or false", json);
    bool value = json_is_true(json);
    memcpy(to, &value, sizeof(value));
    return BIDE_OK;
}

/* A JSON integer, a real without a fraction, or digits in a string. */
static int read_whole(const struct trail *at, const json_t *json, struct whole *number)
{
    if (json_is_integer(json)) {
        json_int_t value = json_integer_value(json);
        uint64_t bits = (uint64_t)value;
        *number = (struct whole){value < 0, false, value < 0 ? 0 - bits : bits};
        return BIDE_OK;
    }
    if (json_is_real(json)) {
        if (bi_number_of_real(json_real_value(json), number))
            return BIDE_OK;
        return bi_trail_refuse(at, "%.17g is not a whole number, or too large to be exact",
                               json_real_value(json));
    }
    if (!json_is_string(json))
        return unlike(at, "a whole number", json);
    if (bi_number_parse(json_string_value(json), json_string_length(json), number))
        return BIDE_OK;
    return bi_trail_refuse(at,
                           "a whole number is wanted, and this is a string of other than digits");
}

static int read_integer(const struct trail *at, const bide_field *field, const json_t *json,
                        void *to)
{
    struct whole number = {0};
    int code = read_whole(at, json, &number);
    if (code != BIDE_OK)
        return code;
    int side = bi_number_set(field->kind, field->size, to, number);
    if (side == 0)
        return BIDE_OK;
    char text[BI_WHOLE_TEXT], limit[BI_WHOLE_TEXT];
    bi_number_text(bi_number_limit(field->kind, field->size, side < 0), limit);
    const char *shown =
        json_is_string(json) ? json_string_value(json) : bi_number_text(number, text);
    return bi_trail_refuse(at, "%.30s is %s than %s", shown, side < 0 ? "less" : "more", limit);
}

static int read_double(const struct trail *at, const bide_field *field, const json_t *json,
                       void *to)
{
    if (!json_is_number(json))
        return unlike(at, "a number", json);
    double value = json_number_value(json);
    if (field->size == sizeof(value)) {
        memcpy(to, &value, sizeof(value));
        return BIDE_OK;
    }
    float narrow = (float)value;
    if (!isfinite(narrow))
        return bi_trail_refuse(at, "%.17g is too large for a float", value);
    memcpy(to, &narrow, sizeof(narrow));
    return BIDE_OK;
}

static int check_text(const struct trail *at, const json_t *json)
{
    if (!json_is_string(json))
        return unlike(at, "a string", json);
    if (strlen(json_string_value(json)) != json_string_length(json))
        return bi_trail_refuse(at, "there is a \\u0000 in the text");
    return BIDE_OK;
}

static int read_text(struct arena *arena, const struct trail *at, const json_t *json, void *to)
{
    int code = check_text(at, json);
    if (code != BIDE_OK)
        return code;
    size_t size = json_string_length(json) + 1;
    char *text = bi_arena_get(arena, size);
    if (text == NULL)
        return no_memory();
    memcpy(text, json_string_value(json), size);
    memcpy(to, &text, sizeof(text));
    return BIDE_OK;
}

static int read_chars(const struct trail *at, const bide_field *field, const json_t *json, void *to)
{
    int code = check_text(at, json);
    if (code != BIDE_OK)
        return code;
    size_t length = json_string_length(json);
    if (length >= field->size)
        return bi_trail_refuse(at, "the text has %zu bytes; %zu are allowed", length,
                               field->size - 1);
    memcpy(to, json_string_value(json), length + 1);
    return BIDE_OK;
}

static int read_bytes(struct arena *arena, const struct trail *at, const json_t *json, void *to)
{
    bide_slice slice;
    if (!json_is_string(json))
        return unlike(at, "a string", json);
    const char *text = json_string_value(json);
    size_t length = json_string_length(json);
    if (!bi_base64_size(text, length, &slice.size))
        return bi_trail_refuse(at, "the text is not base64");
    /* Bytes that are there and empty are not the same as none. */
    void *bytes = bi_arena_get(arena, slice.size + 1);
    if (bytes == NULL)
        return no_memory();
    if (!bi_base64_read(text, length, bytes))
        return bi_trail_refuse(at, "the text is not base64");
    slice.data = bytes;
    memcpy(to, &slice, sizeof(slice));
    return BIDE_OK;
}

static int read_value(struct arena *arena, const struct trail *at, const bide_field *field,
                      const json_t *json, void *to)
{
    switch (field->kind) {
    case BIDE_KIND_BOOL:
        return read_bool(at, json, to);
    case BIDE_KIND_INT:
    case BIDE_KIND_UINT:
        return read_integer(at, field, json, to);
    case BIDE_KIND_DOUBLE:
        return read_double(at, field, json, to);
    case BIDE_KIND_TEXT:
        return read_text(arena, at, json, to);
    case BIDE_KIND_CHARS:
        return read_chars(at, field, json, to);
    case BIDE_KIND_BYTES:
        return read_bytes(arena, at, json, to);
    default:
        return read_struct(arena, at, field->type(), json, to);
    }
}

/* ---- fields ---- */

static int read_pointer(struct arena *arena, const struct trail *at, const bide_field *field,
                        const json_t *json, void *to)
{
    void *value = bi_arena_get(arena, field->size);
    if (value == NULL)
        return no_memory();
    memcpy(to, &value, sizeof(value));
    return read_value(arena, at, field, json, value);
}

static int read_array(struct arena *arena, const struct trail *at, const bide_field *field,
                      const json_t *json, char *base)
{
    if (!json_is_array(json))
        return unlike(at, "an array", json);
    size_t count = json_array_size(json);
    if (count == 0)
        return BIDE_OK;
    char *values =
        count > PTRDIFF_MAX / field->size ? NULL : bi_arena_get(arena, count * field->size);
    if (values == NULL)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        struct trail element = bi_trail_of_element(at, i);
        int code =
            read_value(arena, &element, field, json_array_get(json, i), values + i * field->size);
        if (code != BIDE_OK)
            return code;
    }
    memcpy(base + field->offset, &values, sizeof(values));
    memcpy(base + field->count_offset, &count, sizeof(count));
    return BIDE_OK;
}

static int read_one(struct arena *arena, const struct trail *at, const bide_field *field,
                    const json_t *json, char *base)
{
    int code = read_value(arena, at, field, json, base + field->offset);
    if (code == BIDE_OK && field->has) {
        const bool has = true;
        memcpy(base + field->has_offset, &has, sizeof(has));
    }
    return code;
}

static int read_field(struct arena *arena, const struct trail *at, const bide_field *field,
                      const json_t *json, char *base)
{
    struct trail here = bi_trail_of_field(at, field->name);
    if (json == NULL || json_is_null(json)) {
        if (field->optional)
            return BIDE_OK;
        return bi_trail_refuse(&here, "it is %s, and not optional",
                               json == NULL ? "missing" : "null");
    }
    switch (field->shape) {
    case BIDE_SHAPE_POINTER:
        return read_pointer(arena, &here, field, json, base + field->offset);
    case BIDE_SHAPE_ARRAY:
        return read_array(arena, &here, field, json, base);
    default:
        return read_one(arena, &here, field, json, base);
    }
}

/* The memory is zeroed. */
static int read_struct(struct arena *arena, const struct trail *at, const bide_type *type,
                       const json_t *json, void *to)
{
    if (!json_is_object(json))
        return unlike(at, "an object", json);
    if (at->depth > BIDE_NESTING_MAX)
        return bi_trail_refuse(at, "more than %d structs in structs", BIDE_NESTING_MAX);
    struct trail inside = bi_trail_inside(at);
    for (size_t i = 0; i < type->field_count; i++) {
        const bide_field *field = &type->fields[i];
        int code = read_field(arena, &inside, field, json_object_get(json, field->name), to);
        if (code != BIDE_OK)
            return code;
    }
    return BIDE_OK;
}

/* ---- the text ---- */

/*
 * jansson (2.14 at least) does not notice when the buffer of its current token cannot grow: it
 * loses letters. So it is given [PAD, TEXT], where the pad is a string as long as the longest
 * token of the text may be. If the pad comes out whole, the buffer was large enough for all that
 * follows it.
 */
struct feed {
    const char *parts[5];
    size_t sizes[5];
    size_t part;
    size_t done; /* of this part */
};
enum { PAD_PART = 1, TEXT_PART = 3, PARTS = 5 };

/* The most letters that stand between two quotes, or without any: no token has more. */
static size_t longest_token(const char *text, size_t size)
{
    size_t longest = 0;
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        length = text[i] == '"' && (i == 0 || text[i - 1] != '\\') ? 0 : length + 1;
        if (length > longest)
            longest = length;
    }
    return longest;
}

static size_t feed_some(void *buffer, size_t room, void *arg)
{
    struct feed *feed = arg;
    while (feed->part < PARTS && feed->done == feed->sizes[feed->part]) {
        feed->part++;
        feed->done = 0;
    }
    if (feed->part == PARTS)
        return 0;
    size_t left = feed->sizes[feed->part] - feed->done;
    size_t size = left < room ? left : room;
    if (feed->part == PAD_PART)
        memset(buffer, 'x', size);
    else
        memcpy(buffer, feed->parts[feed->part] + feed->done, size);
    feed->done += size;
    return size;
}

/* The text out of [PAD, TEXT]; NULL if the text was not one value, or if the pad is not whole: memory
 * lacks. */
static json_t *unwrap(json_t *wrapped, size_t pad, bool *lacks)
{
    json_t *json = NULL;
    *lacks = json_string_length(json_array_get(wrapped, 0)) != pad;
    if (json_array_size(wrapped) == 2 && !*lacks)
        json = json_incref(json_array_get(wrapped, 1));
    json_decref(wrapped);
    return json;
}

/* An integer that is too large for jansson may be meant for a double, or be in a field that nobody
 * has described: then all of them are read as reals. Those that are exact can still be integers. */
static json_t *load(const char *text, size_t size, bool *lacks)
{
    json_error_t error;
    *lacks = false;
    size_t pad = longest_token(text, size);
    const struct feed whole = {.parts = {"[\"", NULL, "\",", text, "]"},
                               .sizes = {2, pad, 2, size, 1}};
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    struct feed feed = whole;
    json_t *json = json_load_callback(feed_some, &feed, flags, &error);
    if (json == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        feed = whole;
        json = json_load_callback(feed_some, &feed, flags | JSON_DECODE_INT_AS_REAL, &error);
    }
    return json == NULL ? NULL : unwrap(json, pad, lacks);
}

/* Whether there is memory at all: a body that it lacks for is not to be called invalid. */
static bool has_room(const struct bi_alloc *alloc, size_t size)
{
    void *probe = size > PTRDIFF_MAX / 4 ? NULL : bi_alloc_get(alloc, 3 * size + 64);
    bi_alloc_put(alloc, probe);
    return probe != NULL;
}

/* Says what is wrong with a text that is not JSON. It is parsed again without what load() puts around
 * it, so that position and token are those of the body. */
static int refuse_text(const struct trail *at, const char *text, size_t size)
{
    json_error_t error;
    size_t flags =
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL;
    json_t *json = json_loadb(text, size, flags, &error);
    if (json != NULL) { /* it is JSON: memory lacked before */
        json_decref(json);
        return no_memory();
    }
    for (char *letter = error.text; *letter != 0; letter++)
        if ((unsigned char)*letter < ' ')
            *letter = '?';
    return bi_trail_refuse(at, "not JSON at byte %d: %s", error.position, error.text);
}

/* Of a string that it has no memory to copy jansson says that it is invalid. A job with such a body
 * would be given up for good, so what is invalid is looked at twice. */
static int parse(const struct trail *at, const void *data, size_t size,
                 const struct bi_alloc *alloc, json_t **json)
{
    if (size == 0)
        return bi_trail_refuse(at, "there is nothing to read");
    for (int turn = 0; turn < 2; turn++) {
        if (!has_room(alloc, size))
            return no_memory();
        bool lacks;
        *json = load(data, size, &lacks);
        if (*json != NULL)
            return BIDE_OK;
        if (lacks)
            return no_memory();
    }
    return refuse_text(at, data, size);
}

int bi_type_read(const bide_type *type, const void *data, size_t size, const struct bi_alloc *alloc,
                 void **value)
{
    struct trail at = bi_trail_of_type(type->name);
    struct arena arena;
    json_t *json = NULL;
    int code = parse(&at, data, size, alloc, &json);
    if (json == NULL)
        return code;
    void *read = NULL;
    if (bi_arena_init(&arena, alloc, type->size, size < MORE_MAX ? size : MORE_MAX) == BIDE_OK) {
        read = bi_arena_get(&arena, type->size);
        code = read_struct(&arena, &at, type, json, read);
    } else {
        code = no_memory();
    }
    json_decref(json);
    if (code == BIDE_OK)
        *value = read;
    else
        bi_arena_free(read);
    return code;
}
