/* SPDX-License-Identifier: MIT */
/* policy.c - the policy of a topic: defaults of its jobs, concurrency, rate, and how many jobs. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

/* Sets members of a policy. */
#define SET(queue, topic, ...)                                         \
    do {                                                               \
        bide_topic_policy set_changes_ = BIDE_TOPIC_POLICY_INIT;       \
        set_members_(&set_changes_, (bide_topic_policy){__VA_ARGS__}); \
        OK(bide_topic_set((queue), (topic), &set_changes_));           \
    } while (0)

#define MEMBERS (offsetof(bide_topic_policy, room_) / sizeof(int64_t))

/* Those that are not 0. */
static void set_members_(bide_topic_policy *changes, bide_topic_policy members)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (((int64_t *)(void *)&members)[i] != 0)
            ((int64_t *)(void *)changes)[i] = ((int64_t *)(void *)&members)[i];
}

static bide_topic_policy policy_of(bide *queue, const char *topic)
{
    bide_topic_policy policy;
    OK(bide_topic_get(queue, topic, &policy, NULL));
    return policy;
}

static bide_topic_policy in_force(bide *queue, const char *topic)
{
    bide_topic_policy policy;
    OK(bide_topic_get(queue, topic, NULL, &policy));
    return policy;
}

/* ---- setting and getting ---- */

static void topic_without_a_policy_has_the_defaults_of_the_queue(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_topic_policy set = policy_of(queue, a), applied = in_force(queue, a);
    EQ(set.ttr_ms, 0);
    EQ(set.max_retries, BIDE_NO_DEFAULT);
    EQ(set.concurrency, 0);
    EQ(set.rate, 0);
    CHECK(applied.ttr_ms > 0);
    EQ(applied.max_retries, BIDE_NO_DEFAULT);
    EQ(applied.backoff_base_ms, 5000);
    EQ(applied.backoff_max_ms, 3600000);
    EQ(applied.rate_period_ms, 0);
    CHECK(!topic_exists(queue, a));
}

static void set_changes_only_what_is_given(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .ttr_ms = 2000, .concurrency = 3, .rate = 5);
    SET(queue, a, .concurrency = 4, .retain_ms = 7);
    bide_topic_policy set = policy_of(queue, a);
    EQ(set.ttr_ms, 2000);
    EQ(set.max_retries, BIDE_NO_DEFAULT);
    EQ(set.concurrency, 4);
    EQ(set.retain_ms, 7);
    EQ(set.rate, 5);
    EQ(set.rate_period_ms, 0);
    EQ(in_force(queue, a).rate_period_ms, 1000);
    EQ(in_force(queue, a).rate_burst, 5);
    SET(queue, a, .ttr_ms = BIDE_NO_DEFAULT, .max_retries = BIDE_UNLIMITED);
    set = policy_of(queue, a);
    EQ(set.ttr_ms, 0);
    EQ(set.max_retries, BIDE_UNLIMITED);
    EQ(set.concurrency, 4);
}

static void same_policy(struct where at, const bide_topic_policy *a, const bide_topic_policy *b)
{
    for (size_t i = 0; i < MEMBERS; i++)
        check_equal(at, ((const int64_t *)(const void *)a)[i],
                    ((const int64_t *)(const void *)b)[i], "member of a policy");
}

/* Nothing in a result means that set is to keep a member. */
static void policy_that_get_returns_can_be_set_again(void)
{
    bide *queue = open_queue("");
    const char *topics[] = {fresh_topic("a"), fresh_topic("b"), fresh_topic("c"), fresh_topic("d")};
    SET(queue, topics[1], .max_retries = BIDE_UNLIMITED, .rate = 5, .concurrency = 2);
    SET(queue, topics[2], .ttr_ms = 1, .max_retries = 3, .backoff_base_ms = 2, .backoff_max_ms = 3,
        .retain_ms = 4, .expires_in_ms = 5, .max_jobs = 6, .concurrency = 7, .rate = 8,
        .rate_period_ms = 9, .rate_burst = 10);
    SET(queue, topics[3], .backoff_max_ms = 77);
    for (size_t i = 0; i < COUNT(topics); i++) {
        bide_topic_policy set = policy_of(queue, topics[i]), applied = in_force(queue, topics[i]);
        OK(bide_topic_set(queue, topics[i], &set));
        bide_topic_policy again = policy_of(queue, topics[i]);
        same_policy(HERE, &set, &again);
        /* What applies becomes what is set, and then it still applies. */
        OK(bide_topic_set(queue, topics[i], &applied));
        set = policy_of(queue, topics[i]);
        again = in_force(queue, topics[i]);
        same_policy(HERE, &applied, &again);
        same_policy(HERE, &applied, &set);
    }
}

