/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- widths ---- */

static int width_of(const int *widths)
{
    int width = -1;
    for (int i = 0; i < TOP_COLUMNS; i++)
        width += widths[i] == 0 ? 0 : widths[i] + 1;
    return width;
}

static void all_columns_fit_into_78(void **state)
{
    (void)state;
    int widths[TOP_COLUMNS];
    bi_top_column_layout(78, 5, widths);
    for (int i = 0; i < TOP_COLUMNS; i++)
        assert_int_not_equal(widths[i], 0);
    assert_in_range(width_of(widths), 1, 78);
}

static void layout_never_exceeds_the_window_and_is_monotonic(void **state)
{
    (void)state;
    static const int names[] = {0, 5, 12, 13, 40, 200};
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        int before = TOP_COLUMNS;
        for (int width = 300; width >= 12; width--) {
            int widths[TOP_COLUMNS], shown = 0;
            bi_top_column_layout(width, names[n], widths);
            for (int i = 0; i < TOP_COLUMNS; i++)
                shown += widths[i] > 0;
            assert_true(width_of(widths) <= width);
            assert_true(widths[TOP_NAME] >= 12);
            assert_true(shown <= before);
            assert_true(widths[TOP_TREND] <= BI_TOP_HISTORY);
            before = shown;
        }
    }
}

static void the_most_important_columns_stay_in_a_small_window(void **state)
{
    (void)state;
    int widths[TOP_COLUMNS];
    bi_top_column_layout(38, 30, widths);
    assert_int_not_equal(widths[TOP_READY], 0);
    assert_int_not_equal(widths[TOP_RESERVED], 0);
    assert_int_not_equal(widths[TOP_BURIED], 0);
    assert_int_equal(widths[TOP_TREND], 0);
    assert_int_equal(widths[TOP_DONE], 0);
}

static void trend_gets_the_width_left_by_names(void **state)
{
    (void)state;
    int widths[TOP_COLUMNS];
    bi_top_column_layout(120, 30, widths);
    assert_int_equal(widths[TOP_NAME], 30);
    assert_int_equal(width_of(widths), 120);
    bi_top_column_layout(120, 3, widths);
    assert_int_equal(widths[TOP_NAME], 12);
    assert_int_equal(width_of(widths), 120);
}

/* ---- order ---- */

/* Five topics with figures that differ. */
static void fill(struct top_model *model)
{
    static const char *const names[] = {"mail", "Image", "audit", "mail-slow", "zip"};
    bide_topic_stats list[COUNT_OF(names)];
    bide_stats stats = {.uptime_ms = 1};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        list[i] = (bide_topic_stats){.jobs = {.ready = i % 3, .buried = i, .delayed = 5 - i},
                                     .oldest_ready_age_ms = (int64_t)(10 - i) * 1000,
                                     .waiting = i == 2};
        snprintf(list[i].name, sizeof(list[i].name), "%s", names[i]);
    }
    assert_true(bi_top_model_add_sample(model, &stats, list, COUNT_OF(names), 1));
}

static void check_order(struct top_order *order, const struct top_model *model, const char *wanted)
{
    char found[200] = "";
    assert_true(bi_top_column_sort(order, model));
    for (size_t i = 0; i < order->count; i++) {
        strcat(found, i == 0 ? "" : " ");
        strcat(found, order->list[i]->now.name);
    }
    assert_string_equal(found, wanted);
}

static void topics_are_sorted_by_any_column_and_equal_ones_by_name(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    struct top_order order = {.by = TOP_NAME};
    fill(&model);
    check_order(&order, &model, "Image audit mail mail-slow zip");
    order.by = TOP_READY;
    check_order(&order, &model, "audit Image zip mail mail-slow");
    order.by = TOP_BURIED;
    check_order(&order, &model, "zip mail-slow audit Image mail");
    order.by = TOP_DELAYED;
    check_order(&order, &model, "mail Image audit mail-slow zip");
    order.by = TOP_OLDEST; /* without a ready job there is no oldest one */
    check_order(&order, &model, "Image audit zip mail mail-slow");
    order.by = TOP_WAITING;
    check_order(&order, &model, "audit Image mail mail-slow zip");
    free(order.list);
    bi_top_model_free(&model);
}

static void reversed_the_smallest_are_first(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    struct top_order order = {.by = TOP_NAME, .reverse = true};
    fill(&model);
    check_order(&order, &model, "zip mail-slow mail audit Image");
    order.by = TOP_READY;
    check_order(&order, &model, "mail mail-slow Image zip audit");
    free(order.list);
    bi_top_model_free(&model);
}

