/* SPDX-License-Identifier: MIT */
/*
 * The heartbeat: which leases are extended, when, and what handlers hear of it.
 */
#include "background_fixture.h"

#define TTR_MS 9000
#define TTR_US INT64_C(9000000)
#define THIRD  (TTR_US / 3)

static struct background_fixture *fixture;

static int set_up(void **state)
{
    (void)state;
    fixture = background_fixture_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    background_fixture_free(fixture);
    return 0;
}

static void limit(int64_t limit_ms)
{
    fixture->worker->entries[0]->time_limit_ms = limit_ms;
}

/* What the keeper does at a time, with what has come back by then. */
static int64_t beat(int64_t now)
{
    bide_cq_drain(fixture->background->cq, 0);
    bi_heartbeat_complete(fixture->background, now);
    int64_t due = bi_heartbeat_run(fixture->background, now);
    bide_cq_drain(fixture->background->cq, 0);
    bi_heartbeat_complete(fixture->background, now);
    return due;
}

static size_t touches(void)
{
    return stub_count(fixture->stub, BIDE_OP_TOUCH_MANY, 0);
}

static struct stub_record last_touch(void)
{
    return stub_await(fixture->stub, BIDE_OP_TOUCH_MANY, 0, touches());
}

static void the_leases_of_all_running_handlers_are_extended_by_one_call(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    for (uint64_t id = 2; id <= BACKGROUND_SLOTS; id++)
        background_fixture_begin(fixture, id - 1, stub_job(id, TTR_MS));
    assert_int_equal(beat(start + THIRD / 2), start + THIRD);
    assert_int_equal(touches(), 0);
    beat(start + THIRD);
    assert_int_equal(touches(), 1);
    assert_int_equal(last_touch().count, BACKGROUND_SLOTS);
    assert_int_equal(last_touch().delay_ms, 0);
    assert_int_equal(beat(start + THIRD + 1), start + 2 * THIRD);
    assert_int_equal(background_fixture_context(fixture, 3)->lease_end, start + THIRD + TTR_US);
}

static void a_handler_without_a_time_limit_has_its_ttr_and_no_more(void **state)
{
    (void)state;
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    assert_int_equal(beat(start + THIRD), start + TTR_US);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 0);
    assert_int_equal(beat(start + TTR_US), NEVER);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 1);
    beat(start + 2 * TTR_US);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 1);
    assert_int_equal(touches(), 0);
}

static void a_lease_is_not_extended_when_the_time_limit_has_passed(void **state)
{
    (void)state;
    limit(2 * TTR_MS);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    for (int64_t now = start; now < start + 2 * TTR_US;)
        now = beat(now);
    size_t before = touches();
    assert_int_equal(before, 5); /* at each third but the last, when the time is over */
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 0);
    beat(start + 2 * TTR_US);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 1);
    assert_int_equal(beat(start + 5 * TTR_US), NEVER);
    assert_int_equal(touches(), before);
}

static void failed_touch_is_retried_soon(void **state)
{
    (void)state;
    static const int codes[] = {BIDE_EIO, BIDE_EBUSY, BIDE_ENOMEM, BIDE_EUNKNOWN, BIDE_CLOSED};
    limit(BIDE_FOREVER);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    int64_t now = start + THIRD;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        stub_once(fixture->stub, BIDE_OP_TOUCH_MANY, codes[i]);
        beat(now);
        int64_t due = beat(now + 1);
        assert_int_equal(touches(), i + 1);
        assert_in_range(due, now + 2, now + TTR_US / 10 + 1);
        assert_int_equal(background_fixture_context(fixture, 0)->lease_end, start + TTR_US);
        now = due;
    }
    beat(now);
    assert_int_equal(background_fixture_context(fixture, 0)->lease_end, now + TTR_US);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
}

static void lost_lease_notifies_only_its_handler(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    background_fixture_begin(fixture, 1, stub_job(2, TTR_MS));
    int64_t start = background_fixture_begin(fixture, 2, stub_job(3, TTR_MS));
    fixture->stub->touch_codes[2] = BIDE_LEASE_LOST;
    fixture->stub->touch_codes[3] = BIDE_NOT_FOUND;
    beat(start + THIRD);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_LEASE_LOST);
    assert_int_equal(background_fixture_reason(fixture, 2), BIDE_REASON_LEASE_LOST);
    beat(start + 2 * THIRD);
    assert_int_equal(last_touch().count, 1);
    assert_int_equal(last_touch().id, 1);
}

static void cancel_reported_by_touch_notifies_only_its_handler(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    int64_t start = background_fixture_begin(fixture, 1, stub_job(2, TTR_MS));
    fixture->stub->touch_codes[2] = BIDE_CANCEL_WANTED;
    beat(start + THIRD);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_reason(fixture, 1), BIDE_REASON_CANCELLED);
    assert_int_equal(background_fixture_context(fixture, 1)->lease_end, start + THIRD + TTR_US);
}

