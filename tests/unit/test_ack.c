/* SPDX-License-Identifier: MIT */
/*
 * Answers: what the queue is told of a job, and what is told of what it says to that.
 */
#include "background_fixture.h"

#include <stdio.h>

#define TTR_MS 60000

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

static struct bide_context *begin_job(int64_t retain_ms)
{
    bide_job job = stub_job(1, TTR_MS);
    job.retain_ms = retain_ms;
    job.failures = 2;
    background_fixture_begin(fixture, 0, job);
    return background_fixture_context(fixture, 0);
}

/* The handler has returned that: the answer is made and told. */
static void finish(struct bide_context *context, int outcome)
{
    outcome = bi_ack_check_outcome(context, outcome);
    int told = atomic_load(&context->stop_reason);
    bi_context_end(context);
    bi_ack_clear(&ack);
    bi_ack_make(&ack, context, outcome, told);
    bi_context_clear(context);
    bi_ack_prepare(&ack);
}

/* The queue says so to it; true: that was the end of it. */
static bool reply_with(int code)
{
    ack.op.status = code;
    strcpy(ack.op.error, code == BIDE_OK ? "" : "the queue's sentence");
    return bi_ack_complete(&ack, fixture->worker);
}

static const struct background_fixture_event *only_event(void)
{
    assert_int_equal(fixture->event_count, 1);
    return &fixture->events[0];
}

static bool is_error(const char *expected)
{
    return strcmp(ack.error, expected) == 0;
}

/* ---- every outcome to its op ---- */

static void done_is_a_delete(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    assert_int_equal(bide_context_result(context, "five", 4), BIDE_OK);
    finish(context, BIDE_DONE);
    assert_int_equal(ack.op.kind, BIDE_OP_DELETE);
    assert_int_equal(ack.op.lease.id, 1);
    assert_int_equal(ack.op.lease.token, TOKEN_OF(1));
    assert_int_equal(ack.attempt, 3);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_DONE);
    assert_int_equal(only_event()->id, 1);
}

static void done_keeps_the_result_where_the_job_retains_it(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(1000);
    assert_int_equal(bide_context_result(context, "four", 4), BIDE_OK);
    assert_int_equal(bide_context_result(context, "five!", 5), BIDE_OK);
    finish(context, BIDE_DONE);
    assert_int_equal(ack.op.kind, BIDE_OP_DONE);
    assert_int_equal(ack.op.finish.id, 1);
    assert_int_equal(ack.op.finish.token, TOKEN_OF(1));
    assert_int_equal(ack.op.finish.retain_ms, BIDE_KEEP);
    assert_int_equal(bide_buf_size(ack.op.finish.buf), 5);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_DONE);
    finish(begin_job(1000), BIDE_DONE);
    assert_null(ack.op.finish.buf);
}

static void retry_is_a_fail_after_the_jobs_own_backoff(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(1000);
    finish(context, bide_context_retry(context, "no answer from %s", "ada"));
    assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
    assert_int_equal(ack.op.fail.token, TOKEN_OF(1));
    assert_int_equal(ack.op.fail.retry_in_ms, BIDE_KEEP);
    assert_true(is_error("no answer from ada"));
    assert_ptr_equal(ack.op.fail.error.data, ack.error);
    ack.op.fail.state = BIDE_STATE_DELAYED;
    ack.op.fail.delay_ms = 7000;
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_RETRIED);
    assert_int_equal(only_event()->delay_ms, 7000);
    assert_string_equal(only_event()->text, "no answer from ada");
}

static void fail_event_has_the_new_state_of_the_job(void **state)
{
    (void)state;
    static const struct {
        bide_state state;
        bide_work_kind kind;
    } table[] = {
        {BIDE_STATE_DELAYED, BIDE_WORK_RETRIED},
        {BIDE_STATE_READY, BIDE_WORK_RETRIED},
        {BIDE_STATE_BURIED, BIDE_WORK_BURIED},
        {BIDE_STATE_GONE, BIDE_WORK_CANCELLED},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        fixture->event_count = 0;
        finish(begin_job(0), BIDE_RETRY);
        ack.op.fail.state = table[i].state;
        assert_true(reply_with(BIDE_OK));
        assert_int_equal(only_event()->kind, table[i].kind);
    }
}

