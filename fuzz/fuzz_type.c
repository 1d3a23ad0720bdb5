/* SPDX-License-Identifier: MIT */
/*
 * fuzz_type - any bytes, read into a struct that has a field of every kind and shape: what is
 * refused has a sentence; what is read can be written, and that can be read and is written the
 * same. The same bytes as base64 are refused, or come back.
 */
#include "fuzz/fuzz.h"
#include "tests/unit/typed.h"
#include "util/base64.h"

#include <string.h>

/* What would be read alone: most random bytes lack the fields that are not optional. */
struct loose {
    bool yes;
    int8_t i8;
    uint16_t u16;
    int32_t i32;
    uint64_t u64;
    float narrow;
    double wide;
    const char *text;
    char chars[8];
    bide_slice bytes;
    double number;
    bool has_number;
    int64_t *numbers;
    size_t number_count;
    float *reals;
    size_t real_count;
    const char **texts;
    size_t text_count;
    char (*names)[4];
    size_t name_count;
    bide_slice *blobs;
    size_t blob_count;
    struct line *line;
    struct line *lines;
    size_t line_count;
    struct node *tree;
};
BIDE_TYPE(loose, struct loose, BIDE_OPTIONAL_AS("a", yes), BIDE_OPTIONAL_AS("b", i8),
          BIDE_OPTIONAL_AS("c", u16), BIDE_OPTIONAL_AS("d", i32), BIDE_OPTIONAL_AS("e", u64),
          BIDE_OPTIONAL_AS("f", narrow), BIDE_OPTIONAL_AS("g", wide), BIDE_OPTIONAL_AS("h", text),
          BIDE_OPTIONAL_AS("i", chars), BIDE_OPTIONAL_AS("j", bytes),
          BIDE_OPTIONAL_IF_AS("k", number, has_number), BIDE_ARRAY_AS("l", numbers, number_count),
          BIDE_ARRAY_AS("m", reals, real_count), BIDE_ARRAY_AS("n", texts, text_count),
          BIDE_ARRAY_AS("o", names, name_count), BIDE_ARRAY_AS("p", blobs, blob_count),
          BIDE_POINTER_AS("q", line, line), BIDE_STRUCTS_AS("r", lines, line_count, line),
          BIDE_POINTER_AS("s", tree, node));

/* The text that a value becomes, which must be one. */
static bide_buf *must_write(const bide_type *type, const void *value)
{
    bide_buf *json = NULL;
    must(bide_type_encode(type, value, &json) == BIDE_OK);
    return json;
}

static void round_trip(const bide_type *type, const void *data, size_t size)
{
    void *value = NULL, *again = NULL;
    int code = bide_type_decode(type, data, size, &value);
    must(code == BIDE_OK || (code == BIDE_EINVAL && value == NULL));
    must((code == BIDE_OK) == (bide_last_error()[0] == 0));
    if (code != BIDE_OK)
        return;
    bide_buf *first = must_write(type, value);
    must(bide_type_decode(type, bide_buf_data(first), bide_buf_size(first), &again) == BIDE_OK);
    bide_buf *second = must_write(type, again);
    must(bide_buf_size(first) == bide_buf_size(second));
    must(memcmp(bide_buf_data(first), bide_buf_data(second), bide_buf_size(first)) == 0);
    bide_buf_unref(first);
    bide_buf_unref(second);
    bide_decoded_free(value);
    bide_decoded_free(again);
}

static void read_base64(const char *text, size_t length)
{
    size_t size;
    if (!bi_base64_decoded_size(text, length, &size))
        return;
    char *bytes = malloc(size + 1), *back = malloc(length + 1);
    must(bytes != NULL && back != NULL);
    if (bi_base64_decode(text, length, bytes)) {
        must(bi_base64_encoded_size(size) == length);
        bi_base64_encode(bytes, size, back);
        must(memcmp(back, text, length) == 0);
    }
    free(bytes);
    free(back);
}

/* ---- texts that are nearly right ---- */

