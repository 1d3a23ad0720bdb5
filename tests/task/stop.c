/* SPDX-License-Identifier: MIT */
/* stop.c - how a worker ends, and begins again. */
#include "worker_fixture.h"

/* ---- what runs is finished ---- */

static void *open_the_gate_soon(void *arg)
{
    struct worker_fixture *fixture = arg;
    nap_ms(30);
    fixture->number = clock_us();
    fixture->open = true;
    return NULL;
}

static void stop_lets_handlers_finish_and_reserves_no_more(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 2);
    put_lots(fixture->queue, fixture->topic, 10, NULL, NULL);
    UNTIL(fixture->running == 2);
    pthread_t opener = start_thread(open_the_gate_soon, fixture);
    OK(bide_worker_stop(fixture->worker));
    CHECK(fixture->number != 0);
    EQ(fixture->running, 0);
    EQ(fixture->runs, 2);
    EQ(count_events(fixture, BIDE_WORK_DONE), 2);
    EQ(count_events(fixture, BIDE_WORK_INTERRUPTED), 0);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.ready, 8);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.reserved, 0);
    join_thread(opener);
}

static void stopped_worker_reserves_no_job(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 2);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    OK(bide_worker_stop(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    nap_ms(20);
    EQ(state_of(fixture->queue, id), BIDE_STATE_READY);
    EQ(stats_of(fixture->queue).waiting, 0);
}

static void an_idle_worker_stops(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 8);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_start(fixture->worker));
    UNTIL(stats_of(fixture->queue).waiting > 0);
    OK(bide_worker_stop(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_STARTED), 0);
}

static void stop_of_an_unstarted_worker_succeeds(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_start(fixture->worker));
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_stop(fixture->worker));
}

static void worker_can_be_restarted(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    for (int i = 1; i <= 5; i++) {
        OK(bide_worker_start(fixture->worker));
        enqueue(fixture, "body");
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, i);
        OK(bide_worker_stop(fixture->worker));
    }
}

static void handlers_can_be_added_between_two_runs(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 1);
    CODE(bide_worker_handle(fixture->worker, fresh_topic("b"), do_nothing, fixture), BIDE_EBUSY);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_handle(fixture->worker, fresh_topic("b"), do_nothing, fixture));
    OK(bide_worker_start(fixture->worker));
    put(fixture->queue, fresh_topic("b"), "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

/* ---- what does not end in time is interrupted ---- */

/* Runs until it is told to stop, and answers the code. */
static int run_until_stopped(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_STOPPING);
    EQ(bide_context_reason(context), BIDE_REASON_STOPPING);
    CHECK(readable(bide_context_fd(context), PATIENCE_MS));
    leave(fixture);
    return fixture->code == BIDE_RETRY ? bide_context_retry(context, "interrupted") : fixture->code;
}

static bide_worker_options impatient(uint32_t count)
{
    bide_worker_options options = threads(count);
    options.stop_timeout_ms = 50;
    return options;
}

static void interrupted_by(int answer)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(run_until_stopped, &options);
    bide_put_options put = with_retries(0);
    fixture->code = answer;
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue_as(fixture, "body", &put);
    UNTIL(fixture->running == 1);
    int64_t start_us = clock_us();
    OK(bide_worker_stop(fixture->worker));
    NOT_BEFORE(start_us, 50);
    EVENTS_ARE(fixture, id, "started interrupted");
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->failures, 0);
    EQ(job->fails, 0);
    EQ(job->buries, 0);
    EQ(job->releases, 0);
    CHECK(job->last_error == NULL);
    free_worker(fixture);
    close_queue(fixture->queue);
}

static void handlers_are_notified_and_jobs_given_back_after_the_timeout(void)
{
    interrupted_by(BIDE_RETRY);
}

static void interrupted_job_loses_no_retry(void)
{
    interrupted_by(BIDE_BURY);
    interrupted_by(BIDE_SNOOZE);
    interrupted_by(4711);
}

static void notified_handler_may_still_return_done(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(run_until_stopped, &options);
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->running == 1);
    OK(bide_worker_stop(fixture->worker));
    EVENTS_ARE(fixture, id, "started done");
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static void interrupted_job_is_a_first_attempt_elsewhere(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(run_until_stopped, &options);
    struct worker_fixture *other = new_fixture(fixture->queue, NULL);
    bide_put_options put = with_retries(0);
    fixture->code = BIDE_RETRY;
    OK(bide_worker_handle(other->worker, fixture->topic, do_nothing, other));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue_as(fixture, "body", &put);
    UNTIL(fixture->running == 1);
    OK(bide_worker_start(other->worker));
    OK(bide_worker_stop(fixture->worker));
    UNTIL_EVENTS(other, BIDE_WORK_DONE, 1);
    EQ(nth_event(other, BIDE_WORK_DONE, 0)->id, id);
    EQ(nth_event(other, BIDE_WORK_DONE, 0)->attempt, 1);
}

