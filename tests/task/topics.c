/* SPDX-License-Identifier: MIT */
/* topics.c - one worker, several topics: which of them is served next. */
#include "worker_fixture.h"

#include <stdio.h>
#include <string.h>

#define TAGS_MAX 3

/* Which topic each run was of, in order. */
struct order {
    const char *topics[TAGS_MAX];
    int served[4096];
    int count[TAGS_MAX];
};

static struct worker_fixture *new_order(bide_strategy strategy, const char *parameters)
{
    static struct order order;
    static const char *const tags[TAGS_MAX] = {"a", "b", "c"};
    bide_worker_options options = threads(1);
    options.strategy = strategy;
    struct worker_fixture *fixture = new_fixture(open_queue(parameters), &options);
    for (size_t i = 0; i < TAGS_MAX; i++)
        order.topics[i] = fresh_topic(tags[i]);
    fixture->more = &order;
    return fixture;
}

/* Writes down the topic; ends the worker after as many runs as number says. */
static int note_topic(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    struct order *order = fixture->more;
    int which = 0;
    (void)body;
    while (strcmp(order->topics[which], bide_context_job(context)->topic) != 0)
        which++;
    order->count[which]++;
    order->served[fixture->runs] = which;
    if (enter(fixture) == fixture->number)
        OK(bide_context_quit(context));
    return BIDE_DONE;
}

/* Registers the topics in the order of the letters, runs so many jobs, and stops. */
static struct order *serve(struct worker_fixture *fixture, const char *letters, int runs)
{
    struct order *order = fixture->more;
    fixture->number = runs;
    for (; *letters; letters++)
        OK(bide_worker_handle(fixture->worker, order->topics[*letters - 'a'], note_topic, fixture));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, runs);
    OK(bide_worker_stop(fixture->worker));
    EQ(fixture->runs, runs);
    return order;
}

