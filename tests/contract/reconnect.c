/* SPDX-License-Identifier: MIT */
/* reconnect.c - a server that is killed or stopped while its clients work, and comes back. */
#include "location.h"

#include <stdlib.h>
#include <string.h>

static char location[LOCATION_SIZE];

static bide *open_here(void)
{
    return open_location(new_location(location, sizeof location), "");
}

/* The same queue goes on, without having been told. */
static void client_continues_after_a_server_restart(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    for (int round = 0; round < 4; round++) {
        uint64_t id = put(queue, a, "body");
        if (round % 2)
            kill_location_server(location);
        start_location_server(location);
        OK(bide_ping(queue));
        EQ(state_of(queue, id), is_persistent() ? BIDE_STATE_READY : BIDE_STATE_GONE);
        EQ(topic_of(queue, a).jobs.ready, is_persistent() ? round + 1 : 0);
    }
}

static void call_waits_for_a_restarting_server(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_cq *cq = new_cq();
    struct waiter *waiter = new_op(BIDE_OP_PUT, cq);
    waiter->op.put.topic = slice(a);
    waiter->op.put.body = slice("body");
    kill_location_server(location);
    UNTIL(bide_ping(queue) != BIDE_OK || bide_cq_drain(cq, 0) < 0);
    submit_pending(queue, waiter);
    still_pending(waiter);
    start_location_server(location);
    completes(waiter, BIDE_OK);
    EQ(take(queue, a)->id, waiter->op.put.id);
}

static void waiting_calls_are_served_after_a_server_restart(void)
{
    bide *queue = open_here();
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *reserve = begin_reserve(queue, cq, &topic, 1);
    UNTIL(stats_of(queue).waiting == 1);
    kill_location_server(location);
    start_location_server(location);
    uint64_t id = put(queue, a, "body");
    completes(reserve, BIDE_OK);
    EQ(reserve->job.id, id);
    OK(bide_delete(queue, id, reserve->job.token));
}

static void wait_without_a_server_times_out_with_a_reason(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_job job = {0};
    CODE(bide_reserve(queue, a, 1, &job), BIDE_TIMED_OUT);
    CHECK(strstr(bide_last_error(), "connection") == NULL);
    kill_location_server(location);
    CODE(bide_reserve(queue, a, 1200, &job), BIDE_TIMED_OUT);
    if (strstr(bide_last_error(), "reserve: no connection to ") == NULL)
        FAIL("the reserve says \"%s\"", bide_last_error());
    start_location_server(location);
    OK(bide_ping(queue));
}

static void a_lease_of_a_server_that_was_killed_is_lost(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    kill_location_server(location);
    start_location_server(location);
    int want = is_persistent() ? BIDE_LEASE_LOST : BIDE_NOT_FOUND;
    CODE(bide_delete(queue, id, token), want);
    CODE(bide_touch(queue, id, token, 0, NULL), want);
    EQ(state_of(queue, id), is_persistent() ? BIDE_STATE_READY : BIDE_STATE_GONE);
}

