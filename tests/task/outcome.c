/* SPDX-License-Identifier: MIT */
/* outcome.c - what a handler answers, and what becomes of its job. */
#include "worker_fixture.h"

#include <string.h>

#define HOUR_MS INT64_C(3600000)

/* Each of these fails until the attempt in number, then it is done. */
static bool fails_now(bide_context *context, struct worker_fixture *fixture)
{
    enter(fixture);
    leave(fixture);
    return bide_context_attempt(context) < (uint32_t)fixture->number;
}

/* ---- done ---- */

static void done_job_is_removed(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static int answer_with_a_result(bide_context *context, const bide_slice *body, void *arg)
{
    (void)arg;
    CODE(bide_context_result(context, "not this", 8), BIDE_OK);
    return bide_context_result(context, body->data, body->size);
}

static void waiting_call_gets_the_result(void)
{
    struct worker_fixture *fixture = start_fixture(answer_with_a_result, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_state state = BIDE_STATE_GONE;
    bide_buf *result = NULL;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "echo", &options);
    OK(bide_wait(fixture->queue, id, PATIENCE_MS, &state, &result));
    EQ(state, BIDE_STATE_DONE);
    TEXT(bide_buf_data(result), bide_buf_size(result), "echo");
    bide_buf_unref(result);
}

static void result_without_retention_is_discarded(void)
{
    struct worker_fixture *fixture = start_fixture(answer_with_a_result, 1);
    uint64_t id = enqueue(fixture, "echo");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static void retained_job_without_a_result_is_done(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_DONE);
    EQ(job->result_size, 0);
    BETWEEN(job->left_ms, HOUR_MS - PATIENCE_MS, HOUR_MS);
}

static void result_is_removed_after_its_retention(void)
{
    struct worker_fixture *fixture = start_fixture(answer_with_a_result, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 100;
    int64_t start_us = clock_us();
    uint64_t id = enqueue_as(fixture, "echo", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    UNTIL(state_of(fixture->queue, id) == BIDE_STATE_GONE);
    NOT_BEFORE(start_us, 100);
}

static int answer_with_a_result_to_keep(bide_context *context, const bide_slice *body, void *arg)
{
    const struct worker_fixture *fixture = arg;
    CODE(bide_context_retain(context, -1), BIDE_EINVAL);
    CODE(bide_context_retain(context, BIDE_TIME_MAX_MS + 1), BIDE_EINVAL);
    CODE(bide_context_retain(NULL, 1), BIDE_EINVAL);
    CODE(bide_context_retain(context, fixture->number), BIDE_OK);
    return bide_context_result(context, body->data, body->size);
}

static void handler_may_set_the_retention(void)
{
    struct worker_fixture *fixture = new_fixture_of(answer_with_a_result_to_keep, NULL);
    fixture->number = HOUR_MS;
    uint64_t id = enqueue(fixture, "echo");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_DONE);
    TEXT(job->result, job->result_size, "echo");
    BETWEEN(job->left_ms, HOUR_MS - PATIENCE_MS, HOUR_MS);
}

static void handler_may_disable_the_retention(void)
{
    struct worker_fixture *fixture = new_fixture_of(answer_with_a_result_to_keep, NULL);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "echo", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static int answer_result_and_fail(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    OK(bide_context_result(context, "result", 6));
    return bide_context_bury(context, "no");
}

static void result_without_done_is_discarded(void)
{
    struct worker_fixture *fixture = start_fixture(answer_result_and_fail, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->result_size, 0);
}

static int speak_of_retry_but_be_done(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    EQ(bide_context_retry(context, "not meant"), BIDE_RETRY);
    return BIDE_DONE;
}

static void returned_outcome_overrides_context_calls(void)
{
    struct worker_fixture *fixture = start_fixture(speak_of_retry_but_be_done, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

/* ---- retry ---- */

static int retry_with_a_sentence(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    if (!fails_now(context, arg))
        return BIDE_DONE;
    return bide_context_retry(context, "no answer from %s, attempt %u", "the server",
                              bide_context_attempt(context));
}

static void retry_runs_after_the_backoff(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_with_a_sentence, NULL);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    fixture->number = 3;
    options.backoff_base_ms = 40;
    options.backoff_max_ms = 90;
    int64_t start_us = clock_us();
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    NOT_BEFORE(start_us, 40 + 60);
    EVENTS_ARE(fixture, id, "started retried started retried started done");
    BETWEEN(nth_event(fixture, BIDE_WORK_RETRIED, 0)->delay_ms, 40, 60);
    BETWEEN(nth_event(fixture, BIDE_WORK_RETRIED, 1)->delay_ms, 60, 90);
}

static void retry_is_counted_and_its_error_kept(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_with_a_sentence, NULL);
    fixture->number = 1000;
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->failures, 1);
    EQ(job->fails, 1);
    BETWEEN(job->left_ms, 5000 - PATIENCE_MS, 7500);
    ERROR_OF(job, "no answer from the server, attempt 1");
}

static int retry_without_a_sentence(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    return bide_context_retry(context, NULL);
}

static void retry_needs_no_error_text(void)
{
    struct worker_fixture *fixture = start_fixture(retry_without_a_sentence, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    EQ(stat_job(fixture->queue, id)->failures, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_DELAYED);
}

static int retry_in_a_while(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    int64_t delay_ms = body_is(body, "at once") ? 0 : fixture->code;
    if (!fails_now(context, fixture))
        return BIDE_DONE;
    return bide_context_retry_in(context, delay_ms, "in %d ms", (int)delay_ms);
}

static void retry_may_give_its_delay(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_in_a_while, NULL);
    fixture->number = 2;
    fixture->code = 80;
    int64_t start_us = clock_us();
    uint64_t id = enqueue(fixture, "later");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    NOT_BEFORE(start_us, 80);
    EVENTS_ARE(fixture, id, "started retried started done");
    EQ(nth_event(fixture, BIDE_WORK_RETRIED, 0)->delay_ms, 80);
    TEXT(nth_event(fixture, BIDE_WORK_RETRIED, 0)->text,
         strlen(nth_event(fixture, BIDE_WORK_RETRIED, 0)->text), "in 80 ms");
}

static void a_retry_may_be_at_once(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_in_a_while, NULL);
    fixture->number = 5;
    uint64_t id = enqueue(fixture, "at once");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 5);
    EQ(count_events_of(fixture, BIDE_WORK_RETRIED, id), 4);
}

