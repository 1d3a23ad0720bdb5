/* SPDX-License-Identifier: MIT */
/* retry_jitter.c - a thousand jobs that fail at the same time do not come back at the same time. */
#include "worker_fixture.h"

#define JOBS    1000
#define BASE_MS INT64_C(1000000)
#define BUCKETS 10

static int fail_always(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    enter(arg);
    return bide_context_retry(context, "the server is away");
}

/* In which tenth of [base, 1.5 base] is it? */
static int bucket_of(int64_t delay_ms, int64_t base_ms)
{
    BETWEEN(delay_ms, base_ms, base_ms * 3 / 2);
    int64_t tenth = (delay_ms - base_ms) * BUCKETS / (base_ms / 2);
    return tenth < BUCKETS ? (int)tenth : BUCKETS - 1;
}

/* 100 are expected in each tenth; the bounds are more than five deviations away. */
static void is_uniform(const int *buckets)
{
    for (int i = 0; i < BUCKETS; i++)
        BETWEEN(buckets[i], 50, 150);
}

static void what_the_queue_shows_is_spread(bide *queue, const char *topic)
{
    int buckets[BUCKETS] = {0}, all = 0;
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[100];
    do {
        size_t count = 0;
        OK(bide_list(queue, topic, BIDE_STATE_DELAYED, NULL, cursor, jobs, COUNT(jobs), &count));
        for (size_t i = 0; i < count; i++) {
            EQ(jobs[i].failures, 1);
            BETWEEN(jobs[i].left_ms, jobs[i].delay_ms - 12 * PATIENCE_MS, jobs[i].delay_ms);
            buckets[bucket_of(jobs[i].delay_ms, BASE_MS)]++;
            all++;
        }
        clear_jobs(jobs, count);
    } while (cursor[0] != '\0');
    EQ(all, JOBS);
    is_uniform(buckets);
}

static void a_thousand_failures_at_once_are_retried_at_different_times(void)
{
    bide_worker_options options = threads(32);
    struct worker_fixture *fixture = new_fixture(open_queue("seed=5"), &options);
    bide_put_options put = BIDE_PUT_OPTIONS_INIT;
    int buckets[BUCKETS] = {0};
    put.max_retries = 5;
    put.backoff_base_ms = BASE_MS;
    put.backoff_max_ms = 2 * BASE_MS;
    OK(bide_worker_handle(fixture->worker, fixture->topic, fail_always, fixture));
    put_lots(fixture->queue, fixture->topic, JOBS, &put, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        buckets[bucket_of(nth_event(fixture, BIDE_WORK_RETRIED, i)->delay_ms, BASE_MS)]++;
    is_uniform(buckets);
    what_the_queue_shows_is_spread(fixture->queue, fixture->topic);
    EQ(fixture->runs, JOBS);
}

/* Where all backoffs have reached their maximum, herds form most easily. */
static void failures_at_the_longest_backoff_are_retried_at_different_times(void)
{
    bide_worker_options options = threads(32);
    struct worker_fixture *fixture = new_fixture(open_queue("seed=6"), &options);
    bide_put_options put = BIDE_PUT_OPTIONS_INIT;
    int buckets[BUCKETS] = {0};
    put.backoff_base_ms = 10 * BASE_MS;
    put.backoff_max_ms = BASE_MS * 3 / 2;
    OK(bide_worker_handle(fixture->worker, fixture->topic, fail_always, fixture));
    put_lots(fixture->queue, fixture->topic, JOBS, &put, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        buckets[bucket_of(nth_event(fixture, BIDE_WORK_RETRIED, i)->delay_ms, BASE_MS)]++;
    is_uniform(buckets);
}

static const struct test tests[] = {
    TEST(a_thousand_failures_at_once_are_retried_at_different_times),
    TEST(failures_at_the_longest_backoff_are_retried_at_different_times),
};

const struct theme retry_jitter_theme = {"retry_jitter", tests, COUNT(tests)};
