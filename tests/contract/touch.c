/* SPDX-License-Identifier: MIT */
/* touch.c - touch and its limits, lists of leases, and done with the next reserve in one step. */
#include "contract.h"

#include <string.h>

/* A job with a ttr, reserved; the snapshot has its id and token. */
static const bide_job *held(bide *queue, const char *topic, int64_t ttr_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = ttr_ms;
    return take_job(queue, put_as(queue, topic, "body", &options));
}

static void touch_restarts_the_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = held(queue, a, 1000000);
    nap_ms(20);
    CHECK(stat_job(queue, job->id)->left_ms <= 1000000 - 20 + 1);
    int64_t before_ms = wall_ms();
    int64_t touched_us = clock_us();
    OK(bide_touch(queue, job->id, job->token, 0, NULL));
    const bide_job *seen = stat_job(queue, job->id);
    BETWEEN(seen->left_ms, 1000000 - (clock_us() - touched_us) / 1000 - 1, 1000000);
    EQ(seen->touches, 1);
    BETWEEN(seen->touched_ms, before_ms - 1, wall_ms() + 1);
    EQ(topic_of(queue, a).total.touches, 1);
    OK(bide_delete(queue, job->id, job->token));
}

static void touch_may_give_the_lease_time(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = held(queue, a, 60000);
    OK(bide_touch(queue, job->id, job->token, 7200000, NULL));
    BETWEEN(stat_job(queue, job->id)->left_ms, 7200000 - PATIENCE_MS, 7200000);
    OK(bide_touch(queue, job->id, job->token, 30000, NULL));
    BETWEEN(stat_job(queue, job->id)->left_ms, 1, 30000);
    EQ(stat_job(queue, job->id)->ttr_ms, 60000);
    EQ(stat_job(queue, job->id)->touches, 2);
}

