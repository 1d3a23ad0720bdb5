/* SPDX-License-Identifier: MIT */
/* stats.c - the figures of the queue and of its topics, and every counter. */
#include "contract.h"

#include <string.h>

/* What one step of a test adds to the counters, in the order of bide_counters. */
static void added(struct where at, bide *queue, const char *topic, bide_counters *queue_before,
                  bide_counters *topic_before, bide_counters want)
{
    static const char *const names[] = {"puts",    "reserves", "deletes", "dones", "releases",
                                        "fails",   "timeouts", "buries",  "kicks", "touches",
                                        "expired", "retired",  "purged",  "pauses"};
    bide_counters now[2] = {stats_at(at, queue).total, topic_at(at, queue, topic).total};
    uint64_t got[2][COUNT(names)], before[2][COUNT(names)], wanted[COUNT(names)];
    _Static_assert(offsetof(bide_counters, room_) == sizeof wanted,
                   "every counter has a name here");
    for (size_t i = 0; i < 2; i++) {
        memcpy(got[i], &now[i], sizeof got[i]);
        memcpy(before[i], i == 0 ? queue_before : topic_before, sizeof before[i]);
    }
    memcpy(wanted, &want, sizeof wanted);
    for (size_t i = 0; i < COUNT(names); i++) {
        check_equal(at, (int64_t)(got[0][i] - before[0][i]), (int64_t)wanted[i], names[i]);
        check_equal(at, (int64_t)(got[1][i] - before[1][i]), (int64_t)wanted[i], names[i]);
    }
    *queue_before = now[0];
    *topic_before = now[1];
}

/* A queue with one referenced topic, and what its counters were at the last step. */
struct counted {
    bide *queue;
    const char *topic;
    bide_counters all;
    bide_counters one;
};

static struct counted counted_topic(const char *parameters)
{
    struct counted it = {.queue = open_queue(parameters), .topic = fresh_topic("counted")};
    OK(bide_topic_ref(it.queue, it.topic, 1));
    it.all = stats_of(it.queue).total;
    it.one = topic_of(it.queue, it.topic).total;
    return it;
}

static void uncount(struct counted *it)
{
    OK(bide_topic_ref(it->queue, it->topic, -1));
}

#define ADDED(it, ...) \
    added(HERE, (it)->queue, (it)->topic, &(it)->all, &(it)->one, (bide_counters){__VA_ARGS__})

static void every_op_on_a_lease_is_counted(void)
{
    struct counted it = counted_topic("");
    uint64_t id = put(it.queue, it.topic, "body");
    ADDED(&it, .puts = 1);
    uint64_t token = take(it.queue, it.topic)->token;
    ADDED(&it, .reserves = 1);
    OK(bide_touch(it.queue, id, token, 0, NULL));
    ADDED(&it, .touches = 1);
    OK(bide_release(it.queue, id, token, BIDE_KEEP, 0));
    ADDED(&it, .releases = 1);
    OK(bide_give_back(it.queue, id, take_job(it.queue, id)->token));
    ADDED(&it, .reserves = 1);
    OK(bide_fail(it.queue, id, take_job(it.queue, id)->token, NULL, 3600000, NULL, NULL));
    ADDED(&it, .reserves = 1, .fails = 1);
    OK(bide_kick_job(it.queue, id));
    ADDED(&it, .kicks = 1);
    OK(bide_bury(it.queue, id, 0, BIDE_KEEP, NULL));
    ADDED(&it, .buries = 1);
    OK(bide_kick(it.queue, it.topic, 10, NULL));
    ADDED(&it, .kicks = 1);
    OK(bide_done(it.queue, id, 0, NULL, 0, 3600000));
    ADDED(&it, .dones = 1);
    OK(bide_delete(it.queue, id, 0));
    ADDED(&it, .deletes = 1);
    uncount(&it);
}

