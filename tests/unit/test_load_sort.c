/* SPDX-License-Identifier: MIT */
/*
 * Lists that were loaded in the order of ids are put into the order in which they were.
 */
#include "core_fixture.h"

#include "util/hash.h"

#include <stdlib.h>

#define MANY        3000
#define FIRST_ORDER 1000000

static int set_up(void **state)
{
    (void)state;
    core_fixture_init(&w);
    w.options.journal = true;
    w.options.next_token = FIRST_ORDER; /* orders of an earlier life are smaller */
    core_fixture_start(&w);
    return 0;
}

static struct bi_image image_of(uint64_t id, bide_state state)
{
    return (struct bi_image){
        .id = id,
        .state = state,
        .ttr = 60 * SECOND,
        .due = state == BIDE_STATE_READY || state == BIDE_STATE_BURIED ? 0 : EPOCH + 9000 * SECOND,
        .max_retries = BIDE_NO_RETRY_LIMIT,
        .created = EPOCH - 9000 * SECOND,
        .since = EPOCH - 5000 * SECOND,
        .topic = "a"};
}

static void load(const struct bi_image *image)
{
    assert_int_equal(bi_load_job(w.core, image, w.now), BIDE_OK);
}

static void load_buried(uint64_t id, uint64_t order)
{
    struct bi_image image = image_of(id, BIDE_STATE_BURIED);
    image.bury_order = order;
    load(&image);
}

/* A number that goes through 1 to MANY in no order. */
static uint64_t shuffled(uint64_t i)
{
    return 1 + i * 1009 % MANY;
}

/* ---- the steps ---- */

static void collect(struct bi_load_sort *ordering, unsigned budget)
{
    while (bi_load_sort_collect(w.core, ordering, budget))
        continue;
}

static void apply(struct bi_load_sort *ordering, unsigned budget)
{
    while (bi_load_sort_apply(w.core, ordering, budget))
        continue;
}

static void put_in_order(unsigned budget)
{
    struct bi_load_sort ordering = {.count = 0};
    collect(&ordering, budget);
    bi_load_sort_sort(&ordering);
    apply(&ordering, budget);
    assert_false(ordering.failed);
    bi_load_sort_done(w.core, &ordering);
    core_fixture_check(&w);
}

static uint64_t first_in(bide_state state)
{
    bide_job job;
    bide_op op = {.kind = BIDE_OP_PEEK_FIRST,
                  .query = {.topic = text("a"), .state = state, .job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    uint64_t id = job.id;
    bide_job_clear(&job);
    return id;
}

/* The oldest burial must be this one; it goes. */
static void expect_buried(uint64_t id)
{
    assert_int_equal(first_in(BIDE_STATE_BURIED), id);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
}

static int64_t oldest_ready_ms(void)
{
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {text("a"), &stats}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    return stats.oldest_ready_age_ms;
}

/* ---- orders ---- */

static void thousands_of_burials_are_restored_in_order(void **state)
{
    (void)state;
    static uint64_t by_order[MANY + 1];
    for (uint64_t id = 1; id <= MANY; id++) {
        load_buried(id, shuffled(id));
        by_order[shuffled(id)] = id;
    }
    put_in_order(256);
    for (size_t order = 1; order <= MANY; order++)
        expect_buried(by_order[order]);
}

static void a_kick_takes_the_oldest_burial_of_all_lives_first(void **state)
{
    (void)state;
    load_buried(1, 30);
    load_buried(2, 10);
    load_buried(3, 20);
    uint64_t fresh = put(&w, "a");
    assert_int_equal(bury(&w, fresh, 0), BIDE_OK);
    put_in_order(1);
    const uint64_t wanted[] = {2, 3, 1, fresh};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(kick(&w, "a", 1), 1);
        assert_int_equal(state_of(&w, wanted[i]), BIDE_STATE_READY);
    }
}

static void thousands_of_ready_jobs_are_restored_oldest_first(void **state)
{
    (void)state;
    static uint64_t by_age[MANY + 1];
    for (uint64_t id = 1; id <= MANY; id++) {
        struct bi_image image = image_of(id, BIDE_STATE_READY);
        image.since = EPOCH - (int64_t)shuffled(id) * SECOND;
        load(&image);
        by_age[shuffled(id)] = id;
    }
    put_in_order(100);
    for (size_t age = MANY; age > 0; age--) {
        assert_int_equal(oldest_ready_ms(), age * 1000);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, by_age[age], 0), BIDE_OK);
    }
}

