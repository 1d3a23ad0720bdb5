/* SPDX-License-Identifier: MIT */
/* thread_cancel.c - pthread_cancel() of threads that are inside a call of the library. */
#include "contract.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* The thread sanitizer does not see a thread leave its sem_wait() by being cancelled: it then
 * ignores every lock that the thread takes, and reports races that are none. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CANNOT_CANCEL_WAITS
#endif
#elif defined(__SANITIZE_THREAD__)
#define CANNOT_CANCEL_WAITS
#endif

#define ROUNDS  60
#define THREADS 4

/* What the threads of one test share with the thread that cancels them. */
struct plan {
    bide *queue;
    bide_cq *cq;
    const char *topic;
    uint64_t id;
    uint64_t token;
    atomic_int put_count;
    atomic_int finished_count;
    atomic_int in_callback;
    atomic_bool is_over;
};

static void nap_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Cancels the thread. True if that ended it, false if it had returned before. */
static bool cancel_thread(pthread_t thread)
{
    void *result = NULL;
    pthread_cancel(thread);
    CHECK(pthread_join(thread, &result) == 0);
    return result == PTHREAD_CANCELED;
}

/* Starts threads, lets them run for moments that differ, and cancels them. */
static void cancel_at_random(struct plan *plan, void *(*run)(void *), int rounds)
{
    unsigned seed = 1;
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(run, plan);
        nap_us(rand_r(&seed) % 2000);
        for (int i = 0; i < THREADS; i++)
            CHECK(cancel_thread(threads[i]));
    }
}

/* The queue is as good as before: a job passes through it, and no call waits in it any more. */
static void check_works(bide *queue)
{
    const char *topic = fresh_topic("works");
    uint64_t id = put(queue, topic, "body");
    const bide_job *job = await(queue, topic);
    EQ(job->id, id);
    OK(bide_delete(queue, id, job->token));
    UNTIL(stats_of(queue).waiting + stats_of(queue).watching == 0);
}

/* ---- calls that store ---- */

static void *put_for_ever(void *arg)
{
    struct plan *plan = arg;
    for (;;) {
        OK(bide_put(plan->queue, plan->topic, "x", 1, NULL, NULL));
        atomic_fetch_add(&plan->put_count, 1);
        pthread_testcancel();
    }
    return NULL;
}

static void put_is_no_cancellation_point(void)
{
    struct plan plan = {.queue = open_queue(""), .topic = fresh_topic("a")};
    cancel_at_random(&plan, put_for_ever, ROUNDS);
    EQ(topic_of(plan.queue, plan.topic).jobs.ready, atomic_load(&plan.put_count));
    check_works(plan.queue);
}

static void *cycle_for_ever(void *arg)
{
    struct plan *plan = arg;
    bide_slice topic = slice(plan->topic);
    for (int i = 0;; i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        bide_job job = {0};
        options.max_retries = i % 2 == 0 ? 3 : BIDE_FOREVER;
        OK(bide_put(plan->queue, plan->topic, "x", 1, &options, NULL));
        bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
        int code = bide_reserve_many(plan->queue, &args);
        if (code == BIDE_OK) {
            if (i % 3 == 0)
                OK(bide_release(plan->queue, job.id, job.token, BIDE_KEEP, 0));
            else if (i % 3 == 1)
                OK(bide_bury(plan->queue, job.id, job.token, BIDE_KEEP, NULL));
            else
                OK(bide_done(plan->queue, job.id, job.token, "r", 1, 1));
            bide_job_clear(&job);
        }
        OK(bide_kick(plan->queue, plan->topic, 1, NULL));
        pthread_testcancel();
    }
    return NULL;
}

static void no_call_that_returns_at_once_is_a_cancellation_point(void)
{
    struct plan plan = {.queue = open_queue(""), .topic = fresh_topic("a")};
    cancel_at_random(&plan, cycle_for_ever, ROUNDS / 2);
    EQ(topic_of(plan.queue, plan.topic).jobs.reserved, 0);
    check_works(plan.queue);
}

static void *open_for_ever(void *arg)
{
    const char *url = arg;
    for (;;) {
        bide *queue = NULL;
        OK(bide_open(url, NULL, &queue));
        OK(bide_ping(queue));
        OK(bide_close(queue));
        pthread_testcancel();
    }
    return NULL;
}

static void open_and_close_are_no_cancellation_points(void)
{
    char url[1024];
    unsigned seed = 1;
    trial_url(url, sizeof url, "");
    for (int round = 0; round < ROUNDS / 4; round++) {
        pthread_t thread = start_thread(open_for_ever, url);
        nap_us(rand_r(&seed) % 4000);
        CHECK(cancel_thread(thread));
    }
    bide *queue = NULL;
    OK(bide_open(url, NULL, &queue));
    check_works(queue);
    OK(bide_close(queue));
}

