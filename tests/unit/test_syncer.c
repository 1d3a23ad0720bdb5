/* SPDX-License-Identifier: MIT */
/*
 * The syncer: answers that the queue could not take are told again until the lease ends.
 */
#include "background_fixture.h"

#define TTR_MS 60000
#define TTR_US INT64_C(60000000)

static struct background_fixture *fixture;
static struct ack ack;

static int set_up(void **state)
{
    (void)state;
    fixture = background_fixture_new();
    ack = (struct ack){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bi_ack_clear(&ack);
    background_fixture_free(fixture);
    return 0;
}

/* A job whose handler has returned; answers when it began. */
static int64_t return_from(uint64_t id, int outcome, int64_t retain_ms)
{
    bide_job job = stub_job(id, TTR_MS);
    job.retain_ms = retain_ms;
    int64_t start = background_fixture_begin(fixture, 0, job);
    struct bide_context *context = background_fixture_context(fixture, 0);
    if (retain_ms > 0)
        assert_int_equal(bide_context_result(context, "five", 4), BIDE_OK);
    outcome = bi_ack_check_outcome(context, outcome);
    bi_context_end(context);
    bi_ack_make(&ack, context, outcome, BIDE_REASON_NONE);
    bi_context_clear(context);
    return start;
}

/* The queue has answered to the slot, and the answer is owed. */
static void defer(int code)
{
    ack.op.status = code;
    assert_false(bi_ack_complete(&ack, fixture->worker));
    assert_true(bi_syncer_add(fixture->background, &ack));
}

static int64_t defer_delete(uint64_t id, int code)
{
    int64_t start = return_from(id, BIDE_DONE, 0);
    defer(code);
    return start;
}

static int64_t sync_at(int64_t now)
{
    bide_cq_drain(fixture->background->cq, 0);
    bi_syncer_complete(fixture->background, now);
    int64_t due = bi_syncer_run(fixture->background, now);
    bide_cq_drain(fixture->background->cq, 0);
    bi_syncer_complete(fixture->background, now);
    return due;
}

/* When what is owed is told again. */
static int64_t next_retry(void)
{
    assert_non_null(fixture->worker->pending_acks);
    return fixture->worker->pending_acks->retry_at;
}

static size_t op_count(bide_op_kind kind)
{
    return stub_count(fixture->stub, kind, 0);
}

static void deferred_ack_is_retried_until_accepted(void **state)
{
    (void)state;
    static const int codes[] = {BIDE_EIO, BIDE_EFULL, BIDE_EBUSY, BIDE_ENOMEM, BIDE_ESYSTEM};
    for (size_t i = 1; i < COUNT_OF(codes); i++)
        stub_once(fixture->stub, BIDE_OP_DELETE, codes[i]);
    defer_delete(1, codes[0]);
    for (size_t i = 1; i < COUNT_OF(codes); i++) {
        int64_t at = next_retry();
        assert_int_equal(sync_at(at - 1), at);
        assert_int_equal(op_count(BIDE_OP_DELETE), i - 1);
        sync_at(at);
        assert_int_equal(op_count(BIDE_OP_DELETE), i);
    }
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 0);
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DEFERRED, 1), 1);
    assert_int_equal(fixture->worker->pending_ack_count, 0);
}

static void retry_pauses_grow_up_to_a_limit(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    defer_delete(1, BIDE_EIO);
    int64_t now = next_retry();
    int64_t before = fixture->worker->pending_acks->retry_delay;
    for (int i = 0; i < 10; i++) {
        sync_at(now);
        int64_t retry_delay = next_retry() - now;
        assert_in_range(retry_delay, before, 2000000);
        before = retry_delay;
        now = next_retry();
    }
    assert_int_equal(before, 2000000);
}

static void deferred_ack_is_given_up_at_the_end_of_its_lease(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    int64_t start = defer_delete(1, BIDE_EIO);
    sync_at(start + TTR_US - 1);
    assert_int_equal(op_count(BIDE_OP_DELETE), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_GIVEN_UP, 1), 0);
    int64_t due = sync_at(start + TTR_US - 1);
    assert_int_equal(due, start + TTR_US);
    assert_int_equal(sync_at(due), NEVER);
    assert_int_equal(op_count(BIDE_OP_DELETE), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_GIVEN_UP, 1), 1);
    assert_int_equal(background_fixture_last(fixture)->code, BIDE_EIO);
    assert_int_equal(fixture->worker->pending_ack_count, 0);
}

static void pending_ack_is_not_sent_twice(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_DELETE, HELD, BIDE_OK);
    int64_t start = defer_delete(1, BIDE_EIO);
    sync_at(next_retry());
    assert_int_equal(sync_at(start + 2 * TTR_US), NEVER);
    assert_int_equal(op_count(BIDE_OP_DELETE), 1);
    assert_true(bi_syncer_abandon(fixture->background));
    assert_true(stub_release(fixture->stub, BIDE_OP_DELETE, BIDE_OK));
    sync_at(start + 2 * TTR_US);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
    assert_false(bi_syncer_abandon(fixture->background));
}

