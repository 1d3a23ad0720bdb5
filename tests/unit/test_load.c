/* SPDX-License-Identifier: MIT */
/*
 * What becomes of stored jobs at the next start.
 */
#include "core_fixture.h"

#include <stdio.h>

static struct core_fixture w;

static int set_up(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    core_fixture_close(&w);
    return 0;
}

/* A ready job as a store has it, without texts. */
static struct bi_image image_of(uint64_t id)
{
    return (struct bi_image){.id = id,
                             .state = BIDE_STATE_READY,
                             .priority = BIDE_DEFAULT_PRIORITY,
                             .ttr = 60 * SECOND,
                             .max_retries = BIDE_NO_RETRY_LIMIT,
                             .created = EPOCH - 100 * SECOND,
                             .body_size = 4,
                             .topic = "a"};
}

static int load(struct bi_image *image)
{
    image->body = bide_buf_new("body", 4);
    int code = bi_load_job(w.core, image, w.now);
    bide_buf_unref(image->body);
    image->body = NULL;
    return code;
}

static bide_job loaded(struct bi_image *image)
{
    assert_int_equal(load(image), BIDE_OK);
    bide_job job;
    assert_true(look(&w, image->id, &job));
    core_fixture_check(&w);
    return job;
}

static void a_loaded_job_has_its_id_and_the_next_one_a_higher(void **state)
{
    (void)state;
    struct bi_image image = image_of(41);
    bide_job job = loaded(&image);
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.age_ms, 100000);
    assert_int_equal(job.body_size, 4);
    bide_job_clear(&job);
    assert_int_equal(put(&w, "a"), 42);
}

/* Another core, as after a restart. */
static struct core_fixture next;

static void everything_that_is_stored_comes_back(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.priority = 9;
    options.key = text("key");
    options.max_retries = 7;
    options.backoff_base_ms = 20;
    options.backoff_max_ms = 300;
    options.retain_ms = 400;
    options.ttr_ms = 500;
    uint64_t id = put_with(&w, "a", &options);
    uint64_t token = reserve_expected(&w, "a", id);
    assert_int_equal(fail_job(&w, id, token, 5000), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    core_fixture_init(&next);
    next.options.next_id = batch.next_id;
    next.options.next_token = batch.next_token;
    core_fixture_start(&next);
    assert_int_equal(bi_load_job(next.core, &batch.records[0].image, next.now), BIDE_OK);
    commit_sealed(&w, &batch);
    bide_job job;
    assert_true(look(&next, id, &job));
    assert_int_equal(job.state, BIDE_STATE_DELAYED);
    assert_int_equal(job.priority, 9);
    assert_int_equal(job.left_ms, 5000);
    assert_int_equal(job.max_retries, 7);
    assert_int_equal(job.failures, 1);
    assert_int_equal(job.fails, 1);
    assert_int_equal(job.reserves, 1);
    assert_int_equal(job.backoff_base_ms, 20);
    assert_int_equal(job.backoff_max_ms, 300);
    assert_int_equal(job.retain_ms, 400);
    assert_int_equal(job.ttr_ms, 500);
    assert_string_equal(job.last_error, "oops");
    assert_memory_equal(job.key, "key", 3);
    assert_int_equal(job.reserved_ms, EPOCH / MS);
    bide_job_clear(&job);
    uint64_t holder;
    assert_int_equal(try_put(&next, "a", &options, &holder), BIDE_EXISTS);
    assert_int_equal(holder, id);
    advance_clocks(&next, 5 * SECOND);
    assert_true(reserve_expected(&next, "a", id) > token); /* no token is ever given twice */
    core_fixture_close(&next);
}

static void a_job_that_was_reserved_is_ready(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    reserve_expected(&w, "a", id);
    struct bi_batch batch = seal(&w);
    struct bi_image image = batch.records[0].image;
    commit_sealed(&w, &batch);
    assert_int_equal(image.state, BIDE_STATE_READY);
    assert_false(image.started);
    image.id = 77;
    image.key = image.last_error = image.result = NULL;
    bide_job job = loaded(&image);
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.failures, 0);
    bide_job_clear(&job);
}

static void a_started_job_counts_a_failure_and_comes_back_later(void **state)
{
    (void)state;
    struct bi_image image = image_of(5);
    image.started = true;
    image.max_retries = 2;
    image.failures = 1;
    image.reserves = 2;
    bide_job job = loaded(&image);
    assert_int_equal(job.state, BIDE_STATE_DELAYED);
    assert_int_equal(job.failures, 2);
    assert_int_equal(job.timeouts, 1);
    assert_in_range(job.left_ms, 10000, 15000);
    assert_non_null(strstr(job.last_error, "restarted"));
    bide_job_clear(&job);
    assert_true(bi_journal_is_dirty(w.core)); /* the change is journalled */
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].kind, BI_UPDATE);
    assert_int_equal(batch.records[0].image.failures, 2);
    commit_sealed(&w, &batch);
}

