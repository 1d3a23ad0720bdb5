/* SPDX-License-Identifier: MIT */
/* retry.c - failures: how often they are forgiven, and how long a job then waits. */
#include "contract.h"

#include <string.h>

/* Fails a job that is delayed or ready with a lease; answers the delay, or -1 if it was buried. */
static int64_t fail_once(bide *queue, uint64_t id, int64_t retry_in_ms)
{
    bide_state state = BIDE_STATE_GONE;
    int64_t delay_ms = -2;
    OK(bide_fail(queue, id, take_job(queue, id)->token, "text", retry_in_ms, &state, &delay_ms));
    EQ(state, state_of(queue, id));
    return state == BIDE_STATE_BURIED ? -1 : delay_ms;
}

static void job_without_a_limit_is_retried_for_ever(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    for (int i = 1; i <= 50; i++) {
        EQ(fail_once(queue, id, 0), 0);
        EQ(state_of(queue, id), BIDE_STATE_READY);
    }
    const bide_job *job = stat_job(queue, id);
    EQ(job->fails, 50);
    EQ(job->failures, 50);
    EQ(job->buries, 0);
    EQ(topic_of(queue, a).total.fails, 50);
}

static void fail_may_give_the_retry_delay(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    bide_state state = BIDE_STATE_GONE;
    int64_t delay_ms = -2;
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, 3600000, &state, &delay_ms));
    EQ(state, BIDE_STATE_DELAYED);
    EQ(delay_ms, 3600000);
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    EQ(job->failures, 1);
    CHECK(job->last_error == NULL);
}

static void results_of_fail_may_be_null(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, BIDE_KEEP, NULL, NULL));
    EQ(state_of(queue, id), BIDE_STATE_DELAYED);
}

static void the_backoff_doubles_up_to_its_maximum(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 100000;
    options.backoff_max_ms = 1000000;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    static const int64_t least[] = {100000, 200000, 400000, 666667, 666667, 666667, 666667};
    static const int64_t most[] = {150000, 300000, 600000, 1000000, 1000000, 1000000, 1000000};
    for (size_t i = 0; i < COUNT(least); i++) {
        int64_t delay_ms = fail_once(queue, id, BIDE_KEEP);
        BETWEEN(delay_ms, least[i], most[i]);
        BETWEEN(stat_job(queue, id)->left_ms, delay_ms - PATIENCE_MS, delay_ms);
    }
}

static void default_backoff_is_5_seconds_to_1_hour(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    BETWEEN(fail_once(queue, id, BIDE_KEEP), 5000, 7500);
    BETWEEN(fail_once(queue, id, BIDE_KEEP), 10000, 15000);
    for (int i = 3; i <= 10; i++)
        fail_once(queue, id, 3600000);
    BETWEEN(fail_once(queue, id, BIDE_KEEP), 2400000, 3600000);
}

static void backoff_has_jitter_at_its_maximum(void)
{
    bide *queue = open_queue("seed=99");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 10000000;
    options.backoff_max_ms = 10000000;
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 40; i++) {
        int64_t delay_ms = fail_once(queue, put_as(queue, a, "body", &options), BIDE_KEEP);
        BETWEEN(delay_ms, 6666667, 10000000);
        least = delay_ms < least ? delay_ms : least;
        most = delay_ms > most ? delay_ms : most;
    }
    /* With 40 uniform numbers, a spread of less than a half is practically impossible. */
    CHECK(most - least > 1666667);
}

static void a_backoff_after_very_many_failures_does_not_overflow(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = BIDE_TIME_MAX_MS / 2;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    for (int i = 0; i < 140; i++)
        fail_once(queue, id, 3600000);
    BETWEEN(fail_once(queue, id, BIDE_KEEP), BIDE_TIME_MAX_MS / 3, BIDE_TIME_MAX_MS / 2);
    EQ(state_of(queue, id), BIDE_STATE_DELAYED);
}

