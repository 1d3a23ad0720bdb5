/* SPDX-License-Identifier: MIT */
/*
 * JSON as structs: what is read, and what is refused with which sentence.
 */
#include "alloc_fixture.h"
#include "task/type.h"
#include "typed.h"
#include "unit.h"

#include <float.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers ---- */

/* The text lies in memory of its own, so that nothing behind it is read unseen. */
static int decode(const bide_type *type, const char *json, void **value)
{
    size_t size = strlen(json);
    char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, json, size);
    int code = bide_type_decode(type, copy, size, value);
    free(copy);
    return code;
}

static void *must_decode(const bide_type *type, const char *json)
{
    void *value = NULL;
    if (decode(type, json, &value) != BIDE_OK)
        fail_msg("%s: %s", json, bide_last_error());
    assert_string_equal(bide_last_error(), "");
    return value;
}

static void assert_refused(const bide_type *type, const char *json, const char *sentence)
{
    void *value = &value;
    assert_int_equal(decode(type, json, &value), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), sentence);
    assert_ptr_equal(value, &value);
}

/* One optional field of each kind that a test wants alone. */
struct some {
    bool yes;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float narrow;
    double wide;
    const char *text;
    char chars[4];
    bide_slice bytes;
    int number;
    bool has_number;
    int *numbers;
    size_t number_count;
    const char **texts;
    size_t text_count;
    struct line *line;
    struct line *lines;
    size_t line_count;
};
BIDE_TYPE(some, struct some, BIDE_OPTIONAL(yes), BIDE_OPTIONAL(i8), BIDE_OPTIONAL(i16),
          BIDE_OPTIONAL(i32), BIDE_OPTIONAL(i64), BIDE_OPTIONAL(u8), BIDE_OPTIONAL(u16),
          BIDE_OPTIONAL(u32), BIDE_OPTIONAL(u64), BIDE_OPTIONAL(narrow), BIDE_OPTIONAL(wide),
          BIDE_OPTIONAL(text), BIDE_OPTIONAL(chars), BIDE_OPTIONAL(bytes),
          BIDE_OPTIONAL_IF(number, has_number), BIDE_ARRAY(numbers, number_count),
          BIDE_ARRAY(texts, text_count), BIDE_POINTER(line, line),
          BIDE_STRUCTS(lines, line_count, line));

/* {"field":value} */
static const char *object(const char *field, const char *value)
{
    static char json[400];
    snprintf(json, sizeof(json), "{\"%s\":%s}", field, value);
    return json;
}

static struct some *must_have(const char *field, const char *value)
{
    return must_decode(bide_type_of_some(), object(field, value));
}

static void assert_bad(const char *field, const char *value, const char *sentence)
{
    char full[BIDE_ERROR_SIZE + 8];
    snprintf(full, sizeof(full), "some.%s", sentence);
    assert_refused(bide_type_of_some(), object(field, value), full);
}

/* ---- what is read ---- */

static void every_kind_and_shape_of_field_is_read(void **state)
{
    (void)state;
    struct all *all = must_decode(bide_type_of_all(), ALL_JSON);
    assert_true(all->yes && all->has_number && all->has_text);
    assert_int_equal(all->i8, INT8_MIN);
    assert_int_equal(all->i64, INT64_MIN);
    assert_int_equal(all->u64, UINT64_MAX);
    assert_int_equal(all->color, BLUE);
    assert_true(all->narrow == 0.1F && all->wide == 9.99 && all->if_number == -0.5);
    assert_string_equal(all->text, "\xc3\xa9");
    assert_string_equal(all->chars, "seven77");
    assert_int_equal(all->bytes.size, 2);
    assert_memory_equal(all->bytes.data, "\0\xff", 2);
    assert_int_equal(all->flag_count, 2);
    assert_true(all->flags[0] && !all->flags[1]);
    assert_int_equal(all->number_count, 3);
    assert_int_equal(all->numbers[1], -2);
    assert_true(all->reals[1] == 1e100);
    assert_string_equal(all->texts[0], "a");
    assert_string_equal(all->names[0], "abc");
    assert_int_equal(all->blobs[0].size, 1);
    assert_string_equal(all->line.article, "tea");
    assert_string_equal(all->maybe_line->article, "pot");
    assert_int_equal(all->lines[0].count, 6);
    assert_int_equal(all->tree->next->value, 2);
    assert_int_equal(all->tree->children[0].value, 3);
    bide_decoded_free(all);
}

