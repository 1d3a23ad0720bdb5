/* SPDX-License-Identifier: MIT */
/* cold_concurrent.c - many threads, cancels and closes while bodies are read. */
#include "cold.h"

#include <string.h>

enum { WORKERS = 4, PRODUCERS = 2, EACH = 300, ALL = PRODUCERS * EACH };

/* ---- workers ---- */

static struct works {
    bide *queue;
    const char *topic;
    unsigned char taken[ALL];
    unsigned count;
    bool over;
} works;

static void *produce(void *arg)
{
    size_t first = (size_t)(uintptr_t)arg * EACH;
    for (size_t i = 0; i < EACH; i++)
        put_number(works.queue, works.topic, first + i, NULL);
    return NULL;
}

static void *consume(void *arg)
{
    (void)arg;
    bide_slice topic = slice(works.topic);
    for (int i = 0; i < 100 * ALL; i++) {
        bide_job jobs[3];
        bide_reserve_args args = reserve_args(&topic, 1, 20, jobs, COUNT(jobs));
        int code = bide_reserve_many(works.queue, &args);
        if (__atomic_load_n(&works.count, __ATOMIC_ACQUIRE) == ALL)
            return NULL;
        if (code == BIDE_TIMED_OUT)
            continue;
        OK(code);
        for (size_t j = 0; j < args.count; j++) {
            size_t number = NUMBER_OF(jobs[j].body, jobs[j].body_size);
            CHECK(number < ALL);
            if (jobs[j].releases == 0 && number % 3 == 0) {
                OK(bide_release(works.queue, jobs[j].id, jobs[j].token, BIDE_KEEP, 0));
                continue;
            }
            EQ(__atomic_fetch_add(&works.taken[number], 1, __ATOMIC_RELAXED), 0);
            OK(bide_delete(works.queue, jobs[j].id, jobs[j].token));
            __atomic_fetch_add(&works.count, 1, __ATOMIC_RELEASE);
        }
        clear_jobs(jobs, args.count);
    }
    FAIL("a consumer that nothing ends");
}

/* Whoever looks sees a whole body, or none. */
static void *look_on(void *arg)
{
    uint64_t first = *(const uint64_t *)arg;
    for (int i = 0; i < 1000000 && !__atomic_load_n(&works.over, __ATOMIC_ACQUIRE); i++) {
        bide_job job = {0};
        bide_job jobs[5];
        char cursor[BIDE_CURSOR_SIZE] = "";
        size_t count = 0;
        int code = bide_peek(works.queue, first + (uint64_t)i % ALL, &job);
        CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
        if (code == BIDE_OK)
            NUMBER_OF(job.body, job.body_size);
        bide_job_clear(&job);
        code = bide_peek_first(works.queue, works.topic, BIDE_STATE_READY, &job);
        CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
        if (code == BIDE_OK)
            NUMBER_OF(job.body, job.body_size);
        bide_job_clear(&job);
        OK(bide_list(works.queue, works.topic, BIDE_STATE_ANY, NULL, cursor, jobs, 5, &count));
        for (size_t j = 0; j < count; j++)
            NUMBER_OF(jobs[j].body, jobs[j].body_size);
        clear_jobs(jobs, count);
    }
    return NULL;
}

static void threads_get_the_right_bodies_and_each_job_once(void)
{
    pthread_t producers[PRODUCERS], consumers[WORKERS], looker;
    works.queue = open_queue(COLD);
    works.topic = fresh_topic("a");
    uint64_t first = put(works.queue, fresh_topic("first"), "body") + 1;
    looker = start_thread(look_on, &first);
    for (size_t i = 0; i < PRODUCERS; i++)
        producers[i] = start_thread(produce, (void *)(uintptr_t)i);
    for (size_t i = 0; i < WORKERS; i++)
        consumers[i] = start_thread(consume, NULL);
    for (size_t i = 0; i < PRODUCERS; i++)
        join_thread(producers[i]);
    for (size_t i = 0; i < WORKERS; i++)
        join_thread(consumers[i]);
    __atomic_store_n(&works.over, true, __ATOMIC_RELEASE);
    join_thread(looker);
    EQ(works.count, ALL);
    for (size_t i = 0; i < ALL; i++)
        EQ(works.taken[i], 1);
    CHECK(!topic_exists(works.queue, works.topic));
}

/* ---- what is always there ---- */

static void *look_for_what_is_there(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000000 && !__atomic_load_n(&works.over, __ATOMIC_ACQUIRE); i++) {
        bide_job job = {0};
        OK(bide_find(works.queue, works.topic, "key", 3, &job));
        NUMBER_OF(job.body, job.body_size);
        bide_job_clear(&job);
        OK(bide_peek_first(works.queue, works.topic, BIDE_STATE_READY, &job));
        NUMBER_OF(job.body, job.body_size);
        bide_job_clear(&job);
    }
    return NULL;
}

