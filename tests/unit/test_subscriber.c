/* SPDX-License-Identifier: MIT */
/*
 * The subscriber: how a cancel finds its handler, with a feed and without one.
 */
#include "background_fixture.h"

#define TTR_MS 60000
#define QUERY  BIDE_OP_TOUCH_MANY /* no job here has a lease to extend, or progress */

static struct background_fixture *fixture;
static int64_t start; /* when the test began */

static int set_up(void **state)
{
    (void)state;
    fixture = background_fixture_new();
    start = bi_clock_boot();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    background_fixture_free(fixture);
    return 0;
}

/* What the keeper does at a time. Ops that finish at once are seen in its next turn. */
static int64_t run_at(int64_t now)
{
    int64_t due = NEVER;
    for (int turn = 0; turn < 3; turn++) {
        bide_cq_drain(fixture->background->cq, 0);
        bi_heartbeat_complete(fixture->background, now);
        bi_subscriber_complete(fixture->background, now);
        due = bi_heartbeat_run(fixture->background, now);
        due = bi_background_earlier(due, bi_subscriber_run(fixture->background, now));
    }
    return due;
}

static size_t op_count(bide_op_kind kind, uint64_t id)
{
    return stub_count(fixture->stub, kind, id);
}

static void begin(size_t thread, uint64_t id)
{
    background_fixture_begin(fixture, thread, stub_job(id, TTR_MS));
}

static void cancel_notifies_only_its_handler(void **state)
{
    (void)state;
    run_at(start);
    for (uint64_t id = 1; id <= 3; id++)
        begin(id - 1, id);
    assert_true(stub_emit_event(fixture->stub, 2, 0));
    run_at(start + 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_CANCELLED);
    assert_int_equal(background_fixture_reason(fixture, 2), BIDE_REASON_NONE);
    assert_true(stub_emit_event(fixture->stub, 3, 0));
    run_at(start + 2);
    assert_int_equal(background_fixture_reason(fixture, 2), BIDE_REASON_CANCELLED);
    assert_int_equal(op_count(BIDE_OP_EVENTS, 0), 3);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 1);
}

static void cancel_of_id_0_notifies_no_handler(void **state)
{
    (void)state;
    run_at(start);
    begin(0, 1);
    begin(1, 2);
    fixture->background->events[0] = (bide_event){.kind = BIDE_EVENT_CANCEL_WANTED, .id = 0};
    fixture->background->ops[BACKGROUND_RECEIVE].subscription.count = 1;
    assert_true(stub_release(fixture->stub, BIDE_OP_EVENTS, BIDE_OK));
    run_at(start + 1);
    assert_int_equal(op_count(BIDE_OP_EVENTS, 0), 2);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_NONE);
}

static void subscription_replaces_polling(void **state)
{
    (void)state;
    run_at(start);
    begin(0, 1);
    assert_true(run_at(start + 1) >= start + TTR_MS * 1000);
    assert_true(run_at(start + 10 * QUERY_INTERVAL_US) >= start + TTR_MS * 1000);
    assert_int_equal(op_count(QUERY, 0), 0);
}

static void cancel_before_the_handler_starts_is_kept(void **state)
{
    (void)state;
    struct worker_thread *thread = &fixture->worker->threads[0];
    run_at(start);
    assert_true(stub_emit_event(fixture->stub, 1, 0));
    run_at(start + 1);
    begin(0, 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    bi_subscriber_check_cancel(fixture->background, thread);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
    background_fixture_finish(fixture, 0);
    begin(0, 2);
    bi_subscriber_check_cancel(fixture->background, thread);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
}

static void job_whose_cancel_may_be_lost_is_polled(void **state)
{
    (void)state;
    run_at(start);
    for (uint64_t id = 100; id < 102 + CANCELS_MAX; id++) {
        assert_true(stub_emit_event(fixture->stub, id, 0));
        run_at(start + 1);
    }
    fixture->stub->cancel_wanted[100 % STUB_IDS] = true;
    begin(0, 100);
    bi_subscriber_check_cancel(fixture->background, &fixture->worker->threads[0]);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    run_at(bi_clock_boot());
    assert_int_equal(op_count(QUERY, 100), 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
}

static void broken_subscription_is_renewed_and_jobs_are_polled(void **state)
{
    (void)state;
    run_at(start);
    begin(0, 1);
    begin(1, 2);
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_EIO);
    assert_true(stub_release(fixture->stub, BIDE_OP_EVENTS, BIDE_EIO));
    int64_t due = run_at(start + 1);
    assert_int_equal(op_count(BIDE_OP_UNSUBSCRIBE, 0), 1);
    assert_int_equal(op_count(QUERY, 1), 1);
    assert_int_equal(op_count(QUERY, 2), 1);
    assert_in_range(due, start + 2, start + 1 + QUERY_INTERVAL_US);
    fixture->stub->cancel_wanted[2] = true;
    run_at(due);
    assert_int_equal(op_count(QUERY, 2), 2);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_CANCELLED);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 1);
    run_at(start + 6000000); /* it is tried, and refused */
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 2);
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_OK);
    run_at(start + 12000000);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 3);
    assert_int_equal(op_count(BIDE_OP_EVENTS, 0), 2);
    size_t looks = op_count(QUERY, 0);
    assert_true(run_at(start + 20000000) >= start + TTR_MS * 1000);
    assert_int_equal(op_count(QUERY, 0), looks);
}

