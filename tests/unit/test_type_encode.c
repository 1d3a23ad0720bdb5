/* SPDX-License-Identifier: MIT */
/*
 * Structs as JSON: what is written, and what cannot be.
 */
#include "typed.h"
#include "unit.h"

#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers ---- */

static void assert_written(const bide_type *type, const void *value, const char *json)
{
    bide_buf *buf = NULL;
    if (bide_type_encode(type, value, &buf) != BIDE_OK)
        fail_msg("%s", bide_last_error());
    assert_string_equal(bide_buf_data(buf), json);
    assert_int_equal(bide_buf_size(buf), strlen(json));
    assert_string_equal(bide_last_error(), "");
    bide_buf_unref(buf);
}

static void assert_refused(const bide_type *type, const void *value, const char *sentence)
{
    bide_buf *buf = NULL;
    assert_int_equal(bide_type_encode(type, value, &buf), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), sentence);
    assert_null(buf);
}

struct number {
    double wide;
};
BIDE_TYPE(number, struct number, BIDE_FIELD(wide));
struct narrow {
    float narrow;
};
BIDE_TYPE(narrow, struct narrow, BIDE_FIELD(narrow));

static void assert_number(double value, const char *json)
{
    assert_written(bide_type_of_number(), &(struct number){value}, json);
}

/* ---- what is written ---- */

static void struct_is_encoded_as_documented(void **state)
{
    (void)state;
    struct line line = {"tea", 2};
    assert_written(bide_type_of_line(), &line, "{\"article\":\"tea\",\"count\":2}");
}

static void every_kind_and_shape_of_field_is_written(void **state)
{
    (void)state;
    struct line lines[] = {{"pot", 1}, {"cup", 6}};
    struct node next = {.value = 2}, child = {.value = 3};
    struct node tree = {1, &next, &child, 1};
    bool flags[] = {true, false};
    int16_t numbers[] = {1, -2, 3};
    double reals[] = {1, 1e100};
    const char *texts[] = {"a", ""};
    char names[2][4] = {"abc", ""};
    bide_slice blobs[] = {{"f", 1}, {"", 0}};
    struct all all = {
        .yes = true,
        .i8 = INT8_MIN,
        .i16 = INT16_MIN,
        .i32 = INT32_MIN,
        .i64 = INT64_MIN,
        .u8 = UINT8_MAX,
        .u16 = UINT16_MAX,
        .u32 = UINT32_MAX,
        .u64 = UINT64_MAX,
        .color = BLUE,
        .narrow = 0.1F,
        .wide = 9.99,
        .text = "\xc3\xa9",
        .chars = "seven77",
        .bytes = {"\0\xff", 2},
        .maybe_text = "",
        .maybe_bytes = {"", 0},
        .maybe_number = 5,
        .if_number = -0.5,
        .has_number = true,
        .if_text = "if",
        .has_text = true,
        .flags = flags,
        .flag_count = 2,
        .numbers = numbers,
        .number_count = 3,
        .reals = reals,
        .real_count = 2,
        .texts = texts,
        .text_count = 2,
        .names = names,
        .name_count = 2,
        .blobs = blobs,
        .blob_count = 2,
        .line = {"tea", 2},
        .maybe_line = &lines[0],
        .lines = &lines[1],
        .line_count = 1,
        .tree = &tree,
    };
    assert_written(bide_type_of_all(), &all, ALL_JSON);
}

static void missing_optional_field_is_omitted(void **state)
{
    (void)state;
    struct all all = {.text = "", .line = {"", 0}, .if_number = 5, .if_text = "not there"};
    assert_written(bide_type_of_all(), &all,
                   "{\"yes\":false,\"i8\":0,\"i16\":0,\"i32\":0,\"i64\":0,\"u8\":0,\"u16\":0,"
                   "\"u32\":0,\"u64\":0,\"color\":0,\"narrow\":0.0,\"wide\":0.0,\"text\":\"\","
                   "\"chars\":\"\",\"bytes\":\"\",\"maybe_number\":0,\"flags\":[],\"numbers\":[],"
                   "\"reals\":[],\"texts\":[],\"names\":[],\"blobs\":[],"
                   "\"line\":{\"article\":\"\",\"count\":0},\"lines\":[]}");
}