static void a_maximum_below_the_base_is_the_backoff(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 5000000;
    options.backoff_max_ms = 1000000;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    BETWEEN(fail_once(queue, id, BIDE_KEEP), 666667, 1000000);
}

/* Also with a maximum that cannot be divided, and one that leaves no room to spread. */
static void no_backoff_is_longer_than_its_maximum(void)
{
    bide *queue = open_queue("seed=7");
    const char *a = fresh_topic("a");
    static const int64_t maxima[] = {1, 2, 3, 4, 5, 7, 1000, 1001};
    for (size_t i = 0; i < COUNT(maxima); i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.backoff_base_ms = 3;
        options.backoff_max_ms = maxima[i];
        for (int j = 0; j < 10; j++) {
            uint64_t id = put_as(queue, a, "body", &options);
            for (int failure = 0; failure < 12; failure++) {
                int64_t delay_ms = 0;
                OK(bide_fail(queue, id, 0, NULL, BIDE_KEEP, NULL, &delay_ms));
                BETWEEN(delay_ms, 1, maxima[i]);
            }
            OK(bide_delete(queue, id, 0));
        }
    }
}

static void job_with_0_retries_is_buried_at_its_first_failure(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    uint64_t id = put_as(queue, a, "body", &options);
    bide_state state = BIDE_STATE_GONE;
    int64_t delay_ms = -2;
    OK(bide_fail(queue, id, take(queue, a)->token, "it broke", 5, &state, &delay_ms));
    EQ(state, BIDE_STATE_BURIED);
    EQ(delay_ms, 0);
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->fails, 1);
    EQ(job->buries, 1);
    EQ(job->failures, 1);
    TEXT(job->last_error, job->last_error_size, "it broke");
    EQ(topic_of(queue, a).total.buries, 1);
    EQ(topic_of(queue, a).total.fails, 1);
}

static void a_job_is_buried_when_its_retries_are_used_up(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 3;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    for (int i = 0; i < 3; i++)
        EQ(fail_once(queue, id, 0), 0);
    EQ(fail_once(queue, id, 0), -1);
    EQ(stat_job(queue, id)->failures, 4);
    EQ(stat_job(queue, id)->buries, 1);
}

static void kick_resets_failures_but_not_counters(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    for (uint32_t round = 1; round <= 3; round++) {
        EQ(fail_once(queue, id, 0), 0);
        EQ(fail_once(queue, id, 0), -1);
        if (round == 2)
            OK(bide_kick(queue, a, 1, NULL));
        else
            OK(bide_kick_job(queue, id));
        const bide_job *job = stat_job(queue, id);
        EQ(job->state, BIDE_STATE_READY);
        EQ(job->failures, 0);
        EQ(job->fails, 2 * round);
        EQ(job->buries, round);
        EQ(job->kicks, round);
        EQ(job->reserves, 2 * round);
    }
}

static void kick_of_a_delayed_job_resets_failures(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    fail_once(queue, id, 3600000);
    OK(bide_kick_job(queue, id));
    EQ(stat_job(queue, id)->failures, 0);
    EQ(stat_job(queue, id)->fails, 1);
    BETWEEN(fail_once(queue, id, BIDE_KEEP), 5000, 7500);
}

static void release_give_back_and_bury_do_not_count_as_failures(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    uint64_t id = put_as(queue, a, "body", &options);
    for (int i = 0; i < 3; i++) {
        OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
        OK(bide_give_back(queue, id, take(queue, a)->token));
    }
    EQ(stat_job(queue, id)->state, BIDE_STATE_READY);
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    EQ(stat_job(queue, id)->failures, 0);
}

static void failures_are_counted_across_other_ends_of_the_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    EQ(fail_once(queue, id, 0), 0);
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_give_back(queue, id, take(queue, a)->token));
    EQ(stat_job(queue, id)->failures, 1);
    EQ(fail_once(queue, id, 0), -1);
}