/* ---- calls that wait ---- */

#ifndef CANNOT_CANCEL_WAITS

static void *reserve_for_ever(void *arg)
{
    struct plan *plan = arg;
    for (;;) {
        bide_job job = {0};
        OK(bide_reserve(plan->queue, plan->topic, BIDE_FOREVER, &job));
        OK(bide_delete(plan->queue, job.id, job.token));
        atomic_fetch_add(&plan->finished_count, 1);
        bide_job_clear(&job);
    }
    return NULL;
}

static void cancelled_reserve_keeps_no_job(void)
{
    struct plan plan = {.queue = open_queue(""), .topic = fresh_topic("a")};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    unsigned seed = 2;
    int put_count = 0;
    options.max_retries = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(reserve_for_ever, &plan);
        for (int i = 0; i < THREADS; i++) {
            nap_us(rand_r(&seed) % 400);
            pthread_cancel(threads[i]);
            put_as(plan.queue, plan.topic, "x", put_count++ % 2 == 0 ? &options : NULL);
        }
        for (int i = 0; i < THREADS; i++)
            CHECK(cancel_thread(threads[i]));
        EQ(stats_of(plan.queue).waiting, 0);
    }
    bide_topic_stats stats = topic_of(plan.queue, plan.topic);
    EQ(stats.jobs.reserved, 0);
    EQ(stats.jobs.buried, 0);
    EQ(stats.jobs.ready, put_count - atomic_load(&plan.finished_count));
    check_works(plan.queue);
}

static void *wait_in_reserve_many(void *arg)
{
    struct plan *plan = arg;
    bide_job jobs[3] = {0};
    bide_slice topic = slice(plan->topic);
    bide_reserve_args args = reserve_args(&topic, 1, BIDE_FOREVER, jobs, COUNT(jobs));
    bide_reserve_many(plan->queue, &args);
    return NULL;
}

static void *wait_in_finish_and_reserve(void *arg)
{
    struct plan *plan = arg;
    bide_job job = {0};
    bide_slice topic = slice(plan->topic);
    bide_reserve_args args = reserve_args(&topic, 1, BIDE_FOREVER, &job, 1);
    bide_finish_item finish = {.id = plan->id, .token = plan->token};
    bide_finish_and_reserve(plan->queue, &finish, &args);
    return NULL;
}

static void *wait_in_wait(void *arg)
{
    struct plan *plan = arg;
    bide_buf *result = NULL;
    bide_wait(plan->queue, plan->id, BIDE_FOREVER, NULL, &result);
    return NULL;
}

static void *wait_in_events(void *arg)
{
    struct plan *plan = arg;
    bide_subscription *feed = NULL;
    bide_event event = {0};
    size_t count = 0;
    OK(bide_subscribe(plan->queue, NULL, 1U << BIDE_EVENT_EXPIRED, 0, &feed));
    bide_events(plan->queue, feed, BIDE_FOREVER, &event, 1, &count, NULL);
    return NULL;
}

static void *(*const waits[])(void *) = {
    wait_in_reserve_many,
    wait_in_finish_and_reserve,
    wait_in_wait,
    wait_in_events,
};

static void every_call_that_waits_can_be_cancelled(void)
{
    struct plan plan = {.queue = open_queue(""), .topic = fresh_topic("a")};
    const char *other = fresh_topic("b");
    for (size_t i = 0; i < COUNT(waits); i++) {
        plan.id = put(plan.queue, other, "x");
        plan.token = take_job(plan.queue, plan.id)->token;
        pthread_t thread = start_thread(waits[i], &plan);
        UNTIL(stats_of(plan.queue).waiting + stats_of(plan.queue).watching == 1);
        CHECK(cancel_thread(thread));
        EQ(stats_of(plan.queue).waiting + stats_of(plan.queue).watching, 0);
        bool is_finished = waits[i] == wait_in_finish_and_reserve;
        EQ(state_of(plan.queue, plan.id), is_finished ? BIDE_STATE_GONE : BIDE_STATE_RESERVED);
        if (!is_finished)
            OK(bide_delete(plan.queue, plan.id, plan.token));
        check_works(plan.queue);
    }
}

static void *wait_somehow(void *arg)
{
    static atomic_uint next;
    return waits[atomic_fetch_add(&next, 1) % COUNT(waits)](arg);
}