/* A server that keeps its jobs in memory has lost them. */
static void a_lease_outlives_an_orderly_restart_of_its_server(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    enum { DELETED, FINISHED, RELEASED, FAILED, BURIED, GIVEN_BACK, COUNT_OF_ALL };
    uint64_t ids[COUNT_OF_ALL], tokens[COUNT_OF_ALL];
    options.max_retries = 0;
    for (size_t i = 0; i < COUNT_OF_ALL; i++) {
        ids[i] = put_as(queue, a, "body", i % 2 == 0 ? &options : NULL);
        tokens[i] = take_job(queue, ids[i])->token;
    }
    for (int round = 0; round < 3; round++) {
        start_location_server(location);
        if (!is_persistent()) {
            CODE(bide_delete(queue, ids[0], tokens[0]), BIDE_NOT_FOUND);
            return;
        }
        nothing_ready(queue, a);
        for (size_t i = 0; i < COUNT_OF_ALL; i++) {
            EQ(stat_job(queue, ids[i])->state, BIDE_STATE_RESERVED);
            EQ(stat_job(queue, ids[i])->failures, 0);
            EQ(stat_job(queue, ids[i])->reserves, 1);
            CODE(bide_touch(queue, ids[i], tokens[i] + 1, 0, NULL), BIDE_LEASE_LOST);
            OK(bide_touch(queue, ids[i], tokens[i], 0, NULL));
        }
    }
    OK(bide_delete(queue, ids[DELETED], tokens[DELETED]));
    OK(bide_done(queue, ids[FINISHED], tokens[FINISHED], "result", 6, 3600000));
    OK(bide_release(queue, ids[RELEASED], tokens[RELEASED], BIDE_KEEP, 0));
    OK(bide_fail(queue, ids[FAILED], tokens[FAILED], "error", 3600000, NULL, NULL));
    OK(bide_bury(queue, ids[BURIED], tokens[BURIED], BIDE_KEEP, NULL));
    OK(bide_give_back(queue, ids[GIVEN_BACK], tokens[GIVEN_BACK]));
    static const bide_state states[] = {BIDE_STATE_GONE,    BIDE_STATE_DONE,   BIDE_STATE_READY,
                                        BIDE_STATE_DELAYED, BIDE_STATE_BURIED, BIDE_STATE_READY};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF_ALL; i++) {
            EQ(state_of(queue, ids[i]), states[i]);
            CODE(bide_touch(queue, ids[i], tokens[i], 0, NULL),
                 i == DELETED ? BIDE_NOT_FOUND : BIDE_LEASE_LOST);
        }
        start_location_server(location);
    }
}

static void lease_that_expires_after_a_restart_counts_as_timeout(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    if (!is_persistent())
        return;
    options.ttr_ms = 1500;
    uint64_t plain = put_as(queue, a, "body", &options);
    options.max_retries = 0;
    uint64_t limited = put_as(queue, a, "body", &options);
    uint64_t token = take_job(queue, plain)->token;
    take_job(queue, limited);
    start_location_server(location);
    EQ(await(queue, a)->id, plain);
    UNTIL(state_of(queue, limited) == BIDE_STATE_BURIED);
    EQ(stat_job(queue, plain)->timeouts, 1);
    EQ(stat_job(queue, limited)->timeouts, 1);
    EQ(stat_job(queue, limited)->failures, 1);
    const bide_job *job = stat_job(queue, limited);
    TEXT(job->last_error, job->last_error_size, "ttr ran out");
    CODE(bide_delete(queue, plain, token), BIDE_LEASE_LOST);
}

/* What was left at the stop is left at the start: the time in between is not the holder's. */
static void downtime_does_not_shorten_a_lease(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    if (!is_persistent())
        return;
    options.ttr_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    uint64_t token = take(queue, a)->token;
    int64_t reserved_ms = stat_job(queue, id)->reserved_ms;
    OK(bide_touch(queue, id, token, 1800000, "half"));
    int64_t start_us = clock_us();
    int64_t left_ms = stat_job(queue, id)->left_ms;
    stop_location_server(location);
    nap_ms(500);
    start_location_server(location);
    const bide_job *job = stat_job(queue, id);
    int64_t passed_ms = (clock_us() - start_us) / 1000 + 1;
    CHECK(job->left_ms <= left_ms);
    if (left_ms - job->left_ms > passed_ms - 500 + 1)
        FAIL("%lld ms of the lease are gone in %lld ms, of which 500 were without a server",
             (long long)(left_ms - job->left_ms), (long long)passed_ms);
    EQ(job->touches, 1);
    CHECK(job->reserved_ms >= reserved_ms - 1 && job->reserved_ms <= reserved_ms + 1);
    OK(bide_delete(queue, id, token));
}