static void decoded_value_is_encoded_unchanged(void **state)
{
    (void)state;
    struct all *all = must_decode(bide_type_of_all(), ALL_JSON);
    bide_buf *json;
    assert_int_equal(bide_encode(all, *all, &json), BIDE_OK);
    assert_string_equal(bide_buf_data(json), ALL_JSON);
    bide_buf_unref(json);
    bide_decoded_free(all);
}

static void missing_or_null_value_is_zero(void **state)
{
    (void)state;
    static const char nulls[] =
        "{\"yes\":null,\"i8\":null,\"text\":null,\"chars\":null,\"bytes\":null,\"number\":null,"
        "\"numbers\":null,\"texts\":null,\"line\":null,\"lines\":null}";
    static const unsigned char zeros[sizeof(struct some)];
    struct some *missing = must_decode(bide_type_of_some(), "{}");
    struct some *null = must_decode(bide_type_of_some(), nulls);
    assert_memory_equal(missing, zeros, sizeof(zeros));
    assert_memory_equal(null, zeros, sizeof(zeros));
    bide_decoded_free(missing);
    bide_decoded_free(null);
}

static void empty_bytes_are_not_null_and_empty_arrays_are(void **state)
{
    (void)state;
    struct some *some = must_decode(bide_type_of_some(), "{\"bytes\":\"\",\"numbers\":[]}");
    assert_non_null(some->bytes.data);
    assert_int_equal(some->bytes.size, 0);
    assert_null(some->numbers);
    assert_int_equal(some->number_count, 0);
    bide_decoded_free(some);
}

static void unknown_field_is_skipped(void **state)
{
    (void)state;
    struct some *some =
        must_decode(bide_type_of_some(),
                    " { \"new\" : {\"a\":[1,{\"b\":null}]} , \"nul\":\"a\\u0000b\",\"i32\" : 7,"
                    "\"I32\":\"no\"\t,\"\":1}\n");
    assert_int_equal(some->i32, 7);
    bide_decoded_free(some);
}

static void whole_numbers_may_be_written_in_other_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"5", 5},
        {"5.0", 5},
        {"1e3", 1000},
        {"-2.5e1", -25},
        {"-0", 0},
        {"-0.0", 0},
        {"\"5\"", 5},
        {"\"-5\"", -5},
        {"\"007\"", 7},
        {"\"-0\"", 0},
        {"9007199254740991.0", INT64_C(9007199254740991)},
        {"\"-9223372036854775808\"", INT64_MIN},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct some *some = must_have("i64", cases[i].text);
        assert_int_equal(some->i64, cases[i].value);
        bide_decoded_free(some);
    }
}

/* ---- numbers and their limits ---- */

struct limit {
    const char *field;
    const char *least;
    const char *greatest;
    const char *below;
    const char *above;
};

static const struct limit limits[] = {
    {"i8", "-128", "127", "-129", "128"},
    {"i16", "-32768", "32767", "-32769", "32768"},
    {"i32", "-2147483648", "2147483647", "-2147483649", "2147483648"},
    {"i64", "-9223372036854775808", "9223372036854775807", "\"-9223372036854775809\"",
     "\"9223372036854775808\""},
    {"u8", "0", "255", "-1", "256"},
    {"u16", "0", "65535", "-1", "65536"},
    {"u32", "0", "4294967295", "-1", "4294967296"},
    {"u64", "0", "\"18446744073709551615\"", "-1", "\"18446744073709551616\""},
};

/* Without the quotes around it. */
static const char *bare(const char *text, char out[40])
{
    snprintf(out, 40, "%s", text[0] == '"' ? text + 1 : text);
    out[strcspn(out, "\"")] = 0;
    return out;
}

static void a_number_fits_from_its_least_to_its_greatest(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        char sentence[BIDE_ERROR_SIZE], number[40], limit[40];
        bide_decoded_free(must_have(limits[i].field, limits[i].least));
        bide_decoded_free(must_have(limits[i].field, limits[i].greatest));
        snprintf(sentence, sizeof(sentence), "%s: %s is less than %s", limits[i].field,
                 bare(limits[i].below, number), bare(limits[i].least, limit));
        assert_bad(limits[i].field, limits[i].below, sentence);
        snprintf(sentence, sizeof(sentence), "%s: %s is more than %s", limits[i].field,
                 bare(limits[i].above, number), bare(limits[i].greatest, limit));
        assert_bad(limits[i].field, limits[i].above, sentence);
    }
}

