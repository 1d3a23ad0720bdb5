/* SPDX-License-Identifier: MIT */
/* Fingerprints of jobs, and the search for a job in the index of another queue. */
#include "cli/move/move_index.h"
#include "unit.h"

#include <string.h>

/* ---- fingerprints ---- */

static const struct bi_hash_secret secrets[2] = {{{1, 2}}, {{3, 4}}};

static bide_job some_job(void)
{
    return (bide_job){.id = 1,
                      .state = BIDE_STATE_READY,
                      .priority = 5,
                      .body = "body",
                      .body_size = 4,
                      .ttr_ms = 1000,
                      .max_retries = BIDE_NO_RETRY_LIMIT,
                      .created_ms = 1000,
                      .topic = "topic"};
}

static bool is_same(bool plain, const bide_job *one, const bide_job *other)
{
    struct fingerprint a = bi_move_index_fingerprint(secrets, plain, one);
    struct fingerprint b = bi_move_index_fingerprint(secrets, plain, other);
    assert_int_equal(a.hash[0] == b.hash[0], a.hash[1] == b.hash[1]);
    return a.hash[0] == b.hash[0];
}

#define CHANGED(member, value)                       \
    do {                                             \
        bide_job other_ = some_job();                \
        other_.member = (value);                     \
        assert_false(is_same(false, &job, &other_)); \
    } while (0)

static void fingerprint_covers_every_stable_field(void **state)
{
    (void)state;
    bide_job job = some_job();
    CHANGED(state, BIDE_STATE_BURIED);
    CHANGED(state, BIDE_STATE_DONE);
    CHANGED(priority, 6);
    CHANGED(body, "bodY");
    CHANGED(body_size, 3);
    CHANGED(ttr_ms, 1001);
    CHANGED(key_hold_retained, true);
    CHANGED(max_retries, 0);
    CHANGED(failures, 1);
    CHANGED(backoff_base_ms, 1);
    CHANGED(backoff_max_ms, 1);
    CHANGED(expires_at_ms, 1);
    CHANGED(retain_ms, 1);
    CHANGED(reserves, 1);
    CHANGED(timeouts, 1);
    CHANGED(releases, 1);
    CHANGED(fails, 1);
    CHANGED(buries, 1);
    CHANGED(kicks, 1);
    CHANGED(touches, 1);
    bide_job other = some_job();
    other.topic[4] = 'x';
    assert_false(is_same(false, &job, &other));
}

static void absent_and_empty_texts_differ(void **state)
{
    (void)state;
    bide_job none = some_job(), key_only = some_job(), result = some_job(), empty = some_job();
    key_only.key = "x";
    key_only.key_size = 1;
    result.result = "x";
    result.result_size = 1;
    empty.result = "";
    assert_false(is_same(false, &none, &key_only));
    assert_false(is_same(false, &none, &result));
    assert_false(is_same(false, &key_only, &result));
    assert_false(is_same(false, &none, &empty));
}

/* "ab" and "c" are not "a" and "bc". */
static void field_boundaries_are_hashed(void **state)
{
    (void)state;
    bide_job one = some_job(), other = some_job();
    strcpy(one.topic, "ab");
    one.body = "c";
    one.body_size = 1;
    strcpy(other.topic, "a");
    other.body = "bc";
    other.body_size = 2;
    assert_false(is_same(false, &one, &other));
    assert_false(is_same(true, &one, &other));
}

static void fingerprint_ignores_fields_that_time_changes(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    other.id = 2;
    other.state = BIDE_STATE_DELAYED;
    other.run_at_ms = other.left_ms = other.age_ms = other.delay_ms = 77;
    other.created_ms = other.ready_ms = 78;
    other.run_at_wall = true;
    assert_true(is_same(false, &job, &other));
    other.state = BIDE_STATE_RESERVED;
    other.token = 3;
    assert_true(is_same(false, &job, &other));
    struct fingerprint print = bi_move_index_fingerprint(secrets, false, &other);
    assert_int_equal(print.created_ms, 78);
    assert_int_equal(print.due_ms, 0);
}

