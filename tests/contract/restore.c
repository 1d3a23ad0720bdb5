/* SPDX-License-Identifier: MIT */
/* restore.c - inserting jobs as they were exported. */
#include "contract.h"
#include "location.h"

#include <stdio.h>
#include <string.h>

/* What is kept on one clock and told on the other may differ by the rounding of both. */
#define SLACK_MS 2

/* An exported job, to be restored in another topic: the snapshot of a peek with a new name. */
static bide_job exported(bide *queue, uint64_t id, const char *topic)
{
    bide_job job = *peek_job(queue, id);
    snprintf(job.topic, sizeof job.topic, "%s", topic);
    return job;
}

static uint64_t restore(bide *queue, const bide_job *job)
{
    uint64_t id = 0;
    OK(bide_restore(queue, job, &id));
    CHECK(id > job->id);
    return id;
}

static void a_restored_job_has_a_new_id_and_the_old_content(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 5;
    options.ttr_ms = 4321;
    options.key = slice("key");
    options.max_retries = 9;
    options.backoff_base_ms = 77;
    options.backoff_max_ms = 7777;
    options.expires_at_ms = wall_ms() + 3600000;
    options.retain_ms = 8888;
    options.key_hold_retained = true;
    bide_job job = exported(queue, put_as(queue, a, "the body", &options), b);
    const bide_job *got = peek_job(queue, restore(queue, &job));
    EQ(got->state, BIDE_STATE_READY);
    TEXT(got->body, got->body_size, "the body");
    TEXT(got->key, got->key_size, "key");
    TEXT(got->topic, strlen(got->topic), b);
    EQ(got->priority, 5);
    EQ(got->ttr_ms, 4321);
    EQ(got->max_retries, 9);
    EQ(got->backoff_base_ms, 77);
    EQ(got->backoff_max_ms, 7777);
    EQ(got->expires_at_ms, options.expires_at_ms);
    EQ(got->retain_ms, 8888);
    CHECK(got->key_hold_retained);
    BETWEEN(got->created_ms, job.created_ms - SLACK_MS, job.created_ms + SLACK_MS);
}

static void a_restored_job_keeps_its_counters_and_texts(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_bury(queue, id, take(queue, a)->token, BIDE_KEEP, NULL));
    OK(bide_kick_job(queue, id));
    uint64_t token = take(queue, a)->token;
    OK(bide_touch(queue, id, token, 0, NULL));
    OK(bide_fail(queue, id, token, "it broke", 0, NULL, NULL));
    bide_job job = exported(queue, id, b);
    const bide_job *got = stat_job(queue, restore(queue, &job));
    EQ(got->state, BIDE_STATE_READY);
    EQ(got->reserves, 3);
    EQ(got->releases, 1);
    EQ(got->buries, 1);
    EQ(got->kicks, 1);
    EQ(got->touches, 1);
    EQ(got->fails, 1);
    EQ(got->failures, 1);
    EQ(got->timeouts, 0);
    TEXT(got->last_error, got->last_error_size, "it broke");
}

static void a_delayed_job_is_restored_delayed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put_later(queue, a, 3600000), b);
    const bide_job *got = stat_job(queue, restore(queue, &job));
    EQ(got->state, BIDE_STATE_DELAYED);
    BETWEEN(got->left_ms, 3600000 - PATIENCE_MS, 3600000 + SLACK_MS);

    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 7200000;
    job = exported(queue, put_as(queue, a, "body", &options), b);
    got = stat_job(queue, restore(queue, &job));
    EQ(got->state, BIDE_STATE_DELAYED);
    EQ(got->run_at_ms, options.run_at_ms);
    CHECK(got->run_at_wall);
}

static void restored_job_that_is_due_is_ready(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 3600000;
    bide_job job = exported(queue, put_as(queue, a, "body", &options), b);
    job.run_at_ms = wall_ms() - 1000;
    job.left_ms = 0;
    EQ(state_of(queue, restore(queue, &job)), BIDE_STATE_READY);
    CHECK(take(queue, b)->id != job.id);
}

