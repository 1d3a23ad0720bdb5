/* SPDX-License-Identifier: MIT */
#include "core/core_internal.h"

#include "unit.h"

#include <bide/job.h>

#define SECOND  INT64_C(1000000)
#define LONGEST (BIDE_TIME_MAX_MS * 1000)

/* What the delay is before the jitter, computed without a chance to overflow. */
static int64_t wanted(uint32_t failures, int64_t base, int64_t max)
{
    __extension__ unsigned __int128 delay = (unsigned __int128)(uint64_t)base;
    for (uint32_t i = 1; i < failures && delay <= (uint64_t)max; i++)
        delay *= 2;
    int64_t highest = (max / 1000 * 2 + 2) / 3 * 1000;
    return delay < (uint64_t)highest ? (int64_t)delay : highest;
}

static int64_t longest(int64_t least, int64_t max)
{
    return least + least / 2 < max ? least + least / 2 : max;
}

static void check_bounds(uint32_t failures, int64_t base, int64_t max, struct bi_random *random)
{
    int64_t least =
        wanted(failures, base == 0 ? BI_BACKOFF_BASE : base, max == 0 ? BI_BACKOFF_MAX : max);
    int64_t delay = bi_retry_delay(failures, base, max, random);
    assert_true(delay >= least);
    assert_true(delay <= longest(least, max == 0 ? BI_BACKOFF_MAX : max));
}

static void the_defaults_are_5_seconds_and_an_hour(void **state)
{
    (void)state;
    struct bi_random random = {1};
    assert_int_equal(wanted(1, BI_BACKOFF_BASE, BI_BACKOFF_MAX), 5 * SECOND);
    for (uint32_t failures = 1; failures <= 64; failures++)
        for (int i = 0; i < 100; i++) {
            int64_t delay = bi_retry_delay(failures, 0, 0, &random);
            int64_t least = wanted(failures, 5 * SECOND, 3600 * SECOND);
            assert_in_range(delay, least, longest(least, 3600 * SECOND));
        }
}

static void each_failure_doubles_the_delay_up_to_the_cap(void **state)
{
    (void)state;
    struct bi_random random = {2};
    static const int64_t seconds[] = {5, 10, 20, 40, 80, 160, 320, 640, 1280, 2400, 2400, 2400};
    for (uint32_t i = 0; i < COUNT_OF(seconds); i++) {
        int64_t delay = bi_retry_delay(i + 1, 0, 0, &random);
        assert_in_range(delay, seconds[i] * SECOND, seconds[i] * SECOND * 3 / 2);
    }
}

static void every_number_of_failures_stays_within_its_bounds(void **state)
{
    (void)state;
    struct bi_random random = {3};
    static const int64_t bases[] = {1000, 2000, 7000, 250000, SECOND, 5 * SECOND, LONGEST};
    static const int64_t maxima[] = {1000, 5000, SECOND, 3600 * SECOND, LONGEST};
    for (uint32_t failures = 1; failures <= 64; failures++)
        for (size_t b = 0; b < COUNT_OF(bases); b++)
            for (size_t m = 0; m < COUNT_OF(maxima); m++)
                for (int i = 0; i < 20; i++)
                    check_bounds(failures, bases[b], maxima[m], &random);
}

static void the_largest_values_do_not_overflow(void **state)
{
    (void)state;
    struct bi_random random = {4};
    assert_int_equal(BI_BACKOFF_END, LONGEST);
    for (int i = 0; i < 1000; i++) {
        check_bounds(UINT32_MAX, LONGEST, LONGEST, &random);
        check_bounds(UINT32_MAX, 1000, LONGEST, &random);
        check_bounds(1, LONGEST, 1000, &random);
        check_bounds(UINT32_MAX, 0, LONGEST, &random);
    }
}

/* Jobs that failed together do not come back together: also where the delay no longer grows. */
static void the_jitter_spreads_over_its_whole_range_also_at_the_cap(void **state)
{
    (void)state;
    struct bi_random random = {5};
    const struct {
        uint32_t failures;
        int64_t least;
    } cases[] = {{1, 5 * SECOND}, {4, 40 * SECOND}, {20, 2400 * SECOND}, {64, 2400 * SECOND}};
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        unsigned tenths[10] = {0};
        for (int i = 0; i < 10000; i++) {
            int64_t over = bi_retry_delay(cases[c].failures, 0, 0, &random) - cases[c].least;
            int64_t tenth = over * 20 / cases[c].least;
            tenths[tenth > 9 ? 9 : tenth]++;
        }
        /* A thousand each; the seed is fixed, so this does not depend on luck. */
        for (int i = 0; i < 10; i++)
            assert_in_range(tenths[i], 800, 1200);
    }
}

static void both_ends_of_the_range_are_reached(void **state)
{
    (void)state;
    struct bi_random random = {6};
    bool lowest = false;
    bool highest = false;
    for (int i = 0; i < 1000; i++) {
        int64_t delay = bi_retry_delay(1, 10000, 10000, &random);
        lowest |= delay == 7000;
        highest |= delay == 10000;
    }
    assert_true(lowest);
    assert_true(highest);
}

static void a_delay_is_a_whole_number_of_milliseconds(void **state)
{
    (void)state;
    struct bi_random random = {7};
    for (uint32_t failures = 1; failures < 20; failures++)
        for (int i = 0; i < 100; i++)
            assert_int_equal(bi_retry_delay(failures, 7000, 100000, &random) % 1000, 0);
}

static void the_same_seed_gives_the_same_delays(void **state)
{
    (void)state;
    struct bi_random one = {8};
    struct bi_random other = {8};
    for (uint32_t failures = 1; failures <= 64; failures++)
        assert_int_equal(bi_retry_delay(failures, 0, 0, &one),
                         bi_retry_delay(failures, 0, 0, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_5_seconds_and_an_hour),
        cmocka_unit_test(each_failure_doubles_the_delay_up_to_the_cap),
        cmocka_unit_test(every_number_of_failures_stays_within_its_bounds),
        cmocka_unit_test(the_largest_values_do_not_overflow),
        cmocka_unit_test(the_jitter_spreads_over_its_whole_range_also_at_the_cap),
        cmocka_unit_test(both_ends_of_the_range_are_reached),
        cmocka_unit_test(a_delay_is_a_whole_number_of_milliseconds),
        cmocka_unit_test(the_same_seed_gives_the_same_delays),
    };
    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