static void retry_in_sets_the_delay_within_its_limits(void **state)
{
    (void)state;
    static const struct {
        int64_t asked, told;
    } table[] = {{0, 0}, {1500, 1500}, {-5, 0}, {INT64_MIN, 0}, {INT64_MAX, BIDE_TIME_MAX_MS}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct bide_context *context = begin_job(0);
        finish(context, bide_context_retry_in(context, table[i].asked, NULL));
        assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
        assert_int_equal(ack.op.fail.retry_in_ms, table[i].told);
        assert_true(is_error("the handler gave no reason"));
    }
}

static void bury_keeps_the_priority_and_the_reason(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    finish(context, bide_context_bury(context, "no such customer"));
    assert_int_equal(ack.op.kind, BIDE_OP_BURY);
    assert_int_equal(ack.op.bury.token, TOKEN_OF(1));
    assert_int_equal(ack.op.bury.priority, BIDE_KEEP);
    assert_int_equal(ack.op.bury.reason.size, strlen("no such customer"));
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_BURIED);
    assert_string_equal(only_event()->text, "no such customer");
}

static void snooze_is_a_release_without_a_failure(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    finish(context, bide_context_snooze(context, 2500));
    assert_int_equal(ack.op.kind, BIDE_OP_RELEASE);
    assert_int_equal(ack.op.release.token, TOKEN_OF(1));
    assert_int_equal(ack.op.release.priority, BIDE_KEEP);
    assert_int_equal(ack.op.release.delay_ms, 2500);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_SNOOZED);
    assert_int_equal(only_event()->delay_ms, 2500);
    finish(begin_job(0), BIDE_SNOOZE);
    assert_true(ack.op.release.delay_ms > 0);
}

static void other_return_value_is_a_retry_with_an_error_text(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    bide_put(NULL, "t", "x", 1, NULL, NULL);
    char sentence[BIDE_ERROR_SIZE + 80];
    snprintf(sentence, sizeof(sentence), "the handler answered -1 (BIDE_EINVAL): %s",
             bide_last_error());
    finish(context, BIDE_EINVAL);
    assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
    assert_true(is_error(sentence));
    finish(begin_job(0), 4711);
    assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
    assert_true(is_error("the handler answered 4711"));
    finish(begin_job(0), INT32_MIN);
    assert_true(is_error("the handler answered -2147483648"));
}

static void error_text_of_the_handler_overrides_the_return_value(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    bide_context_retry(context, "said before");
    finish(context, 4711);
    assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
    assert_true(is_error("said before"));
}

static void long_error_text_is_cut_between_characters(void **state)
{
    (void)state;
    char text[3 * TASK_ERROR_SIZE];
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(&text[i], "\xc3\xa4", 2); /* two bytes a character */
    text[sizeof(text) - 2] = 0;
    for (size_t shift = 0; shift < 2; shift++) {
        struct bide_context *context = begin_job(0);
        finish(context, bide_context_retry(context, "%.*s%s", (int)shift, "x", text));
        assert_in_range(strlen(ack.error), TASK_ERROR_SIZE - 4, TASK_ERROR_SIZE - 1);
        assert_int_equal((strlen(ack.error) - shift) % 2, 0);
    }
}

static void stopped_handler_gives_its_job_back_unless_done(void **state)
{
    (void)state;
    static const int outcomes[] = {BIDE_RETRY, BIDE_BURY, BIDE_SNOOZE, 7, BIDE_EIO};
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        fixture->event_count = 0;
        struct bide_context *context = begin_job(0);
        bi_context_request_stop(context, BIDE_REASON_STOPPING);
        finish(context, outcomes[i]);
        assert_int_equal(ack.op.kind, BIDE_OP_GIVE_BACK);
        assert_int_equal(ack.op.lease.id, 1);
        assert_int_equal(ack.op.lease.token, TOKEN_OF(1));
        assert_true(reply_with(BIDE_OK));
        assert_int_equal(only_event()->kind, BIDE_WORK_INTERRUPTED);
    }
    struct bide_context *context = begin_job(0);
    bi_context_request_stop(context, BIDE_REASON_STOPPING);
    finish(context, BIDE_DONE);
    assert_int_equal(ack.op.kind, BIDE_OP_DELETE);
}