static void cancel_is_noticed_while_touches_are_refused(void **state)
{
    (void)state;
    atomic_store(&fixture->background->no_events, true);
    limit(BIDE_FOREVER);
    fixture->stub->touch_codes[1] = BIDE_TOUCH_LIMIT;
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    int64_t now = start + THIRD;
    beat(now); /* extends, and is refused */
    beat(now);
    assert_int_equal(last_touch().delay_ms, BIDE_KEEP);
    fixture->stub->cancel_wanted[1] = true;
    beat(now + QUERY_INTERVAL_US);
    assert_int_equal(last_touch().delay_ms, BIDE_KEEP);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
}

/* With a ttr of a second an extension is retried four times in each query interval. */
static void refused_touches_do_not_postpone_queries(void **state)
{
    (void)state;
    size_t queries = 0;
    size_t extensions = 0;
    atomic_store(&fixture->background->no_events, true);
    limit(BIDE_FOREVER);
    fixture->stub->touch_codes[1] = BIDE_TOUCH_LIMIT;
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, 1000));
    int64_t now = start;
    while (now < start + 990000) {
        size_t before = touches();
        int64_t due = beat(now);
        if (touches() > before) {
            bool query = last_touch().delay_ms == BIDE_KEEP;
            queries += query;
            extensions += !query;
            due = now + 1; /* another may follow */
        }
        assert_true(due > now);
        now = due;
    }
    assert_int_equal(queries, 2); /* after the first refusal, and an interval later */
    assert_int_equal(extensions, 7);
}

/* A handler whose first touch exceeds a limit; further ones would be accepted. */
static int64_t begin_with_a_refused_touch(void)
{
    limit(BIDE_FOREVER);
    fixture->stub->touch_codes[1] = BIDE_TOUCH_LIMIT;
    int64_t now = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS)) + THIRD;
    beat(now);
    assert_int_equal(last_touch().delay_ms, 0);
    fixture->stub->touch_codes[1] = BIDE_OK;
    return now;
}

/* Replies take as long as the interval between queries, so that one is due in every call. */
static void a_refused_touch_is_retried_although_queries_are_always_due(void **state)
{
    (void)state;
    atomic_store(&fixture->background->no_events, true);
    int64_t now = begin_with_a_refused_touch();
    for (int i = 0; i < 4; i++)
        beat(now += QUERY_INTERVAL_US);
    assert_true(background_fixture_context(fixture, 0)->lease_end > now + TTR_US - THIRD);
}

static void a_refused_touch_is_retried_although_progress_is_always_due(void **state)
{
    (void)state;
    int64_t now = begin_with_a_refused_touch();
    for (int i = 0; i < 4; i++) {
        now += TTR_US / 10;
        bide_context_progress(background_fixture_context(fixture, 0), "still running");
        background_fixture_context(fixture, 0)->progress_at = now;
        beat(now);
    }
    assert_true(background_fixture_context(fixture, 0)->lease_end > now + TTR_US - THIRD);
}

static void refused_touch_does_not_replace_a_single_query(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    fixture->stub->touch_codes[1] = BIDE_TOUCH_LIMIT;
    fixture->stub->cancel_wanted[1] = true;
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    background_fixture_context(fixture, 0)->query_at = start + THIRD; /* a feed lost events */
    beat(start + THIRD);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    beat(start + THIRD);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_CANCELLED);
}

static void touch_reply_for_a_previous_job_is_ignored(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    stub_rule(fixture->stub, BIDE_OP_TOUCH_MANY, HELD, BIDE_OK);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    beat(start + THIRD);
    background_fixture_finish(fixture, 0);
    int64_t second = background_fixture_begin(fixture, 0, stub_job(2, TTR_MS));
    fixture->stub->touch_codes[1] = BIDE_LEASE_LOST;
    assert_true(stub_release(fixture->stub, BIDE_OP_TOUCH_MANY, BIDE_OK));
    beat(start);
    assert_int_equal(background_fixture_reason(fixture, 0), BIDE_REASON_NONE);
    assert_int_equal(background_fixture_context(fixture, 0)->lease_end, second + TTR_US);
}

static void pending_touch_does_not_wake_the_background_thread(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    stub_rule(fixture->stub, BIDE_OP_TOUCH_MANY, HELD, BIDE_OK);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    background_fixture_begin(fixture, 1, stub_job(2, 10 * TTR_MS));
    beat(start + THIRD);
    bide_context_progress(background_fixture_context(fixture, 1), "half");
    int64_t now = start + 2 * THIRD + 1; /* both are due again */
    assert_true(beat(now) > now);
    assert_int_equal(touches(), 1);
    assert_true(stub_release(fixture->stub, BIDE_OP_TOUCH_MANY, BIDE_OK));
    beat(now);
    assert_int_equal(touches(), 2);
    assert_int_equal(last_touch().count, 2);
    assert_true(stub_release(fixture->stub, BIDE_OP_TOUCH_MANY, BIDE_OK));
}