/* ---- numbers ---- */

static int answer_the_number(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    (void)body;
    return fixture->code;
}

static void fails_with(int answer, const char *sentence)
{
    struct worker_fixture *fixture = new_fixture_of(answer_the_number, NULL);
    fixture->code = answer;
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->failures, 1);
    if (sentence)
        ERROR_OF(job, sentence);
    free_worker(fixture);
    close_queue(fixture->queue);
}

static void other_return_value_is_a_retry_that_names_it(void)
{
    fails_with(7777, "the handler answered 7777");
    fails_with(-4711, "the handler answered -4711");
}

static void returned_bide_code_is_a_failure(void)
{
    static const int codes[] = {BIDE_PENDING, BIDE_NOT_FOUND, BIDE_CLOSED, BIDE_EINVAL, BIDE_EIO};
    for (size_t i = 0; i < COUNT(codes); i++)
        fails_with(codes[i], NULL);
}

static void BIDE_RETRY_without_text_is_a_retry(void)
{
    fails_with(BIDE_RETRY, NULL);
}

static void BIDE_BURY_without_text_buries(void)
{
    struct worker_fixture *fixture = new_fixture_of(answer_the_number, NULL);
    fixture->code = BIDE_BURY;
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_BURIED);
}

/* ---- bury ---- */

static int bury_with_a_reason(bide_context *context, const bide_slice *body, void *arg)
{
    (void)arg;
    return bide_context_bury(context, "no such address: %.*s", (int)body->size,
                             (const char *)body->data);
}

static void bury_keeps_the_reason(void)
{
    struct worker_fixture *fixture = start_fixture(bury_with_a_reason, 1);
    bide_put_options options = with_retries(100);
    uint64_t id = enqueue_as(fixture, "ada", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->buries, 1);
    EQ(job->reserves, 1);
    ERROR_OF(job, "no such address: ada");
    EVENTS_ARE(fixture, id, "started buried");
}

static void a_job_whose_retries_are_used_up_is_buried_with_its_last_error(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_with_a_sentence, NULL);
    bide_put_options options = with_retries(2);
    fixture->number = 1000;
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->failures, 3);
    EQ(job->reserves, 3);
    ERROR_OF(job, "no answer from the server, attempt 3");
    EVENTS_ARE(fixture, id, "started retried started retried started buried");
}

static void retry_delay_does_not_save_a_job_without_retries_left(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_in_a_while, NULL);
    bide_put_options options = with_retries(0);
    fixture->number = 1000;
    fixture->code = 50;
    uint64_t id = enqueue_as(fixture, "later", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_BURIED);
    EQ(count_events(fixture, BIDE_WORK_RETRIED), 0);
}

/* ---- snooze ---- */

static int snooze_until(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    EQ(bide_context_attempt(context), 1);
    CHECK(bide_context_is_last(context));
    return enter(fixture) < 4 ? bide_context_snooze(context, fixture->number) : BIDE_DONE;
}

