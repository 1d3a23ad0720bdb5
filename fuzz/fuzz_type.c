/* SPDX-License-Identifier: MIT */
/*
 * fuzz_type - any bytes, read into a struct that has a field of every kind and shape: what is
 * refused has a sentence; what is read can be written, and that can be read and is written the
 * same. The same bytes as base64 are refused, or come back.
 */
#include "fuzz/fuzz.h"
#include "task/base64.h"
#include "tests/unit/typed.h"

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

static void read_and_write(const bide_type *type, const void *data, size_t size)
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
    if (!bi_base64_size(text, length, &size))
        return;
    char *bytes = malloc(size + 1), *back = malloc(length + 1);
    must(bytes != NULL && back != NULL);
    if (bi_base64_read(text, length, bytes)) {
        must(bi_base64_text_size(size) == length);
        bi_base64_write(bytes, size, back);
        must(memcmp(back, text, length) == 0);
    }
    free(bytes);
    free(back);
}

/* ---- texts that are nearly right ---- */

/* Random bytes are hardly ever JSON, and what jansson does with them the fuzzer cannot see. So the
 * bytes also say what JSON to write. */
struct pen {
    const uint8_t *data;
    size_t left;
    size_t size;
    char text[4096];
};

static uint8_t next(struct pen *pen)
{
    if (pen->left == 0)
        return 0;
    pen->left--;
    return *pen->data++;
}

static void put(struct pen *pen, const char *text, size_t size)
{
    if (size > sizeof(pen->text) - pen->size)
        size = sizeof(pen->text) - pen->size;
    memcpy(pen->text + pen->size, text, size);
    pen->size += size;
}

static void say(struct pen *pen, const char *text)
{
    put(pen, text, strlen(text));
}

static void say_bytes(struct pen *pen)
{
    say(pen, "\"");
    for (size_t count = next(pen) % 16; count > 0; count--) {
        char byte = (char)next(pen);
        put(pen, &byte, 1);
    }
    say(pen, "\"");
}

static void say_value(struct pen *pen, int depth);

static void say_key(struct pen *pen)
{
    static const char *const others[] = {"article", "count", "value", "next", "children"};
    char name[] = "\"a\":";
    uint8_t byte = next(pen);
    name[1] = (char)('a' + byte % 20);
    if (byte < 128) {
        say(pen, name);
        return;
    }
    say(pen, "\"");
    say(pen, others[byte % 5]);
    say(pen, "\":");
}

static void say_many(struct pen *pen, int depth, bool keys)
{
    say(pen, keys ? "{" : "[");
    for (size_t i = 0, count = next(pen) % 8; i < count; i++) {
        if (i > 0)
            say(pen, ",");
        if (keys)
            say_key(pen);
        say_value(pen, depth + 1);
    }
    say(pen, keys ? "}" : "]");
}

static void say_line(struct pen *pen)
{
    say(pen, "{\"article\":");
    say_bytes(pen);
    say(pen, ",\"count\":");
    say_value(pen, 100);
    say(pen, "}");
}

static void say_value(struct pen *pen, int depth)
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
    uint8_t byte = next(pen);
    if (depth < 40 && byte >= 200)
        say_many(pen, depth, byte % 2 == 0);
    else if (byte >= 180 && depth < 40)
        say_line(pen);
    else if (byte >= 160)
        say_bytes(pen);
    else
        say(pen, words[byte % (sizeof(words) / sizeof(words[0]))]);
}

/* The value that has everything, with some letters replaced. */
static void say_all(struct pen *pen)
{
    say(pen, ALL_JSON);
    while (pen->left >= 3) {
        size_t place = (size_t)next(pen) << 8;
        place = (place | next(pen)) % pen->size;
        pen->text[place] = (char)next(pen);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pen pen;
    read_and_write(bide_type_of_loose(), data, size);
    read_and_write(bide_type_of_bytes(), data, size);
    read_base64((const char *)data, size);
    pen.data = data;
    pen.left = size;
    pen.size = 0;
    say_many(&pen, 0, true);
    read_and_write(bide_type_of_loose(), pen.text, pen.size);
    pen.data = data;
    pen.left = size;
    pen.size = 0;
    say_all(&pen);
    read_and_write(bide_type_of_all(), pen.text, pen.size);
    return 0;
}
