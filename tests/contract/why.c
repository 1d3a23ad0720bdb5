/* SPDX-License-Identifier: MIT */
/* why.c - why a job does not run: every reason, what comes with it, and its sentence. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

/* Asks, and checks what every explanation has. */
#define WHY(queue, id, reason) why_at(HERE, (queue), (id), (reason))
static bide_explanation why_at(struct where at, bide *queue, uint64_t id, bide_why_reason reason)
{
    bide_explanation why;
    memset(&why, 0x5a, sizeof why);
    check_code(at, bide_why(queue, id, &why), BIDE_OK, "bide_why()");
    if (why.reason != reason)
        fail_test(at, "reason: expected %s, got %s, \"%s\"", bide_why_name(reason),
                  bide_why_name(why.reason), why.text);
    check_equal(at, (int64_t)why.id, (int64_t)id, "the id");
    check_true(at, why.text[0] != 0, "there is a sentence");
    check_true(at, strlen(why.text) < sizeof why.text - 1, "the sentence is complete");
    check_equal(at, why.room_[0] == 0, 1, "the rest is zero");
    return why;
}

#define WHY_KEY(queue, topic, key, reason) why_key_at(HERE, (queue), (topic), (key), (reason))
static bide_explanation why_key_at(struct where at, bide *queue, const char *topic, const char *key,
                                   bide_why_reason reason)
{
    bide_explanation why;
    memset(&why, 0x5a, sizeof why);
    check_code(at, bide_why_key(queue, topic, key, strlen(key), &why), BIDE_OK, "bide_why_key()");
    if (why.reason != reason)
        fail_test(at, "reason: expected %s, got %s, \"%s\"", bide_why_name(reason),
                  bide_why_name(why.reason), why.text);
    return why;
}

#define SAYS(why, part) says(HERE, &(why), (part))
static void says(struct where at, const bide_explanation *why, const char *part)
{
    if (strstr(why->text, part) == NULL)
        fail_test(at, "the sentence \"%s\" does not contain \"%s\"", why->text, part);
}

/* Somebody serves the topic: a call that waits for it would take its jobs. */
static void announce_for(bide *queue, const char *name, const char *topic)
{
    const bide_slice topics[] = {slice(topic)};
    const bide_worker_info info = {.name = slice(name), .topics = topics, .topic_count = 1};
    OK(bide_announce(queue, &info, 3600000));
}

/* ---- the job itself ---- */

static void job_that_is_gone_or_never_was_has_its_reason(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_delete(queue, id, 0));
    bide_explanation why = WHY(queue, id, BIDE_WHY_GONE);
    EQ(why.state, BIDE_STATE_GONE);
    EQ(why.topic[0], 0);
    WHY(queue, BIDE_ID_MAX, BIDE_WHY_UNKNOWN);
    WHY(queue, UINT64_MAX, BIDE_WHY_UNKNOWN);
}

static void expired_job_is_gone(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() - 1000;
    WHY(queue, put_as(queue, fresh_topic("a"), "body", &options), BIDE_WHY_GONE);
}

