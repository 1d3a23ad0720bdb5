/* SPDX-License-Identifier: MIT */
/*
 * plain.c - the library as the client of a real beanstalkd: what it can do there, and that it says
 * so where it cannot.
 *
 * Every test runs in a process of its own, against a server of its own.
 */
#include "../contract/isolated.h"
#include "../wire/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *command = "beanstalkd";
static struct server server;
static bide *queue;

static const bide_slice topic_a = {"a", 1};

/* ---- short ways ---- */

static bide *open_another(const char *parameters)
{
    char url[PATH_MAX + 100];
    bide *opened = NULL;
    snprintf(url, sizeof url, "beanstalk://%s/socket%s%s", server.folder, parameters[0] ? "?" : "",
             parameters);
    OK(bide_open(url, NULL, &opened));
    return opened;
}

static uint64_t put_it(const char *topic, const char *body, const bide_put_options *options)
{
    uint64_t id = 0;
    OK(bide_put(queue, topic, body, strlen(body), options, &id));
    CHECK(id > 0);
    return id;
}

static uint64_t put_with_ttr(const char *topic, int64_t ttr_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = ttr_ms;
    return put_it(topic, "body", &options);
}

static bide_job take_it(const char *topic, int64_t timeout_ms)
{
    bide_job job = {0};
    OK(bide_reserve(queue, topic, timeout_ms, &job));
    EQ(job.state, BIDE_STATE_RESERVED);
    CHECK(job.token > 0);
    return job;
}

/* Takes a job of which only the lease is wanted: its token. */
static uint64_t hold(const char *topic)
{
    bide_job job = take_it(topic, 0);
    uint64_t token = job.token;
    bide_job_clear(&job);
    return token;
}

static bide_state state_now(uint64_t id)
{
    bide_job job = {0};
    int code = bide_job_stats(queue, id, &job);
    if (code == BIDE_NOT_FOUND)
        return BIDE_STATE_GONE;
    EQ(code, BIDE_OK);
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

static void submit_it(bide_op *op)
{
    bide_op *ops[] = {op};
    EQ(bide_submit(queue, ops, 1), 1);
}

static void ends_with(bide_op *op, int code)
{
    UNTIL(op->status != BIDE_PENDING || bide_cq_drain(op->cq, 0) < 0);
    EQ(op->status, code);
}

/* ---- jobs ---- */

static void a_job_goes_in_and_out(void)
{
    uint64_t id = put_it("a", "hello", NULL);
    EQ(state_now(id), BIDE_STATE_READY);
    bide_job job = take_it("a", 0);
    EQ(job.id, id);
    TEXT(job.body, job.body_size, "hello");
    TEXT(job.topic, strlen(job.topic), "a");
    EQ(job.ttr_ms, 60000);
    EQ(job.left_ms, 60000);
    EQ(job.priority, BIDE_DEFAULT_PRIORITY);
    EQ(job.reserves, 1);
    OK(bide_delete(queue, id, job.token));
    bide_job_clear(&job);
    EQ(state_now(id), BIDE_STATE_GONE);
    CODE(bide_delete(queue, id, 0), BIDE_NOT_FOUND);
}

static void bodies_of_any_bytes_come_back(void)
{
    static const char bytes[] = "a\r\nb\0c\r\n";
    uint64_t id = 0;
    OK(bide_put(queue, "a", bytes, sizeof bytes, NULL, &id));
    bide_job job = take_it("a", 0);
    EQ(job.body_size, sizeof bytes);
    CHECK(memcmp(job.body, bytes, sizeof bytes) == 0);
    bide_job_clear(&job);
    OK(bide_put(queue, "b", "", 0, NULL, &id));
    job = take_it("b", 0);
    EQ(job.body_size, 0);
    CHECK(job.body != NULL);
    bide_job_clear(&job);
}

static void a_body_that_is_too_big_is_refused_by_the_server(void)
{
    static const char body[65536];
    uint64_t id = 0;
    CODE(bide_put(queue, "a", body, sizeof body, NULL, NULL), BIDE_TOO_BIG);
    OK(bide_put(queue, "a", body, sizeof body - 1, NULL, &id));
    bide_job job = {0};
    OK(bide_job_stats(queue, id, &job));
    EQ(job.body_size, sizeof body - 1);
    CHECK(job.body == NULL);
    bide_job_clear(&job);
}

static void the_best_job_of_several_topics_comes_first(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    static const uint32_t priorities[] = {5, 2, 9, 2};
    uint64_t ids[COUNT(priorities)];
    for (size_t i = 0; i < COUNT(priorities); i++) {
        options.priority = priorities[i];
        ids[i] = put_it(i % 2 ? "a" : "b", "x", &options);
    }
    const bide_slice topics[] = {{"a", 1}, {"b", 1}};
    bide_job jobs[10] = {{0}};
    bide_reserve_args args = {.topics = topics, .topic_count = 2, .jobs = jobs, .job_max = 10};
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 4);
    static const size_t order[] = {1, 3, 0, 2};
    for (size_t i = 0; i < 4; i++) {
        EQ(jobs[i].id, ids[order[i]]);
        OK(bide_delete(queue, jobs[i].id, jobs[i].token));
        bide_job_clear(&jobs[i]);
    }
    args.strategy = BIDE_STRICT;
    CODE(bide_reserve_many(queue, &args), BIDE_ENOTSUP);
}

