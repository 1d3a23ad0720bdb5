/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "unit.h"

#include <string.h>

static void a_count_has_at_most_5_columns(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        const char *text;
    } cases[] = {
        {0, "0"},           {99999, "99999"},     {100000, "100k"},      {999499, "999k"},
        {999500, "1.0M"},   {1234567, "1.2M"},    {12345678, "12.3M"},   {99949999, "99.9M"},
        {99950000, "100M"}, {1000000000, "1.0G"}, {UINT64_MAX, "18.4E"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[BI_TOP_FORMAT_SIZE];
        bi_top_column_format_count(text, cases[i].number);
        assert_string_equal(text, cases[i].text);
    }
    for (uint64_t number = 1; number < UINT64_MAX / 3; number += number / 2 + 1) {
        char text[BI_TOP_FORMAT_SIZE];
        bi_top_column_format_count(text, number);
        assert_in_range(strlen(text), 1, 5);
    }
}

static void a_rate_has_at_most_5_columns(void **state)
{
    (void)state;
    static const struct {
        double rate;
        const char *text;
    } cases[] = {
        {-1, "-"},        {0, "0"},         {0.01, "0.0"},     {0.3, "0.3"},     {12.54, "12.5"},
        {99.94, "99.9"},  {99.96, "100"},   {1234.4, "1234"},  {9999.4, "9999"}, {9999.6, "10.0k"},
        {12345, "12.3k"}, {123456, "123k"}, {1234567, "1.2M"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[BI_TOP_FORMAT_SIZE];
        bi_top_column_format_rate(text, cases[i].rate);
        assert_string_equal(text, cases[i].text);
    }
}

static void an_age_has_at_most_6_columns(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {-5, "0s"},           {0, "0s"},
        {999, "0s"},          {59999, "59s"},
        {60000, "1m0s"},      {3599999, "59m59s"},
        {3600000, "1h0m"},    {86399999, "23h59m"},
        {86400000, "1d0h"},   {8639999999, "99d23h"},
        {8640000000, "100d"}, {INT64_C(4294967295000), "49710d"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[BI_TOP_FORMAT_SIZE];
        bi_top_column_format_age(text, cases[i].ms);
        assert_string_equal(text, cases[i].text);
        assert_in_range(strlen(text), 1, 6);
    }
}

static void bars_are_scaled_to_the_maximum(void **state)
{
    (void)state;
    static const float values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    char bars[3 * COUNT_OF(values) + 1];
    bi_top_column_format_sparkline(bars, values, COUNT_OF(values), true);
    assert_string_equal(bars, " ▁▂▃▄▅▆▇█");
    bi_top_column_format_sparkline(bars, values, 8, false);
    assert_string_equal(bars, " .:-=+*#");
}

static void small_values_still_show_a_bar(void **state)
{
    (void)state;
    static const float values[] = {1000000, 1, 0};
    char bars[3 * COUNT_OF(values) + 1];
    bi_top_column_format_sparkline(bars, values, 3, true);
    assert_string_equal(bars, "█▁ ");
    bi_top_column_format_sparkline(bars, values, 3, false);
    assert_string_equal(bars, "#. ");
}

static void zero_and_constant_values_draw_bars(void **state)
{
    (void)state;
    static const float none[] = {0, 0}, same[] = {7, 7};
    char bars[8];
    bi_top_column_format_sparkline(bars, none, 2, true);
    assert_string_equal(bars, "  ");
    bi_top_column_format_sparkline(bars, same, 2, true);
    assert_string_equal(bars, "██");
    bi_top_column_format_sparkline(bars, same, 0, true);
    assert_string_equal(bars, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_has_at_most_5_columns),
        cmocka_unit_test(a_rate_has_at_most_5_columns),
        cmocka_unit_test(an_age_has_at_most_6_columns),
        cmocka_unit_test(bars_are_scaled_to_the_maximum),
        cmocka_unit_test(small_values_still_show_a_bar),
        cmocka_unit_test(zero_and_constant_values_draw_bars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
