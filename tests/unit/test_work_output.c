/* SPDX-License-Identifier: MIT */
#include "cli/work_output.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tail tail;
static char text[BI_TAIL_SIZE + 1];

static const char *tail_of(const char *said)
{
    memset(&tail, 0, sizeof(tail));
    bi_tail_add(&tail, said, strlen(said));
    bi_tail_text(&tail, text);
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
        bi_tail_add(&tail, all + at, size - at < piece ? size - at : piece);
    free(all);
    bi_tail_text(&tail, text);
    return text;
}

/* ---- the end ---- */

static void what_is_short_is_all_there(void **state)
{
    (void)state;
    assert_string_equal(tail_of(""), "");
    assert_string_equal(tail_of("\n"), "");
    assert_string_equal(tail_of("no newline"), "no newline");
    assert_string_equal(tail_of("one\ntwo\n"), "one\ntwo");
    assert_string_equal(tail_of("one\r\n\n"), "one");
}

static void of_many_lines_the_last_whole_ones_are_there(void **state)
{
    static const size_t pieces[] = {1, 7, 100, 899, 900, 901, 1800, 1801, 4096, 1000000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        tail_of_lines(5000, pieces[i]);
        assert_memory_equal(text, "line ", 5);
        assert_string_equal(text + strlen(text) - 9, "line 5000");
        assert_in_range(strlen(text), BI_TAIL_SIZE - 10, BI_TAIL_SIZE);
    }
}

static void what_just_fits_is_not_cut(void **state)
{
    char said[BI_TAIL_SIZE + 2];
    (void)state;
    memset(said, 'x', sizeof(said));
    said[10] = '\n';
    said[BI_TAIL_SIZE] = '\n';
    said[BI_TAIL_SIZE + 1] = 0;
    tail_of(said);
    assert_int_equal(strlen(text), BI_TAIL_SIZE);
    assert_int_equal(text[10], '\n');
}

static void a_line_that_begins_where_the_cut_is_stays(void **state)
{
    char said[BI_TAIL_SIZE + 5];
    (void)state;
    memset(said, 'x', sizeof(said));
    memcpy(said, "cut\n", 4);
    said[BI_TAIL_SIZE + 4] = 0;
    tail_of(said);
    assert_int_equal(strlen(text), BI_TAIL_SIZE);
}

static void of_one_long_line_the_end_is_there(void **state)
{
    char said[5000];
    (void)state;
    memset(said, 'x', sizeof(said));
    memcpy(said + sizeof(said) - 8, "the end", 8);
    tail_of(said);
    assert_int_equal(strlen(text), BI_TAIL_SIZE);
    assert_string_equal(text + BI_TAIL_SIZE - 7, "the end");
}

static void no_character_is_cut_in_two(void **state)
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
    bi_tail_add(&tail, "a\0b", 3);
    bi_tail_text(&tail, text);
    assert_string_equal(text, "a b");
}

/* ---- the beginning ---- */

static void output_is_kept_up_to_its_limit(void **state)
{
    struct output output = {.most = 5000};
    (void)state;
    for (int i = 0; i < 1000; i++)
        bi_output_add(&output, "12345", 5);
    assert_false(output.cut);
    assert_int_equal(output.size, 5000);
    bi_output_mark(&output);
    assert_memory_equal(output.data + 4995, "12345", 5);
    bi_output_add(&output, "6", 1);
    assert_true(output.cut);
    assert_int_equal(output.size, 5000);
    bi_output_done(&output);
    assert_null(output.data);
}

static void output_that_was_cut_says_so_at_its_end(void **state)
{
    struct output output = {.most = 100};
    char said[200];
    (void)state;
    memset(said, 'x', sizeof(said));
    bi_output_add(&output, said, sizeof(said));
    bi_output_mark(&output);
    assert_int_equal(output.size, 100);
    assert_int_equal(output.data[0], 'x');
    assert_memory_equal(output.data + 100 - 13, "n 100 bytes]\n", 13);
    bi_output_done(&output);
}

static void output_too_small_for_the_mark_has_none(void **state)
{
    struct output output = {.most = 3};
    (void)state;
    bi_output_add(&output, "abcd", 4);
    bi_output_mark(&output);
    assert_int_equal(output.size, 3);
    assert_memory_equal(output.data, "abc", 3);
    bi_output_done(&output);
}

static void output_that_is_not_kept_is_not_cut(void **state)
{
    struct output output = {.most = 0};
    (void)state;
    bi_output_add(&output, "abcd", 4);
    assert_int_equal(output.size, 0);
    assert_false(output.cut);
    bi_output_done(&output);
}

static void the_head_is_the_first_lines_that_fit(void **state)
{
    struct output output = {.most = 100000};
    (void)state;
    bi_output_head(&output, text);
    assert_string_equal(text, "");
    bi_output_add(&output, "one\ntwo\n", 8);
    bi_output_head(&output, text);
    assert_string_equal(text, "one\ntwo");
    for (int i = 0; i < 1000; i++)
        bi_output_add(&output, "another\n", 8);
    bi_output_head(&output, text);
    assert_memory_equal(text, "one\ntwo\nanother\n", 16);
    assert_in_range(strlen(text), BI_TAIL_SIZE - 8, BI_TAIL_SIZE);
    assert_string_equal(text + strlen(text) - 8, "\nanother");
    bi_output_done(&output);
}

static void the_head_of_a_long_line_is_its_beginning(void **state)
{
    struct output output = {.most = 100000};
    (void)state;
    for (int i = 0; i < 1000; i++)
        bi_output_add(&output, "\xe2\x82\xac\xe2\x82\xac", 6);
    bi_output_head(&output, text);
    assert_in_range(strlen(text), BI_TAIL_SIZE - 3, BI_TAIL_SIZE);
    assert_int_equal(strlen(text) % 3, 0);
    bi_output_done(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_short_is_all_there),
        cmocka_unit_test(of_many_lines_the_last_whole_ones_are_there),
        cmocka_unit_test(what_just_fits_is_not_cut),
        cmocka_unit_test(a_line_that_begins_where_the_cut_is_stays),
        cmocka_unit_test(of_one_long_line_the_end_is_there),
        cmocka_unit_test(no_character_is_cut_in_two),
        cmocka_unit_test(a_nul_becomes_a_space),
        cmocka_unit_test(output_is_kept_up_to_its_limit),
        cmocka_unit_test(output_that_was_cut_says_so_at_its_end),
        cmocka_unit_test(output_too_small_for_the_mark_has_none),
        cmocka_unit_test(output_that_is_not_kept_is_not_cut),
        cmocka_unit_test(the_head_is_the_first_lines_that_fit),
        cmocka_unit_test(the_head_of_a_long_line_is_its_beginning),
    };
    return cmocka_run_group_tests_name("work_output", tests, NULL, NULL);
}
