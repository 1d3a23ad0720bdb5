/* SPDX-License-Identifier: MIT */
/* reserve.c - taking jobs: order, waiting, several topics, several jobs, one given job. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

static void a_smaller_priority_comes_first_then_a_smaller_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const uint32_t priorities[] = {5, 0, 5, 3, 0, UINT32_MAX, 3};
    static const size_t order[] = {1, 4, 3, 6, 0, 2, 5};
    uint64_t ids[COUNT(priorities)];
    for (size_t i = 0; i < COUNT(priorities); i++)
        ids[i] = put_first(queue, a, priorities[i]);
    for (size_t i = 0; i < COUNT(order); i++)
        EQ(take(queue, a)->id, ids[order[i]]);
    nothing_ready(queue, a);
}

static void released_job_keeps_its_place_by_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put(queue, a, "1"), second = put(queue, a, "2");
    OK(bide_release(queue, first, take(queue, a)->token, BIDE_KEEP, 0));
    EQ(take(queue, a)->id, first);
    EQ(take(queue, a)->id, second);
}

static void reserve_with_timeout_0_does_not_wait(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job;
    memset(&job, 0x5a, sizeof job);
    bide_job before = job;
    CODE(bide_reserve(queue, a, 0, &job), BIDE_TIMED_OUT);
    CHECK(memcmp(&job, &before, sizeof job) == 0);
    CHECK(!topic_exists(queue, a));
}

static void a_reserve_waits_for_its_whole_timeout(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job = {0};
    int64_t start_us = clock_us();
    CODE(bide_reserve(queue, a, 40, &job), BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 40);
    EQ(job.id, 0);
    EQ(stats_of(queue).waiting, 0);
    CHECK(!topic_exists(queue, a));
}

struct blocked {
    bide *queue;
    const char *topic;
    bide_job job;
};

static void *reserve_blocked(void *arg)
{
    struct blocked *blocked = arg;
    OK(bide_reserve(blocked->queue, blocked->topic, BIDE_FOREVER, &blocked->job));
    return NULL;
}

static void waiting_reserve_gets_a_new_job(void)
{
    bide *queue = open_queue("");
    struct blocked blocked = {queue, fresh_topic("a"), {0}};
    pthread_t thread = start_thread(reserve_blocked, &blocked);
    UNTIL(topic_of(queue, blocked.topic).waiting == 1);
    uint64_t id = put(queue, blocked.topic, "hello");
    join_thread(thread);
    EQ(blocked.job.id, id);
    TEXT(blocked.job.body, blocked.job.body_size, "hello");
    EQ(topic_of(queue, blocked.topic).waiting, 0);
    OK(bide_delete(queue, id, blocked.job.token));
    bide_job_clear(&blocked.job);
}

static void longest_waiting_call_is_served_first(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiters[5];
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiters[i] = begin_reserve(queue, cq, &topic, 1);
    EQ(topic_of(queue, a).waiting, COUNT(waiters));
    for (size_t i = 0; i < COUNT(waiters); i++) {
        uint64_t id = put(queue, a, "body");
        completes(waiters[i], BIDE_OK);
        EQ(waiters[i]->job.id, id);
        if (i + 1 < COUNT(waiters))
            still_pending(waiters[i + 1]);
    }
}

static void longest_waiting_call_is_served_first_across_topics(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice both[] = {slice(a), slice(b)};
    struct waiter *first = begin_reserve(queue, cq, both, 2);
    struct waiter *second = begin_reserve(queue, cq, &both[1], 1);
    struct waiter *third = begin_reserve(queue, cq, both, 2);
    struct waiter *fourth = begin_reserve(queue, cq, &both[0], 1);

    uint64_t id = put(queue, b, "1");
    completes(first, BIDE_OK);
    EQ(first->job.id, id);
    id = put(queue, a, "2");
    completes(third, BIDE_OK);
    EQ(third->job.id, id);
    still_pending(second);
    id = put(queue, a, "3");
    completes(fourth, BIDE_OK);
    EQ(fourth->job.id, id);
    id = put(queue, b, "4");
    completes(second, BIDE_OK);
    EQ(second->job.id, id);
}

static void served_reserve_stops_waiting_for_its_other_topics(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice both[] = {slice(a), slice(b)};
    struct waiter *waiter = begin_reserve(queue, new_cq(), both, 2);
    EQ(topic_of(queue, a).waiting, 1);
    EQ(topic_of(queue, b).waiting, 1);
    put(queue, b, "1");
    completes(waiter, BIDE_OK);
    uint64_t id = put(queue, a, "2");
    EQ(state_of(queue, id), BIDE_STATE_READY);
    EQ(topic_of(queue, a).waiting, 0);
    EQ(topic_of(queue, b).waiting, 0);
}

static void released_job_goes_to_a_waiting_call(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;

    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    OK(bide_give_back(queue, id, token));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);

    struct waiter *released = begin_reserve(queue, cq, &topic, 1);
    OK(bide_release(queue, id, waiter->job.token, BIDE_KEEP, 0));
    completes(released, BIDE_OK);
    EQ(released->job.id, id);

    struct waiter *next = begin_reserve(queue, cq, &topic, 1);
    OK(bide_bury(queue, id, released->job.token, BIDE_KEEP, NULL));
    still_pending(next);
    OK(bide_kick(queue, a, 1, NULL));
    completes(next, BIDE_OK);
    EQ(next->job.id, id);
}

static void topic_exists_while_a_call_waits_for_it(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    CHECK(!topic_exists(queue, a));
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    CHECK(topic_exists(queue, a));
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_OK);
    completes(waiter, BIDE_CANCELLED);
    CHECK(!topic_exists(queue, a));
}

static void batch_reserve_takes_ready_jobs_in_order(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job jobs[10] = {0};
    uint64_t last = put_first(queue, a, 9), first = put_first(queue, a, 1);
    uint64_t middle = put_first(queue, a, 5);
    bide_reserve_args args = reserve_args(&topic, 1, PATIENCE_MS, jobs, COUNT(jobs));
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 3);
    EQ(jobs[0].id, first);
    EQ(jobs[1].id, middle);
    EQ(jobs[2].id, last);
    CHECK(jobs[0].token != jobs[1].token && jobs[1].token != jobs[2].token);
    for (size_t i = 0; i < 3; i++)
        OK(bide_delete(queue, jobs[i].id, jobs[i].token));
    clear_jobs(jobs, 3);
}

static void batch_reserve_takes_at_most_its_maximum(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job jobs[2] = {0};
    for (int i = 0; i < 5; i++)
        put(queue, a, "body");
    bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, COUNT(jobs));
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 2);
    EQ(topic_of(queue, a).jobs.ready, 3);
    clear_jobs(jobs, 2);
}

static void batch_reserve_waits_only_for_its_first_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job jobs[5] = {0};
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, new_cq());
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, jobs, COUNT(jobs));
    submit_pending(queue, waiter);
    bide_put_item items[3] = {{.topic = topic}, {.topic = topic}, {.topic = topic}};
    OK(bide_put_many(queue, items, 3, NULL));
    completes(waiter, BIDE_OK);
    EQ(waiter->op.reserve.count, 3);
    EQ(jobs[0].id, items[0].id);
    EQ(jobs[2].id, items[2].id);
    clear_jobs(jobs, 3);
}

static void batch_reserve_may_take_a_thousand_jobs(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    static bide_job jobs[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = topic, .body = slice("body")};
    OK(bide_put_many(queue, items, COUNT(items), NULL));
    bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, COUNT(jobs));
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, BIDE_BATCH_JOBS);
    for (size_t i = 0; i < COUNT(jobs); i++) {
        EQ(jobs[i].id, items[i].id);
        OK(bide_delete(queue, jobs[i].id, jobs[i].token));
    }
    clear_jobs(jobs, COUNT(jobs));
}

static void topic_named_twice_is_waited_for_once(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice twice[] = {slice(a), slice(a)};
    struct waiter *waiter = begin_reserve(queue, new_cq(), twice, 2);
    uint64_t id = put(queue, a, "1");
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
    uint64_t next = put(queue, a, "2");
    EQ(take(queue, a)->id, next);
    EQ(topic_of(queue, a).waiting, 0);
}

static void a_reserve_may_name_many_topics(void)
{
    static char names[500][BIDE_TOPIC_MAX + 1];
    static bide_slice topics[500];
    bide *queue = open_queue("");
    for (size_t i = 0; i < COUNT(topics); i++) {
        snprintf(names[i], sizeof names[i], "%.100s/%zu", fresh_topic("many"), i);
        topics[i] = slice(names[i]);
    }
    uint64_t topics_before = stats_of(queue).topics;
    struct waiter *waiter = begin_reserve(queue, new_cq(), topics, COUNT(topics));
    EQ(stats_of(queue).topics, topics_before + COUNT(topics));
    uint64_t id = put(queue, names[499], "body");
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
    OK(bide_delete(queue, id, waiter->job.token));
    EQ(stats_of(queue).topics, topics_before);
}

static void a_reservation_is_shown_and_counted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    int64_t before_ms = wall_ms();
    const bide_job *job = take(queue, a);
    EQ(job->reserves, 1);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(job->reserved_ms, before_ms - 1, wall_ms() + 1);
    const bide_job *seen = stat_job(queue, id);
    EQ(seen->state, BIDE_STATE_RESERVED);
    EQ(seen->reserves, 1);
    BETWEEN(seen->left_ms, 3600000 - PATIENCE_MS, 3600000);
    EQ(topic_of(queue, a).total.reserves, 1);
    EQ(topic_of(queue, a).jobs.reserved, 1);
}

static void tokens_are_unique(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t tokens[20];
    put(queue, a, "1");
    put(queue, a, "2");
    for (size_t i = 0; i < COUNT(tokens); i++) {
        const bide_job *job = take(queue, a);
        tokens[i] = job->token;
        for (size_t j = 0; j < i; j++)
            CHECK(tokens[j] != tokens[i]);
        OK(bide_give_back(queue, job->id, job->token));
    }
}

static void reserve_job_takes_any_state_but_reserved_and_done(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_READY, BIDE_STATE_DELAYED, BIDE_STATE_BURIED};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        const bide_job *job = take_job(queue, id);
        EQ(job->state, BIDE_STATE_RESERVED);
        TEXT(job->body, job->body_size, "body");
        EQ(job->reserves, 1);
        bide_job untouched = {0};
        CODE(bide_reserve_job(queue, id, &untouched), BIDE_RESERVED);
        EQ(untouched.id, 0);
        OK(bide_delete(queue, id, job->token));
        CODE(bide_reserve_job(queue, id, &untouched), BIDE_NOT_FOUND);
    }
    bide_job untouched = {0};
    uint64_t done = put_in(queue, a, BIDE_STATE_DONE);
    CODE(bide_reserve_job(queue, done, &untouched), BIDE_WRONG_STATE);
    EQ(untouched.id, 0);
}

static void reserve_job_takes_a_job_from_the_middle_of_the_queue(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put(queue, a, "1"), second = put(queue, a, "2"), third = put(queue, a, "3");
    take_job(queue, second);
    EQ(take(queue, a)->id, first);
    EQ(take(queue, a)->id, third);
    nothing_ready(queue, a);
}

static void reserve_job_takes_a_job_of_a_paused_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_pause(queue, a, BIDE_FOREVER));
    nothing_ready(queue, a);
    const bide_job *job = take_job(queue, id);
    OK(bide_delete(queue, id, job->token));
    OK(bide_resume(queue, a));
}

/* ---- a reserve that must be stored, while nothing else happens ---- */

