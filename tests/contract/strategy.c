/* SPDX-License-Identifier: MIT */
/* strategy.c - how a reserve chooses among several topics. */
#include "contract.h"

#include <string.h>

/* Takes one job that must be there, gives it back, and answers which of the topics it was of. */
static size_t draw(bide *queue, bide_reserve_args *args)
{
    bide_job job = {0};
    args->jobs = &job;
    args->job_max = 1;
    OK(bide_reserve_many(queue, args));
    EQ(args->count, 1);
    OK(bide_give_back(queue, job.id, job.token));
    size_t i = 0;
    while (i < args->topic_count &&
           (args->topics[i].size != strlen(job.topic) ||
            memcmp(args->topics[i].data, job.topic, strlen(job.topic)) != 0))
        i++;
    CHECK(i < args->topic_count);
    bide_job_clear(&job);
    return i;
}

struct three {
    bide_slice topics[3];
    bide_reserve_args args;
};

/* Three topics a, b, c, the first of them with so many jobs each. */
static struct three three_topics(bide *queue, bide_strategy strategy, int jobs_each)
{
    static const char *const tags[] = {"a", "b", "c"};
    struct three three = {.args = {.strategy = strategy, .topic_count = 3}};
    for (size_t i = 0; i < 3; i++) {
        three.topics[i] = slice(fresh_topic(tags[i]));
        for (int j = 0; j < jobs_each; j++)
            put(queue, fresh_topic(tags[i]), "body");
    }
    return three;
}

static void by_priority_takes_the_best_job_over_all_topics(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    bide_slice topics[] = {slice(a), slice(b), slice(c)};
    uint64_t ids[] = {put_first(queue, a, 5), put_first(queue, b, 3), put_first(queue, c, 3),
                      put_first(queue, a, 3), put_first(queue, c, 1)};
    static const size_t order[] = {4, 1, 2, 3, 0};
    bide_job jobs[5] = {0};
    bide_reserve_args args = reserve_args(topics, 3, 0, jobs, COUNT(jobs));
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 5);
    for (size_t i = 0; i < COUNT(order); i++)
        EQ(jobs[i].id, ids[order[i]]);
    clear_jobs(jobs, args.count);
}

static void strict_takes_topics_in_the_given_order(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(b), slice(a)};
    uint64_t urgent = put_first(queue, a, 0);
    uint64_t first = put_first(queue, b, 9), second = put_first(queue, b, 8);
    bide_job jobs[5] = {0};
    bide_reserve_args args = reserve_args(topics, 2, 0, jobs, COUNT(jobs));
    args.strategy = BIDE_STRICT;
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 3);
    EQ(jobs[0].id, second);
    EQ(jobs[1].id, first);
    EQ(jobs[2].id, urgent);
    clear_jobs(jobs, args.count);
}

static void strict_goes_back_to_the_first_topic_as_soon_as_it_has_a_job(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_STRICT, 0);
    three.args.topics = three.topics;
    put(queue, fresh_topic("c"), "body");
    EQ(draw(queue, &three.args), 2);
    put(queue, fresh_topic("b"), "body");
    EQ(draw(queue, &three.args), 1);
    put(queue, fresh_topic("a"), "body");
    EQ(draw(queue, &three.args), 0);
}

static void weighted_takes_in_proportion_to_the_weights(void)
{
    bide *queue = open_queue("seed=20240229");
    struct three three = three_topics(queue, BIDE_WEIGHTED, 1);
    static const uint32_t weights[] = {6, 3, 1};
    three.args.topics = three.topics;
    three.args.weights = weights;
    int drawn[3] = {0};
    for (int i = 0; i < 2000; i++)
        drawn[draw(queue, &three.args)]++;
    /* The expectations are 1200, 600 and 200; the bounds are five deviations away. */
    BETWEEN(drawn[0], 1090, 1310);
    BETWEEN(drawn[1], 497, 703);
    BETWEEN(drawn[2], 133, 267);
}

static void weighted_without_weights_treats_all_topics_alike(void)
{
    bide *queue = open_queue("seed=7");
    struct three three = three_topics(queue, BIDE_WEIGHTED, 1);
    three.args.topics = three.topics;
    int drawn[3] = {0};
    for (int i = 0; i < 1500; i++)
        drawn[draw(queue, &three.args)]++;
    for (int i = 0; i < 3; i++)
        BETWEEN(drawn[i], 408, 592);
}

static void weighted_leaves_out_topics_without_ready_jobs(void)
{
    bide *queue = open_queue("seed=7");
    struct three three = three_topics(queue, BIDE_WEIGHTED, 0);
    static const uint32_t weights[] = {UINT32_MAX, 1, UINT32_MAX};
    three.args.topics = three.topics;
    three.args.weights = weights;
    put(queue, fresh_topic("b"), "body");
    put_later(queue, fresh_topic("c"), 3600000);
    for (int i = 0; i < 50; i++)
        EQ(draw(queue, &three.args), 1);
}

static void weighted_takes_the_best_job_of_the_chosen_topic(void)
{
    bide *queue = open_queue("seed=3");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(a), slice(b)};
    bide_job jobs[40] = {0};
    for (uint32_t i = 20; i > 0; i--) {
        put_first(queue, a, i);
        put_first(queue, b, i);
    }
    bide_reserve_args args = reserve_args(topics, 2, 0, jobs, COUNT(jobs));
    args.strategy = BIDE_WEIGHTED;
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 40);
    uint32_t last_a = 0, last_b = 0;
    for (size_t i = 0; i < args.count; i++) {
        uint32_t *last = strcmp(jobs[i].topic, a) == 0 ? &last_a : &last_b;
        EQ(jobs[i].priority, *last + 1);
        *last = jobs[i].priority;
    }
    clear_jobs(jobs, args.count);
}

