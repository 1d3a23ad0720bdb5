/* SPDX-License-Identifier: MIT */
/* limits.c - every limit is refused with its own code, and what is below it is not. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A queue that has room for so many more topics than there are. */
static bide *open_with_topics(unsigned more)
{
    char parameters[64];
    bide *look = open_queue("");
    uint64_t topics = stats_of(look).topics;
    close_queue(look);
    snprintf(parameters, sizeof parameters, "max_topics=%llu", (unsigned long long)topics + more);
    return open_queue(parameters);
}

static void body_of_max_job_size_is_accepted(void)
{
    static const char body[101];
    bide *queue = open_queue("max_job_size=100");
    const char *a = fresh_topic("a");
    uint64_t id = 42;
    OK(bide_put(queue, a, body, 100, NULL, NULL));
    CODE(bide_put(queue, a, body, 101, NULL, &id), BIDE_TOO_BIG);
    EQ(id, 42);
    EQ(topic_of(queue, a).jobs.ready, 1);
}

static void result_of_max_result_size_is_accepted(void)
{
    static const char result[101];
    bide *queue = open_queue("max_result_size=100");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    CODE(bide_done(queue, id, token, result, 101, 3600000), BIDE_TOO_BIG);
    EQ(state_of(queue, id), BIDE_STATE_RESERVED);
    OK(bide_done(queue, id, token, result, 100, 3600000));
    EQ(peek_job(queue, id)->result_size, 100);
}

static void an_error_is_cut_at_max_error_size(void)
{
    bide *queue = open_queue("max_error_size=10");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_fail(queue, id, take(queue, a)->token, "0123456789abcdef", 0, NULL, NULL));
    const bide_job *job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "0123456789");
    OK(bide_bury(queue, id, 0, BIDE_KEEP, "abcdefghijklmnop"));
    job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "abcdefghij");
    OK(bide_kick_job(queue, id));
    OK(bide_fail(queue, id, 0, "short", 0, NULL, NULL));
    job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "short");
}

static void error_text_of_the_queue_is_cut_at_max_error_size(void)
{
    bide *queue = open_queue("max_error_size=4");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    options.ttr_ms = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    take(queue, a);
    UNTIL(state_of(queue, id) == BIDE_STATE_BURIED);
    const bide_job *job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "ttr ");
}

static void an_error_is_cut_at_1_kib_by_default(void)
{
    static char text[2000];
    memset(text, 'e', sizeof text - 1);
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_fail(queue, id, 0, text, 0, NULL, NULL));
    EQ(stat_job(queue, id)->last_error_size, 1024);
}

static void topic_accepts_max_jobs_per_topic(void)
{
    bide *queue = open_queue("max_jobs_per_topic=4");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                        BIDE_STATE_BURIED};
    uint64_t ids[COUNT(states)], id = 42;
    for (size_t i = 0; i < COUNT(states); i++)
        ids[i] = put_in(queue, a, states[i]);
    CODE(bide_put(queue, a, "x", 1, NULL, &id), BIDE_TOPIC_FULL);
    EQ(id, 42);
    put(queue, b, "body");
    OK(bide_done(queue, ids[3], 0, NULL, 0, 3600000));
    put(queue, a, "body");
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
    OK(bide_delete(queue, ids[0], 0));
    put(queue, a, "body");
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
}

static void job_of_a_full_topic_can_be_replaced(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    uint64_t old = put_key(queue, a, "k");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    options.conflict = BIDE_REPLACE;
    CHECK(put_as(queue, a, "new", &options) > old);
    EQ(topic_of(queue, a).jobs.ready, 1);
}

static void jobs_of_a_full_topic_can_be_released(void)
{
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, 3600000, NULL, NULL));
    OK(bide_kick(queue, a, 1, NULL));
    EQ(take(queue, a)->id, id);
}

static void put_many_fills_a_topic_to_its_limit(void)
{
    bide *queue = open_queue("max_jobs_per_topic=3");
    const char *a = fresh_topic("a");
    bide_put_item items[5] = {0};
    for (size_t i = 0; i < COUNT(items); i++)
        items[i].topic = slice(a);
    size_t accepted = 0;
    OK(bide_put_many(queue, items, COUNT(items), &accepted));
    EQ(accepted, 3);
    for (size_t i = 0; i < COUNT(items); i++)
        EQ(items[i].status, i < 3 ? BIDE_OK : BIDE_TOPIC_FULL);
}