/* Puts jobs whose reservations are stored, and lets the queue come to rest. */
static void put_limited(bide *queue, const char *topic, int count)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 3;
    for (int i = 0; i < count; i++)
        put_as(queue, topic, "body", &options);
    nap_ms(2500);
}

static void stored_reserve_completes_without_further_ops(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    put_limited(queue, a, 3);
    for (int i = 0; i < 3; i++) {
        struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
        waiter->op.reserve = reserve_args(&topic, 1, 0, &waiter->job, 1);
        bide_op *op = &waiter->op;
        if (bide_submit(queue, &op, 1) > 0)
            completes(waiter, BIDE_OK);
        EQ(waiter->op.status, BIDE_OK);
    }
}

static void finish_and_reserve_completes_without_further_ops(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    put_limited(queue, a, 2);
    const bide_job *job = take(queue, a);
    nap_ms(100);
    struct waiter *waiter = new_op(BIDE_OP_FINISH_AND_RESERVE, cq);
    waiter->op.finish_and_reserve.finish =
        (bide_finish_item){.id = job->id, .token = job->token, .retain_ms = BIDE_KEEP};
    waiter->op.finish_and_reserve.reserve = reserve_args(&topic, 1, 0, &waiter->job, 1);
    bide_op *op = &waiter->op;
    if (bide_submit(queue, &op, 1) > 0)
        completes(waiter, BIDE_OK);
    EQ(waiter->op.status, BIDE_OK);
    EQ(waiter->op.finish_and_reserve.finish.status, BIDE_OK);
}