static void text_is_escaped_where_json_wants_it(void **state)
{
    (void)state;
    struct line line = {"\"\\/\b\f\n\r\t\x01\x7f", 0};
    assert_written(bide_type_of_line(), &line,
                   "{\"article\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\",\"count\":0}");
}

static void text_of_every_length_of_character_is_written(void **state)
{
    (void)state;
    struct line line = {"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"
                        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
                        0};
    struct line *back;
    bide_buf *json;
    assert_int_equal(bide_encode(line, line, &json), BIDE_OK);
    assert_int_equal(bide_decode(line, bide_buf_data(json), bide_buf_size(json), &back), BIDE_OK);
    assert_string_equal(back->article, line.article);
    bide_decoded_free(back);
    bide_buf_unref(json);
}

static void numbers_above_the_integers_of_json_are_digits_in_a_string(void **state)
{
    (void)state;
    struct {
        uint64_t number;
    } below = {INT64_MAX}, above = {(uint64_t)INT64_MAX + 1};
    static const bide_field field = {"number", BIDE_KIND_UINT, BIDE_SHAPE_ONE, false, 0, 8, 0,
                                     0,        false,          NULL,           {0, 0}};
    static const bide_type type = {"run-time", 8, &field, 1, false, {0, 0}};
    assert_written(&type, &below, "{\"number\":9223372036854775807}");
    assert_written(&type, &above, "{\"number\":\"9223372036854775808\"}");
}

static void doubles_have_the_digits_that_they_need(void **state)
{
    (void)state;
    assert_number(0.1, "{\"wide\":0.1}");
    assert_number(1, "{\"wide\":1.0}");
    assert_number(-0.0, "{\"wide\":-0.0}");
    assert_number(1e22, "{\"wide\":1e22}");
    assert_number(1.0 / 3, "{\"wide\":0.33333333333333331}");
    assert_number(DBL_MAX, "{\"wide\":1.7976931348623157e308}");
    assert_number(DBL_MIN, "{\"wide\":2.2250738585072014e-308}");
}

/* Those that are hard to write: they must come back bit by bit. */
static void doubles_and_floats_round_trip(void **state)
{
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 3000; i++) {
        struct number number, *back;
        struct narrow narrow, *narrow_back;
        bide_buf *json;
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&number, &bits, sizeof(bits));
        uint32_t low = (uint32_t)(bits >> 32);
        memcpy(&narrow, &low, sizeof(low));
        if (!isfinite(number.wide) || !isfinite(narrow.narrow))
            continue;
        assert_int_equal(bide_encode(number, number, &json), BIDE_OK);
        assert_int_equal(bide_decode(number, bide_buf_data(json), bide_buf_size(json), &back),
                         BIDE_OK);
        assert_memory_equal(back, &number, sizeof(number));
        bide_decoded_free(back);
        bide_buf_unref(json);
        assert_int_equal(bide_encode(narrow, narrow, &json), BIDE_OK);
        assert_int_equal(
            bide_decode(narrow, bide_buf_data(json), bide_buf_size(json), &narrow_back), BIDE_OK);
        assert_memory_equal(narrow_back, &narrow, sizeof(narrow));
        bide_decoded_free(narrow_back);
        bide_buf_unref(json);
    }
}

static void large_values_are_written_whole(void **state)
{
    (void)state;
    const size_t size = 100000;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = 0;
    bide_buf *json;
    assert_int_equal(bide_encode(line, ((struct line){text, 1}), &json), BIDE_OK);
    assert_int_equal(bide_buf_size(json), size + strlen("{\"article\":\"\",\"count\":1}"));
    struct line *back;
    assert_int_equal(bide_decode(line, bide_buf_data(json), bide_buf_size(json), &back), BIDE_OK);
    assert_string_equal(back->article, text);
    bide_decoded_free(back);
    bide_buf_unref(json);
    free(text);
}

/* ---- what cannot be ---- */

static void missing_required_text_is_rejected(void **state)
{
    (void)state;
    assert_refused(bide_type_of_line(), &(struct line){NULL, 1}, "line.article: it is NULL");
    struct all all = {.text = "", .line = {"", 0}, .has_text = true};
    assert_refused(bide_type_of_all(), &all, "all.if_text: it is NULL");
}