static void progress_is_shown_until_the_lease_ends(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = held(queue, a, 60000);
    CHECK(stat_job(queue, job->id)->progress == NULL);
    OK(bide_touch(queue, job->id, job->token, 0, "half"));
    const bide_job *seen = stat_job(queue, job->id);
    TEXT(seen->progress, seen->progress_size, "half");
    OK(bide_touch(queue, job->id, job->token, 0, NULL));
    seen = stat_job(queue, job->id);
    TEXT(seen->progress, seen->progress_size, "half");
    OK(bide_touch(queue, job->id, job->token, 0, "nearly all"));
    seen = stat_job(queue, job->id);
    TEXT(seen->progress, seen->progress_size, "nearly all");
    OK(bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    CHECK(take(queue, a)->progress == NULL);
    CHECK(stat_job(queue, job->id)->progress == NULL);
}

static void progress_may_have_200_bytes(void)
{
    bide *queue = open_queue("");
    char text[BIDE_PROGRESS_MAX + 1];
    memset(text, 'p', BIDE_PROGRESS_MAX);
    text[BIDE_PROGRESS_MAX] = '\0';
    const bide_job *job = held(queue, fresh_topic("a"), 60000);
    OK(bide_touch(queue, job->id, job->token, 0, text));
    const bide_job *seen = stat_job(queue, job->id);
    TEXT(seen->progress, seen->progress_size, text);
}

static void max_touches_limits_the_touches_of_one_lease(void)
{
    bide *queue = open_queue("max_touches=2");
    const char *a = fresh_topic("a");
    const bide_job *job = held(queue, a, 60000);
    OK(bide_touch(queue, job->id, job->token, 3600000, NULL));
    OK(bide_touch(queue, job->id, job->token, 3600000, NULL));
    CODE(bide_touch(queue, job->id, job->token, 30000, "no"), BIDE_TOUCH_LIMIT);
    const bide_job *seen = stat_job(queue, job->id);
    EQ(seen->touches, 2);
    CHECK(seen->progress == NULL);
    BETWEEN(seen->left_ms, 3600000 - PATIENCE_MS, 3600000);

    OK(bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    const bide_job *again = take(queue, a);
    OK(bide_touch(queue, again->id, again->token, 0, NULL));
    EQ(stat_job(queue, again->id)->touches, 3);
    OK(bide_delete(queue, again->id, again->token));
}

static void min_touch_interval_rejects_an_early_touch(void)
{
    bide *queue = open_queue("min_touch_interval=1h");
    const bide_job *job = held(queue, fresh_topic("a"), 60000);
    CODE(bide_touch(queue, job->id, job->token, 0, NULL), BIDE_TOUCH_LIMIT);
    EQ(stat_job(queue, job->id)->touches, 0);
    OK(bide_delete(queue, job->id, job->token));

    bide *other = open_queue("min_touch_interval=30ms");
    job = held(other, fresh_topic("b"), 60000);
    nap_ms(35);
    OK(bide_touch(other, job->id, job->token, 0, NULL));
    OK(bide_delete(other, job->id, job->token));
}

static void max_touch_total_limits_the_total_lease_time(void)
{
    bide *queue = open_queue("max_touch_total=2h");
    const bide_job *job = held(queue, fresh_topic("a"), 60000);
    CODE(bide_touch(queue, job->id, job->token, 7200000 + 1, NULL), BIDE_TOUCH_LIMIT);
    BETWEEN(stat_job(queue, job->id)->left_ms, 1, 60000);
    OK(bide_touch(queue, job->id, job->token, 3600000, NULL));
    OK(bide_touch(queue, job->id, job->token, 7000000, NULL));
    CODE(bide_touch(queue, job->id, job->token, 7200001, NULL), BIDE_TOUCH_LIMIT);
    EQ(stat_job(queue, job->id)->touches, 2);
    OK(bide_delete(queue, job->id, job->token));
}

static void progress_without_extension_is_not_counted_as_a_touch(void)
{
    bide *queue = open_queue("max_touches=1");
    const char *a = fresh_topic("a");
    const bide_job *job = held(queue, a, 60000);
    OK(bide_touch(queue, job->id, job->token, 3600000, "begun"));
    bide_touch_item item = {
        .id = job->id, .token = job->token, .extend_ms = BIDE_KEEP, .progress = slice("going")};
    OK(bide_touch_many(queue, &item, 1));
    EQ(item.status, BIDE_OK);
    BETWEEN(item.left_ms, 3600000 - PATIENCE_MS, 3600000);
    const bide_job *seen = stat_job(queue, job->id);
    TEXT(seen->progress, seen->progress_size, "going");
    BETWEEN(seen->left_ms, 3600000 - PATIENCE_MS, 3600000);
    EQ(seen->touches, 1);
    EQ(topic_of(queue, a).total.touches, 1);
    CODE(bide_touch(queue, job->id, job->token, 0, NULL), BIDE_TOUCH_LIMIT);
    CODE(bide_touch(queue, job->id, job->token + 1, BIDE_KEEP, "no"), BIDE_LEASE_LOST);
    OK(bide_cancel(queue, job->id));
    CODE(bide_touch(queue, job->id, job->token, BIDE_KEEP, NULL), BIDE_CANCEL_WANTED);
}

static void touch_many_reports_a_status_for_each_lease(void)
{
    bide *queue = open_queue("max_touches=1");
    const char *a = fresh_topic("a");
    const bide_job *one = held(queue, a, 60000), *two = held(queue, a, 60000);
    const bide_job *tired = held(queue, a, 60000), *marked = held(queue, a, 60000);
    OK(bide_touch(queue, tired->id, tired->token, 0, NULL));
    OK(bide_cancel(queue, marked->id));
    bide_touch_item items[] = {
        {.id = one->id, .token = one->token, .extend_ms = 3600000},
        {.id = BIDE_ID_MAX, .token = 1, .left_ms = 42},
        {.id = two->id, .token = one->token, .left_ms = 42},
        {.id = tired->id, .token = tired->token, .left_ms = 42},
        {.id = marked->id, .token = marked->token},
        {.id = two->id, .token = two->token, .progress = slice("going")},
    };
    OK(bide_touch_many(queue, items, COUNT(items)));
    EQ(items[0].status, BIDE_OK);
    EQ(items[1].status, BIDE_NOT_FOUND);
    EQ(items[2].status, BIDE_LEASE_LOST);
    EQ(items[3].status, BIDE_TOUCH_LIMIT);
    EQ(items[4].status, BIDE_CANCEL_WANTED);
    EQ(items[5].status, BIDE_OK);
    BETWEEN(items[0].left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(items[4].left_ms, 60000 - PATIENCE_MS, 60000);
    BETWEEN(items[5].left_ms, 60000 - PATIENCE_MS, 60000);
    EQ(items[1].left_ms, 42);
    EQ(items[2].left_ms, 42);
    EQ(items[3].left_ms, 42);
    const bide_job *seen = stat_job(queue, two->id);
    TEXT(seen->progress, seen->progress_size, "going");
    EQ(topic_of(queue, a).total.touches, 4);
}

static void finish_many_reports_a_status_for_each_job(void)
{
    bide *queue = open_queue("max_result_size=10");
    const char *a = fresh_topic("a");
    const bide_job *one = held(queue, a, 60000), *two = held(queue, a, 60000);
    const bide_job *three = held(queue, a, 60000);
    uint64_t ready = put(queue, a, "ready");
    bide_finish_item items[] = {
        {.id = one->id, .token = one->token},
        {.id = two->id,
         .token = two->token,
         .keep = true,
         .result = slice("yes"),
         .retain_ms = 3600000},
        {.id = BIDE_ID_MAX, .token = 1},
        {.id = three->id, .token = one->token},
        {.id = three->id, .token = 0},
        {.id = three->id,
         .token = three->token,
         .keep = true,
         .result = slice("eleven long"),
         .retain_ms = 1000},
        {.id = two->id, .token = 0, .keep = true, .retain_ms = 1000},
        {.id = ready, .token = 0},
    };
    OK(bide_finish_many(queue, items, COUNT(items)));
    EQ(items[0].status, BIDE_OK);
    EQ(items[1].status, BIDE_OK);
    EQ(items[2].status, BIDE_NOT_FOUND);
    EQ(items[3].status, BIDE_LEASE_LOST);
    EQ(items[4].status, BIDE_RESERVED);
    EQ(items[5].status, BIDE_TOO_BIG);
    EQ(items[6].status, BIDE_WRONG_STATE);
    EQ(items[7].status, BIDE_OK);
    EQ(state_of(queue, one->id), BIDE_STATE_GONE);
    EQ(state_of(queue, three->id), BIDE_STATE_RESERVED);
    EQ(state_of(queue, ready), BIDE_STATE_GONE);
    const bide_job *done = peek_job(queue, two->id);
    EQ(done->state, BIDE_STATE_DONE);
    TEXT(done->result, done->result_size, "yes");
}

static void finish_many_takes_its_own_reference_to_a_buffer(void)
{
    bide *queue = open_queue("");
    const bide_job *job = held(queue, fresh_topic("a"), 60000);
    bide_buf *buf = bide_buf_new("buffered", 8);
    bide_finish_item item = {
        .id = job->id, .token = job->token, .keep = true, .buf = buf, .retain_ms = 3600000};
    OK(bide_finish_many(queue, &item, 1));
    bide_buf_unref(buf);
    EQ(item.status, BIDE_OK);
    const bide_job *done = peek_job(queue, job->id);
    TEXT(done->result, done->result_size, "buffered");
}

static void finish_and_reserve_does_both(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    const bide_job *job = held(queue, a, 60000);
    uint64_t next = put(queue, a, "next");
    bide_job taken = {0};
    bide_finish_item finish = {.id = job->id, .token = job->token, .status = BIDE_EIO};
    bide_reserve_args args = reserve_args(&topic, 1, PATIENCE_MS, &taken, 1);
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    EQ(args.count, 1);
    EQ(taken.id, next);
    TEXT(taken.body, taken.body_size, "next");
    EQ(state_of(queue, job->id), BIDE_STATE_GONE);
    OK(bide_delete(queue, next, taken.token));
    bide_job_clear(&taken);
}

static void rejected_finish_does_not_prevent_the_reserve(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    const bide_job *job = held(queue, a, 60000);
    uint64_t next = put(queue, a, "next");
    bide_job taken = {0};
    bide_finish_item finish = {.id = job->id, .token = job->token + 999999};
    bide_reserve_args args = reserve_args(&topic, 1, 0, &taken, 1);
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_LEASE_LOST);
    EQ(taken.id, next);
    EQ(state_of(queue, job->id), BIDE_STATE_RESERVED);
    bide_job_clear(&taken);
}

static void finish_applies_when_the_reserve_finds_no_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    const bide_job *job = held(queue, a, 60000);
    bide_job taken = {0};
    bide_finish_item finish = {.id = job->id,
                               .token = job->token,
                               .keep = true,
                               .result = slice("r"),
                               .retain_ms = 3600000,
                               .status = BIDE_EIO};
    bide_reserve_args args = reserve_args(&topic, 1, 30, &taken, 1);
    int64_t start_us = clock_us();
    CODE(bide_finish_and_reserve(queue, &finish, &args), BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 30);
    EQ(finish.status, BIDE_OK);
    EQ(taken.id, 0);
    EQ(state_of(queue, job->id), BIDE_STATE_DONE);
}

static void the_finish_comes_before_the_reserve(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    const bide_job *job = held(queue, a, 60000);
    struct waiter *waiter = new_op(BIDE_OP_FINISH_AND_RESERVE, new_cq());
    waiter->op.finish_and_reserve.finish =
        (bide_finish_item){.id = job->id, .token = job->token, .status = BIDE_EIO};
    waiter->op.finish_and_reserve.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    submit_pending(queue, waiter);
    UNTIL(state_of(queue, job->id) == BIDE_STATE_GONE);
    uint64_t next = put(queue, a, "next");
    completes(waiter, BIDE_OK);
    EQ(waiter->op.finish_and_reserve.finish.status, BIDE_OK);
    EQ(waiter->job.id, next);
}

static const struct test tests[] = {
    TEST(touch_restarts_the_lease),
    TEST(touch_may_give_the_lease_time),
    TEST(progress_is_shown_until_the_lease_ends),
    TEST(progress_may_have_200_bytes),
    TEST(max_touches_limits_the_touches_of_one_lease),
    TEST(min_touch_interval_rejects_an_early_touch),
    TEST(max_touch_total_limits_the_total_lease_time),
    TEST(progress_without_extension_is_not_counted_as_a_touch),
    TEST(touch_many_reports_a_status_for_each_lease),
    TEST(finish_many_reports_a_status_for_each_job),
    TEST(finish_many_takes_its_own_reference_to_a_buffer),
    TEST(finish_and_reserve_does_both),
    TEST(rejected_finish_does_not_prevent_the_reserve),
    TEST(finish_applies_when_the_reserve_finds_no_job),
    TEST(the_finish_comes_before_the_reserve),
};

const struct theme touch_theme = {"touch", tests, COUNT(tests)};
