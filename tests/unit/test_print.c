/* SPDX-License-Identifier: MIT */
#include "cli/print.h"

#include "unit.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what goes to standard output, and to streams ---- */

static int kept_out = -1;
static FILE *caught;

static void catch_output(void)
{
    fflush(stdout);
    caught = tmpfile();
    kept_out = dup(STDOUT_FILENO);
    assert_non_null(caught);
    assert_true(dup2(fileno(caught), STDOUT_FILENO) >= 0);
}

/* What was printed since, in one static text. */
static const char *caught_output(void)
{
    static char text[1 << 16];
    fflush(stdout);
    dup2(kept_out, STDOUT_FILENO);
    close(kept_out);
    rewind(caught);
    size_t size = fread(text, 1, sizeof(text) - 1, caught);
    text[size] = 0;
    fclose(caught);
    return text;
}

typedef void printer(FILE *to, bool terminal, const void *data, size_t size);

static void assert_prints(printer *print, bool terminal, const void *data, size_t size,
                          const void *wanted, size_t wanted_size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    print(to, terminal, data, size);
    fclose(to);
    assert_int_equal(length, wanted_size);
    assert_memory_equal(text, wanted, wanted_size);
    free(text);
}

#define PRINTS(print, terminal, data, wanted) \
    assert_prints(print, terminal, data, sizeof(data) - 1, wanted, sizeof(wanted) - 1)

/* ---- bytes ---- */

static void bytes_are_unchanged_outside_a_terminal(void **state)
{
    (void)state;
    PRINTS(bi_print_bytes, false, "a\0\x1b[2J\xff\n\xc2\x9b", "a\0\x1b[2J\xff\n\xc2\x9b");
    assert_prints(bi_print_bytes, false, NULL, 0, "", 0);
}

static void terminal_controls_are_shown_escaped(void **state)
{
    (void)state;
    PRINTS(bi_print_bytes, true, "a\x1b[2Jb\x07\x7f", "a\\x1b[2Jb\\x07\\x7f");
    PRINTS(bi_print_bytes, true, "a\0b\r\n\tc", "a\\x00b\\r\n\tc");
    /* The C1 controls: as UTF-8, and as single bytes. */
    PRINTS(bi_print_bytes, true,
           "\xc2\x9b"
           "2J",
           "\\xc2\\x9b"
           "2J");
    PRINTS(bi_print_bytes, true,
           "\x9b"
           "2J",
           "\\x9b"
           "2J");
}

static void bidirectional_controls_are_shown_as_bytes(void **state)
{
    (void)state;
    PRINTS(bi_print_bytes, true, "a\u202eb\u2066c\u200fd",
           "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xe2\\x80\\x8fd");
}

static void characters_of_all_lengths_reach_the_terminal(void **state)
{
    (void)state;
    PRINTS(bi_print_bytes, true, "aé€😀", "aé€😀");
}