static void period_and_burst_belong_to_a_rate(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_topic_policy burst = BIDE_TOPIC_POLICY_INIT, period = BIDE_TOPIC_POLICY_INIT;
    burst.rate_burst = 5;
    period.rate_period_ms = 60000;
    CODE(bide_topic_set(queue, a, &burst), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "has no rate") != NULL);
    CODE(bide_topic_set(queue, a, &period), BIDE_EINVAL);
    CHECK(!topic_exists(queue, a));
    SET(queue, a, .rate = 3, .concurrency = 2);
    OK(bide_topic_set(queue, a, &burst));
    OK(bide_topic_set(queue, a, &period));
    SET(queue, a, .rate = BIDE_NO_DEFAULT);
    EQ(policy_of(queue, a).rate_burst, 0);
    EQ(policy_of(queue, a).rate_period_ms, 0);
    burst.rate = BIDE_NO_DEFAULT;
    burst.concurrency = 9;
    CODE(bide_topic_set(queue, a, &burst), BIDE_EINVAL);
    EQ(policy_of(queue, a).concurrency, 2);
}

static void topic_with_a_policy_is_kept(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .ttr_ms = 1000);
    CHECK(topic_exists(queue, a));
    uint64_t count;
    OK(bide_delete(queue, put(queue, a, "body"), 0));
    put(queue, a, "body");
    OK(bide_purge(queue, a, BIDE_STATE_READY, &count));
    EQ(policy_of(queue, a).ttr_ms, 1000);
    SET(queue, a, .ttr_ms = BIDE_NO_DEFAULT);
    CHECK(!topic_exists(queue, a));
}

static void invalid_policy_is_rejected_and_changes_nothing(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const size_t members[] = {
        offsetof(bide_topic_policy, ttr_ms),         offsetof(bide_topic_policy, max_jobs),
        offsetof(bide_topic_policy, concurrency),    offsetof(bide_topic_policy, rate),
        offsetof(bide_topic_policy, rate_period_ms), offsetof(bide_topic_policy, rate_burst)};
    SET(queue, a, .concurrency = 2);
    for (size_t i = 0; i < COUNT(members); i++) {
        bide_topic_policy changes = BIDE_TOPIC_POLICY_INIT;
        changes.retain_ms = 5;
        *(int64_t *)(void *)((char *)&changes + members[i]) = -9;
        CODE(bide_topic_set(queue, a, &changes), BIDE_EINVAL);
        *(int64_t *)(void *)((char *)&changes + members[i]) = INT64_MAX;
        CODE(bide_topic_set(queue, a, &changes), BIDE_EINVAL);
    }
    bide_topic_policy changes = BIDE_TOPIC_POLICY_INIT;
    changes.room_[0] = 1;
    CODE(bide_topic_set(queue, a, &changes), BIDE_EINVAL);
    CODE(bide_topic_set(queue, a, NULL), BIDE_EINVAL);
    CODE(bide_topic_set(queue, "-", &(bide_topic_policy)BIDE_TOPIC_POLICY_INIT), BIDE_EINVAL);
    CODE(bide_topic_get(queue, NULL, NULL, NULL), BIDE_EINVAL);
    EQ(policy_of(queue, a).retain_ms, 0);
    EQ(policy_of(queue, a).concurrency, 2);
}

/* ---- defaults ---- */

