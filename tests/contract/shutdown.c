/* SPDX-License-Identifier: MIT */
/* shutdown.c - shutdown and close during other calls: every call completes. */
#include "contract.h"

#include <string.h>

/* ---- jobs for waiting consumers ---- */

enum { PRODUCERS = 3, CONSUMERS = 6, EACH = 4000, JOBS = PRODUCERS * EACH };

static struct market {
    bide *queue;
    const char *topic;
    uint64_t first_id;
    unsigned char taken[JOBS];
    int taken_count;
} market;

static void *produce(void *arg)
{
    (void)arg;
    for (int i = 0; i < EACH; i++)
        put(market.queue, market.topic, "body");
    return NULL;
}

/* Equal jobs come in the order of their ids, so that each consumer sees them rise. */
static void *consume_until_closed(void *arg)
{
    (void)arg;
    uint64_t last = 0;
    for (int i = 0; i <= JOBS; i++) {
        bide_job job = {0};
        int code = bide_reserve(market.queue, market.topic, BIDE_FOREVER, &job);
        if (code == BIDE_CLOSED)
            return NULL;
        OK(code);
        CHECK(job.id > last);
        last = job.id;
        BETWEEN((int64_t)(job.id - market.first_id), 0, JOBS - 1);
        EQ(__atomic_fetch_add(&market.taken[job.id - market.first_id], 1, __ATOMIC_RELAXED), 0);
        OK(bide_delete(market.queue, job.id, job.token));
        bide_job_clear(&job);
        __atomic_fetch_add(&market.taken_count, 1, __ATOMIC_RELEASE);
    }
    FAIL("a consumer that nothing ends");
}

static int taken_count(void)
{
    return __atomic_load_n(&market.taken_count, __ATOMIC_ACQUIRE);
}

static void every_job_is_delivered_once_to_consumers_that_wait_until_shutdown(void)
{
    pthread_t threads[CONSUMERS + PRODUCERS];
    market.queue = open_queue("");
    market.topic = fresh_topic("a");
    market.first_id = stats_of(market.queue).last_id + 1;
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(i < CONSUMERS ? consume_until_closed : produce, NULL);
    /* A disk may take long for all of them, but not for the next one. */
    for (int seen = 0; seen < JOBS; seen = taken_count())
        UNTIL(taken_count() > seen);
    UNTIL(stats_of(market.queue).waiting == CONSUMERS);
    OK(bide_shutdown(market.queue));
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    EQ(stats_of(market.queue).total.deletes, JOBS);
    CHECK(!topic_exists(market.queue, market.topic));
}

/* ---- every kind of waiting ---- */

enum { KINDS = 4, BLOCKED = 2 * KINDS };

struct patient {
    bide *queue;
    const char *topic;
    uint64_t id; /* a job that stays as it is */
    bide_subscription *feed;
    size_t kind;
    uint64_t to_finish;
    int code;
};

/* Makes the op of that kind of waiting; the job to finish must be there. */
static void prepare(struct patient *patient, const bide_slice *topic, bide_op *op, bide_job *job,
                    bide_event *event)
{
    bide_reserve_args args = reserve_args(topic, 1, BIDE_FOREVER, job, 1);
    static const bide_op_kind kinds[KINDS] = {BIDE_OP_RESERVE, BIDE_OP_WAIT, BIDE_OP_EVENTS,
                                              BIDE_OP_FINISH_AND_RESERVE};
    op->kind = kinds[patient->kind];
    if (op->kind == BIDE_OP_RESERVE)
        op->reserve = args;
    else if (op->kind == BIDE_OP_WAIT)
        op->wait = (bide_wait_args){.id = patient->id, .timeout_ms = BIDE_FOREVER};
    else if (op->kind == BIDE_OP_EVENTS)
        op->subscription = (bide_subscription_args){
            .handle = patient->feed, .timeout_ms = BIDE_FOREVER, .events = event, .event_max = 1};
    else
        op->finish_and_reserve =
            (bide_finish_and_reserve_args){.finish = {.id = patient->to_finish}, .reserve = args};
}