static void each_topic_has_its_handler(void)
{
    struct worker_fixture *fixture = new_order(BIDE_BY_PRIORITY, "");
    struct worker_fixture *other = new_fixture(fixture->queue, NULL);
    OK(bide_worker_handle(fixture->worker, fresh_topic("a"), do_at_gate, fixture));
    OK(bide_worker_handle(fixture->worker, fresh_topic("b"), do_at_gate, other));
    fixture->open = other->open = true;
    for (int i = 0; i < 3; i++)
        put(fixture->queue, fresh_topic("a"), "body");
    put(fixture->queue, fresh_topic("b"), "body");
    put(fixture->queue, fresh_topic("c"), "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 4);
    EQ(fixture->runs, 3);
    EQ(other->runs, 1);
    EQ(topic_of(fixture->queue, fresh_topic("c")).jobs.ready, 1);
}

static void by_priority_takes_the_best_job_of_all_topics(void)
{
    struct worker_fixture *fixture = new_order(BIDE_BY_PRIORITY, "");
    const struct order *order = fixture->more;
    static const int topics[] = {0, 1, 2, 0, 2}, want[] = {2, 1, 2, 0, 0};
    static const uint32_t priorities[] = {5, 3, 3, 3, 1};
    for (size_t i = 0; i < COUNT(topics); i++)
        put_first(fixture->queue, order->topics[topics[i]], priorities[i]);
    serve(fixture, "abc", COUNT(topics));
    for (size_t i = 0; i < COUNT(want); i++)
        EQ(order->served[i], want[i]);
}

static void strict_serves_the_topics_in_the_order_of_registration(void)
{
    struct worker_fixture *fixture = new_order(BIDE_STRICT, "");
    const struct order *order = fixture->more;
    for (int i = 0; i < 5; i++) {
        put_first(fixture->queue, order->topics[0], 0);
        put_first(fixture->queue, order->topics[1], 7);
        put_first(fixture->queue, order->topics[2], 9);
    }
    serve(fixture, "cab", 15);
    for (int i = 0; i < 15; i++)
        EQ(order->served[i], i < 5 ? 2 : i < 10 ? 0 : 1);
}

static void jobs_are_taken_in_proportion_to_weights(void)
{
    struct worker_fixture *fixture = new_order(BIDE_WEIGHTED, "seed=20240229");
    const struct order *order = fixture->more;
    static const size_t jobs[] = {700, 400, 200};
    static const uint32_t weights[] = {6, 3, 1};
    for (size_t i = 0; i < COUNT(jobs); i++) {
        put_lots(fixture->queue, order->topics[i], jobs[i], NULL, NULL);
        OK(bide_worker_handle(fixture->worker, order->topics[i], note_topic, fixture));
        OK(bide_worker_set_weight(fixture->worker, order->topics[i], weights[i]));
    }
    serve(fixture, "", 600);
    /* The expectations are 360, 180 and 60; the bounds are five deviations away. */
    BETWEEN(order->count[0], 300, 420);
    BETWEEN(order->count[1], 124, 236);
    BETWEEN(order->count[2], 23, 97);
}

static void default_weight_is_1(void)
{
    struct worker_fixture *fixture = new_order(BIDE_WEIGHTED, "seed=7");
    const struct order *order = fixture->more;
    for (size_t i = 0; i < TAGS_MAX; i++)
        put_lots(fixture->queue, order->topics[i], 300, NULL, NULL);
    serve(fixture, "abc", 300);
    for (size_t i = 0; i < TAGS_MAX; i++)
        BETWEEN(order->count[i], 59, 141);
}

static void empty_topic_of_a_large_weight_delays_no_other(void)
{
    struct worker_fixture *fixture = new_order(BIDE_WEIGHTED, "seed=7");
    const struct order *order = fixture->more;
    OK(bide_worker_handle(fixture->worker, order->topics[0], note_topic, fixture));
    OK(bide_worker_set_weight(fixture->worker, order->topics[0], 1000000));
    put_lots(fixture->queue, order->topics[1], 20, NULL, NULL);
    serve(fixture, "b", 20);
    EQ(order->count[1], 20);
}

static void fair_goes_round(void)
{
    struct worker_fixture *fixture = new_order(BIDE_FAIR, "");
    const struct order *order = fixture->more;
    for (size_t i = 0; i < TAGS_MAX; i++)
        put_lots(fixture->queue, order->topics[i], 10, NULL, NULL);
    serve(fixture, "abc", 30);
    for (int i = 0; i < 30; i += 3)
        EQ((1 << order->served[i]) | (1 << order->served[i + 1]) | (1 << order->served[i + 2]), 7);
}

static void fair_ignores_the_number_of_jobs(void)
{
    struct worker_fixture *fixture = new_order(BIDE_FAIR, "");
    const struct order *order = fixture->more;
    put_lots(fixture->queue, order->topics[0], 200, NULL, NULL);
    put_lots(fixture->queue, order->topics[1], 3, NULL, NULL);
    serve(fixture, "ab", 10);
    EQ(order->count[1], 3);
}

static void paused_topic_does_not_delay_others(void)
{
    struct worker_fixture *fixture = new_order(BIDE_STRICT, "");
    const struct order *order = fixture->more;
    OK(bide_pause(fixture->queue, order->topics[0], 3600000));
    put(fixture->queue, order->topics[0], "body");
    put(fixture->queue, order->topics[1], "body");
    serve(fixture, "ab", 1);
    EQ(order->served[0], 1);
    OK(bide_resume(fixture->queue, order->topics[0]));
    fixture->number = 2;
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 2);
    EQ(order->served[1], 0);
}

static void hundreds_of_topics_are_served(void)
{
    bide_worker_options options = threads(4);
    struct worker_fixture *fixture = new_fixture(open_queue(""), &options);
    char name[BIDE_TOPIC_MAX + 1];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%.150s/%d", fresh_topic("many"), i);
        OK(bide_worker_handle(fixture->worker, name, do_nothing, fixture));
        put(fixture->queue, name, "body");
    }
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 300);
}

static const struct test tests[] = {
    TEST(each_topic_has_its_handler),
    TEST(by_priority_takes_the_best_job_of_all_topics),
    TEST(strict_serves_the_topics_in_the_order_of_registration),
    TEST(jobs_are_taken_in_proportion_to_weights),
    TEST(default_weight_is_1),
    TEST(empty_topic_of_a_large_weight_delays_no_other),
    TEST(fair_goes_round),
    TEST(fair_ignores_the_number_of_jobs),
    TEST(paused_topic_does_not_delay_others),
    TEST(hundreds_of_topics_are_served),
};

const struct theme topics_theme = {"topics", tests, COUNT(tests)};
