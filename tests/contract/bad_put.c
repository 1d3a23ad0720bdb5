/* SPDX-License-Identifier: MIT */
/* bad_put.c - bad input to put, put_many and restore changes nothing. */
#include "sample_queue.h"

#include <stdio.h>
#include <string.h>

#define PUT(sample, options) bide_put((sample)->queue, (sample)->topic, "x", 1, (options), &id)

static void put_with_invalid_durations_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    int64_t times[COUNT(bad_times) + 1] = {-1};
    memcpy(times + 1, bad_times, sizeof bad_times);
    for (size_t i = 0; i < COUNT(times); i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.delay_ms = times[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
        options.delay_ms = 0;
        if (times[i] == BIDE_NO_DEFAULT) /* valid in the others */
            continue;
        options.ttr_ms = times[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
        options.ttr_ms = 0;
        options.backoff_base_ms = times[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
        options.backoff_base_ms = 0;
        options.backoff_max_ms = times[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
        options.backoff_max_ms = 0;
        options.retain_ms = times[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
    }
    SPOILED(id);
    UNCHANGED(sample);
}

static void put_with_invalid_timestamps_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    int64_t moments[COUNT(bad_moments) + 1] = {-1};
    memcpy(moments + 1, bad_moments, sizeof bad_moments);
    for (size_t i = 0; i < COUNT(moments); i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.run_at_ms = moments[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
        options.run_at_ms = 0;
        if (moments[i] == BIDE_NO_DEFAULT) /* valid there */
            continue;
        options.expires_at_ms = moments[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
    }
    SPOILED(id);
    UNCHANGED(sample);
}

static void put_with_delay_and_run_at_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = 1000;
    options.run_at_ms = wall_ms() + 1000;
    BAD(sample, PUT(sample, &options));
    SPOILED(id);
}

static void put_with_invalid_options_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = BIDE_UNLIMITED;
    CODE(PUT(sample, &options), BIDE_EINVAL);
    options.max_retries = INT32_MIN;
    CODE(PUT(sample, &options), BIDE_EINVAL);
    options.max_retries = 0;
    options.key = slice("k");
    options.conflict = (bide_conflict)(BIDE_SKIP + 1);
    CODE(PUT(sample, &options), BIDE_EINVAL);
    options.conflict = (bide_conflict)99;
    CODE(PUT(sample, &options), BIDE_EINVAL);
    SPOILED(id);
    UNCHANGED(sample);
}

static void put_options_of_a_wrong_size_are_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    static const size_t sizes[] = {0, 1, sizeof(bide_put_options) + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.size = sizes[i];
        CODE(PUT(sample, &options), BIDE_EINVAL);
    }
    SPOILED(id);
    UNCHANGED(sample);
}

static void invalid_key_is_rejected(void)
{
    static const char long_key[BIDE_KEY_MAX + 1] = {0};
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = (bide_slice){long_key, sizeof long_key};
    CODE(PUT(sample, &options), BIDE_EINVAL);
    options.key = (bide_slice){long_key, SIZE_MAX};
    CODE(PUT(sample, &options), BIDE_EINVAL);
    options.key = (bide_slice){NULL, 1};
    CODE(PUT(sample, &options), BIDE_EINVAL);
    SPOILED(id);
    UNCHANGED(sample);
}

static void null_body_with_a_size_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    BAD(sample, bide_put(sample->queue, sample->topic, NULL, 1, NULL, &id));
    SPOILED(id);
}

static void oversized_body_is_rejected(void)
{
    static const char body[65536];
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    REFUSE(sample, bide_put(sample->queue, sample->topic, body, 65536, NULL, &id), BIDE_TOO_BIG);
    REFUSE(sample, bide_put(sample->queue, sample->topic, body, SIZE_MAX, NULL, &id), BIDE_TOO_BIG);
    REFUSE(sample, bide_put(sample->queue, sample->topic, body, SIZE_MAX / 2, NULL, &id),
           BIDE_TOO_BIG);
    SPOILED(id);
    OK(bide_put(sample->queue, sample->topic, body, 65535, NULL, &id));
}

static void put_of_a_held_key_changes_nothing(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("held");
    uint64_t id = 0;
    REFUSE(sample, PUT(sample, &options), BIDE_EXISTS);
    EQ(id, sample->ready);
    options.key = slice("other");
    options.conflict = BIDE_REPLACE;
    REFUSE(sample, PUT(sample, &options), BIDE_EXISTS);
    EQ(id, sample->reserved);
}

static void put_many_of_an_invalid_count_is_rejected(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS + 1];
    struct sample_queue *sample = new_sample_queue("");
    size_t accepted;
    spoil(&accepted, sizeof accepted);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice(sample->topic), .status = 42, .id = 42};
    BAD(sample, bide_put_many(sample->queue, items, 0, &accepted));
    BAD(sample, bide_put_many(sample->queue, items, COUNT(items), &accepted));
    BAD(sample, bide_put_many(sample->queue, items, SIZE_MAX, &accepted));
    BAD(sample, bide_put_many(sample->queue, NULL, 1, &accepted));
    SPOILED(accepted);
    for (size_t i = 0; i < COUNT(items); i++)
        CHECK(items[i].status == 42 && items[i].id == 42);
}