static void text_that_is_not_utf8_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\xff",
        "\xc3",
        "\xc0\x80",
        "\xc1\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "a\x80",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc3(",
        "\xe2\x82(",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_refused(bide_type_of_line(), &(struct line){texts[i], 1},
                       "line.article: the text is not UTF-8");
}

static void unterminated_text_array_is_rejected(void **state)
{
    (void)state;
    struct all all = {.text = "", .line = {"", 0}};
    memset(all.chars, 'x', sizeof(all.chars));
    assert_refused(bide_type_of_all(), &all, "all.chars: the text does not end within its 8 bytes");
}

static void nan_and_infinity_are_rejected(void **state)
{
    (void)state;
    assert_refused(bide_type_of_number(), &(struct number){NAN},
                   "number.wide: nan cannot be written as JSON");
    assert_refused(bide_type_of_number(), &(struct number){-INFINITY},
                   "number.wide: -inf cannot be written as JSON");
    assert_refused(bide_type_of_narrow(), &(struct narrow){INFINITY},
                   "narrow.narrow: inf cannot be written as JSON");
}

static void null_array_with_a_count_is_rejected(void **state)
{
    (void)state;
    struct all all = {.text = "", .line = {"", 0}, .number_count = 3};
    assert_refused(bide_type_of_all(), &all, "all.numbers: it is NULL and has 3 elements");
    all.number_count = 0;
    all.bytes.size = 2;
    assert_refused(bide_type_of_all(), &all, "all.bytes: it is NULL and has 2 bytes");
}

static void error_has_the_path_of_the_value(void **state)
{
    (void)state;
    const char *texts[] = {"a", NULL};
    struct line lines[] = {{"a", 1}, {"b", 1}, {"\xff", 1}};
    struct all all = {.text = "", .line = {"", 0}, .texts = texts, .text_count = 2};
    assert_refused(bide_type_of_all(), &all, "all.texts[1]: it is NULL");
    all.text_count = 1;
    all.lines = lines;
    all.line_count = 3;
    assert_refused(bide_type_of_all(), &all, "all.lines[2].article: the text is not UTF-8");
    all.line_count = 0;
    all.maybe_line = &lines[2];
    assert_refused(bide_type_of_all(), &all, "all.maybe a line.article: the text is not UTF-8");
}

static void make_chain(struct node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct node){.value = (int)i, .next = i + 1 < count ? &nodes[i + 1] : NULL};
}

static void chain_of_the_maximum_depth_is_encoded(void **state)
{
    (void)state;
    struct node nodes[BIDE_NESTING_MAX + 2];
    bide_buf *json = NULL;
    struct node *back;
    make_chain(nodes, BIDE_NESTING_MAX + 1);
    assert_int_equal(bide_encode(node, nodes[0], &json), BIDE_OK);
    assert_int_equal(bide_decode(node, bide_buf_data(json), bide_buf_size(json), &back), BIDE_OK);
    const struct node *last = back;
    while (last->next != NULL)
        last = last->next;
    assert_int_equal(last->value, BIDE_NESTING_MAX);
    bide_decoded_free(back);
    bide_buf_unref(json);
    json = NULL;
    make_chain(nodes, BIDE_NESTING_MAX + 2);
    assert_int_equal(bide_encode(node, nodes[0], &json), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "next.next: more than 32 structs in structs"));
    assert_null(json);
}

static void cycle_is_rejected(void **state)
{
    (void)state;
    struct node node = {.value = 1, .next = &node};
    bide_buf *json = NULL;
    assert_int_equal(bide_type_encode(bide_type_of_node(), &node, &json), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "more than 32 structs in structs"));
    node = (struct node){.value = 1, .children = &node, .child_count = 1};
    assert_int_equal(bide_type_encode(bide_type_of_node(), &node, &json), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), ".children[0]: more than 32 structs in structs"));
    assert_true(strlen(bide_last_error()) < BIDE_ERROR_SIZE);
    assert_memory_equal(bide_last_error(), "...", 3);
    assert_null(json);
}

