/* SPDX-License-Identifier: MIT */
/* middleware.c - functions around every handler. */
#include "worker_fixture.h"

#include <string.h>

/* What was run, in order, one letter each. */
static struct {
    pthread_mutex_t lock;
    char letters[64];
} trail = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void walk(char letter)
{
    pthread_mutex_lock(&trail.lock);
    size_t size = strlen(trail.letters);
    CHECK(size + 1 < sizeof trail.letters);
    trail.letters[size] = letter;
    trail.letters[size + 1] = '\0';
    pthread_mutex_unlock(&trail.lock);
}

#define TRAIL(want) TEXT(trail.letters, strlen(trail.letters), (want))

static int around(bide_context *context, void *arg)
{
    const char *letters = arg;
    walk(letters[0]);
    int outcome = bide_context_next(context);
    walk(letters[1]);
    return outcome;
}

static int handle(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    walk('.');
    enter(fixture);
    return fixture->code == BIDE_RETRY ? bide_context_retry(context, "wrong") : fixture->code;
}

static struct worker_fixture *crew_with(bide_middleware middleware, void *arg, int answer)
{
    struct worker_fixture *fixture = new_fixture_of(handle, NULL);
    fixture->code = answer;
    OK(bide_worker_use(fixture->worker, middleware, arg ? arg : fixture));
    OK(bide_worker_start(fixture->worker));
    return fixture;
}

static void first_added_middleware_is_outermost(void)
{
    struct worker_fixture *fixture = new_fixture_of(handle, NULL);
    static char a[] = "aA", b[] = "bB", c[] = "cC";
    OK(bide_worker_use(fixture->worker, around, a));
    OK(bide_worker_use(fixture->worker, around, b));
    OK(bide_worker_use(fixture->worker, around, c));
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    TRAIL("abc.CBA");
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 2);
    TRAIL("abc.CBAabc.CBA");
}

static void middleware_wraps_handlers_of_all_topics(void)
{
    struct worker_fixture *fixture = new_fixture_of(handle, NULL);
    static char a[] = "aA";
    OK(bide_worker_use(fixture->worker, around, a));
    OK(bide_worker_handle(fixture->worker, fresh_topic("b"), handle, fixture));
    put(fixture->queue, fixture->topic, "body");
    put(fixture->queue, fresh_topic("b"), "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 2);
    TRAIL("a.Aa.A");
}

static int look_at_outcome(bide_context *context, void *arg)
{
    struct worker_fixture *fixture = arg;
    EQ(bide_context_attempt(context), 1);
    CHECK(bide_context_job(context)->id != 0);
    fixture->number = bide_context_next(context);
    return (int)fixture->number;
}

static void middleware_sees_the_outcome(void)
{
    static const int answers[] = {BIDE_DONE, BIDE_RETRY, BIDE_BURY, 4711};
    static const bide_work_kind kinds[] = {BIDE_WORK_DONE, BIDE_WORK_RETRIED, BIDE_WORK_BURIED,
                                           BIDE_WORK_RETRIED};
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct worker_fixture *fixture = crew_with(look_at_outcome, NULL, answers[i]);
        enqueue(fixture, "body");
        UNTIL_EVENTS(fixture, kinds[i], 1);
        EQ(fixture->number, answers[i]);
        free_worker(fixture);
        close_queue(fixture->queue);
    }
}

static int bury_failures(bide_context *context, void *arg)
{
    (void)arg;
    int outcome = bide_context_next(context);
    return outcome == BIDE_DONE ? outcome : bide_context_bury(context, "at the first failure");
}

static void middleware_may_change_the_outcome(void)
{
    struct worker_fixture *fixture = crew_with(bury_failures, NULL, BIDE_RETRY);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    ERROR_OF(job, "at the first failure");
    EQ(fixture->runs, 1);
}

static int forgive(bide_context *context, void *arg)
{
    (void)arg;
    CHECK(bide_context_next(context) != BIDE_DONE);
    return BIDE_DONE;
}

static void middleware_may_turn_a_failure_into_done(void)
{
    struct worker_fixture *fixture = crew_with(forgive, NULL, BIDE_RETRY);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static int not_today(bide_context *context, void *arg)
{
    struct worker_fixture *fixture = arg;
    fixture->number++;
    return bide_context_snooze(context, 3600000);
}

static void middleware_may_skip_the_handler(void)
{
    struct worker_fixture *fixture = crew_with(not_today, NULL, BIDE_DONE);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_SNOOZED, 1);
    EQ(fixture->runs, 0);
    EQ(fixture->number, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_DELAYED);
}

static int try_twice(bide_context *context, void *arg)
{
    (void)arg;
    int outcome = bide_context_next(context);
    return outcome == BIDE_DONE ? outcome : bide_context_next(context);
}

static int fail_at_first(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    walk('.');
    if (enter(fixture) == 1)
        return bide_context_retry_in(context, 3600000, "at first");
    return fixture->code;
}

static void middleware_may_run_the_handler_twice(void)
{
    struct worker_fixture *fixture = new_fixture_of(fail_at_first, NULL);
    static char a[] = "aA", b[] = "bB";
    OK(bide_worker_use(fixture->worker, around, a));
    OK(bide_worker_use(fixture->worker, try_twice, NULL));
    OK(bide_worker_use(fixture->worker, around, b));
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    TRAIL("ab.Bb.BA");
}

static void second_run_resets_the_outcome_of_the_first(void)
{
    struct worker_fixture *fixture = new_fixture_of(fail_at_first, NULL);
    fixture->code = 4711;
    OK(bide_worker_use(fixture->worker, try_twice, NULL));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    EQ(fixture->runs, 2);
    const bide_job *job = stat_job(fixture->queue, id);
    ERROR_OF(job, "the handler answered 4711");
    BETWEEN(job->delay_ms, 5000, 7500);
}

static int add_a_result(bide_context *context, void *arg)
{
    (void)arg;
    int outcome = bide_context_next(context);
    OK(bide_context_result(context, "by the middleware", 17));
    return outcome;
}

static void middleware_may_set_a_result(void)
{
    struct worker_fixture *fixture = crew_with(add_a_result, NULL, BIDE_DONE);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    TEXT(job->result, job->result_size, "by the middleware");
}

static int pass_through(bide_context *context, void *arg)
{
    struct worker_fixture *fixture = arg;
    fixture->number++;
    return bide_context_next(context);
}

static void at_most_64_middleware_functions_are_accepted(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    for (int i = 0; i < BIDE_WORKER_MIDDLEWARE_MAX; i++)
        OK(bide_worker_use(fixture->worker, pass_through, fixture));
    CODE(bide_worker_use(fixture->worker, pass_through, fixture), BIDE_EINVAL);
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->number, BIDE_WORKER_MIDDLEWARE_MAX);
}

static const struct test tests[] = {
    TEST(first_added_middleware_is_outermost),
    TEST(middleware_wraps_handlers_of_all_topics),
    TEST(middleware_sees_the_outcome),
    TEST(middleware_may_change_the_outcome),
    TEST(middleware_may_turn_a_failure_into_done),
    TEST(middleware_may_skip_the_handler),
    TEST(middleware_may_run_the_handler_twice),
    TEST(second_run_resets_the_outcome_of_the_first),
    TEST(middleware_may_set_a_result),
    TEST(at_most_64_middleware_functions_are_accepted),
};

const struct theme middleware_theme = {"middleware", tests, COUNT(tests)};