/* The name of a holder is not stored; the job still counts for the limit of its topic. */
static void a_lease_that_outlives_a_restart_has_no_holder(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    const bide_slice topic = slice(a);
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    bide_job job = {0};
    bide_explanation why;
    bide_failure failure;
    policy.concurrency = 1;
    OK(bide_topic_set(queue, a, &policy));
    uint64_t id = put(queue, a, "body"), next = put(queue, a, "body");
    bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
    args.holder = slice("web1:47");
    OK(bide_reserve_many(queue, &args));
    uint64_t token = job.token;
    bide_job_clear(&job);
    start_location_server(location);
    if (!is_persistent())
        return;

    EQ(stat_job(queue, id)->state, BIDE_STATE_RESERVED);
    EQ(stat_job(queue, id)->holder_size, 0);
    OK(bide_why(queue, id, &why));
    EQ(why.reason, BIDE_WHY_RESERVED);
    EQ(why.holder[0], 0);
    CHECK(strstr(why.text, "is reserved (attempt 1); its lease ends in") != NULL);
    nothing_ready(queue, a);
    OK(bide_why(queue, next, &why));
    EQ(why.reason, BIDE_WHY_CONCURRENCY);
    CODE(bide_reserve_job(queue, next, &job), BIDE_LIMITED);

    OK(bide_fail(queue, id, token, "error", 3600000, NULL, NULL));
    EQ(bide_job_history(stat_job(queue, id), &failure, 1), 1);
    EQ(failure.holder.size, 0);
    EQ(take(queue, a)->id, next);
}

/* After a crash no lease of before is good, whatever orderly stops came before and come later. */
static void a_lease_does_not_outlive_a_crash_that_follows_a_restart(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    if (!is_persistent())
        return;
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    start_location_server(location);
    OK(bide_touch(queue, id, token, 0, NULL));
    /* A crash before anything is stored would be as if the server had never been started. */
    put(queue, fresh_topic("b"), "body");
    kill_location_server(location);
    for (int round = 0; round < 2; round++) {
        start_location_server(location);
        CODE(bide_touch(queue, id, token, 0, NULL), BIDE_LEASE_LOST);
        EQ(state_of(queue, id), BIDE_STATE_READY);
    }
    uint64_t newer = take(queue, a)->token;
    start_location_server(location);
    CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    OK(bide_delete(queue, id, newer));
}

static void a_cancelled_job_is_removed_by_its_holder_after_a_restart(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    if (!is_persistent())
        return;
    uint64_t id = put(queue, a, "body"), kept = put(queue, a, "body");
    uint64_t token = take_job(queue, id)->token, kept_token = take_job(queue, kept)->token;
    OK(bide_cancel(queue, id));
    OK(bide_cancel(queue, kept));
    start_location_server(location);
    CODE(bide_touch(queue, id, token, 0, NULL), BIDE_CANCEL_WANTED);
    OK(bide_fail(queue, id, token, "cancelled", BIDE_KEEP, NULL, NULL));
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    OK(bide_done(queue, kept, kept_token, "result", 6, 3600000));
    EQ(state_of(queue, kept), BIDE_STATE_DONE);
}

static void subscription_continues_and_reports_lost_events(void)
{
    bide *queue = open_here();
    const char *a = fresh_topic("a");
    bide_subscription *feed = NULL;
    bide_event event;
    size_t count = 0;
    uint64_t lost = 0;
    OK(bide_subscribe(queue, a, 1u << BIDE_EVENT_PUT, 0, &feed));
    put(queue, a, "one");
    OK(bide_events(queue, feed, PATIENCE_MS, &event, 1, &count, &lost));
    EQ(lost, 0);
    kill_location_server(location);
    start_location_server(location);
    OK(bide_events(queue, feed, PATIENCE_MS, &event, 1, &count, &lost));
    EQ(count, 0);
    CHECK(lost >= 1);
    CODE(bide_events(queue, feed, 0, &event, 1, &count, &lost), BIDE_TIMED_OUT);
    uint64_t id = put(queue, a, "two");
    OK(bide_events(queue, feed, PATIENCE_MS, &event, 1, &count, &lost));
    EQ(event.id, id);
    EQ(lost, 0);
    OK(bide_unsubscribe(queue, feed));
}

