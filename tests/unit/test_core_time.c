/* SPDX-License-Identifier: MIT */
/*
 * What time does to jobs, on a core whose clocks the test sets.
 */
#include "core_fixture.h"

static int set_up_wheel(void **state)
{
    (void)state;
    core_fixture_init(&w);
    w.options.wheel = true;
    core_fixture_start(&w);
    return 0;
}

/* ---- delays ---- */

static void delay_of_a_millisecond_ends_exactly(void **state)
{
    (void)state;
    uint64_t id = put_delayed(&w, "a", 1);
    assert_int_equal(bi_core_next_deadline(w.core).mono, BOOT + MS);
    assert_int_equal(bi_core_next_deadline(w.core).wall, BI_NEVER);
    advance_clocks(&w, MS - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    assert_nothing_ready(&w, "a");
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    reserve_expected(&w, "a", id);
}

static void delay_of_a_hundred_years_ends_exactly(void **state)
{
    (void)state;
    uint64_t id = put_delayed(&w, "a", BIDE_TIME_MAX_MS);
    assert_int_equal(bi_core_next_deadline(w.core).mono, BOOT + BIDE_TIME_MAX_MS * MS);
    advance_clocks(&w, BIDE_TIME_MAX_MS * MS - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void the_wheel_is_never_early_and_at_most_a_tick_late(void **state)
{
    (void)state;
    static const int64_t delays[] = {1, 9, 10, 11, 5120, 5121, 3600000, BIDE_TIME_MAX_MS};
    for (size_t i = 0; i < COUNT_OF(delays); i++) {
        uint64_t id = put_delayed(&w, "a", delays[i]);
        int64_t due = w.now.mono + delays[i] * MS;
        advance_clocks(&w, delays[i] * MS - 1);
        assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
        int64_t tick_at = BOOT + (due - BOOT + 10 * MS - 1) / (10 * MS) * (10 * MS);
        advance_clocks(&w, tick_at - w.now.mono);
        assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    }
}

static void jobs_that_are_due_together_become_ready_by_id(void **state)
{
    (void)state;
    bide_subscription *feed;
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE,
                         .subscription = {.kinds = 1u << BIDE_EVENT_READY}};
    assert_int_equal(run(&w, &subscribe), BIDE_OK);
    feed = subscribe.subscription.handle;
    /* The later ones are put first, into topics in another order. */
    uint64_t ids[6];
    for (int i = 0; i < 6; i++) {
        ids[i] = put_delayed(&w, i % 2 == 0 ? "b" : "a", i < 3 ? 20 : 10);
    }
    advance_clocks(&w, 20 * MS);
    bide_event events[10];
    bide_op read = {.kind = BIDE_OP_EVENTS,
                    .subscription = {.handle = feed, .events = events, .event_max = 10}};
    assert_int_equal(run(&w, &read), BIDE_OK);
    assert_int_equal(read.subscription.count, 6);
    const uint64_t wanted[] = {ids[3], ids[4], ids[5], ids[0], ids[1], ids[2]};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(events[i].id, wanted[i]);
}

#define MANY   1000000u
#define BUDGET 512u

static void a_million_jobs_due_in_one_millisecond_become_ready_in_slices(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.delay_ms = 5;
    bide_buf *body = bide_buf_new("x", 1);
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = text("a"), .buf = body, .options = &options}};
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(bi_core_run(w.core, &op, w.now), BIDE_OK);
    bide_buf_unref(body);
    assert_int_equal(stats_of(&w).jobs.delayed, MANY);
    w.now.mono += 5 * MS;
    w.now.wall += 5 * MS;
    uint32_t slices = 0;
    bool more = true;
    while (more) {
        uint64_t ready = stats_of(&w).jobs.ready;
        more = bi_core_tick(w.core, w.now, BUDGET);
        slices++;
        assert_true(stats_of(&w).jobs.ready - ready <= BUDGET);
    }
    assert_in_range(slices, MANY / BUDGET, MANY / BUDGET + 2);
    assert_int_equal(stats_of(&w).jobs.ready, MANY);
    assert_int_equal(stats_of(&w).jobs.delayed, 0);
    for (uint64_t id = 1; id <= 10; id++)
        reserve_expected(&w, "a", id);
}