static void puts_take_what_they_do_not_say_from_the_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .ttr_ms = 7000, .max_retries = 3, .backoff_base_ms = 11, .backoff_max_ms = 22,
        .retain_ms = 33, .expires_in_ms = 3600000);
    uint64_t id = put(queue, a, "body");
    const bide_job *job = stat_job(queue, id);
    EQ(job->ttr_ms, 7000);
    EQ(job->max_retries, 3);
    EQ(job->backoff_base_ms, 11);
    EQ(job->backoff_max_ms, 22);
    EQ(job->retain_ms, 33);
    BETWEEN(job->expires_at_ms, wall_ms() + 3600000 - PATIENCE_MS, wall_ms() + 3600001);
}

static void options_win_over_the_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .ttr_ms = 7000, .max_retries = 3, .backoff_base_ms = 11, .backoff_max_ms = 22,
        .retain_ms = 33, .expires_in_ms = 3600000);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 1234;
    options.max_retries = 0;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 2;
    options.retain_ms = 3;
    options.expires_at_ms = wall_ms() + 60000;
    const bide_job *job = stat_job(queue, put_as(queue, a, "body", &options));
    EQ(job->ttr_ms, 1234);
    EQ(job->max_retries, 0);
    EQ(job->backoff_base_ms, 1);
    EQ(job->backoff_max_ms, 2);
    EQ(job->retain_ms, 3);
    EQ(job->expires_at_ms, options.expires_at_ms);
}

static void a_put_can_exclude_the_defaults(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t default_ttr = in_force(queue, a).ttr_ms;
    SET(queue, a, .ttr_ms = 7000, .max_retries = 3, .backoff_base_ms = 11, .backoff_max_ms = 22,
        .retain_ms = 33, .expires_in_ms = 3600000);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = options.backoff_base_ms = options.backoff_max_ms = BIDE_NO_DEFAULT;
    options.retain_ms = options.expires_at_ms = options.max_retries = BIDE_NO_DEFAULT;
    const bide_job *job = stat_job(queue, put_as(queue, a, "body", &options));
    EQ(job->ttr_ms, default_ttr);
    EQ(job->max_retries, BIDE_NO_RETRY_LIMIT);
    EQ(job->backoff_base_ms, 0);
    EQ(job->backoff_max_ms, 0);
    EQ(job->retain_ms, 0);
    EQ(job->expires_at_ms, 0);
}

static void the_topic_wins_over_a_fallback(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 25;
    options.fallbacks = BIDE_FALLBACK_RETRIES;
    EQ(stat_job(queue, put_as(queue, a, "1", &options))->max_retries, 25);
    SET(queue, a, .ttr_ms = 1000);
    EQ(stat_job(queue, put_as(queue, a, "2", &options))->max_retries, 25);
    SET(queue, a, .max_retries = 4);
    EQ(stat_job(queue, put_as(queue, a, "3", &options))->max_retries, 4);
    SET(queue, a, .max_retries = BIDE_UNLIMITED);
    EQ(stat_job(queue, put_as(queue, a, "4", &options))->max_retries, BIDE_NO_RETRY_LIMIT);
    options.fallbacks = 2;
    uint64_t id;
    CODE(bide_put(queue, a, "5", 1, &options, &id), BIDE_EINVAL);
}

static void every_put_of_a_list_and_a_step_has_the_defaults(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    SET(queue, a, .max_retries = 3);
    bide_put_item items[] = {{.topic = slice(a), .body = slice("1")},
                             {.topic = slice(b), .body = slice("2")}};
    OK(bide_put_many(queue, items, 2, NULL));
    EQ(stat_job(queue, items[0].id)->max_retries, 3);
    EQ(stat_job(queue, items[1].id)->max_retries, BIDE_NO_RETRY_LIMIT);
    const bide_job *job = take(queue, b);
    bide_put_item next = {.topic = slice(a), .body = slice("3")};
    bide_finish_and_put_args step = {.finish = {.id = job->id, .token = job->token},
                                     .priority = BIDE_KEEP,
                                     .items = &next,
                                     .count = 1};
    OK(bide_finish_and_put(queue, &step));
    EQ(stat_job(queue, next.id)->max_retries, 3);
}