static void cancelled_job_is_reported_as_cancelled_unless_done(void **state)
{
    (void)state;
    static const int outcomes[] = {BIDE_RETRY, BIDE_BURY, BIDE_SNOOZE};
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        fixture->event_count = 0;
        struct bide_context *context = begin_job(0);
        bi_context_request_stop(context, BIDE_REASON_CANCELLED);
        finish(context, outcomes[i]);
        assert_true(reply_with(BIDE_OK));
        assert_int_equal(only_event()->kind, BIDE_WORK_CANCELLED);
    }
    fixture->event_count = 0;
    struct bide_context *context = begin_job(0);
    bi_context_request_stop(context, BIDE_REASON_CANCELLED);
    finish(context, BIDE_DONE);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_DONE);
}

/* ---- every code to its event ---- */

/* The codes that are neither lost nor passing, nor have a way of their own. */
static const struct {
    int code;
    bide_work_kind kind;
} meanings[] = {
    {BIDE_OK, BIDE_WORK_DONE},
    {BIDE_NOT_FOUND, BIDE_WORK_LOST},
    {BIDE_LEASE_LOST, BIDE_WORK_LOST},
    {BIDE_RESERVED, BIDE_WORK_LOST},
    {BIDE_WRONG_STATE, BIDE_WORK_LOST},
    {BIDE_EIO, BIDE_WORK_DEFERRED},
    {BIDE_EFULL, BIDE_WORK_DEFERRED},
    {BIDE_EBUSY, BIDE_WORK_DEFERRED},
    {BIDE_ENOMEM, BIDE_WORK_DEFERRED},
    {BIDE_ESYSTEM, BIDE_WORK_DEFERRED},
    {BIDE_EUNKNOWN, BIDE_WORK_DEFERRED},
    {BIDE_TIMED_OUT, BIDE_WORK_GIVEN_UP},
    {BIDE_EXISTS, BIDE_WORK_GIVEN_UP},
    {BIDE_CANCEL_WANTED, BIDE_WORK_GIVEN_UP},
    {BIDE_TOUCH_LIMIT, BIDE_WORK_GIVEN_UP},
    {BIDE_TOO_BIG, BIDE_WORK_GIVEN_UP},
    {BIDE_TOPIC_FULL, BIDE_WORK_GIVEN_UP},
    {BIDE_TOO_MANY_TOPICS, BIDE_WORK_GIVEN_UP},
    {BIDE_TOO_MANY_WAITERS, BIDE_WORK_GIVEN_UP},
    {BIDE_DRAINING, BIDE_WORK_GIVEN_UP},
    {BIDE_CANCELLED, BIDE_WORK_GIVEN_UP},
    {BIDE_CLOSED, BIDE_WORK_GIVEN_UP},
    {BIDE_LIMITED, BIDE_WORK_GIVEN_UP},
    {BIDE_EINVAL, BIDE_WORK_GIVEN_UP},
    {BIDE_ENOTSUP, BIDE_WORK_GIVEN_UP},
    {BIDE_ECALLBACK, BIDE_WORK_GIVEN_UP},
};

static void every_code_that_a_delete_can_get_has_its_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        fixture->event_count = 0;
        finish(begin_job(0), BIDE_DONE);
        assert_int_equal(reply_with(meanings[i].code), meanings[i].kind != BIDE_WORK_DEFERRED);
        assert_int_equal(only_event()->kind, meanings[i].kind);
        assert_int_equal(only_event()->code, meanings[i].code);
        assert_string_equal(only_event()->text,
                            meanings[i].code == BIDE_OK ? "" : "the queue's sentence");
    }
}

static void the_list_of_codes_is_complete(void **state)
{
    (void)state;
    size_t count = 0;
#define CODE(name, value, sentence) count++;
    BIDE_CODES(CODE)
#undef CODE
    assert_int_equal(count, COUNT_OF(meanings) + 1); /* BIDE_PENDING is no answer */
}