static void numbers_of_many_digits_are_too_large(void **state)
{
    (void)state;
    assert_bad("u64", "\"99999999999999999999999999999999999999999999\"",
               "u64: 999999999999999999999999999999 is more than 18446744073709551615");
    assert_bad("i64", "\"-18446744073709551616\"",
               "i64: -18446744073709551616 is less than -9223372036854775808");
    /* Of this, modulo 2^64, 1 would be left. */
    assert_bad("u8", "\"18446744073709551617\"", "u8: 18446744073709551617 is more than 255");
}

static void text_after_the_value_is_rejected(void **state)
{
    (void)state;
    void *value = NULL;
    static const char *const texts[] = {"2,1", "{},{}", "{}]", "{}],[{}", "{} {}", ",", "{},"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_int_equal(decode(bide_type_of_some(), texts[i], &value), BIDE_EINVAL);
        assert_non_null(strstr(bide_last_error(), "some: not JSON at byte"));
    }
    assert_null(value);
}

/* As other programs write them: in an unknown field, or for a double. */
static void integers_too_large_for_jansson_do_not_affect_other_fields(void **state)
{
    (void)state;
    struct some *some = must_decode(
        bide_type_of_some(),
        "{\"i64\":9007199254740991,\"u8\":7,\"wide\":100000000000000000000,\"text\":\"a\","
        "\"extra\":18446744073709551615}");
    assert_int_equal(some->i64, INT64_C(9007199254740991));
    assert_int_equal(some->u8, 7);
    assert_true(some->wide == 1e20);
    assert_string_equal(some->text, "a");
    bide_decoded_free(some);
    /* Beside it, numbers that may have been rounded are refused. */
    assert_refused(bide_type_of_some(), "{\"i64\":9007199254740993,\"extra\":18446744073709551615}",
                   "some.i64: 9007199254740992 is not a whole number, or too large to be exact");
}

static void non_integer_is_rejected(void **state)
{
    (void)state;
    static const char words[] =
        "i32: a whole number is wanted, and this is a string of other than digits";
    assert_bad("i32", "1.5", "i32: 1.5 is not a whole number, or too large to be exact");
    assert_bad("i64", "1e300",
               "i64: 1.0000000000000001e+300 is not a whole number, or too large "
               "to be exact");
    assert_bad("u64", "18446744073709551615.0",
               "u64: 1.8446744073709552e+19 is not a whole number, or too large to be exact");
    assert_bad("i32", "\"\"", words);
    assert_bad("i32", "\"-\"", words);
    assert_bad("i32", "\"+1\"", words);
    assert_bad("i32", "\" 1\"", words);
    assert_bad("i32", "\"1.0\"", words);
    assert_bad("i32", "\"0x1\"", words);
    assert_bad("i32", "\"1\\u0000\"", words);
    assert_bad("i32", "true", "i32: a whole number is wanted, and this is true or false");
    assert_bad("i32", "[1]", "i32: a whole number is wanted, and this is an array");
}

static void number_beyond_json_is_rejected(void **state)
{
    (void)state;
    void *value = NULL;
    assert_int_equal(decode(bide_type_of_some(), "{\"u64\":18446744073709551615}", &value),
                     BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "some.u64: 1.8446744073709552e+19 is not a whole"));
    assert_int_equal(decode(bide_type_of_some(), "{\"wide\":1e999}", &value), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "some: not JSON at byte"));
    assert_int_equal(decode(bide_type_of_some(), "{\"wide\":NaN}", &value), BIDE_EINVAL);
    assert_null(value);
}

static void doubles_accept_any_number_and_floats_what_fits(void **state)
{
    (void)state;
    struct some *some =
        must_decode(bide_type_of_some(), "{\"wide\":3,\"narrow\":3.4028234663852886e38}");
    assert_true(some->wide == 3 && some->narrow == FLT_MAX);
    bide_decoded_free(some);
    some = must_have("narrow", "1e-60");
    assert_true(some->narrow == 0);
    bide_decoded_free(some);
    assert_bad("narrow", "1e39", "narrow: 9.9999999999999994e+38 is too large for a float");
    assert_bad("wide", "\"1\"", "wide: a number is wanted, and this is a string");
}

