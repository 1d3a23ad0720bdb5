/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct input input;
static int ends[2]; /* of a pipe: what is written to the second is the input */

static int begin_with(char separator, size_t limit)
{
    assert_int_equal(pipe(ends), 0);
    bi_input_init(&input, ends[0], separator, limit);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with('\n', 100);
}

static int end(void **state)
{
    (void)state;
    bi_input_done(&input);
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return 0;
}

static void give(const char *bytes, size_t size)
{
    assert_int_equal(write(ends[1], bytes, size), size);
    assert_true(bi_input_fill(&input));
}

#define GIVE(text) give(text, sizeof(text) - 1)

static void give_end(void)
{
    close(ends[1]);
    ends[1] = -1;
    assert_true(bi_input_fill(&input));
}

static void comes(const char *bytes, size_t size)
{
    bide_slice piece;
    assert_int_equal(bi_input_next(&input, &piece), BI_INPUT_RECORD);
    assert_int_equal(piece.size, size);
    assert_memory_equal(piece.data, bytes, size);
}

#define COMES(text) comes(text, sizeof(text) - 1)

static void is_now(enum bi_input_status expected)
{
    bide_slice piece;
    assert_int_equal(bi_input_next(&input, &piece), expected);
}

/* ---- pieces ---- */

static void lines_come_without_their_newlines(void **state)
{
    (void)state;
    GIVE("one\ntwo\n");
    COMES("one");
    COMES("two");
    assert_int_equal(input.number, 2);
    is_now(BI_INPUT_NEED_MORE);
    give_end();
    is_now(BI_INPUT_EOF);
    is_now(BI_INPUT_EOF);
    assert_int_equal(input.number, 2);
}

static void last_line_needs_no_newline(void **state)
{
    (void)state;
    GIVE("one\ntwo");
    COMES("one");
    is_now(BI_INPUT_NEED_MORE);
    give_end();
    COMES("two");
    is_now(BI_INPUT_EOF);
}

static void empty_input_has_no_lines(void **state)
{
    (void)state;
    is_now(BI_INPUT_NEED_MORE);
    give_end();
    is_now(BI_INPUT_EOF);
    assert_int_equal(input.number, 0);
}

static void an_empty_line_is_a_line(void **state)
{
    (void)state;
    GIVE("\n\nx\n\n");
    COMES("");
    COMES("");
    COMES("x");
    COMES("");
    give_end();
    is_now(BI_INPUT_EOF);
}

static void only_the_separator_is_special(void **state)
{
    (void)state;
    GIVE("a\r\n\0b\xff\n \t\n");
    COMES("a\r");
    COMES("\0b\xff");
    COMES(" \t");
}

static void pieces_may_end_with_a_nul(void **state)
{
    (void)state;
    input.separator = 0;
    GIVE("one\ntwo\0\0three");
    COMES("one\ntwo");
    COMES("");
    give_end();
    COMES("three");
    is_now(BI_INPUT_EOF);
}

static void a_line_may_come_byte_by_byte(void **state)
{
    (void)state;
    const char *text = "hello\n";
    for (size_t i = 0; i < 5; i++) {
        give(text + i, 1);
        is_now(BI_INPUT_NEED_MORE);
    }
    give(text + 5, 1);
    COMES("hello");
}

/* ---- the limit ---- */

static void line_of_the_maximum_length_is_returned(void **state)
{
    (void)state;
    char line[101];
    memset(line, 'x', 100);
    line[100] = '\n';
    give(line, 101);
    comes(line, 100);
}

static void line_over_the_limit_is_followed_by_the_next(void **state)
{
    (void)state;
    char line[102];
    memset(line, 'x', 101);
    line[101] = '\n';
    give(line, 102);
    is_now(BI_INPUT_TOO_LONG);
    assert_int_equal(input.number, 1);
    GIVE("next\n");
    COMES("next");
    assert_int_equal(input.number, 2);
}

static void overlong_line_is_discarded(void **state)
{
    (void)state;
    static char much[4096];
    memset(much, 'x', sizeof(much));
    for (int i = 0; i < 1000; i++) {
        give(much, sizeof(much));
        is_now(BI_INPUT_NEED_MORE);
    }
    assert_in_range(input.room, 1, 1 << 20);
    GIVE("\nnext\n");
    is_now(BI_INPUT_TOO_LONG);
    COMES("next");
    assert_int_equal(input.number, 2);
}

static void a_last_line_may_be_too_long(void **state)
{
    (void)state;
    char line[200];
    memset(line, 'x', sizeof(line));
    give(line, sizeof(line));
    is_now(BI_INPUT_NEED_MORE);
    give_end();
    is_now(BI_INPUT_TOO_LONG);
    is_now(BI_INPUT_EOF);
    assert_int_equal(input.number, 1);
}

/* ---- many ---- */

#define BYTES 20000

/* Compares with strchr on the whole text. */
static void lines_do_not_depend_on_read_sizes(void **state)
{
    (void)state;
    static char text[BYTES + 1];
    input.limit = BYTES;
    srand(7);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (char)(rand() % 12 == 0 ? '\n' : 'a' + rand() % 26);
    const char *expected = text;
    for (size_t sent = 0; sent < BYTES;) {
        size_t size = (size_t)(rand() % 300) + 1;
        size = size < BYTES - sent ? size : BYTES - sent;
        give(text + sent, size);
        sent += size;
        bide_slice piece;
        while (bi_input_next(&input, &piece) == BI_INPUT_RECORD) {
            const char *newline = strchr(expected, '\n');
            assert_int_equal(piece.size, newline - expected);
            assert_memory_equal(piece.data, expected, piece.size);
            expected = newline + 1;
        }
    }
    give_end();
    if (*expected != 0)
        comes(expected, strlen(expected));
    is_now(BI_INPUT_EOF);
}

/* ---- reading ---- */

static void invalid_descriptor_cannot_be_read(void **state)
{
    (void)state;
    bide_buf *whole = NULL;
    input.fd = dup(ends[0]);
    close(input.fd);
    assert_false(bi_input_fill(&input));
    assert_int_equal(errno, EBADF);
    assert_false(bi_input_read_all(input.fd, &whole));
    assert_int_equal(errno, EBADF);
    assert_null(whole);
}

static void a_whole_input_has_all_its_bytes(void **state)
{
    (void)state;
    bide_buf *whole;
    assert_int_equal(write(ends[1], "a\n\0b", 4), 4);
    close(ends[1]);
    ends[1] = -1;
    assert_true(bi_input_read_all(ends[0], &whole));
    assert_int_equal(bide_buf_size(whole), 4);
    assert_memory_equal(bide_buf_data(whole), "a\n\0b", 4);
    bide_buf_unref(whole);
    assert_true(bi_input_read_all(ends[0], &whole));
    assert_int_equal(bide_buf_size(whole), 0);
    bide_buf_unref(whole);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_come_without_their_newlines),
        TEST(last_line_needs_no_newline),
        TEST(empty_input_has_no_lines),
        TEST(an_empty_line_is_a_line),
        TEST(only_the_separator_is_special),
        TEST(pieces_may_end_with_a_nul),
        TEST(a_line_may_come_byte_by_byte),
        TEST(line_of_the_maximum_length_is_returned),
        TEST(line_over_the_limit_is_followed_by_the_next),
        TEST(overlong_line_is_discarded),
        TEST(a_last_line_may_be_too_long),
        TEST(lines_do_not_depend_on_read_sizes),
        TEST(invalid_descriptor_cannot_be_read),
        TEST(a_whole_input_has_all_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
