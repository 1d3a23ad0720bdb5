/* SPDX-License-Identifier: MIT */
/*
 * type_write - a struct becomes JSON.
 *
 * The struct is walked along its description and becomes a tree of jansson's, in which an object
 * keeps the order of its members; the tree becomes text. Functions that make a part of the tree
 * answer NULL when it cannot be made, with the code noted and the thread's last error set.
 */
#include "task/base64.h"
#include "task/trail.h"
#include "task/type.h"

#include "queue/queue.h"
#include "util/buf.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 2048 /* texts up to this size are made in one go */

struct writing {
    int code;
    int digits; /* that every double of the value needs to come back the same: 15 or 17 */
};

static json_t *write_struct(struct writing *writing, const struct trail *at, const bide_type *type,
                            const void *from);

static json_t *failed(struct writing *writing, int code)
{
    writing->code = code;
    return NULL;
}

/* What jansson has made, if it has. */
static json_t *made(struct writing *writing, json_t *json)
{
    if (json == NULL)
        writing->code = bi_error_set(BIDE_ENOMEM, "%s", bide_code_text(BIDE_ENOMEM));
    return json;
}

/* ---- single values ---- */

static json_t *write_bool(const void *from)
{
    unsigned char byte;
    memcpy(&byte, from, 1);
    return json_boolean(byte != 0);
}

static json_t *write_integer(struct writing *writing, const bide_field *field, const void *from)
{
    char text[BI_WHOLE_TEXT];
    struct whole number = bi_number_get(field->kind, field->size, from);
    if (number.negative)
        return made(writing, json_integer((json_int_t)(0 - number.magnitude)));
    if (number.magnitude <= INT64_MAX)
        return made(writing, json_integer((json_int_t)number.magnitude));
    return made(writing, json_string(bi_number_text(number, text)));
}

/* The double whose digits are the fewest that say this float. */
static double widened(float narrow)
{
    char text[40];
    double wide = (double)narrow;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)narrow);
        double shorter = strtod(text, NULL);
        if ((float)shorter == narrow)
            return shorter;
    }
    return wide;
}

static json_t *write_double(struct writing *writing, const struct trail *at,
                            const bide_field *field, const void *from)
{
    char text[40];
    double value;
    float narrow;
    memcpy(field->size == sizeof(value) ? (void *)&value : (void *)&narrow, from, field->size);
    if (field->size != sizeof(value))
        value = isfinite(narrow) ? widened(narrow) : (double)narrow;
    if (!isfinite(value))
        return failed(writing, bi_trail_refuse(at, "%g cannot be written as JSON", value));
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        writing->digits = 17;
    return made(writing, json_real(value));
}

/* The bytes of the character at the text, which has at least one; 0: it is none. By RFC 3629, so
 * nothing longer than it need be, no surrogates, nothing above U+10FFFF. */
static size_t utf8_size(const unsigned char *text, size_t length)
{
    unsigned char first = text[0];
    size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 1)
        return 1;
    if (first < 0xc2 || first > 0xf4 || size > length)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool longer = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
    bool beyond = (first == 0xed && text[1] > 0x9f) || (first == 0xf4 && text[1] > 0x8f);
    return longer || beyond ? 0 : size;
}

/* jansson would check, too, but not say whether text or memory is to blame. */
static bool is_utf8(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    while (length > 0) {
        size_t size = utf8_size(at, length);
        if (size == 0)
            return false;
        at += size;
        length -= size;
    }
    return true;
}

static json_t *write_chars(struct writing *writing, const struct trail *at, const char *text,
                           size_t length)
{
    if (!is_utf8(text, length))
        return failed(writing, bi_trail_refuse(at, "the text is not UTF-8"));
    return made(writing, json_stringn_nocheck(text, length));
}

static json_t *write_text(struct writing *writing, const struct trail *at, const void *from)
{
    const char *text;
    memcpy(&text, from, sizeof(text));
    if (text == NULL)
        return failed(writing, bi_trail_refuse(at, "it is NULL"));
    return write_chars(writing, at, text, strlen(text));
}

static json_t *write_array_of_chars(struct writing *writing, const struct trail *at,
                                    const bide_field *field, const void *from)
{
    const char *end = memchr(from, 0, field->size);
    if (end == NULL)
        return failed(writing, bi_trail_refuse(at, "the text does not end within its %zu bytes",
                                               field->size));
    return write_chars(writing, at, from, (size_t)(end - (const char *)from));
}