static void only_true_and_false_are_bools(void **state)
{
    (void)state;
    struct some *some = must_have("yes", "true");
    assert_true(some->yes);
    bide_decoded_free(some);
    assert_bad("yes", "1", "yes: true or false is wanted, and this is a number");
    assert_bad("yes", "\"true\"", "yes: true or false is wanted, and this is a string");
}

/* ---- texts and bytes ---- */

static void text_too_long_for_its_array_is_rejected(void **state)
{
    (void)state;
    struct some *some = must_have("chars", "\"abc\"");
    assert_string_equal(some->chars, "abc");
    bide_decoded_free(some);
    assert_bad("chars", "\"abcd\"", "chars: the text has 4 bytes; 3 are allowed");
    assert_bad("chars", "\"\xc3\xa9\xc3\xa9\"", "chars: the text has 4 bytes; 3 are allowed");
}

static void text_with_a_nul_is_rejected(void **state)
{
    (void)state;
    assert_bad("text", "\"a\\u0000b\"", "text: there is a \\u0000 in the text");
    assert_bad("chars", "\"\\u0000\"", "chars: there is a \\u0000 in the text");
    assert_bad("text", "7", "text: a string is wanted, and this is a number");
    assert_bad("chars", "{}", "chars: a string is wanted, and this is an object");
}

static void escapes_are_undone(void **state)
{
    (void)state;
    struct some *some = must_have("text", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"");
    assert_string_equal(some->text, "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80");
    bide_decoded_free(some);
}

static void invalid_base64_is_rejected(void **state)
{
    (void)state;
    assert_bad("bytes", "\"Zg\"", "bytes: the text is not base64");
    assert_bad("bytes", "\"Zg=*\"", "bytes: the text is not base64");
    assert_bad("bytes", "\"Zm9v\\n\"", "bytes: the text is not base64");
    assert_bad("bytes", "\"Zm\\u0000v\"", "bytes: the text is not base64");
    assert_bad("bytes", "false", "bytes: a string is wanted, and this is true or false");
}

/* ---- shapes ---- */

static void presence_flag_is_set(void **state)
{
    (void)state;
    struct some *some = must_have("number", "0");
    assert_true(some->has_number);
    assert_int_equal(some->number, 0);
    bide_decoded_free(some);
    some = must_have("number", "null");
    assert_false(some->has_number);
    bide_decoded_free(some);
}

static void error_has_the_path_of_the_value(void **state)
{
    (void)state;
    assert_bad("lines", "[{\"article\":\"a\",\"count\":1},{\"article\":\"b\",\"count\":-1}]",
               "lines[1].count: -1 is less than 0");
    assert_bad("lines", "[{\"count\":1}]", "lines[0].article: it is missing, and not optional");
    assert_bad("line", "{\"article\":null,\"count\":1}",
               "line.article: it is null, and not optional");
    assert_bad("line", "[]", "line: an object is wanted, and this is an array");
    assert_bad("lines", "{}", "lines: an array is wanted, and this is an object");
    assert_bad("lines", "[3]", "lines[0]: an object is wanted, and this is a number");
}

static void null_in_an_array_is_rejected(void **state)
{
    (void)state;
    assert_bad("texts", "[\"a\",null]", "texts[1]: a string is wanted, and this is null");
    assert_bad("numbers", "[1,2,null]", "numbers[2]: a whole number is wanted, and this is null");
    assert_bad("lines", "[null]", "lines[0]: an object is wanted, and this is null");
}

static void non_object_is_rejected(void **state)
{
    (void)state;
    assert_refused(bide_type_of_line(), "", "line: there is nothing to read");
    assert_refused(bide_type_of_line(), "5", "line: an object is wanted, and this is a number");
    assert_refused(bide_type_of_line(), "[]", "line: an object is wanted, and this is an array");
    assert_refused(bide_type_of_line(), "null", "line: an object is wanted, and this is null");
    assert_refused(bide_type_of_line(), "{}", "line.article: it is missing, and not optional");
}