static void every_administrative_op_is_counted(void)
{
    struct counted it = counted_topic("max_done_per_topic=1");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    put_as(it.queue, it.topic, "body", &options);
    options.conflict = BIDE_REPLACE;
    uint64_t id = put_as(it.queue, it.topic, "body", &options);
    ADDED(&it, .puts = 2, .deletes = 1);
    OK(bide_cancel(it.queue, id));
    ADDED(&it, .deletes = 1);
    put_in(it.queue, it.topic, BIDE_STATE_DELAYED);
    put_in(it.queue, it.topic, BIDE_STATE_DELAYED);
    OK(bide_purge(it.queue, it.topic, BIDE_STATE_DELAYED, NULL));
    ADDED(&it, .puts = 2, .purged = 2);
    OK(bide_pause(it.queue, it.topic, 3600000));
    OK(bide_resume(it.queue, it.topic));
    ADDED(&it, .pauses = 1);
    put_in(it.queue, it.topic, BIDE_STATE_DONE);
    put_in(it.queue, it.topic, BIDE_STATE_DONE);
    ADDED(&it, .puts = 2, .dones = 2, .retired = 1);
    uncount(&it);
}

static void every_timed_transition_is_counted(void)
{
    struct counted it = counted_topic("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    put_as(it.queue, it.topic, "body", &options);
    take(it.queue, it.topic);
    UNTIL(topic_of(it.queue, it.topic).jobs.ready == 1);
    ADDED(&it, .puts = 1, .reserves = 1, .timeouts = 1);
    options.max_retries = 0;
    uint64_t id = put_as(it.queue, it.topic, "body", &options);
    take_job(it.queue, id);
    UNTIL(state_of(it.queue, id) == BIDE_STATE_BURIED);
    ADDED(&it, .puts = 1, .reserves = 1, .timeouts = 1, .buries = 1);
    options.expires_at_ms = wall_ms() + 20;
    id = put_as(it.queue, it.topic, "body", &options);
    UNTIL(state_of(it.queue, id) == BIDE_STATE_GONE);
    ADDED(&it, .puts = 1, .expired = 1);
    id = put(it.queue, it.topic, "body");
    OK(bide_done(it.queue, id, 0, NULL, 0, 20));
    UNTIL(state_of(it.queue, id) == BIDE_STATE_GONE);
    ADDED(&it, .puts = 1, .dones = 1, .retired = 1);
    uncount(&it);
}

static void rejected_ops_are_not_counted(void)
{
    struct counted it = counted_topic("max_job_size=10&max_touches=1");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    uint64_t id = put_as(it.queue, it.topic, "body", &options);
    uint64_t token = take(it.queue, it.topic)->token;
    OK(bide_touch(it.queue, id, token, 0, NULL));
    ADDED(&it, .puts = 1, .reserves = 1, .touches = 1);
    CODE(bide_put(it.queue, it.topic, "x", 1, &options, NULL), BIDE_EXISTS);
    CODE(bide_put(it.queue, it.topic, "eleven long", 11, NULL, NULL), BIDE_TOO_BIG);
    CODE(bide_touch(it.queue, id, token, 0, NULL), BIDE_TOUCH_LIMIT);
    CODE(bide_delete(it.queue, id, 0), BIDE_RESERVED);
    CODE(bide_delete(it.queue, id, token + 1000000), BIDE_LEASE_LOST);
    CODE(bide_kick_job(it.queue, id), BIDE_RESERVED);
    nothing_ready(it.queue, it.topic);
    ADDED(&it, .puts = 0);
    uncount(&it);
}

static void the_jobs_of_each_state_are_counted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                        BIDE_STATE_BURIED, BIDE_STATE_DONE};
    bide_counts before = stats_of(queue).jobs;
    for (size_t i = 0; i < COUNT(states); i++)
        for (size_t j = 0; j <= i; j++)
            put_in(queue, a, states[i]);
    bide_counts after = stats_of(queue).jobs, topic = topic_of(queue, a).jobs;
    EQ(topic.delayed, 1);
    EQ(topic.ready, 2);
    EQ(topic.reserved, 3);
    EQ(topic.buried, 4);
    EQ(topic.done, 5);
    EQ(topic.urgent, 0);
    EQ(after.delayed - before.delayed, 1);
    EQ(after.ready - before.ready, 2);
    EQ(after.reserved - before.reserved, 3);
    EQ(after.buried - before.buried, 4);
    EQ(after.done - before.done, 5);
}

static void urgent_jobs_are_ready_with_a_small_priority(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t before = stats_of(queue).jobs.urgent;
    uint64_t id = put_first(queue, a, 1023);
    put_first(queue, a, 0);
    put_first(queue, a, 1024);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 1;
    options.delay_ms = 3600000;
    uint64_t delayed = put_as(queue, a, "body", &options);
    EQ(topic_of(queue, a).jobs.urgent, 2);
    EQ(stats_of(queue).jobs.urgent - before, 2);
    take_job(queue, id);
    EQ(topic_of(queue, a).jobs.urgent, 1);
    OK(bide_kick_job(queue, delayed));
    EQ(topic_of(queue, a).jobs.urgent, 2);
    OK(bide_bury(queue, delayed, 0, BIDE_KEEP, NULL));
    EQ(topic_of(queue, a).jobs.urgent, 1);
}