static void max_topics_is_enforced(void)
{
    bide *queue = open_with_topics(2);
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    uint64_t id = put(queue, a, "body");
    put(queue, b, "body");
    CODE(bide_put(queue, c, "x", 1, NULL, NULL), BIDE_TOO_MANY_TOPICS);
    CODE(bide_pause(queue, c, 1000), BIDE_TOO_MANY_TOPICS);
    CODE(bide_topic_ref(queue, c, 1), BIDE_TOO_MANY_TOPICS);
    bide_job job = {0};
    CODE(bide_reserve(queue, c, 1000, &job), BIDE_TOO_MANY_TOPICS);
    bide_slice topics[] = {slice(c), slice(fresh_topic("d"))};
    bide_reserve_args args = reserve_args(topics, 2, BIDE_FOREVER, &job, 1);
    CODE(bide_reserve_many(queue, &args), BIDE_TOO_MANY_TOPICS);
    CODE(bide_reserve(queue, c, 0, &job), BIDE_TIMED_OUT);
    bide_job copy = *peek_job(queue, id);
    snprintf(copy.topic, sizeof copy.topic, "%s", c);
    CODE(bide_restore(queue, &copy, NULL), BIDE_TOO_MANY_TOPICS);
    CHECK(!topic_exists(queue, c));
    EQ(stats_of(queue).waiting, 0);
    put(queue, a, "more");
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    put(queue, c, "body");
}

static void move_to_a_topic_beyond_max_topics_is_rejected(void)
{
    bide *queue = open_with_topics(1);
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t id = put(queue, a, "body");
    put(queue, a, "other");
    bide_update_args changes = {id, 1, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, slice(b), {0}};
    CODE(bide_update(queue, &changes), BIDE_TOO_MANY_TOPICS);
    EQ(stat_job(queue, id)->priority, BIDE_DEFAULT_PRIORITY);
    EQ(topic_of(queue, a).jobs.ready, 2);
    CHECK(!topic_exists(queue, b));
}

static void max_waiters_is_enforced(void)
{
    bide *queue = open_queue("max_waiters=3");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_job job = {0};
    bide_event event = {0};
    bide_subscription *feed = NULL;
    size_t count = 0;
    uint64_t id = put_later(queue, a, 3600000);
    OK(bide_subscribe(queue, a, 0, 0, &feed));
    struct waiter *first = begin_reserve(queue, cq, &topic, 1);
    begin_wait(queue, cq, id);
    begin_reserve(queue, cq, &topic, 1);
    CODE(bide_reserve(queue, a, 1000, &job), BIDE_TOO_MANY_WAITERS);
    CODE(bide_wait(queue, id, 1000, NULL, NULL), BIDE_TOO_MANY_WAITERS);
    CODE(bide_events(queue, feed, 1000, &event, 1, &count, NULL), BIDE_TOO_MANY_WAITERS);
    struct waiter *refused = new_op(BIDE_OP_RESERVE, cq);
    refused->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &refused->job, 1);
    submit_code(queue, refused, BIDE_TOO_MANY_WAITERS);
    CODE(bide_reserve(queue, a, 0, &job), BIDE_TIMED_OUT);
    CODE(bide_wait(queue, id, 0, NULL, NULL), BIDE_TIMED_OUT);
    EQ(stats_of(queue).waiting, 2);
    EQ(stats_of(queue).watching, 1);
    EQ(bide_cancel_op(queue, &first->op), BIDE_OK);
    completes(first, BIDE_CANCELLED);
    begin_reserve(queue, cq, &topic, 1);
    OK(bide_unsubscribe(queue, feed));
}

static void says(struct where at, const char *want)
{
    if (strstr(bide_last_error(), want) == NULL)
        fail_test(at, "\"%s\" does not say \"%s\"", bide_last_error(), want);
}