static void a_later_change_leaves_jobs_as_they_are(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .ttr_ms = 7000, .max_retries = 3);
    uint64_t id = put(queue, a, "body");
    SET(queue, a, .ttr_ms = 8000, .max_retries = BIDE_NO_DEFAULT);
    EQ(stat_job(queue, id)->ttr_ms, 7000);
    EQ(stat_job(queue, id)->max_retries, 3);
}

static void max_jobs_limits_the_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id;
    SET(queue, a, .max_jobs = 2);
    uint64_t first = put(queue, a, "1");
    put(queue, a, "2");
    CODE(bide_put(queue, a, "3", 1, NULL, &id), BIDE_TOPIC_FULL);
    CHECK(strstr(bide_last_error(), "policy") != NULL);
    uint64_t other = put(queue, b, "4");
    bide_update_args move = BIDE_UPDATE_INIT;
    move.id = other;
    move.topic = slice(a);
    CODE(bide_update(queue, &move), BIDE_TOPIC_FULL);
    OK(bide_delete(queue, first, 0));
    OK(bide_update(queue, &move));
    SET(queue, a, .max_jobs = BIDE_NO_DEFAULT, .ttr_ms = 1);
    put(queue, a, "5");
}

/* ---- concurrency ---- */

static void no_more_than_concurrency_are_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(a), slice(b)};
    bide_job jobs[8] = {0};
    SET(queue, a, .concurrency = 2);
    put_lots(queue, a, 5, NULL, NULL);
    put_lots(queue, b, 2, NULL, NULL);
    bide_reserve_args args = reserve_args(topics, 2, 0, jobs, 8);
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 4);
    nothing_ready(queue, a);
    bide_topic_stats stats = topic_of(queue, a);
    EQ(stats.concurrency, 2);
    EQ(stats.jobs.reserved, 2);
    EQ(stats.limited, BIDE_LIMIT_CONCURRENCY);
    EQ(topic_of(queue, b).limited, BIDE_LIMIT_NONE);
    clear_jobs(jobs, 8);
}

static void each_strategy_skips_a_topic_at_its_limit(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(a), slice(b)};
    SET(queue, a, .concurrency = 1);
    put_lots(queue, a, 5, NULL, NULL);
    put_lots(queue, b, 8, NULL, NULL);
    take(queue, a);
    for (int strategy = BIDE_BY_PRIORITY; strategy <= BIDE_FAIR; strategy++) {
        bide_job jobs[2] = {0};
        bide_reserve_args args = reserve_args(topics, 2, 0, jobs, 2);
        args.strategy = (bide_strategy)strategy;
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, 2);
        CHECK(strcmp(jobs[0].topic, b) == 0 && strcmp(jobs[1].topic, b) == 0);
        clear_jobs(jobs, 2);
    }
}

/* Ends the reservation in one of many ways. */
static void end_reservation(bide *queue, const bide_job *job, int way)
{
    bide_finish_item finish = {.id = job->id, .token = job->token};
    bide_put_item item = {.topic = slice(fresh_topic("next")), .body = slice("x")};
    bide_finish_and_put_args step = {.finish = finish,
                                     .priority = BIDE_KEEP,
                                     .ending = BIDE_ENDING_RELEASE,
                                     .delay_ms = 3600000,
                                     .items = &item,
                                     .count = 1};
    switch (way) {
    case 0:
        OK(bide_delete(queue, job->id, job->token));
        return;
    case 1:
        OK(bide_done(queue, job->id, job->token, "r", 1, 60000));
        return;
    case 2:
        OK(bide_fail(queue, job->id, job->token, "why", 60000, NULL, NULL));
        return;
    case 3:
        OK(bide_bury(queue, job->id, job->token, BIDE_KEEP, "why"));
        return;
    case 4:
        OK(bide_release(queue, job->id, job->token, BIDE_KEEP, 60000));
        return;
    case 5:
        OK(bide_give_back(queue, job->id, job->token));
        return;
    case 6:
        OK(bide_finish_many(queue, &finish, 1));
        EQ(finish.status, BIDE_OK);
        return;
    default:
        OK(bide_finish_and_put(queue, &step));
    }
}