static json_t *write_bytes(struct writing *writing, const struct trail *at, const void *from)
{
    bide_slice slice;
    memcpy(&slice, from, sizeof(slice));
    if (slice.data == NULL && slice.size > 0)
        return failed(writing, bi_trail_refuse(at, "it is NULL and has %zu bytes", slice.size));
    size_t length = bi_base64_text_size(slice.size);
    char *text = length == SIZE_MAX ? NULL : malloc(length + 1);
    if (text == NULL)
        return made(writing, NULL);
    bi_base64_write(slice.data, slice.size, text);
    json_t *json = made(writing, json_stringn_nocheck(text, length));
    free(text);
    return json;
}

static json_t *write_value(struct writing *writing, const struct trail *at, const bide_field *field,
                           const void *from)
{
    switch (field->kind) {
    case BIDE_KIND_BOOL:
        return write_bool(from);
    case BIDE_KIND_INT:
    case BIDE_KIND_UINT:
        return write_integer(writing, field, from);
    case BIDE_KIND_DOUBLE:
        return write_double(writing, at, field, from);
    case BIDE_KIND_TEXT:
        return write_text(writing, at, from);
    case BIDE_KIND_CHARS:
        return write_array_of_chars(writing, at, field, from);
    case BIDE_KIND_BYTES:
        return write_bytes(writing, at, from);
    default:
        return write_struct(writing, at, field->type(), from);
    }
}

/* ---- fields ---- */

/* Where the values of a field are: its member, or what that points to. */
static const char *values_of(const bide_field *field, const char *base)
{
    const char *values;
    if (field->shape == BIDE_SHAPE_ONE)
        return base + field->offset;
    memcpy(&values, base + field->offset, sizeof(values));
    return values;
}

/* An optional field that has no value is not written at all. */
static bool is_missing(const bide_field *field, const char *base)
{
    const void *pointer;
    const char *values = values_of(field, base);
    if (!field->optional || field->shape == BIDE_SHAPE_ARRAY)
        return false;
    if (field->has) {
        unsigned char has;
        memcpy(&has, base + field->has_offset, 1);
        return has == 0;
    }
    if (field->shape == BIDE_SHAPE_POINTER)
        return values == NULL;
    if (field->kind == BIDE_KIND_BYTES) {
        bide_slice slice;
        memcpy(&slice, values, sizeof(slice));
        return slice.data == NULL && slice.size == 0;
    }
    if (field->kind != BIDE_KIND_TEXT)
        return false;
    memcpy(&pointer, values, sizeof(pointer));
    return pointer == NULL;
}

static json_t *write_array(struct writing *writing, const struct trail *at, const bide_field *field,
                           const char *base)
{
    const char *values = values_of(field, base);
    size_t count;
    memcpy(&count, base + field->count_offset, sizeof(count));
    if (values == NULL && count > 0)
        return failed(writing, bi_trail_refuse(at, "it is NULL and has %zu elements", count));
    json_t *array = made(writing, json_array());
    for (size_t i = 0; array != NULL && i < count; i++) {
        struct trail element = bi_trail_of_element(at, i);
        json_t *json = write_value(writing, &element, field, values + i * field->size);
        if (json != NULL && json_array_append_new(array, json) == 0)
            continue;
        if (json != NULL)
            made(writing, NULL);
        json_decref(array);
        return NULL;
    }
    return array;
}

/* The field of a struct that is not missing. */
static json_t *write_field(struct writing *writing, const struct trail *at, const bide_field *field,
                           const char *base)
{
    struct trail here = bi_trail_of_field(at, field->name);
    if (field->shape == BIDE_SHAPE_ARRAY)
        return write_array(writing, &here, field, base);
    return write_value(writing, &here, field, values_of(field, base));
}

static int add_field(struct writing *writing, const struct trail *at, const bide_field *field,
                     const char *base, json_t *object)
{
    if (json_object_get(object, field->name) != NULL)
        return writing->code = bi_trail_refuse(at, "two fields are called %s", field->name);
    json_t *json = write_field(writing, at, field, base);
    if (json == NULL)
        return writing->code;
    if (json_object_set_new(object, field->name, json) != 0)
        made(writing, NULL);
    return writing->code;
}