static void *wait_for_ever(void *arg)
{
    struct patient *patient = arg;
    bide_slice topic = slice(patient->topic);
    bide_job job = {0};
    bide_event event;
    bide_op op = {0};
    size_t count = 0;
    prepare(patient, &topic, &op, &job, &event);
    if (op.kind == BIDE_OP_RESERVE)
        patient->code = bide_reserve_many(patient->queue, &op.reserve);
    else if (op.kind == BIDE_OP_WAIT)
        patient->code = bide_wait(patient->queue, patient->id, BIDE_FOREVER, NULL, NULL);
    else if (op.kind == BIDE_OP_EVENTS)
        patient->code =
            bide_events(patient->queue, patient->feed, BIDE_FOREVER, &event, 1, &count, NULL);
    else
        patient->code = bide_finish_and_reserve(patient->queue, &op.finish_and_reserve.finish,
                                                &op.finish_and_reserve.reserve);
    EQ(job.id, 0);
    return NULL;
}

/* Every kind waits twice in a thread and once as an op; then the queue is ended. */
static void end_all_that_waits(bide *queue, int (*end)(bide *))
{
    struct patient patients[BLOCKED + KINDS];
    pthread_t threads[BLOCKED];
    struct waiter *ops[KINDS];
    bide_event events[KINDS];
    bide_cq *cq = new_cq();
    bide_slice topic = slice(fresh_topic("none"));
    uint64_t id = put_later(queue, fresh_topic("later"), 3600000);
    for (size_t i = 0; i < COUNT(patients); i++) {
        patients[i] = (struct patient){queue, fresh_topic("none"), id, NULL, i % KINDS, 0, 0};
        patients[i].to_finish = put_later(queue, fresh_topic("later"), 3600000);
        OK(bide_subscribe(queue, NULL, 1U << BIDE_EVENT_EXPIRED, 0, &patients[i].feed));
        if (i < BLOCKED)
            threads[i] = start_thread(wait_for_ever, &patients[i]);
    }
    for (size_t i = 0; i < KINDS; i++) {
        ops[i] = new_op(BIDE_OP_NONE, cq);
        prepare(&patients[BLOCKED + i], &topic, &ops[i]->op, &ops[i]->job, &events[i]);
        submit_pending(queue, ops[i]);
    }
    UNTIL(stats_of(queue).waiting + stats_of(queue).watching == BLOCKED + KINDS);
    EQ(stats_of(queue).total.deletes, 3);
    OK(end(queue));
    for (size_t i = 0; i < BLOCKED; i++) {
        join_thread(threads[i]);
        EQ(patients[i].code, BIDE_CLOSED);
    }
    for (size_t i = 0; i < KINDS; i++)
        completes(ops[i], BIDE_CLOSED);
    EQ(ops[KINDS - 1]->op.finish_and_reserve.finish.status, BIDE_OK);
}

static void shutdown_ends_all_waiting_calls_and_rejects_new_ones(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    end_all_that_waits(queue, bide_shutdown);
    struct patient late = {.queue = queue, .topic = fresh_topic("none")};
    late.id = late.to_finish = put_later(queue, a, 3600000);
    OK(bide_subscribe(queue, NULL, 1U << BIDE_EVENT_EXPIRED, 0, &late.feed));
    for (late.kind = 0; late.kind < KINDS; late.kind++) {
        wait_for_ever(&late);
        EQ(late.code, BIDE_CLOSED);
    }
    EQ(state_of(queue, late.to_finish), BIDE_STATE_GONE);
    EQ(stats_of(queue).waiting + stats_of(queue).watching, 0);
}

static int close_it(bide *queue)
{
    close_queue(queue);
    return BIDE_OK;
}

static void close_ends_all_waiting_calls(void)
{
    for (int round = 0; round < 5; round++)
        end_all_that_waits(open_queue(""), close_it);
}

/* ---- long calls that are under way ---- */

