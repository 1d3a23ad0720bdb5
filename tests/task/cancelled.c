/* SPDX-License-Identifier: MIT */
/* cancelled.c - a cancel reaches the handler that runs. */
#include "worker_fixture.h"

#define HOUR_MS INT64_C(3600000)

/* Runs until it is told why to stop, and answers the code. */
static int run_until_told(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_CANCELLED);
    EQ(bide_context_reason(context), BIDE_REASON_CANCELLED);
    leave(fixture);
    return fixture->code;
}

static struct worker_fixture *cancel_while_it_runs(bide_handler handler, int answer, uint64_t *id)
{
    struct worker_fixture *fixture = new_fixture_of(handler, NULL);
    bide_put_options options = with_ttr(HOUR_MS);
    fixture->code = answer;
    *id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL(fixture->running == 1);
    OK(bide_cancel(fixture->queue, *id));
    UNTIL(fixture->running == 0);
    return fixture;
}

/* The lease is of an hour, so it is not the next touch that tells. */
static void cancel_wakes_a_waiting_handler(void)
{
    uint64_t id;
    struct worker_fixture *fixture = cancel_while_it_runs(run_until_told, BIDE_RETRY, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
    EVENTS_ARE(fixture, id, "started cancelled");
}

static void cancelled_job_is_removed_for_every_outcome(void)
{
    static const int answers[] = {BIDE_DONE, BIDE_RETRY, BIDE_BURY, BIDE_SNOOZE, 7, BIDE_EIO};
    for (size_t i = 0; i < COUNT(answers); i++) {
        uint64_t id;
        struct worker_fixture *fixture = cancel_while_it_runs(run_until_told, answers[i], &id);
        UNTIL(state_of(fixture->queue, id) == BIDE_STATE_GONE);
        EQ(count_events(fixture, BIDE_WORK_RETRIED) + count_events(fixture, BIDE_WORK_BURIED), 0);
        EQ(fixture->runs, 1);
        free_worker(fixture);
        close_queue(fixture->queue);
    }
}

static int poll_until_told(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    int fd = bide_context_fd(context);
    CHECK(fd >= 0);
    CHECK(!readable(fd, 0));
    enter(fixture);
    CHECK(readable(fd, PATIENCE_MS));
    EQ(bide_context_reason(context), BIDE_REASON_CANCELLED);
    leave(fixture);
    return bide_context_retry(context, "cancelled");
}

static void a_cancel_makes_the_descriptor_readable(void)
{
    uint64_t id;
    struct worker_fixture *fixture = cancel_while_it_runs(poll_until_told, 0, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, 1);
}

static int look_until_told(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    UNTIL(bide_context_reason(context) == BIDE_REASON_CANCELLED);
    CODE(bide_context_touch(context), BIDE_CANCEL_WANTED);
    leave(fixture);
    return bide_context_retry(context, "cancelled");
}

static void touch_reports_a_cancel(void)
{
    uint64_t id;
    struct worker_fixture *fixture = cancel_while_it_runs(look_until_told, 0, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, 1);
}

static int finish_all_the_same(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_CANCELLED);
    leave(fixture);
    return bide_context_result(context, "finished", 8);
}

static void done_keeps_its_result_despite_a_cancel(void)
{
    struct worker_fixture *fixture = new_fixture_of(finish_all_the_same, NULL);
    bide_put_options options = with_ttr(HOUR_MS);
    bide_state state = BIDE_STATE_GONE;
    bide_buf *result = NULL;
    options.retain_ms = HOUR_MS;
    uint64_t id = enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL(fixture->running == 1);
    OK(bide_cancel(fixture->queue, id));
    OK(bide_wait(fixture->queue, id, PATIENCE_MS, &state, &result));
    EQ(state, BIDE_STATE_DONE);
    TEXT(bide_buf_data(result), bide_buf_size(result), "finished");
    bide_buf_unref(result);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void job_cancelled_before_its_reserve_never_runs(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_at_gate, NULL);
    uint64_t cancelled = enqueue(fixture, "first"), other = enqueue(fixture, "second");
    fixture->open = true;
    OK(bide_cancel(fixture->queue, cancelled));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(nth_event(fixture, BIDE_WORK_STARTED, 0)->id, other);
    EQ(fixture->runs, 1);
}

