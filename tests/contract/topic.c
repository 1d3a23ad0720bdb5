/* SPDX-License-Identifier: MIT */
/* topic.c - topics: pauses, references, and when they go away. */
#include "contract.h"

static void a_paused_topic_gives_no_jobs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t first = put(queue, a, "before");
    OK(bide_pause(queue, a, 3600000));
    put(queue, a, "after");
    nothing_ready(queue, a);
    bide_topic_stats stats = topic_of(queue, a);
    CHECK(stats.paused);
    BETWEEN(stats.pause_left_ms, 3600000 - PATIENCE_MS, 3600000);
    EQ(stats.jobs.ready, 2);
    EQ(stats.total.pauses, 1);
    OK(bide_resume(queue, a));
    CHECK(!topic_of(queue, a).paused);
    EQ(topic_of(queue, a).pause_left_ms, 0);
    EQ(take(queue, a)->id, first);
}

static void a_pause_does_not_end_leases(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    OK(bide_pause(queue, a, 3600000));
    OK(bide_touch(queue, id, token, 0, NULL));
    OK(bide_delete(queue, id, token));
    OK(bide_resume(queue, a));
}

static void waiting_call_is_served_when_the_topic_is_resumed(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    OK(bide_pause(queue, a, BIDE_FOREVER));
    struct waiter *first = begin_reserve(queue, cq, &topic, 1);
    struct waiter *second = begin_reserve(queue, cq, &topic, 1);
    uint64_t one = put(queue, a, "1"), two = put(queue, a, "2");
    still_pending(first);
    OK(bide_resume(queue, a));
    completes(first, BIDE_OK);
    completes(second, BIDE_OK);
    EQ(first->job.id, one);
    EQ(second->job.id, two);
}

static void waiting_call_is_served_when_the_pause_ends(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    int64_t start_us = clock_us();
    OK(bide_pause(queue, a, 40));
    uint64_t id = put(queue, a, "body");
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, new_cq());
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    submit_code(queue, waiter, BIDE_OK);
    NOT_BEFORE(start_us, 40);
    EQ(waiter->job.id, id);
}

static void a_new_pause_replaces_the_old_one(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_pause(queue, a, BIDE_FOREVER));
    CHECK(topic_of(queue, a).paused);
    OK(bide_pause(queue, a, 3600000));
    BETWEEN(topic_of(queue, a).pause_left_ms, 3600000 - PATIENCE_MS, 3600000);
    int64_t start_us = clock_us();
    OK(bide_pause(queue, a, 30));
    EQ(await(queue, a)->id, id);
    NOT_BEFORE(start_us, 30);
}

static void a_pause_of_0_is_a_resume(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_pause(queue, a, BIDE_FOREVER));
    OK(bide_pause(queue, a, 0));
    CHECK(!topic_of(queue, a).paused);
    EQ(take(queue, a)->id, id);
}

static void a_pause_makes_the_topic_and_keeps_it(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_pause(queue, a, 3600000));
    CHECK(topic_exists(queue, a));
    OK(bide_delete(queue, put(queue, a, "body"), 0));
    CHECK(topic_exists(queue, a));
    OK(bide_resume(queue, a));
    CHECK(!topic_exists(queue, a));
}

static void empty_topic_is_removed_when_its_pause_ends(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t start_us = clock_us();
    OK(bide_pause(queue, a, 30));
    UNTIL(!topic_exists(queue, a));
    NOT_BEFORE(start_us, 30);
}

static void resume_of_an_unpaused_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    CODE(bide_resume(queue, a), BIDE_NOT_FOUND);
    put(queue, a, "body");
    OK(bide_resume(queue, a));
    EQ(topic_of(queue, a).jobs.ready, 1);
}

static void referenced_topic_remains_when_empty(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_topic_ref(queue, a, 1));
    OK(bide_topic_ref(queue, a, 1));
    EQ(topic_of(queue, a).references, 2);
    OK(bide_delete(queue, put(queue, a, "body"), 0));
    CHECK(topic_exists(queue, a));
    EQ(topic_of(queue, a).total.puts, 1);
    OK(bide_topic_ref(queue, a, -1));
    EQ(topic_of(queue, a).references, 1);
    OK(bide_topic_ref(queue, a, -1));
    CHECK(!topic_exists(queue, a));
}

static void references_do_not_go_below_zero(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    CODE(bide_topic_ref(queue, a, -1), BIDE_NOT_FOUND);
    CHECK(!topic_exists(queue, a));
    put(queue, a, "body");
    CODE(bide_topic_ref(queue, a, -1), BIDE_EINVAL);
    EQ(topic_of(queue, a).references, 0);
    OK(bide_topic_ref(queue, a, 1));
    OK(bide_topic_ref(queue, a, -1));
    CHECK(topic_exists(queue, a));
}

static void empty_topic_is_removed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    uint64_t before = stats_of(queue).topics;
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        CHECK(topic_exists(queue, a));
        EQ(stats_of(queue).topics, before + 1);
        OK(bide_delete(queue, id, 0));
        CHECK(!topic_exists(queue, a));
        EQ(stats_of(queue).topics, before);
    }
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    CHECK(topic_exists(queue, a));
    OK(bide_delete(queue, id, token));
    CHECK(!topic_exists(queue, a));
    put(queue, a, "body");
    EQ(topic_of(queue, a).total.puts, 1);
}

static void empty_topics_remain_without_cleanup(void)
{
    bide *queue = open_queue("topic_cleanup=off");
    const char *a = fresh_topic("a");
    OK(bide_delete(queue, put(queue, a, "body"), 0));
    CHECK(topic_exists(queue, a));
    EQ(topic_of(queue, a).total.puts, 1);
    EQ(topic_of(queue, a).total.deletes, 1);
    put(queue, a, "body");
    EQ(topic_of(queue, a).total.puts, 2);
}

static const struct test tests[] = {
    TEST(a_paused_topic_gives_no_jobs),
    TEST(a_pause_does_not_end_leases),
    TEST(waiting_call_is_served_when_the_topic_is_resumed),
    TEST(waiting_call_is_served_when_the_pause_ends),
    TEST(a_new_pause_replaces_the_old_one),
    TEST(a_pause_of_0_is_a_resume),
    TEST(a_pause_makes_the_topic_and_keeps_it),
    TEST(empty_topic_is_removed_when_its_pause_ends),
    TEST(resume_of_an_unpaused_topic),
    TEST(referenced_topic_remains_when_empty),
    TEST(references_do_not_go_below_zero),
    TEST(empty_topic_is_removed),
    TEST(empty_topics_remain_without_cleanup),
};

const struct theme topic_theme = {"topic", tests, COUNT(tests)};
