/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include "unit.h"

#include <string.h>

static struct line_status line_status;

static int set_up(void **state)
{
    (void)state;
    memset(&line_status, 0, sizeof(line_status));
    return 0;
}

static void tell(uint64_t first, uint64_t last, enum bi_line_outcome outcome)
{
    for (uint64_t line = first; line <= last; line++)
        bi_input_add_outcome(&line_status, line, outcome);
}

static void says(const char *sentence)
{
    char text[1000];
    bi_input_format_outcomes(&line_status, "line", text, sizeof(text));
    assert_string_equal(text, sentence);
}

static void settled_lines_need_no_message(void **state)
{
    (void)state;
    tell(1, 5000, BI_LINE_DONE);
    assert_int_equal(line_status.last_done, 5000);
    says("");
}

static void skipped_lines_are_ignored(void **state)
{
    (void)state;
    tell(3, 3, BI_LINE_DONE);
    tell(10, 10, BI_LINE_DONE);
    assert_int_equal(line_status.last_done, 10);
}

static void certain_lines_end_before_the_first_unsettled(void **state)
{
    (void)state;
    tell(1, 3000, BI_LINE_DONE);
    tell(3001, 4000, BI_LINE_UNKNOWN);
    tell(4001, 4001, BI_LINE_NOT_STORED);
    assert_int_equal(line_status.last_done, 3000);
    says("lines 3,001 to 4,000 are unknown (the reply was lost); line 4,001 is not stored");
}

static void lines_put_after_a_lost_one_are_reported(void **state)
{
    (void)state;
    tell(1, 2, BI_LINE_NOT_STORED);
    tell(3, 4, BI_LINE_DONE);
    assert_int_equal(line_status.last_done, 0);
    says("lines 1 to 2 are not stored; lines 3 to 4 are stored");
}

static void import_can_resume_after_the_certain_lines(void **state)
{
    (void)state;
    assert_true(bi_input_can_resume(&line_status));
    tell(1, 10, BI_LINE_DONE);
    tell(11, 20, BI_LINE_NOT_STORED);
    assert_true(bi_input_can_resume(&line_status));
    tell(21, 21, BI_LINE_DONE);
    assert_false(bi_input_can_resume(&line_status));
    set_up(state);
    tell(1, 1, BI_LINE_UNKNOWN);
    assert_false(bi_input_can_resume(&line_status));
}

static void too_many_changes_are_reported_as_unknown(void **state)
{
    (void)state;
    for (uint64_t line = 1; line <= 100; line++)
        bi_input_add_outcome(&line_status, line, line % 2 == 0 ? BI_LINE_DONE : BI_LINE_NOT_STORED);
    assert_int_equal(line_status.last_done, 0);
    assert_int_equal(line_status.range_count, BI_LINE_RANGES_MAX);
    const struct line_range *last = &line_status.ranges[BI_LINE_RANGES_MAX - 1];
    assert_int_equal(last->outcome, BI_LINE_UNKNOWN);
    assert_int_equal(last->first, BI_LINE_RANGES_MAX);
    assert_int_equal(last->last, 100);
}

static void message_is_cut_to_its_buffer(void **state)
{
    (void)state;
    char text[20];
    for (uint64_t line = 1; line <= 20; line++)
        bi_input_add_outcome(&line_status, line, line % 2 == 0 ? BI_LINE_DONE : BI_LINE_NOT_STORED);
    for (size_t size = 1; size <= sizeof(text); size++) {
        memset(text, '!', sizeof(text));
        bi_input_format_outcomes(&line_status, "line", text, size);
        assert_int_equal(strlen(text), size - 1);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(settled_lines_need_no_message),
        TEST(skipped_lines_are_ignored),
        TEST(certain_lines_end_before_the_first_unsettled),
        TEST(lines_put_after_a_lost_one_are_reported),
        TEST(import_can_resume_after_the_certain_lines),
        TEST(too_many_changes_are_reported_as_unknown),
        TEST(message_is_cut_to_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
