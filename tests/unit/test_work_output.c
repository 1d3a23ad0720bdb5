/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tail tail;
static char text[BI_WORK_TAIL_SIZE + 1];

static const char *tail_of(const char *said)
{
    memset(&tail, 0, sizeof(tail));
    bi_work_output_add_tail(&tail, said, strlen(said));
    bi_work_output_tail_text(&tail, text);
    return text;
}

/* So many lines "line 1", "line 2", ..., in pieces of that size. */
static const char *tail_of_lines(int count, size_t piece)
{
    char *all = calloc((size_t)count + 1, 16);
    size_t size = 0;
    assert_non_null(all);
    for (int i = 1; i <= count; i++)
        size += (size_t)sprintf(all + size, "line %d\n", i);
    memset(&tail, 0, sizeof(tail));
    for (size_t at = 0; at < size; at += piece)
        bi_work_output_add_tail(&tail, all + at, size - at < piece ? size - at : piece);
    free(all);
    bi_work_output_tail_text(&tail, text);
    return text;
}

/* ---- the end ---- */

static void short_output_is_kept_whole(void **state)
{
    (void)state;
    assert_string_equal(tail_of(""), "");
    assert_string_equal(tail_of("\n"), "");
    assert_string_equal(tail_of("no newline"), "no newline");
    assert_string_equal(tail_of("one\ntwo\n"), "one\ntwo");
    assert_string_equal(tail_of("one\r\n\n"), "one");
}

static void tail_keeps_the_last_whole_lines(void **state)
{
    static const size_t pieces[] = {1, 7, 100, 899, 900, 901, 1800, 1801, 4096, 1000000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        tail_of_lines(5000, pieces[i]);
        assert_memory_equal(text, "line ", 5);
        assert_string_equal(text + strlen(text) - 9, "line 5000");
        assert_in_range(strlen(text), BI_WORK_TAIL_SIZE - 10, BI_WORK_TAIL_SIZE);
    }
}

static void exact_fit_is_not_truncated(void **state)
{
    char said[BI_WORK_TAIL_SIZE + 2];
    (void)state;
    memset(said, 'x', sizeof(said));
    said[10] = '\n';
    said[BI_WORK_TAIL_SIZE] = '\n';
    said[BI_WORK_TAIL_SIZE + 1] = 0;
    tail_of(said);
    assert_int_equal(strlen(text), BI_WORK_TAIL_SIZE);
    assert_int_equal(text[10], '\n');
}

static void line_starting_at_the_cut_is_kept(void **state)
{
    char said[BI_WORK_TAIL_SIZE + 5];
    (void)state;
    memset(said, 'x', sizeof(said));
    memcpy(said, "cut\n", 4);
    said[BI_WORK_TAIL_SIZE + 4] = 0;
    tail_of(said);
    assert_int_equal(strlen(text), BI_WORK_TAIL_SIZE);
}

static void tail_of_one_long_line_is_its_end(void **state)
{
    char said[5000];
    (void)state;
    memset(said, 'x', sizeof(said));
    memcpy(said + sizeof(said) - 8, "the end", 8);
    tail_of(said);
    assert_int_equal(strlen(text), BI_WORK_TAIL_SIZE);
    assert_string_equal(text + BI_WORK_TAIL_SIZE - 7, "the end");
}

static void utf8_characters_are_not_split(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        char said[3001 + 3];
        memset(said, 'x', shift);
        for (size_t i = 0; i < 1000; i++)
            memcpy(said + shift + 3 * i, "\xe2\x82\xac", 3);
        said[shift + 3000] = 0;
        tail_of(said);
        assert_int_equal((unsigned char)text[0], 0xe2);
        assert_int_equal(strlen(text) % 3, 0);
    }
}

static void a_nul_becomes_a_space(void **state)
{
    (void)state;
    memset(&tail, 0, sizeof(tail));
    bi_work_output_add_tail(&tail, "a\0b", 3);
    bi_work_output_tail_text(&tail, text);
    assert_string_equal(text, "a b");
}

/* ---- the beginning ---- */