static void fair_alternates_between_topics(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_FAIR, 1);
    three.args.topics = three.topics;
    for (size_t i = 0; i < 9; i++)
        EQ(draw(queue, &three.args), i % 3);
}

static void fair_chooses_a_topic_for_each_job_of_a_batch(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_FAIR, 2);
    bide_job jobs[6] = {0};
    three.args.topics = three.topics;
    three.args.jobs = jobs;
    three.args.job_max = COUNT(jobs);
    OK(bide_reserve_many(queue, &three.args));
    EQ(three.args.count, 6);
    for (size_t i = 0; i < 6; i++)
        TEXT(jobs[i].topic, strlen(jobs[i].topic), three.topics[i % 3].data);
    clear_jobs(jobs, 6);
}

static void fair_takes_the_least_recently_served_topic(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_FAIR, 1);
    three.args.topics = three.topics;
    for (size_t i = 0; i < 3; i++)
        EQ(draw(queue, &three.args), i);
    bide_slice reversed[] = {three.topics[2], three.topics[1], three.topics[0]};
    three.args.topics = reversed;
    EQ(draw(queue, &three.args), 2);
    EQ(draw(queue, &three.args), 1);
    EQ(draw(queue, &three.args), 0);
}

static void fair_prefers_a_topic_that_was_never_served(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_FAIR, 1);
    three.args.topics = three.topics;
    three.args.topic_count = 2;
    EQ(draw(queue, &three.args), 0);
    EQ(draw(queue, &three.args), 1);
    three.args.topic_count = 3;
    EQ(draw(queue, &three.args), 2);
    EQ(draw(queue, &three.args), 0);
}

static void fair_skips_a_topic_without_ready_jobs(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_FAIR, 1);
    three.args.topics = three.topics;
    OK(bide_pause(queue, fresh_topic("b"), BIDE_FOREVER));
    EQ(draw(queue, &three.args), 0);
    EQ(draw(queue, &three.args), 2);
    EQ(draw(queue, &three.args), 0);
    OK(bide_resume(queue, fresh_topic("b")));
    EQ(draw(queue, &three.args), 1);
    EQ(draw(queue, &three.args), 2);
}

static void fair_ignores_jobs_taken_by_other_strategies(void)
{
    bide *queue = open_queue("");
    struct three three = three_topics(queue, BIDE_BY_PRIORITY, 1);
    three.args.topics = three.topics;
    EQ(draw(queue, &three.args), 0);
    three.args.strategy = BIDE_FAIR;
    EQ(draw(queue, &three.args), 0);
    EQ(draw(queue, &three.args), 1);
}

static void every_strategy_skips_a_paused_topic(void)
{
    bide *queue = open_queue("");
    static const bide_strategy strategies[] = {BIDE_BY_PRIORITY, BIDE_STRICT, BIDE_WEIGHTED,
                                               BIDE_FAIR};
    struct three three = three_topics(queue, BIDE_BY_PRIORITY, 1);
    three.args.topics = three.topics;
    OK(bide_pause(queue, fresh_topic("a"), BIDE_FOREVER));
    OK(bide_pause(queue, fresh_topic("c"), BIDE_FOREVER));
    for (size_t i = 0; i < COUNT(strategies); i++) {
        three.args.strategy = strategies[i];
        for (int j = 0; j < 5; j++)
            EQ(draw(queue, &three.args), 1);
    }
    OK(bide_resume(queue, fresh_topic("a")));
    OK(bide_resume(queue, fresh_topic("c")));
}

static void every_strategy_waits_for_any_of_its_topics(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    static const bide_strategy strategies[] = {BIDE_BY_PRIORITY, BIDE_STRICT, BIDE_WEIGHTED,
                                               BIDE_FAIR};
    struct three three = three_topics(queue, BIDE_BY_PRIORITY, 0);
    for (size_t i = 0; i < COUNT(strategies); i++) {
        struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
        waiter->op.reserve = reserve_args(three.topics, 3, BIDE_FOREVER, &waiter->job, 1);
        waiter->op.reserve.strategy = strategies[i];
        submit_pending(queue, waiter);
        uint64_t id = put(queue, fresh_topic("b"), "body");
        completes(waiter, BIDE_OK);
        EQ(waiter->job.id, id);
    }
}

static const struct test tests[] = {
    TEST(by_priority_takes_the_best_job_over_all_topics),
    TEST(strict_takes_topics_in_the_given_order),
    TEST(strict_goes_back_to_the_first_topic_as_soon_as_it_has_a_job),
    TEST(weighted_takes_in_proportion_to_the_weights),
    TEST(weighted_without_weights_treats_all_topics_alike),
    TEST(weighted_leaves_out_topics_without_ready_jobs),
    TEST(weighted_takes_the_best_job_of_the_chosen_topic),
    TEST(fair_alternates_between_topics),
    TEST(fair_chooses_a_topic_for_each_job_of_a_batch),
    TEST(fair_takes_the_least_recently_served_topic),
    TEST(fair_prefers_a_topic_that_was_never_served),
    TEST(fair_skips_a_topic_without_ready_jobs),
    TEST(fair_ignores_jobs_taken_by_other_strategies),
    TEST(every_strategy_skips_a_paused_topic),
    TEST(every_strategy_waits_for_any_of_its_topics),
};

const struct theme strategy_theme = {"strategy", tests, COUNT(tests)};