static void delayed_job_says_until_when(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t before_ms = wall_ms();
    uint64_t id = put_later(queue, a, 3600000);
    bide_explanation why = WHY(queue, id, BIDE_WHY_DELAYED);
    EQ(why.state, BIDE_STATE_DELAYED);
    CHECK(strcmp(why.topic, a) == 0);
    BETWEEN(why.left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(why.until_ms, before_ms + 3600000 - 10, wall_ms() + 3600000 + 10);
    SAYS(why, "is delayed");
}

static void run_at_is_a_time_of_the_wall_clock(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 7200000;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    bide_explanation why = WHY(queue, id, BIDE_WHY_DELAYED);
    EQ(why.until_ms, options.run_at_ms);
    BETWEEN(why.left_ms, 7200000 - PATIENCE_MS, 7200000);
}

static void reserved_job_says_by_whom_and_until_when(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 600000;
    uint64_t id = put_as(queue, a, "body", &options);
    bide_job job = {0};
    bide_reserve_args args = reserve_args(topics, 1, 0, &job, 1);
    args.holder = slice("web1\n\xff:47");
    OK(bide_reserve_many(queue, &args));
    bide_explanation why = WHY(queue, id, BIDE_WHY_RESERVED);
    EQ(why.state, BIDE_STATE_RESERVED);
    CHECK(strcmp(why.holder, "web1??:47") == 0);
    EQ(why.attempts, 1);
    EQ(why.running, 1);
    BETWEEN(why.left_ms, 600000 - PATIENCE_MS, 600000);
    BETWEEN(why.until_ms, wall_ms() + 600000 - PATIENCE_MS, wall_ms() + 600000 + 10);
    CHECK(!why.cancel_wanted);
    SAYS(why, "web1??:47");
    OK(bide_cancel(queue, id));
    why = WHY(queue, id, BIDE_WHY_RESERVED);
    CHECK(why.cancel_wanted);
    SAYS(why, "cancelled");
    bide_job_clear(&job);
}

static void buried_job_says_how_often_and_why_it_failed(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_give_back(queue, id, take_job(queue, id)->token));
    OK(bide_bury(queue, id, take_job(queue, id)->token, BIDE_KEEP, "no\troute"));
    bide_explanation why = WHY(queue, id, BIDE_WHY_BURIED);
    EQ(why.state, BIDE_STATE_BURIED);
    EQ(why.attempts, 2);
    EQ(why.until_ms, 0);
    CHECK(strcmp(why.error, "no?route") == 0);
    SAYS(why, "2 attempts");
    SAYS(why, "no?route");
    id = put_in(queue, fresh_topic("a"), BIDE_STATE_BURIED);
    why = WHY(queue, id, BIDE_WHY_BURIED);
    EQ(why.error[0], 0);
}

static void long_error_is_cut_and_the_sentence_is_complete(void)
{
    static char text[1001];
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    memset(text, 'x', sizeof text - 1);
    OK(bide_bury(queue, id, 0, BIDE_KEEP, text));
    bide_explanation why = WHY(queue, id, BIDE_WHY_BURIED);
    EQ(strlen(why.error), BIDE_WHY_ERROR_SIZE - 1);
    EQ(strspn(why.error, "x"), BIDE_WHY_ERROR_SIZE - 1);
}

static void failures_are_those_since_the_last_kick(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_fail(queue, id, take_job(queue, id)->token, "bad", 3600000, NULL, NULL));
    bide_explanation why = WHY(queue, id, BIDE_WHY_DELAYED);
    EQ(why.failures, 1);
    EQ(why.attempts, 1);
}

static void done_job_says_how_long_its_result_is_kept(void)
{
    bide *queue = open_queue("");
    uint64_t id = put_in(queue, fresh_topic("a"), BIDE_STATE_DONE);
    bide_explanation why = WHY(queue, id, BIDE_WHY_DONE);
    EQ(why.state, BIDE_STATE_DONE);
    BETWEEN(why.left_ms, 3600000 - PATIENCE_MS, 3600000);
}

/* ---- its topic ---- */

static void job_of_a_paused_topic_says_until_when(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_pause(queue, a, 3600000));
    bide_explanation why = WHY(queue, id, BIDE_WHY_PAUSED);
    EQ(why.state, BIDE_STATE_READY);
    BETWEEN(why.left_ms, 3600000 - PATIENCE_MS, 3600000);
    CHECK(why.until_ms > 0);
    SAYS(why, a);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    why = WHY(queue, id, BIDE_WHY_PAUSED);
    EQ(why.until_ms, 0);
    EQ(why.left_ms, 0);
    SAYS(why, "until it is resumed");
    OK(bide_resume(queue, a));
    WHY(queue, id, BIDE_WHY_NO_WORKER);
}

static void set_policy(bide *queue, const char *topic, int64_t concurrency, int64_t rate)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.concurrency = concurrency;
    policy.rate = rate;
    policy.rate_period_ms = rate > 0 ? 3600000 : BIDE_KEEP;
    policy.rate_burst = rate > 0 ? 1 : BIDE_KEEP;
    OK(bide_topic_set(queue, topic, &policy));
}

static void topic_at_its_concurrency_limit_is_the_reason(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    set_policy(queue, a, 2, BIDE_KEEP);
    put_lots(queue, a, 2, NULL, NULL);
    uint64_t id = put(queue, a, "body");
    uint64_t first = take(queue, a)->id;
    WHY(queue, id, BIDE_WHY_AHEAD);
    const bide_job *second = take(queue, a);
    bide_explanation why = WHY(queue, id, BIDE_WHY_CONCURRENCY);
    EQ(why.limit, 2);
    EQ(why.running, 2);
    EQ(why.until_ms, 0);
    SAYS(why, "2 of at most 2");
    WHY(queue, first, BIDE_WHY_RESERVED);
    OK(bide_delete(queue, second->id, second->token));
    WHY(queue, id, BIDE_WHY_NONE);
    OK(bide_topic_set(queue, a, &(bide_topic_policy){0}));
}

