/* SPDX-License-Identifier: MIT */
/*
 * time.c - delays, moments, leases, pauses, retention: nothing early, and everything in the end.
 *
 * A test reads the clock before the call that starts the time and after the call that shows its
 * end. How late it is says nothing about the queue on a busy machine, and is not checked.
 */
#include "contract.h"

static void a_delay_does_not_end_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const int64_t delays_ms[] = {1, 2, 5, 20, 50, 80};
    for (size_t i = 0; i < COUNT(delays_ms); i++) {
        int64_t start_us = clock_us();
        uint64_t id = put_later(queue, a, delays_ms[i]);
        const bide_job *job = await(queue, a);
        NOT_BEFORE(start_us, delays_ms[i]);
        EQ(job->id, id);
        OK(bide_delete(queue, id, job->token));
    }
}

static void a_delay_ends_for_a_call_that_does_not_wait(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t start_us = clock_us();
    uint64_t id = put_later(queue, a, 30);
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    NOT_BEFORE(start_us, 30);
    EQ(take(queue, a)->id, id);
}

static void shorter_delay_ends_before_an_earlier_longer_one(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t start_us = clock_us();
    put_later(queue, a, BIDE_TIME_MAX_MS);
    uint64_t slow = put_later(queue, a, 3600000), fast = put_later(queue, a, 20);
    EQ(await(queue, a)->id, fast);
    NOT_BEFORE(start_us, 20);
    EQ(state_of(queue, slow), BIDE_STATE_DELAYED);
    EQ(topic_of(queue, a).jobs.delayed, 2);
}

static void nearer_deadline_wakes_the_sleeping_queue(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    put_later(queue, a, 3600000);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    nap_ms(20);
    int64_t start_us = clock_us();
    uint64_t id = put_later(queue, a, 30);
    completes(waiter, BIDE_OK);
    NOT_BEFORE(start_us, 30);
    EQ(waiter->job.id, id);
}

/* Puts them so far ahead that all are there before they are due; where puts take long, farther. */
static const char *put_due_together(bide *queue, uint64_t *ids, size_t count,
                                    bide_subscription **feed)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int64_t ahead_ms = 400; ahead_ms < PATIENCE_MS; ahead_ms *= 2) {
        const char *topic = fresh_topic("a");
        OK(bide_subscribe(queue, topic, 1U << BIDE_EVENT_READY, 0, feed));
        options.run_at_ms = wall_ms() + ahead_ms;
        for (size_t i = 0; i < count; i++)
            ids[i] = put_as(queue, topic, "body", &options);
        if (wall_ms() < options.run_at_ms)
            return topic;
        OK(bide_unsubscribe(queue, *feed));
    }
    FAIL("%zu puts take seconds", count);
}

static void jobs_due_together_are_ordered_by_id(void)
{
    bide *queue = open_queue("");
    bide_subscription *feed = NULL;
    uint64_t ids[20];
    const char *a = put_due_together(queue, ids, COUNT(ids), &feed);
    UNTIL(topic_of(queue, a).jobs.ready == COUNT(ids));
    bide_event events[20];
    size_t got = 0;
    for (int i = 0; i < 100 && got < COUNT(ids); i++) {
        size_t count = 0;
        OK(bide_events(queue, feed, PATIENCE_MS, events + got, COUNT(ids) - got, &count, NULL));
        got += count;
    }
    EQ(got, COUNT(ids));
    for (size_t i = 0; i < COUNT(ids); i++)
        EQ(events[i].id, ids[i]);
    OK(bide_unsubscribe(queue, feed));
}

static void ten_thousand_jobs_due_together_become_ready(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    static bide_job jobs[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 400;
    for (int i = 0; i < 10; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){.topic = topic, .options = &options};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    size_t got = 0;
    uint64_t last = 0;
    UNTIL(topic_of(queue, a).jobs.ready == 10 * COUNT(items));
    CHECK(wall_us() >= options.run_at_ms * 1000);
    for (int i = 0; i < 10; i++) {
        bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, COUNT(jobs));
        OK(bide_reserve_many(queue, &args));
        for (size_t j = 0; j < args.count; j++) {
            CHECK(jobs[j].id > last);
            last = jobs[j].id;
        }
        got += args.count;
        clear_jobs(jobs, args.count);
    }
    EQ(got, 10 * COUNT(items));
}