static void the_oldest_result_is_dropped_first(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_init(&w);
    w.options.journal = true;
    w.options.limits.max_done_per_topic = 3;
    core_fixture_start(&w);
    static const uint64_t orders[] = {0, 30, 10, 20};
    for (uint64_t id = 1; id <= 3; id++) {
        struct bi_image image = image_of(id, BIDE_STATE_DONE);
        image.bury_order = orders[id];
        load(&image);
    }
    put_in_order(10);
    const uint64_t wanted[] = {2, 3, 1};
    for (size_t i = 0; i < 3; i++) {
        uint64_t id = put(&w, "a");
        uint64_t token = reserve_expected(&w, "a", id);
        assert_int_equal(done(&w, id, token, 100000), BIDE_OK);
        assert_int_equal(state_of(&w, wanted[i]), BIDE_STATE_GONE);
        for (size_t j = i + 1; j < 3; j++)
            assert_int_equal(state_of(&w, wanted[j]), BIDE_STATE_DONE);
    }
}

static void several_topics_and_states_are_sorted_together(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 400; id++) {
        struct bi_image image = image_of(id, id % 4 == 0   ? BIDE_STATE_READY
                                             : id % 4 == 1 ? BIDE_STATE_DELAYED
                                             : id % 4 == 2 ? BIDE_STATE_BURIED
                                                           : BIDE_STATE_DONE);
        image.topic[0] = (char)('a' + id % 3);
        image.since = EPOCH - (int64_t)(1 + id * 7919 % 1000) * SECOND;
        image.bury_order = 1 + id * 7919 % 1000;
        load(&image);
    }
    put_in_order(7); /* core_fixture_check() looks at every list */
    assert_int_equal(stats_of(&w).jobs.buried, 100);
}

static void sorted_store_needs_no_work(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 500; id++)
        load_buried(id, id);
    struct bi_load_sort ordering = {.count = 0};
    uint64_t calls = w.alloc.calls;
    assert_false(bi_load_sort_collect(w.core, &ordering, 1));
    bi_load_sort_sort(&ordering);
    assert_false(bi_load_sort_apply(w.core, &ordering, 1));
    bi_load_sort_done(w.core, &ordering);
    assert_int_equal(ordering.count, 0);
    assert_int_equal(w.alloc.calls, calls);
    expect_buried(1);
}

static void empty_core_needs_no_sort(void **state)
{
    (void)state;
    put_in_order(1);
    assert_int_equal(stats_of(&w).topics, 0);
}