/* Two reserves in one submit: the further jobs of the first are asked for when the second has
 * changed what the connection watches. */
static void reserves_of_several_jobs_return_jobs_of_their_own_topics(void)
{
    static const bide_slice topics[] = {{"a", 1}, {"b", 1}};
    static bide_job jobs[2][4];
    bide_cq *cq = NULL;
    EQ(bide_cq_new(&cq), BIDE_OK);
    for (int i = 0; i < 3; i++) {
        put_it("a", "of a", NULL);
        put_it("b", "of b", NULL);
    }

    bide_op reserves[2], *ops[] = {&reserves[0], &reserves[1]};
    for (size_t i = 0; i < 2; i++) {
        reserves[i] = (bide_op){.kind = BIDE_OP_RESERVE, .cq = cq};
        reserves[i].reserve = (bide_reserve_args){
            .topics = &topics[i], .topic_count = 1, .jobs = jobs[i], .job_max = 4};
    }
    EQ(bide_submit(queue, ops, 2), 2);
    for (size_t i = 0; i < 2; i++) {
        ends_with(&reserves[i], BIDE_OK);
        EQ(reserves[i].reserve.count, 3);
        for (size_t k = 0; k < reserves[i].reserve.count; k++) {
            CHECK(strcmp(jobs[i][k].topic, i == 0 ? "a" : "b") == 0);
            bide_job_clear(&jobs[i][k]);
        }
    }
    EQ(bide_cq_free(cq), BIDE_OK);
}

static void a_reserve_takes_no_more_bytes_than_a_batch_may_have(void)
{
    enum { LARGE = 60000, FIT = BIDE_BATCH_BYTES / LARGE, ALL = FIT + 50 };
    static char body[LARGE];
    static bide_job jobs[BIDE_BATCH_JOBS];
    const bide_slice topic = {"large", 5};
    for (int i = 0; i < ALL; i++)
        OK(bide_put(queue, "large", body, sizeof(body), NULL, NULL));
    for (size_t left = ALL; left > 0;) {
        bide_reserve_args args = {
            .topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = COUNT(jobs)};
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, left < FIT ? left : FIT);
        left -= args.count;
        for (size_t i = 0; i < args.count; i++) {
            OK(bide_delete(queue, jobs[i].id, jobs[i].token));
            bide_job_clear(&jobs[i]);
        }
    }
}

static void a_delay_is_rounded_up_and_never_early(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int64_t start_us = clock_us();
    options.delay_ms = 300;
    uint64_t id = put_it("a", "x", &options);
    EQ(state_now(id), BIDE_STATE_DELAYED);
    bide_job job = take_it("a", PATIENCE_MS);
    NOT_BEFORE(start_us, 300);
    OK(bide_delete(queue, id, job.token));
    bide_job_clear(&job);
    start_us = clock_us();
    options.delay_ms = 0;
    options.run_at_ms = wall_ms() + 300;
    put_it("a", "x", &options);
    job = take_it("a", PATIENCE_MS);
    NOT_BEFORE(start_us, 299);
    bide_job_clear(&job);
}

