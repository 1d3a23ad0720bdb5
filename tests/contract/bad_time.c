/* SPDX-License-Identifier: MIT */
/* bad_time.c - times and priorities out of range are refused by every call that takes one. */
#include "sample_queue.h"

static void invalid_timeout_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    bide_slice topic = slice(sample->topic);
    bide_subscription *feed = NULL;
    OK(bide_subscribe(queue, sample->topic, 0, 0, &feed));
    sample_queue_remember(sample);
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        bide_job job;
        bide_event event;
        bide_state state;
        spoil(&job, sizeof job);
        spoil(&event, sizeof event);
        spoil(&state, sizeof state);
        size_t count = 0;
        CODE(bide_reserve(queue, sample->topic, bad_times[i], &job), BIDE_EINVAL);
        bide_reserve_args args = reserve_args(&topic, 1, bad_times[i], &job, 1);
        CODE(bide_reserve_many(queue, &args), BIDE_EINVAL);
        bide_finish_item finish = {.id = sample->reserved, .token = sample->token};
        CODE(bide_finish_and_reserve(queue, &finish, &args), BIDE_EINVAL);
        CODE(bide_wait(queue, sample->ready, bad_times[i], &state, NULL), BIDE_EINVAL);
        CODE(bide_events(queue, feed, bad_times[i], &event, 1, &count, NULL), BIDE_EINVAL);
        SPOILED(job);
        SPOILED(event);
        SPOILED(state);
        UNCHANGED(sample);
    }
    OK(bide_unsubscribe(queue, feed));
}

static void release_with_an_invalid_delay_or_priority_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    BAD(sample, bide_release(sample->queue, sample->reserved, sample->token, BIDE_KEEP, -1));
    for (size_t i = 0; i < COUNT(bad_times); i++)
        BAD(sample,
            bide_release(sample->queue, sample->reserved, sample->token, BIDE_KEEP, bad_times[i]));
    for (size_t i = 0; i < COUNT(bad_priorities); i++)
        BAD(sample,
            bide_release(sample->queue, sample->reserved, sample->token, bad_priorities[i], 0));
    OK(bide_release(sample->queue, sample->reserved, sample->token, 0, BIDE_TIME_MAX_MS));
}

static void bury_with_an_invalid_priority_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    for (size_t i = 0; i < COUNT(bad_priorities); i++)
        BAD(sample,
            bide_bury(sample->queue, sample->reserved, sample->token, bad_priorities[i], "why"));
    OK(bide_bury(sample->queue, sample->reserved, sample->token, UINT32_MAX, "why"));
}

static void fail_with_an_invalid_delay_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_state state;
    int64_t delay_ms;
    spoil(&state, sizeof state);
    spoil(&delay_ms, sizeof delay_ms);
    for (size_t i = 0; i < COUNT(bad_times); i++)
        BAD(sample, bide_fail(sample->queue, sample->reserved, sample->token, "why", bad_times[i],
                              &state, &delay_ms));
    SPOILED(state);
    SPOILED(delay_ms);
    OK(bide_fail(sample->queue, sample->reserved, sample->token, "why", BIDE_TIME_MAX_MS, NULL,
                 NULL));
}

static void done_with_an_invalid_retention_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    for (size_t i = 0; i < COUNT(bad_times); i++)
        BAD(sample,
            bide_done(sample->queue, sample->reserved, sample->token, "r", 1, bad_times[i]));
    OK(bide_done(sample->queue, sample->reserved, sample->token, "r", 1, BIDE_TIME_MAX_MS));
}

static void invalid_retention_in_a_list_rejects_only_its_item(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_finish_item items[COUNT(bad_times)] = {0};
    for (size_t i = 0; i < COUNT(bad_times); i++)
        items[i] = (bide_finish_item){.id = sample->reserved,
                                      .token = sample->token,
                                      .keep = true,
                                      .retain_ms = bad_times[i]};
    OK(bide_finish_many(sample->queue, items, COUNT(items)));
    for (size_t i = 0; i < COUNT(items); i++)
        EQ(items[i].status, BIDE_EINVAL);
    UNCHANGED(sample);
}