static const struct test tests[] = {
    TEST(a_smaller_priority_comes_first_then_a_smaller_id),
    TEST(released_job_keeps_its_place_by_id),
    TEST(reserve_with_timeout_0_does_not_wait),
    TEST(a_reserve_waits_for_its_whole_timeout),
    TEST(waiting_reserve_gets_a_new_job),
    TEST(longest_waiting_call_is_served_first),
    TEST(longest_waiting_call_is_served_first_across_topics),
    TEST(served_reserve_stops_waiting_for_its_other_topics),
    TEST(released_job_goes_to_a_waiting_call),
    TEST(topic_exists_while_a_call_waits_for_it),
    TEST(batch_reserve_takes_ready_jobs_in_order),
    TEST(batch_reserve_takes_at_most_its_maximum),
    TEST(batch_reserve_waits_only_for_its_first_job),
    TEST(batch_reserve_may_take_a_thousand_jobs),
    TEST(topic_named_twice_is_waited_for_once),
    TEST(a_reserve_may_name_many_topics),
    TEST(a_reservation_is_shown_and_counted),
    TEST(tokens_are_unique),
    TEST(reserve_job_takes_any_state_but_reserved_and_done),
    TEST(reserve_job_takes_a_job_from_the_middle_of_the_queue),
    TEST(reserve_job_takes_a_job_of_a_paused_topic),
    TEST(stored_reserve_completes_without_further_ops),
    TEST(finish_and_reserve_completes_without_further_ops),
};

const struct theme reserve_theme = {"reserve", tests, COUNT(tests)};
