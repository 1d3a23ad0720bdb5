/* SPDX-License-Identifier: MIT */
/* Which jobs two queues have in common. */
#include "cli/census.h"
#include "unit.h"

#include <stdlib.h>

#define NOW  1000000
#define MANY 5000

static struct census ours, theirs;
static bool found[MANY];
static size_t found_count;

static void note(void *user, uint64_t number)
{
    assert_null(user);
    assert_false(found[number]);
    found[number] = true;
    found_count++;
}

static int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        found[i] = false;
    found_count = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    bi_census_free(&ours);
    bi_census_free(&theirs);
    return 0;
}

static void add(struct census *census, uint64_t hash, int64_t created_ms, int64_t due_ms)
{
    struct fingerprint print = {{hash, hash + 1}, created_ms, due_ms};
    assert_true(bi_census_add(census, &print, census->count));
}

/* How many of the others are there at another time. */
static uint64_t match(const struct census_slack *slack)
{
    uint64_t alike = 0;
    assert_true(bi_census_match(&ours, &theirs, slack, NOW, note, NULL, &alike));
    return alike;
}

static void what_both_have_is_found(void **state)
{
    (void)state;
    add(&ours, 3, 10, 0);
    add(&ours, 1, 10, 0);
    add(&ours, 2, 10, 0);
    add(&theirs, 2, 10, 0);
    add(&theirs, 3, 11, 0);
    add(&theirs, 4, 10, 0);
    assert_int_equal(match(&bi_census_exact), 0);
    assert_int_equal(found_count, 2);
    assert_true(found[0] && !found[1] && found[2]);
}

static void nobody_is_found_in_an_empty_queue(void **state)
{
    (void)state;
    match(&bi_census_exact);
    add(&ours, 1, 10, 0);
    match(&bi_census_exact);
    assert_int_equal(found_count, 0);
}

static void those_that_are_alike_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        add(&ours, 1, 10, 0);
    for (int i = 0; i < 3; i++)
        add(&theirs, 1, 10, 0);
    assert_int_equal(match(&bi_census_exact), 0);
    assert_int_equal(found_count, 3);
    assert_true(found[0] && found[1] && found[2]);
}

static void one_that_was_made_at_another_time_is_another(void **state)
{
    (void)state;
    add(&ours, 1, 1000, 0);
    add(&theirs, 1, 1101, 0);
    add(&theirs, 1, 899, 0);
    assert_int_equal(match(&bi_census_exact), 1);
    assert_int_equal(found_count, 0);
}

static void one_that_is_due_at_another_time_is_another(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 5000);
    add(&theirs, 1, 1000, NOW + 6000);
    add(&theirs, 1, 1000, 0);
    assert_int_equal(match(&bi_census_exact), 1);
    assert_int_equal(found_count, 0);
}

/* It was looked at before it was due, and its copy after. */
static void one_that_was_due_by_now_may_be_ready(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW);
    add(&theirs, 1, 1000, 0);
    assert_int_equal(match(&bi_census_exact), 0);
    assert_int_equal(found_count, 1);
}

static void those_that_fit_closely_find_each_other_first(void **state)
{
    (void)state;
    add(&ours, 1, 1000, 0);
    add(&ours, 1, 1090, 0);
    add(&theirs, 1, 1090, 0);
    match(&bi_census_exact);
    assert_int_equal(found_count, 1);
    assert_true(found[1]);
}

/* Whoever takes the first that fits leaves others alone here. */
static void nobody_is_left_out_by_another(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int i = 0; i < MANY; i++) {
        seed = seed * 1103515245 + 12345;
        int64_t created = 1000 + (seed >> 8) % 30000;
        int64_t due = (seed >> 5) % 3 == 0 ? 0 : NOW + 200000 + (seed >> 9) % 4000;
        add(&ours, i % 2, created, due);
        /* The clock was read again, and told one millisecond less or more. */
        add(&theirs, i % 2, created + (seed >> 12) % 3 - 1, due == 0 ? 0 : due + (seed >> 14) % 2);
    }
    match(&bi_census_exact);
    assert_int_equal(found_count, MANY);
}

static void seconds_are_all_that_a_beanstalkd_tells(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 50000);
    add(&theirs, 1, 1999, NOW + 50900);
    match(&bi_census_exact);
    assert_int_equal(found_count, 0);
    match(&bi_census_seconds);
    assert_int_equal(found_count, 1);
}

static void where_jobs_are_made_anew_times_say_nothing(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 50000);
    add(&ours, 1, 2000, 0);
    add(&theirs, 1, 900000, 0);
    add(&theirs, 1, 900000, NOW + 50000);
    match(&bi_census_timeless);
    assert_int_equal(found_count, 2);
}

#define TEST_OF(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(what_both_have_is_found),
        TEST_OF(nobody_is_found_in_an_empty_queue),
        TEST_OF(those_that_are_alike_are_counted),
        TEST_OF(one_that_was_made_at_another_time_is_another),
        TEST_OF(one_that_is_due_at_another_time_is_another),
        TEST_OF(one_that_was_due_by_now_may_be_ready),
        TEST_OF(those_that_fit_closely_find_each_other_first),
        TEST_OF(nobody_is_left_out_by_another),
        TEST_OF(seconds_are_all_that_a_beanstalkd_tells),
        TEST_OF(where_jobs_are_made_anew_times_say_nothing),
    };
    return cmocka_run_group_tests_name("census", tests, NULL, NULL);
}