static void unextended_lease_is_lost_by_the_clock(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    stub_rule(fixture->stub, BIDE_OP_TOUCH_MANY, HELD, BIDE_OK);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    beat(start + THIRD);
    assert_int_equal(beat(start + TTR_US - 1), start + TTR_US);
    assert_int_equal(beat(start + TTR_US), NEVER);
    assert_true(background_fixture_context(fixture, 0)->lease_end_reported);
    assert_true(stub_release(fixture->stub, BIDE_OP_TOUCH_MANY, BIDE_EIO));
}

static void late_background_thread_sends_nothing(void **state)
{
    (void)state;
    limit(2 * TTR_MS);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    assert_int_equal(beat(start + 3 * TTR_US), NEVER);
    assert_int_equal(touches(), 0);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_OVERRAN, 1), 1);
}

static void only_the_latest_progress_is_sent_without_extension(void **state)
{
    (void)state;
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    struct bide_context *context = background_fixture_context(fixture, 0);
    bide_context_progress(context, "%d of 10", 1);
    bide_context_progress(context, "%d of 10", 2);
    int64_t now = context->progress_at;
    assert_true(now > start);
    assert_int_equal(beat(now - 1), now);
    assert_int_equal(touches(), 0);
    beat(now);
    assert_string_equal(last_touch().text, "2 of 10");
    assert_true(last_touch().delay_ms == BIDE_KEEP);
    assert_int_equal(context->lease_end, start + TTR_US);
    beat(now + THIRD);
    assert_int_equal(touches(), 1);
}

static void rejected_progress_is_resent(void **state)
{
    (void)state;
    background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    bide_context_progress(background_fixture_context(fixture, 0), "half");
    int64_t now = background_fixture_context(fixture, 0)->progress_at;
    stub_once(fixture->stub, BIDE_OP_TOUCH_MANY, BIDE_EIO);
    beat(now);
    int64_t due = beat(now + 1);
    beat(due);
    assert_int_equal(touches(), 2);
    assert_string_equal(last_touch().text, "half");
}

static void lease_extension_carries_progress(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, TTR_MS));
    bide_context_progress(background_fixture_context(fixture, 0), "half");
    beat(start + THIRD);
    beat(start + THIRD + 1);
    assert_int_equal(touches(), 1);
    assert_string_equal(last_touch().text, "half");
    assert_int_equal(last_touch().delay_ms, 0);
}

static void longest_times_do_not_overflow(void **state)
{
    (void)state;
    limit(BIDE_TIME_MAX_MS);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, BIDE_TIME_MAX_MS - 1));
    int64_t due = beat(start);
    assert_true(due > start && due < NEVER);
    assert_int_equal(touches(), 0);
    beat(due);
    assert_int_equal(touches(), 1);
    limit(BIDE_FOREVER);
    start = background_fixture_begin(fixture, 1, stub_job(2, BIDE_TIME_MAX_MS));
    assert_true(beat(start) > start);
    assert_int_equal(bide_context_left_ms(background_fixture_context(fixture, 1)),
                     BIDE_TIME_MAX_MS);
}

static void a_ttr_of_a_millisecond_is_extended_within_it(void **state)
{
    (void)state;
    limit(BIDE_FOREVER);
    int64_t start = background_fixture_begin(fixture, 0, stub_job(1, 1));
    int64_t due = beat(start);
    assert_in_range(due, start + 1, start + 999);
    beat(due);
    assert_int_equal(touches(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(the_leases_of_all_running_handlers_are_extended_by_one_call),
        T(a_handler_without_a_time_limit_has_its_ttr_and_no_more),
        T(a_lease_is_not_extended_when_the_time_limit_has_passed),
        T(failed_touch_is_retried_soon),
        T(lost_lease_notifies_only_its_handler),
        T(cancel_reported_by_touch_notifies_only_its_handler),
        T(cancel_is_noticed_while_touches_are_refused),
        T(refused_touches_do_not_postpone_queries),
        T(a_refused_touch_is_retried_although_queries_are_always_due),
        T(a_refused_touch_is_retried_although_progress_is_always_due),
        T(refused_touch_does_not_replace_a_single_query),
        T(touch_reply_for_a_previous_job_is_ignored),
        T(pending_touch_does_not_wake_the_background_thread),
        T(unextended_lease_is_lost_by_the_clock),
        T(late_background_thread_sends_nothing),
        T(only_the_latest_progress_is_sent_without_extension),
        T(rejected_progress_is_resent),
        T(lease_extension_carries_progress),
        T(longest_times_do_not_overflow),
        T(a_ttr_of_a_millisecond_is_extended_within_it),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