static void waiting_call_is_served_when_a_reservation_ends(void)
{
    bide *queue = open_queue("");
    for (int way = 0; way <= 7; way++) {
        char tag[2] = {(char)('a' + way), 0};
        const char *a = fresh_topic(tag);
        bide_slice topic = slice(a);
        SET(queue, a, .concurrency = 1);
        put(queue, a, "1");
        put(queue, a, "2");
        bide_job held = *take(queue, a);
        struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
        still_pending(waiter);
        end_reservation(queue, &held, way);
        completes(waiter, BIDE_OK);
        EQ(topic_of(queue, a).jobs.reserved, 1);
        OK(bide_delete(queue, waiter->job.id, waiter->job.token));
    }
}

static void waiting_call_is_served_when_a_lease_expires(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    SET(queue, a, .concurrency = 1, .ttr_ms = 100);
    uint64_t first = put(queue, a, "1");
    put(queue, a, "2");
    int64_t start_us = clock_us();
    EQ(take(queue, a)->id, first);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    completes(waiter, BIDE_OK);
    NOT_BEFORE(start_us, 100);
    EQ(waiter->job.id, first);
}

static void cancelled_job_frees_its_place_when_its_lease_ends(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .concurrency = 1);
    put(queue, a, "1");
    uint64_t second = put(queue, a, "2");
    const bide_job *job = take(queue, a);
    OK(bide_cancel(queue, job->id));
    nothing_ready(queue, a);
    OK(bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    EQ(take(queue, a)->id, second);
}

static void finish_and_reserve_uses_the_place_of_the_finished_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job next = {0};
    SET(queue, a, .concurrency = 1);
    put(queue, a, "1");
    uint64_t second = put(queue, a, "2");
    const bide_job *job = take(queue, a);
    bide_finish_item finish = {.id = job->id, .token = job->token};
    bide_reserve_args args = reserve_args(&topic, 1, 0, &next, 1);
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    EQ(next.id, second);
    EQ(topic_of(queue, a).jobs.reserved, 1);
    clear_jobs(&next, 1);
}

static void reserve_job_obeys_the_limits(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job = {0};
    SET(queue, a, .concurrency = 1, .rate = 1, .rate_period_ms = 3600000);
    uint64_t first = put(queue, a, "1"), second = put(queue, a, "2");
    OK(bide_pause(queue, a, BIDE_FOREVER));
    OK(bide_reserve_job(queue, first, &job));
    CODE(bide_reserve_job(queue, second, &job), BIDE_LIMITED);
    CHECK(strstr(bide_last_error(), "concurrency") != NULL);
    SET(queue, a, .concurrency = 2);
    CODE(bide_reserve_job(queue, second, &job), BIDE_LIMITED);
    CHECK(strstr(bide_last_error(), "rate") != NULL);
    SET(queue, a, .rate = BIDE_NO_DEFAULT);
    bide_job_clear(&job);
    OK(bide_reserve_job(queue, second, &job));
    bide_job_clear(&job);
}

static void lower_concurrency_lets_reserved_jobs_finish(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job held[3];
    SET(queue, a, .concurrency = 3);
    put_lots(queue, a, 6, NULL, NULL);
    for (int i = 0; i < 3; i++)
        held[i] = *take(queue, a);
    SET(queue, a, .concurrency = 1);
    EQ(topic_of(queue, a).jobs.reserved, 3);
    for (int i = 0; i < 3; i++) {
        nothing_ready(queue, a);
        OK(bide_touch(queue, held[i].id, held[i].token, 0, NULL));
        OK(bide_delete(queue, held[i].id, held[i].token));
    }
    take(queue, a);
    nothing_ready(queue, a);
    SET(queue, a, .concurrency = 2);
    take(queue, a);
    nothing_ready(queue, a);
    SET(queue, a, .concurrency = BIDE_NO_DEFAULT);
    take(queue, a);
    CHECK(!topic_exists(queue, fresh_topic("b")));
}