/* The job is replaced in one step: there is one at any time, even while its body is read. */
static void query_always_finds_a_job_that_is_being_replaced(void)
{
    pthread_t lookers[2];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    works.queue = open_queue(COLD);
    works.topic = fresh_topic("a");
    options.key = slice("key");
    options.conflict = BIDE_REPLACE;
    put_number(works.queue, works.topic, 0, &options);
    for (size_t i = 0; i < COUNT(lookers); i++)
        lookers[i] = start_thread(look_for_what_is_there, NULL);
    for (size_t i = 1; i < 500; i++)
        put_number(works.queue, works.topic, i, &options);
    __atomic_store_n(&works.over, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < COUNT(lookers); i++)
        join_thread(lookers[i]);
    EQ(topic_of(works.queue, works.topic).jobs.ready, 1);
}

/* ---- ops that are given up, and the end ---- */

enum { OPS = 30 };

static void submit_looks_and_reserves(bide *queue, bide_cq *cq, const bide_slice *topic,
                                      struct waiter **waiters)
{
    bide_op *ops[OPS];
    for (size_t i = 0; i < OPS; i++) {
        waiters[i] = new_op(i % 2 ? BIDE_OP_PEEK : BIDE_OP_RESERVE, cq);
        if (i % 2)
            waiters[i]->op.query = (bide_query_args){.id = cold_ids[i], .job = &waiters[i]->job};
        else
            waiters[i]->op.reserve = reserve_args(topic, 1, BIDE_FOREVER, &waiters[i]->job, 1);
        ops[i] = &waiters[i]->op;
    }
    CHECK(bide_submit(queue, ops, OPS) >= 0);
}

/* Each is answered once, with the right body or as given up with nothing. */
static size_t judge(bide_cq *cq, struct waiter **waiters, int given_up)
{
    size_t taken = 0;
    for (size_t i = 0; i < OPS; i++) {
        UNTIL(waiters[i]->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
        int code = waiters[i]->op.status;
        CHECK(code == BIDE_OK || code == given_up);
        CHECK(waiters[i]->calls <= 1);
        if (code == BIDE_OK)
            NUMBER_OF(waiters[i]->job.body, waiters[i]->job.body_size);
        else
            CHECK(waiters[i]->job.body == NULL && waiters[i]->job.id == 0);
        taken += code == BIDE_OK && i % 2 == 0;
    }
    return taken;
}

static void op_that_reads_a_body_can_be_cancelled(void)
{
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_cq *cq = new_cq();
    bide *queue = open_cold(a);
    struct waiter *waiters[OPS];
    for (int round = 0; round < 5; round++) {
        submit_looks_and_reserves(queue, cq, &topic, waiters);
        for (size_t i = 0; i < OPS; i++)
            if (waiters[i]->op.status == BIDE_PENDING)
                EQ(bide_cancel_op(queue, &waiters[i]->op), BIDE_OK);
        size_t taken = judge(cq, waiters, BIDE_CANCELLED);
        /* A job that no call returned is ready again, as if it had not been reserved. */
        EQ(topic_of(queue, a).jobs.reserved, taken);
        EQ(topic_of(queue, a).jobs.ready, COLD_JOBS - taken);
        for (size_t i = 0; i < OPS; i += 2)
            if (waiters[i]->op.status == BIDE_OK)
                OK(bide_give_back(queue, waiters[i]->job.id, waiters[i]->job.token));
    }
    EQ(topic_of(queue, a).total.timeouts, 0);
}

static void close_completes_ops_that_read_bodies(void)
{
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_cq *cq = new_cq();
    bide *queue = open_cold(a);
    struct waiter *waiters[OPS];
    for (int round = 0; round < 5; round++) {
        submit_looks_and_reserves(queue, cq, &topic, waiters);
        if (round % 2)
            OK(bide_shutdown(queue));
        queue = reopen(queue, COLD);
        judge(cq, waiters, BIDE_CLOSED);
        /* A server keeps the leases that its clients have been told of. */
        for (size_t i = 0; i < OPS && !is_in_process(); i += 2)
            if (waiters[i]->op.status == BIDE_OK)
                OK(bide_give_back(queue, waiters[i]->job.id, waiters[i]->job.token));
        EQ(topic_of(queue, a).jobs.ready, COLD_JOBS);
    }
}

/* A lease that began before its body was there could be over when the holder learns of it. */
static void lease_starts_when_the_body_was_read(void)
{
    const char *a = fresh_topic("a");
    bide *queue = open_queue(COLD);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    for (size_t i = 0; i < COLD_JOBS; i++)
        put_number(queue, a, i, &options);
    queue = reopen(queue, COLD);
    for (size_t i = 0; i < COLD_JOBS; i++) {
        int64_t before_ms = wall_ms();
        const bide_job *job = take(queue, a);
        BETWEEN(job->reserved_ms, before_ms - 1, wall_ms() + 1);
        BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
        EQ(NUMBER_OF(job->body, job->body_size), i);
        EQ(job->reserves, 1);
    }
}

static const struct test tests[] = {
    TEST(threads_get_the_right_bodies_and_each_job_once),
    TEST(query_always_finds_a_job_that_is_being_replaced),
    TEST(op_that_reads_a_body_can_be_cancelled),
    TEST(close_completes_ops_that_read_bodies),
    TEST(lease_starts_when_the_body_was_read),
};

const struct theme cold_concurrent_theme = {"cold_concurrent", tests, COUNT(tests)};