static void put_many_answers_for_each_item(void)
{
    static const char big[65536];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = (bide_slice){"k", 1};
    bide_put_item items[] = {{.topic = topic_a, .body = {"1", 1}},
                             {.topic = {"b", 1}, .body = {"2", 1}},
                             {.topic = topic_a, .body = {big, sizeof big}},
                             {.topic = {" ", 1}, .body = {"4", 1}},
                             {.topic = topic_a, .body = {"5", 1}, .options = &options},
                             {.topic = topic_a, .body = {"6", 1}}};
    static const int want[] = {BIDE_OK, BIDE_OK, BIDE_TOO_BIG, BIDE_EINVAL, BIDE_ENOTSUP, BIDE_OK};
    size_t accepted = 0;
    EQ(bide_put_many(queue, items, COUNT(items), &accepted), BIDE_OK);
    CHECK(strstr(bide_last_error(), "item 3") != NULL);
    EQ(accepted, 3);
    for (size_t i = 0; i < COUNT(items); i++) {
        EQ(items[i].status, want[i]);
        CHECK((items[i].id > 0) == (want[i] == BIDE_OK));
    }
    CHECK(items[5].id > items[0].id);
}

/* ---- leases ---- */

static void ops_of_a_lease_are_rejected_for_other_clients(void)
{
    uint64_t id = put_it("a", "x", NULL);
    CODE(bide_release(queue, id, 0, BIDE_KEEP, 0), BIDE_LEASE_LOST);
    uint64_t token = hold("a");
    bide_job again = {0};
    CODE(bide_delete(queue, id, 0), BIDE_RESERVED);
    CODE(bide_delete(queue, id, token + 1), BIDE_LEASE_LOST);
    CODE(bide_touch(queue, id, 0, 0, NULL), BIDE_LEASE_LOST);
    CODE(bide_reserve_job(queue, id, &again), BIDE_RESERVED);
    CODE(bide_kick_job(queue, id), BIDE_RESERVED);
    bide *other = open_another("");
    CODE(bide_delete(other, id, token), BIDE_LEASE_LOST);
    CODE(bide_delete(other, id, 0), BIDE_RESERVED);
    OK(bide_close(other));
    OK(bide_touch(queue, id, token, 0, NULL));
    OK(bide_release(queue, id, token, 7, 0));
    CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    again = take_it("a", 0);
    EQ(again.priority, 7);
    EQ(again.releases, 1);
    CHECK(again.token != token);
    CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    OK(bide_give_back(queue, id, again.token));
    bide_job_clear(&again);
    again = take_it("a", 0);
    EQ(again.priority, 7);
    OK(bide_done(queue, id, again.token, NULL, 0, 0));
    EQ(state_now(id), BIDE_STATE_GONE);
    bide_job_clear(&again);
}

/* beanstalkd itself would let the late holder delete the job as long as it is ready. */
static void a_lease_that_ran_out_is_lost(void)
{
    uint64_t id = put_with_ttr("a", 1000);
    uint64_t token = hold("a");
    UNTIL(state_now(id) == BIDE_STATE_READY);
    UNTIL(bide_touch(queue, id, token, 0, NULL) == BIDE_LEASE_LOST);
    CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    EQ(state_now(id), BIDE_STATE_READY);
}

static void a_touch_keeps_a_lease(void)
{
    uint64_t id = put_with_ttr("a", 4000);
    uint64_t token = hold("a");
    for (int i = 0; i < 3; i++) {
        nap_ms(1500);
        OK(bide_touch(queue, id, token, 0, NULL));
    }
    OK(bide_delete(queue, id, token));
}

static void lists_of_leases_are_answered_one_by_one(void)
{
    uint64_t ids[3];
    bide_touch_item touches[4] = {{.id = 999999, .token = 5}};
    bide_finish_item items[4] = {{.id = 999999, .token = 5}};
    for (size_t i = 0; i < 3; i++) {
        ids[i] = put_it("a", "x", NULL);
        bide_job job = take_it("a", 0);
        touches[i + 1] = (bide_touch_item){.id = ids[i], .token = job.token};
        items[i + 1] = (bide_finish_item){.id = ids[i], .token = job.token};
        bide_job_clear(&job);
    }
    EQ(bide_touch_many(queue, touches, 4), BIDE_OK);
    EQ(touches[0].status, BIDE_LEASE_LOST);
    EQ(touches[3].status, BIDE_OK);
    EQ(touches[3].left_ms, 60000);
    EQ(bide_finish_many(queue, items, 4), BIDE_OK);
    EQ(items[0].status, BIDE_LEASE_LOST);
    for (size_t i = 0; i < 3; i++) {
        EQ(items[i + 1].status, BIDE_OK);
        EQ(state_now(ids[i]), BIDE_STATE_GONE);
    }
}

