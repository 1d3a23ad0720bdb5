/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "unit.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* The lines behind the blank one and the heading, with | between them. */
static void check_lines(int width, const char *bytes, size_t size, const char *wanted)
{
    struct page page = {.width = 0};
    char found[1000] = "";
    bi_top_page_reset(&page, width);
    bi_top_page_add_bytes(&page, "body", bytes, size);
    for (size_t i = 2; i < page.count; i++) {
        strcat(found, i == 2 ? "" : "|");
        strcat(found, page.lines[i]);
    }
    assert_string_equal(found, wanted);
    assert_false(page.out_of_memory);
    bi_top_page_free(&page);
}

#define CHECK_TEXT(width, text, wanted) check_lines((width), (text), sizeof(text) - 1, (wanted))

static void long_lines_are_folded(void **state)
{
    (void)state;
    CHECK_TEXT(10, "0123456789", "0123456789");
    CHECK_TEXT(10, "0123456789ab", "0123456789|ab");
    CHECK_TEXT(10, "one\ntwo\n\nfour", "one|two||four");
    CHECK_TEXT(10, "a\tb", "a       b");
    CHECK_TEXT(10, "", "");
}

static void wide_characters_are_never_split(void **state)
{
    (void)state;
    CHECK_TEXT(5, "日本語", "日本|語");
    CHECK_TEXT(4, "äöüß!", "äöüß|!");
}

static void control_bytes_are_shown_as_escapes(void **state)
{
    (void)state;
    CHECK_TEXT(40, "a\x1b[31mred\x07", "a\\x1b[31mred\\x07");
    CHECK_TEXT(40, "\r\x7f", "\\x0d\\x7f");
    CHECK_TEXT(40,
               "\xc2\x9b"
               "31m",
               "\\xc2\\x9b31m"); /* the CSI of 8 bits */
    CHECK_TEXT(40,
               "\xe2\x80\xae"
               "x",
               "\\xe2\\x80\\xaex"); /* right to left */
    CHECK_TEXT(6, "abcd\x1b", "abcd|\\x1b");
}

static void binary_data_is_shown_as_a_hexdump(void **state)
{
    (void)state;
    CHECK_TEXT(80,
               "\xff\x00"
               "A\x1b",
               "00000000  ff 00 41 1b                                     ..A.");
    CHECK_TEXT(42,
               "\x00"
               "23456789",
               "00000000  00 32 33 34 35 36 37 38 .2345678|00000008  39                      9");
}

/* A table line is never wider than the windows that have one. */
static void hexdump_fits_the_window(void **state)
{
    (void)state;
    for (int width = 26; width < 100; width++) {
        struct page page = {.width = 0};
        char bytes[64] = {0};
        bi_top_page_reset(&page, width);
        bi_top_page_add_bytes(&page, "body", bytes, sizeof(bytes));
        for (size_t i = 2; i < page.count; i++)
            assert_true(strlen(page.lines[i]) <= (size_t)width);
        bi_top_page_free(&page);
    }
}

static void long_data_shows_its_first_bytes(void **state)
{
    (void)state;
    size_t size = 3 * BI_TOP_PAGE_BYTES_MAX;
    char *bytes = malloc(size);
    struct page page = {.width = 0};
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i += 3)
        memcpy(bytes + i, "日", 3); /* which the limit cuts in the middle */
    bi_top_page_reset(&page, 80);
    bi_top_page_add_bytes(&page, "body", bytes, size);
    assert_string_equal(page.lines[1], "body: 786432 bytes, the first 262144 of them");
    assert_int_equal(page.count, 2 + (BI_TOP_PAGE_BYTES_MAX / 3 + 39) / 40);
    bi_top_page_free(&page);
    free(bytes);
}

static void combining_marks_do_not_grow_a_line_without_bound(void **state)
{
    (void)state;
    struct page page = {.width = 0};
    char bytes[1 + 2 * 5000];
    bytes[0] = 'a';
    for (size_t i = 1; i < sizeof(bytes); i += 2)
        memcpy(bytes + i, "\xcc\x81", 2);
    bi_top_page_reset(&page, 40);
    bi_top_page_add_bytes(&page, "body", bytes, sizeof(bytes));
    assert_int_equal(page.count, 3);
    assert_in_range(strlen(page.lines[2]), 1, 160);
    bi_top_page_free(&page);
}

static void reset_clears_the_page(void **state)
{
    (void)state;
    struct page page = {.width = 0};
    bi_top_page_reset(&page, 40);
    bi_top_page_add_line(&page, "%s %d", "one", 1);
    bi_top_page_reset(&page, 20);
    bi_top_page_add_line(&page, "two");
    assert_int_equal(page.count, 1);
    assert_string_equal(page.lines[0], "two");
    bi_top_page_add_bytes(&page, "key", "k", 1);
    assert_string_equal(page.lines[2], "key: 1 byte");
    bi_top_page_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines_are_folded),
        cmocka_unit_test(wide_characters_are_never_split),
        cmocka_unit_test(control_bytes_are_shown_as_escapes),
        cmocka_unit_test(binary_data_is_shown_as_a_hexdump),
        cmocka_unit_test(hexdump_fits_the_window),
        cmocka_unit_test(long_data_shows_its_first_bytes),
        cmocka_unit_test(combining_marks_do_not_grow_a_line_without_bound),
        cmocka_unit_test(reset_clears_the_page),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