/* ---- one of many ---- */

static int run_until_told_or_opened(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    while (!fixture->open && bide_context_reason(context) == BIDE_REASON_NONE)
        nap_ms(1);
    if (bide_context_reason(context) == BIDE_REASON_NONE)
        return BIDE_DONE;
    EQ(bide_context_reason(context), BIDE_REASON_CANCELLED);
    leave(fixture);
    return bide_context_retry(context, "cancelled");
}

static void cancel_notifies_only_the_handler_of_its_job(void)
{
    bide_worker_options options = threads(10);
    struct worker_fixture *fixture = new_fixture_of(run_until_told_or_opened, &options);
    uint64_t ids[10];
    put_lots(fixture->queue, fixture->topic, COUNT(ids), NULL, ids);
    OK(bide_worker_start(fixture->worker));
    UNTIL(fixture->running == 10);
    OK(bide_cancel(fixture->queue, ids[3]));
    OK(bide_cancel(fixture->queue, ids[7]));
    UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, 2);
    EQ(fixture->running, 8);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 8);
    EVENTS_ARE(fixture, ids[3], "started cancelled");
    EVENTS_ARE(fixture, ids[4], "started done");
}

/* A cancel that comes before the handler has begun to listen is not missed. */
static void cancel_at_any_time_is_noticed(void)
{
    bide_worker_options options = threads(4);
    struct worker_fixture *fixture = new_fixture_of(run_until_told_or_opened, &options);
    OK(bide_worker_start(fixture->worker));
    for (int i = 0; i < 40; i++) {
        uint64_t id = enqueue(fixture, "body");
        if (i % 2 == 0)
            UNTIL(state_of(fixture->queue, id) == BIDE_STATE_RESERVED);
        OK(bide_cancel(fixture->queue, id));
        UNTIL(state_of(fixture->queue, id) == BIDE_STATE_GONE);
    }
    UNTIL(count_events(fixture, BIDE_WORK_CANCELLED) == count_events(fixture, BIDE_WORK_STARTED));
    CHECK(count_events(fixture, BIDE_WORK_CANCELLED) >= 20);
}

/* Nor one that comes before the worker has begun to listen. */
static void cancel_right_after_the_start_is_noticed(void)
{
    bide_worker_options options = threads(2);
    struct worker_fixture *fixture = new_fixture_of(run_until_told_or_opened, &options);
    for (int i = 1; i <= 40; i++) {
        uint64_t id = enqueue(fixture, "body");
        OK(bide_worker_start(fixture->worker));
        while (state_of(fixture->queue, id) != BIDE_STATE_RESERVED)
            continue;
        OK(bide_cancel(fixture->queue, id));
        UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, i);
        OK(bide_worker_stop(fixture->worker));
    }
}

static void restarted_worker_notices_cancels(void)
{
    struct worker_fixture *fixture = new_fixture_of(run_until_told, NULL);
    bide_put_options options = with_ttr(HOUR_MS);
    fixture->code = BIDE_RETRY;
    for (int i = 0; i < 3; i++) {
        OK(bide_worker_start(fixture->worker));
        uint64_t id = enqueue_as(fixture, "body", &options);
        UNTIL(fixture->running == 1);
        OK(bide_cancel(fixture->queue, id));
        UNTIL_EVENTS(fixture, BIDE_WORK_CANCELLED, i + 1);
        OK(bide_worker_stop(fixture->worker));
    }
}

static const struct test tests[] = {
    TEST(cancel_wakes_a_waiting_handler),
    TEST(cancelled_job_is_removed_for_every_outcome),
    TEST(a_cancel_makes_the_descriptor_readable),
    TEST(touch_reports_a_cancel),
    TEST(done_keeps_its_result_despite_a_cancel),
    TEST(job_cancelled_before_its_reserve_never_runs),
    TEST(cancel_notifies_only_the_handler_of_its_job),
    TEST(cancel_at_any_time_is_noticed),
    TEST(cancel_right_after_the_start_is_noticed),
    TEST(restarted_worker_notices_cancels),
};

const struct theme cancelled_theme = {"cancelled", tests, COUNT(tests)};
