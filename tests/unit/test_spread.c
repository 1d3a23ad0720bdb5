/* SPDX-License-Identifier: MIT */
#include "cli/spread.h"

#include "unit.h"

#include <stdlib.h>

static struct spread *new_spread(void)
{
    struct spread *spread = calloc(1, sizeof(*spread));
    assert_non_null(spread);
    return spread;
}

static void of_none_everything_is_zero(void **state)
{
    (void)state;
    struct spread *spread = new_spread();
    assert_int_equal(bi_spread_at(spread, 0), 0);
    assert_int_equal(bi_spread_at(spread, 0.5), 0);
    assert_int_equal(bi_spread_at(spread, 1), 0);
    free(spread);
}

static void of_one_everything_is_that_one(void **state)
{
    (void)state;
    static const uint64_t durations[] = {0, 1, 31, 32, 33, 1000, 123456789, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        struct spread *spread = new_spread();
        bi_spread_add(spread, durations[i]);
        assert_true(bi_spread_at(spread, 0) == durations[i]);
        assert_true(bi_spread_at(spread, 0.5) == durations[i]);
        assert_true(bi_spread_at(spread, 1) == durations[i]);
        assert_true(spread->longest == durations[i]);
        free(spread);
    }
}

static void short_durations_are_exact(void **state)
{
    (void)state;
    struct spread *spread = new_spread();
    for (uint64_t i = 1; i <= 20; i++)
        bi_spread_add(spread, i);
    assert_int_equal(bi_spread_at(spread, 0.05), 1);
    assert_int_equal(bi_spread_at(spread, 0.5), 10);
    assert_int_equal(bi_spread_at(spread, 0.9), 18);
    assert_int_equal(bi_spread_at(spread, 1), 20);
    free(spread);
}

static void long_durations_are_right_to_a_thirtieth_and_never_too_short(void **state)
{
    (void)state;
    for (uint64_t unit = 1; unit < UINT64_C(1) << 50; unit *= 7) {
        struct spread *spread = new_spread();
        for (uint64_t i = 1; i <= 1000; i++)
            bi_spread_add(spread, i * unit);
        for (uint64_t i = 100; i <= 1000; i += 100) {
            uint64_t found = bi_spread_at(spread, (double)i / 1000);
            assert_true(found >= i * unit);
            assert_true(found <= i * unit + i * unit / 30 + 1);
        }
        free(spread);
    }
}

static void several_become_one(void **state)
{
    (void)state;
    struct spread *all = new_spread(), *left = new_spread(), *right = new_spread();
    for (uint64_t i = 0; i < 1000; i++) {
        bi_spread_add(all, i * i);
        bi_spread_add(i % 3 == 0 ? left : right, i * i);
    }
    bi_spread_merge(left, right);
    assert_memory_equal(left, all, sizeof(*all));
    free(all);
    free(left);
    free(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_none_everything_is_zero),
        cmocka_unit_test(of_one_everything_is_that_one),
        cmocka_unit_test(short_durations_are_exact),
        cmocka_unit_test(long_durations_are_right_to_a_thirtieth_and_never_too_short),
        cmocka_unit_test(several_become_one),
    };
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