/* Of several ways in which jobs become ready, none gives one to a call that waits. */
static void limit_holds_whatever_makes_jobs_ready(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(a);
    bide_job job = {0};
    SET(queue, a, .concurrency = 1);
    uint64_t ready = put_first(queue, a, 9);
    bide_job held = *take(queue, a);
    EQ(held.id, ready);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);

    uint64_t buried = put_in(queue, a, BIDE_STATE_BURIED);
    OK(bide_kick_job(queue, buried));
    still_pending(waiter);
    put_in(queue, a, BIDE_STATE_BURIED);
    put_in(queue, a, BIDE_STATE_DELAYED);
    OK(bide_kick(queue, a, 9, NULL));
    OK(bide_kick(queue, a, 9, NULL));
    still_pending(waiter);
    bide_update_args move = BIDE_UPDATE_INIT;
    move.id = put_first(queue, b, 0);
    move.topic = topic;
    OK(bide_update(queue, &move));
    still_pending(waiter);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    OK(bide_resume(queue, a));
    still_pending(waiter);
    CODE(bide_reserve_job(queue, move.id, &job), BIDE_LIMITED);
    SET(queue, a, .ttr_ms = 60000);
    still_pending(waiter);
    EQ(topic_of(queue, a).jobs.reserved, 1);

    uint64_t count = 0;
    OK(bide_purge(queue, a, BIDE_STATE_DELAYED, &count));
    OK(bide_delete(queue, held.id, held.token));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, move.id);
    nothing_ready(queue, a);
    OK(bide_purge(queue, a, BIDE_STATE_READY, &count));
    EQ(count, 3);
    OK(bide_delete(queue, waiter->job.id, waiter->job.token));
    EQ(topic_of(queue, a).limited, BIDE_LIMIT_NONE);
}

static void cancelled_reserve_leaves_its_place(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    SET(queue, a, .concurrency = 1);
    put(queue, a, "1");
    bide_job held = *take(queue, a);
    struct waiter *gone = begin_reserve(queue, new_cq(), &topic, 1);
    struct waiter *stays = begin_reserve(queue, new_cq(), &topic, 1);
    EQ(bide_cancel_op(queue, &gone->op), BIDE_OK);
    completes(gone, BIDE_CANCELLED);
    OK(bide_release(queue, held.id, held.token, BIDE_KEEP, 0));
    completes(stays, BIDE_OK);
}

static void pause_and_limit_do_not_end_each_other(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .concurrency = 1);
    put(queue, a, "1");
    put(queue, a, "2");
    bide_job held = *take(queue, a);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    OK(bide_delete(queue, held.id, held.token));
    nothing_ready(queue, a);
    OK(bide_resume(queue, a));
    held = *take(queue, a);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    OK(bide_resume(queue, a));
    put(queue, a, "3");
    nothing_ready(queue, a);
}

/* ---- the rate ---- */

static void a_rate_begins_with_one_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    SET(queue, a, .rate = 3, .rate_period_ms = 3600000);
    put_lots(queue, a, 5, NULL, NULL);
    take(queue, a);
    nothing_ready(queue, a);
    bide_topic_stats stats = topic_of(queue, a);
    EQ(stats.rate, 3);
    EQ(stats.rate_period_ms, 3600000);
    EQ(stats.limited, BIDE_LIMIT_RATE);
    BETWEEN(stats.limit_left_ms, 1200000 - PATIENCE_MS, 1200000);
    /* The same settings again are no change; other ones begin anew. */
    SET(queue, a, .rate = 3, .rate_burst = 3);
    nothing_ready(queue, a);
    SET(queue, a, .rate_burst = 2);
    take(queue, a);
    nothing_ready(queue, a);
}

static void waiting_calls_are_served_at_the_rate(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    SET(queue, a, .rate = 1, .rate_period_ms = 40, .rate_burst = 1);
    put_lots(queue, a, 4, NULL, NULL);
    int64_t start_us = clock_us();
    for (int i = 0; i < 4; i++) {
        struct waiter *waiter = new_op(BIDE_OP_RESERVE, new_cq());
        waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
        submit_code(queue, waiter, BIDE_OK);
        NOT_BEFORE(start_us, 40 * i);
    }
}

