/* SPDX-License-Identifier: MIT */
/* put.c - putting jobs in, one at a time and many at once. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

static void a_new_job_is_ready_and_can_be_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "hello");
    EQ(stat_job(queue, id)->state, BIDE_STATE_READY);

    const bide_job *job = take(queue, a);
    EQ(job->id, id);
    TEXT(job->body, job->body_size, "hello");
    TEXT(job->topic, strlen(job->topic), a);
    EQ(job->priority, BIDE_DEFAULT_PRIORITY);
    OK(bide_delete(queue, id, job->token));
    EQ(state_of(queue, id), BIDE_STATE_GONE);
}

static void ids_ascend(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t id = put(queue, i % 2 ? a : fresh_topic("b"), "body");
        CHECK(id > last);
        last = id;
    }
    EQ(stats_of(queue).last_id, last);
}

static void id_of_a_deleted_job_is_not_reused(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put(queue, a, "body");
    OK(bide_delete(queue, first, 0));
    CHECK(put(queue, a, "body") > first);
}

static void put_accepts_null_for_the_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_put(queue, a, "x", 1, NULL, NULL));
    TEXT(take(queue, a)->body, 1, "x");
}

static void body_may_be_empty(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = 0;
    OK(bide_put(queue, a, NULL, 0, NULL, &id));
    EQ(peek_job(queue, id)->body_size, 0);
    bide_buf *body = NULL;
    OK(bide_body(queue, id, &body));
    CHECK(body != NULL);
    EQ(bide_buf_size(body), 0);
    bide_buf_unref(body);
    const bide_job *job = take(queue, a);
    EQ(job->body_size, 0);
    OK(bide_delete(queue, id, job->token));
}

static void body_may_have_any_bytes(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    unsigned char all[256];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)i;
    OK(bide_put(queue, a, all, sizeof all, NULL, NULL));
    const bide_job *job = take(queue, a);
    EQ(job->body_size, sizeof all);
    CHECK(memcmp(job->body, all, sizeof all) == 0);
}

static void the_body_is_copied(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    char body[] = "before";
    OK(bide_put(queue, a, body, 6, NULL, NULL));
    memcpy(body, "after.", 6);
    TEXT(take(queue, a)->body, 6, "before");
}

static void body_is_followed_by_an_uncounted_nul(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "hello");
    bide_buf *body = NULL;
    OK(bide_body(queue, id, &body));
    EQ(bide_buf_size(body), 5);
    EQ(strcmp(bide_buf_data(body), "hello"), 0);
    bide_buf_unref(body);
}

static void a_topic_may_have_200_bytes_of_every_legal_character(void)
{
    bide *queue = open_queue("");
    static const char legal[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";
    char name[BIDE_TOPIC_MAX + 1];
    snprintf(name, sizeof name, "%s", fresh_topic("long"));
    for (size_t i = strlen(name); i < BIDE_TOPIC_MAX; i++)
        name[i] = legal[i % (sizeof legal - 1)];
    name[BIDE_TOPIC_MAX] = '\0';
    OK(bide_put(queue, name, "x", 1, NULL, NULL));
    const bide_job *job = take(queue, name);
    TEXT(job->topic, strlen(job->topic), name);
    OK(bide_delete(queue, job->id, job->token));
}

static void put_options_are_shown_in_the_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t start_ms = wall_ms();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 7;
    options.ttr_ms = 12345;
    options.key = slice("the key");
    options.key_hold_retained = true;
    options.max_retries = 3;
    options.backoff_base_ms = 111;
    options.backoff_max_ms = 2222;
    options.expires_at_ms = start_ms + 3600000;
    options.retain_ms = 999;
    const bide_job *job = stat_job(queue, put_as(queue, a, "body", &options));
    EQ(job->priority, 7);
    EQ(job->ttr_ms, 12345);
    TEXT(job->key, job->key_size, "the key");
    CHECK(job->key_hold_retained);
    EQ(job->max_retries, 3);
    EQ(job->backoff_base_ms, 111);
    EQ(job->backoff_max_ms, 2222);
    EQ(job->expires_at_ms, start_ms + 3600000);
    EQ(job->retain_ms, 999);
    BETWEEN(job->created_ms, start_ms - 1, wall_ms() + 1);
}

static void counters_of_a_new_job_are_zero(void)
{
    bide *queue = open_queue("");
    const bide_job *job = stat_job(queue, put(queue, fresh_topic("a"), "body"));
    EQ(job->reserves + job->timeouts + job->releases + job->fails, 0);
    EQ(job->buries + job->kicks + job->touches + job->failures, 0);
    EQ(job->reserved_ms + job->touched_ms + job->buried_ms + job->done_ms, 0);
    CHECK(job->key == NULL && job->last_error == NULL && job->result == NULL);
    CHECK(job->progress == NULL && !job->cancel_wanted && !job->key_hold_retained);
    EQ(job->max_retries, BIDE_NO_RETRY_LIMIT);
    EQ(job->expires_at_ms + job->retain_ms, 0);
    CHECK(job->ready_ms != 0);
    CHECK(job->age_ms >= 0);
}

static void a_ttr_of_0_is_the_default(void)
{
    bide *queue = open_queue("");
    EQ(stat_job(queue, put(queue, fresh_topic("a"), "body"))->ttr_ms, 60000);
    bide *other = open_queue("default_ttr=90s");
    EQ(stat_job(other, put(other, fresh_topic("b"), "body"))->ttr_ms, 90000);
}

static void the_smallest_and_the_largest_priority_are_kept(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t last = put_first(queue, a, UINT32_MAX);
    uint64_t first = put_first(queue, a, 0);
    EQ(stat_job(queue, last)->priority, UINT32_MAX);
    EQ(take(queue, a)->id, first);
    EQ(take(queue, a)->id, last);
}

static void a_put_with_a_delay_is_delayed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t start_ms = wall_ms();
    const bide_job *job = stat_job(queue, put_later(queue, a, 3600000));
    EQ(job->state, BIDE_STATE_DELAYED);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(job->run_at_ms, start_ms + 3600000 - 2, wall_ms() + 3600000 + 2);
    CHECK(!job->run_at_wall);
    nothing_ready(queue, a);
}

static void a_put_with_a_run_at_in_the_future_is_delayed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 3600000;
    const bide_job *job = stat_job(queue, put_as(queue, a, "body", &options));
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->run_at_ms, options.run_at_ms);
    CHECK(job->run_at_wall);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600001);
    nothing_ready(queue, a);
}

static void a_put_with_a_run_at_in_the_past_is_ready(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() - 5;
    uint64_t id = put_as(queue, a, "body", &options);
    options.run_at_ms = INT64_C(946684800000); /* 2000: the earliest that can be named */
    put_as(queue, a, "body", &options);
    EQ(take(queue, a)->id, id);
    EQ(topic_of(queue, a).jobs.ready, 1);
}