/* A refusal by a limit says which, and its value. */
static void limit_error_names_the_limit_and_its_value(void)
{
    char topics[64];
    size_t max_topics = initial_topics() + 1;
    snprintf(topics, sizeof topics, "max_topics=%zu&max_waiters=1&max_jobs_per_topic=2",
             max_topics);
    bide *queue = open_queue(topics);
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(a);
    bide_job job = {0};
    char want[64];
    uint64_t id = put_later(queue, a, 3600000);
    begin_wait(queue, cq, id);
    CODE(bide_reserve_many(queue, &(bide_reserve_args){.topics = &topic,
                                                       .topic_count = 1,
                                                       .timeout_ms = 1000,
                                                       .jobs = &job,
                                                       .job_max = 1}),
         BIDE_TOO_MANY_WAITERS);
    says(HERE, "max_waiters is 1");
    snprintf(want, sizeof want, "there are %zu topics, max_topics is %zu", max_topics, max_topics);
    CODE(bide_put(queue, b, "x", 1, NULL, NULL), BIDE_TOO_MANY_TOPICS);
    says(HERE, want);
    CODE(bide_pause(queue, b, 1000), BIDE_TOO_MANY_TOPICS);
    says(HERE, want);
    bide_put_item item = {.topic = slice(b)};
    OK(bide_put_many(queue, &item, 1, NULL));
    EQ(item.status, BIDE_TOO_MANY_TOPICS);
    put(queue, a, "body");
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
    says(HERE, "max_jobs_per_topic is 2");
    OK(bide_delete(queue, id, 0));
}

/* The topics that a failed reserve creates and destroys are not in the count of its message. */
static void rejected_reserve_tells_the_number_of_topics_that_exist(void)
{
    char parameters[64], want[64];
    size_t topics = initial_topics();
    snprintf(parameters, sizeof parameters, "max_topics=%zu", topics + 2);
    bide *queue = open_queue(parameters);
    bide_slice names[] = {slice(fresh_topic("a")), slice(fresh_topic("b")),
                          slice(fresh_topic("c"))};
    bide_job job = {0};
    bide_reserve_args args = reserve_args(names, COUNT(names), 1000, &job, 1);
    CODE(bide_reserve_many(queue, &args), BIDE_TOO_MANY_TOPICS);
    snprintf(want, sizeof want, "there are %zu topics, max_topics is %zu", topics, topics + 2);
    says(HERE, want);
}

static void rejected_touch_names_the_limit_and_its_end(void)
{
    static const struct {
        const char *parameters, *want, *when;
        int64_t extend_ms;
    } cases[] = {
        {"max_touches=1", "max_touches is 1", "it ends in ", 0},
        {"min_touch_interval=1h", "min_touch_interval is 3600000 ms", "again in ", 0},
        {"max_touch_total=2h", "max_touch_total is 7200000 ms", "at most ", 7300000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bide *queue = open_queue(cases[i].parameters);
        const char *a = fresh_topic("a");
        put(queue, a, "body");
        const bide_job *job = take(queue, a);
        if (i == 0)
            OK(bide_touch(queue, job->id, job->token, 0, NULL));
        CODE(bide_touch(queue, job->id, job->token, cases[i].extend_ms, NULL), BIDE_TOUCH_LIMIT);
        says(HERE, cases[i].want);
        says(HERE, cases[i].when);
        OK(bide_delete(queue, job->id, job->token));
    }
}

static void ready_job_is_reserved_at_max_waiters(void)
{
    bide *queue = open_queue("max_waiters=1");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(b);
    begin_reserve(queue, new_cq(), &topic, 1);
    uint64_t id = put(queue, a, "body");
    EQ(await(queue, a)->id, id);
}

/* They are bounded by max_waiters: if they filled max_pending_ops, no put could serve them. */
static void waiting_calls_do_not_delay_a_put(void)
{
    bide *queue = open_queue("max_pending_ops=2");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *first = begin_reserve(queue, cq, &topic, 1);
    struct waiter *second = begin_reserve(queue, cq, &topic, 1);
    struct waiter *third = begin_reserve(queue, cq, &topic, 1);
    EQ(stats_of(queue).pending_ops, 3);
    put(queue, a, "body");
    completes(first, BIDE_OK);
    still_pending(second);
    still_pending(third);
}

static void put_many_accepts_at_most_8_mib(void)
{
    enum { BODY = 1 << 20 };
    static char body[BODY];
    bide *queue = open_queue("max_job_size=16MiB");
    const char *a = fresh_topic("a");
    bide_put_item items[9] = {0};
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice(a), .body = {body, BODY}, .status = 42};
    size_t accepted = 42;
    CODE(bide_put_many(queue, items, 9, &accepted), BIDE_TOO_BIG);
    EQ(accepted, 42);
    EQ(items[0].status, 42);
    CHECK(!topic_exists(queue, a));
    OK(bide_put_many(queue, items, 8, &accepted));
    EQ(accepted, 8);
}