static void error_text_is_kept_until_the_next_failure(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_fail(queue, id, take(queue, a)->token, "first", 0, NULL, NULL));
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, 0, NULL, NULL));
    OK(bide_fail(queue, id, take(queue, a)->token, "", 0, NULL, NULL));
    const bide_job *job = take(queue, a);
    TEXT(job->last_error, job->last_error_size, "first");
    OK(bide_fail(queue, id, job->token, "second", 0, NULL, NULL));
    job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "second");
    EQ(strlen(job->last_error), 6);
}

static void expired_lease_without_a_limit_is_not_a_failure(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    uint64_t id = put_as(queue, a, "body", &options);
    take(queue, a);
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    const bide_job *job = stat_job(queue, id);
    EQ(job->timeouts, 1);
    EQ(job->failures, 0);
    EQ(job->fails, 0);
    EQ(job->buries, 0);
    CHECK(job->last_error == NULL);
    EQ(topic_of(queue, a).total.timeouts, 1);
}

static void expired_lease_with_a_limit_is_a_failure_with_backoff(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    options.max_retries = 1;
    options.backoff_base_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    take(queue, a);
    UNTIL(state_of(queue, id) == BIDE_STATE_DELAYED);
    const bide_job *job = stat_job(queue, id);
    EQ(job->timeouts, 1);
    EQ(job->failures, 1);
    EQ(job->fails, 0);
    BETWEEN(job->left_ms, 2400000 - PATIENCE_MS, 3600000);
    TEXT(job->last_error, job->last_error_size, "ttr ran out");
}

static void a_job_that_kills_its_workers_ends_buried(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 15;
    options.max_retries = 2;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    for (int i = 0; i < 3; i++)
        EQ(await(queue, a)->id, id);
    UNTIL(state_of(queue, id) == BIDE_STATE_BURIED);
    const bide_job *job = stat_job(queue, id);
    EQ(job->timeouts, 3);
    EQ(job->reserves, 3);
    EQ(job->failures, 3);
    EQ(job->buries, 1);
    TEXT(job->last_error, job->last_error_size, "ttr ran out");
    EQ(topic_of(queue, a).total.buries, 1);
}

static void fail_and_expired_leases_use_the_same_retries(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    options.max_retries = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    OK(bide_fail(queue, id, take(queue, a)->token, "first", 0, NULL, NULL));
    OK(bide_touch(queue, id, take(queue, a)->token, 20, NULL)); /* which ends this lease only */
    UNTIL(state_of(queue, id) == BIDE_STATE_BURIED);
    const bide_job *job = stat_job(queue, id);
    EQ(job->fails, 1);
    EQ(job->timeouts, 1);
    EQ(job->failures, 2);
}

static const struct test tests[] = {
    TEST(job_without_a_limit_is_retried_for_ever),
    TEST(fail_may_give_the_retry_delay),
    TEST(results_of_fail_may_be_null),
    TEST(the_backoff_doubles_up_to_its_maximum),
    TEST(default_backoff_is_5_seconds_to_1_hour),
    TEST(backoff_has_jitter_at_its_maximum),
    TEST(a_backoff_after_very_many_failures_does_not_overflow),
    TEST(a_maximum_below_the_base_is_the_backoff),
    TEST(no_backoff_is_longer_than_its_maximum),
    TEST(job_with_0_retries_is_buried_at_its_first_failure),
    TEST(a_job_is_buried_when_its_retries_are_used_up),
    TEST(kick_resets_failures_but_not_counters),
    TEST(kick_of_a_delayed_job_resets_failures),
    TEST(release_give_back_and_bury_do_not_count_as_failures),
    TEST(failures_are_counted_across_other_ends_of_the_lease),
    TEST(error_text_is_kept_until_the_next_failure),
    TEST(expired_lease_without_a_limit_is_not_a_failure),
    TEST(expired_lease_with_a_limit_is_a_failure_with_backoff),
    TEST(a_job_that_kills_its_workers_ends_buried),
    TEST(fail_and_expired_leases_use_the_same_retries),
};

const struct theme retry_theme = {"retry", tests, COUNT(tests)};