static void a_put_many_of_only_bad_items_changes_nothing(void)
{
    static const char body[65536];
    struct sample_queue *sample = new_sample_queue("");
    bide_put_options negative = BIDE_PUT_OPTIONS_INIT, small = BIDE_PUT_OPTIONS_INIT;
    bide_put_options held = BIDE_PUT_OPTIONS_INIT;
    negative.delay_ms = -1;
    small.size = 3;
    held.key = slice("held");
    bide_slice topic = slice(sample->topic);
    bide_put_item items[] = {
        {.topic = {NULL, 0}, .id = 42},
        {.topic = {NULL, 5}, .id = 42},
        {.topic = {"a\0b", 3}, .id = 42},
        {.topic = slice("-a"), .id = 42},
        {.topic = topic, .options = &negative, .id = 42},
        {.topic = topic, .options = &small, .id = 42},
        {.topic = topic, .body = {NULL, 1}, .id = 42},
        {.topic = topic, .body = {body, sizeof body}, .id = 42},
        {.topic = topic, .options = &held, .id = 42},
    };
    size_t accepted = 42;
    OK(bide_put_many(sample->queue, items, COUNT(items), &accepted));
    UNCHANGED(sample);
    EQ(accepted, 0);
    for (size_t i = 0; i < 7; i++) {
        EQ(items[i].status, BIDE_EINVAL);
        EQ(items[i].id, 42);
    }
    EQ(items[7].status, BIDE_TOO_BIG);
    EQ(items[7].id, 42);
    EQ(items[8].status, BIDE_EXISTS);
    EQ(items[8].id, sample->ready);
}

/* Good and bad items in every order, in a queue with many topics. */
static void topics_of_rejected_items_are_not_read(void)
{
    enum { TOPICS = 8000, ITEMS = 40 };
    bide *queue = open_queue("");
    static char names[TOPICS][32];
    bide_put_item items[ITEMS];
    for (int i = 0; i < TOPICS; i++)
        snprintf(names[i], sizeof names[i], "many-%d", i);
    for (int from = 0; from < TOPICS; from += ITEMS) {
        size_t accepted = 0, good = 0;
        for (int i = 0; i < ITEMS; i++) {
            bool bad = from % (3 * ITEMS) != 0 && (i / 2 + from / ITEMS) % 3 == 0;
            bide_slice topic = bad ? (bide_slice){NULL, 5} : slice(names[from + i]);
            items[i] = (bide_put_item){.topic = topic, .id = 42};
            good += !bad;
        }
        OK(bide_put_many(queue, items, ITEMS, &accepted));
        EQ(accepted, good);
        for (int i = 0; i < ITEMS; i++)
            EQ(items[i].status, items[i].topic.data == NULL ? BIDE_EINVAL : BIDE_OK);
    }
}

/* A snapshot that can be restored, for tests that spoil one field of it. */
static bide_job good_job(const struct sample_queue *sample)
{
    bide_job job = *peek_job(sample->queue, sample->ready);
    snprintf(job.topic, sizeof job.topic, "%s", fresh_topic("restored"));
    return job;
}

static void restore_of_an_invalid_job_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    uint64_t id;
    spoil(&id, sizeof id);
    BAD(sample, bide_restore(queue, NULL, &id));
    static const int states[] = {BIDE_STATE_GONE, 6, 99, -1};
    for (size_t i = 0; i < COUNT(states); i++) {
        bide_job job = good_job(sample);
        job.state = (bide_state)states[i];
        CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    }
    bide_job job = good_job(sample);
    job.topic[0] = '\0';
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    memset(job.topic, 'a', sizeof job.topic);
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    snprintf(job.topic, sizeof job.topic, "not a topic");
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    job = good_job(sample);
    job.body = NULL;
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    job = good_job(sample);
    job.key_size = BIDE_KEY_MAX + 1;
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    job = good_job(sample);
    job.max_retries = -2;
    CODE(bide_restore(queue, &job, &id), BIDE_EINVAL);
    SPOILED(id);
    UNCHANGED(sample);
}

static void restore_with_invalid_times_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t id;
    spoil(&id, sizeof id);
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        bide_job job = good_job(sample);
        job.ttr_ms = bad_times[i];
        CODE(bide_restore(sample->queue, &job, &id), BIDE_EINVAL);
        job = good_job(sample);
        job.retain_ms = bad_times[i];
        CODE(bide_restore(sample->queue, &job, &id), BIDE_EINVAL);
        job = good_job(sample);
        job.backoff_base_ms = bad_times[i];
        CODE(bide_restore(sample->queue, &job, &id), BIDE_EINVAL);
        job = good_job(sample);
        job.backoff_max_ms = bad_times[i];
        CODE(bide_restore(sample->queue, &job, &id), BIDE_EINVAL);
    }
    for (size_t i = 0; i < COUNT(bad_moments); i++) {
        bide_job job = good_job(sample);
        job.expires_at_ms = bad_moments[i];
        CODE(bide_restore(sample->queue, &job, &id), BIDE_EINVAL);
    }
    SPOILED(id);
    UNCHANGED(sample);
}

static const struct test tests[] = {
    TEST(put_with_invalid_durations_is_rejected),
    TEST(put_with_invalid_timestamps_is_rejected),
    TEST(put_with_delay_and_run_at_is_rejected),
    TEST(put_with_invalid_options_is_rejected),
    TEST(put_options_of_a_wrong_size_are_rejected),
    TEST(invalid_key_is_rejected),
    TEST(null_body_with_a_size_is_rejected),
    TEST(oversized_body_is_rejected),
    TEST(put_of_a_held_key_changes_nothing),
    TEST(put_many_of_an_invalid_count_is_rejected),
    TEST(a_put_many_of_only_bad_items_changes_nothing),
    TEST(topics_of_rejected_items_are_not_read),
    TEST(restore_of_an_invalid_job_is_rejected),
    TEST(restore_with_invalid_times_is_rejected),
};

const struct theme bad_put_theme = {"bad_put", tests, COUNT(tests)};
