/* SPDX-License-Identifier: MIT */
/* update.c - changing the priority, due time, ttr or topic of a job. */
#include "contract.h"

#include <string.h>

static bide_update_args change(uint64_t id)
{
    return (bide_update_args){.id = id,
                              .priority = BIDE_KEEP,
                              .delay_ms = BIDE_KEEP,
                              .run_at_ms = BIDE_KEEP,
                              .ttr_ms = BIDE_KEEP};
}

static void a_new_priority_changes_the_order(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put_first(queue, a, 10), second = put_first(queue, a, 20);
    bide_update_args changes = change(second);
    changes.priority = 5;
    OK(bide_update(queue, &changes));
    EQ(stat_job(queue, second)->priority, 5);
    EQ(topic_of(queue, a).jobs.urgent, 2);
    changes = change(first);
    changes.priority = UINT32_MAX;
    OK(bide_update(queue, &changes));
    EQ(topic_of(queue, a).jobs.urgent, 1);
    EQ(take(queue, a)->id, second);
    EQ(take(queue, a)->priority, UINT32_MAX);
}

static void new_ttr_applies_to_the_next_lease(void)
{
    bide *queue = open_queue("default_ttr=45s");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    bide_update_args changes = change(id);
    changes.ttr_ms = 3600000;
    OK(bide_update(queue, &changes));
    EQ(stat_job(queue, id)->ttr_ms, 3600000);
    const bide_job *job = take(queue, a);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    OK(bide_give_back(queue, id, job->token));
    changes.ttr_ms = 0;
    OK(bide_update(queue, &changes));
    EQ(stat_job(queue, id)->ttr_ms, 45000);
}

static void a_ready_job_can_be_delayed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    bide_update_args changes = change(id);
    changes.delay_ms = 3600000;
    OK(bide_update(queue, &changes));
    EQ(stat_job(queue, id)->state, BIDE_STATE_DELAYED);
    BETWEEN(stat_job(queue, id)->left_ms, 3600000 - PATIENCE_MS, 3600000);
    nothing_ready(queue, a);

    uint64_t other = put(queue, a, "body");
    changes = change(other);
    changes.run_at_ms = wall_ms() + 7200000;
    OK(bide_update(queue, &changes));
    EQ(stat_job(queue, other)->state, BIDE_STATE_DELAYED);
    EQ(stat_job(queue, other)->run_at_ms, changes.run_at_ms);
    CHECK(stat_job(queue, other)->run_at_wall);
}

static void a_delayed_job_can_be_made_ready(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    uint64_t id = put_later(queue, a, 3600000);
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    bide_update_args changes = change(id);
    changes.delay_ms = 0;
    OK(bide_update(queue, &changes));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);

    uint64_t other = put_later(queue, a, 3600000);
    changes = change(other);
    changes.run_at_ms = wall_ms() - 10;
    OK(bide_update(queue, &changes));
    EQ(take(queue, a)->id, other);
}

static void delay_of_a_delayed_job_can_be_changed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put_later(queue, a, 1000000), second = put_later(queue, a, 2000000);
    bide_update_args changes = change(first);
    changes.delay_ms = 3000000;
    OK(bide_update(queue, &changes));
    EQ(state_of(queue, first), BIDE_STATE_DELAYED);
    bide_job job = {0};
    OK(bide_peek_first(queue, a, BIDE_STATE_DELAYED, &job));
    EQ(job.id, second);
    bide_job_clear(&job);
}

static void update_keeps_unnamed_fields(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 3;
    options.ttr_ms = 4444;
    options.run_at_ms = wall_ms() + 3600000;
    options.key = slice("k");
    uint64_t id = put_as(queue, a, "body", &options);
    bide_update_args changes = change(id);
    changes.priority = 9;
    OK(bide_update(queue, &changes));
    const bide_job *job = peek_job(queue, id);
    EQ(job->priority, 9);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->run_at_ms, options.run_at_ms);
    EQ(job->ttr_ms, 4444);
    TEXT(job->topic, strlen(job->topic), a);
    TEXT(job->key, job->key_size, "k");
    TEXT(job->body, job->body_size, "body");
}

static void a_job_moves_to_another_topic_with_its_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put_key(queue, a, "k");
    bide_update_args changes = change(id);
    changes.topic = slice(b);
    OK(bide_update(queue, &changes));
    CHECK(!topic_exists(queue, a));
    EQ(topic_of(queue, b).jobs.ready, 1);
    bide_job job = {0};
    CODE(bide_find(queue, a, "k", 1, &job), BIDE_NOT_FOUND);
    OK(bide_find(queue, b, "k", 1, &job));
    EQ(job.id, id);
    bide_job_clear(&job);
    put_key(queue, a, "k");
    EQ(take(queue, b)->id, id);
}

