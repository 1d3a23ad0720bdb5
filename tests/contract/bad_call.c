/* SPDX-License-Identifier: MIT */
/* bad_call.c - no queue, no arguments, unknown enums, bad counts: refused, and nothing changes. */
#include "sample_queue.h"

#include <limits.h>
#include <stdlib.h>

static void null_queue_is_rejected_by_calls_that_put_or_reserve(void)
{
    bide_job job;
    bide_job zeroed = {0};
    bide_put_item item = {.topic = slice("a")};
    bide_slice topic = slice("a");
    bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
    bide_finish_item finish = {.id = 1, .token = 1};
    bide_touch_item touch = {.id = 1, .token = 1};
    bide_update_args changes = {1, 1, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, {NULL, 0}, {0}};
    uint64_t id;
    spoil(&job, sizeof job);
    spoil(&id, sizeof id);
    CODE(bide_put(NULL, "a", "x", 1, NULL, &id), BIDE_EINVAL);
    CODE(bide_put_many(NULL, &item, 1, NULL), BIDE_EINVAL);
    CODE(bide_restore(NULL, &zeroed, &id), BIDE_EINVAL);
    CODE(bide_reserve(NULL, "a", 0, &job), BIDE_EINVAL);
    CODE(bide_reserve_many(NULL, &args), BIDE_EINVAL);
    CODE(bide_reserve_job(NULL, 1, &job), BIDE_EINVAL);
    CODE(bide_delete(NULL, 1, 1), BIDE_EINVAL);
    CODE(bide_done(NULL, 1, 1, NULL, 0, 0), BIDE_EINVAL);
    CODE(bide_finish_many(NULL, &finish, 1), BIDE_EINVAL);
    CODE(bide_finish_and_reserve(NULL, &finish, &args), BIDE_EINVAL);
    CODE(bide_release(NULL, 1, 1, 0, 0), BIDE_EINVAL);
    CODE(bide_give_back(NULL, 1, 1), BIDE_EINVAL);
    CODE(bide_fail(NULL, 1, 1, NULL, 0, NULL, NULL), BIDE_EINVAL);
    CODE(bide_bury(NULL, 1, 1, 0, NULL), BIDE_EINVAL);
    CODE(bide_touch(NULL, 1, 1, 0, NULL), BIDE_EINVAL);
    CODE(bide_touch_many(NULL, &touch, 1), BIDE_EINVAL);
    CODE(bide_kick(NULL, "a", 1, &id), BIDE_EINVAL);
    CODE(bide_kick_buried(NULL, "a", 1, &id), BIDE_EINVAL);
    CODE(bide_kick_job(NULL, 1), BIDE_EINVAL);
    CODE(bide_update(NULL, &changes), BIDE_EINVAL);
    CODE(bide_cancel(NULL, 1), BIDE_EINVAL);
    CODE(bide_purge(NULL, "a", BIDE_STATE_READY, &id), BIDE_EINVAL);
    SPOILED(job);
    SPOILED(id);
}