static void handlers_that_finish_in_time_are_not_interrupted(void)
{
    bide_worker_options options = impatient(4);
    struct worker_fixture *fixture = new_fixture_of(run_until_stopped, &options);
    fixture->code = BIDE_RETRY;
    OK(bide_worker_handle(fixture->worker, fresh_topic("b"), do_nothing, fixture));
    OK(bide_worker_start(fixture->worker));
    put_lots(fixture->queue, fixture->topic, 2, NULL, NULL);
    put_lots(fixture->queue, fresh_topic("b"), 20, NULL, NULL);
    UNTIL(fixture->running == 2);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 20);
    OK(bide_worker_stop(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_INTERRUPTED), 2);
    EQ(count_events(fixture, BIDE_WORK_DONE), 20);
}

static int wait_for_the_stop(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    fixture->code = bide_context_wait(context, BIDE_FOREVER);
    enter(fixture);
    wait_at_gate(fixture);
    EQ(bide_context_reason(context), fixture->code);
    return bide_context_retry(context, "cancelled, then stopped");
}

static int open_when_stopped(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_STOPPING);
    fixture->open = true;
    return bide_context_retry(context, "stopped");
}

/* Of two reasons it gets the stronger one. */
static void cancelled_handler_keeps_its_reason_at_a_stop(void)
{
    bide_worker_options options = impatient(2);
    struct worker_fixture *fixture = new_fixture_of(wait_for_the_stop, &options);
    OK(bide_worker_handle(fixture->worker, fresh_topic("b"), open_when_stopped, fixture));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL(state_of(fixture->queue, id) == BIDE_STATE_RESERVED);
    OK(bide_cancel(fixture->queue, id));
    UNTIL(fixture->running == 1);
    EQ(fixture->code, BIDE_REASON_CANCELLED);
    put(fixture->queue, fresh_topic("b"), "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_STARTED, 2);
    OK(bide_worker_stop(fixture->worker));
    EVENTS_ARE(fixture, id, "started cancelled");
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

/* ---- who does not listen ---- */

static int ignore_the_stop(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    int outcome = do_at_gate(context, body, fixture);
    fixture->code = bide_context_reason(context);
    fixture->number = bide_context_left_ms(context);
    return outcome;
}

static void a_handler_that_ignores_the_stop_loses_its_job(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(ignore_the_stop, &options);
    bide_put_options put = with_retries(0);
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue_as(fixture, "body", &put);
    UNTIL(fixture->running == 1);
    CODE(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    EQ(count_events_of(fixture, BIDE_WORK_INTERRUPTED, id), 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_READY);
    EQ(stat_job(fixture->queue, id)->failures, 0);
    CODE(bide_worker_start(fixture->worker), BIDE_EBUSY);
    CODE(bide_worker_handle(fixture->worker, fresh_topic("b"), do_nothing, fixture), BIDE_EBUSY);
    const bide_job *job = take(fixture->queue, fixture->topic);
    fixture->open = true;
    UNTIL(fixture->running == 0);
    free_worker(fixture);
    EQ(fixture->code, BIDE_REASON_LEASE_LOST);
    EQ(fixture->number, 0);
    EVENTS_ARE(fixture, id, "started interrupted");
    EQ(state_of(fixture->queue, id), BIDE_STATE_RESERVED);
    OK(bide_delete(fixture->queue, id, job->token));
}

static void stop_reports_a_job_whose_lease_had_ended_with_the_cause(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(do_at_gate, &options);
    bide_put_options put = with_ttr(50);
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue_as(fixture, "body", &put);
    UNTIL_EVENTS(fixture, BIDE_WORK_OVERRAN, 1);
    CODE(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    EVENTS_ARE(fixture, id, "started overran given up");
    EQ(nth_event(fixture, BIDE_WORK_GIVEN_UP, 0)->code, BIDE_LEASE_LOST);
    CHECK(nth_event(fixture, BIDE_WORK_GIVEN_UP, 0)->text[0] != '\0');
}

static void a_worker_starts_again_when_the_last_handler_has_returned(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(do_at_gate, &options);
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->running == 1);
    CODE(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    fixture->open = true;
    UNTIL(bide_worker_start(fixture->worker) == BIDE_OK);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
    EQ(fixture->runs, 2);
}

static void a_free_waits_for_a_handler_that_ignores_it(void)
{
    bide_worker_options options = impatient(1);
    struct worker_fixture *fixture = new_fixture_of(do_at_gate, &options);
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL(fixture->running == 1);
    CODE(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    pthread_t opener = start_thread(open_the_gate_soon, fixture);
    free_worker(fixture);
    CHECK(fixture->number != 0);
    EQ(fixture->running, 0);
    EQ(state_of(fixture->queue, id), BIDE_STATE_READY);
    join_thread(opener);
}

static void a_worker_can_be_freed_while_it_runs(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 2);
    put_lots(fixture->queue, fixture->topic, 4, NULL, NULL);
    UNTIL(fixture->running == 2);
    pthread_t opener = start_thread(open_the_gate_soon, fixture);
    free_worker(fixture);
    EQ(count_events(fixture, BIDE_WORK_DONE), 2);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.ready, 2);
    join_thread(opener);
}

/* ---- from inside, and from the queue ---- */

static int stop_myself(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    (void)body;
    CODE(bide_worker_stop(fixture->worker), BIDE_ECALLBACK);
    CODE(bide_worker_free(fixture->worker), BIDE_ECALLBACK);
    CODE(bide_worker_start(fixture->worker), BIDE_ECALLBACK);
    CODE(bide_worker_run(fixture->worker), BIDE_ECALLBACK);
    enter(fixture);
    return BIDE_DONE;
}

static void a_handler_cannot_stop_start_or_free_its_worker(void)
{
    struct worker_fixture *fixture = start_fixture(stop_myself, 1);
    enqueue(fixture, "body");
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 2);
    EQ(fixture->runs, 2);
}

static int quit_at_the_third(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) == 3)
        OK(fixture->code ? bide_worker_quit(fixture->worker) : bide_context_quit(context));
    return BIDE_DONE;
}

