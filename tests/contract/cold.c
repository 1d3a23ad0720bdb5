/* SPDX-License-Identifier: MIT */
/* cold.c - bodies that are not in memory: every call that needs one gets the right one. */
#include "cold.h"

#include <stdio.h>
#include <string.h>

enum { JOBS = COLD_JOBS, BODY_MAX = 65535 };

uint64_t cold_ids[COLD_JOBS];

/* The body of the job with a number: its size and its bytes tell which it is. */
size_t number_size(size_t number)
{
    static const size_t sizes[] = {40, 511, 512, 513, 4096, 20000, BODY_MAX};
    return sizes[number % COUNT(sizes)];
}

static size_t write_body(char *room, size_t number)
{
    size_t size = number_size(number);
    for (size_t i = 0; i < size; i++)
        room[i] = (char)(i * 13 + number * 7 + i / 251);
    snprintf(room, 40, "body number %zu of the cold ones", number);
    return size;
}

size_t number_of(struct where at, const void *data, size_t size)
{
    char want[BODY_MAX];
    size_t number = 0;
    check_true(at, data != NULL && size >= 40, "a body");
    check_true(at, sscanf(data, "body number %zu of", &number) == 1, "a body with a number");
    check_equal(at, (int64_t)size, (int64_t)write_body(want, number), "the size of the body");
    check_true(at, memcmp(data, want, size) == 0, "the right bytes in the body");
    return number;
}

uint64_t put_number(bide *queue, const char *topic, size_t number, const bide_put_options *options)
{
    char body[BODY_MAX];
    uint64_t id = 0;
    OK(bide_put(queue, topic, body, write_body(body, number), options, &id));
    return id;
}

bide *open_cold(const char *topic)
{
    bide *queue = open_queue(COLD);
    for (size_t i = 0; i < JOBS; i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        char key[32];
        snprintf(key, sizeof key, "key %zu", i);
        options.key = slice(key);
        cold_ids[i] = put_number(queue, topic, i, &options);
        if (i == JOBS / 2)
            queue = reopen(queue, COLD);
    }
    return queue;
}

void is_number(struct where at, const bide_job *job, size_t number)
{
    check_equal(at, (int64_t)job->id, (int64_t)cold_ids[number], "the id of the job");
    check_equal(at, (int64_t)number_of(at, job->body, job->body_size), (int64_t)number,
                "the number in the body");
}

/* ---- taking ---- */

static void every_reserve_call_returns_the_body(void)
{
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide *queue = open_cold(a);
    bide_job jobs[10];
    bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, COUNT(jobs));
    IS_NUMBER(take(queue, a), 0);
    IS_NUMBER(await(queue, a), 1);
    IS_NUMBER(take_job(queue, cold_ids[50]), 50);
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, COUNT(jobs));
    for (size_t i = 0; i < args.count; i++) {
        IS_NUMBER(&jobs[i], 2 + i);
        BETWEEN(jobs[i].left_ms, 60000 - PATIENCE_MS, 60000);
    }
    bide_finish_item finish = {.id = jobs[0].id, .token = jobs[0].token};
    clear_jobs(jobs, args.count);
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    for (size_t i = 0; i < args.count; i++)
        IS_NUMBER(&jobs[i], 12 + i);
    clear_jobs(jobs, args.count);
}

