/* SPDX-License-Identifier: MIT */
/* context.c - what a handler can ask and say while it runs. */
#include "worker_fixture.h"

#include <string.h>

#define HOUR_MS INT64_C(3600000)

/* ---- the job and its time ---- */

static int look_at_the_job(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    const bide_job *job = bide_context_job(context);
    EQ(job->id, fixture->number);
    CHECK(job->token != 0);
    EQ(job->state, BIDE_STATE_RESERVED);
    EQ(job->priority, 77);
    EQ(job->ttr_ms, 50000);
    EQ(job->body_size, body->size);
    CHECK(memcmp(job->body, body->data, body->size) == 0);
    TEXT(body->data, body->size, "the body");
    TEXT(job->key, job->key_size, "the key");
    TEXT(job->topic, strlen(job->topic), fixture->topic);
    CHECK(bide_context_queue(context) == fixture->queue);
    EQ(bide_context_reason(context), BIDE_REASON_NONE);
    EQ(bide_context_wait(context, 0), BIDE_REASON_NONE);
    enter(fixture);
    return BIDE_DONE;
}

static void a_handler_sees_its_job_and_its_queue(void)
{
    struct worker_fixture *fixture = new_fixture_of(look_at_the_job, NULL);
    bide_put_options options = with_ttr(50000);
    options.priority = 77;
    options.key = slice("the key");
    fixture->number = (int64_t)enqueue_as(fixture, "the body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

static int watch_the_time(bide_context *context, const bide_slice *body, void *arg)
{
    int64_t first = bide_context_left_ms(context);
    (void)body;
    BETWEEN(first, 20000 - PATIENCE_MS, 20000);
    int64_t start_us = clock_us();
    EQ(bide_context_wait(context, 30), BIDE_REASON_NONE);
    NOT_BEFORE(start_us, 30);
    CHECK(bide_context_left_ms(context) <= first - 29);
    enter(arg);
    return BIDE_DONE;
}

static void remaining_time_decreases(void)
{
    struct worker_fixture *fixture = start_fixture(watch_the_time, 1);
    bide_put_options options = with_ttr(20000);
    enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

static int touch_and_look(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    EQ(bide_context_wait(context, 50), BIDE_REASON_NONE);
    int64_t before = bide_context_left_ms(context);
    CHECK(before <= 20000 - 49);
    OK(bide_context_touch(context));
    fixture->number = bide_context_left_ms(context) - before;
    enter(fixture);
    wait_at_gate(fixture);
    return BIDE_DONE;
}

static void a_touch_gives_more_time(void)
{
    struct worker_fixture *fixture = start_fixture(touch_and_look, 1);
    bide_put_options options = with_ttr(20000);
    int64_t start_us = clock_us();
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL(fixture->runs == 1);
    int64_t passed_ms = (clock_us() - start_us) / 1000;
    /* All that had passed before the touch is given anew, less the moment after it. */
    CHECK(fixture->number > 0);
    const bide_job *job = stat_job(fixture->queue, id);
    CHECK(job->touches >= 1);
    CHECK(job->left_ms > 20000 - 50 - passed_ms);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static int touch_until_refused(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    OK(bide_context_touch(context));
    CODE(bide_context_touch(context), BIDE_TOUCH_LIMIT);
    enter(arg);
    return BIDE_DONE;
}

static void touches_have_the_limits_of_the_queue(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue("max_touches=1"), NULL);
    OK(bide_worker_handle(fixture->worker, fixture->topic, touch_until_refused, fixture));
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

/* ---- progress ---- */

static int make_progress(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    bide_context_progress(context, "%d of %d", 1, 3);
    UNTIL(fixture->number == 1);
    bide_context_progress(context, "2 of 3");
    bide_context_progress(context, "%s", "3 of 3");
    wait_at_gate(fixture);
    return BIDE_DONE;
}

static bool shows(struct worker_fixture *fixture, uint64_t id, const char *text)
{
    const bide_job *job = stat_job(fixture->queue, id);
    return job->progress && job->progress_size == strlen(text) &&
           memcmp(job->progress, text, job->progress_size) == 0;
}

static void progress_is_shown_in_job_stats(void)
{
    struct worker_fixture *fixture = start_fixture(make_progress, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->runs == 1);
    UNTIL(shows(fixture, id, "1 of 3"));
    fixture->number = 1;
    UNTIL(shows(fixture, id, "3 of 3"));
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void progress_does_not_extend_the_lease(void)
{
    struct worker_fixture *fixture = start_fixture(make_progress, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->runs == 1);
    int64_t left_ms = stat_job(fixture->queue, id)->left_ms;
    UNTIL(shows(fixture, id, "1 of 3"));
    CHECK(stat_job(fixture->queue, id)->left_ms <= left_ms);
    fixture->number = 1;
    UNTIL(shows(fixture, id, "3 of 3"));
    CHECK(stat_job(fixture->queue, id)->left_ms <= left_ms);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void progress_is_not_counted_as_a_touch(void)
{
    struct worker_fixture *fixture =
        new_fixture(open_queue("max_touches=1&min_touch_interval=1h"), NULL);
    OK(bide_worker_handle(fixture->worker, fixture->topic, make_progress, fixture));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->runs == 1);
    UNTIL(shows(fixture, id, "1 of 3"));
    fixture->number = 1;
    UNTIL(shows(fixture, id, "3 of 3"));
    EQ(stat_job(fixture->queue, id)->touches, 0);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static char long_text[3 * BIDE_PROGRESS_MAX];

static int make_long_progress(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    bide_context_progress(context, "%s", long_text);
    wait_at_gate(arg);
    return BIDE_DONE;
}

static void progress_that_is_too_long_is_cut(void)
{
    struct worker_fixture *fixture = new_fixture_of(make_long_progress, NULL);
    memset(long_text, 'x', sizeof long_text - 1);
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL(stat_job(fixture->queue, id)->progress_size > 0);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->progress_size, BIDE_PROGRESS_MAX);
    CHECK(memcmp(job->progress, long_text, BIDE_PROGRESS_MAX) == 0);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static int progress_in_passing(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    for (int i = 0; i < 10000; i++)
        bide_context_progress(context, "%d", i);
    return bide_context_result(context, "result", 6);
}

static void progress_of_a_handler_that_returns_at_once_is_harmless(void)
{
    struct worker_fixture *fixture = start_fixture(progress_in_passing, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_DONE);
    EVENTS_ARE(fixture, id, "started done");
}

/* ---- results ---- */

static int answer_too_much(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    static const char much[101];
    OK(bide_context_result(context, much, 100));
    CODE(bide_context_result(context, much, 101), BIDE_TOO_BIG);
    enter(arg);
    return BIDE_DONE;
}

static void oversized_result_is_rejected_and_the_previous_kept(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue("max_result_size=100"), NULL);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    OK(bide_worker_handle(fixture->worker, fixture->topic, answer_too_much, fixture));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
    EQ(stat_job(fixture->queue, id)->result_size, 100);
}

static int answer_a_local(bide_context *context, const bide_slice *body, void *arg)
{
    char local[] = "result";
    (void)body;
    (void)arg;
    OK(bide_context_result(context, local, 6));
    memset(local, '?', sizeof local);
    return BIDE_DONE;
}

static void a_result_is_copied(void)
{
    struct worker_fixture *fixture = start_fixture(answer_a_local, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_buf *result = NULL;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    OK(bide_result(fixture->queue, id, &result));
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    bide_buf_unref(result);
}

static const struct test tests[] = {
    TEST(a_handler_sees_its_job_and_its_queue),
    TEST(remaining_time_decreases),
    TEST(a_touch_gives_more_time),
    TEST(touches_have_the_limits_of_the_queue),
    TEST(progress_is_shown_in_job_stats),
    TEST(progress_does_not_extend_the_lease),
    TEST(progress_is_not_counted_as_a_touch),
    TEST(progress_that_is_too_long_is_cut),
    TEST(progress_of_a_handler_that_returns_at_once_is_harmless),
    TEST(oversized_result_is_rejected_and_the_previous_kept),
    TEST(a_result_is_copied),
};

const struct theme context_theme = {"context", tests, COUNT(tests)};