static void a_single_job_of_put_many_may_be_larger(void)
{
    bide *queue = open_queue("max_job_size=16MiB");
    const char *a = fresh_topic("a");
    size_t size = BIDE_BATCH_BYTES + 1;
    char *body = calloc(1, size);
    CHECK(body != NULL);
    bide_put_item item = {.topic = slice(a), .body = {body, size}};
    OK(bide_put_many(queue, &item, 1, NULL));
    EQ(item.status, BIDE_OK);
    EQ(stat_job(queue, item.id)->body_size, size);
    free(body);
}

/* Bodies count while they are in memory, and here there is room for all of them. */
#define SMALL_AND_WARM "max_memory=1MiB&cache_bytes=64MiB"

/* Puts bodies of 10 KB until one is refused; answers how many were taken. */
static int fill(bide *queue, const char *topic, uint64_t *last)
{
    static const char body[10000];
    for (int i = 0; i < 1000; i++) {
        int code = bide_put(queue, topic, body, sizeof body, NULL, last);
        if (code != BIDE_OK) {
            CODE(code, BIDE_EFULL);
            return i;
        }
    }
    FAIL("expected BIDE_EFULL before 10 MB are in a queue of 1 MiB");
}

static void max_memory_is_enforced(void)
{
    bide *queue = open_queue(SMALL_AND_WARM);
    const char *a = fresh_topic("a");
    uint64_t last = 0;
    int taken = fill(queue, a, &last);
    CHECK(taken >= 10);
    CHECK(stats_of(queue).memory_bytes <= 1 << 20);
    EQ(topic_of(queue, a).jobs.ready, taken);
    EQ(stats_of(queue).last_id, last);

    const bide_job *job = take(queue, a);
    OK(bide_touch(queue, job->id, job->token, 0, NULL));
    OK(bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    for (int i = 0; i < 3; i++) {
        job = take(queue, a);
        OK(bide_delete(queue, job->id, job->token));
    }
    put(queue, a, "small");
    CHECK(fill(queue, a, &last) >= 1);
}

static void a_job_of_a_full_queue_cannot_move_to_a_new_topic(void)
{
    bide *queue = open_queue(SMALL_AND_WARM);
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    uint64_t moving = put(queue, a, "small");
    uint64_t last = 0;
    put(queue, b, "small");
    fill(queue, a, &last);
    while (bide_put(queue, a, "", 0, NULL, NULL) == BIDE_OK)
        continue;

    bide_update_args changes = {moving, 1, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, slice(c), {0}};
    CODE(bide_update(queue, &changes), BIDE_EFULL);
    EQ(stat_job(queue, moving)->priority, BIDE_DEFAULT_PRIORITY);
    CHECK(!topic_exists(queue, c));
    changes.topic = slice(b);
    OK(bide_update(queue, &changes));
    EQ(topic_of(queue, b).jobs.ready, 2);
}

static void full_queue_rejects_each_item_and_each_restore(void)
{
    static const char body[10000];
    bide *queue = open_queue(SMALL_AND_WARM);
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t last = 0;
    fill(queue, a, &last);
    bide_put_item item = {.topic = slice(b), .body = {body, sizeof body}};
    size_t accepted = 42;
    OK(bide_put_many(queue, &item, 1, &accepted));
    EQ(accepted, 0);
    EQ(item.status, BIDE_EFULL);
    bide_job job = *peek_job(queue, last);
    snprintf(job.topic, sizeof job.topic, "%s", b);
    CODE(bide_restore(queue, &job, NULL), BIDE_EFULL);
    CHECK(!topic_exists(queue, b));
}

/* ---- many at a time ---- */

enum { MANY_PUTS = 30000, MANY_RESERVES = 12000 };

static void submit_all(bide *queue, bide_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bide_op *op = &ops[i];
        BETWEEN(bide_submit(queue, &op, 1), 0, 1);
    }
}

/* Drains until every op has completed, each with this code. */
static void all_complete(bide_cq *cq, const bide_op *ops, size_t count, int code)
{
    for (size_t i = 0; i < count; i++) {
        UNTIL(ops[i].status != BIDE_PENDING || bide_cq_wait(cq, 1) < 0);
        if (ops[i].status != code)
            FAIL("op %zu of %zu: %d, \"%s\"", i, count, ops[i].status, ops[i].error);
    }
}

static bide_op *begin_puts(bide *queue, bide_cq *cq, const char *topic)
{
    bide_op *puts = calloc(MANY_PUTS, sizeof(*puts));
    CHECK(puts != NULL);
    for (size_t i = 0; i < MANY_PUTS; i++) {
        puts[i].kind = BIDE_OP_PUT;
        puts[i].cq = cq;
        puts[i].put = (bide_put_item){.topic = slice(topic), .body = slice("x")};
    }
    submit_all(queue, puts, MANY_PUTS);
    return puts;
}