static void every_reserve_op_returns_the_body(void)
{
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide *queue = open_cold(a);
    bide_cq *cq = new_cq();
    struct waiter *waiters[20];
    bide_op *ops[COUNT(waiters)];
    for (size_t i = 0; i < COUNT(waiters); i++) {
        waiters[i] = new_op(i % 2 ? BIDE_OP_RESERVE : BIDE_OP_RESERVE_JOB, cq);
        if (i % 2)
            waiters[i]->op.reserve = reserve_args(&topic, 1, 0, &waiters[i]->job, 1);
        else
            waiters[i]->op.reserve_job =
                (bide_reserve_job_args){.id = cold_ids[59 - i], .job = &waiters[i]->job};
        ops[i] = &waiters[i]->op;
    }
    CHECK(bide_submit(queue, ops, COUNT(ops)) >= 0);
    for (size_t i = 0; i < COUNT(waiters); i++) {
        UNTIL(waiters[i]->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
        EQ(waiters[i]->op.status, BIDE_OK);
        IS_NUMBER(&waiters[i]->job, i % 2 ? i / 2 : 59 - i);
        CHECK(waiters[i]->job.token != 0);
    }
    struct waiter *next = new_op(BIDE_OP_FINISH_AND_RESERVE, cq);
    next->op.finish_and_reserve.finish =
        (bide_finish_item){.id = waiters[1]->job.id, .token = waiters[1]->job.token};
    next->op.finish_and_reserve.reserve = reserve_args(&topic, 1, 0, &next->job, 1);
    submit_code(queue, next, BIDE_OK);
    IS_NUMBER(&next->job, 10);
}

static void waiting_call_gets_the_body(void)
{
    bide *queue = open_queue(COLD);
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_cq *cq = new_cq();
    for (size_t i = 0; i < 20; i++) {
        struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.delay_ms = i % 2 ? 2 : 0;
        cold_ids[i] = put_number(queue, a, i, &options);
        completes(waiter, BIDE_OK);
        IS_NUMBER(&waiter->job, i);
        OK(bide_delete(queue, waiter->job.id, waiter->job.token));
    }
}

/* A job whose body is being read is not ready, and no other call can reserve it. */
static void body_is_read_again_after_each_release(void)
{
    const char *a = fresh_topic("a");
    bide *queue = open_cold(a);
    for (size_t i = 0; i < JOBS; i++) {
        bide_job job = *take(queue, a);
        IS_NUMBER(&job, i);
        OK(bide_release(queue, job.id, job.token, 1, 0));
        job = *take(queue, a);
        IS_NUMBER(&job, i);
        OK(bide_fail(queue, job.id, job.token, "it broke", 0, NULL, NULL));
        OK(bide_bury(queue, job.id, take_job(queue, cold_ids[i])->token, 2000, "aside"));
        IS_NUMBER(peek_job(queue, cold_ids[i]), i);
    }
    uint64_t count = 0;
    OK(bide_kick(queue, a, JOBS, &count));
    EQ(count, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        IS_NUMBER(take(queue, a), i);
}

/* ---- looking ---- */

static void every_query_call_returns_the_body(void)
{
    const char *a = fresh_topic("a");
    bide *queue = open_cold(a);
    for (size_t i = 0; i < JOBS; i++) {
        char key[32];
        bide_job job = {0};
        bide_buf *body = NULL;
        snprintf(key, sizeof key, "key %zu", i);
        IS_NUMBER(peek_job(queue, cold_ids[i]), i);
        OK(bide_find(queue, a, key, strlen(key), &job));
        IS_NUMBER(&job, i);
        bide_job_clear(&job);
        OK(bide_body(queue, cold_ids[i], &body));
        EQ(NUMBER_OF(bide_buf_data(body), bide_buf_size(body)), i);
        bide_buf_unref(body);
        EQ(stat_job(queue, cold_ids[i])->body_size, number_size(i));
        CHECK(stat_job(queue, cold_ids[i])->body == NULL);
        OK(bide_peek_first(queue, a, BIDE_STATE_READY, &job));
        IS_NUMBER(&job, i);
        bide_job_clear(&job);
        OK(bide_done(queue, cold_ids[i], 0, "result", 6, 3600000));
        IS_NUMBER(peek_job(queue, cold_ids[i]), i);
    }
}

static void every_query_op_returns_the_body(void)
{
    const char *a = fresh_topic("a");
    bide *queue = open_cold(a);
    bide_cq *cq = new_cq();
    for (size_t i = 0; i < JOBS; i++) {
        struct waiter *peek = new_op(BIDE_OP_PEEK, cq), *body = new_op(BIDE_OP_BODY, cq);
        struct waiter *first = new_op(BIDE_OP_PEEK_FIRST, cq);
        peek->op.query = (bide_query_args){.id = cold_ids[i], .job = &peek->job};
        body->op.fetch.id = cold_ids[i];
        first->op.query =
            (bide_query_args){.topic = slice(a), .state = BIDE_STATE_READY, .job = &first->job};
        struct waiter *waiters[] = {peek, body, first};
        bide_op *ops[] = {&peek->op, &body->op, &first->op};
        CHECK(bide_submit(queue, ops, COUNT(ops)) >= 0);
        for (size_t j = 0; j < COUNT(waiters); j++) {
            UNTIL(waiters[j]->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
            EQ(waiters[j]->op.status, BIDE_OK);
        }
        IS_NUMBER(&peek->job, i);
        IS_NUMBER(&first->job, 0);
        EQ(NUMBER_OF(bide_buf_data(body->op.fetch.buf), bide_buf_size(body->op.fetch.buf)), i);
        bide_buf_unref(body->op.fetch.buf);
    }
}

/* Lists all jobs, in pages, with or without a text and with or without bodies; counts them. */
static size_t list_all(bide *queue, bide_cq *cq, const char *topic, const char *text, bool bodies)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[7];
    size_t listed = 0;
    for (int page = 0; page < 1000; page++) {
        struct waiter *list = new_op(BIDE_OP_LIST, cq);
        list->op.list = (bide_list_args){.topic = slice(topic),
                                         .filter = {.text = slice(text)},
                                         .with_body = bodies,
                                         .cursor = cursor,
                                         .jobs = jobs,
                                         .job_max = COUNT(jobs)};
        submit_code(queue, list, BIDE_OK);
        for (size_t i = 0; i < list->op.list.count; i++) {
            size_t number = 0;
            while (number < JOBS && cold_ids[number] != jobs[i].id)
                number++;
            CHECK(number < JOBS);
            EQ(jobs[i].body_size, number_size(number));
            if (bodies)
                IS_NUMBER(&jobs[i], number);
            else
                CHECK(jobs[i].body == NULL);
        }
        listed += list->op.list.count;
        clear_jobs(jobs, list->op.list.count);
        if (cursor[0] == '\0')
            return listed;
    }
    FAIL("a list without an end");
}

static void lists_return_bodies_and_search_them(void)
{
    const char *a = fresh_topic("a");
    bide *queue = open_cold(a);
    bide_cq *cq = new_cq();
    for (int bodies = 0; bodies < 2; bodies++) {
        EQ(list_all(queue, cq, a, "", bodies), JOBS);
        EQ(list_all(queue, cq, a, "of the cold", bodies), JOBS);
        EQ(list_all(queue, cq, a, "number 5", bodies), 11);
        EQ(list_all(queue, cq, a, "number 59 of", bodies), 1);
        EQ(list_all(queue, cq, a, "nowhere", bodies), 0);
    }
    bide_job jobs[JOBS];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    OK(bide_list(queue, a, BIDE_STATE_READY, NULL, cursor, jobs, JOBS, &count));
    for (size_t i = 0; i < count; i++)
        NUMBER_OF(jobs[i].body, jobs[i].body_size);
    clear_jobs(jobs, count);
}

/* ---- memory, and the life of a job ---- */

static void bodies_do_not_stay_in_memory(void)
{
    bide *queue = open_queue(COLD);
    const char *a = fresh_topic("a");
    uint64_t bytes = 0;
    for (size_t i = 0; i < 7 * (size_t)JOBS; i++) {
        put_number(queue, a, i, NULL);
        bytes += number_size(i);
    }
    UNTIL(stats_of(queue).memory_bytes < bytes / 4);
    queue = reopen(queue, COLD);
    UNTIL(stats_of(queue).memory_bytes < bytes / 4);
    EQ(NUMBER_OF(take(queue, a)->body, number_size(0)), 0);
}

static void body_moves_with_its_job(void)
{
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide *queue = open_cold(a);
    for (size_t i = 0; i < JOBS; i++) {
        bide_update_args changes = BIDE_UPDATE_INIT;
        bide_job job = *peek_job(queue, cold_ids[i]);
        uint64_t copy = 0;
        changes.id = cold_ids[i];
        changes.topic = slice(b);
        OK(bide_update(queue, &changes));
        IS_NUMBER(peek_job(queue, cold_ids[i]), i);
        job.state = BIDE_STATE_BURIED;
        OK(bide_restore(queue, &job, &copy));
        OK(bide_delete(queue, cold_ids[i], 0));
        cold_ids[i] = copy;
    }
    queue = reopen(queue, COLD);
    for (size_t i = 0; i < JOBS; i++)
        IS_NUMBER(peek_job(queue, cold_ids[i]), i);
}

static const struct test tests[] = {
    TEST(every_reserve_call_returns_the_body),
    TEST(every_reserve_op_returns_the_body),
    TEST(waiting_call_gets_the_body),
    TEST(body_is_read_again_after_each_release),
    TEST(every_query_call_returns_the_body),
    TEST(every_query_op_returns_the_body),
    TEST(lists_return_bodies_and_search_them),
    TEST(bodies_do_not_stay_in_memory),
    TEST(body_moves_with_its_job),
};

const struct theme cold_theme = {"cold", tests, COUNT(tests)};