static void a_started_job_without_retries_left_is_buried(void **state)
{
    (void)state;
    struct bi_image image = image_of(5);
    image.started = true;
    image.max_retries = 2;
    image.failures = 2;
    bide_job job = loaded(&image);
    assert_int_equal(job.state, BIDE_STATE_BURIED);
    assert_int_equal(job.failures, 3);
    assert_int_equal(job.buries, 1);
    bide_job_clear(&job);
}

static void a_cancelled_job_is_removed_and_the_removal_stored(void **state)
{
    (void)state;
    struct bi_image image = image_of(5);
    image.cancel_wanted = true;
    assert_int_equal(load(&image), BIDE_OK);
    assert_int_equal(state_of(&w, 5), BIDE_STATE_GONE);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].kind, BI_REMOVE);
    assert_int_equal(batch.records[0].image.id, 5);
    commit_sealed(&w, &batch);
    assert_int_equal(stats_of(&w).topics, 0);
}

static void a_due_time_that_has_passed_makes_it_ready(void **state)
{
    (void)state;
    for (int wall = 0; wall < 2; wall++) {
        struct bi_image image = image_of(10 + (uint64_t)wall);
        image.state = BIDE_STATE_DELAYED;
        image.due_wall = wall == 1;
        image.due = EPOCH;
        bide_job job = loaded(&image);
        assert_int_equal(job.state, BIDE_STATE_READY);
        bide_job_clear(&job);
        image.id += 10;
        image.due = EPOCH + 1;
        job = loaded(&image);
        assert_int_equal(job.state, BIDE_STATE_DELAYED);
        bide_job_clear(&job);
    }
    advance_clocks(&w, 1);
    assert_int_equal(stats_of(&w).jobs.ready, 4);
}

static void a_delay_runs_on_the_clock_that_it_was_given_for(void **state)
{
    (void)state;
    struct bi_image image = image_of(1);
    image.state = BIDE_STATE_DELAYED;
    image.due = EPOCH + 10 * SECOND;
    assert_int_equal(load(&image), BIDE_OK);
    image.id = 2;
    image.due_wall = true;
    assert_int_equal(load(&image), BIDE_OK);
    step_wall_clock(&w, 3600 * SECOND);
    assert_int_equal(state_of(&w, 1), BIDE_STATE_DELAYED);
    assert_int_equal(state_of(&w, 2), BIDE_STATE_READY);
    advance_clocks(&w, 10 * SECOND);
    assert_int_equal(state_of(&w, 1), BIDE_STATE_READY);
}

/* What is done when all is loaded, in slices as small as they can be. */
static void put_in_order(void)
{
    struct bi_load_sort ordering = {.count = 0};
    while (bi_load_sort_collect(w.core, &ordering, 1))
        continue;
    bi_load_sort_sort(&ordering);
    while (bi_load_sort_apply(w.core, &ordering, 1))
        continue;
    bi_load_sort_done(w.core, &ordering);
    core_fixture_check(&w);
}

static void burials_come_back_in_their_order(void **state)
{
    (void)state;
    /* Loaded by id; buried in another order. */
    static const uint64_t orders[] = {500, 100, 400, 200, 300};
    for (uint64_t id = 1; id <= 5; id++) {
        struct bi_image image = image_of(id);
        image.state = BIDE_STATE_BURIED;
        image.bury_order = orders[id - 1];
        image.buried = EPOCH - SECOND;
        assert_int_equal(load(&image), BIDE_OK);
    }
    put_in_order();
    uint64_t last = put(&w, "a");
    assert_int_equal(bury(&w, last, 0), BIDE_OK); /* a new burial comes after all of them */
    static const uint64_t wanted[] = {2, 4, 5, 3, 1, 6};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(kick(&w, "a", 1), 1);
        assert_int_equal(state_of(&w, wanted[i]), BIDE_STATE_READY);
    }
}

static void ready_jobs_come_back_in_their_order_with_their_age(void **state)
{
    (void)state;
    static const int64_t ages[] = {10, 30, 20};
    for (uint64_t id = 1; id <= 3; id++) {
        struct bi_image image = image_of(id);
        image.since = EPOCH - ages[id - 1] * SECOND;
        assert_int_equal(load(&image), BIDE_OK);
    }
    put_in_order();
    assert_int_equal(stats_of(&w).oldest_ready_age_ms, 30000);
    for (uint64_t id = 1; id <= 3; id++)
        reserve_expected(&w, "a", id);
}

static void a_result_is_kept_for_the_rest_of_its_retention(void **state)
{
    (void)state;
    struct bi_image image = image_of(3);
    image.state = BIDE_STATE_DONE;
    image.due = EPOCH + 5 * SECOND;
    image.result = bide_buf_new("result", 6);
    image.key = bide_buf_new("key", 3);
    bide_job job = loaded(&image);
    assert_int_equal(job.state, BIDE_STATE_DONE);
    assert_int_equal(job.left_ms, 5000);
    assert_memory_equal(job.result, "result", 6);
    bide_job_clear(&job);
    put_keyed(&w, "a", "key"); /* a result does not hold its key */
    image.id = 5;
    image.due = EPOCH - SECOND;
    assert_int_equal(load(&image), BIDE_OK);
    tick(&w);
    assert_int_equal(state_of(&w, 5), BIDE_STATE_GONE);
    advance_clocks(&w, 5 * SECOND);
    assert_int_equal(state_of(&w, 3), BIDE_STATE_GONE);
    bide_buf_unref(image.result);
    bide_buf_unref(image.key);
}