static void invalid_utf8_is_shown_byte_by_byte(void **state)
{
    (void)state;
    PRINTS(bi_print_bytes, true, "\xff\xfe", "\\xff\\xfe");
    PRINTS(bi_print_bytes, true, "\xc3", "\\xc3");                            /* cut off */
    PRINTS(bi_print_bytes, true, "\xc0\xaf", "\\xc0\\xaf");                   /* too long a form */
    PRINTS(bi_print_bytes, true, "\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    PRINTS(bi_print_bytes, true, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* too large */
}

static void line_remains_one_line_on_any_output(void **state)
{
    (void)state;
    PRINTS(bi_print_line, true, "a\nb\tc\rd\x01\xff", "a\\nb\\tc\\rd\\x01\\xff");
    PRINTS(bi_print_line, false, "a\nb\tc\rd\x01\xff\\é", "a\\nb\\tc\\rd\\x01\xff\\é");
}

/* ---- excerpts ---- */

static void assert_excerpt(size_t width, const char *data, size_t size, const char *wanted,
                           size_t columns)
{
    char *to = malloc(4 * width + 4); /* so that a sanitizer sees one byte more */
    assert_non_null(to);
    assert_int_equal(bi_print_excerpt(to, width, data, size), columns);
    assert_string_equal(to, wanted);
    free(to);
}

static void a_text_that_fits_is_not_cut(void **state)
{
    (void)state;
    assert_excerpt(5, "hello", 5, "hello", 5);
    assert_excerpt(9, "hello", 5, "hello", 5);
    assert_excerpt(5, "", 0, "", 0);
    assert_excerpt(0, "", 0, "", 0);
}

static void a_text_that_does_not_fit_ends_with_an_ellipsis(void **state)
{
    (void)state;
    assert_excerpt(4, "hello", 5, "hel…", 4);
    assert_excerpt(1, "hello", 5, "…", 1);
    assert_excerpt(0, "hello", 5, "", 0);
}

static void wide_characters_are_never_cut_in_half(void **state)
{
    (void)state;
    assert_excerpt(6, "日本語", 9, "日本語", 6);
    assert_excerpt(5, "日本語", 9, "日本…", 5);
    assert_excerpt(4, "日本語", 9, "日…", 3);
    assert_excerpt(1, "日本語", 9, "…", 1);
}

static void an_excerpt_has_no_control_characters(void **state)
{
    (void)state;
    assert_excerpt(20, "a\nb\tc\rd", 7, "a b c d", 7);
    assert_excerpt(20, "a\0\x1b\x7f\xff\xc2\x9b", 7, "a.....", 6);
    assert_excerpt(20, "\u202e", 3, ".", 1);
}

static void combining_marks_do_not_overflow_the_buffer(void **state)
{
    (void)state;
    char marks[2 * 1000 + 1] = "";
    char to[4 * 3 + 4];
    for (int i = 0; i < 1000; i++)
        memcpy(marks + 2 * i, "\xcc\x81", 2); /* a combining acute accent */
    for (size_t width = 0; width <= 3; width++) {
        size_t columns = bi_print_excerpt(to, width, marks, sizeof(marks) - 1);
        assert_in_range(columns, 0, width);
        assert_in_range(strlen(to), 0, 4 * width + 3);
    }
    assert_excerpt(0, "\xcc\x81", 2, "", 0);
}

static void a_width_is_that_of_the_terminal(void **state)
{
    (void)state;
    assert_int_equal(bi_print_width(""), 0);
    assert_int_equal(bi_print_width("abc"), 3);
    assert_int_equal(bi_print_width("é日e\xcc\x81"), 4);
    assert_int_equal(bi_print_width("\xff\xff"), 2);
}

/* ---- numbers ---- */

static void numbers_have_commas_at_the_thousands(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        const char *text;
    } table[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1,000"},
        {123456, "123,456"},
        {1234567, "1,234,567"},
        {UINT64_MAX, "18,446,744,073,709,551,615"},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        assert_string_equal(bi_text_number(table[i].number).s, table[i].text);
}

static void count_has_commas_only_on_a_terminal(void **state)
{
    (void)state;
    struct cli terminal = {.out_terminal = true}, pipe = {.out_terminal = false};
    assert_string_equal(bi_text_count(&terminal, 1234567).s, "1,234,567");
    assert_string_equal(bi_text_count(&pipe, 1234567).s, "1234567");
}

static void sizes_have_the_largest_unit_that_they_fill(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } table[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1048575, "1.0 MiB"},
        {UINT64_C(1) << 20, "1.0 MiB"},
        {UINT64_C(5) << 40, "5.0 TiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        assert_string_equal(bi_text_size(table[i].bytes).s, table[i].text);
}

/* ---- colours ---- */

static void colors_are_on_for_terminals_unless_disabled(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = true};
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "\x1b[31m");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "");
    setenv("TERM", "xterm", 1);
    cli.color = BI_COLOR_NEVER;
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "");
}

static void colors_are_off_elsewhere_unless_enabled(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "");
    cli.color = BI_COLOR_ALWAYS;
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "\x1b[31m");
    cli.json = true;
    assert_string_equal(bi_print_style(&cli, BI_STYLE_BAD), "");
}

static void unknown_state_has_no_color(void **state)
{
    (void)state;
    assert_int_equal(bi_print_state_style(BIDE_STATE_BURIED), BI_STYLE_BAD);
    assert_int_equal(bi_print_state_style(BIDE_STATE_DONE), BI_STYLE_GOOD);
    assert_int_equal(bi_print_state_style((bide_state)77), BI_STYLE_OFF);
}

/* ---- tables ---- */

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    struct table *table = bi_table_new(&cli, "TOPIC|>READY|NOTE");
    bi_table_cell(table, BI_STYLE_BAD, "%s", "é");
    bi_table_number(table, BI_STYLE_OFF, 1234567);
    bi_table_cell(table, BI_STYLE_OFF, "x");
    bi_table_cell(table, BI_STYLE_OFF, "a-long-name");
    bi_table_number(table, BI_STYLE_OFF, 5);
    bi_table_cell(table, BI_STYLE_OFF, "yy");
    catch_output();
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    assert_string_equal(caught_output(), "TOPIC          READY  NOTE\n"
                                         "é            1234567  x\n"
                                         "a-long-name        5  yy\n");
}

static void cell_never_breaks_its_row(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    struct table *table = bi_table_new(&cli, "A|B");
    bi_table_cell(table, BI_STYLE_OFF, "one\ntwo");
    bi_table_bytes(table, BI_STYLE_OFF, "x\0y\n", 4);
    catch_output();
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    assert_string_equal(caught_output(), "A         B\n"
                                         "one\\ntwo  x\\x00y\\n\n");
}