static void snoozed_job_runs_again_and_has_not_failed(void)
{
    struct worker_fixture *fixture = new_fixture_of(snooze_until, NULL);
    bide_put_options options = with_retries(0);
    fixture->number = 40;
    int64_t start_us = clock_us();
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    NOT_BEFORE(start_us, 3 * 40);
    EVENTS_ARE(fixture, id, "started snoozed started snoozed started snoozed started done");
    EQ(nth_event(fixture, BIDE_WORK_SNOOZED, 1)->delay_ms, 40);
    EQ(nth_event(fixture, BIDE_WORK_DONE, 0)->attempt, 1);
}

static void a_snoozed_job_has_not_failed(void)
{
    struct worker_fixture *fixture = new_fixture_of(snooze_until, NULL);
    bide_put_options options = with_retries(0);
    fixture->number = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_SNOOZED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->failures, 0);
    EQ(job->fails, 0);
    CHECK(job->last_error == NULL);
    BETWEEN(job->left_ms, HOUR_MS - PATIENCE_MS, HOUR_MS);
}

/* ---- give back ---- */

static int give_back_until(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    EQ(bide_context_attempt(context), 1);
    return enter(arg) < 4 ? BIDE_GIVE_BACK : bide_context_snooze(context, HOUR_MS);
}

static void job_given_back_is_ready_at_once_and_uncounted(void)
{
    struct worker_fixture *fixture = new_fixture_of(give_back_until, NULL);
    bide_put_options options = with_retries(0);
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_SNOOZED, 1);
    EVENTS_ARE(fixture, id,
               "started interrupted started interrupted started interrupted started snoozed");
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->failures, 0);
    EQ(job->fails, 0);
    EQ(job->releases, 1);
    CHECK(job->last_error == NULL);
}

/* ---- attempts ---- */

static int count_attempts(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    int run = enter(fixture);
    (void)body;
    EQ(bide_context_attempt(context), run);
    EQ(bide_context_is_last(context), run == fixture->number);
    return bide_context_retry_in(context, 0, "again");
}

static void attempts_are_counted_and_the_last_is_known(void)
{
    struct worker_fixture *fixture = new_fixture_of(count_attempts, NULL);
    bide_put_options options = with_retries(3);
    fixture->number = 4;
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    EQ(fixture->runs, 4);
    for (uint32_t i = 0; i < 4; i++)
        EQ(nth_event(fixture, BIDE_WORK_STARTED, i)->attempt, i + 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_BURIED);
}

static int is_never_last(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    CHECK(!bide_context_is_last(context));
    return enter(arg) < 10 ? bide_context_retry_in(context, 0, NULL) : BIDE_DONE;
}

static void without_a_limit_no_attempt_is_the_last(void)
{
    struct worker_fixture *fixture = start_fixture(is_never_last, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(nth_event(fixture, BIDE_WORK_DONE, 0)->attempt, 10);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static void kick_resets_the_attempts(void)
{
    struct worker_fixture *fixture = new_fixture_of(retry_with_a_sentence, NULL);
    bide_put_options options = with_retries(0);
    fixture->number = 1000;
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    OK(bide_kick_job(fixture->queue, id));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 2);
    EQ(nth_event(fixture, BIDE_WORK_BURIED, 1)->attempt, 1);
}

static const struct test tests[] = {
    TEST(done_job_is_removed),
    TEST(waiting_call_gets_the_result),
    TEST(result_without_retention_is_discarded),
    TEST(retained_job_without_a_result_is_done),
    TEST(result_is_removed_after_its_retention),
    TEST(handler_may_set_the_retention),
    TEST(handler_may_disable_the_retention),
    TEST(result_without_done_is_discarded),
    TEST(returned_outcome_overrides_context_calls),
    TEST(retry_runs_after_the_backoff),
    TEST(retry_is_counted_and_its_error_kept),
    TEST(retry_needs_no_error_text),
    TEST(retry_may_give_its_delay),
    TEST(a_retry_may_be_at_once),
    TEST(other_return_value_is_a_retry_that_names_it),
    TEST(returned_bide_code_is_a_failure),
    TEST(BIDE_RETRY_without_text_is_a_retry),
    TEST(BIDE_BURY_without_text_buries),
    TEST(bury_keeps_the_reason),
    TEST(a_job_whose_retries_are_used_up_is_buried_with_its_last_error),
    TEST(retry_delay_does_not_save_a_job_without_retries_left),
    TEST(snoozed_job_runs_again_and_has_not_failed),
    TEST(a_snoozed_job_has_not_failed),
    TEST(job_given_back_is_ready_at_once_and_uncounted),
    TEST(attempts_are_counted_and_the_last_is_known),
    TEST(without_a_limit_no_attempt_is_the_last),
    TEST(kick_resets_the_attempts),
};

const struct theme outcome_theme = {"outcome", tests, COUNT(tests)};