static void thirty_thousand_concurrent_puts_are_accepted(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_op *puts = begin_puts(queue, cq, a);
    all_complete(cq, puts, MANY_PUTS, BIDE_OK);
    for (size_t i = 1; i < MANY_PUTS; i++)
        CHECK(puts[i].put.id > puts[i - 1].put.id);
    EQ(topic_of(queue, a).jobs.ready, MANY_PUTS);
    uint64_t removed = 0;
    OK(bide_purge(queue, a, BIDE_STATE_READY, &removed));
    EQ(removed, MANY_PUTS);
    free(puts);
}

static void waiting_calls_leave_room_for_other_calls(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(b);
    bide_op *reserves = calloc(MANY_RESERVES, sizeof(*reserves));
    bide_job *jobs = calloc(MANY_RESERVES, sizeof(*jobs));
    CHECK(reserves != NULL && jobs != NULL);
    for (size_t i = 0; i < MANY_RESERVES; i++) {
        reserves[i].kind = BIDE_OP_RESERVE;
        reserves[i].cq = cq;
        reserves[i].reserve = reserve_args(&topic, 1, BIDE_FOREVER, &jobs[i], 1);
    }
    submit_all(queue, reserves, MANY_RESERVES);
    UNTIL(topic_of(queue, b).waiting == MANY_RESERVES);
    bide_op *puts = begin_puts(queue, cq, a);
    all_complete(cq, puts, MANY_PUTS, BIDE_OK);
    OK(bide_ping(queue));
    uint64_t id = put(queue, b, "body");
    all_complete(cq, reserves, 1, BIDE_OK);
    EQ(jobs[0].id, id);
    EQ(topic_of(queue, b).waiting, MANY_RESERVES - 1);
    OK(bide_delete(queue, id, jobs[0].token));
    bide_job_clear(&jobs[0]);
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    OK(bide_shutdown(queue));
    all_complete(cq, reserves + 1, MANY_RESERVES - 1, BIDE_CLOSED);
    free(puts);
    free(reserves);
    free(jobs);
}

/* ---- bytes in one answer ---- */

enum { LARGE = 60000, FIT = BIDE_BATCH_BYTES / LARGE, LARGE_COUNT = 200 };

/* Puts LARGE_COUNT jobs with bodies of LARGE bytes. */
static void put_large(bide *queue, const char *topic, const bide_put_options *options)
{
    static char body[LARGE];
    memset(body, 'b', sizeof(body));
    for (int i = 0; i < LARGE_COUNT; i++)
        OK(bide_put(queue, topic, body, sizeof(body), options, NULL));
}

static void reserve_takes_at_most_the_bytes_of_a_batch(void)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice name = slice(a);
    put_large(queue, a, NULL);
    size_t left = LARGE_COUNT;
    while (left > 0) {
        bide_reserve_args args = reserve_args(&name, 1, 0, jobs, COUNT(jobs));
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, left < FIT ? left : FIT);
        left -= args.count;
        EQ(topic_of(queue, a).jobs.ready, left);
        EQ(topic_of(queue, a).jobs.reserved, args.count);
        for (size_t i = 0; i < args.count; i++) {
            EQ(jobs[i].body_size, LARGE);
            OK(bide_delete(queue, jobs[i].id, jobs[i].token));
        }
        clear_jobs(jobs, args.count);
    }
}

static void finish_and_reserve_takes_at_most_the_bytes_of_a_batch(void)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice name = slice(a);
    put_large(queue, a, NULL);
    const bide_job *first = take(queue, a);
    bide_finish_item finish = {.id = first->id, .token = first->token};
    bide_reserve_args args = reserve_args(&name, 1, 0, jobs, COUNT(jobs));
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    EQ(args.count, FIT);
    EQ(topic_of(queue, a).jobs.ready, LARGE_COUNT - 1 - FIT);
    clear_jobs(jobs, args.count);
}

/* Lists all large jobs of a topic; answers the number of pages. */
static int list_large(bide *queue, bide_list_args args, size_t most)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t seen = 0;
    int pages = 0;
    args.cursor = cursor;
    args.jobs = jobs;
    args.job_max = COUNT(jobs);
    do {
        OK(bide_list_page(queue, &args));
        CHECK(args.count <= most);
        for (size_t i = 0; i < args.count; i++) {
            CHECK((jobs[i].body != NULL) == args.with_body);
            EQ(jobs[i].body_size, LARGE);
        }
        seen += args.count;
        clear_jobs(jobs, args.count);
        CHECK(++pages <= LARGE_COUNT);
    } while (cursor[0] != 0);
    EQ(seen, LARGE_COUNT);
    return pages;
}

