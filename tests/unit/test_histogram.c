/* SPDX-License-Identifier: MIT */
#include "util/histogram.h"

#include "unit.h"

#include <stdlib.h>

static struct histogram *new_histogram(void)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    assert_non_null(histogram);
    return histogram;
}

static void empty_histogram_is_zero(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    assert_int_equal(bi_histogram_quantile(histogram, 0), 0);
    assert_int_equal(bi_histogram_quantile(histogram, 0.5), 0);
    assert_int_equal(bi_histogram_quantile(histogram, 1), 0);
    free(histogram);
}

static void all_quantiles_of_one_value_are_that_value(void **state)
{
    (void)state;
    static const uint64_t durations[] = {0, 1, 31, 32, 33, 1000, 123456789, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        struct histogram *histogram = new_histogram();
        bi_histogram_add(histogram, durations[i]);
        assert_true(bi_histogram_quantile(histogram, 0) == durations[i]);
        assert_true(bi_histogram_quantile(histogram, 0.5) == durations[i]);
        assert_true(bi_histogram_quantile(histogram, 1) == durations[i]);
        assert_true(histogram->max == durations[i]);
        free(histogram);
    }
}

static void short_durations_are_exact(void **state)
{
    (void)state;
    struct histogram *histogram = new_histogram();
    for (uint64_t i = 1; i <= 20; i++)
        bi_histogram_add(histogram, i);
    assert_int_equal(bi_histogram_quantile(histogram, 0.05), 1);
    assert_int_equal(bi_histogram_quantile(histogram, 0.5), 10);
    assert_int_equal(bi_histogram_quantile(histogram, 0.9), 18);
    assert_int_equal(bi_histogram_quantile(histogram, 1), 20);
    free(histogram);
}

static void long_durations_are_right_to_a_thirtieth_and_never_too_short(void **state)
{
    (void)state;
    for (uint64_t unit = 1; unit < UINT64_C(1) << 50; unit *= 7) {
        struct histogram *histogram = new_histogram();
        for (uint64_t i = 1; i <= 1000; i++)
            bi_histogram_add(histogram, i * unit);
        for (uint64_t i = 100; i <= 1000; i += 100) {
            uint64_t found = bi_histogram_quantile(histogram, (double)i / 1000);
            assert_true(found >= i * unit);
            assert_true(found <= i * unit + i * unit / 30 + 1);
        }
        free(histogram);
    }
}

static void histograms_can_be_merged(void **state)
{
    (void)state;
    struct histogram *all = new_histogram(), *left = new_histogram(), *right = new_histogram();
    for (uint64_t i = 0; i < 1000; i++) {
        bi_histogram_add(all, i * i);
        bi_histogram_add(i % 3 == 0 ? left : right, i * i);
    }
    bi_histogram_merge(left, right);
    assert_memory_equal(left, all, sizeof(*all));
    free(all);
    free(left);
    free(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_histogram_is_zero),
        cmocka_unit_test(all_quantiles_of_one_value_are_that_value),
        cmocka_unit_test(short_durations_are_exact),
        cmocka_unit_test(long_durations_are_right_to_a_thirtieth_and_never_too_short),
        cmocka_unit_test(histograms_can_be_merged),
    };
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
