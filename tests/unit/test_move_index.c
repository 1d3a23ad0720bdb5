/* SPDX-License-Identifier: MIT */
/* Which jobs two queues have in common. */
#include "cli/move/move_index.h"
#include "unit.h"

#include <stdlib.h>

#define NOW  1000000
#define MANY 5000

static struct move_index ours, theirs;
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
    bi_move_index_free(&ours);
    bi_move_index_free(&theirs);
    return 0;
}

static void add(struct move_index *move_index, uint64_t hash, int64_t created_ms, int64_t due_ms)
{
    struct fingerprint print = {{hash, hash + 1}, created_ms, due_ms};
    assert_true(bi_move_index_add(move_index, &print, move_index->count));
}

/* How many of the others are there at another time. */
static uint64_t match(const struct move_tolerance *tolerance)
{
    uint64_t lookalikes = 0;
    assert_true(bi_move_index_match(&ours, &theirs, tolerance, NOW, note, NULL, &lookalikes));
    return lookalikes;
}

static void jobs_in_both_queues_are_found(void **state)
{
    (void)state;
    add(&ours, 3, 10, 0);
    add(&ours, 1, 10, 0);
    add(&ours, 2, 10, 0);
    add(&theirs, 2, 10, 0);
    add(&theirs, 3, 11, 0);
    add(&theirs, 4, 10, 0);
    assert_int_equal(match(&bi_move_index_exact), 0);
    assert_int_equal(found_count, 2);
    assert_true(found[0] && !found[1] && found[2]);
}

static void nothing_is_found_in_an_empty_queue(void **state)
{
    (void)state;
    match(&bi_move_index_exact);
    add(&ours, 1, 10, 0);
    match(&bi_move_index_exact);
    assert_int_equal(found_count, 0);
}

static void identical_jobs_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        add(&ours, 1, 10, 0);
    for (int i = 0; i < 3; i++)
        add(&theirs, 1, 10, 0);
    assert_int_equal(match(&bi_move_index_exact), 0);
    assert_int_equal(found_count, 3);
    assert_true(found[0] && found[1] && found[2]);
}

static void different_creation_time_is_a_different_job(void **state)
{
    (void)state;
    add(&ours, 1, 1000, 0);
    add(&theirs, 1, 1101, 0);
    add(&theirs, 1, 899, 0);
    assert_int_equal(match(&bi_move_index_exact), 1);
    assert_int_equal(found_count, 0);
}

static void different_due_time_is_a_different_job(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 5000);
    add(&theirs, 1, 1000, NOW + 6000);
    add(&theirs, 1, 1000, 0);
    assert_int_equal(match(&bi_move_index_exact), 1);
    assert_int_equal(found_count, 0);
}

/* It was looked at before it was due, and its copy after. */
static void delayed_job_matches_its_ready_copy_once_due(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW);
    add(&theirs, 1, 1000, 0);
    assert_int_equal(match(&bi_move_index_exact), 0);
    assert_int_equal(found_count, 1);
}

static void closest_times_match_first(void **state)
{
    (void)state;
    add(&ours, 1, 1000, 0);
    add(&ours, 1, 1090, 0);
    add(&theirs, 1, 1090, 0);
    match(&bi_move_index_exact);
    assert_int_equal(found_count, 1);
    assert_true(found[1]);
}

/* Whoever takes the first that fits leaves others alone here. */
static void matching_is_complete_despite_clock_jitter(void **state)
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
    match(&bi_move_index_exact);
    assert_int_equal(found_count, MANY);
}

static void beanstalkd_times_match_within_seconds(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 50000);
    add(&theirs, 1, 1999, NOW + 50900);
    match(&bi_move_index_exact);
    assert_int_equal(found_count, 0);
    match(&bi_move_index_seconds);
    assert_int_equal(found_count, 1);
}

static void times_are_ignored_for_a_beanstalkd_target(void **state)
{
    (void)state;
    add(&ours, 1, 1000, NOW + 50000);
    add(&ours, 1, 2000, 0);
    add(&theirs, 1, 900000, 0);
    add(&theirs, 1, 900000, NOW + 50000);
    match(&bi_move_index_timeless);
    assert_int_equal(found_count, 2);
}

#define TEST_OF(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(jobs_in_both_queues_are_found),
        TEST_OF(nothing_is_found_in_an_empty_queue),
        TEST_OF(identical_jobs_are_counted),
        TEST_OF(different_creation_time_is_a_different_job),
        TEST_OF(different_due_time_is_a_different_job),
        TEST_OF(delayed_job_matches_its_ready_copy_once_due),
        TEST_OF(closest_times_match_first),
        TEST_OF(matching_is_complete_despite_clock_jitter),
        TEST_OF(beanstalkd_times_match_within_seconds),
        TEST_OF(times_are_ignored_for_a_beanstalkd_target),
    };
    return cmocka_run_group_tests_name("move_index", tests, NULL, NULL);
}
