/* SPDX-License-Identifier: MIT */
/* run.c - calls that return when the work is over. */
#include "worker_fixture.h"

#include <signal.h>
#include <unistd.h>

/* ---- the simple form ---- */

struct call {
    bide *queue;
    const char *topic;
    pthread_t caller;
    _Atomic int runs;
    int quit_at;
    uint64_t last_id;
};

static int count_calls(bide_context *context, const bide_slice *body, void *arg)
{
    struct call *call = arg;
    (void)body;
    CHECK(pthread_equal(pthread_self(), call->caller));
    CHECK(bide_context_queue(context) == call->queue);
    CHECK(bide_context_job(context)->id > call->last_id);
    call->last_id = bide_context_job(context)->id;
    if (++call->runs == call->quit_at)
        OK(bide_context_quit(context));
    return BIDE_DONE;
}

static struct call new_call(int quit_at)
{
    return (struct call){.queue = open_queue(""),
                         .topic = fresh_topic("a"),
                         .caller = pthread_self(),
                         .quit_at = quit_at};
}

static void bide_run_calls_back_on_the_calling_thread_until_it_quits(void)
{
    struct call call = new_call(3);
    put_lots(call.queue, call.topic, 5, NULL, NULL);
    OK(bide_run(call.queue, call.topic, count_calls, &call));
    EQ(call.runs, 3);
    EQ(topic_of(call.queue, call.topic).jobs.ready, 2);
    EQ(topic_of(call.queue, call.topic).jobs.reserved, 0);
}

static void bide_run_can_be_called_again(void)
{
    struct call call = new_call(1);
    put_lots(call.queue, call.topic, 3, NULL, NULL);
    for (int i = 1; i <= 3; i++) {
        call.quit_at = i;
        OK(bide_run(call.queue, call.topic, count_calls, &call));
        EQ(call.runs, i);
    }
    EQ(topic_of(call.queue, call.topic).jobs.ready, 0);
}

static void *feed_and_shut_down(void *arg)
{
    struct call *call = arg;
    UNTIL(stats_of(call->queue).waiting > 0);
    put(call->queue, call->topic, "body");
    UNTIL(call->runs == 1);
    put(call->queue, call->topic, "body");
    UNTIL(call->runs == 2);
    OK(bide_shutdown(call->queue));
    return NULL;
}

static void bide_run_waits_for_jobs_and_ends_with_the_queue(void)
{
    struct call call = new_call(0);
    pthread_t feeder = start_thread(feed_and_shut_down, &call);
    OK(bide_run(call.queue, call.topic, count_calls, &call));
    EQ(call.runs, 2);
    join_thread(feeder);
}

static void bide_run_on_a_queue_that_is_shut_down_ends_at_once(void)
{
    struct call call = new_call(0);
    put(call.queue, call.topic, "body");
    OK(bide_shutdown(call.queue));
    OK(bide_run(call.queue, call.topic, count_calls, &call));
    EQ(call.runs, 0);
}

static int fail_twice(bide_context *context, const bide_slice *body, void *arg)
{
    struct call *call = arg;
    (void)body;
    EQ(bide_context_attempt(context), ++call->runs);
    if (call->runs < 3)
        return bide_context_retry_in(context, 10, "not yet");
    OK(bide_context_quit(context));
    return BIDE_DONE;
}

static void bide_run_retries_failed_jobs(void)
{
    struct call call = new_call(0);
    uint64_t id = put(call.queue, call.topic, "body");
    OK(bide_run(call.queue, call.topic, fail_twice, &call));
    EQ(call.runs, 3);
    EQ(state_of(call.queue, id), BIDE_STATE_GONE);
}