static void longest_durations_are_accepted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = BIDE_TIME_MAX_MS;
    options.ttr_ms = BIDE_TIME_MAX_MS;
    options.retain_ms = BIDE_TIME_MAX_MS;
    options.backoff_base_ms = BIDE_TIME_MAX_MS;
    options.backoff_max_ms = BIDE_TIME_MAX_MS;
    options.expires_at_ms = BIDE_TIMESTAMP_MAX_MS;
    uint64_t id = put_as(queue, a, "body", &options);
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    BETWEEN(job->left_ms, BIDE_TIME_MAX_MS - PATIENCE_MS, BIDE_TIME_MAX_MS);
    BETWEEN(take_job(queue, id)->left_ms, BIDE_TIME_MAX_MS - PATIENCE_MS, BIDE_TIME_MAX_MS);

    options.delay_ms = 0;
    options.run_at_ms = BIDE_TIMESTAMP_MAX_MS;
    job = stat_job(queue, put_as(queue, a, "body", &options));
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->run_at_ms, BIDE_TIMESTAMP_MAX_MS);
}

static void an_expiry_in_the_past_removes_the_job_at_once(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_stats before = stats_of(queue);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() - 1000;
    uint64_t id = put_as(queue, a, "body", &options);
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    nothing_ready(queue, a);
    bide_stats after = stats_of(queue);
    EQ(after.total.puts - before.total.puts, 1);
    EQ(after.total.expired - before.total.expired, 1);
}

static void put_many_puts_items_in_order(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_item items[10] = {0};
    for (size_t i = 0; i < COUNT(items); i++) {
        items[i].topic = slice(a);
        items[i].body = slice(&"0123456789"[i]);
        items[i].status = BIDE_EIO;
    }
    size_t accepted = 0;
    OK(bide_put_many(queue, items, COUNT(items), &accepted));
    EQ(accepted, COUNT(items));
    for (size_t i = 0; i < COUNT(items); i++) {
        EQ(items[i].status, BIDE_OK);
        CHECK(i == 0 || items[i].id > items[i - 1].id);
        const bide_job *job = take(queue, a);
        EQ(job->id, items[i].id);
        TEXT(job->body, job->body_size, &"0123456789"[i]);
    }
}

static void put_many_accepts_a_thousand_jobs(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice(a), .body = slice("body")};
    OK(bide_put_many(queue, items, COUNT(items), NULL));
    EQ(topic_of(queue, a).jobs.ready, BIDE_BATCH_JOBS);
    EQ(items[999].status, BIDE_OK);
}

static void rejected_item_does_not_affect_the_others(void)
{
    bide *queue = open_queue("max_job_size=10");
    const char *a = fresh_topic("a");
    bide_put_options keyed = BIDE_PUT_OPTIONS_INIT;
    keyed.key = slice("k");
    bide_put_item items[] = {
        {.topic = slice(a), .body = slice("one"), .options = &keyed},
        {.topic = slice(a), .body = slice("more than ten bytes")},
        {.topic = slice(a), .body = slice("again"), .options = &keyed},
        {.topic = slice("no spaces, please"), .body = slice("bad")},
        {.topic = slice(a), .body = slice("two")},
    };
    size_t accepted = 0;
    OK(bide_put_many(queue, items, COUNT(items), &accepted));
    EQ(accepted, 2);
    EQ(items[0].status, BIDE_OK);
    EQ(items[1].status, BIDE_TOO_BIG);
    EQ(items[2].status, BIDE_EXISTS);
    EQ(items[2].id, items[0].id);
    EQ(items[3].status, BIDE_EINVAL);
    EQ(items[4].status, BIDE_OK);
    EQ(topic_of(queue, a).jobs.ready, 2);
}