static void a_job_is_finished_and_the_next_one_taken(void)
{
    put_it("a", "1", NULL);
    uint64_t second = put_it("a", "2", NULL);
    bide_job job = take_it("a", 0), next = {0};
    bide_finish_item finish = {.id = job.id, .token = job.token};
    bide_reserve_args args = {.topics = &topic_a, .topic_count = 1, .jobs = &next, .job_max = 1};
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    EQ(next.id, second);
    EQ(state_now(job.id), BIDE_STATE_GONE);
    CODE(bide_finish_and_reserve(queue, &finish, &args), BIDE_TIMED_OUT);
    EQ(finish.status, BIDE_LEASE_LOST);
    bide_job_clear(&job);
    bide_job_clear(&next);
}

/* ---- waiting ---- */

static void a_reserve_waits_its_whole_time(void)
{
    bide_job job = {0};
    static const int64_t times_ms[] = {0, 40, 1000, 1300};
    for (size_t i = 0; i < COUNT(times_ms); i++) {
        int64_t start_us = clock_us();
        CODE(bide_reserve(queue, "a", times_ms[i], &job), BIDE_TIMED_OUT);
        NOT_BEFORE(start_us, times_ms[i]);
        EQ(job.id, 0);
    }
}

enum { WAITERS = 20 };

static void waiting_reserves_do_not_block_other_calls(void)
{
    bide_cq *cq = NULL;
    bide_job jobs[WAITERS] = {{0}};
    bide_op ops[WAITERS];
    bide_stats stats = {0};
    EQ(bide_cq_new(&cq), BIDE_OK);
    for (size_t i = 0; i < WAITERS; i++) {
        ops[i] = (bide_op){.kind = BIDE_OP_RESERVE, .cq = cq};
        ops[i].reserve = (bide_reserve_args){.topics = &topic_a,
                                             .topic_count = 1,
                                             .timeout_ms = BIDE_FOREVER,
                                             .jobs = &jobs[i],
                                             .job_max = 1};
        submit_it(&ops[i]);
    }
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == WAITERS);
    for (size_t i = 0; i < WAITERS; i++)
        put_it("a", "x", NULL);
    for (size_t i = 0; i < WAITERS; i++)
        ends_with(&ops[i], BIDE_OK);
    for (size_t i = 0; i < WAITERS; i++) {
        for (size_t j = 0; j < i; j++)
            CHECK(jobs[i].id != jobs[j].id && jobs[i].token != jobs[j].token);
        OK(bide_delete(queue, jobs[i].id, jobs[i].token));
        bide_job_clear(&jobs[i]);
    }
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.reserved, 0);
    EQ(bide_cq_free(cq), BIDE_OK);
}

static void what_waits_can_be_cancelled_and_is_closed_by_a_shutdown(void)
{
    bide_cq *cq = NULL;
    bide_job jobs[2] = {{0}};
    bide_op ops[2];
    bide_stats stats = {0};
    EQ(bide_cq_new(&cq), BIDE_OK);
    for (size_t i = 0; i < 2; i++) {
        ops[i] = (bide_op){.kind = BIDE_OP_RESERVE, .cq = cq};
        ops[i].reserve = (bide_reserve_args){.topics = &topic_a,
                                             .topic_count = 1,
                                             .timeout_ms = BIDE_FOREVER,
                                             .jobs = &jobs[i],
                                             .job_max = 1};
        submit_it(&ops[i]);
    }
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == 2);
    EQ(bide_cancel_op(queue, &ops[0]), BIDE_OK);
    ends_with(&ops[0], BIDE_CANCELLED);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == 1);
    OK(bide_shutdown(queue));
    ends_with(&ops[1], BIDE_CLOSED);
    bide_job job = {0};
    CODE(bide_reserve(queue, "a", 0, &job), BIDE_CLOSED);
    uint64_t id = put_it("a", "x", NULL);
    OK(bide_delete(queue, id, 0));
    EQ(bide_cq_free(cq), BIDE_OK);
}