static void every_kind_of_ack_is_lost_or_deferred_by_the_same_codes(void **state)
{
    (void)state;
    static const int outcomes[] = {BIDE_DONE, BIDE_RETRY, BIDE_BURY, BIDE_SNOOZE};
    for (size_t i = 0; i < 2 * COUNT_OF(outcomes); i++)
        for (size_t j = 1; j < 11; j++) {
            fixture->event_count = 0;
            finish(begin_job(i % 2 == 0 ? 0 : 1000), outcomes[i / 2]);
            assert_int_equal(reply_with(meanings[j].code), meanings[j].kind == BIDE_WORK_LOST);
            assert_int_equal(only_event()->kind, meanings[j].kind);
            assert_int_equal(only_event()->id, 1);
        }
}

static void deferred_ack_is_reported_once(void **state)
{
    (void)state;
    finish(begin_job(0), BIDE_DONE);
    assert_false(reply_with(BIDE_EIO));
    assert_false(reply_with(BIDE_EFULL));
    assert_false(reply_with(BIDE_EIO));
    assert_int_equal(only_event()->kind, BIDE_WORK_DEFERRED);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(background_fixture_last(fixture)->kind, BIDE_WORK_DONE);
}

/* ---- puts with the end of the job ---- */

/* A job whose handler puts two others. */
static struct bide_context *begin_job_with_puts(int64_t retain_ms)
{
    struct bide_context *context = begin_job(retain_ms);
    assert_int_equal(bide_context_put(context, "next", "one", 3, NULL), BIDE_OK);
    assert_int_equal(bide_context_put(context, "next", "two!", 4, NULL), BIDE_OK);
    return context;
}

static void expect_step(bide_ending ending, bool keep)
{
    const bide_finish_and_put_args *step = &ack.op.finish_and_put;
    assert_int_equal(ack.op.kind, BIDE_OP_FINISH_AND_PUT);
    assert_int_equal(step->finish.id, 1);
    assert_int_equal(step->finish.token, TOKEN_OF(1));
    assert_int_equal(step->ending, ending);
    assert_int_equal(step->finish.keep, keep);
    assert_int_equal(step->count, 2);
    assert_int_equal(bide_buf_size(step->items[1].buf), 4);
    assert_memory_equal(step->items[1].topic.data, "next", 4);
}

static void puts_go_with_the_outcome(void **state)
{
    (void)state;
    finish(begin_job_with_puts(0), BIDE_DONE);
    expect_step(BIDE_ENDING_FINISH, false);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_DONE);

    struct bide_context *context = begin_job_with_puts(1000);
    assert_int_equal(bide_context_result(context, "five!", 5), BIDE_OK);
    finish(context, BIDE_DONE);
    expect_step(BIDE_ENDING_FINISH, true);
    assert_int_equal(bide_buf_size(ack.op.finish_and_put.finish.buf), 5);
    assert_int_equal(ack.op.finish_and_put.finish.retain_ms, BIDE_KEEP);

    context = begin_job_with_puts(0);
    finish(context, bide_context_snooze(context, 2500));
    expect_step(BIDE_ENDING_RELEASE, false);
    assert_int_equal(ack.op.finish_and_put.delay_ms, 2500);
    assert_int_equal(ack.op.finish_and_put.priority, BIDE_KEEP);
    fixture->event_count = 0;
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_SNOOZED);
    assert_int_equal(only_event()->delay_ms, 2500);

    context = begin_job_with_puts(0); /* as a fallback does */
    finish(context, bide_context_bury(context, "why"));
    expect_step(BIDE_ENDING_BURY, false);
    assert_int_equal(ack.op.finish_and_put.reason.size, 3);
    fixture->event_count = 0;
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_BURIED);
    assert_string_equal(only_event()->text, "why");
}