static void the_bucket_fills_up_to_the_burst(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job jobs[10] = {0};
    SET(queue, a, .rate = 1000, .rate_burst = 4);
    put_lots(queue, a, 10, NULL, NULL);
    nap_ms(50);
    /* Much more than four would have been due. */
    bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, 10);
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 4);
    clear_jobs(jobs, 10);
}

static void other_topics_are_served_meanwhile(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(a), slice(b)};
    SET(queue, a, .rate = 1, .rate_period_ms = 3600000);
    put_lots(queue, a, 3, NULL, NULL);
    take(queue, a);
    struct waiter *waiter = begin_reserve(queue, new_cq(), topics, 2);
    still_pending(waiter);
    uint64_t id = put(queue, b, "x");
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
}

static void a_call_waits_on_many_limited_topics(void)
{
    enum { TOPICS = 50 };
    bide *queue = open_queue("");
    static bide_slice topics[TOPICS];
    bide_job held = {0};
    for (size_t i = 0; i < TOPICS; i++) {
        char tag[4] = {'t', (char)('0' + i / 10), (char)('0' + i % 10)};
        const char *topic = fresh_topic(tag);
        topics[i] = slice(topic);
        SET(queue, topic, .concurrency = 1);
        put(queue, topic, "1");
        put(queue, topic, "2");
        held = *take(queue, topic);
    }
    struct waiter *waiter = begin_reserve(queue, new_cq(), topics, TOPICS);
    still_pending(waiter);
    OK(bide_delete(queue, held.id, held.token));
    completes(waiter, BIDE_OK);
    CHECK(strcmp(waiter->job.topic, (const char *)topics[TOPICS - 1].data) == 0);
}

/* ---- threads ---- */

#define CONSUMERS 64
#define LIMIT     10
#define LOAD      1280

static struct {
    bide *queue;
    const char *topic;
    int held, finished;
} crowd;

static void *consume(void *arg)
{
    (void)arg;
    while (__atomic_load_n(&crowd.finished, __ATOMIC_SEQ_CST) < LOAD) {
        bide_job job = {0};
        int code = bide_reserve(crowd.queue, crowd.topic, 20, &job);
        if (code == BIDE_TIMED_OUT)
            continue;
        check_code(HERE, code, BIDE_OK, "reserve");
        int held = __atomic_add_fetch(&crowd.held, 1, __ATOMIC_SEQ_CST);
        BETWEEN(held, 1, LIMIT);
        if (job.id % 4 == 0)
            nap_ms(1);
        bide_topic_stats stats;
        OK(bide_topic_get_stats(crowd.queue, crowd.topic, &stats));
        BETWEEN((int64_t)stats.jobs.reserved, 1, LIMIT);
        __atomic_sub_fetch(&crowd.held, 1, __ATOMIC_SEQ_CST);
        if (job.reserves == 1 && job.id % 5 == 0) {
            OK(bide_release(crowd.queue, job.id, job.token, BIDE_KEEP, 0));
        } else {
            OK(bide_delete(crowd.queue, job.id, job.token));
            __atomic_add_fetch(&crowd.finished, 1, __ATOMIC_SEQ_CST);
        }
        bide_job_clear(&job);
    }
    return NULL;
}

static void many_consumers_never_exceed_the_concurrency(void)
{
    pthread_t threads[CONSUMERS];
    crowd.queue = open_queue("");
    crowd.topic = fresh_topic("a");
    SET(crowd.queue, crowd.topic, .concurrency = LIMIT);
    put_lots(crowd.queue, crowd.topic, LOAD, NULL, NULL);
    for (size_t i = 0; i < CONSUMERS; i++)
        threads[i] = start_thread(consume, NULL);
    for (size_t i = 0; i < CONSUMERS; i++)
        join_thread(threads[i]);
    EQ(crowd.finished, LOAD);
    EQ(topic_of(crowd.queue, crowd.topic).jobs.reserved, 0);
}