static void empty_bodies_are_equal(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    job.body = NULL;
    job.body_size = other.body_size = 0;
    assert_true(is_same(false, &job, &other));
}

static void plain_fingerprint_covers_beanstalkd_fields_only(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    other.reserves = 3;
    other.key = "k";
    other.key_size = 1;
    other.ttr_ms = 999; /* rounded up to a second there */
    assert_true(is_same(true, &job, &other));
    other.priority = 6;
    assert_false(is_same(true, &job, &other));
}

/* Both halves of the hash depend on a secret of their own. */
static void hash_depends_on_both_secrets(void **state)
{
    (void)state;
    bide_job job = some_job();
    struct fingerprint print = bi_move_index_fingerprint(secrets, false, &job);
    const struct bi_hash_secret swapped[2] = {secrets[1], secrets[0]};
    struct fingerprint other = bi_move_index_fingerprint(swapped, false, &job);
    assert_true(print.hash[0] != print.hash[1]);
    assert_int_equal(print.hash[0], other.hash[1]);
    assert_int_equal(print.hash[1], other.hash[0]);
}

/* ---- the index ---- */

#define NOW  1000000
#define MANY 5000

static struct move_index move_index;

static int begin(void **state)
{
    (void)state;
    move_index = (struct move_index){.tolerance = &bi_move_index_exact};
    return 0;
}

static int end(void **state)
{
    (void)state;
    bi_move_index_free(&move_index);
    return 0;
}

static struct fingerprint print_of(uint64_t hash, int64_t created_ms, int64_t due_ms)
{
    return (struct fingerprint){{hash, hash + 1}, created_ms, due_ms};
}

/* Ids are 1, 2, 3 ... in the order of the calls. */
static void add(uint64_t hash, int64_t created_ms, int64_t due_ms)
{
    struct fingerprint print = print_of(hash, created_ms, due_ms);
    assert_true(bi_move_index_add(&move_index, &print, move_index.count + 1));
}

/* The id of the entry that was taken; 0: none. */
static uint64_t take(uint64_t hash, int64_t created_ms, int64_t due_ms)
{
    struct fingerprint print = print_of(hash, created_ms, due_ms);
    uint64_t id = 0;
    bool found = bi_move_index_take(&move_index, &print, NOW, &id);
    assert_int_equal(found, id != 0);
    return id;
}

static void jobs_in_both_queues_are_found(void **state)
{
    (void)state;
    add(2, 10, 0);
    add(3, 11, 0);
    add(4, 10, 0);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(3, 10, 0), 2);
    assert_int_equal(take(1, 10, 0), 0);
    assert_int_equal(take(2, 10, 0), 1);
    assert_int_equal(take(5, 10, 0), 0);
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 0);
}

static void nothing_is_found_in_an_empty_index(void **state)
{
    (void)state;
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 10, 0), 0);
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 0);
}

static void identical_jobs_are_counted_and_taken_by_id(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        add(1, 10, 0);
    bi_move_index_finish(&move_index);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(take(1, 10, 0), i);
    assert_int_equal(take(1, 10, 0), 0);
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 0);
}

/* A search that walked over the entries that are taken would need 10^11 steps. */
static void many_identical_jobs_are_taken_in_order(void **state)
{
    (void)state;
    const uint64_t count = 500000;
    for (uint64_t i = 0; i < count; i++)
        add(1, 10, 0);
    bi_move_index_finish(&move_index);
    for (uint64_t i = 1; i <= count; i++)
        assert_int_equal(take(1, 10, 0), i);
    assert_int_equal(take(1, 10, 0), 0);
}

static void different_creation_time_is_a_different_job(void **state)
{
    (void)state;
    add(1, 1101, 0);
    add(1, 899, 0);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, 0), 0);
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 1);
}

static void different_due_time_is_a_different_job(void **state)
{
    (void)state;
    add(1, 1000, NOW + 6000);
    add(1, 1000, 0);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, NOW + 5000), 0);
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 1);
}