static void a_job_moves_in_every_state_but_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        bide_update_args changes = change(id);
        changes.topic = slice(b);
        changes.priority = 7;
        changes.ttr_ms = 7777;
        OK(bide_update(queue, &changes));
        const bide_job *job = stat_job(queue, id);
        EQ(job->state, states[i]);
        TEXT(job->topic, strlen(job->topic), b);
        EQ(job->priority, 7);
        EQ(job->ttr_ms, 7777);
    }
    CHECK(!topic_exists(queue, a));
    bide_counts jobs = topic_of(queue, b).jobs;
    EQ(jobs.delayed, 1);
    EQ(jobs.ready, 1);
    EQ(jobs.buried, 1);
    EQ(jobs.done, 1);
}

static void moved_job_goes_to_a_call_waiting_there(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(b);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    uint64_t id = put(queue, a, "body");
    bide_update_args changes = change(id);
    changes.topic = topic;
    OK(bide_update(queue, &changes));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
    TEXT(waiter->job.topic, strlen(waiter->job.topic), b);
}

static void moved_job_is_after_earlier_burials(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t old = put_in(queue, a, BIDE_STATE_BURIED);
    uint64_t there = put_in(queue, b, BIDE_STATE_BURIED);
    bide_update_args changes = change(old);
    changes.topic = slice(b);
    OK(bide_update(queue, &changes));
    OK(bide_kick(queue, b, 1, NULL));
    EQ(take(queue, b)->id, there);
    OK(bide_kick(queue, b, 1, NULL));
    EQ(take(queue, b)->id, old);
}

static void a_move_to_the_same_topic_changes_nothing(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    bide_update_args changes = change(id);
    changes.topic = slice(a);
    OK(bide_update(queue, &changes));
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(take(queue, a)->id, id);
}

static void job_cannot_move_to_a_topic_that_holds_its_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put_key(queue, a, "k");
    put_key(queue, b, "k");
    bide_update_args changes = change(id);
    changes.topic = slice(b);
    changes.priority = 1;
    changes.ttr_ms = 1111;
    changes.delay_ms = 3600000;
    CODE(bide_update(queue, &changes), BIDE_EXISTS);
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->priority, BIDE_DEFAULT_PRIORITY);
    EQ(job->ttr_ms, 60000);
    TEXT(job->topic, strlen(job->topic), a);
}

static void a_job_cannot_move_to_a_full_topic(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put(queue, a, "body"), done = put_in(queue, fresh_topic("c"), BIDE_STATE_DONE);
    put(queue, b, "body");
    bide_update_args changes = change(id);
    changes.topic = slice(b);
    changes.priority = 1;
    CODE(bide_update(queue, &changes), BIDE_TOPIC_FULL);
    EQ(stat_job(queue, id)->priority, BIDE_DEFAULT_PRIORITY);
    EQ(topic_of(queue, a).jobs.ready, 1);
    changes = change(done);
    changes.topic = slice(b);
    OK(bide_update(queue, &changes));
}

static void a_reserved_job_is_not_changed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_in(queue, a, BIDE_STATE_RESERVED);
    bide_update_args changes = change(id);
    changes.priority = 1;
    CODE(bide_update(queue, &changes), BIDE_RESERVED);
    EQ(stat_job(queue, id)->priority, BIDE_DEFAULT_PRIORITY);
    changes.id = BIDE_ID_MAX;
    CODE(bide_update(queue, &changes), BIDE_NOT_FOUND);
}

static void update_of_the_due_time_of_a_buried_or_done_job_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_BURIED, BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        bide_update_args changes = change(id);
        changes.delay_ms = 0;
        changes.priority = 1;
        CODE(bide_update(queue, &changes), BIDE_WRONG_STATE);
        changes.delay_ms = BIDE_KEEP;
        changes.run_at_ms = wall_ms() + 3600000;
        CODE(bide_update(queue, &changes), BIDE_WRONG_STATE);
        EQ(stat_job(queue, id)->state, states[i]);
        EQ(stat_job(queue, id)->priority, BIDE_DEFAULT_PRIORITY);
    }
}

static const struct test tests[] = {
    TEST(a_new_priority_changes_the_order),
    TEST(new_ttr_applies_to_the_next_lease),
    TEST(a_ready_job_can_be_delayed),
    TEST(a_delayed_job_can_be_made_ready),
    TEST(delay_of_a_delayed_job_can_be_changed),
    TEST(update_keeps_unnamed_fields),
    TEST(a_job_moves_to_another_topic_with_its_key),
    TEST(a_job_moves_in_every_state_but_reserved),
    TEST(moved_job_goes_to_a_call_waiting_there),
    TEST(moved_job_is_after_earlier_burials),
    TEST(a_move_to_the_same_topic_changes_nothing),
    TEST(job_cannot_move_to_a_topic_that_holds_its_key),
    TEST(a_job_cannot_move_to_a_full_topic),
    TEST(a_reserved_job_is_not_changed),
    TEST(update_of_the_due_time_of_a_buried_or_done_job_is_rejected),
};

const struct theme update_theme = {"update", tests, COUNT(tests)};