static void the_age_of_the_oldest_ready_job_is_shown(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_later(queue, a, 3600000);
    EQ(topic_of(queue, a).oldest_ready_age_ms, 0);
    int64_t start_us = clock_us();
    put_first(queue, a, 5000);
    nap_ms(40);
    put_first(queue, a, 1);
    bide_topic_stats stats = topic_of(queue, a);
    BETWEEN(stats.oldest_ready_age_ms, 39, (clock_us() - start_us) / 1000 + 1);
    CHECK(stats_of(queue).oldest_ready_age_ms >= 39);
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    EQ(topic_of(queue, a).oldest_ready_age_ms, 0);
}

static void waiting_calls_are_counted(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice both[] = {slice(a), slice(b)};
    bide_stats before = stats_of(queue);
    struct waiter *first = begin_reserve(queue, cq, both, 2);
    begin_reserve(queue, cq, &both[1], 1);
    begin_wait(queue, cq, put_later(queue, a, 3600000));
    bide_stats after = stats_of(queue);
    EQ(after.waiting - before.waiting, 2);
    EQ(after.watching - before.watching, 1);
    EQ(topic_of(queue, a).waiting, 1);
    EQ(topic_of(queue, b).waiting, 2);
    EQ(bide_cancel_op(queue, &first->op), BIDE_OK);
    completes(first, BIDE_CANCELLED);
    EQ(topic_of(queue, a).waiting, 0);
    EQ(topic_of(queue, b).waiting, 1);
    EQ(stats_of(queue).waiting - before.waiting, 1);
}

static void topics_and_the_last_id_are_shown(void)
{
    bide *queue = open_queue("");
    bide_stats before = stats_of(queue);
    uint64_t first = put(queue, fresh_topic("a"), "body");
    uint64_t last = put(queue, fresh_topic("b"), "body");
    bide_stats after = stats_of(queue);
    EQ(after.topics - before.topics, 2);
    EQ(after.last_id, last);
    CHECK(before.last_id < first);
    OK(bide_delete(queue, last, 0));
    EQ(stats_of(queue).last_id, last);
    EQ(stats_of(queue).topics - before.topics, 1);
}

static void memory_grows_with_the_bodies_and_shrinks_again(void)
{
    static char body[20000];
    bide *queue = open_queue("cache_bytes=64MiB");
    const char *a = fresh_topic("a");
    uint64_t before = stats_of(queue).memory_bytes;
    uint64_t ids[20];
    for (size_t i = 0; i < COUNT(ids); i++)
        OK(bide_put(queue, a, body, sizeof body, NULL, &ids[i]));
    uint64_t full = stats_of(queue).memory_bytes;
    CHECK(full >= before + COUNT(ids) * sizeof body);
    for (size_t i = 0; i < COUNT(ids); i++)
        OK(bide_delete(queue, ids[i], 0));
    CHECK(stats_of(queue).memory_bytes < before + sizeof body);
}

static void the_time_since_the_start_is_shown(void)
{
    bide *queue = open_queue("");
    int64_t start_us = clock_us();
    int64_t before_ms = stats_of(queue).uptime_ms;
    nap_ms(20);
    int64_t after_ms = stats_of(queue).uptime_ms;
    BETWEEN(after_ms - before_ms, 19, (clock_us() - start_us) / 1000 + 1);
}

static void stats_of_an_unknown_topic_are_not_found(void)
{
    bide *queue = open_queue("");
    bide_topic_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    bide_topic_stats before = stats;
    CODE(bide_topic_get_stats(queue, fresh_topic("a"), &stats), BIDE_NOT_FOUND);
    CHECK(memcmp(&stats, &before, sizeof stats) == 0);
}