static void lost_events_cause_a_poll_of_all_running_jobs(void **state)
{
    (void)state;
    run_at(start);
    begin(0, 1);
    begin(1, 2);
    fixture->stub->cancel_wanted[1] = true;
    assert_true(stub_emit_event(fixture->stub, 0, 5));
    run_at(start + 1);
    assert_int_equal(op_count(QUERY, 1), 1);
    assert_int_equal(op_count(QUERY, 2), 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_NONE);
    assert_true(run_at(start + 10 * QUERY_INTERVAL_US) >= start + TTR_MS * 1000);
    assert_int_equal(op_count(QUERY, 0), 1);
}

static void failed_poll_for_lost_events_is_repeated(void **state)
{
    (void)state;
    run_at(start);
    begin(0, 1);
    fixture->stub->cancel_wanted[1] = true;
    stub_once(fixture->stub, QUERY, BIDE_EBUSY);
    assert_true(stub_emit_event(fixture->stub, 0, 5));
    int64_t due = run_at(start + 1);
    assert_int_equal(op_count(QUERY, 1), 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(due, start + 1 + QUERY_INTERVAL_US);
    run_at(due);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
    assert_int_equal(op_count(QUERY, 1), 2);
}

static void jobs_started_before_the_subscription_are_polled_once(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, HELD, BIDE_OK);
    run_at(start);
    begin(0, 1);
    fixture->stub->cancel_wanted[1] = true;
    assert_int_equal(op_count(QUERY, 0), 0);
    assert_true(stub_release(fixture->stub, BIDE_OP_SUBSCRIBE, BIDE_OK));
    run_at(bi_clock_boot());
    assert_int_equal(op_count(QUERY, 1), 1);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
}

static void poll_of_a_removed_job_notifies_only_its_handler(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_EIO);
    run_at(start);
    begin(0, 1);
    begin(1, 2);
    fixture->stub->touch_codes[1] = BIDE_NOT_FOUND;
    run_at(bi_clock_boot() + 2 * QUERY_INTERVAL_US);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_LEASE_LOST);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_NONE);
}

static void failed_poll_is_ignored(void **state)
{
    (void)state;
    static const int codes[] = {BIDE_EIO, BIDE_EUNKNOWN, BIDE_CLOSED, BIDE_ENOTSUP, BIDE_EBUSY};
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_EIO);
    run_at(start);
    begin(0, 1);
    int64_t now = bi_clock_boot();
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        stub_rule(fixture->stub, QUERY, AT_ONCE, codes[i]);
        now += 2 * QUERY_INTERVAL_US;
        assert_true(run_at(now) > now);
        assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    }
    assert_int_equal(op_count(QUERY, 1), COUNT_OF(codes));
}

static void pending_poll_does_not_wake_the_background_thread(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_EIO);
    stub_rule(fixture->stub, QUERY, HELD, BIDE_OK);
    run_at(start);
    begin(0, 1);
    begin(1, 2);
    int64_t now = bi_clock_boot() + QUERY_INTERVAL_US;
    assert_true(run_at(now) > now);
    assert_int_equal(op_count(QUERY, 0), 1);
    background_fixture_finish(fixture, 0);
    begin(0, 3); /* what comes back is about another job */
    fixture->stub->touch_codes[1] = BIDE_NOT_FOUND;
    assert_true(stub_release(fixture->stub, QUERY, BIDE_OK));
    stub_rule(fixture->stub, QUERY, AT_ONCE, BIDE_OK);
    run_at(now);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(op_count(QUERY, 2), 1);
}

static void unsupported_subscribe_is_not_repeated(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_ENOTSUP);
    begin(0, 1);
    assert_true(run_at(start) >= start + TTR_MS * 1000);
    assert_true(run_at(start + 60000000) >= start + TTR_MS * 1000);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 1);
    assert_int_equal(op_count(QUERY, 0), 0);
}

static void pending_unsubscribe_delays_the_next_subscribe(void **state)
{
    (void)state;
    run_at(start);
    stub_rule(fixture->stub, BIDE_OP_UNSUBSCRIBE, HELD, BIDE_OK);
    assert_true(stub_release(fixture->stub, BIDE_OP_EVENTS, BIDE_EUNKNOWN));
    run_at(start + 1);
    assert_int_equal(run_at(start + 6000000), NEVER);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 1);
    stub_rule(fixture->stub, BIDE_OP_UNSUBSCRIBE, AT_ONCE, BIDE_OK);
    assert_true(stub_release(fixture->stub, BIDE_OP_UNSUBSCRIBE, BIDE_OK));
    run_at(start + 6000001);
    assert_int_equal(op_count(BIDE_OP_SUBSCRIBE, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(cancel_notifies_only_its_handler),
        T(cancel_of_id_0_notifies_no_handler),
        T(subscription_replaces_polling),
        T(cancel_before_the_handler_starts_is_kept),
        T(job_whose_cancel_may_be_lost_is_polled),
        T(broken_subscription_is_renewed_and_jobs_are_polled),
        T(lost_events_cause_a_poll_of_all_running_jobs),
        T(failed_poll_for_lost_events_is_repeated),
        T(jobs_started_before_the_subscription_are_polled_once),
        T(poll_of_a_removed_job_notifies_only_its_handler),
        T(failed_poll_is_ignored),
        T(pending_poll_does_not_wake_the_background_thread),
        T(unsupported_subscribe_is_not_repeated),
        T(pending_unsubscribe_delays_the_next_subscribe),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