/* ---- under load ---- */

enum { WORKERS = 4, ROUNDS = 4, PUTS = 20000 };

/* A job that was acknowledged is there; one that was refused is not; else it may be. */
struct worker {
    bide *queue;
    const char *topic;
    _Atomic bool *stop;
    _Atomic uint64_t *acknowledged;
    size_t count;
    int codes[PUTS];
    char seen[PUTS];
};

static void *put_until_told(void *arg)
{
    struct worker *worker = arg;
    while (!*worker->stop && worker->count < PUTS) {
        size_t number = worker->count;
        int code = bide_put(worker->queue, worker->topic, &number, sizeof number, NULL, NULL);
        if (code != BIDE_OK && code != BIDE_EUNKNOWN && code != BIDE_EIO)
            FAIL("a put answers %s, \"%s\"", bide_code_name(code), bide_last_error());
        worker->codes[worker->count++] = code;
        *worker->acknowledged += code == BIDE_OK;
    }
    return NULL;
}

/* Takes all that is there; each once, and only what may be there. */
static void compare(struct worker *worker)
{
    bide_job job = {0};
    while (bide_reserve(worker->queue, worker->topic, 0, &job) == BIDE_OK) {
        size_t number = PUTS;
        EQ(job.body_size, sizeof number);
        memcpy(&number, job.body, sizeof number);
        CHECK(number < worker->count && !worker->seen[number]);
        CHECK(worker->codes[number] != BIDE_EIO);
        worker->seen[number] = 1;
        OK(bide_delete(worker->queue, job.id, job.token));
        bide_job_clear(&job);
    }
    for (size_t i = 0; is_persistent() && i < worker->count; i++)
        CHECK(worker->seen[i] || worker->codes[i] != BIDE_OK);
}

/* Without a file nothing is left of what was put before the last start, and nothing is there
 * twice. */
static void acknowledged_puts_survive_and_none_is_duplicated(void)
{
    static struct worker workers[WORKERS];
    static const char *const tags[WORKERS] = {"a", "b", "c", "d"};
    _Atomic bool stop = false;
    _Atomic uint64_t acknowledged = 0;
    pthread_t threads[WORKERS];
    bide *queue = open_here();
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.queue = queue,
                                     .topic = fresh_topic(tags[i]),
                                     .stop = &stop,
                                     .acknowledged = &acknowledged};
        threads[i] = start_thread(put_until_told, &workers[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = acknowledged;
        UNTIL(acknowledged >= before + 50);
        kill_location_server(location);
        start_location_server(location);
    }
    stop = true;
    for (size_t i = 0; i < WORKERS; i++)
        join_thread(threads[i]);
    OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
    for (size_t i = 0; i < WORKERS; i++)
        compare(&workers[i]);
}

static const struct test tests[] = {
    TEST(client_continues_after_a_server_restart),
    TEST(call_waits_for_a_restarting_server),
    TEST(waiting_calls_are_served_after_a_server_restart),
    TEST(wait_without_a_server_times_out_with_a_reason),
    TEST(a_lease_of_a_server_that_was_killed_is_lost),
    TEST(a_lease_outlives_an_orderly_restart_of_its_server),
    TEST(a_lease_that_outlives_a_restart_has_no_holder),
    TEST(lease_that_expires_after_a_restart_counts_as_timeout),
    TEST(downtime_does_not_shorten_a_lease),
    TEST(a_lease_does_not_outlive_a_crash_that_follows_a_restart),
    TEST(a_cancelled_job_is_removed_by_its_holder_after_a_restart),
    TEST(subscription_continues_and_reports_lost_events),
    TEST(acknowledged_puts_survive_and_none_is_duplicated),
};

const struct theme reconnect_theme = {"reconnect", tests, COUNT(tests)};
