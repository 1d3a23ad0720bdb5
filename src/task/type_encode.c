/* SPDX-License-Identifier: MIT */
/*
 * type_encode - encodes a struct as JSON, and some of its fields as a key.
 *
 * The struct is walked along its description into a tree of jansson, which keeps the order of
 * members; then the tree becomes text. Equal values give equal bytes: keys depend on it.
 *
 * Failure    write_*() return NULL with encoder->code and the last error set.
 */
#include "task/type.h"
#include "util/base64.h"
#include "util/message.h"

#include "queue/queue.h"
#include "util/alloc.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_TEXT_SIZE 2048 /* texts up to this size are dumped once */

struct encoder {
    int code;
    int digits; /* of all doubles, for an exact round trip: 15 or 17; jansson has one precision */
};

static json_t *write_struct(struct encoder *encoder, const struct json_path *at,
                            const bide_type *type, const void *from);

/* Returns NULL: `return REJECT(encoder, at, "it is NULL");` */
#define REJECT(encoder, at, ...) \
    ((encoder)->code = bi_type_error((at), __VA_ARGS__), (json_t *)NULL)

/* NULL from jansson means out of memory: everything else is checked before. */
static json_t *check_allocated(struct encoder *encoder, json_t *json)
{
    if (json == NULL)
        encoder->code = bi_type_out_of_memory();
    return json;
}

/* ---- single values ---- */

static json_t *write_integer(struct encoder *encoder, const bide_field *field, const void *from)
{
    char text[BI_INTEGER_TEXT_SIZE];
    struct integer number = bi_type_number_get(field->kind, field->size, from);
    if (number.negative)
        return check_allocated(encoder, json_integer((json_int_t)(0 - number.magnitude)));
    if (number.magnitude <= INT64_MAX)
        return check_allocated(encoder, json_integer((json_int_t)number.magnitude));

    /* Many JSON readers have no integers above 2^63-1; a string of digits is exact. */
    return check_allocated(encoder, json_string(bi_type_number_format(number, text)));
}

static json_t *write_double(struct encoder *encoder, const struct json_path *at,
                            const bide_field *field, const void *from)
{
    char text[40];
    double value;
    float narrow;

    memcpy(field->size == sizeof(value) ? (void *)&value : (void *)&narrow, from, field->size);
    if (field->size != sizeof(value))
        value = isfinite(narrow) ? bi_type_number_shortest_double(narrow) : (double)narrow;
    if (!isfinite(value))
        return REJECT(encoder, at, "%g cannot be written as JSON", value);

    /* 15 digits are shorter but not always exact; one double that needs 17 decides for all. */
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        encoder->digits = 17;
    return check_allocated(encoder, json_real(value));
}

/* A string that the member points to, or a char array. */
static json_t *write_text(struct encoder *encoder, const struct json_path *at,
                          const bide_field *field, const void *from)
{
    const char *text = from;
    size_t max = field->size;

    if (field->kind == BIDE_KIND_TEXT) {
        memcpy(&text, from, sizeof(text));
        max = SIZE_MAX;
    }
    if (text == NULL)
        return REJECT(encoder, at, "it is NULL");
    /* strlen() would read past an array that is not terminated. */
    size_t length = max == SIZE_MAX ? strlen(text) : strnlen(text, max);
    if (length == max)
        return REJECT(encoder, at, "the text does not end within its %zu bytes", max);
    /* jansson checks, too, but does not tell invalid text from lack of memory. */
    if (!bi_text_is_utf8(text, length))
        return REJECT(encoder, at, "the text is not UTF-8");
    return check_allocated(encoder, json_stringn_nocheck(text, length));
}

static json_t *write_bytes(struct encoder *encoder, const struct json_path *at, const void *from)
{
    bide_slice slice;

    memcpy(&slice, from, sizeof(slice));
    if (slice.data == NULL && slice.size > 0)
        return REJECT(encoder, at, "it is NULL and has %zu bytes", slice.size);

    /* SIZE_MAX: the encoded size does not fit. */
    size_t length = bi_base64_encoded_size(slice.size);
    char *text = length == SIZE_MAX ? NULL : malloc(length + 1);
    if (text == NULL)
        return check_allocated(encoder, NULL);

    bi_base64_encode(slice.data, slice.size, text);
    json_t *json = check_allocated(encoder, json_stringn_nocheck(text, length));
    free(text);
    return json;
}