static void failure_has_no_puts(void **state)
{
    (void)state;
    static const int outcomes[] = {BIDE_RETRY, BIDE_GIVE_BACK};
    static const bide_op_kind kinds[] = {BIDE_OP_FAIL, BIDE_OP_GIVE_BACK};
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        finish(begin_job_with_puts(0), outcomes[i]);
        assert_int_equal(ack.op.kind, kinds[i]);
        assert_null(ack.puts);
    }
    struct bide_context *context = begin_job_with_puts(0);
    bi_context_request_stop(context, BIDE_REASON_STOPPING);
    finish(context, BIDE_SNOOZE);
    assert_int_equal(ack.op.kind, BIDE_OP_GIVE_BACK);
}

static void rejected_put_becomes_a_failure_with_its_message(void **state)
{
    (void)state;
    static const int codes[] = {BIDE_EXISTS, BIDE_TOO_BIG, BIDE_TOPIC_FULL, BIDE_TOO_MANY_TOPICS,
                                BIDE_EFULL,  BIDE_EINVAL,  BIDE_ENOTSUP};
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        fixture->event_count = 0;
        finish(begin_job_with_puts(0), BIDE_DONE);
        ack.op.error_item = 2;
        assert_false(reply_with(codes[i]));
        assert_int_equal(ack.op.kind, BIDE_OP_FAIL);
        assert_int_equal(ack.op.fail.id, 1);
        assert_int_equal(ack.op.fail.token, TOKEN_OF(1));
        assert_true(is_error("put 2 of 2 was rejected: the queue's sentence"));
        assert_null(ack.puts);
        assert_int_equal(ack.retry_delay, 0);
        assert_int_equal(fixture->event_count, 0);
    }
    finish(begin_job_with_puts(0), BIDE_DONE);
    ack.op.error_item = 0;
    assert_false(reply_with(BIDE_DRAINING));
    assert_int_equal(ack.op.kind, BIDE_OP_RELEASE);
    assert_true(ack.op.release.delay_ms > 0);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_RETRIED);
    assert_string_equal(only_event()->text, "the queue's sentence");
}

static void step_is_deferred_or_lost_by_the_codes_of_a_delete(void **state)
{
    (void)state;
    for (size_t j = 1; j < 11; j++) {
        fixture->event_count = 0;
        finish(begin_job_with_puts(0), BIDE_DONE);
        assert_int_equal(reply_with(meanings[j].code), meanings[j].kind == BIDE_WORK_LOST);
        assert_int_equal(only_event()->kind, meanings[j].kind);
        assert_int_equal(ack.op.kind, BIDE_OP_FINISH_AND_PUT);
    }
}

static void step_whose_reply_was_lost_is_judged_by_its_job(void **state)
{
    (void)state;
    finish(begin_job_with_puts(0), BIDE_DONE);
    assert_false(reply_with(BIDE_EUNKNOWN));
    assert_true(reply_with(BIDE_NOT_FOUND));
    assert_int_equal(background_fixture_last(fixture)->kind, BIDE_WORK_DONE);

    finish(begin_job_with_puts(1000), BIDE_DONE);
    assert_false(reply_with(BIDE_EUNKNOWN));
    assert_false(reply_with(BIDE_LEASE_LOST));
    assert_int_equal(ack.op.kind, BIDE_OP_RESULT);
    ack.op.fetch.buf = NULL;
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(background_fixture_last(fixture)->kind, BIDE_WORK_DONE);

    struct bide_context *context = begin_job_with_puts(0);
    finish(context, bide_context_snooze(context, 1));
    assert_false(reply_with(BIDE_EUNKNOWN));
    assert_true(reply_with(BIDE_LEASE_LOST));
    assert_int_equal(background_fixture_last(fixture)->kind, BIDE_WORK_LOST);
}

static void put_needs_a_queue_that_can_do_it(void **state)
{
    (void)state;
    const struct backend_ops *able = fixture->stub->base.ops;
    struct backend_ops ops = *able;
    struct bide_context *context = begin_job(0);
    ops.capabilities = 0;
    fixture->stub->base.ops = &ops;
    assert_int_equal(bide_context_put(context, "next", "one", 3, NULL), BIDE_ENOTSUP);
    assert_null(context->puts);
    finish(context, BIDE_DONE);
    assert_int_equal(ack.op.kind, BIDE_OP_DELETE);
    fixture->stub->base.ops = able;
}

/* ---- a queue that knows fewer words ---- */