static void invalid_json_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{",
        "{]",
        "{\"a\":1,}",
        "{'a':1}",
        "{\"a\":01}",
        "{} {}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":.5}",
        "{\"a\" 1}",
        "hello",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":tru}",
        "\x01",
        "{\"a\":\"",
        "{\"a\":+1}",
        "{\"a\":\"\xc0\x80\"}",
        "\xef\xbb\xbf{}",
        "{\"\\u0000\":1}",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        void *value = NULL;
        if (decode(bide_type_of_some(), texts[i], &value) != BIDE_EINVAL)
            fail_msg("\"%s\" was read", texts[i]);
        assert_memory_equal(bide_last_error(), "some: not JSON at byte ", 23);
        assert_null(value);
    }
}

static void duplicate_field_is_rejected(void **state)
{
    (void)state;
    assert_refused(bide_type_of_some(), "{\"i32\":1,\"i32\":1}",
                   "some: not JSON at byte 14: duplicate object key near '\"i32\"'");
    assert_refused(bide_type_of_some(), "{\"other\":1,\"other\":2}",
                   "some: not JSON at byte 18: duplicate object key near '\"other\"'");
}

/* ---- depth and size ---- */

/* {"value":1,"next":{"value":1, ... }} with so many structs in the first. */
static char *make_chain(size_t depth)
{
    static const char step[] = "{\"value\":1,\"next\":";
    static const char last[] = "{\"value\":1}";
    char *json = malloc(depth * (sizeof(step) + 1) + sizeof(last)), *at = json;
    assert_non_null(json);
    for (size_t i = 0; i < depth; i++, at += sizeof(step) - 1)
        memcpy(at, step, sizeof(step) - 1);
    memcpy(at, last, sizeof(last) - 1);
    at += sizeof(last) - 1;
    memset(at, '}', depth);
    at[depth] = 0;
    return json;
}

static void structs_nest_to_a_limit(void **state)
{
    (void)state;
    char *json = make_chain(BIDE_NESTING_MAX);
    void *value = must_decode(bide_type_of_node(), json);
    bide_decoded_free(value);
    free(json);
    value = NULL;
    json = make_chain(BIDE_NESTING_MAX + 1);
    assert_int_equal(decode(bide_type_of_node(), json, &value), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), ".next: more than 32 structs in structs"));
    free(json);
    json = make_chain(100000);
    assert_int_equal(decode(bide_type_of_node(), json, &value), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "maximum parsing depth"));
    free(json);
    assert_null(value);
}

static void skipped_values_have_a_depth_limit(void **state)
{
    (void)state;
    const size_t depth = 200000;
    char *json = malloc(depth + 100);
    assert_non_null(json);
    size_t size = (size_t)sprintf(json, "{\"skipped\":");
    memset(json + size, '[', depth);
    json[size + depth] = 0;
    void *value = NULL;
    assert_int_equal(decode(bide_type_of_some(), json, &value), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "maximum parsing depth"));
    assert_null(value);
    free(json);
}

static void an_array_may_have_many_elements(void **state)
{
    (void)state;
    const size_t count = 50000;
    char *json = malloc(count * 30 + 100), *at = json;
    assert_non_null(json);
    at += sprintf(at, "{\"texts\":[");
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "%s\"text %zu\"", i == 0 ? "" : ",", i);
    sprintf(at, "]}");
    struct some *some = must_decode(bide_type_of_some(), json);
    assert_int_equal(some->text_count, count);
    for (size_t i = 0; i < count; i++) {
        char text[40];
        sprintf(text, "text %zu", i);
        assert_string_equal(some->texts[i], text);
    }
    bide_decoded_free(some);
    free(json);
}

static void everything_is_aligned(void **state)
{
    (void)state;
    struct all *all = must_decode(bide_type_of_all(), ALL_JSON);
    const void *places[] = {all, all->reals, all->numbers, all->texts, all->blobs, all->lines};
    for (size_t i = 0; i < COUNT_OF(places); i++)
        assert_int_equal((uintptr_t)places[i] % _Alignof(max_align_t), 0);
    bide_decoded_free(all);
}

/* ---- memory ---- */