static void the_last_column_is_cut_at_the_edge_of_the_terminal(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = true, .color = BI_COLOR_NEVER};
    char body[300], wanted[400];
    memset(body, 'b', sizeof(body));
    struct table *table = bi_table_new(&cli, "ID|BODY");
    bi_table_cell(table, BI_STYLE_OFF, "1");
    bi_table_bytes(table, BI_STYLE_OFF, body, sizeof(body));
    catch_output();
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    /* The width of this terminal is unknown: 80 columns. */
    snprintf(wanted, sizeof(wanted), "ID  BODY\n1   %.75s…\n", body);
    assert_string_equal(caught_output(), wanted);
}

static void text_is_not_cut_outside_a_terminal(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    char body[3000];
    memset(body, 'b', sizeof(body));
    struct table *table = bi_table_new(&cli, "ID|BODY");
    bi_table_cell(table, BI_STYLE_OFF, "1");
    bi_table_bytes(table, BI_STYLE_OFF, body, sizeof(body));
    catch_output();
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    const char *output = caught_output();
    assert_int_equal(strlen(output), strlen("ID  BODY\n1   \n") + sizeof(body));
}

static void table_in_parts_has_one_heading_and_never_narrows(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    struct table *table = bi_table_new(&cli, ">N|X");
    catch_output();
    bi_table_cell(table, BI_STYLE_OFF, "%d", 100);
    bi_table_cell(table, BI_STYLE_OFF, "a");
    bi_table_flush(table);
    bi_table_cell(table, BI_STYLE_OFF, "%d", 1);
    bi_table_cell(table, BI_STYLE_OFF, "b");
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    assert_string_equal(caught_output(), "  N  X\n100  a\n  1  b\n");
}

static void a_table_without_rows_has_its_heads(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    catch_output();
    assert_int_equal(bi_table_print(bi_table_new(&cli, "A|B")), BI_EXIT_OK);
    assert_string_equal(caught_output(), "A  B\n");
}

static void color_sequences_have_no_width(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false, .color = BI_COLOR_ALWAYS};
    struct table *table = bi_table_new(&cli, "A|B");
    bi_table_cell(table, BI_STYLE_BAD, "xyz");
    bi_table_cell(table, BI_STYLE_OFF, "1");
    catch_output();
    assert_int_equal(bi_table_print(table), BI_EXIT_OK);
    assert_string_equal(caught_output(), "\x1b[1mA\x1b[0m    \x1b[1mB\x1b[0m\n"
                                         "\x1b[31mxyz\x1b[0m  1\n");
}

static void a_property_is_a_name_and_a_line(void **state)
{
    (void)state;
    struct cli cli = {.out_terminal = false};
    catch_output();
    bi_print_property(&cli, "state", "%s", "ready");
    bi_print_property_bytes(&cli, "key", "a\nb", 3);
    assert_string_equal(caught_output(), "state            ready\n"
                                         "key              a\\nb\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_unchanged_outside_a_terminal),
        cmocka_unit_test(terminal_controls_are_shown_escaped),
        cmocka_unit_test(bidirectional_controls_are_shown_as_bytes),
        cmocka_unit_test(characters_of_all_lengths_reach_the_terminal),
        cmocka_unit_test(invalid_utf8_is_shown_byte_by_byte),
        cmocka_unit_test(line_remains_one_line_on_any_output),
        cmocka_unit_test(a_text_that_fits_is_not_cut),
        cmocka_unit_test(a_text_that_does_not_fit_ends_with_an_ellipsis),
        cmocka_unit_test(wide_characters_are_never_cut_in_half),
        cmocka_unit_test(an_excerpt_has_no_control_characters),
        cmocka_unit_test(combining_marks_do_not_overflow_the_buffer),
        cmocka_unit_test(a_width_is_that_of_the_terminal),
        cmocka_unit_test(numbers_have_commas_at_the_thousands),
        cmocka_unit_test(count_has_commas_only_on_a_terminal),
        cmocka_unit_test(sizes_have_the_largest_unit_that_they_fill),
        cmocka_unit_test(colors_are_on_for_terminals_unless_disabled),
        cmocka_unit_test(colors_are_off_elsewhere_unless_enabled),
        cmocka_unit_test(unknown_state_has_no_color),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(cell_never_breaks_its_row),
        cmocka_unit_test(the_last_column_is_cut_at_the_edge_of_the_terminal),
        cmocka_unit_test(text_is_not_cut_outside_a_terminal),
        cmocka_unit_test(table_in_parts_has_one_heading_and_never_narrows),
        cmocka_unit_test(a_table_without_rows_has_its_heads),
        cmocka_unit_test(color_sequences_have_no_width),
        cmocka_unit_test(a_property_is_a_name_and_a_line),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