static void filter_matches_a_part_of_the_name_ignoring_case(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    struct top_order order = {.by = TOP_NAME, .filter = "MA"};
    fill(&model);
    check_order(&order, &model, "Image mail mail-slow");
    assert_int_equal(order.longest_name, 9);
    strcpy(order.filter, "slow");
    check_order(&order, &model, "mail-slow");
    strcpy(order.filter, "none");
    check_order(&order, &model, "");
    free(order.list);
    bi_top_model_free(&model);
}

static void every_column_has_a_name_and_a_cell(void **state)
{
    (void)state;
    struct top_topic topic = {.in = -1, .out = 2.5};
    topic.now.jobs = (bide_counts){.ready = 1, .reserved = 2, .delayed = 3, .buried = 4, .done = 5};
    topic.now.oldest_ready_age_ms = 61000;
    topic.now.waiting = 6;
    static const char *const names[] = {"ready", "reserved", "delayed", "buried", "done",
                                        "in",    "out",      "age",     "waiting"};
    static const char *const cells[] = {"1", "2", "3", "4", "5", "-", "2.5", "1m1s", "6"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char text[BI_TOP_FORMAT_SIZE];
        enum top_column column = bi_top_column_find(names[i]);
        assert_int_equal(column, i + 1);
        assert_int_equal(bi_top_column_find(bi_top_column_heading(column)), column);
        bi_top_column_format(text, column, &topic, false);
        assert_string_equal(text, cells[i]);
        bi_top_column_format(text, column, &topic, true);
        bool unknown = column == TOP_DONE || column == TOP_OLDEST;
        assert_string_equal(text, unknown ? "-" : cells[i]);
    }
    assert_int_equal(bi_top_column_find("NAME"), TOP_NAME);
    assert_int_equal(bi_top_column_find("nothing"), TOP_COLUMNS);
}

/* ---- the cursor ---- */

static void the_cursor_stays_in_the_list(void **state)
{
    (void)state;
    static const struct {
        int key;
        size_t from, count, to;
    } cases[] = {
        {TOP_KEY_UP, 0, 5, 0},
        {TOP_KEY_UP, 3, 5, 2},
        {TOP_KEY_DOWN, 4, 5, 4},
        {'j', 0, 5, 1},
        {'k', 1, 5, 0},
        {TOP_KEY_DOWN, 0, 0, 0},
        {TOP_KEY_PAGE_DOWN, 0, 50, 10},
        {TOP_KEY_PAGE_DOWN, 45, 50, 49},
        {TOP_KEY_END, 0, 50, 49},
        {TOP_KEY_PAGE_UP, 5, 50, 0},
        {TOP_KEY_PAGE_UP, 25, 50, 15},
        {TOP_KEY_HOME, 7, 50, 0},
        {TOP_KEY_END, 7, 0, 0},
        {TOP_KEY_DOWN, 99, 5, 4},
        {TOP_KEY_UP, 99, 5, 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t selected = cases[i].from;
        assert_true(bi_top_page_move_cursor(cases[i].key, cases[i].count, 10, &selected));
        assert_int_equal(selected, cases[i].to);
    }
    size_t selected = 3;
    assert_false(bi_top_page_move_cursor('x', 5, 10, &selected));
    assert_int_equal(selected, 3);
}

static void scrolling_keeps_the_cursor_visible_without_blank_rows(void **state)
{
    (void)state;
    for (size_t count = 0; count < 30; count++)
        for (size_t selected = 0; selected < (count == 0 ? 1 : count); selected++)
            for (size_t first = 0; first < 30; first++) {
                size_t shown = bi_top_page_scroll(first, selected, count, 7);
                assert_true(shown <= selected && selected < shown + 7);
                assert_true(shown == 0 || shown + 7 <= count);
            }
}

/* ---- numbers and bars ---- */

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
        cmocka_unit_test(all_columns_fit_into_78),
        cmocka_unit_test(layout_never_exceeds_the_window_and_is_monotonic),
        cmocka_unit_test(the_most_important_columns_stay_in_a_small_window),
        cmocka_unit_test(trend_gets_the_width_left_by_names),
        cmocka_unit_test(topics_are_sorted_by_any_column_and_equal_ones_by_name),
        cmocka_unit_test(reversed_the_smallest_are_first),
        cmocka_unit_test(filter_matches_a_part_of_the_name_ignoring_case),
        cmocka_unit_test(every_column_has_a_name_and_a_cell),
        cmocka_unit_test(the_cursor_stays_in_the_list),
        cmocka_unit_test(scrolling_keeps_the_cursor_visible_without_blank_rows),
        cmocka_unit_test(a_count_has_at_most_5_columns),
        cmocka_unit_test(a_rate_has_at_most_5_columns),
        cmocka_unit_test(an_age_has_at_most_6_columns),
        cmocka_unit_test(bars_are_scaled_to_the_maximum),
        cmocka_unit_test(small_values_still_show_a_bar),
        cmocka_unit_test(zero_and_constant_values_draw_bars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