static json_t *write_value(struct encoder *encoder, const struct json_path *at,
                           const bide_field *field, const void *from)
{
    switch (field->kind) {
    case BIDE_KIND_BOOL:
        /* As a byte: reading a bool that holds neither 0 nor 1 is undefined. */
        return json_boolean(*(const unsigned char *)from != 0);
    case BIDE_KIND_INT:
    case BIDE_KIND_UINT:
        return write_integer(encoder, field, from);
    case BIDE_KIND_DOUBLE:
        return write_double(encoder, at, field, from);
    case BIDE_KIND_TEXT:
    case BIDE_KIND_CHARS:
        return write_text(encoder, at, field, from);
    case BIDE_KIND_BYTES:
        return write_bytes(encoder, at, from);
    default:
        return write_struct(encoder, at, field->type(), from);
    }
}

/* ---- fields ---- */

/* The values of a field: the member itself, or what it points to. */
static const char *values_of(const bide_field *field, const char *base)
{
    const char *values;
    if (field->shape == BIDE_SHAPE_ONE)
        return base + field->offset;
    memcpy(&values, base + field->offset, sizeof(values));
    return values;
}

/* An optional field without a value is omitted. An array is never missing: it may be empty. */
static bool is_missing(const bide_field *field, const char *base)
{
    bide_slice slice = {NULL, 0};
    const char *values = values_of(field, base);

    if (!field->optional || field->shape == BIDE_SHAPE_ARRAY)
        return false;
    if (field->has)
        return *(const unsigned char *)(base + field->has_offset) == 0;
    if (field->shape == BIDE_SHAPE_POINTER)
        return values == NULL;
    if (field->kind != BIDE_KIND_BYTES && field->kind != BIDE_KIND_TEXT)
        return false;

    /* A text is a pointer alone. */
    memcpy(&slice, values, field->kind == BIDE_KIND_TEXT ? sizeof(slice.data) : sizeof(slice));
    return slice.data == NULL && slice.size == 0;
}

/* Takes json, which may be NULL after an error. False: the array is released. */
static bool append_to(struct encoder *encoder, json_t *array, json_t *json)
{
    if (json != NULL && json_array_append_new(array, json) == 0)
        return true;
    /* append_new() has released json also when it failed. */
    if (json != NULL)
        check_allocated(encoder, NULL);
    json_decref(array);
    return false;
}

static json_t *write_array(struct encoder *encoder, const struct json_path *at,
                           const bide_field *field, const char *base)
{
    const char *values = values_of(field, base);
    size_t count;

    assert(field->shape == BIDE_SHAPE_ARRAY && field->size > 0);
    memcpy(&count, base + field->count_offset, sizeof(count));
    if (values == NULL && count > 0)
        return REJECT(encoder, at, "it is NULL and has %zu elements", count);

    json_t *array = check_allocated(encoder, json_array());
    for (size_t i = 0; array != NULL && i < count; i++) {
        const struct json_path element = {.parent = at, .index = i, .depth = at->depth};
        json_t *json = write_value(encoder, &element, field, values + i * field->size);
        if (!append_to(encoder, array, json))
            array = NULL;
    }

    return array;
}

/* The field must not be missing. at: the struct that it belongs to. */
static json_t *write_field(struct encoder *encoder, const struct json_path *at,
                           const bide_field *field, const char *base)
{
    const struct json_path here = {.parent = at, .name = field->name, .depth = at->depth + 1};
    if (field->shape == BIDE_SHAPE_ARRAY)
        return write_array(encoder, &here, field, base);
    return write_value(encoder, &here, field, values_of(field, base));
}