static void null_queue_is_rejected_by_queries_and_administration(void)
{
    bide_job job;
    bide_buf *buf;
    bide_state state;
    bide_stats stats;
    bide_topic_stats topic;
    bide_subscription *feed;
    bide_event event;
    size_t count;
    char cursor[BIDE_CURSOR_SIZE] = "";
    spoil(&job, sizeof job);
    spoil(&buf, sizeof buf);
    spoil(&state, sizeof state);
    spoil(&stats, sizeof stats);
    spoil(&topic, sizeof topic);
    spoil(&feed, sizeof feed);
    spoil(&event, sizeof event);
    spoil(&count, sizeof count);
    CODE(bide_pause(NULL, "a", 1), BIDE_EINVAL);
    CODE(bide_resume(NULL, "a"), BIDE_EINVAL);
    CODE(bide_topic_ref(NULL, "a", 1), BIDE_EINVAL);
    CODE(bide_drain(NULL, true), BIDE_EINVAL);
    CODE(bide_peek(NULL, 1, &job), BIDE_EINVAL);
    CODE(bide_peek_first(NULL, "a", BIDE_STATE_READY, &job), BIDE_EINVAL);
    CODE(bide_find(NULL, "a", "k", 1, &job), BIDE_EINVAL);
    CODE(bide_job_stats(NULL, 1, &job), BIDE_EINVAL);
    CODE(bide_body(NULL, 1, &buf), BIDE_EINVAL);
    CODE(bide_result(NULL, 1, &buf), BIDE_EINVAL);
    CODE(bide_wait(NULL, 1, 0, &state, NULL), BIDE_EINVAL);
    CODE(bide_list(NULL, "a", BIDE_STATE_GONE, NULL, cursor, &job, 1, &count), BIDE_EINVAL);
    CODE(bide_topics(NULL, cursor, &topic, 1, &count), BIDE_EINVAL);
    CODE(bide_waiting(NULL, cursor, &topic, 1, &count), BIDE_EINVAL);
    CODE(bide_queue_stats(NULL, &stats), BIDE_EINVAL);
    CODE(bide_topic_get_stats(NULL, "a", &topic), BIDE_EINVAL);
    CODE(bide_ping(NULL), BIDE_EINVAL);
    CODE(bide_subscribe(NULL, "a", 0, 0, &feed), BIDE_EINVAL);
    CODE(bide_events(NULL, feed, 0, &event, 1, &count, NULL), BIDE_EINVAL);
    CODE(bide_unsubscribe(NULL, feed), BIDE_EINVAL);
    SPOILED(job);
    SPOILED(buf);
    SPOILED(state);
    SPOILED(stats);
    SPOILED(topic);
    SPOILED(feed);
    SPOILED(event);
    SPOILED(count);
}

static void close_accepts_null(void)
{
    OK(bide_close(NULL));
}

static void null_arguments_are_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    bide_job job;
    bide_slice topic = slice(sample->topic);
    bide_finish_item finish = {.id = sample->reserved, .token = sample->token, .status = 42};
    bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
    spoil(&job, sizeof job);
    BAD(sample, bide_reserve(queue, sample->topic, 0, NULL));
    BAD(sample, bide_reserve_many(queue, NULL));
    BAD(sample, bide_reserve_job(queue, sample->ready, NULL));
    BAD(sample, bide_finish_and_reserve(queue, &finish, NULL));
    BAD(sample, bide_finish_and_reserve(queue, NULL, &args));
    BAD(sample, bide_update(queue, NULL));
    args.topics = NULL;
    BAD(sample, bide_reserve_many(queue, &args));
    BAD(sample, bide_finish_and_reserve(queue, &finish, &args));
    args = reserve_args(&topic, 1, 0, NULL, 1);
    BAD(sample, bide_reserve_many(queue, &args));
    bide_slice nowhere = {NULL, 5};
    args = reserve_args(&nowhere, 1, 0, &job, 1);
    BAD(sample, bide_reserve_many(queue, &args));
    EQ(finish.status, BIDE_EINVAL); /* nothing was finished */
    SPOILED(job);
}

static void reserve_of_an_invalid_count_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    static bide_job jobs[BIDE_BATCH_JOBS + 1];
    bide_slice topic = slice(sample->topic);
    bide_slice *topics = calloc(BIDE_RESERVE_TOPICS + 1, sizeof *topics);
    CHECK(topics != NULL);
    for (size_t i = 0; i <= BIDE_RESERVE_TOPICS; i++)
        topics[i] = topic;
    static const size_t bad_jobs[] = {0, BIDE_BATCH_JOBS + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(bad_jobs); i++) {
        bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, bad_jobs[i]);
        args.count = 42;
        BAD(sample, bide_reserve_many(sample->queue, &args));
        EQ(args.count, 42);
    }
    static const size_t bad_topics[] = {0, BIDE_RESERVE_TOPICS + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(bad_topics); i++) {
        bide_reserve_args args = reserve_args(topics, bad_topics[i], 0, jobs, 1);
        BAD(sample, bide_reserve_many(sample->queue, &args));
    }
    EQ(jobs[0].id, 0);
    free(topics);
}