static void run_at_is_never_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const int64_t from_now_ms[] = {2, 20, 70};
    for (size_t i = 0; i < COUNT(from_now_ms); i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.run_at_ms = wall_ms() + from_now_ms[i];
        uint64_t id = put_as(queue, a, "body", &options);
        const bide_job *job = await(queue, a);
        CHECK(wall_us() >= options.run_at_ms * 1000);
        EQ(job->id, id);
    }
}

static void delays_of_both_clocks_coexist(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int64_t start_us = clock_us();
    options.run_at_ms = wall_ms() + 60;
    put_as(queue, a, "body", &options);
    put_later(queue, a, 40);
    options.run_at_ms += 3600000;
    put_as(queue, a, "body", &options);
    put_later(queue, a, 3600000);
    await(queue, a);
    await(queue, a);
    CHECK(wall_us() >= (options.run_at_ms - 3600000) * 1000);
    NOT_BEFORE(start_us, 40);
    nothing_ready(queue, a);
    EQ(topic_of(queue, a).jobs.delayed, 2);
}

static void released_job_is_not_ready_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    const bide_job *job = take(queue, a);
    int64_t start_us = clock_us();
    OK(bide_release(queue, id, job->token, BIDE_KEEP, 40));
    EQ(await(queue, a)->id, id);
    NOT_BEFORE(start_us, 40);
}

static void failed_job_is_not_retried_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 30;
    uint64_t id = put_as(queue, a, "body", &options);
    const bide_job *job = take(queue, a);
    int64_t start_us = clock_us(), delay_ms = 0;
    OK(bide_fail(queue, id, job->token, NULL, BIDE_KEEP, NULL, &delay_ms));
    BETWEEN(delay_ms, 30, 45);
    job = await(queue, a);
    NOT_BEFORE(start_us, 30);
    start_us = clock_us();
    OK(bide_fail(queue, id, job->token, NULL, 35, NULL, NULL));
    EQ(await(queue, a)->id, id);
    NOT_BEFORE(start_us, 35);
}

static void a_lease_does_not_end_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 50;
    uint64_t id = put_as(queue, a, "body", &options);
    int64_t start_us = clock_us();
    take(queue, a);
    const bide_job *job = await(queue, a);
    NOT_BEFORE(start_us, 50);
    EQ(job->id, id);
    EQ(job->timeouts, 1);
    EQ(job->reserves, 2);
}

static void a_touch_moves_the_end_of_the_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    const bide_job *job = take(queue, a);
    int64_t start_us = clock_us();
    OK(bide_touch(queue, id, job->token, 80, NULL));
    EQ(await(queue, a)->id, id);
    NOT_BEFORE(start_us, 80);
    EQ(stat_job(queue, id)->timeouts, 1);
}

static void expiry_is_never_early_and_is_counted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_topic_ref(queue, a, 1));
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() + 50;
    uint64_t ready = put_as(queue, a, "body", &options);
    options.delay_ms = 3600000;
    uint64_t delayed = put_as(queue, a, "body", &options);
    UNTIL(state_of(queue, ready) == BIDE_STATE_GONE);
    CHECK(wall_us() >= options.expires_at_ms * 1000);
    UNTIL(state_of(queue, delayed) == BIDE_STATE_GONE);
    EQ(topic_of(queue, a).total.expired, 2);
    EQ(topic_of(queue, a).total.deletes, 0);
    OK(bide_topic_ref(queue, a, -1));
}

static void a_job_that_was_once_reserved_does_not_expire(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() + 60;
    uint64_t id = put_as(queue, a, "body", &options);
    bide_job job = {0};
    int code = bide_reserve(queue, a, 0, &job);
    if (code == BIDE_TIMED_OUT) {
        /* The machine was so slow that the job had expired: that is right, too. */
        CHECK(wall_us() >= options.expires_at_ms * 1000);
        return;
    }
    OK(code);
    OK(bide_give_back(queue, id, job.token));
    bide_job_clear(&job);
    uint64_t other = put_as(queue, a, "other", &options);
    UNTIL(state_of(queue, other) == BIDE_STATE_GONE);
    nap_ms(30);
    EQ(state_of(queue, id), BIDE_STATE_READY);
    EQ(topic_of(queue, a).total.expired, 1);
}

