/* SPDX-License-Identifier: MIT */
/*
 * type_decode - decodes JSON into a struct.
 *
 * jansson parses the text into a tree, which is walked along the description of the type; members
 * that are not described are ignored. Everything that the struct points to is copied into one
 * arena.
 *
 * Failure    An invalid body is BIDE_EINVAL, and its job is buried. Out of memory must therefore
 *            never be reported as an invalid body: see parse().
 */
#include "task/type.h"
#include "util/base64.h"

#include "queue/queue.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define PREALLOCATE_MAX ((size_t)4096) /* bytes of the first block for texts and nested structs */

static int read_struct(struct arena *arena, const struct json_path *at, const bide_type *type,
                       const json_t *json, void *to);

static int type_mismatch(const struct json_path *at, const char *wanted, const json_t *json)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number",    [JSON_REAL] = "a number",  [JSON_TRUE] = "true or false",
        [JSON_FALSE] = "true or false", [JSON_NULL] = "null",
    };
    return bi_type_error(at, "%s is wanted, and this is %s", wanted, names[json_typeof(json)]);
}

/* ---- single values ---- */

/* A JSON integer, a real without a fraction, or digits in a string. */
static int read_number(const struct json_path *at, const json_t *json, struct integer *number)
{
    if (json_is_integer(json)) {
        /* 0 - bits, unsigned: the negation of INT64_MIN does not overflow. */
        json_int_t value = json_integer_value(json);
        uint64_t bits = (uint64_t)value;
        *number = (struct integer){value < 0, false, value < 0 ? 0 - bits : bits};
        return BIDE_OK;
    }
    if (json_is_real(json)) {
        if (bi_type_number_from_double(json_real_value(json), number))
            return BIDE_OK;
        return bi_type_error(at, "%.17g is not a whole number, or too large to be exact",
                             json_real_value(json));
    }
    if (!json_is_string(json))
        return type_mismatch(at, "a whole number", json);
    if (bi_type_number_parse(json_string_value(json), json_string_length(json), number))
        return BIDE_OK;
    return bi_type_error(at, "a whole number is wanted, and this is a string of other than digits");
}

static int read_integer(const struct json_path *at, const bide_field *field, const json_t *json,
                        void *to)
{
    struct integer number = {0};
    int code = read_number(at, json, &number);
    if (code != BIDE_OK)
        return code;

    int side = bi_type_number_set(field->kind, field->size, to, number);
    if (side == 0)
        return BIDE_OK;

    /* Show what the body contains: a string may have more digits than `number` holds. */
    char text[BI_INTEGER_TEXT_SIZE], limit[BI_INTEGER_TEXT_SIZE];
    bi_type_number_format(bi_type_number_limit(field->kind, field->size, side < 0), limit);
    const char *shown =
        json_is_string(json) ? json_string_value(json) : bi_type_number_format(number, text);
    return bi_type_error(at, "%.30s is %s than %s", shown, side < 0 ? "less" : "more", limit);
}

static int read_double(const struct json_path *at, const bide_field *field, const json_t *json,
                       void *to)
{
    if (!json_is_number(json))
        return type_mismatch(at, "a number", json);

    double value = json_number_value(json);
    if (field->size == sizeof(value)) {
        memcpy(to, &value, sizeof(value));
        return BIDE_OK;
    }

    /* A double beyond FLT_MAX becomes infinite. */
    float narrow = (float)value;
    if (!isfinite(narrow))
        return bi_type_error(at, "%.17g is too large for a float", value);

    memcpy(to, &narrow, sizeof(narrow));
    return BIDE_OK;
}

/* A string into a pointer or into a char array. */
static int read_text(struct arena *arena, const struct json_path *at, const bide_field *field,
                     const json_t *json, void *to)
{
    if (!json_is_string(json))
        return type_mismatch(at, "a string", json);

    /* A C string would silently end at the NUL. */
    size_t length = json_string_length(json);
    if (strlen(json_string_value(json)) != length)
        return bi_type_error(at, "there is a \\u0000 in the text");
    if (field->kind == BIDE_KIND_CHARS && length >= field->size)
        return bi_type_error(at, "the text has %zu bytes; %zu are allowed", length,
                             field->size - 1);

    /* Copied: the tree is released before the value is used. */
    char *text = field->kind == BIDE_KIND_CHARS ? to : bi_type_arena_alloc(arena, length + 1);
    if (text == NULL)
        return bi_type_out_of_memory();
    memcpy(text, json_string_value(json), length + 1);
    if (field->kind == BIDE_KIND_TEXT)
        memcpy(to, &text, sizeof(text));
    return BIDE_OK;
}