static void queue_without_results_gets_a_delete(void **state)
{
    (void)state;
    finish(begin_job(1000), BIDE_DONE);
    assert_false(reply_with(BIDE_ENOTSUP));
    assert_int_equal(ack.op.kind, BIDE_OP_DELETE);
    assert_int_equal(ack.op.lease.id, 1);
    assert_int_equal(ack.op.lease.token, TOKEN_OF(1));
    assert_int_equal(fixture->event_count, 0);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_DONE);
}

static void queue_without_fail_gets_a_release(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    finish(context, bide_context_retry_in(context, 1500, "not now"));
    assert_false(reply_with(BIDE_ENOTSUP));
    assert_int_equal(ack.op.kind, BIDE_OP_RELEASE);
    assert_int_equal(ack.op.release.id, 1);
    assert_int_equal(ack.op.release.token, TOKEN_OF(1));
    assert_int_equal(ack.op.release.delay_ms, 1500);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_RETRIED);
    assert_string_equal(only_event()->text, "not now");
    assert_int_equal(only_event()->delay_ms, 1500);
}

static void queue_without_reasons_gets_a_plain_bury(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    finish(context, bide_context_bury(context, "why"));
    assert_false(reply_with(BIDE_ENOTSUP));
    bi_ack_prepare(&ack);
    assert_int_equal(ack.op.kind, BIDE_OP_BURY);
    assert_int_equal(ack.op.bury.id, 1);
    assert_int_equal(ack.op.bury.reason.size, 0);
    assert_true(reply_with(BIDE_OK));
    assert_int_equal(only_event()->kind, BIDE_WORK_BURIED);
    assert_string_equal(only_event()->text, "why");
}

static void ack_without_a_supported_op_is_given_up(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(0);
    finish(context, bide_context_bury(context, "why"));
    assert_false(reply_with(BIDE_ENOTSUP));
    assert_true(reply_with(BIDE_ENOTSUP));
    assert_int_equal(only_event()->kind, BIDE_WORK_GIVEN_UP);
}

static void oversized_result_is_rejected_at_once(void **state)
{
    (void)state;
    struct bide_context *context = begin_job(1000);
    fixture->stub->queue.options.max_result_size = 3;
    assert_int_equal(bide_context_result(context, "abc", 3), BIDE_OK);
    assert_int_equal(bide_context_result(context, "abcd", 4), BIDE_TOO_BIG);
    assert_int_equal(bide_context_result(context, NULL, 1), BIDE_EINVAL);
    finish(context, BIDE_DONE);
    assert_int_equal(bide_buf_size(ack.op.finish.buf), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(done_is_a_delete),
        T(done_keeps_the_result_where_the_job_retains_it),
        T(retry_is_a_fail_after_the_jobs_own_backoff),
        T(fail_event_has_the_new_state_of_the_job),
        T(retry_in_sets_the_delay_within_its_limits),
        T(bury_keeps_the_priority_and_the_reason),
        T(snooze_is_a_release_without_a_failure),
        T(other_return_value_is_a_retry_with_an_error_text),
        T(error_text_of_the_handler_overrides_the_return_value),
        T(long_error_text_is_cut_between_characters),
        T(stopped_handler_gives_its_job_back_unless_done),
        T(cancelled_job_is_reported_as_cancelled_unless_done),
        T(every_code_that_a_delete_can_get_has_its_event),
        T(the_list_of_codes_is_complete),
        T(every_kind_of_ack_is_lost_or_deferred_by_the_same_codes),
        T(deferred_ack_is_reported_once),
        T(puts_go_with_the_outcome),
        T(failure_has_no_puts),
        T(rejected_put_becomes_a_failure_with_its_message),
        T(step_is_deferred_or_lost_by_the_codes_of_a_delete),
        T(step_whose_reply_was_lost_is_judged_by_its_job),
        T(put_needs_a_queue_that_can_do_it),
        T(queue_without_results_gets_a_delete),
        T(queue_without_fail_gets_a_release),
        T(queue_without_reasons_gets_a_plain_bury),
        T(ack_without_a_supported_op_is_given_up),
        T(oversized_result_is_rejected_at_once),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