static void a_buried_job_is_restored_buried(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put(queue, a, "body");
    OK(bide_bury(queue, id, take(queue, a)->token, BIDE_KEEP, "set aside"));
    bide_job job = exported(queue, id, b);
    uint64_t copy = restore(queue, &job);
    const bide_job *got = stat_job(queue, copy);
    EQ(got->state, BIDE_STATE_BURIED);
    EQ(got->buries, 1);
    TEXT(got->last_error, got->last_error_size, "set aside");
    uint64_t count = 0;
    OK(bide_kick(queue, b, 10, &count));
    EQ(count, 1);
    EQ(take(queue, b)->id, copy);
}

static void a_reserved_job_is_restored_ready(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put_in(queue, a, BIDE_STATE_RESERVED);
    bide_job job = exported(queue, id, b);
    EQ(job.state, BIDE_STATE_RESERVED);
    uint64_t copy = restore(queue, &job);
    EQ(state_of(queue, copy), BIDE_STATE_READY);
    EQ(stat_job(queue, copy)->reserves, 1);
    EQ(state_of(queue, id), BIDE_STATE_RESERVED);
}

static void a_done_job_is_restored_with_its_result(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put_in(queue, a, BIDE_STATE_DONE), b);
    uint64_t copy = restore(queue, &job);
    const bide_job *got = peek_job(queue, copy);
    EQ(got->state, BIDE_STATE_DONE);
    TEXT(got->result, got->result_size, "result");
    BETWEEN(got->left_ms, 3600000 - PATIENCE_MS, 3600000);
    nothing_ready(queue, b);
}

static void restore_of_an_expired_result_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put_in(queue, a, BIDE_STATE_DONE), b);
    uint64_t id = 42;
    job.left_ms = 0;
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    EQ(id, 42);
    CHECK(!topic_exists(queue, b));
}

static void order_is_kept_when_jobs_are_restored_by_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t old[6], copies[6];
    for (size_t i = 0; i < COUNT(old); i++)
        old[i] = put_first(queue, a, i % 2 ? 10 : 20);
    for (size_t i = 0; i < COUNT(old); i++) {
        bide_job job = exported(queue, old[i], b);
        copies[i] = restore(queue, &job);
    }
    static const size_t order[] = {1, 3, 5, 0, 2, 4};
    for (size_t i = 0; i < COUNT(order); i++) {
        EQ(take(queue, a)->id, old[order[i]]);
        EQ(take(queue, b)->id, copies[order[i]]);
    }
}

static void restore_counts_as_a_put_and_serves_a_waiting_call(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(b);
    bide_job job = exported(queue, put(queue, a, "body"), b);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    uint64_t copy = restore(queue, &job);
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, copy);
    EQ(topic_of(queue, b).total.puts, 1);
}

static void restore_has_the_limits_of_a_put(void)
{
    bide *queue = open_queue("max_jobs_per_topic=2&max_job_size=20");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = 42;
    bide_job job = exported(queue, put_key(queue, a, "k"), a);
    CODE(bide_restore(queue, &job, &id), BIDE_EXISTS);
    job.key = NULL;
    job.key_size = 0;
    put(queue, a, "body");
    CODE(bide_restore(queue, &job, NULL), BIDE_TOPIC_FULL);

    snprintf(job.topic, sizeof job.topic, "%s", b);
    job.body = "more than twenty bytes";
    job.body_size = 22;
    CODE(bide_restore(queue, &job, NULL), BIDE_TOO_BIG);
    job.body_size = 4;
    OK(bide_drain(queue, true));
    CODE(bide_restore(queue, &job, NULL), BIDE_DRAINING);
    OK(bide_drain(queue, false));
    EQ(topic_of(queue, a).total.puts, 2);
    CHECK(!topic_exists(queue, b));
}

/* The two clocks are read one after the other. */
#define NEAR(got, want) BETWEEN((got), (want)-SLACK_MS, (want) + SLACK_MS)

/* The job shows its old ready time; its topic counts it as new. */
static void restored_job_keeps_its_ready_time(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put(queue, a, "body"), b);
    nap_ms(5);
    uint64_t id = restore(queue, &job);
    NEAR(stat_job(queue, id)->ready_ms, job.ready_ms);
    NEAR(stat_job(queue, id)->created_ms, job.created_ms);
    CHECK(stat_job(queue, id)->age_ms >= 4);
    CHECK(topic_of(queue, b).oldest_ready_age_ms <= topic_of(queue, a).oldest_ready_age_ms);
    OK(bide_update(queue, &(bide_update_args){.id = id,
                                              .priority = 7,
                                              .delay_ms = BIDE_KEEP,
                                              .run_at_ms = BIDE_KEEP,
                                              .ttr_ms = BIDE_KEEP}));
    NEAR(stat_job(queue, id)->ready_ms, job.ready_ms);
    if (is_persistent()) {
        queue = reopen(queue, "");
        NEAR(stat_job(queue, id)->ready_ms, job.ready_ms);
    }
    NEAR(take(queue, b)->ready_ms, job.ready_ms);
}

