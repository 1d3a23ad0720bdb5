/* SPDX-License-Identifier: MIT */
/* pool.c - how many handlers run at a time, and who takes what. */
#include "worker_fixture.h"

#include <string.h>

/* Waits until as many run as number says: if they did not run at the same time, it would wait in
 * vain. */
static int meet_the_others(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    (void)body;
    enter(fixture);
    UNTIL(fixture->most >= fixture->number);
    leave(fixture);
    return BIDE_DONE;
}

static void one_handler_runs_per_thread(void)
{
    bide_worker_options options = threads(8);
    struct worker_fixture *fixture = new_fixture_of(meet_the_others, &options);
    fixture->number = 8;
    put_lots(fixture->queue, fixture->topic, 80, NULL, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 80);
    EQ(fixture->most, 8);
    EQ(fixture->runs, 80);
}

static void jobs_put_one_by_one_run_concurrently(void)
{
    bide_worker_options options = threads(5);
    struct worker_fixture *fixture = new_fixture_of(meet_the_others, &options);
    fixture->number = 5;
    OK(bide_worker_start(fixture->worker));
    for (int i = 1; i <= 5; i++) {
        enqueue(fixture, "body");
        UNTIL(fixture->runs == i);
    }
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 5);
}

/* What it has no thread for it leaves to others. */
static void worker_reserves_no_job_without_an_idle_thread(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 2);
    put_lots(fixture->queue, fixture->topic, 10, NULL, NULL);
    UNTIL(fixture->running == 2);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.reserved, 2);
    EQ(topic_of(fixture->queue, fixture->topic).jobs.ready, 8);
    EQ(take(fixture->queue, fixture->topic)->state, BIDE_STATE_RESERVED);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 9);
    EQ(fixture->most, 2);
}

static int note_order(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    uint64_t id = bide_context_job(context)->id;
    CHECK((int64_t)id > fixture->number);
    fixture->number = (int64_t)id;
    enter(fixture);
    leave(fixture);
    return BIDE_DONE;
}

static void one_thread_keeps_the_order(void)
{
    struct worker_fixture *fixture = new_fixture_of(note_order, NULL);
    put_lots(fixture->queue, fixture->topic, 100, NULL, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 100);
    EQ(fixture->most, 1);
}

static void default_worker_has_threads(void)
{
    struct worker_fixture *fixture = start_fixture(do_at_gate, 0);
    enqueue(fixture, "body");
    UNTIL(fixture->running == 1);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void hundreds_of_threads_are_possible(void)
{
    bide_worker_options options = threads(200);
    struct worker_fixture *fixture = new_fixture_of(meet_the_others, &options);
    fixture->number = 200;
    put_lots(fixture->queue, fixture->topic, 200, NULL, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 200);
    EQ(fixture->most, 200);
}

static void two_workers_share_the_work(void)
{
    bide_worker_options options = threads(2);
    struct worker_fixture *first = new_fixture_of(do_at_gate, &options);
    struct worker_fixture *second = new_fixture(first->queue, &options);
    OK(bide_worker_handle(second->worker, first->topic, do_at_gate, second));
    put_lots(first->queue, first->topic, 40, NULL, NULL);
    OK(bide_worker_start(first->worker));
    OK(bide_worker_start(second->worker));
    UNTIL(first->running == 2 && second->running == 2);
    first->open = true;
    second->open = true;
    UNTIL(count_events(first, BIDE_WORK_DONE) + count_events(second, BIDE_WORK_DONE) == 40);
    EQ(first->runs + second->runs, 40);
    EQ(topic_of(first->queue, first->topic).jobs.reserved, 0);
}

static void workers_of_different_topics_are_independent(void)
{
    struct worker_fixture *first = start_fixture(do_at_gate, 1);
    struct worker_fixture *second = new_fixture(first->queue, NULL);
    OK(bide_worker_handle(second->worker, fresh_topic("b"), do_nothing, second));
    OK(bide_worker_start(second->worker));
    put_lots(first->queue, first->topic, 2, NULL, NULL);
    UNTIL(first->running == 1);
    put_lots(first->queue, fresh_topic("b"), 20, NULL, NULL);
    UNTIL_EVENTS(second, BIDE_WORK_DONE, 20);
    EQ(first->runs, 1);
    first->open = true;
    UNTIL_EVENTS(first, BIDE_WORK_DONE, 2);
}

/* A handler may put, reserve and finish jobs like any other code. */
static int pass_on(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    enter(fixture);
    CHECK(bide_context_queue(context) == fixture->queue);
    if (body->size < 5) {
        char longer[8] = "";
        memcpy(longer, body->data, body->size);
        longer[body->size] = 'x';
        put(bide_context_queue(context), fixture->topic, longer);
    }
    return BIDE_DONE;
}

static void a_handler_may_use_the_queue(void)
{
    struct worker_fixture *fixture = start_fixture(pass_on, 1);
    enqueue(fixture, "x");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 5);
    EQ(fixture->runs, 5);
}

static const struct test tests[] = {
    TEST(one_handler_runs_per_thread),
    TEST(jobs_put_one_by_one_run_concurrently),
    TEST(worker_reserves_no_job_without_an_idle_thread),
    TEST(one_thread_keeps_the_order),
    TEST(default_worker_has_threads),
    TEST(hundreds_of_threads_are_possible),
    TEST(two_workers_share_the_work),
    TEST(workers_of_different_topics_are_independent),
    TEST(a_handler_may_use_the_queue),
};

const struct theme pool_theme = {"pool", tests, COUNT(tests)};