static int read_bytes(struct arena *arena, const struct json_path *at, const json_t *json, void *to)
{
    bide_slice slice;

    if (!json_is_string(json))
        return type_mismatch(at, "a string", json);

    const char *text = json_string_value(json);
    size_t length = json_string_length(json);
    if (!bi_base64_decoded_size(text, length, &slice.size))
        return bi_type_error(at, "the text is not base64");

    /* One byte more: empty bytes are not NULL, which means missing. */
    void *bytes = bi_type_arena_alloc(arena, slice.size + 1);
    if (bytes == NULL)
        return bi_type_out_of_memory();
    if (!bi_base64_decode(text, length, bytes))
        return bi_type_error(at, "the text is not base64");

    slice.data = bytes;
    memcpy(to, &slice, sizeof(slice));
    return BIDE_OK;
}

static int read_value(struct arena *arena, const struct json_path *at, const bide_field *field,
                      const json_t *json, void *to)
{
    bool truth = json_is_true(json);

    switch (field->kind) {
    case BIDE_KIND_BOOL:
        if (!json_is_boolean(json))
            return type_mismatch(at, "true or false", json);
        memcpy(to, &truth, sizeof(truth));
        return BIDE_OK;
    case BIDE_KIND_INT:
    case BIDE_KIND_UINT:
        return read_integer(at, field, json, to);
    case BIDE_KIND_DOUBLE:
        return read_double(at, field, json, to);
    case BIDE_KIND_TEXT:
    case BIDE_KIND_CHARS:
        return read_text(arena, at, field, json, to);
    case BIDE_KIND_BYTES:
        return read_bytes(arena, at, json, to);
    default:
        return read_struct(arena, at, field->type(), json, to);
    }
}

/* ---- fields ---- */

static int read_array(struct arena *arena, const struct json_path *at, const bide_field *field,
                      const json_t *json, char *base)
{
    if (!json_is_array(json))
        return type_mismatch(at, "an array", json);

    size_t count = json_array_size(json);
    if (count == 0)
        return BIDE_OK;

    /* The body determines count: the product must not overflow. */
    char *values =
        count > PTRDIFF_MAX / field->size ? NULL : bi_type_arena_alloc(arena, count * field->size);
    if (values == NULL)
        return bi_type_out_of_memory();

    for (size_t i = 0; i < count; i++) {
        struct json_path element = {.parent = at, .index = i, .depth = at->depth};
        int code =
            read_value(arena, &element, field, json_array_get(json, i), values + i * field->size);
        if (code != BIDE_OK)
            return code;
    }

    /* Pointer and count together, at the end: they are both set or both zero. */
    memcpy(base + field->offset, &values, sizeof(values));
    memcpy(base + field->count_offset, &count, sizeof(count));
    return BIDE_OK;
}

/* at: the struct that the field belongs to. */
static int read_field(struct arena *arena, const struct json_path *at, const bide_field *field,
                      const json_t *json, char *base)
{
    const struct json_path here = {.parent = at, .name = field->name, .depth = at->depth + 1};
    const bool has = true;
    void *value = base + field->offset;

    if (json == NULL || json_is_null(json)) {
        if (field->optional)
            return BIDE_OK;
        return bi_type_error(&here, "it is %s, and not optional",
                             json == NULL ? "missing" : "null");
    }
    if (field->shape == BIDE_SHAPE_ARRAY)
        return read_array(arena, &here, field, json, base);

    if (field->shape == BIDE_SHAPE_POINTER) {
        value = bi_type_arena_alloc(arena, field->size);
        if (value == NULL)
            return bi_type_out_of_memory();
        /* memcpy, because the member is a pointer to a type that is not known here. */
        memcpy(base + field->offset, &value, sizeof(value));
    }
    int code = read_value(arena, &here, field, json, value);
    if (code == BIDE_OK && field->has)
        memcpy(base + field->has_offset, &has, sizeof(has));
    return code;
}

/* `to` is zeroed, so that missing optional fields are NULL, 0 or false. */
static int read_struct(struct arena *arena, const struct json_path *at, const bide_type *type,
                       const json_t *json, void *to)
{
    if (!json_is_object(json))
        return type_mismatch(at, "an object", json);

    /* A type may contain itself through a pointer; this bounds the recursion. */
    if (at->depth > BIDE_NESTING_MAX)
        return bi_type_error(at, "more than %d structs in structs", BIDE_NESTING_MAX);

    int code = BIDE_OK;
    for (size_t i = 0; i < type->field_count && code == BIDE_OK; i++) {
        const bide_field *field = &type->fields[i];
        code = read_field(arena, at, field, json_object_get(json, field->name), to);
    }
    return code;
}

/* ---- parsing ---- */

/*
 * jansson has no error code for lack of memory in a parse (2.15 neither), and notices it only in a
 * part of its allocations:
 *
 *     an object, array or number    the parse fails without an error text
 *     the copy of a string          reported as invalid syntax
 *     the buffer of the token       not noticed: bytes of the token are dropped
 *
 * The second is told from a body that is really invalid by parsing it again. Against the third a
 * string as long as any token of the text is parsed before it, as ["xxx",TEXT]: if that string
 * is complete, the buffer, which never shrinks, was large enough for the text.
 */