/* ---- from outside ---- */

static void jobs_are_buried_and_kicked(void)
{
    uint64_t first = put_it("a", "1", NULL), second = put_it("a", "2", NULL);
    for (int i = 0; i < 2; i++) {
        bide_job job = take_it("a", 0);
        OK(bide_bury(queue, job.id, job.token, 5, NULL));
        bide_job_clear(&job);
    }
    EQ(state_now(first), BIDE_STATE_BURIED);
    uint64_t count = 0;
    OK(bide_kick(queue, "a", 1, &count));
    EQ(count, 1);
    EQ(state_now(first), BIDE_STATE_READY);
    OK(bide_kick_job(queue, second));
    CODE(bide_kick_job(queue, second), BIDE_WRONG_STATE);
    CODE(bide_kick_job(queue, 999999), BIDE_NOT_FOUND);
    CODE(bide_kick_buried(queue, "a", 1, &count), BIDE_ENOTSUP);
    OK(bide_kick(queue, "nobody", UINT64_MAX, &count));
    EQ(count, 0);
    bide_job job = {0};
    OK(bide_reserve_job(queue, second, &job));
    EQ(job.priority, 5);
    TEXT(job.body, job.body_size, "2");
    OK(bide_release(queue, second, job.token, 1, 3600000));
    bide_job_clear(&job);
    EQ(state_now(second), BIDE_STATE_DELAYED);
    CODE(bide_reserve_job(queue, 999999, &job), BIDE_NOT_FOUND);
}

static void a_paused_topic_is_not_served(void)
{
    bide_topic_stats stats = {0};
    bide_job job = {0};
    put_it("a", "x", NULL);
    OK(bide_pause(queue, "a", BIDE_FOREVER));
    CODE(bide_reserve(queue, "a", 0, &job), BIDE_TIMED_OUT);
    OK(bide_topic_get_stats(queue, "a", &stats));
    CHECK(stats.paused);
    OK(bide_resume(queue, "a"));
    job = take_it("a", PATIENCE_MS);
    bide_job_clear(&job);
    CODE(bide_resume(queue, "nobody"), BIDE_NOT_FOUND);
}

/* ---- looking ---- */

static void jobs_are_looked_at(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = 3600000;
    options.ttr_ms = 1500;
    uint64_t delayed = put_it("a", "later", &options), ready = put_it("a", "now", NULL);
    bide_job job = {0};
    bide_buf *body = NULL;
    OK(bide_peek(queue, delayed, &job));
    TEXT(job.body, job.body_size, "later");
    EQ(job.state, BIDE_STATE_DELAYED);
    EQ(job.ttr_ms, 2000);
    EQ(job.token, 0);
    BETWEEN(job.left_ms, 3600000 - PATIENCE_MS, 3600000);
    BETWEEN(job.run_at_ms, wall_ms() + 3600000 - 2 * PATIENCE_MS, wall_ms() + 3600000);
    bide_job_clear(&job);
    OK(bide_peek_first(queue, "a", BIDE_STATE_READY, &job));
    EQ(job.id, ready);
    bide_job_clear(&job);
    OK(bide_peek_first(queue, "a", BIDE_STATE_DELAYED, &job));
    EQ(job.id, delayed);
    bide_job_clear(&job);
    CODE(bide_peek_first(queue, "a", BIDE_STATE_BURIED, &job), BIDE_NOT_FOUND);
    CODE(bide_peek_first(queue, "a", BIDE_STATE_RESERVED, &job), BIDE_ENOTSUP);
    CODE(bide_peek(queue, 999999, &job), BIDE_NOT_FOUND);
    OK(bide_body(queue, ready, &body));
    TEXT(bide_buf_data(body), bide_buf_size(body), "now");
    bide_buf_unref(body);
    CODE(bide_body(queue, 999999, &body), BIDE_NOT_FOUND);
    OK(bide_ping(queue));
    bide_recovery progress = {0};
    OK(bide_wait_recovered(queue, BIDE_FOREVER, &progress));
    EQ(progress.phase, BIDE_PHASE_RECOVERED);
}