/* The op that a user runs, not the check of the tests. */
static void assert_sound(void)
{
    bide_check_report report;
    bide_op op = {.kind = BIDE_OP_CHECK, .check = {.report = &report}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_string_equal(report.problem, "");
    assert_int_equal(report.jobs, 3);
}

static void unsorted_lists_are_not_reported_as_damage(void **state)
{
    (void)state;
    load_buried(1, 30);
    load_buried(2, 10);
    load_buried(3, 20);
    struct bi_load_sort ordering = {.count = 0};
    w.alloc.failing = true;
    collect(&ordering, 256);
    w.alloc.failing = false;
    assert_true(ordering.failed);
    bi_load_sort_done(w.core, &ordering);
    bi_core_end_recovery(w.core, w.now);
    assert_sound();
    put_in_order(256); /* when there is memory again, all is in order */
    assert_sound();
    expect_buried(2);
}

/* ---- what happens between the slices ---- */

/* What is to come out, in order. */
static uint64_t expected[2 * MANY];
static size_t expected_count;

/* Does something to a loaded job, as it may happen at any time. */
static void disturb(uint64_t id)
{
    switch (bi_hash_u64(id) % 5) {
    case 0:
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        break;
    case 1:
        assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
        break;
    case 2: /* it comes again, and then stands behind all others */
        assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
        assert_int_equal(bury(&w, id, 0), BIDE_OK);
        break;
    case 3: { /* a new one comes */
        uint64_t fresh = put(&w, "a");
        assert_int_equal(bury(&w, fresh, 0), BIDE_OK);
        break;
    }
    default:
        break;
    }
}

/* The same once more, for what is expected: first the loaded ones that stayed where they were, then
 * those that came later, in the order in which they came. */
static void expect_disturbed(const uint64_t *by_order, size_t disturbed)
{
    uint64_t fresh = MANY;
    expected_count = 0;
    for (size_t order = 1; order <= MANY; order++) {
        uint64_t id = by_order[order];
        if (id > disturbed || bi_hash_u64(id) % 5 >= 3)
            expected[expected_count++] = id;
    }
    for (uint64_t id = 1; id <= disturbed; id++) {
        if (bi_hash_u64(id) % 5 == 2)
            expected[expected_count++] = id;
        else if (bi_hash_u64(id) % 5 == 3)
            expected[expected_count++] = ++fresh;
    }
}

static void jobs_changed_between_slices_are_in_order(void **state)
{
    (void)state;
    static uint64_t by_order[MANY + 1];
    for (uint64_t id = 1; id <= MANY; id++) {
        load_buried(id, shuffled(id));
        by_order[shuffled(id)] = id;
    }
    struct bi_load_sort ordering = {.count = 0};
    uint64_t next = 1;
    while (bi_load_sort_collect(w.core, &ordering, 50))
        for (int i = 0; i < 10 && next <= MANY / 3; i++)
            disturb(next++);
    for (; next <= MANY / 2; next++)
        disturb(next);
    bi_load_sort_sort(&ordering);
    while (bi_load_sort_apply(w.core, &ordering, 50))
        for (int i = 0; i < 20 && next <= MANY; i++)
            disturb(next++);
    bi_load_sort_done(w.core, &ordering);
    core_fixture_check(&w);
    expect_disturbed(by_order, (size_t)next - 1);
    assert_int_equal(stats_of(&w).jobs.buried, expected_count);
    for (size_t i = 0; i < expected_count; i++)
        expect_buried(expected[i]);
}

/* Everything since the beginning cannot be stored. Lists may be out of order yet. */
static void roll_back(void)
{
    struct bi_batch batch = seal(&w);
    while (bi_journal_rollback(w.core, w.now, 100))
        continue;
    bi_journal_batch_done(w.core, &batch);
}

static void rollback_between_slices_keeps_the_order(void **state)
{
    (void)state;
    static uint64_t by_order[MANY + 1];
    for (uint64_t id = 1; id <= MANY; id++) {
        load_buried(id, shuffled(id));
        by_order[shuffled(id)] = id;
    }
    struct bi_load_sort ordering = {.count = 0};
    uint64_t next = 1;
    while (bi_load_sort_collect(w.core, &ordering, 100))
        disturb(next++);
    bi_load_sort_sort(&ordering);
    roll_back(); /* whatever was disturbed is as it was */
    while (bi_load_sort_apply(w.core, &ordering, 100))
        disturb(next++);
    roll_back();
    bi_load_sort_done(w.core, &ordering);
    core_fixture_check(&w);
    for (size_t order = 1; order <= MANY; order++)
        expect_buried(by_order[order]);
}

static void a_rollback_behind_the_last_slice_finds_a_list_in_order(void **state)
{
    (void)state;
    static uint64_t by_order[MANY + 1];
    for (uint64_t id = 1; id <= MANY; id++) {
        load_buried(id, shuffled(id));
        by_order[shuffled(id)] = id;
    }
    struct bi_load_sort ordering = {.count = 0};
    uint64_t next = 1;
    while (bi_load_sort_collect(w.core, &ordering, 100))
        continue;
    bi_load_sort_sort(&ordering);
    while (bi_load_sort_apply(w.core, &ordering, 100))
        disturb(next++);
    bi_load_sort_done(w.core, &ordering);
    fail_commit(&w);
    for (size_t order = 1; order <= MANY; order++)
        expect_buried(by_order[order]);
}

/* ---- out of memory ---- */

static void sort_without_memory_changes_only_the_order(void **state)
{
    (void)state;
    for (uint64_t point = 1; point <= 3; point++) {
        tear_down_core(NULL);
        set_up(NULL);
        for (uint64_t id = 1; id <= MANY; id++)
            load_buried(id, shuffled(id));
        struct bi_load_sort ordering = {.count = 0};
        w.alloc.countdown = point; /* room for 1,024, for 2,048, for 4,096 */
        collect(&ordering, 100);
        w.alloc.countdown = 0;
        assert_true(ordering.failed);
        bi_load_sort_sort(&ordering);
        apply(&ordering, 100);
        bi_load_sort_done(w.core, &ordering);
        assert_null(ordering.entries);
        assert_int_equal(kick(&w, "a", MANY), MANY);
        for (uint64_t id = 1; id <= MANY; id++)
            reserve_expected(&w, "a", id);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(thousands_of_burials_are_restored_in_order),
        TEST(a_kick_takes_the_oldest_burial_of_all_lives_first),
        TEST(thousands_of_ready_jobs_are_restored_oldest_first),
        TEST(the_oldest_result_is_dropped_first),
        TEST(several_topics_and_states_are_sorted_together),
        TEST(sorted_store_needs_no_work),
        TEST(empty_core_needs_no_sort),
        TEST(unsorted_lists_are_not_reported_as_damage),
        TEST(jobs_changed_between_slices_are_in_order),
        TEST(rollback_between_slices_keeps_the_order),
        TEST(a_rollback_behind_the_last_slice_finds_a_list_in_order),
        TEST(sort_without_memory_changes_only_the_order),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