static void failed_allocation_in_the_arena_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    char json[3000];
    void *value = NULL;
    int code, failed = 0;
    snprintf(json, sizeof(json), "{\"text\":\"%01500d\",\"numbers\":[1,2],\"bytes\":\"%01000d\"}",
             0, 0);
    do {
        struct test_alloc test = {.countdown = (uint64_t)++failed};
        struct bi_alloc alloc = test_alloc_of(&test);
        code = bi_type_decode_json(bide_type_of_some(), json, strlen(json), &alloc, &value);
        assert_true(code == BIDE_OK || code == BIDE_ENOMEM);
        if (code == BIDE_OK)
            bide_decoded_free(value);
        else
            assert_null(value);
        assert_int_equal(test.blocks, 0);
    } while (code != BIDE_OK);
    assert_true(failed > 2);
}

static size_t given, countdown;

static void *count_malloc(size_t size)
{
    if (countdown > 0 && --countdown == 0)
        return NULL;
    given++;
    return malloc(size);
}

static void count_free(void *memory)
{
    given -= memory != NULL;
    free(memory);
}

/* The text is longer than the buffer with which jansson begins, and no allocation may cut it. */
static void failed_allocation_in_jansson_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static const char tea[] = "tea with milk, sugar, and a biscuit of the day before yesterday";
    char json[300];
    snprintf(json, sizeof(json),
             "{\"text\":\"%s\",\"numbers\":[1,2],\"lines\":[{\"article\":\"a\","
             "\"count\":1}],\"wide\":1.5}",
             tea);
    struct some *some = NULL;
    size_t failed = 0;
    int code;
    json_set_alloc_funcs(count_malloc, count_free);
    do {
        countdown = ++failed;
        given = 0;
        code = bide_decode(some, json, strlen(json), &some);
        assert_true(code == BIDE_OK || code == BIDE_ENOMEM);
        assert_true((code == BIDE_OK) == (some != NULL));
        if (code == BIDE_OK && countdown == 0) {
            assert_string_equal(some->text, tea);
            bide_decoded_free(some);
            some = NULL;
        }
        assert_int_equal(given, 0);
    } while (countdown == 0);
    countdown = 0;
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(code, BIDE_OK);
    assert_true(failed > 10);
    assert_string_equal(some->text, tea);
    assert_string_equal(some->lines[0].article, "a");
    bide_decoded_free(some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_shape_of_field_is_read),
        cmocka_unit_test(decoded_value_is_encoded_unchanged),
        cmocka_unit_test(missing_or_null_value_is_zero),
        cmocka_unit_test(empty_bytes_are_not_null_and_empty_arrays_are),
        cmocka_unit_test(unknown_field_is_skipped),
        cmocka_unit_test(whole_numbers_may_be_written_in_other_ways),
        cmocka_unit_test(a_number_fits_from_its_least_to_its_greatest),
        cmocka_unit_test(numbers_of_many_digits_are_too_large),
        cmocka_unit_test(text_after_the_value_is_rejected),
        cmocka_unit_test(integers_too_large_for_jansson_do_not_affect_other_fields),
        cmocka_unit_test(non_integer_is_rejected),
        cmocka_unit_test(number_beyond_json_is_rejected),
        cmocka_unit_test(doubles_accept_any_number_and_floats_what_fits),
        cmocka_unit_test(only_true_and_false_are_bools),
        cmocka_unit_test(text_too_long_for_its_array_is_rejected),
        cmocka_unit_test(text_with_a_nul_is_rejected),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(invalid_base64_is_rejected),
        cmocka_unit_test(presence_flag_is_set),
        cmocka_unit_test(error_has_the_path_of_the_value),
        cmocka_unit_test(null_in_an_array_is_rejected),
        cmocka_unit_test(non_object_is_rejected),
        cmocka_unit_test(invalid_json_is_rejected),
        cmocka_unit_test(duplicate_field_is_rejected),
        cmocka_unit_test(structs_nest_to_a_limit),
        cmocka_unit_test(skipped_values_have_a_depth_limit),
        cmocka_unit_test(an_array_may_have_many_elements),
        cmocka_unit_test(everything_is_aligned),
        cmocka_unit_test(failed_allocation_in_the_arena_is_reported_and_leaks_nothing),
        cmocka_unit_test(failed_allocation_in_jansson_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("type_decode", tests, NULL, NULL);
}