static void a_handler_can_ask_its_worker_to_quit(void)
{
    for (int by_worker = 0; by_worker < 2; by_worker++) {
        struct worker_fixture *fixture = new_fixture_of(quit_at_the_third, NULL);
        fixture->code = by_worker;
        put_lots(fixture->queue, fixture->topic, 10, NULL, NULL);
        OK(bide_worker_start(fixture->worker));
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 3);
        OK(bide_worker_stop(fixture->worker));
        EQ(fixture->runs, 3);
        EQ(topic_of(fixture->queue, fixture->topic).jobs.ready, 7);
        OK(bide_worker_start(fixture->worker));
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 10);
        free_worker(fixture);
        close_queue(fixture->queue);
    }
}

static void a_shutdown_of_the_queue_ends_the_work_but_not_what_runs(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 1);
    put_lots(fixture->queue, fixture->topic, 3, NULL, NULL);
    UNTIL(fixture->running == 1);
    OK(bide_shutdown(fixture->queue));
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    OK(bide_worker_stop(fixture->worker));
    EQ(fixture->runs, 1);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.ready, 2);
}

static void *stop_it(void *arg)
{
    struct worker_fixture *fixture = arg;
    OK(bide_worker_stop(fixture->worker));
    return NULL;
}

static void several_threads_may_stop_a_worker(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 2);
    pthread_t stoppers[3];
    enqueue(fixture, "body");
    UNTIL(fixture->running == 1);
    for (size_t i = 0; i < COUNT(stoppers); i++)
        stoppers[i] = start_thread(stop_it, fixture);
    fixture->open = true;
    for (size_t i = 0; i < COUNT(stoppers); i++)
        join_thread(stoppers[i]);
    EQ(fixture->running, 0);
    EQ(count_events(fixture, BIDE_WORK_DONE), 1);
}

static const struct test tests[] = {
    TEST(stop_lets_handlers_finish_and_reserves_no_more),
    TEST(stopped_worker_reserves_no_job),
    TEST(an_idle_worker_stops),
    TEST(stop_of_an_unstarted_worker_succeeds),
    TEST(worker_can_be_restarted),
    TEST(handlers_can_be_added_between_two_runs),
    TEST(handlers_are_notified_and_jobs_given_back_after_the_timeout),
    TEST(interrupted_job_loses_no_retry),
    TEST(notified_handler_may_still_return_done),
    TEST(interrupted_job_is_a_first_attempt_elsewhere),
    TEST(handlers_that_finish_in_time_are_not_interrupted),
    TEST(cancelled_handler_keeps_its_reason_at_a_stop),
    TEST(a_handler_that_ignores_the_stop_loses_its_job),
    TEST(stop_reports_a_job_whose_lease_had_ended_with_the_cause),
    TEST(a_worker_starts_again_when_the_last_handler_has_returned),
    TEST(a_free_waits_for_a_handler_that_ignores_it),
    TEST(a_worker_can_be_freed_while_it_runs),
    TEST(a_handler_cannot_stop_start_or_free_its_worker),
    TEST(a_handler_can_ask_its_worker_to_quit),
    TEST(a_shutdown_of_the_queue_ends_the_work_but_not_what_runs),
    TEST(several_threads_may_stop_a_worker),
};

const struct theme stop_theme = {"stop", tests, COUNT(tests)};