static void output_is_kept_up_to_its_limit(void **state)
{
    struct output output = {.limit = 5000};
    (void)state;
    for (int i = 0; i < 1000; i++)
        bi_work_output_add(&output, "12345", 5);
    assert_false(output.truncated);
    assert_int_equal(output.size, 5000);
    bi_work_output_mark_truncated(&output);
    assert_memory_equal(output.data + 4995, "12345", 5);
    bi_work_output_add(&output, "6", 1);
    assert_true(output.truncated);
    assert_int_equal(output.size, 5000);
    bi_work_output_done(&output);
    assert_null(output.data);
}

static void truncated_output_ends_with_a_marker(void **state)
{
    struct output output = {.limit = 100};
    char said[200];
    (void)state;
    memset(said, 'x', sizeof(said));
    bi_work_output_add(&output, said, sizeof(said));
    bi_work_output_mark_truncated(&output);
    assert_int_equal(output.size, 100);
    assert_int_equal(output.data[0], 'x');
    assert_memory_equal(output.data + 100 - 13, "n 100 bytes]\n", 13);
    bi_work_output_done(&output);
}

static void tiny_output_has_no_marker(void **state)
{
    struct output output = {.limit = 3};
    (void)state;
    bi_work_output_add(&output, "abcd", 4);
    bi_work_output_mark_truncated(&output);
    assert_int_equal(output.size, 3);
    assert_memory_equal(output.data, "abc", 3);
    bi_work_output_done(&output);
}

static void discarded_output_is_not_truncated(void **state)
{
    struct output output = {.limit = 0};
    (void)state;
    bi_work_output_add(&output, "abcd", 4);
    assert_int_equal(output.size, 0);
    assert_false(output.truncated);
    bi_work_output_done(&output);
}

static void the_head_is_the_first_lines_that_fit(void **state)
{
    struct output output = {.limit = 100000};
    (void)state;
    bi_work_output_head(&output, text);
    assert_string_equal(text, "");
    bi_work_output_add(&output, "one\ntwo\n", 8);
    bi_work_output_head(&output, text);
    assert_string_equal(text, "one\ntwo");
    for (int i = 0; i < 1000; i++)
        bi_work_output_add(&output, "another\n", 8);
    bi_work_output_head(&output, text);
    assert_memory_equal(text, "one\ntwo\nanother\n", 16);
    assert_in_range(strlen(text), BI_WORK_TAIL_SIZE - 8, BI_WORK_TAIL_SIZE);
    assert_string_equal(text + strlen(text) - 8, "\nanother");
    bi_work_output_done(&output);
}

static void the_head_of_a_long_line_is_its_beginning(void **state)
{
    struct output output = {.limit = 100000};
    (void)state;
    for (int i = 0; i < 1000; i++)
        bi_work_output_add(&output, "\xe2\x82\xac\xe2\x82\xac", 6);
    bi_work_output_head(&output, text);
    assert_in_range(strlen(text), BI_WORK_TAIL_SIZE - 3, BI_WORK_TAIL_SIZE);
    assert_int_equal(strlen(text) % 3, 0);
    bi_work_output_done(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_output_is_kept_whole),
        cmocka_unit_test(tail_keeps_the_last_whole_lines),
        cmocka_unit_test(exact_fit_is_not_truncated),
        cmocka_unit_test(line_starting_at_the_cut_is_kept),
        cmocka_unit_test(tail_of_one_long_line_is_its_end),
        cmocka_unit_test(utf8_characters_are_not_split),
        cmocka_unit_test(a_nul_becomes_a_space),
        cmocka_unit_test(output_is_kept_up_to_its_limit),
        cmocka_unit_test(truncated_output_ends_with_a_marker),
        cmocka_unit_test(tiny_output_has_no_marker),
        cmocka_unit_test(discarded_output_is_not_truncated),
        cmocka_unit_test(the_head_is_the_first_lines_that_fit),
        cmocka_unit_test(the_head_of_a_long_line_is_its_beginning),
    };
    return cmocka_run_group_tests_name("work_output", tests, NULL, NULL);
}