static json_t *write_struct(struct encoder *encoder, const struct json_path *at,
                            const bide_type *type, const void *from)
{
    /* Also ends a cycle of pointers. */
    if (at->depth > BIDE_NESTING_MAX)
        return REJECT(encoder, at, "more than %d structs in structs", BIDE_NESTING_MAX);

    json_t *object = check_allocated(encoder, json_object());
    for (size_t i = 0; encoder->code == BIDE_OK && i < type->field_count; i++) {
        const bide_field *field = &type->fields[i];
        if (is_missing(field, from))
            continue;
        /* set_new() would replace the first one silently. */
        if (json_object_get(object, field->name) != NULL) {
            encoder->code = bi_type_error(at, "two fields are called %s", field->name);
            break;
        }
        json_t *json = write_field(encoder, at, field, from);
        if (json != NULL && json_object_set_new(object, field->name, json) != 0)
            check_allocated(encoder, NULL);
    }
    if (encoder->code == BIDE_OK)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- the text ---- */

/* Dumps to the stack first, which also measures. A larger text is dumped again into a buffer of its
 * exact size: no copy, and no buffer that grows. */
static bide_buf *dump_to_buf(const json_t *json, int digits)
{
    char small[STACK_TEXT_SIZE];
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
    size_t size = json_dumpb(json, small, sizeof(small), flags);
    void *bytes;

    assert(digits == 15 || digits == 17);
    if (size <= sizeof(small)) /* 0: out of memory */
        return size == 0 ? NULL : bide_buf_new(small, size);
    bide_buf *buf = bi_buf_alloc(size, &bytes);
    if (buf != NULL && json_dumpb(json, bytes, size, flags) == size)
        return buf;
    bide_buf_unref(buf);
    return NULL;
}

/* Dumps the tree and releases it. json NULL: the walk has failed. */
static int finish(struct encoder *encoder, json_t *json, bide_buf **out)
{
    if (json == NULL)
        return encoder->code;

    bide_buf *buf = dump_to_buf(json, encoder->digits);

    json_decref(json);
    if (buf == NULL)
        return bi_type_out_of_memory();

    *out = buf;
    return BIDE_OK;
}

int bi_type_encode_json(const bide_type *type, const void *value, bide_buf **json)
{
    struct encoder encoder = {.code = BIDE_OK, .digits = 15};
    const struct json_path at = {.name = type->name};
    return finish(&encoder, write_struct(&encoder, &at, type, value), json);
}

/* ---- keys ---- */

/* Cuts the next name off a list, "customer, month"; false at its end. */
static bool next_name(const char **list, bide_slice *name)
{
    const char *begin = *list;
    if (begin == NULL)
        return false;

    begin += strspn(begin, " ");
    size_t size = strcspn(begin, ",");
    *list = begin[size] == 0 ? NULL : begin + size + 1;
    while (size > 0 && begin[size - 1] == ' ')
        size--;
    *name = (bide_slice){begin, size};
    return true;
}

/* The JSON of one field of a key; null if the field is missing. */
static json_t *write_key_part(struct encoder *encoder, const struct json_path *at,
                              const bide_type *type, bide_slice name, const void *value)
{
    const bide_field *field = type->fields, *end = type->fields + type->field_count;
    int shown = name.size < 60 ? (int)name.size : 60;

    while (field < end &&
           (strlen(field->name) != name.size || memcmp(field->name, name.data, name.size) != 0))
        field++;
    if (field == end)
        return REJECT(encoder, at, "there is no field \"%.*s\" to make a key of", shown,
                      (const char *)name.data);
    if (field->shape != BIDE_SHAPE_ONE || field->kind == BIDE_KIND_STRUCT ||
        field->kind == BIDE_KIND_BYTES)
        return REJECT(encoder, at,
                      "no key can be made of \"%.*s\": only of numbers, texts, true and false",
                      shown, (const char *)name.data);
    return is_missing(field, value) ? json_null() : write_field(encoder, at, field, value);
}

/* The key of a single field: a text without quotes, anything else as in JSON. Releases json. */
static int make_single_key(struct encoder *encoder, const struct json_path *at, json_t *json,
                           bide_buf **key)
{
    /* Missing: no key. json_null() is a singleton that needs no release. */
    if (json == NULL || json_is_null(json)) {
        *key = NULL;
        return encoder->code;
    }
    if (!json_is_string(json))
        return finish(encoder, json, key);

    /* An empty key means no key to a put: all such jobs would lose their uniqueness. */
    if (json_string_length(json) == 0)
        encoder->code = bi_type_error(at, "the field that its key is made of is empty");
    else if ((*key = bide_buf_new(json_string_value(json), json_string_length(json))) == NULL)
        check_allocated(encoder, NULL);
    json_decref(json);
    return encoder->code;
}

int bi_type_encode_key(const bide_type *type, const char *fields, const void *value, bide_buf **key)
{
    struct encoder encoder = {.code = BIDE_OK, .digits = 15};
    const struct json_path at = {.name = type->name};
    bide_slice name;

    if (strchr(fields, ',') == NULL) {
        next_name(&fields, &name);
        return make_single_key(&encoder, &at, write_key_part(&encoder, &at, type, name, value),
                               key);
    }

    /* Several fields: a JSON array, which keeps ("a,b", "c") and ("a", "b,c") apart. */
    json_t *array = check_allocated(&encoder, json_array());
    while (array != NULL && next_name(&fields, &name)) {
        if (!append_to(&encoder, array, write_key_part(&encoder, &at, type, name, value)))
            array = NULL;
    }

    return finish(&encoder, array, key);
}