enum { VICTIMS = 30000 };

struct scene {
    bide *queue;
    const char *ready;
    const char *delayed;
    int told; /* to list no more */
    uint64_t purged;
    uint64_t kicked;
};

static void check_end(int code, uint64_t count)
{
    CHECK(code == BIDE_OK || code == BIDE_CLOSED);
    CHECK(code == BIDE_OK ? count == VICTIMS : count <= VICTIMS);
}

static void *purge_all(void *arg)
{
    struct scene *scene = arg;
    int code = bide_purge(scene->queue, scene->ready, BIDE_STATE_READY, &scene->purged);
    check_end(code, scene->purged);
    return NULL;
}

static void *kick_all(void *arg)
{
    struct scene *scene = arg;
    int code = bide_kick(scene->queue, scene->delayed, UINT64_MAX, &scene->kicked);
    check_end(code, scene->kicked);
    return NULL;
}

/* Lists until it is told to stop: a call must not be begun once the close has begun. */
static void *list_all(void *arg)
{
    struct scene *scene = arg;
    bide_job jobs[50] = {0};
    char cursor[BIDE_CURSOR_SIZE] = "";
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (!__atomic_load_n(&scene->told, __ATOMIC_ACQUIRE) && clock_us() < limit_us) {
        size_t count = 0;
        OK(bide_list(scene->queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs, COUNT(jobs), &count));
        clear_jobs(jobs, count);
    }
    return NULL;
}

static struct waiter *begin_purge(bide *queue, bide_cq *cq, const char *topic)
{
    struct waiter *purge = new_op(BIDE_OP_PURGE, cq);
    purge->op.purge = (bide_purge_args){.topic = slice(topic), .state = BIDE_STATE_READY};
    submit_pending(queue, purge);
    return purge;
}

/* What is under way when the end comes says how far it came, and says it once. */
static void end_the_scene(bool shut_down_first)
{
    struct scene scene = {.queue = open_queue(""), .ready = fresh_topic("a")};
    const char *c = fresh_topic("c");
    bide_cq *cq = new_cq();
    pthread_t threads[4];
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    later.delay_ms = 3600000;
    scene.delayed = fresh_topic("b");
    put_lots(scene.queue, scene.ready, VICTIMS, NULL, NULL);
    put_lots(scene.queue, scene.delayed, VICTIMS, &later, NULL);
    put_lots(scene.queue, c, VICTIMS, NULL, NULL);
    threads[0] = start_thread(list_all, &scene);
    threads[1] = start_thread(list_all, &scene);
    threads[2] = start_thread(purge_all, &scene);
    threads[3] = start_thread(kick_all, &scene);
    UNTIL(stats_of(scene.queue).total.kicks > 0 && stats_of(scene.queue).total.purged > 0);
    struct waiter *purge = begin_purge(scene.queue, cq, c);
    if (shut_down_first)
        OK(bide_shutdown(scene.queue));
    __atomic_store_n(&scene.told, 1, __ATOMIC_RELEASE);
    join_thread(threads[0]);
    join_thread(threads[1]);
    close_queue(scene.queue);
    join_thread(threads[2]);
    join_thread(threads[3]);
    CHECK(bide_cq_drain(cq, 0) <= 1);
    EQ(purge->calls, 1);
    check_end(purge->op.status, purge->op.purge.count);
    memset(&purge->op, 0, sizeof purge->op);
    EQ(bide_cq_drain(cq, 0), 0);
}

static void purges_kicks_and_lists_complete_at_close(void)
{
    for (int round = 0; round < 4; round++)
        end_the_scene(round % 2 == 0);
}

static const struct test tests[] = {
    TEST(every_job_is_delivered_once_to_consumers_that_wait_until_shutdown),
    TEST(shutdown_ends_all_waiting_calls_and_rejects_new_ones),
    TEST(close_ends_all_waiting_calls),
    TEST(purges_kicks_and_lists_complete_at_close),
};

const struct theme shutdown_theme = {"shutdown", tests, COUNT(tests)};
