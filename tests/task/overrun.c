/* SPDX-License-Identifier: MIT */
/* overrun.c - handlers that take longer than they may. */
#include "worker_fixture.h"

/* Overrun at first; when the lease is seen to be lost, that. */
static bool is_late(bide_reason reason)
{
    return reason == BIDE_REASON_OVERRUN || reason == BIDE_REASON_LEASE_LOST;
}

/* The first run waits until its time is over and the gate is open, the second is done at once. */
static int overrun_once(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) > 1)
        return BIDE_DONE;
    CHECK(is_late(bide_context_wait(context, BIDE_FOREVER)));
    CHECK(is_late(bide_context_reason(context)));
    EQ(bide_context_left_ms(context), 0);
    fixture->number = clock_us();
    wait_at_gate(fixture);
    return fixture->code;
}

static struct worker_fixture *overrun(int64_t ttr_ms, int answer, uint64_t *id)
{
    struct worker_fixture *fixture = start_fixture(overrun_once, 2);
    bide_put_options options = with_ttr(ttr_ms);
    fixture->code = answer;
    int64_t start_us = clock_us();
    *id = enqueue_as(fixture, "body", &options);
    UNTIL(fixture->number != 0);
    CHECK(fixture->number - start_us >= ttr_ms * 1000);
    UNTIL_EVENTS(fixture, BIDE_WORK_OVERRAN, 1);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    return fixture;
}

static void overrunning_handler_is_notified_and_the_job_runs_elsewhere(void)
{
    uint64_t id;
    struct worker_fixture *fixture = overrun(100, BIDE_DONE, &id);
    EQ(fixture->runs, 2);
    EQ(nth_event(fixture, BIDE_WORK_OVERRAN, 0)->id, id);
    EQ(count_events(fixture, BIDE_WORK_LOST), 0);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    EQ(nth_event(fixture, BIDE_WORK_LOST, 0)->id, id);
    EQ(count_events(fixture, BIDE_WORK_DONE), 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

/* Whatever it answers too late is refused. */
static void late_ack_is_rejected(void)
{
    static const int answers[] = {BIDE_RETRY, BIDE_BURY, BIDE_SNOOZE, 5};
    for (size_t i = 0; i < COUNT(answers); i++) {
        uint64_t id;
        struct worker_fixture *fixture = overrun(50, answers[i], &id);
        fixture->open = true;
        UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
        EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
        EQ(count_events(fixture, BIDE_WORK_RETRIED) + count_events(fixture, BIDE_WORK_BURIED), 0);
        free_worker(fixture);
    }
}

static int lose_to_a_holder(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    CHECK(is_late(bide_context_wait(context, BIDE_FOREVER)));
    enter(fixture);
    wait_at_gate(fixture);
    CODE(bide_context_touch(context), BIDE_LEASE_LOST);
    EQ(bide_context_reason(context), BIDE_REASON_LEASE_LOST);
    return BIDE_DONE;
}

static void late_ack_does_not_affect_the_current_holder(void)
{
    struct worker_fixture *fixture = start_fixture(lose_to_a_holder, 1);
    bide_put_options options = with_ttr(50);
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL(fixture->runs == 1);
    UNTIL(state_of(fixture->queue, id) == BIDE_STATE_READY);
    const bide_job *job = take(fixture->queue, fixture->topic);
    OK(bide_touch(fixture->queue, id, job->token, 60000, NULL));
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_RESERVED);
    OK(bide_delete(fixture->queue, id, job->token));
}

static int poll_for_the_end(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) > 1)
        return BIDE_DONE;
    int fd = bide_context_fd(context);
    CHECK(fd >= 0);
    EQ(bide_context_fd(context), fd);
    CHECK(readable(fd, PATIENCE_MS));
    CHECK(is_late(bide_context_reason(context)));
    CHECK(readable(fd, 0));
    fixture->number = clock_us();
    return BIDE_DONE;
}

static void context_fd_is_readable_after_the_time_limit(void)
{
    struct worker_fixture *fixture = start_fixture(poll_for_the_end, 2);
    bide_put_options options = with_ttr(100);
    int64_t start_us = clock_us();
    enqueue_as(fixture, "body", &options);
    UNTIL(fixture->number != 0);
    CHECK(fixture->number - start_us >= 100000);
}

static int ask_for_the_descriptor_too_late(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) > 1)
        return BIDE_DONE;
    UNTIL(bide_context_reason(context) != BIDE_REASON_NONE);
    CHECK(readable(bide_context_fd(context), PATIENCE_MS));
    fixture->number = 1;
    return BIDE_DONE;
}

static void context_fd_created_after_the_time_limit_is_readable(void)
{
    struct worker_fixture *fixture = start_fixture(ask_for_the_descriptor_too_late, 2);
    bide_put_options options = with_ttr(50);
    enqueue_as(fixture, "body", &options);
    UNTIL(fixture->number == 1);
}

/* With a limit of retries a lost lease is a failure. */
static void overrun_is_a_failure_with_a_retry_limit(void)
{
    struct worker_fixture *fixture = start_fixture(overrun_once, 2);
    bide_put_options options = with_retries(0);
    options.ttr_ms = 50;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL(state_of(fixture->queue, id) == BIDE_STATE_BURIED);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->timeouts, 1);
    EQ(job->failures, 1);
    ERROR_OF(job, "ttr ran out");
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_BURIED);
    EQ(fixture->runs, 1);
}

/* ---- another thread looks ---- */

static void *wait_for_the_end(void *arg)
{
    CHECK(is_late(bide_context_wait(arg, BIDE_FOREVER)));
    CHECK(is_late(bide_context_reason(arg)));
    return NULL;
}

static int let_another_thread_wait(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) > 1)
        return BIDE_DONE;
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(wait_for_the_end, context);
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    fixture->number = 1;
    return BIDE_DONE;
}

static void other_threads_may_wait_for_the_reason(void)
{
    struct worker_fixture *fixture = start_fixture(let_another_thread_wait, 2);
    bide_put_options options = with_ttr(60);
    enqueue_as(fixture, "body", &options);
    UNTIL(fixture->number == 1);
}

static const struct test tests[] = {
    TEST(overrunning_handler_is_notified_and_the_job_runs_elsewhere),
    TEST(late_ack_is_rejected),
    TEST(late_ack_does_not_affect_the_current_holder),
    TEST(context_fd_is_readable_after_the_time_limit),
    TEST(context_fd_created_after_the_time_limit_is_readable),
    TEST(overrun_is_a_failure_with_a_retry_limit),
    TEST(other_threads_may_wait_for_the_reason),
};

const struct theme overrun_theme = {"overrun", tests, COUNT(tests)};