static void a_pause_does_not_end_early(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    int64_t start_us = clock_us();
    OK(bide_pause(queue, a, 50));
    EQ(await(queue, a)->id, id);
    NOT_BEFORE(start_us, 50);
    CHECK(!topic_of(queue, a).paused);
}

static void delay_ends_in_a_paused_topic_without_delivery(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    uint64_t id = put_later(queue, a, 10);
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    still_pending(waiter);
    OK(bide_resume(queue, a));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
}

static void retention_does_not_end_early_and_is_counted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_topic_ref(queue, a, 1));
    uint64_t id = put(queue, a, "body");
    const bide_job *job = take(queue, a);
    int64_t start_us = clock_us();
    OK(bide_done(queue, id, job->token, "r", 1, 50));
    UNTIL(state_of(queue, id) == BIDE_STATE_GONE);
    NOT_BEFORE(start_us, 50);
    EQ(topic_of(queue, a).total.retired, 1);
    EQ(topic_of(queue, a).total.dones, 1);
    EQ(topic_of(queue, a).total.deletes, 0);
    EQ(topic_of(queue, a).jobs.done, 0);
    OK(bide_topic_ref(queue, a, -1));
}

static void update_to_an_earlier_time_takes_effect(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    uint64_t id = put_later(queue, a, 3600000);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    bide_update_args changes = {.id = id, .priority = BIDE_KEEP, .run_at_ms = BIDE_KEEP};
    changes.ttr_ms = BIDE_KEEP;
    changes.delay_ms = 30;
    int64_t start_us = clock_us();
    OK(bide_update(queue, &changes));
    completes(waiter, BIDE_OK);
    NOT_BEFORE(start_us, 30);
    EQ(waiter->job.id, id);
}

static void short_and_long_times_coexist(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t far = 0;
    for (int64_t delay_ms = 100000; delay_ms < BIDE_TIME_MAX_MS; delay_ms *= 3)
        far = put_later(queue, a, delay_ms);
    uint64_t delayed = topic_of(queue, a).jobs.delayed;
    CHECK(delayed > 10);
    uint64_t near[8];
    int64_t start_us = clock_us();
    for (size_t i = 0; i < COUNT(near); i++)
        near[i] = put_later(queue, a, 40 - 5 * (int64_t)i);
    for (size_t i = 0; i < COUNT(near); i++)
        await(queue, a);
    NOT_BEFORE(start_us, 40);
    for (size_t i = 0; i < COUNT(near); i++)
        EQ(state_of(queue, near[i]), BIDE_STATE_RESERVED);
    EQ(topic_of(queue, a).jobs.delayed, delayed);
    EQ(state_of(queue, far), BIDE_STATE_DELAYED);
}

static const struct test tests[] = {
    TEST(a_delay_does_not_end_early),
    TEST(a_delay_ends_for_a_call_that_does_not_wait),
    TEST(shorter_delay_ends_before_an_earlier_longer_one),
    TEST(nearer_deadline_wakes_the_sleeping_queue),
    TEST(jobs_due_together_are_ordered_by_id),
    TEST(ten_thousand_jobs_due_together_become_ready),
    TEST(run_at_is_never_early),
    TEST(delays_of_both_clocks_coexist),
    TEST(released_job_is_not_ready_early),
    TEST(failed_job_is_not_retried_early),
    TEST(a_lease_does_not_end_early),
    TEST(a_touch_moves_the_end_of_the_lease),
    TEST(expiry_is_never_early_and_is_counted),
    TEST(a_job_that_was_once_reserved_does_not_expire),
    TEST(a_pause_does_not_end_early),
    TEST(delay_ends_in_a_paused_topic_without_delivery),
    TEST(retention_does_not_end_early_and_is_counted),
    TEST(update_to_an_earlier_time_takes_effect),
    TEST(short_and_long_times_coexist),
};

const struct theme time_theme = {"time", tests, COUNT(tests)};