static void figures_are_told(void)
{
    bide_stats stats = {0};
    bide_topic_stats topic = {0};
    put_it("a", "x", NULL);
    put_it("a", "x", NULL);
    bide_job job = take_it("a", 0);
    bide_job_clear(&job);
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, 1);
    EQ(stats.jobs.reserved, 1);
    EQ(stats.total.puts, 2);
    CHECK(!stats.draining);
    OK(bide_topic_get_stats(queue, "a", &topic));
    TEXT(topic.name, strlen(topic.name), "a");
    EQ(topic.jobs.ready, 1);
    EQ(topic.total.puts, 2);
    CODE(bide_topic_get_stats(queue, "nobody", &topic), BIDE_NOT_FOUND);
}

enum { TOPICS = 25 };

static void every_topic_is_on_one_page(void)
{
    char name[32], cursor[BIDE_CURSOR_SIZE] = "";
    int seen[TOPICS] = {0};
    bide_topic_stats topics[7];
    for (int i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "topic-%d", i);
        put_it(name, "x", NULL);
    }
    int pages = 0;
    do {
        size_t count = 0;
        OK(bide_topics(queue, cursor, topics, COUNT(topics), &count));
        for (size_t i = 0; i < count; i++) {
            int number = -1;
            if (sscanf(topics[i].name, "topic-%d", &number) == 1)
                seen[number]++;
            EQ(topics[i].jobs.ready, number >= 0);
        }
        CHECK(++pages < 20);
    } while (cursor[0] != '\0');
    for (int i = 0; i < TOPICS; i++)
        EQ(seen[i], 1);
    size_t count = 9;
    OK(bide_waiting(queue, cursor, topics, COUNT(topics), &count));
    EQ(count, 0);
}

/* ---- what it does not know ---- */

#define CANNOT(call)                                          \
    do {                                                      \
        CODE(call, BIDE_ENOTSUP);                             \
        CHECK(strstr(bide_last_error(), "plain beanstalkd")); \
    } while (0)

static void options_that_it_does_not_know_are_refused(void)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    bide_put_options options[6];
    for (size_t i = 0; i < COUNT(options); i++)
        options[i] = init;
    options[0].key = (bide_slice){"k", 1};
    options[1].max_retries = 3;
    options[2].backoff_base_ms = 1;
    options[3].expires_at_ms = wall_ms() + 1000;
    options[4].retain_ms = 1;
    options[5].backoff_max_ms = 1;
    for (size_t i = 0; i < COUNT(options); i++)
        CANNOT(bide_put(queue, "a", "x", 1, &options[i], NULL));
    bide_put_options none = init;
    none.max_retries = BIDE_NO_DEFAULT;
    none.ttr_ms = none.retain_ms = BIDE_NO_DEFAULT;
    uint64_t id = put_it("a", "x", &none);
    uint64_t token = hold("a");
    CANNOT(bide_done(queue, id, token, "r", 1, 1000));
    CANNOT(bide_bury(queue, id, token, BIDE_KEEP, "why"));
    CANNOT(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    CANNOT(bide_touch(queue, id, token, 5000, NULL));
    CANNOT(bide_touch(queue, id, token, 0, "half"));
    EQ(state_now(id), BIDE_STATE_RESERVED);
    OK(bide_delete(queue, id, token));
}

static void ops_that_it_does_not_know_are_refused(void)
{
    bide_job job = {0};
    bide_buf *buf = NULL;
    bide_subscription *feed = NULL;
    bide_check_report report;
    bide_update_args changes = BIDE_UPDATE_INIT;
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    uint64_t id = put_it("a", "x", NULL);
    changes.id = id;
    changes.priority = 1;
    CANNOT(bide_fail(queue, id, 0, "text", 0, NULL, NULL));
    bide_put_item item = {.topic = {"a", 1}, .body = {"y", 1}};
    bide_finish_and_put_args step = {.finish.id = id, .items = &item, .count = 1};
    CANNOT(bide_finish_and_put(queue, &step));
    bide_announced worker = {0};
    bide_explanation why;
    const bide_worker_info info = {.name = {"w", 1}};
    CANNOT(bide_announce(queue, &info, 1000));
    CANNOT(bide_workers(queue, cursor, &worker, 1, &count));
    CANNOT(bide_why(queue, id, &why));
    CANNOT(bide_update(queue, &changes));
    CANNOT(bide_cancel(queue, id));
    CANNOT(bide_find(queue, "a", "k", 1, &job));
    CANNOT(bide_result(queue, id, &buf));
    CANNOT(bide_wait(queue, id, 0, NULL, NULL));
    CANNOT(bide_list(queue, "a", BIDE_STATE_ANY, NULL, cursor, &job, 1, &count));
    CANNOT(bide_purge(queue, "a", BIDE_STATE_READY, NULL));
    CANNOT(bide_topic_ref(queue, "a", 1));
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    CANNOT(bide_topic_set(queue, "a", &policy));
    CANNOT(bide_topic_get(queue, "a", &policy, NULL));
    CANNOT(bide_subscribe(queue, NULL, 0, 0, &feed));
    CANNOT(bide_drain(queue, true));
    CANNOT(bide_backup(queue, "/nowhere/a.db"));
    CANNOT(bide_check(queue, &report));
    OK(bide_peek(queue, id, &job));
    CANNOT(bide_restore(queue, &job, NULL));
    bide_job_clear(&job);
    EQ(state_now(id), BIDE_STATE_READY);
}