/* ---- the wall clock is set ---- */

static uint64_t put_at(const char *topic, int64_t wall)
{
    bide_put_options options = put_options();
    options.run_at_ms = wall / MS;
    return put_with(&w, topic, &options);
}

static uint64_t put_until(const char *topic, int64_t wall)
{
    bide_put_options options = put_options();
    options.expires_at_ms = wall / MS;
    return put_with(&w, topic, &options);
}

static void a_run_at_follows_the_wall_clock_forward(void **state)
{
    (void)state;
    uint64_t id = put_at("a", EPOCH + 3600 * SECOND);
    assert_int_equal(bi_core_next_deadline(w.core).wall, EPOCH + 3600 * SECOND);
    step_wall_clock(&w, 3600 * SECOND - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    step_wall_clock(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void a_run_at_follows_the_wall_clock_back(void **state)
{
    (void)state;
    uint64_t id = put_at("a", EPOCH + 60 * SECOND);
    step_wall_clock(&w, -3600 * SECOND);
    advance_clocks(&w, 60 * SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    advance_clocks(&w, 3600 * SECOND - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void an_expiry_follows_the_wall_clock(void **state)
{
    (void)state;
    uint64_t forward = put_until("a", EPOCH + 10 * SECOND);
    step_wall_clock(&w, 10 * SECOND - 1);
    assert_int_equal(state_of(&w, forward), BIDE_STATE_READY);
    step_wall_clock(&w, 1);
    assert_int_equal(state_of(&w, forward), BIDE_STATE_GONE);
    uint64_t back = put_until("b", EPOCH + 20 * SECOND);
    step_wall_clock(&w, -3600 * SECOND);
    advance_clocks(&w, 60 * SECOND);
    assert_int_equal(state_of(&w, back), BIDE_STATE_READY);
    advance_clocks(&w, 3600 * SECOND);
    assert_int_equal(state_of(&w, back), BIDE_STATE_GONE);
    assert_int_equal(stats_of(&w).total.expired, 2);
}

static void a_delayed_job_expires_too(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.delay_ms = 60000;
    options.expires_at_ms = (EPOCH + 10 * SECOND) / MS;
    uint64_t id = put_with(&w, "a", &options);
    advance_clocks(&w, 10 * SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
}

/* A delay, a lease, a pause, a waiting call and a retention, all of 10 s. */
static void relative_times_ignore_the_wall_clock(void **state)
{
    (void)state;
    static const int64_t steps[] = {3600 * SECOND, -7200 * SECOND};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        bide_put_options options = put_options();
        options.ttr_ms = 10000;
        uint64_t leased = put_with(&w, "leased", &options);
        reserve_expected(&w, "leased", leased);
        uint64_t delayed = put_delayed(&w, "delayed", 10000);
        uint64_t kept = put(&w, "kept");
        assert_int_equal(done(&w, kept, 0, 10000), BIDE_OK);
        assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "paused", 10000), BIDE_OK);
        uint64_t paused = put(&w, "paused");
        bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = leased, .timeout_ms = 10000}};
        assert_int_equal(run(&w, &wait), BIDE_PENDING);
        step_wall_clock(&w, steps[i]);
        advance_clocks(&w, 10 * SECOND - 1);
        assert_int_equal(state_of(&w, leased), BIDE_STATE_RESERVED);
        assert_int_equal(state_of(&w, delayed), BIDE_STATE_DELAYED);
        assert_int_equal(state_of(&w, kept), BIDE_STATE_DONE);
        assert_nothing_ready(&w, "paused");
        assert_int_equal(wait.status, BIDE_PENDING);
        advance_clocks(&w, 1);
        assert_int_equal(state_of(&w, leased), BIDE_STATE_READY);
        assert_int_equal(state_of(&w, delayed), BIDE_STATE_READY);
        assert_int_equal(state_of(&w, kept), BIDE_STATE_GONE);
        reserve_expected(&w, "paused", paused);
        assert_int_equal(wait.status, BIDE_TIMED_OUT);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, leased, 0), BIDE_OK);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, delayed, 0), BIDE_OK);
    }
}