static json_t *write_struct(struct writing *writing, const struct trail *at, const bide_type *type,
                            const void *from)
{
    struct trail inside = bi_trail_inside(at);
    if (at->depth > BIDE_NESTING_MAX)
        return failed(writing,
                      bi_trail_refuse(at, "more than %d structs in structs", BIDE_NESTING_MAX));
    json_t *object = made(writing, json_object());
    for (size_t i = 0; object != NULL && i < type->field_count; i++) {
        const bide_field *field = &type->fields[i];
        if (is_missing(field, from) || add_field(writing, &inside, field, from, object) == BIDE_OK)
            continue;
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- the text ---- */

struct text {
    char *bytes;
    size_t room;
    size_t size; /* of all of it, also of what found no room */
};

static int append(const char *bytes, size_t size, void *user)
{
    struct text *text = user;
    if (text->size <= text->room && size <= text->room - text->size)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return 0;
}

static bool dump(const json_t *json, int digits, struct text *text)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
    return json_dump_callback(json, append, text, flags) == 0;
}

/* A buffer with the text, made within the buffer if it is large. */
static bide_buf *text_of(const json_t *json, int digits)
{
    char small[SMALL];
    void *bytes;
    struct text text = {small, sizeof(small), 0};
    if (!dump(json, digits, &text))
        return NULL;
    if (text.size <= text.room)
        return bide_buf_new(small, text.size);
    bide_buf *buf = bi_buf_room(text.size, &bytes);
    text = (struct text){bytes, text.size, 0};
    if (buf != NULL && dump(json, digits, &text))
        return buf;
    bide_buf_unref(buf);
    return NULL;
}

/* Takes the tree over. */
static int finish(struct writing *writing, json_t *json, bide_buf **out)
{
    if (json == NULL)
        return writing->code;
    bide_buf *buf = text_of(json, writing->digits);
    json_decref(json);
    if (buf == NULL)
        return bi_error_set(BIDE_ENOMEM, "%s", bide_code_text(BIDE_ENOMEM));
    *out = buf;
    return BIDE_OK;
}

int bi_type_write(const bide_type *type, const void *value, bide_buf **json)
{
    struct writing writing = {.code = BIDE_OK, .digits = 15};
    struct trail at = bi_trail_of_type(type->name);
    return finish(&writing, write_struct(&writing, &at, type, value), json);
}

/* ---- keys ---- */

/* Cuts the next name off a list "customer, month"; false when there is none left. */
static bool next_name(const char **list, bide_slice *name)
{
    const char *begin = *list;
    if (begin == NULL)
        return false;
    const char *end = strchr(begin, ',');
    *list = end == NULL ? NULL : end + 1;
    size_t size = end == NULL ? strlen(begin) : (size_t)(end - begin);
    while (size > 0 && *begin == ' ') {
        begin++;
        size--;
    }
    while (size > 0 && begin[size - 1] == ' ')
        size--;
    *name = (bide_slice){begin, size};
    return true;
}

static const bide_field *find_field(const bide_type *type, bide_slice name)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const char *other = type->fields[i].name;
        if (strlen(other) == name.size && memcmp(other, name.data, name.size) == 0)
            return &type->fields[i];
    }
    return NULL;
}

/* One field of a key; null when it is missing. */
static json_t *write_part(struct writing *writing, const struct trail *at, const bide_type *type,
                          bide_slice name, const void *value)
{
    const bide_field *field = find_field(type, name);
    int shown = name.size < 60 ? (int)name.size : 60;
    if (field == NULL)
        return failed(writing, bi_trail_refuse(at, "there is no field \"%.*s\" to make a key of",
                                               shown, (const char *)name.data));
    if (field->shape != BIDE_SHAPE_ONE || field->kind == BIDE_KIND_STRUCT ||
        field->kind == BIDE_KIND_BYTES)
        return failed(writing, bi_trail_refuse(at,
                                               "no key can be made of \"%.*s\": only of numbers, "
                                               "texts, true and false",
                                               shown, (const char *)name.data));
    return is_missing(field, value) ? json_null() : write_field(writing, at, field, value);
}

/* Texts as they are, anything else as in JSON. */
static int key_of_one(struct writing *writing, const struct trail *at, json_t *json, bide_buf **key)
{
    if (json == NULL || json_is_null(json)) {
        *key = NULL;
        return writing->code;
    }
    if (!json_is_string(json))
        return finish(writing, json, key);
    if (json_string_length(json) == 0)
        writing->code = bi_trail_refuse(at, "the field that its key is made of is empty");
    else if ((*key = bide_buf_new(json_string_value(json), json_string_length(json))) == NULL)
        made(writing, NULL);
    json_decref(json);
    return writing->code;
}

int bi_type_key(const bide_type *type, const char *fields, const void *value, bide_buf **key)
{
    struct writing writing = {.code = BIDE_OK, .digits = 15};
    struct trail at = bi_trail_of_type(type->name);
    bide_slice name;
    if (strchr(fields, ',') == NULL) {
        next_name(&fields, &name);
        return key_of_one(&writing, &at, write_part(&writing, &at, type, name, value), key);
    }
    json_t *array = made(&writing, json_array());
    while (array != NULL && next_name(&fields, &name)) {
        json_t *json = write_part(&writing, &at, type, name, value);
        if (json != NULL && json_array_append_new(array, json) == 0)
            continue;
        if (json != NULL)
            made(&writing, NULL);
        json_decref(array);
        array = NULL;
    }
    return finish(&writing, array, key);
}