/* ---- the end of the server ---- */

static void without_the_server_calls_fail_and_say_so(void)
{
    bide *impatient = open_another("connect_timeout=1s");
    OK(bide_ping(impatient));
    CHECK(server_stop(&server));
    server.pid = 0;
    int code = bide_put(impatient, "a", "x", 1, NULL, NULL);
    CHECK(code == BIDE_EIO || code == BIDE_EUNKNOWN);
    CODE(bide_ping(impatient), BIDE_EIO);
    CHECK(strstr(bide_last_error(), server.folder) != NULL);
    bide_job job = {0};
    int64_t start_us = clock_us();
    CODE(bide_reserve(impatient, "a", 200, &job), BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 200);
    OK(bide_close(impatient));
}

static const struct test tests[] = {
    TEST(a_job_goes_in_and_out),
    TEST(bodies_of_any_bytes_come_back),
    TEST(a_body_that_is_too_big_is_refused_by_the_server),
    TEST(the_best_job_of_several_topics_comes_first),
    TEST(reserves_of_several_jobs_return_jobs_of_their_own_topics),
    TEST(a_reserve_takes_no_more_bytes_than_a_batch_may_have),
    TEST(a_delay_is_rounded_up_and_never_early),
    TEST(put_many_answers_for_each_item),
    TEST(ops_of_a_lease_are_rejected_for_other_clients),
    TEST(a_lease_that_ran_out_is_lost),
    TEST(a_touch_keeps_a_lease),
    TEST(lists_of_leases_are_answered_one_by_one),
    TEST(a_job_is_finished_and_the_next_one_taken),
    TEST(a_reserve_waits_its_whole_time),
    TEST(waiting_reserves_do_not_block_other_calls),
    TEST(what_waits_can_be_cancelled_and_is_closed_by_a_shutdown),
    TEST(jobs_are_buried_and_kicked),
    TEST(a_paused_topic_is_not_served),
    TEST(jobs_are_looked_at),
    TEST(figures_are_told),
    TEST(every_topic_is_on_one_page),
    TEST(options_that_it_does_not_know_are_refused),
    TEST(ops_that_it_does_not_know_are_refused),
    TEST(without_the_server_calls_fail_and_say_so),
};

static void run_here(const struct isolated_test *isolated, struct trace *trace)
{
    checks_begin(isolated->url, isolated->theme, isolated->test, trace);
    CHECK(server_start(&server, command, "", "", false));
    queue = open_another("");
    isolated->body();
    OK(bide_close(queue));
    /* A test may have stopped it. */
    if (server.pid > 0)
        CHECK(server_stop(&server));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned passed = 0;
    const char *filter = argc > 2 && strcmp(argv[1], "--filter") == 0 ? argv[2] : "";
    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trace == MAP_FAILED || (argc > 1 && filter[0] == '\0')) {
        fputs("usage: plain [--filter TEXT]\n", stderr);
        return 2;
    }
    unsigned count = 0;
    for (size_t i = 0; i < COUNT(tests); i++) {
        struct isolated_test isolated = {"beanstalkd", "plain", tests[i].name, run_here,
                                         tests[i].run};
        if (!strstr(tests[i].name, filter))
            continue;
        count++;
        passed += run_isolated(&isolated, trace, 60);
    }
    printf("%u passed, %u failed\n", passed, count - passed);
    return passed == count && count > 0 ? 0 : 1;
}