static void restored_job_that_is_released_has_a_new_ready_time(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put(queue, a, "body"), b);
    nap_ms(5);
    int64_t before_ms = wall_ms();
    uint64_t kicked = restore(queue, &job), released = restore(queue, &job);
    OK(bide_bury(queue, kicked, 0, BIDE_KEEP, NULL));
    OK(bide_kick_job(queue, kicked));
    BETWEEN(stat_job(queue, kicked)->ready_ms, before_ms - 1, wall_ms() + 1);
    bide_job held;
    OK(bide_reserve_job(queue, released, &held));
    OK(bide_release(queue, released, held.token, BIDE_KEEP, 0));
    bide_job_clear(&held);
    BETWEEN(stat_job(queue, released)->ready_ms, before_ms - 1, wall_ms() + 1);
}

/* Released within the millisecond in which it was reserved; or claimed to be ready in the
 * future. */
static void odd_timestamps_of_a_restored_job_are_corrected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_job job = exported(queue, put(queue, a, "body"), b);
    job.reserves = 1;
    job.reserved_ms = job.ready_ms;
    NEAR(stat_job(queue, restore(queue, &job))->ready_ms, job.ready_ms);
    job.ready_ms = wall_ms() + 3600000;
    CHECK(stat_job(queue, restore(queue, &job))->ready_ms <= wall_ms() + 1);
}

static void the_snapshot_may_be_cleared_after_the_restore(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t old = put_key(queue, a, "k");
    bide_job job = {0};
    OK(bide_peek(queue, old, &job));
    snprintf(job.topic, sizeof job.topic, "%s", b);
    uint64_t copy = restore(queue, &job);
    bide_job_clear(&job);
    OK(bide_delete(queue, old, 0));
    const bide_job *got = peek_job(queue, copy);
    TEXT(got->body, got->body_size, "body");
    TEXT(got->key, got->key_size, "k");
}

static void a_restored_job_takes_as_much_memory_as_a_put_one(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t later = put_later(queue, a, 3600000);
    bide_job ready = exported(queue, id, a), delayed = exported(queue, later, a);
    uint64_t one = stats_of(queue).memory_bytes;
    put(queue, a, "body");
    uint64_t two = stats_of(queue).memory_bytes;
    restore(queue, &ready);
    EQ(stats_of(queue).memory_bytes - two, two - one);
    uint64_t three = stats_of(queue).memory_bytes;
    put_later(queue, a, 3600000);
    uint64_t four = stats_of(queue).memory_bytes;
    restore(queue, &delayed);
    EQ(stats_of(queue).memory_bytes - four, four - three);
}

static const struct test tests[] = {
    TEST(a_restored_job_has_a_new_id_and_the_old_content),
    TEST(a_restored_job_keeps_its_counters_and_texts),
    TEST(a_delayed_job_is_restored_delayed),
    TEST(restored_job_that_is_due_is_ready),
    TEST(a_buried_job_is_restored_buried),
    TEST(a_reserved_job_is_restored_ready),
    TEST(a_done_job_is_restored_with_its_result),
    TEST(restore_of_an_expired_result_is_rejected),
    TEST(order_is_kept_when_jobs_are_restored_by_id),
    TEST(restore_counts_as_a_put_and_serves_a_waiting_call),
    TEST(restore_has_the_limits_of_a_put),
    TEST(restored_job_keeps_its_ready_time),
    TEST(restored_job_that_is_released_has_a_new_ready_time),
    TEST(odd_timestamps_of_a_restored_job_are_corrected),
    TEST(the_snapshot_may_be_cleared_after_the_restore),
    TEST(a_restored_job_takes_as_much_memory_as_a_put_one),
};

const struct theme restore_theme = {"restore", tests, COUNT(tests)};