static void an_expiry_that_has_passed_takes_the_job(void **state)
{
    (void)state;
    struct bi_image image = image_of(3);
    image.expires_at = EPOCH - SECOND;
    assert_int_equal(load(&image), BIDE_OK);
    image.id = 4;
    image.reserves = 1; /* reserved once: the expiry is over */
    assert_int_equal(load(&image), BIDE_OK);
    tick(&w);
    assert_int_equal(state_of(&w, 3), BIDE_STATE_GONE);
    assert_int_equal(state_of(&w, 4), BIDE_STATE_READY);
    assert_int_equal(stats_of(&w).total.expired, 1);
}

static void a_pause_is_loaded_until_its_end(void **state)
{
    (void)state;
    struct bi_image pause = {.due = EPOCH + SECOND, .topic = "a"};
    assert_int_equal(bi_load_pause(w.core, &pause, w.now), BIDE_OK);
    struct bi_image for_ever = {.due = BI_NEVER, .topic = "b"};
    assert_int_equal(bi_load_pause(w.core, &for_ever, w.now), BIDE_OK);
    struct bi_image over = {.due = EPOCH - SECOND, .topic = "c"};
    assert_int_equal(bi_load_pause(w.core, &over, w.now), BIDE_OK);
    assert_int_equal(stats_of(&w).topics, 2);
    uint64_t a = put(&w, "a");
    put(&w, "b");
    assert_nothing_ready(&w, "a");
    advance_clocks(&w, SECOND);
    reserve_expected(&w, "a", a);
    advance_clocks(&w, BIDE_TIME_MAX_MS * MS);
    assert_nothing_ready(&w, "b");
}

static void an_image_that_cannot_be_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct bi_image first = image_of(1);
    assert_int_equal(load(&first), BIDE_OK);
    uint64_t before = bi_core_check_hash(w.core);
    struct bi_image bad[8];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = image_of(50);
    bad[0].id = 0;
    bad[1].id = BIDE_ID_MAX + 1;
    bad[2].id = 1; /* it is there already */
    bad[3].state = BIDE_STATE_RESERVED;
    bad[4].state = BIDE_STATE_GONE;
    bad[5].topic[0] = 0;
    memset(bad[6].topic, 'x', sizeof(bad[6].topic)); /* no end */
    bad[7].ttr = 0;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(load(&bad[i]), BIDE_EINVAL);
        assert_int_equal(bi_core_check_hash(w.core), before);
    }
    core_fixture_check(&w);
}

static void an_image_is_loaded_or_not_wherever_memory_lacks(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct bi_image image = image_of(100 + (uint64_t)kind);
        snprintf(image.topic, sizeof(image.topic), "new-%d", kind);
        image.started = kind == 1;
        image.max_retries = kind == 1 ? 3 : -1;
        image.cancel_wanted = kind == 2;
        int code = BIDE_ENOMEM;
        for (uint64_t point = 1; code != BIDE_OK; point++) {
            uint64_t topics = stats_of(&w).topics;
            w.alloc.countdown = point;
            code = load(&image);
            w.alloc.countdown = 0;
            core_fixture_check(&w);
            if (code == BIDE_OK)
                break;
            assert_int_equal(code, BIDE_ENOMEM);
            assert_int_equal(state_of(&w, image.id), BIDE_STATE_GONE);
            assert_int_equal(stats_of(&w).topics, topics);
            assert_true(point < 100);
        }
    }
    assert_int_equal(state_of(&w, 100), BIDE_STATE_READY);
    assert_int_equal(state_of(&w, 101), BIDE_STATE_DELAYED);
    assert_int_equal(state_of(&w, 102), BIDE_STATE_GONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loaded_job_has_its_id_and_the_next_one_a_higher),
        TEST(everything_that_is_stored_comes_back),
        TEST(a_job_that_was_reserved_is_ready),
        TEST(a_started_job_counts_a_failure_and_comes_back_later),
        TEST(a_started_job_without_retries_left_is_buried),
        TEST(a_cancelled_job_is_removed_and_the_removal_stored),
        TEST(a_due_time_that_has_passed_makes_it_ready),
        TEST(a_delay_runs_on_the_clock_that_it_was_given_for),
        TEST(burials_come_back_in_their_order),
        TEST(ready_jobs_come_back_in_their_order_with_their_age),
        TEST(a_result_is_kept_for_the_rest_of_its_retention),
        TEST(an_expiry_that_has_passed_takes_the_job),
        TEST(a_pause_is_loaded_until_its_end),
        TEST(an_image_that_cannot_be_is_refused_and_changes_nothing),
        TEST(an_image_is_loaded_or_not_wherever_memory_lacks),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