static void touch_with_an_invalid_time_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_touch_item items[COUNT(bad_times)] = {0};
    BAD(sample, bide_touch(sample->queue, sample->reserved, sample->token, -2, "progress"));
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        BAD(sample,
            bide_touch(sample->queue, sample->reserved, sample->token, bad_times[i], "progress"));
        items[i] = (bide_touch_item){.id = sample->reserved,
                                     .token = sample->token,
                                     .extend_ms = bad_times[i],
                                     .left_ms = 42};
    }
    OK(bide_touch_many(sample->queue, items, COUNT(items)));
    for (size_t i = 0; i < COUNT(items); i++) {
        EQ(items[i].status, BIDE_EINVAL);
        EQ(items[i].left_ms, 42);
    }
    UNCHANGED(sample);
    OK(bide_touch(sample->queue, sample->reserved, sample->token, BIDE_TIME_MAX_MS, NULL));
}

static void update_with_invalid_values_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_update_args good = {sample->ready, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP,
                             BIDE_KEEP,     {NULL, 0}, {0}};
    bide_update_args changes = good;
    for (size_t i = 0; i < COUNT(bad_priorities); i++) {
        changes.priority = bad_priorities[i];
        BAD(sample, bide_update(sample->queue, &changes));
    }
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        changes = good;
        changes.delay_ms = bad_times[i];
        BAD(sample, bide_update(sample->queue, &changes));
        changes = good;
        changes.ttr_ms = bad_times[i];
        BAD(sample, bide_update(sample->queue, &changes));
    }
    for (size_t i = 0; i < COUNT(bad_moments); i++) {
        changes = good;
        changes.run_at_ms = bad_moments[i];
        BAD(sample, bide_update(sample->queue, &changes));
    }
    changes = good;
    changes.delay_ms = 1000;
    changes.run_at_ms = wall_ms() + 1000;
    BAD(sample, bide_update(sample->queue, &changes));
}

static void pause_of_an_invalid_length_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        BAD(sample, bide_pause(sample->queue, sample->topic, bad_times[i]));
        BAD(sample, bide_pause(sample->queue, fresh_topic("new"), bad_times[i]));
    }
    OK(bide_pause(sample->queue, sample->topic, BIDE_TIME_MAX_MS));
    OK(bide_resume(sample->queue, sample->topic));
}

static void filter_with_invalid_ages_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    static const int64_t ages[] = {-1, INT64_MIN};
    for (size_t i = 0; i < COUNT(ages); i++) {
        bide_filter filters[] = {{.min_age_ms = ages[i]}, {.max_age_ms = ages[i]}};
        for (size_t j = 0; j < COUNT(filters); j++) {
            char cursor[BIDE_CURSOR_SIZE] = "";
            bide_job job;
            size_t count;
            spoil(&job, sizeof job);
            spoil(&count, sizeof count);
            BAD(sample, bide_list(sample->queue, sample->topic, BIDE_STATE_READY, &filters[j],
                                  cursor, &job, 1, &count));
            SPOILED(job);
            SPOILED(count);
            EQ(cursor[0], 0);
        }
    }
}

static const struct test tests[] = {
    TEST(invalid_timeout_is_rejected),
    TEST(release_with_an_invalid_delay_or_priority_is_rejected),
    TEST(bury_with_an_invalid_priority_is_rejected),
    TEST(fail_with_an_invalid_delay_is_rejected),
    TEST(done_with_an_invalid_retention_is_rejected),
    TEST(invalid_retention_in_a_list_rejects_only_its_item),
    TEST(touch_with_an_invalid_time_is_rejected),
    TEST(update_with_invalid_values_is_rejected),
    TEST(pause_of_an_invalid_length_is_rejected),
    TEST(filter_with_invalid_ages_is_rejected),
};

const struct theme bad_time_theme = {"bad_time", tests, COUNT(tests)};