static void duplicate_field_names_are_rejected(void **state)
{
    (void)state;
    static const bide_field fields[] = {
        {"a", BIDE_KIND_INT, BIDE_SHAPE_ONE, false, 0, 4, 0, 0, false, NULL, {0, 0}},
        {"a", BIDE_KIND_INT, BIDE_SHAPE_ONE, false, 4, 4, 0, 0, false, NULL, {0, 0}},
    };
    static const bide_type type = {"twice", 8, fields, 2, false, {0, 0}};
    int32_t value[2] = {1, 2};
    assert_refused(&type, value, "twice: two fields are called a");
}

/* ---- memory ---- */

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

static void failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    struct all *all;
    bide_buf *json = NULL;
    assert_int_equal(bide_decode(all, ALL_JSON, strlen(ALL_JSON), &all), BIDE_OK);
    json_set_alloc_funcs(count_malloc, count_free);
    size_t failed = 0;
    int code;
    do {
        countdown = ++failed;
        given = 0;
        code = bide_type_encode(bide_type_of_all(), all, &json);
        assert_true(code == BIDE_OK || code == BIDE_ENOMEM);
        assert_true(code == BIDE_OK || json == NULL);
        assert_int_equal(given, 0);
    } while (countdown == 0);
    countdown = 0;
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(code, BIDE_OK);
    assert_true(failed > 50);
    assert_string_equal(bide_buf_data(json), ALL_JSON);
    bide_buf_unref(json);
    bide_decoded_free(all);
}

/* ---- surroundings ---- */

/* Where the comma is the decimal point, JSON has still a dot. The name of such a locale is the
 * system's; without one, the test sees that of C, which it says. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
    size_t i = 0;
    while (setlocale(LC_NUMERIC, names[i]) == NULL)
        i++;
    assert_number(0.5, "{\"wide\":0.5}");
    struct number *back;
    assert_int_equal(bide_decode(number, "{\"wide\":2.5}", 12, &back), BIDE_OK);
    assert_true(back->wide == 2.5);
    bide_decoded_free(back);
    setlocale(LC_NUMERIC, "C");
}

static void *write_and_read(void *arg)
{
    for (int i = 0; i < 200; i++) {
        struct all *all = NULL;
        bide_buf *json = NULL;
        if (bide_decode(all, ALL_JSON, strlen(ALL_JSON), &all) != BIDE_OK ||
            bide_encode(all, *all, &json) != BIDE_OK || strcmp(bide_buf_data(json), ALL_JSON) != 0)
            *(bool *)arg = false;
        bide_buf_unref(json);
        bide_decoded_free(all);
    }
    return NULL;
}

static void threads_write_and_read_at_the_same_time(void **state)
{
    (void)state;
    pthread_t threads[4];
    bool good[COUNT_OF(threads)];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        good[i] = true;
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, &good[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(struct_is_encoded_as_documented),
        cmocka_unit_test(every_kind_and_shape_of_field_is_written),
        cmocka_unit_test(missing_optional_field_is_omitted),
        cmocka_unit_test(text_is_escaped_where_json_wants_it),
        cmocka_unit_test(text_of_every_length_of_character_is_written),
        cmocka_unit_test(numbers_above_the_integers_of_json_are_digits_in_a_string),
        cmocka_unit_test(doubles_have_the_digits_that_they_need),
        cmocka_unit_test(doubles_and_floats_round_trip),
        cmocka_unit_test(large_values_are_written_whole),
        cmocka_unit_test(missing_required_text_is_rejected),
        cmocka_unit_test(text_that_is_not_utf8_is_rejected),
        cmocka_unit_test(unterminated_text_array_is_rejected),
        cmocka_unit_test(nan_and_infinity_are_rejected),
        cmocka_unit_test(null_array_with_a_count_is_rejected),
        cmocka_unit_test(error_has_the_path_of_the_value),
        cmocka_unit_test(chain_of_the_maximum_depth_is_encoded),
        cmocka_unit_test(cycle_is_rejected),
        cmocka_unit_test(duplicate_field_names_are_rejected),
        cmocka_unit_test(failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(threads_write_and_read_at_the_same_time),
    };
    return cmocka_run_group_tests_name("type", tests, NULL, NULL);
}