static void bide_run_rejects_invalid_arguments(void)
{
    bide *queue = open_queue("");
    CODE(bide_run(NULL, fresh_topic("a"), do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_run(queue, NULL, do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_run(queue, "-", do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_run(queue, fresh_topic("a"), NULL, NULL), BIDE_EINVAL);
}

/* ---- until a signal ---- */

static struct sigaction action_of(int number)
{
    struct sigaction action;
    CHECK(sigaction(number, NULL, &action) == 0);
    return action;
}

/* A shell that starts a program in the background has it ignore SIGINT. */
static void set_action(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void *signal_when_it_has_worked(void *arg)
{
    struct worker_fixture *fixture = arg;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, fixture->runs + 1);
    CHECK(kill(getpid(), fixture->code) == 0);
    return NULL;
}

static void ends_by_signal(int number)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    fixture->code = number;
    set_action(number, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        enqueue(fixture, "body");
        pthread_t signaller = start_thread(signal_when_it_has_worked, fixture);
        OK(bide_worker_run(fixture->worker));
        join_thread(signaller);
        fixture->runs++;
        CHECK(action_of(number).sa_handler == SIG_DFL);
    }
    EQ(count_events(fixture, BIDE_WORK_DONE), 3);
}

static void a_worker_that_is_run_ends_with_SIGTERM(void)
{
    ends_by_signal(SIGTERM);
}

static void a_worker_that_is_run_ends_with_SIGINT(void)
{
    ends_by_signal(SIGINT);
}

static int signal_and_quit(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    CHECK(kill(getpid(), SIGINT) == 0);
    nap_ms(10);
    if (enter(fixture) == 3)
        OK(bide_context_quit(context));
    return BIDE_DONE;
}

static void a_signal_that_is_ignored_stays_so(void)
{
    struct worker_fixture *fixture = new_fixture_of(signal_and_quit, NULL);
    set_action(SIGINT, SIG_IGN);
    put_lots(fixture->queue, fixture->topic, 5, NULL, NULL);
    OK(bide_worker_run(fixture->worker));
    EQ(fixture->runs, 3);
    CHECK(action_of(SIGINT).sa_handler == SIG_IGN);
}

static void own_handler(int number)
{
    (void)number;
}

static int take_over_SIGTERM(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    set_action(SIGTERM, own_handler);
    OK(bide_context_quit(context));
    return BIDE_DONE;
}

static void signal_handler_installed_during_run_is_kept(void)
{
    static void (*const before[])(int) = {SIG_IGN, SIG_DFL};
    struct worker_fixture *fixture = new_fixture_of(take_over_SIGTERM, NULL);
    for (size_t i = 0; i < COUNT(before); i++) {
        set_action(SIGTERM, before[i]);
        enqueue(fixture, "body");
        OK(bide_worker_run(fixture->worker));
        CHECK(action_of(SIGTERM).sa_handler == own_handler);
    }
}

static void *run_it(void *arg)
{
    struct worker_fixture *fixture = arg;
    OK(bide_worker_run(fixture->worker));
    fixture->number = 1;
    return NULL;
}

static void cancelled_thread_runs_its_worker_until_that_quits(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    pthread_t runner = start_thread(run_it, fixture);
    pthread_cancel(runner);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    OK(bide_worker_quit(fixture->worker));
    join_thread(runner);
    EQ(fixture->number, 1);
}

static int cancel_own_thread(bide_context *context, const bide_slice *body, void *arg)
{
    struct call *call = arg;
    (void)body;
    CHECK(pthread_cancel(pthread_self()) == 0);
    nap_ms(1); /* a cancellation point elsewhere */
    call->runs++;
    OK(bide_context_quit(context));
    return BIDE_DONE;
}

static void *run_simply(void *arg)
{
    struct call *call = arg;
    OK(bide_run(call->queue, call->topic, cancel_own_thread, call));
    call->runs++;
    return NULL;
}

static void handlers_run_with_cancellation_disabled(void)
{
    struct call call = new_call(1);
    put_lots(call.queue, call.topic, 1, NULL, NULL);
    join_thread(start_thread(run_simply, &call));
    EQ(call.runs, 2);
    CHECK(!topic_exists(call.queue, call.topic));
}

static void a_signal_ends_all_that_are_run(void)
{
    bide *queue = open_queue("");
    struct worker_fixture *fixtures[3];
    pthread_t runners[COUNT(fixtures)];
    set_action(SIGTERM, SIG_DFL);
    for (size_t i = 0; i < COUNT(fixtures); i++) {
        fixtures[i] = new_fixture(queue, NULL);
        OK(bide_worker_handle(fixtures[i]->worker, fixtures[i]->topic, do_at_gate, fixtures[i]));
        runners[i] = start_thread(run_it, fixtures[i]);
        enqueue(fixtures[i], "body");
    }
    UNTIL(fixtures[0]->running + fixtures[1]->running + fixtures[2]->running == 3);
    CHECK(kill(getpid(), SIGTERM) == 0);
    for (size_t i = 0; i < COUNT(fixtures); i++)
        fixtures[i]->open = true;
    for (size_t i = 0; i < COUNT(fixtures); i++) {
        join_thread(runners[i]);
        EQ(count_events(fixtures[i], BIDE_WORK_DONE), 1);
    }
    CHECK(action_of(SIGTERM).sa_handler == SIG_DFL);
}

/* A supervisor may say it twice; what runs is finished all the same. */
static int hear_SIGTERM_again(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    enter(arg);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap_ms(20);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap_ms(20);
    return BIDE_DONE;
}

static void a_second_SIGTERM_does_not_end_the_process(void)
{
    struct worker_fixture *fixture = new_fixture_of(hear_SIGTERM_again, NULL);
    set_action(SIGTERM, SIG_DFL);
    enqueue(fixture, "body");
    OK(bide_worker_run(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_DONE), 1);
}

static int quit_now(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    enter(arg);
    OK(bide_context_quit(context));
    return BIDE_DONE;
}

static void a_worker_that_is_run_ends_when_a_handler_quits(void)
{
    struct worker_fixture *fixture = new_fixture_of(quit_now, NULL);
    put_lots(fixture->queue, fixture->topic, 3, NULL, NULL);
    for (int i = 1; i <= 3; i++) {
        OK(bide_worker_run(fixture->worker));
        EQ(fixture->runs, i);
        EQ(count_events(fixture, BIDE_WORK_DONE), i);
    }
}

static int shut_down_now(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    enter(arg);
    OK(bide_shutdown(bide_context_queue(context)));
    return BIDE_DONE;
}

static void a_worker_that_is_run_ends_with_the_queue(void)
{
    bide_worker_options options = threads(4);
    struct worker_fixture *fixture = new_fixture_of(shut_down_now, &options);
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_run(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_DONE), 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static void *quit_from_outside(void *arg)
{
    struct worker_fixture *fixture = arg;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    OK(bide_worker_quit(fixture->worker));
    return NULL;
}

static void running_worker_ends_when_any_thread_quits_it(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    enqueue(fixture, "body");
    pthread_t quitter = start_thread(quit_from_outside, fixture);
    OK(bide_worker_run(fixture->worker));
    join_thread(quitter);
    EQ(stats_of(fixture->queue).waiting, 0);
}

static void a_worker_that_runs_cannot_be_run(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 1);
    CODE(bide_worker_run(fixture->worker), BIDE_EBUSY);
    CODE(bide_worker_start(fixture->worker), BIDE_EBUSY);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static const struct test tests[] = {
    TEST(bide_run_calls_back_on_the_calling_thread_until_it_quits),
    TEST(bide_run_can_be_called_again),
    TEST(bide_run_waits_for_jobs_and_ends_with_the_queue),
    TEST(bide_run_on_a_queue_that_is_shut_down_ends_at_once),
    TEST(bide_run_retries_failed_jobs),
    TEST(bide_run_rejects_invalid_arguments),
    TEST(a_worker_that_is_run_ends_with_SIGTERM),
    TEST(a_worker_that_is_run_ends_with_SIGINT),
    TEST(a_signal_that_is_ignored_stays_so),
    TEST(signal_handler_installed_during_run_is_kept),
    TEST(cancelled_thread_runs_its_worker_until_that_quits),
    TEST(handlers_run_with_cancellation_disabled),
    TEST(a_signal_ends_all_that_are_run),
    TEST(a_second_SIGTERM_does_not_end_the_process),
    TEST(a_worker_that_is_run_ends_when_a_handler_quits),
    TEST(a_worker_that_is_run_ends_with_the_queue),
    TEST(running_worker_ends_when_any_thread_quits_it),
    TEST(a_worker_that_runs_cannot_be_run),
};

const struct theme run_theme = {"run", tests, COUNT(tests)};