static void topic_at_its_rate_limit_says_until_when(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    set_policy(queue, a, BIDE_KEEP, 1);
    put(queue, a, "body");
    uint64_t id = put(queue, a, "body");
    take(queue, a);
    bide_explanation why = WHY(queue, id, BIDE_WHY_RATE);
    BETWEEN(why.left_ms, 3600000 - PATIENCE_MS, 3600000);
    CHECK(why.until_ms > 0);
    SAYS(why, "rate limit");
    OK(bide_topic_set(queue, a, &(bide_topic_policy){0}));
}

static void topic_without_a_worker_is_the_reason(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put(queue, a, "body"), second = put(queue, a, "body");
    bide_explanation why = WHY(queue, first, BIDE_WHY_NO_WORKER);
    EQ(why.waiting, 0);
    EQ(why.workers, 0);
    EQ(why.running, 0);
    EQ(why.ahead, 0);
    why = WHY(queue, second, BIDE_WHY_NO_WORKER);
    EQ(why.ahead, 1);
    SAYS(why, "1 job");
}

static void topic_has_a_worker_that_waits_announces_or_runs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    uint64_t id = put(queue, a, "body");
    announce_for(queue, "w", a);
    EQ(WHY(queue, id, BIDE_WHY_NONE).workers, 1);

    put(queue, b, "body");
    id = put(queue, b, "body");
    take(queue, b);
    EQ(WHY(queue, id, BIDE_WHY_NONE).running, 1);

    /* A call that waits for a topic takes its job, unless the topic is paused. */
    const bide_slice topics[] = {slice(c)};
    begin_reserve(queue, new_cq(), topics, 1);
    OK(bide_pause(queue, c, BIDE_FOREVER));
    id = put(queue, c, "body");
    EQ(WHY(queue, id, BIDE_WHY_PAUSED).waiting, 1);
}

static void worker_of_another_topic_does_not_count(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    announce_for(queue, "w", fresh_topic("b"));
    EQ(WHY(queue, id, BIDE_WHY_NO_WORKER).workers, 0);
    announce_for(queue, "w", a);
    EQ(WHY(queue, id, BIDE_WHY_NONE).workers, 1);
    announce_for(queue, "w", fresh_topic("b"));
    EQ(WHY(queue, id, BIDE_WHY_NO_WORKER).workers, 0);
}

static void jobs_ahead_are_counted_by_priority_and_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    announce_for(queue, "w", a);
    uint64_t last = put_first(queue, a, 9);
    uint64_t ids[30];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put_first(queue, a, (uint32_t)(2 - i % 3));
    put_first(queue, fresh_topic("b"), 0);
    put_later(queue, a, 3600000);
    EQ(WHY(queue, last, BIDE_WHY_AHEAD).ahead, COUNT(ids));
    for (size_t i = 0; i < COUNT(ids); i++) {
        /* Ten of each priority; those with the smallest one were put last of three. */
        uint64_t ahead = i % 3 == 2 ? i / 3 : i % 3 == 1 ? 10 + i / 3 : 20 + i / 3;
        bide_explanation why = WHY(queue, ids[i], ahead == 0 ? BIDE_WHY_NONE : BIDE_WHY_AHEAD);
        EQ(why.ahead, ahead);
        CHECK(!why.ahead_more);
    }
}

static void many_jobs_ahead_are_counted_up_to_the_limit(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    announce_for(queue, "w", a);
    put_lots(queue, a, 600, NULL, NULL);
    put_lots(queue, a, 400, NULL, NULL);
    uint64_t first = put(queue, a, "body"), second = put(queue, a, "body");
    bide_explanation why = WHY(queue, first, BIDE_WHY_AHEAD);
    EQ(why.ahead, BIDE_WHY_AHEAD_MAX);
    CHECK(!why.ahead_more);
    SAYS(why, "1000 jobs");
    why = WHY(queue, second, BIDE_WHY_AHEAD);
    EQ(why.ahead, BIDE_WHY_AHEAD_MAX);
    CHECK(why.ahead_more);
    SAYS(why, "at least 1000 jobs");
}