static void unknown_strategy_or_weight_0_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_job job;
    spoil(&job, sizeof job);
    bide_slice topics[] = {slice(sample->topic), slice(fresh_topic("b"))};
    static const int strategies[] = {4, 99, -1, INT_MAX};
    for (size_t i = 0; i < COUNT(strategies); i++) {
        bide_reserve_args args = reserve_args(topics, 2, 0, &job, 1);
        args.strategy = (bide_strategy)strategies[i];
        BAD(sample, bide_reserve_many(sample->queue, &args));
    }
    static const uint32_t weights[] = {1, 0};
    bide_reserve_args args = reserve_args(topics, 2, 0, &job, 1);
    args.strategy = BIDE_WEIGHTED;
    args.weights = weights;
    BAD(sample, bide_reserve_many(sample->queue, &args));
    SPOILED(job);
}

static void unknown_state_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    bide_job job;
    size_t count;
    uint64_t purged;
    spoil(&job, sizeof job);
    spoil(&count, sizeof count);
    spoil(&purged, sizeof purged);
    static const int states[] = {6, 99, -1, INT_MAX, BIDE_STATE_GONE, BIDE_STATE_RESERVED};
    for (size_t i = 0; i < COUNT(states); i++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        bide_state state = (bide_state)states[i];
        BAD(sample, bide_purge(queue, sample->topic, state, &purged));
        if (state == BIDE_STATE_RESERVED)
            continue;
        BAD(sample, bide_peek_first(queue, sample->topic, state, &job));
        if (state == BIDE_STATE_GONE)
            continue;
        BAD(sample, bide_list(queue, sample->topic, state, NULL, cursor, &job, 1, &count));
    }
    SPOILED(job);
    SPOILED(count);
    SPOILED(purged);
}

static void topic_ref_delta_other_than_1_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    static const int deltas[] = {0, 2, -2, INT_MAX, INT_MIN};
    for (size_t i = 0; i < COUNT(deltas); i++) {
        BAD(sample, bide_topic_ref(sample->queue, sample->topic, deltas[i]));
        BAD(sample, bide_topic_ref(sample->queue, fresh_topic("new"), deltas[i]));
    }
    BAD(sample, bide_topic_ref(sample->queue, sample->topic, -1));
    REFUSE(sample, bide_topic_ref(sample->queue, fresh_topic("new"), -1), BIDE_NOT_FOUND);
    REFUSE(sample, bide_resume(sample->queue, fresh_topic("new")), BIDE_NOT_FOUND);
}

static void find_of_an_invalid_key_is_rejected(void)
{
    static const char long_key[BIDE_KEY_MAX + 1] = {0};
    struct sample_queue *sample = new_sample_queue("");
    bide_job job;
    spoil(&job, sizeof job);
    BAD(sample, bide_find(sample->queue, sample->topic, "", 0, &job));
    BAD(sample, bide_find(sample->queue, sample->topic, NULL, 0, &job));
    BAD(sample, bide_find(sample->queue, sample->topic, NULL, 3, &job));
    BAD(sample, bide_find(sample->queue, sample->topic, long_key, sizeof long_key, &job));
    BAD(sample, bide_find(sample->queue, sample->topic, long_key, SIZE_MAX, &job));
    REFUSE(sample, bide_find(sample->queue, sample->topic, "unknown", 7, &job), BIDE_NOT_FOUND);
    SPOILED(job);
}

static const struct test tests[] = {
    TEST(null_queue_is_rejected_by_calls_that_put_or_reserve),
    TEST(null_queue_is_rejected_by_queries_and_administration),
    TEST(close_accepts_null),
    TEST(null_arguments_are_rejected),
    TEST(reserve_of_an_invalid_count_is_rejected),
    TEST(unknown_strategy_or_weight_0_is_rejected),
    TEST(unknown_state_is_rejected),
    TEST(topic_ref_delta_other_than_1_is_rejected),
    TEST(find_of_an_invalid_key_is_rejected),
};

const struct theme bad_call_theme = {"bad_call", tests, COUNT(tests)};