static void threads_can_be_cancelled_while_the_queue_is_closed(void)
{
    unsigned seed = 3;
    for (int round = 0; round < ROUNDS / 3; round++) {
        struct plan plan = {.queue = open_queue(""), .topic = fresh_topic("a")};
        pthread_t threads[THREADS];
        plan.id = put_later(plan.queue, plan.topic, 3600000);
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(wait_somehow, &plan);
        UNTIL(stats_of(plan.queue).waiting + stats_of(plan.queue).watching >= THREADS - 1);
        for (int i = 0; i < THREADS; i++) {
            pthread_cancel(threads[i]);
            nap_us(rand_r(&seed) % 50);
        }
        close_queue(plan.queue);
        for (int i = 0; i < THREADS; i++)
            cancel_thread(threads[i]);
    }
}

/* ---- completion queues ---- */

static bool readable(const bide_cq *cq)
{
    struct pollfd poll_for = {.fd = bide_cq_fd(cq), .events = POLLIN};
    return poll(&poll_for, 1, PATIENCE_MS) == 1;
}

static void *wait_in_cq(void *arg)
{
    struct plan *plan = arg;
    for (;;)
        bide_cq_wait(plan->cq, BIDE_FOREVER);
    return NULL;
}

static void cancelled_wait_for_completions_leaves_them(void)
{
    struct plan plan = {.queue = open_queue(""), .cq = new_cq(), .topic = fresh_topic("a")};
    bide_slice topic = slice(plan.topic);
    unsigned seed = 4;
    for (int round = 0; round < ROUNDS; round++) {
        struct waiter *waiter = begin_reserve(plan.queue, plan.cq, &topic, 1);
        pthread_t thread = start_thread(wait_in_cq, &plan);
        nap_us(rand_r(&seed) % 300);
        if (round % 2 == 0)
            put(plan.queue, plan.topic, "x");
        CHECK(cancel_thread(thread));
        if (round % 2 != 0)
            put(plan.queue, plan.topic, "x");
        if (waiter->calls == 0)
            CHECK(readable(plan.cq));
        completes(waiter, BIDE_OK);
        EQ(waiter->calls, 1);
        OK(bide_delete(plan.queue, waiter->job.id, waiter->job.token));
        bide_job_clear(&waiter->job);
    }
    check_works(plan.queue);
}

static void sleep_in_callback(bide_op *op)
{
    struct plan *plan = op->user;
    atomic_fetch_add(&plan->in_callback, 1);
    for (int i = 0; i < 3000 && !atomic_load(&plan->is_over); i++)
        nap_us(1000); /* a cancellation point elsewhere */
    atomic_fetch_add(&plan->finished_count, 1);
}

static void callbacks_run_with_cancellation_disabled(void)
{
    struct plan plan = {.queue = open_queue(""), .cq = new_cq(), .topic = fresh_topic("a")};
    bide_op ops[2] = {0};
    bide_op *list[2] = {&ops[0], &ops[1]};
    for (size_t i = 0; i < COUNT(ops); i++) {
        ops[i].kind = BIDE_OP_WAIT;
        ops[i].cq = plan.cq;
        ops[i].done = sleep_in_callback;
        ops[i].user = &plan;
        ops[i].wait.id = put(plan.queue, plan.topic, "x");
        ops[i].wait.timeout_ms = BIDE_FOREVER;
    }
    EQ(bide_submit(plan.queue, list, COUNT(list)), COUNT(list));
    uint64_t count = 0;
    OK(bide_purge(plan.queue, plan.topic, BIDE_STATE_READY, &count));
    EQ(count, COUNT(ops));
    pthread_t thread = start_thread(wait_in_cq, &plan);
    UNTIL(atomic_load(&plan.in_callback) == 1);
    pthread_cancel(thread);
    atomic_store(&plan.is_over, true);
    CHECK(cancel_thread(thread));
    UNTIL(bide_cq_drain(plan.cq, 0) >= 0 && atomic_load(&plan.finished_count) == COUNT(ops));
    check_works(plan.queue);
}

#endif

static const struct test tests[] = {
    TEST(put_is_no_cancellation_point),
    TEST(no_call_that_returns_at_once_is_a_cancellation_point),
    TEST(open_and_close_are_no_cancellation_points),
#ifndef CANNOT_CANCEL_WAITS
    TEST(cancelled_reserve_keeps_no_job),
    TEST(every_call_that_waits_can_be_cancelled),
    TEST(threads_can_be_cancelled_while_the_queue_is_closed),
    TEST(cancelled_wait_for_completions_leaves_them),
    TEST(callbacks_run_with_cancellation_disabled),
#endif
};

const struct theme thread_cancel_theme = {"thread_cancel", tests, COUNT(tests)};