/* Random bytes are hardly ever JSON, and what jansson does with them the fuzzer cannot see. So the
 * bytes also say what JSON to write. */
struct generator {
    const uint8_t *data;
    size_t left;
    size_t size;
    char text[4096];
};

static uint8_t next(struct generator *generator)
{
    if (generator->left == 0)
        return 0;
    generator->left--;
    return *generator->data++;
}

static void put(struct generator *generator, const char *text, size_t size)
{
    if (size > sizeof(generator->text) - generator->size)
        size = sizeof(generator->text) - generator->size;
    memcpy(generator->text + generator->size, text, size);
    generator->size += size;
}

static void emit(struct generator *generator, const char *text)
{
    put(generator, text, strlen(text));
}

static void emit_bytes(struct generator *generator)
{
    emit(generator, "\"");
    for (size_t count = next(generator) % 16; count > 0; count--) {
        char byte = (char)next(generator);
        put(generator, &byte, 1);
    }
    emit(generator, "\"");
}

static void emit_value(struct generator *generator, int depth);

static void emit_key(struct generator *generator)
{
    static const char *const others[] = {"article", "count", "value", "next", "children"};
    char name[] = "\"a\":";
    uint8_t byte = next(generator);
    name[1] = (char)('a' + byte % 20);
    if (byte < 128) {
        emit(generator, name);
        return;
    }
    emit(generator, "\"");
    emit(generator, others[byte % 5]);
    emit(generator, "\":");
}

static void emit_many(struct generator *generator, int depth, bool keys)
{
    emit(generator, keys ? "{" : "[");
    for (size_t i = 0, count = next(generator) % 8; i < count; i++) {
        if (i > 0)
            emit(generator, ",");
        if (keys)
            emit_key(generator);
        emit_value(generator, depth + 1);
    }
    emit(generator, keys ? "}" : "]");
}

static void emit_line(struct generator *generator)
{
    emit(generator, "{\"article\":");
    emit_bytes(generator);
    emit(generator, ",\"count\":");
    emit_value(generator, 100);
    emit(generator, "}");
}

static void emit_value(struct generator *generator, int depth)
{
    static const char *const words[] = {
        "null",     "true",     "false",       "0",           "-1",
        "127",      "128",      "-129",        "255",         "65536",
        "1.5",      "5.0",      "1e3",         "-0.0",        "0.1",
        "1e39",     "1e-320",   "2147483648",  "4294967296",  "9223372036854775807",
        "\"7\"",    "\"-7\"",   "\"\"",        "\"abc\"",     "\"18446744073709551615\"",
        "\"Zg==\"", "\"Zm9v\"", "\"\\u0000\"", "\"\\n\\\"\"", "0.30000000000000004",
        "1e400",    "[]",
    };
    uint8_t byte = next(generator);
    if (depth < 40 && byte >= 200)
        emit_many(generator, depth, byte % 2 == 0);
    else if (byte >= 180 && depth < 40)
        emit_line(generator);
    else if (byte >= 160)
        emit_bytes(generator);
    else
        emit(generator, words[byte % (sizeof(words) / sizeof(words[0]))]);
}

/* The value that has everything, with some letters replaced. */
static void emit_all(struct generator *generator)
{
    emit(generator, ALL_JSON);
    while (generator->left >= 3) {
        size_t at = (size_t)next(generator) << 8;
        at = (at | next(generator)) % generator->size;
        generator->text[at] = (char)next(generator);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct generator generator;
    round_trip(bide_type_of_loose(), data, size);
    round_trip(bide_type_of_bytes(), data, size);
    read_base64((const char *)data, size);
    generator.data = data;
    generator.left = size;
    generator.size = 0;
    emit_many(&generator, 0, true);
    round_trip(bide_type_of_loose(), generator.text, generator.size);
    generator.data = data;
    generator.left = size;
    generator.size = 0;
    emit_all(&generator);
    round_trip(bide_type_of_all(), generator.text, generator.size);
    return 0;
}