/* ---- leases ---- */

static void lease_is_valid_until_its_last_microsecond(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.ttr_ms = 1;
    uint64_t id = put_with(&w, "a", &options);
    uint64_t token = reserve_expected(&w, "a", id);
    advance_clocks(&w, MS - 1);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
}

static void lease_is_lost_at_its_end(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.ttr_ms = 1;
    uint64_t id = put_with(&w, "a", &options);
    uint64_t token = reserve_expected(&w, "a", id);
    advance_clocks(&w, MS);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_LEASE_LOST);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(stats_of(&w).total.timeouts, 1);
    uint64_t next = reserve_expected(&w, "a", id);
    assert_true(next > token);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_LEASE_LOST);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, next), BIDE_OK);
}

/* The tick has a budget: what it did not come to is over all the same. */
static void expired_lease_is_lost_before_its_tick(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    uint64_t token = reserve_expected(&w, "a", id);
    w.now.mono += 60 * SECOND;
    w.now.wall += 60 * SECOND;
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_LEASE_LOST);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void a_touch_in_the_last_microsecond_extends_the_lease(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    uint64_t token = reserve_expected(&w, "a", id);
    advance_clocks(&w, 60 * SECOND - 1);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = token, .extend_ms = 5}};
    assert_int_equal(run(&w, &touch), BIDE_OK);
    assert_int_equal(touch.touch.left_ms, 5);
    advance_clocks(&w, 5 * MS - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void wall_clock_deadlines_fire_before_boot_time_deadlines(void **state)
{
    (void)state;
    /* Expired on the wall clock and due on the boot-time clock at one tick: it expires. */
    bide_put_options options = put_options();
    options.delay_ms = 1;
    options.expires_at_ms = EPOCH / MS + 2;
    uint64_t id = put_with(&w, "a", &options);
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = {
        .kind = BIDE_OP_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .timeout_ms = 10000, .jobs = &job, .job_max = 1}};
    assert_int_equal(run(&w, &reserve), BIDE_PENDING);
    advance_clocks(&w, 2 * MS);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
    assert_int_equal(stats_of(&w).total.expired, 1);
    assert_true(bi_waiter_cancel(w.core, &reserve)); /* it still waits */
}

#define TEST(name)       cmocka_unit_test_setup_teardown(name, set_up_core, tear_down_core)
#define WHEEL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_wheel, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(delay_of_a_millisecond_ends_exactly),
        TEST(delay_of_a_hundred_years_ends_exactly),
        WHEEL_TEST(the_wheel_is_never_early_and_at_most_a_tick_late),
        TEST(jobs_that_are_due_together_become_ready_by_id),
        TEST(a_million_jobs_due_in_one_millisecond_become_ready_in_slices),
        TEST(a_run_at_follows_the_wall_clock_forward),
        TEST(a_run_at_follows_the_wall_clock_back),
        TEST(an_expiry_follows_the_wall_clock),
        TEST(a_delayed_job_expires_too),
        TEST(relative_times_ignore_the_wall_clock),
        TEST(lease_is_valid_until_its_last_microsecond),
        TEST(lease_is_lost_at_its_end),
        TEST(expired_lease_is_lost_before_its_tick),
        TEST(a_touch_in_the_last_microsecond_extends_the_lease),
        TEST(wall_clock_deadlines_fire_before_boot_time_deadlines),
    };
    return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
