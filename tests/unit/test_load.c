/* SPDX-License-Identifier: MIT */
/*
 * What becomes of stored jobs at the next start.
 */
#include "core_fixture.h"

#include <stdio.h>

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

static void loaded_started_job_counts_a_failure_with_backoff(void **state)
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
    bide_failure failure;
    assert_int_equal(bide_job_history(&job, &failure, 1), 1);
    assert_int_equal(failure.kind, BIDE_FAILURE_RESTARTED);
    assert_int_equal(failure.attempt, 2);
    assert_int_equal(failure.error.size, job.last_error_size);
    bide_job_clear(&job);
    assert_true(bi_journal_is_dirty(w.core)); /* the change is journalled */
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].kind, BI_UPDATE);
    assert_int_equal(batch.records[0].image.failures, 2);
    commit_sealed(&w, &batch);
}

static void loaded_cancelled_job_is_removed_and_the_removal_stored(void **state)
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

static void loaded_job_past_its_due_time_is_ready(void **state)
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

static void loaded_delay_runs_on_its_clock(void **state)
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

static void invalid_image_is_rejected_and_changes_nothing(void **state)
{
    (void)state;
    struct bi_image first = image_of(1);
    assert_int_equal(load(&first), BIDE_OK);
    uint64_t before = core_state_hash(w.core);
    struct bi_image bad[10];
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
    bad[8].state = BIDE_STATE_BURIED;
    bad[9].state = BIDE_STATE_DONE;
    bad[8].plain = bad[9].plain = true; /* these states need an ext */
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(load(&bad[i]), BIDE_EINVAL);
        assert_int_equal(core_state_hash(w.core), before);
    }
    core_fixture_check(&w);
}

static void load_is_atomic_at_every_failed_allocation(void **state)
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_journal, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(loaded_started_job_counts_a_failure_with_backoff),
        TEST(loaded_cancelled_job_is_removed_and_the_removal_stored),
        TEST(loaded_job_past_its_due_time_is_ready),
        TEST(loaded_delay_runs_on_its_clock),
        TEST(invalid_image_is_rejected_and_changes_nothing),
        TEST(load_is_atomic_at_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
