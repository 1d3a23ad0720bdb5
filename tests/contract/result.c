/* SPDX-License-Identifier: MIT */
/* result.c - done: the result, how long it is kept, and how many are. */
#include "contract.h"

#include <string.h>

static void done_keeps_the_job_with_its_result(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    int64_t before_ms = wall_ms();
    OK(bide_done(queue, id, take(queue, a)->token, "the result", 10, 3600000));
    const bide_job *job = peek_job(queue, id);
    EQ(job->state, BIDE_STATE_DONE);
    TEXT(job->body, job->body_size, "body");
    TEXT(job->result, job->result_size, "the result");
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(job->done_ms, before_ms - 1, wall_ms() + 1);
    EQ(topic_of(queue, a).total.dones, 1);
    EQ(topic_of(queue, a).total.deletes, 0);
    EQ(topic_of(queue, a).jobs.done, 1);
    EQ(topic_of(queue, a).jobs.reserved, 0);
}

static void the_result_can_be_fetched_alone(void)
{
    bide *queue = open_queue("");
    uint64_t id = put_in(queue, fresh_topic("a"), BIDE_STATE_DONE);
    bide_buf *result = NULL;
    OK(bide_result(queue, id, &result));
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    OK(bide_delete(queue, id, 0));
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    bide_buf_unref(result);
    result = NULL;
    CODE(bide_result(queue, id, &result), BIDE_NOT_FOUND);
    CHECK(result == NULL);
}

static void only_a_done_job_has_a_result(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                        BIDE_STATE_BURIED};
    bide_buf *result = NULL;
    for (size_t i = 0; i < COUNT(states); i++) {
        CODE(bide_result(queue, put_in(queue, a, states[i]), &result), BIDE_WRONG_STATE);
        CHECK(result == NULL);
    }
}

static void a_result_may_be_empty(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_done(queue, id, take(queue, a)->token, NULL, 0, 3600000));
    const bide_job *job = peek_job(queue, id);
    EQ(job->state, BIDE_STATE_DONE);
    EQ(job->result_size, 0);
    bide_buf *result = NULL;
    OK(bide_result(queue, id, &result));
    CHECK(result == NULL || bide_buf_size(result) == 0);
    bide_buf_unref(result);
}

static void result_may_have_any_bytes(void)
{
    bide *queue = open_queue("");
    unsigned char all[256];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)(255 - i);
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_done(queue, id, 0, all, sizeof all, 3600000));
    const bide_job *job = peek_job(queue, id);
    EQ(job->result_size, sizeof all);
    CHECK(memcmp(job->result, all, sizeof all) == 0);
}

static void done_without_retention_removes_the_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_stats before = stats_of(queue);
    uint64_t id = put(queue, a, "body");
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, 0));
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    id = put(queue, a, "body");
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, BIDE_KEEP));
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    EQ(stats_of(queue).total.dones - before.total.dones, 2);
    EQ(stats_of(queue).total.deletes - before.total.deletes, 0);
    CHECK(!topic_exists(queue, a));
}

static void retention_of_done_overrides_that_of_put(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    uint64_t kept = put_as(queue, a, "body", &options);
    OK(bide_done(queue, kept, take(queue, a)->token, NULL, 0, BIDE_KEEP));
    BETWEEN(stat_job(queue, kept)->left_ms, 3600000 - PATIENCE_MS, 3600000);
    uint64_t longer = put_as(queue, a, "body", &options);
    OK(bide_done(queue, longer, take(queue, a)->token, NULL, 0, 7200000));
    BETWEEN(stat_job(queue, longer)->left_ms, 7200000 - PATIENCE_MS, 7200000);
    uint64_t gone = put_as(queue, a, "body", &options);
    OK(bide_done(queue, gone, take(queue, a)->token, NULL, 0, 0));
    EQ(state_of(queue, gone), BIDE_STATE_GONE);
}

static void second_done_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    OK(bide_done(queue, id, token, "first", 5, 3600000));
    CODE(bide_done(queue, id, 0, "second", 6, 3600000), BIDE_WRONG_STATE);
    CODE(bide_done(queue, id, token, "second", 6, 3600000), BIDE_LEASE_LOST);
    const bide_job *job = peek_job(queue, id);
    TEXT(job->result, job->result_size, "first");
    EQ(topic_of(queue, a).total.dones, 1);
}

static void done_job_is_not_reserved_or_kicked(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_in(queue, a, BIDE_STATE_DONE), count = 42;
    nothing_ready(queue, a);
    OK(bide_kick(queue, a, 10, &count));
    EQ(count, 0);
    CODE(bide_kick_job(queue, id), BIDE_WRONG_STATE);
    EQ(state_of(queue, id), BIDE_STATE_DONE);
}

static void a_done_job_does_not_count_against_the_limit_of_its_topic(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    for (int i = 0; i < 3; i++) {
        uint64_t id = put(queue, a, "body");
        OK(bide_done(queue, id, take(queue, a)->token, NULL, 0, 3600000));
    }
    EQ(topic_of(queue, a).jobs.done, 3);
}

static void the_result_of_an_earlier_failure_keeps_its_error(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_fail(queue, id, take(queue, a)->token, "first try", 0, NULL, NULL));
    OK(bide_done(queue, id, take(queue, a)->token, "fine", 4, 3600000));
    const bide_job *job = peek_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "first try");
    TEXT(job->result, job->result_size, "fine");
    EQ(job->fails, 1);
    EQ(job->reserves, 2);
}

static void max_done_per_topic_drops_the_oldest_result(void)
{
    bide *queue = open_queue("max_done_per_topic=3");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t ids[5];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    uint64_t other = put_in(queue, b, BIDE_STATE_DONE);
    static const size_t order[] = {3, 0, 4, 1, 2};
    for (size_t i = 0; i < COUNT(order); i++) {
        /* The first to be done has the longest retention: only the order of done counts. */
        OK(bide_done(queue, ids[order[i]], 0, "r", 1, 3600000 - (int64_t)i));
        EQ(topic_of(queue, a).jobs.done, i < 3 ? i + 1 : 3);
    }
    EQ(state_of(queue, ids[3]), BIDE_STATE_GONE);
    EQ(state_of(queue, ids[0]), BIDE_STATE_GONE);
    EQ(state_of(queue, ids[4]), BIDE_STATE_DONE);
    EQ(state_of(queue, ids[1]), BIDE_STATE_DONE);
    EQ(state_of(queue, ids[2]), BIDE_STATE_DONE);
    EQ(state_of(queue, other), BIDE_STATE_DONE);
    EQ(topic_of(queue, a).total.retired, 2);
    EQ(topic_of(queue, b).total.retired, 0);
}

static const struct test tests[] = {
    TEST(done_keeps_the_job_with_its_result),
    TEST(the_result_can_be_fetched_alone),
    TEST(only_a_done_job_has_a_result),
    TEST(a_result_may_be_empty),
    TEST(result_may_have_any_bytes),
    TEST(done_without_retention_removes_the_job),
    TEST(retention_of_done_overrides_that_of_put),
    TEST(second_done_is_rejected),
    TEST(done_job_is_not_reserved_or_kicked),
    TEST(a_done_job_does_not_count_against_the_limit_of_its_topic),
    TEST(the_result_of_an_earlier_failure_keeps_its_error),
    TEST(max_done_per_topic_drops_the_oldest_result),
};

const struct theme result_theme = {"result", tests, COUNT(tests)};