static void several_deferred_acks_are_independent(void **state)
{
    (void)state;
    int64_t start = defer_delete(1, BIDE_EIO);
    defer_delete(2, BIDE_EIO);
    defer_delete(3, BIDE_EIO);
    assert_int_equal(fixture->worker->pending_ack_count, 3);
    stub_once(fixture->stub, BIDE_OP_DELETE, BIDE_EIO);        /* the last one comes first */
    stub_once(fixture->stub, BIDE_OP_DELETE, BIDE_LEASE_LOST); /* then the one in the middle */
    sync_at(start + 1000000);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_LOST, 2), 1);
    assert_int_equal(fixture->worker->pending_ack_count, 1);
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 3), 1);
}

static void missing_job_after_a_lost_reply_was_done(void **state)
{
    (void)state;
    defer_delete(1, BIDE_EUNKNOWN);
    stub_once(fixture->stub, BIDE_OP_DELETE, BIDE_NOT_FOUND);
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_LOST, 1), 0);
}

static void lost_lease_after_a_lost_reply_is_a_lost_lease(void **state)
{
    (void)state;
    defer_delete(1, BIDE_EUNKNOWN);
    stub_once(fixture->stub, BIDE_OP_DELETE, BIDE_LEASE_LOST);
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 0);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_LOST, 1), 1);
}

static void result_of_unknown_outcome_is_queried(void **state)
{
    (void)state;
    return_from(1, BIDE_DONE, 1000);
    defer(BIDE_EUNKNOWN);
    stub_once(fixture->stub, BIDE_OP_DONE, BIDE_LEASE_LOST);
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_LOST, 1), 0);
    sync_at(next_retry());
    assert_int_equal(op_count(BIDE_OP_RESULT), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
}

static void missing_result_means_the_ack_was_lost(void **state)
{
    (void)state;
    return_from(1, BIDE_DONE, 1000);
    defer(BIDE_EUNKNOWN);
    stub_once(fixture->stub, BIDE_OP_DONE, BIDE_LEASE_LOST);
    stub_once(fixture->stub, BIDE_OP_RESULT, BIDE_NOT_FOUND);
    sync_at(next_retry());
    sync_at(next_retry());
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 0);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_LOST, 1), 1);
}

static void deferred_result_is_resent_with_its_bytes(void **state)
{
    (void)state;
    return_from(1, BIDE_DONE, 1000);
    defer(BIDE_EIO);
    stub_once(fixture->stub, BIDE_OP_DONE, BIDE_EIO);
    sync_at(next_retry());
    sync_at(next_retry());
    assert_string_equal(stub_await(fixture->stub, BIDE_OP_DONE, 1, 1).text, "five");
    assert_string_equal(stub_await(fixture->stub, BIDE_OP_DONE, 1, 2).text, "five");
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DONE, 1), 1);
}

static void oversized_result_becomes_a_failure(void **state)
{
    (void)state;
    return_from(1, BIDE_DONE, 1000);
    defer(BIDE_TOO_BIG);
    sync_at(next_retry());
    assert_string_equal(stub_await(fixture->stub, BIDE_OP_FAIL, 1, 1).text,
                        "the result is too big: 4 bytes");
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_RETRIED, 1), 1);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_DEFERRED, 1), 0);
    assert_string_equal(background_fixture_last(fixture)->text, "the result is too big: 4 bytes");
}

static void queue_without_fail_gets_a_release_for_a_deferred_failure(void **state)
{
    (void)state;
    return_from(1, 4711, 0);
    defer(BIDE_ENOTSUP);
    sync_at(next_retry());
    struct stub_record release = stub_await(fixture->stub, BIDE_OP_RELEASE, 1, 1);
    assert_true(release.delay_ms > 0);
    assert_int_equal(background_fixture_count(fixture, BIDE_WORK_RETRIED, 1), 1);
    assert_int_equal(background_fixture_last(fixture)->delay_ms, release.delay_ms);
    assert_string_equal(background_fixture_last(fixture)->text, "the handler answered 4711");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(deferred_ack_is_retried_until_accepted),
        T(retry_pauses_grow_up_to_a_limit),
        T(deferred_ack_is_given_up_at_the_end_of_its_lease),
        T(pending_ack_is_not_sent_twice),
        T(several_deferred_acks_are_independent),
        T(missing_job_after_a_lost_reply_was_done),
        T(lost_lease_after_a_lost_reply_is_a_lost_lease),
        T(result_of_unknown_outcome_is_queried),
        T(missing_result_means_the_ack_was_lost),
        T(deferred_result_is_resent_with_its_bytes),
        T(oversized_result_becomes_a_failure),
        T(queue_without_fail_gets_a_release_for_a_deferred_failure),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