/* An upper bound of the length of a token: the longest run of bytes without an unescaped quote. */
static size_t longest_token(const char *text, size_t size)
{
    size_t longest = 0;
    size_t length = 0;

    for (size_t i = 0; i < size; i++) {
        /* A backslash that is itself escaped makes the run longer than it is, which is harmless. */
        length = text[i] == '"' && (i == 0 || text[i - 1] != '\\') ? 0 : length + 1;
        if (length > longest)
            longest = length;
    }

    return longest;
}

/* Returns ["xxx",TEXT] and its size, with a string of `pad` bytes; NULL: out of memory. */
static char *wrap(const char *text, size_t size, size_t pad, const struct bi_alloc *alloc,
                  size_t *wrapped_size)
{
    assert(pad <= size);
    *wrapped_size = pad + size + strlen("[\"\",]");
    char *wrapped = size > PTRDIFF_MAX / 4 ? NULL : bi_alloc_malloc(alloc, *wrapped_size);
    if (wrapped == NULL)
        return NULL;

    char *at = stpcpy(wrapped, "[\"");
    memset(at, 'x', pad);
    at = stpcpy(at + pad, "\",");
    memcpy(at, text, size);
    at[size] = ']';
    assert(at + size + 1 == wrapped + *wrapped_size);
    return wrapped;
}

/* Returns the value of the text. BIDE_EINVAL: it is not JSON, or not exactly one value ("1,2"
 * parses inside an array), or a string could not be copied. */
static int load(const char *wrapped, size_t size, size_t pad, json_t **json)
{
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *array = json_loadb(wrapped, size, flags, &error);

    /* An integer that is too large for jansson may belong to a double, or to a field that is not
     * described. Then all integers are parsed as reals; those below 2^53 can still be stored in
     * integer members. */
    if (array == NULL && json_error_code(&error) == json_error_numeric_overflow)
        array = json_loadb(wrapped, size, flags | JSON_DECODE_INT_AS_REAL, &error);
    if (array == NULL)
        return error.text[0] == 0 ? BIDE_ENOMEM : BIDE_EINVAL;

    int code = BIDE_OK;
    if (json_string_length(json_array_get(array, 0)) != pad)
        code = BIDE_ENOMEM;
    else if (json_array_size(array) != 2)
        code = BIDE_EINVAL;
    else
        *json = json_incref(json_array_get(array, 1));
    json_decref(array);
    return code;
}

/* Parses the text again without what wrap() puts around it, so that position and token of the
 * message are those of the body. */
static int report_syntax_error(const struct json_path *at, const char *text, size_t size)
{
    json_error_t error;
    size_t flags =
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL;
    json_t *json = json_loadb(text, size, flags, &error);
    if (json != NULL) { /* valid after all: load() ran out of memory */
        json_decref(json);
        return bi_type_out_of_memory();
    }

    /* The message quotes the body; control characters must not reach a log or terminal. */
    for (char *letter = error.text; *letter != 0; letter++)
        if ((unsigned char)*letter < ' ')
            *letter = '?';
    return bi_type_error(at, "not JSON at byte %d: %s", error.position, error.text);
}

/* A job with an invalid body is buried, so a body is parsed twice before it is rejected. */
static int parse(const struct json_path *at, const void *data, size_t size,
                 const struct bi_alloc *alloc, json_t **json)
{
    size_t pad = longest_token(data, size), wrapped_size;

    if (size == 0)
        return bi_type_error(at, "there is nothing to read");
    char *wrapped = wrap(data, size, pad, alloc, &wrapped_size);
    if (wrapped == NULL)
        return bi_type_out_of_memory();

    int code = load(wrapped, wrapped_size, pad, json);
    if (code == BIDE_EINVAL)
        code = load(wrapped, wrapped_size, pad, json);
    bi_alloc_free(alloc, wrapped);
    if (code == BIDE_ENOMEM)
        return bi_type_out_of_memory();
    return code == BIDE_OK ? BIDE_OK : report_syntax_error(at, data, size);
}

int bi_type_decode_json(const bide_type *type, const void *data, size_t size,
                        const struct bi_alloc *alloc, void **value)
{
    const struct json_path at = {.name = type->name};
    struct arena arena;
    json_t *json = NULL;
    int code = parse(&at, data, size, alloc, &json);
    if (json == NULL)
        return code;

    /* The first piece: its address frees the arena, also after an error in the middle. */
    void *read = NULL;
    size_t extra = size < PREALLOCATE_MAX ? size : PREALLOCATE_MAX;
    if (bi_type_arena_init(&arena, alloc, type->size, extra) == BIDE_OK) {
        read = bi_type_arena_alloc(&arena, type->size);
        code = read_struct(&arena, &at, type, json, read);
    } else {
        code = bi_type_out_of_memory();
    }
    json_decref(json);
    if (code == BIDE_OK)
        *value = read;
    else
        bide_decoded_free(read);
    return code;
}