/* Its timer and those of the announcements are in one heap. */
static void queue_with_workers_closes_while_a_topic_is_at_its_rate(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    char name[8];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "w%d", i);
        const bide_worker_info info = {.name = slice(name)};
        OK(bide_announce(queue, &info, 7200000));
    }
    SET(queue, a, .rate = 1, .rate_period_ms = 3600000);
    put(queue, a, "1");
    take(queue, a);
    EQ(topic_of(queue, a).limited, BIDE_LIMIT_RATE);
    close_queue(queue);
}

/* A topic without a token does not keep the others from being served, in any order of choice. */
static void one_reserve_takes_the_tokens_of_all_its_topics(void)
{
    enum { TOPICS = 40 };
    bide *queue = open_queue("");
    static bide_slice topics[TOPICS];
    static bide_job jobs[3 * TOPICS];
    bool seen[TOPICS] = {false};
    char tag[8];
    for (size_t i = 0; i < TOPICS; i++) {
        snprintf(tag, sizeof tag, "r%zu", i);
        topics[i] = slice(fresh_topic(tag));
        SET(queue, topics[i].data, .rate = 1, .rate_period_ms = 3600000);
        put_lots(queue, topics[i].data, 3, NULL, NULL);
    }
    for (int strategy = BIDE_BY_PRIORITY; strategy <= BIDE_FAIR; strategy++) {
        bide_reserve_args args = reserve_args(topics, TOPICS, 0, jobs, COUNT(jobs));
        args.strategy = (bide_strategy)strategy;
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, TOPICS);
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < args.count; i++) {
            size_t topic = 0;
            while (strcmp(jobs[i].topic, topics[topic].data) != 0)
                topic++;
            CHECK(!seen[topic]);
            seen[topic] = true;
            OK(bide_give_back(queue, jobs[i].id, jobs[i].token));
        }
        clear_jobs(jobs, args.count);
        CODE(bide_reserve_many(queue, &args), BIDE_TIMED_OUT);
        /* A change of the rate begins with one token again. */
        for (size_t i = 0; i < TOPICS; i++)
            SET(queue, topics[i].data, .rate_period_ms = 3600001 + strategy);
    }
}

static const struct test tests[] = {
    TEST(topic_without_a_policy_has_the_defaults_of_the_queue),
    TEST(set_changes_only_what_is_given),
    TEST(policy_that_get_returns_can_be_set_again),
    TEST(period_and_burst_belong_to_a_rate),
    TEST(topic_with_a_policy_is_kept),
    TEST(invalid_policy_is_rejected_and_changes_nothing),
    TEST(puts_take_what_they_do_not_say_from_the_topic),
    TEST(options_win_over_the_topic),
    TEST(a_put_can_exclude_the_defaults),
    TEST(the_topic_wins_over_a_fallback),
    TEST(every_put_of_a_list_and_a_step_has_the_defaults),
    TEST(a_later_change_leaves_jobs_as_they_are),
    TEST(max_jobs_limits_the_topic),
    TEST(no_more_than_concurrency_are_reserved),
    TEST(each_strategy_skips_a_topic_at_its_limit),
    TEST(waiting_call_is_served_when_a_reservation_ends),
    TEST(waiting_call_is_served_when_a_lease_expires),
    TEST(cancelled_job_frees_its_place_when_its_lease_ends),
    TEST(finish_and_reserve_uses_the_place_of_the_finished_job),
    TEST(reserve_job_obeys_the_limits),
    TEST(lower_concurrency_lets_reserved_jobs_finish),
    TEST(limit_holds_whatever_makes_jobs_ready),
    TEST(cancelled_reserve_leaves_its_place),
    TEST(pause_and_limit_do_not_end_each_other),
    TEST(a_rate_begins_with_one_job),
    TEST(waiting_calls_are_served_at_the_rate),
    TEST(the_bucket_fills_up_to_the_burst),
    TEST(other_topics_are_served_meanwhile),
    TEST(a_call_waits_on_many_limited_topics),
    TEST(many_consumers_never_exceed_the_concurrency),
    TEST(queue_with_workers_closes_while_a_topic_is_at_its_rate),
    TEST(one_reserve_takes_the_tokens_of_all_its_topics),
};

const struct theme policy_theme = {"policy", tests, COUNT(tests)};