/* As many as there are on the side that has fewer. */
static void lookalikes_are_counted_per_hash(void **state)
{
    (void)state;
    add(1, 1000, 0);
    add(1, 5000, 0);
    add(2, 1000, 0);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, 0), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(1, 9000, 0), 0);
        assert_int_equal(take(2, 9000, 0), 0);
        assert_int_equal(take(3, 9000, 0), 0);
    }
    assert_int_equal(bi_move_index_count_lookalikes(&move_index), 2);
}

/* It was read before it was due, and its copy after, or the other way round. */
static void delayed_job_matches_its_ready_copy_once_due(void **state)
{
    (void)state;
    add(1, 1000, 0);
    add(2, 1000, NOW);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, NOW), 1);
    assert_int_equal(take(2, 1000, 0), 2);
}

static void closest_entry_is_taken(void **state)
{
    (void)state;
    add(1, 950, 0);
    add(1, 1010, 0);
    add(1, 1060, 0);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, 0), 2);
    assert_int_equal(take(1, 1000, 0), 1);
    assert_int_equal(take(1, 1000, 0), 3);
}

/* A search that takes the first entry that fits leaves some jobs without an entry here. */
static void matching_is_complete_despite_clock_jitter(void **state)
{
    (void)state;
    static struct fingerprint jobs[MANY];
    unsigned seed = 1;
    for (int i = 0; i < MANY; i++) {
        seed = seed * 1103515245 + 12345;
        int64_t created = 1000 + (seed >> 8) % 30000;
        int64_t due = (seed >> 5) % 3 == 0 ? 0 : NOW + 200000 + (seed >> 9) % 4000;
        jobs[i] = print_of(i % 2, created, due);
        /* The clock was read again, and the time is one millisecond less or more. */
        add(i % 2, created + (seed >> 12) % 3 - 1, due == 0 ? 0 : due + (seed >> 14) % 2);
    }
    bi_move_index_finish(&move_index);
    for (int i = 0; i < MANY; i++)
        assert_true(take(jobs[i].hash[0], jobs[i].created_ms, jobs[i].due_ms) != 0);
}

static void beanstalkd_times_match_within_seconds(void **state)
{
    (void)state;
    add(1, 1999, NOW + 50900);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, NOW + 50000), 0);
    move_index.tolerance = &bi_move_index_seconds;
    assert_int_equal(take(1, 1000, NOW + 50000), 1);
}

static void times_are_ignored_for_a_beanstalkd_target(void **state)
{
    (void)state;
    move_index.tolerance = &bi_move_index_timeless;
    add(1, 900000, 0);
    add(1, 900000, NOW + 50000);
    bi_move_index_finish(&move_index);
    assert_int_equal(take(1, 1000, NOW + 50000), 1);
    assert_int_equal(take(1, 2000, 0), 2);
}

#define TEST_OF(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fingerprint_covers_every_stable_field),
        cmocka_unit_test(absent_and_empty_texts_differ),
        cmocka_unit_test(field_boundaries_are_hashed),
        cmocka_unit_test(fingerprint_ignores_fields_that_time_changes),
        cmocka_unit_test(empty_bodies_are_equal),
        cmocka_unit_test(plain_fingerprint_covers_beanstalkd_fields_only),
        cmocka_unit_test(hash_depends_on_both_secrets),
        TEST_OF(jobs_in_both_queues_are_found),
        TEST_OF(nothing_is_found_in_an_empty_index),
        TEST_OF(identical_jobs_are_counted_and_taken_by_id),
        TEST_OF(many_identical_jobs_are_taken_in_order),
        TEST_OF(different_creation_time_is_a_different_job),
        TEST_OF(different_due_time_is_a_different_job),
        TEST_OF(lookalikes_are_counted_per_hash),
        TEST_OF(delayed_job_matches_its_ready_copy_once_due),
        TEST_OF(closest_entry_is_taken),
        TEST_OF(matching_is_complete_despite_clock_jitter),
        TEST_OF(beanstalkd_times_match_within_seconds),
        TEST_OF(times_are_ignored_for_a_beanstalkd_target),
    };
    return cmocka_run_group_tests_name("move_index", tests, NULL, NULL);
}
