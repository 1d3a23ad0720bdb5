/* SPDX-License-Identifier: MIT */
/* middleware.c - functions around every handler. */
#include "crew.h"

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
    struct crew *crew = arg;
    (void)body;
    walk('.');
    enter(crew);
    return crew->code == BIDE_RETRY ? bide_context_retry(context, "wrong") : crew->code;
}

static struct crew *crew_with(bide_middleware middleware, void *arg, int answer)
{
    struct crew *crew = new_crew_of(handle, NULL);
    crew->code = answer;
    OK(bide_worker_use(crew->worker, middleware, arg ? arg : crew));
    OK(bide_worker_start(crew->worker));
    return crew;
}

static void the_first_that_was_added_is_the_outermost(void)
{
    struct crew *crew = new_crew_of(handle, NULL);
    static char a[] = "aA", b[] = "bB", c[] = "cC";
    OK(bide_worker_use(crew->worker, around, a));
    OK(bide_worker_use(crew->worker, around, b));
    OK(bide_worker_use(crew->worker, around, c));
    OK(bide_worker_start(crew->worker));
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    TRAIL("abc.CBA");
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 2);
    TRAIL("abc.CBAabc.CBA");
}

static void it_is_around_the_handlers_of_all_topics(void)
{
    struct crew *crew = new_crew_of(handle, NULL);
    static char a[] = "aA";
    OK(bide_worker_use(crew->worker, around, a));
    OK(bide_worker_handle(crew->worker, fresh_topic("b"), handle, crew));
    put(crew->queue, crew->topic, "body");
    put(crew->queue, fresh_topic("b"), "body");
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 2);
    TRAIL("a.Aa.A");
}

static int look_at_outcome(bide_context *context, void *arg)
{
    struct crew *crew = arg;
    EQ(bide_context_attempt(context), 1);
    CHECK(bide_context_job(context)->id != 0);
    crew->number = bide_context_next(context);
    return (int)crew->number;
}

static void it_sees_the_outcome(void)
{
    static const int answers[] = {BIDE_DONE, BIDE_RETRY, BIDE_BURY, 4711};
    static const bide_work_kind kinds[] = {BIDE_WORK_DONE, BIDE_WORK_RETRIED, BIDE_WORK_BURIED,
                                           BIDE_WORK_RETRIED};
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct crew *crew = crew_with(look_at_outcome, NULL, answers[i]);
        give(crew, "body");
        UNTIL_TOLD(crew, kinds[i], 1);
        EQ(crew->number, answers[i]);
        free_worker(crew);
        close_queue(crew->queue);
    }
}

static int bury_failures(bide_context *context, void *arg)
{
    (void)arg;
    int outcome = bide_context_next(context);
    return outcome == BIDE_DONE ? outcome : bide_context_bury(context, "at the first failure");
}

static void it_may_answer_something_else(void)
{
    struct crew *crew = crew_with(bury_failures, NULL, BIDE_RETRY);
    uint64_t id = give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(crew->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    ERROR_OF(job, "at the first failure");
    EQ(crew->runs, 1);
}

static int forgive(bide_context *context, void *arg)
{
    (void)arg;
    CHECK(bide_context_next(context) != BIDE_DONE);
    return BIDE_DONE;
}

static void it_may_make_a_failure_good(void)
{
    struct crew *crew = crew_with(forgive, NULL, BIDE_RETRY);
    uint64_t id = give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(state_of(crew->queue, id), BIDE_STATE_GONE);
}

static int not_today(bide_context *context, void *arg)
{
    struct crew *crew = arg;
    crew->number++;
    return bide_context_snooze(context, 3600000);
}

static void it_may_not_run_the_handler_at_all(void)
{
    struct crew *crew = crew_with(not_today, NULL, BIDE_DONE);
    uint64_t id = give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_SNOOZED, 1);
    EQ(crew->runs, 0);
    EQ(crew->number, 1);
    EQ(state_of(crew->queue, id), BIDE_STATE_DELAYED);
}

static int try_twice(bide_context *context, void *arg)
{
    (void)arg;
    int outcome = bide_context_next(context);
    return outcome == BIDE_DONE ? outcome : bide_context_next(context);
}

static int fail_at_first(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    walk('.');
    if (enter(crew) == 1)
        return bide_context_retry_in(context, 3600000, "at first");
    return crew->code;
}

static void it_may_run_the_handler_twice(void)
{
    struct crew *crew = new_crew_of(fail_at_first, NULL);
    static char a[] = "aA", b[] = "bB";
    OK(bide_worker_use(crew->worker, around, a));
    OK(bide_worker_use(crew->worker, try_twice, NULL));
    OK(bide_worker_use(crew->worker, around, b));
    OK(bide_worker_start(crew->worker));
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    TRAIL("ab.Bb.BA");
}

static void what_the_first_run_said_is_forgotten_in_the_second(void)
{
    struct crew *crew = new_crew_of(fail_at_first, NULL);
    crew->code = 4711;
    OK(bide_worker_use(crew->worker, try_twice, NULL));
    OK(bide_worker_start(crew->worker));
    uint64_t id = give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_RETRIED, 1);
    EQ(crew->runs, 2);
    const bide_job *job = stat_job(crew->queue, id);
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

static void it_may_leave_a_result(void)
{
    struct crew *crew = crew_with(add_a_result, NULL, BIDE_DONE);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    uint64_t id = give_as(crew, "body", &options);
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    const bide_job *job = stat_job(crew->queue, id);
    TEXT(job->result, job->result_size, "by the middleware");
}

static int pass_through(bide_context *context, void *arg)
{
    struct crew *crew = arg;
    crew->number++;
    return bide_context_next(context);
}

static void there_may_be_64_and_no_more(void)
{
    struct crew *crew = new_crew_of(do_nothing, NULL);
    for (int i = 0; i < BIDE_WORKER_MIDDLEWARE_MAX; i++)
        OK(bide_worker_use(crew->worker, pass_through, crew));
    CODE(bide_worker_use(crew->worker, pass_through, crew), BIDE_EINVAL);
    OK(bide_worker_start(crew->worker));
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(crew->number, BIDE_WORKER_MIDDLEWARE_MAX);
}

static const struct test tests[] = {
    TEST(the_first_that_was_added_is_the_outermost),
    TEST(it_is_around_the_handlers_of_all_topics),
    TEST(it_sees_the_outcome),
    TEST(it_may_answer_something_else),
    TEST(it_may_make_a_failure_good),
    TEST(it_may_not_run_the_handler_at_all),
    TEST(it_may_run_the_handler_twice),
    TEST(what_the_first_run_said_is_forgotten_in_the_second),
    TEST(it_may_leave_a_result),
    TEST(there_may_be_64_and_no_more),
};

const struct theme middleware_theme = {"middleware", tests, COUNT(tests)};