static void page_has_at_most_the_bytes_of_a_batch(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_list_args args = {.topic = slice(a), .state = BIDE_STATE_READY, .with_body = true};
    put_large(queue, a, NULL);
    EQ(list_large(queue, args, FIT), (LARGE_COUNT + FIT - 1) / FIT);
    args.filter.text = slice("bbb");
    list_large(queue, args, FIT);
    args.filter.text = slice("");
    args.with_body = false;
    EQ(list_large(queue, args, LARGE_COUNT), 1);
}

static void results_count_towards_the_bytes_of_a_page(void)
{
    static char result[LARGE];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_list_args args = {.topic = slice(a), .state = BIDE_STATE_DONE};
    put_large(queue, a, NULL);
    for (int i = 0; i < LARGE_COUNT; i++) {
        const bide_job *job = take(queue, a);
        OK(bide_done(queue, job->id, job->token, result, sizeof(result), 3600000));
    }
    EQ(list_large(queue, args, FIT), (LARGE_COUNT + FIT - 1) / FIT);
    args.with_body = true;
    EQ(list_large(queue, args, FIT / 2), (LARGE_COUNT + FIT / 2 - 1) / (FIT / 2));
}

/* Larger than an answer may be, each of them alone. */
static void job_larger_than_a_page_is_listed_alone(void)
{
    static char body[BIDE_BATCH_BYTES + 1];
    bide *queue = open_queue("max_job_size=16MiB");
    const char *a = fresh_topic("a");
    bide_slice name = slice(a);
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[3];
    size_t count = 0;
    for (int i = 0; i < 2; i++)
        OK(bide_put(queue, a, body, sizeof(body), NULL, NULL));
    put(queue, a, "small");
    OK(bide_list(queue, a, BIDE_STATE_READY, NULL, cursor, jobs, COUNT(jobs), &count));
    EQ(count, 1);
    EQ(jobs[0].body_size, sizeof(body));
    CHECK(cursor[0] != 0);
    clear_jobs(jobs, count);
    for (int i = 0; i < 3; i++) {
        bide_reserve_args args = reserve_args(&name, 1, 0, jobs, COUNT(jobs));
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, 1);
        clear_jobs(jobs, args.count);
    }
    nothing_ready(queue, a);
}

static const struct test tests[] = {
    TEST(body_of_max_job_size_is_accepted),
    TEST(result_of_max_result_size_is_accepted),
    TEST(an_error_is_cut_at_max_error_size),
    TEST(error_text_of_the_queue_is_cut_at_max_error_size),
    TEST(an_error_is_cut_at_1_kib_by_default),
    TEST(topic_accepts_max_jobs_per_topic),
    TEST(job_of_a_full_topic_can_be_replaced),
    TEST(jobs_of_a_full_topic_can_be_released),
    TEST(put_many_fills_a_topic_to_its_limit),
    TEST(max_topics_is_enforced),
    TEST(move_to_a_topic_beyond_max_topics_is_rejected),
    TEST(rejected_reserve_tells_the_number_of_topics_that_exist),
    TEST(max_waiters_is_enforced),
    TEST(limit_error_names_the_limit_and_its_value),
    TEST(rejected_touch_names_the_limit_and_its_end),
    TEST(ready_job_is_reserved_at_max_waiters),
    TEST(waiting_calls_do_not_delay_a_put),
    TEST(put_many_accepts_at_most_8_mib),
    TEST(a_single_job_of_put_many_may_be_larger),
    TEST(max_memory_is_enforced),
    TEST(a_job_of_a_full_queue_cannot_move_to_a_new_topic),
    TEST(full_queue_rejects_each_item_and_each_restore),
    TEST(thirty_thousand_concurrent_puts_are_accepted),
    TEST(waiting_calls_leave_room_for_other_calls),
    TEST(reserve_takes_at_most_the_bytes_of_a_batch),
    TEST(finish_and_reserve_takes_at_most_the_bytes_of_a_batch),
    TEST(page_has_at_most_the_bytes_of_a_batch),
    TEST(results_count_towards_the_bytes_of_a_page),
    TEST(job_larger_than_a_page_is_listed_alone),
};

const struct theme limits_theme = {"limits", tests, COUNT(tests)};