static void put_many_takes_its_own_reference_to_a_buffer(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_buf *buf = bide_buf_new("shared", 6);
    CHECK(buf != NULL);
    bide_put_item items[] = {{.topic = slice(a), .buf = buf}, {.topic = slice(a), .buf = buf}};
    OK(bide_put_many(queue, items, 2, NULL));
    bide_buf_unref(buf);
    for (int i = 0; i < 2; i++) {
        const bide_job *job = take(queue, a);
        TEXT(job->body, job->body_size, "shared");
    }
}

static void put_many_serves_waiting_calls_after_the_last_item(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_put_options urgent = BIDE_PUT_OPTIONS_INIT;
    urgent.priority = 1;
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    bide_put_item items[] = {{.topic = slice(a), .body = slice("first")},
                             {.topic = slice(a), .body = slice("urgent"), .options = &urgent}};
    OK(bide_put_many(queue, items, 2, NULL));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, items[1].id);
    EQ(state_of(queue, items[0].id), BIDE_STATE_READY);
}

static void the_items_of_put_many_may_go_to_different_topics(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    later.delay_ms = 3600000;
    bide_put_item items[] = {{.topic = slice(a), .body = slice("1")},
                             {.topic = slice(b), .body = slice("2"), .options = &later},
                             {.topic = slice(b), .body = slice("3")}};
    OK(bide_put_many(queue, items, 3, NULL));
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(topic_of(queue, b).jobs.ready, 1);
    EQ(topic_of(queue, b).jobs.delayed, 1);
    EQ(take(queue, b)->id, items[2].id);
}

static void rejected_put_uses_no_id(void)
{
    bide *queue = open_queue("max_job_size=10");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    uint64_t holder = 0;
    CODE(bide_put(queue, a, "x", 1, &options, &holder), BIDE_EXISTS);
    EQ(holder, id);
    CODE(bide_put(queue, a, "more than ten bytes", 19, NULL, NULL), BIDE_TOO_BIG);
    EQ(stats_of(queue).last_id, id);
    EQ(topic_of(queue, a).total.puts, 1);
}

static void errors_are_checked_in_the_documented_order(void)
{
    bide *queue = open_queue("max_job_size=10&max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    put_as(queue, a, "x", &options);
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
    CODE(bide_put(queue, a, "x", 1, &options, NULL), BIDE_EXISTS);
    CODE(bide_put(queue, a, "more than ten bytes", 19, &options, NULL), BIDE_TOO_BIG);
    OK(bide_drain(queue, true));
    CODE(bide_put(queue, a, "more than ten bytes", 19, &options, NULL), BIDE_TOO_BIG);
    CODE(bide_put(queue, a, "x", 1, &options, NULL), BIDE_DRAINING);
    OK(bide_drain(queue, false));
    CODE(bide_put(queue, a, "x", 1, &options, NULL), BIDE_EXISTS);
}

static const struct test tests[] = {
    TEST(a_new_job_is_ready_and_can_be_reserved),
    TEST(ids_ascend),
    TEST(id_of_a_deleted_job_is_not_reused),
    TEST(put_accepts_null_for_the_id),
    TEST(body_may_be_empty),
    TEST(body_may_have_any_bytes),
    TEST(the_body_is_copied),
    TEST(body_is_followed_by_an_uncounted_nul),
    TEST(a_topic_may_have_200_bytes_of_every_legal_character),
    TEST(put_options_are_shown_in_the_job),
    TEST(counters_of_a_new_job_are_zero),
    TEST(a_ttr_of_0_is_the_default),
    TEST(the_smallest_and_the_largest_priority_are_kept),
    TEST(a_put_with_a_delay_is_delayed),
    TEST(a_put_with_a_run_at_in_the_future_is_delayed),
    TEST(a_put_with_a_run_at_in_the_past_is_ready),
    TEST(longest_durations_are_accepted),
    TEST(an_expiry_in_the_past_removes_the_job_at_once),
    TEST(put_many_puts_items_in_order),
    TEST(put_many_accepts_a_thousand_jobs),
    TEST(rejected_item_does_not_affect_the_others),
    TEST(put_many_takes_its_own_reference_to_a_buffer),
    TEST(put_many_serves_waiting_calls_after_the_last_item),
    TEST(the_items_of_put_many_may_go_to_different_topics),
    TEST(rejected_put_uses_no_id),
    TEST(errors_are_checked_in_the_documented_order),
};

const struct theme put_theme = {"put", tests, COUNT(tests)};