static void timestamps_of_a_job_are_kept(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t before_ms = wall_ms() - 1;
    uint64_t id = put_later(queue, a, 3600000);
    EQ(stat_job(queue, id)->ready_ms, 0);
    OK(bide_kick_job(queue, id));
    uint64_t token = take(queue, a)->token;
    OK(bide_touch(queue, id, token, 0, NULL));
    OK(bide_bury(queue, id, token, BIDE_KEEP, NULL));
    OK(bide_done(queue, id, 0, NULL, 0, 3600000));
    const bide_job *job = stat_job(queue, id);
    CHECK(before_ms <= job->created_ms && job->created_ms <= job->ready_ms);
    CHECK(job->ready_ms <= job->reserved_ms && job->reserved_ms <= job->touched_ms);
    CHECK(job->touched_ms <= job->buried_ms && job->buried_ms <= job->done_ms);
    CHECK(job->done_ms <= wall_ms() + 1);
}

/* The memory in which the next call keeps its op is not zero. */
static __attribute__((noinline)) void soil_stack(void)
{
    volatile char junk[16384];
    for (size_t i = 0; i < sizeof(junk); i++)
        junk[i] = 0x55;
}

static void a_check_of_many_jobs_ends(void)
{
    enum { SOME = 5000 };
    static uint64_t ids[SOME];
    bide *queue = open_queue("");
    bide_check_report report;
    put_lots(queue, fresh_topic("a"), SOME, NULL, ids);
    soil_stack();
    OK(bide_check(queue, &report));
    CHECK(report.problem[0] == 0);
    CHECK(report.jobs >= SOME);
}

#define MANY       20000 /* jobs: a check takes some slices */
#define CANCELLING 50    /* times: the check may have ended before it is cancelled */

static void check_ends(bide *queue, uint64_t jobs)
{
    bide_check_report report;
    OK(bide_check(queue, &report));
    CHECK(report.problem[0] == 0 && report.jobs >= jobs);
}

static bide_op *new_check(bide_cq *cq, bide_check_report *report)
{
    struct waiter *waiter = new_op(BIDE_OP_CHECK, cq);
    waiter->op.check.report = report;
    return &waiter->op;
}

static void await_op(bide_cq *cq, const bide_op *op)
{
    UNTIL(op->status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
}

static void only_one_check_runs_at_a_time(void)
{
    static bide_check_report reports[8];
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    bide_op *ops[COUNT(reports)];
    put_lots(queue, fresh_topic("a"), MANY, NULL, NULL);
    for (size_t i = 0; i < COUNT(reports); i++)
        ops[i] = new_check(cq, &reports[i]);
    bide_submit(queue, ops, COUNT(ops));
    for (size_t i = 0; i < COUNT(ops); i++) {
        await_op(cq, ops[i]);
        EQ(ops[i]->status, i == 0 ? BIDE_OK : BIDE_EBUSY);
    }
    CHECK(reports[0].jobs >= MANY);
    CHECK(strstr(ops[1]->error, "another check is under way") != NULL);
    check_ends(queue, MANY);
}

static void a_check_can_be_cancelled(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    int cancelled = 0;
    put_lots(queue, fresh_topic("a"), MANY, NULL, NULL);
    for (int i = 0; i < CANCELLING && cancelled == 0; i++) {
        bide_check_report report;
        bide_op *op = new_check(cq, &report);
        bide_submit(queue, &op, 1);
        bide_cancel_op(queue, op);
        await_op(cq, op);
        CHECK(op->status == BIDE_OK || op->status == BIDE_CANCELLED);
        cancelled += op->status == BIDE_CANCELLED;
    }
    EQ(cancelled, 1);
    check_ends(queue, MANY);
}

static const struct test tests[] = {
    TEST(every_op_on_a_lease_is_counted),
    TEST(every_administrative_op_is_counted),
    TEST(every_timed_transition_is_counted),
    TEST(rejected_ops_are_not_counted),
    TEST(the_jobs_of_each_state_are_counted),
    TEST(urgent_jobs_are_ready_with_a_small_priority),
    TEST(the_age_of_the_oldest_ready_job_is_shown),
    TEST(waiting_calls_are_counted),
    TEST(topics_and_the_last_id_are_shown),
    TEST(memory_grows_with_the_bodies_and_shrinks_again),
    TEST(the_time_since_the_start_is_shown),
    TEST(stats_of_an_unknown_topic_are_not_found),
    TEST(timestamps_of_a_job_are_kept),
    TEST(a_check_of_many_jobs_ends),
    TEST(only_one_check_runs_at_a_time),
    TEST(a_check_can_be_cancelled),
};

const struct theme stats_theme = {"stats", tests, COUNT(tests)};