static void next_job_of_its_topic_has_no_reason(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    announce_for(queue, "w", a);
    uint64_t id = put(queue, a, "body");
    bide_explanation why = WHY(queue, id, BIDE_WHY_NONE);
    EQ(why.state, BIDE_STATE_READY);
    SAYS(why, "the next");
}

/* ---- keys ---- */

static void held_key_names_its_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "key");
    bide_explanation why = WHY_KEY(queue, a, "key", BIDE_WHY_KEY_HELD);
    EQ(why.id, id);
    EQ(why.state, BIDE_STATE_READY);
    CHECK(strcmp(why.topic, a) == 0);
    take_job(queue, id);
    why = WHY_KEY(queue, a, "key", BIDE_WHY_KEY_HELD);
    EQ(why.state, BIDE_STATE_RESERVED);
    CHECK(why.left_ms > 0);
    SAYS(why, "reserved");
}

static void free_key_has_no_reason(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    EQ(WHY_KEY(queue, a, "key", BIDE_WHY_NONE).id, 0);
    uint64_t id = put_key(queue, a, "key");
    WHY_KEY(queue, fresh_topic("b"), "key", BIDE_WHY_NONE);
    OK(bide_delete(queue, id, 0));
    WHY_KEY(queue, a, "key", BIDE_WHY_NONE);
    CHECK(!topic_exists(queue, a));
}

static void draining_is_why_a_key_that_is_free_cannot_be_put(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "key");
    OK(bide_drain(queue, true));
    bide_explanation why = WHY_KEY(queue, a, "other", BIDE_WHY_DRAINING);
    CHECK(why.draining);
    WHY_KEY(queue, a, "key", BIDE_WHY_KEY_HELD);
    /* Jobs that are in the queue still run. */
    CHECK(WHY(queue, id, BIDE_WHY_NO_WORKER).draining);
    OK(bide_drain(queue, false));
    WHY_KEY(queue, a, "other", BIDE_WHY_NONE);
}

/* ---- the call ---- */

static void question_without_an_id_or_a_key_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_explanation why;
    memset(&why, 0x5a, sizeof why);
    CODE(bide_why(queue, 0, &why), BIDE_EINVAL);
    CODE(bide_why(queue, 1, NULL), BIDE_EINVAL);
    CODE(bide_why_key(queue, a, "", 0, &why), BIDE_EINVAL);
    CODE(bide_why_key(queue, a, NULL, 3, &why), BIDE_EINVAL);
    CODE(bide_why_key(queue, "not good", "key", 3, &why), BIDE_EINVAL);
    CODE(bide_why_key(queue, NULL, "key", 3, &why), BIDE_EINVAL);
    EQ(why.id, UINT64_C(0x5a5a5a5a5a5a5a5a));
}

static void shut_down_queue_reserves_nothing(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_shutdown(queue));
    /* A server goes on: only this client has ended. */
    WHY(queue, id, is_in_process() ? BIDE_WHY_CLOSING : BIDE_WHY_NO_WORKER);
}

static const struct test tests[] = {
    TEST(job_that_is_gone_or_never_was_has_its_reason),
    TEST(expired_job_is_gone),
    TEST(delayed_job_says_until_when),
    TEST(run_at_is_a_time_of_the_wall_clock),
    TEST(reserved_job_says_by_whom_and_until_when),
    TEST(buried_job_says_how_often_and_why_it_failed),
    TEST(long_error_is_cut_and_the_sentence_is_complete),
    TEST(failures_are_those_since_the_last_kick),
    TEST(done_job_says_how_long_its_result_is_kept),
    TEST(job_of_a_paused_topic_says_until_when),
    TEST(topic_at_its_concurrency_limit_is_the_reason),
    TEST(topic_at_its_rate_limit_says_until_when),
    TEST(topic_without_a_worker_is_the_reason),
    TEST(topic_has_a_worker_that_waits_announces_or_runs),
    TEST(worker_of_another_topic_does_not_count),
    TEST(jobs_ahead_are_counted_by_priority_and_id),
    TEST(many_jobs_ahead_are_counted_up_to_the_limit),
    TEST(next_job_of_its_topic_has_no_reason),
    TEST(held_key_names_its_job),
    TEST(free_key_has_no_reason),
    TEST(draining_is_why_a_key_that_is_free_cannot_be_put),
    TEST(question_without_an_id_or_a_key_is_rejected),
    TEST(shut_down_queue_reserves_nothing),
};

const struct theme why_theme = {"why", tests, COUNT(tests)};
