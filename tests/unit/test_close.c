/* SPDX-License-Identifier: MIT */
/*
 * The end of a queue: shutting down, closing, and what both leave undisturbed.
 */
#include "slow_store.h"

static bide *queue;
static bide_cq *cq;

static int set_up(void **state)
{
    (void)state;
    return bide_open("memory:", NULL, &queue) == BIDE_OK ? bide_cq_new(&cq) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bide_close(queue);
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

/* Calls of each kind that waits. */
struct calls {
    bide_op reserve, wait, events;
    bide_slice topic;
    bide_job job;
    bide_event event;
};

static void begin(struct calls *calls, uint64_t id, bide_subscription *feed)
{
    memset(calls, 0, sizeof(*calls));
    calls->topic = text("empty");
    calls->reserve = reserve_op(cq, &calls->topic, &calls->job);
    calls->reserve.reserve.timeout_ms = BIDE_FOREVER;
    calls->wait =
        (bide_op){.kind = BIDE_OP_WAIT, .cq = cq, .wait = {.id = id, .timeout_ms = BIDE_FOREVER}};
    calls->events = (bide_op){
        .kind = BIDE_OP_EVENTS,
        .cq = cq,
        .subscription = {
            .handle = feed, .events = &calls->event, .event_max = 1, .timeout_ms = BIDE_FOREVER}};
    bide_op *list[] = {&calls->reserve, &calls->wait, &calls->events};
    assert_int_equal(bide_submit(queue, list, 3), 3);
}

static void are_closed(const struct calls *calls)
{
    assert_int_equal(calls->reserve.status, BIDE_CLOSED);
    assert_int_equal(calls->wait.status, BIDE_CLOSED);
    assert_int_equal(calls->events.status, BIDE_CLOSED);
    assert_true(strlen(calls->reserve.error) > 0);
}

static uint64_t put_one(const char *topic)
{
    uint64_t id;
    assert_int_equal(bide_put(queue, topic, "x", 1, NULL, &id), BIDE_OK);
    return id;
}

static void shutting_down_ends_every_call_that_waits(void **state)
{
    (void)state;
    static struct calls calls;
    bide_subscription *feed;
    assert_int_equal(bide_subscribe(queue, "other", 0, 0, &feed), BIDE_OK);
    begin(&calls, put_one("a"), feed);
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    assert_int_equal(bide_cq_drain(cq, 0), 3);
    are_closed(&calls);
}

static void after_shutting_down_no_job_is_given_out(void **state)
{
    (void)state;
    put_one("a");
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    bide_job job;
    assert_int_equal(bide_reserve(queue, "a", 0, &job), BIDE_CLOSED);
    assert_int_equal(bide_reserve(queue, "a", BIDE_FOREVER, &job), BIDE_CLOSED);
    assert_int_equal(bide_reserve_job(queue, 1, &job), BIDE_CLOSED);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, 1);
}

static void after_shutting_down_a_worker_can_finish_what_it_holds(void **state)
{
    (void)state;
    bide_job jobs[3];
    for (int i = 0; i < 3; i++) {
        put_one("a");
        assert_int_equal(bide_reserve(queue, "a", 0, &jobs[i]), BIDE_OK);
    }
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    assert_int_equal(bide_touch(queue, jobs[0].id, jobs[0].token, 0, NULL), BIDE_OK);
    assert_int_equal(bide_delete(queue, jobs[0].id, jobs[0].token), BIDE_OK);
    assert_int_equal(bide_give_back(queue, jobs[1].id, jobs[1].token), BIDE_OK);
    assert_int_equal(bide_fail(queue, jobs[2].id, jobs[2].token, "x", 0, NULL, NULL), BIDE_OK);
    assert_int_not_equal(put_one("a"), 0);
    for (int i = 0; i < 3; i++)
        bide_job_clear(&jobs[i]);
}

static int code_in_callback;

static void shut_down(bide_op *op)
{
    (void)op;
    code_in_callback = bide_shutdown(queue);
}

static void callback_may_shut_down_repeatedly(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = reserve_op(cq, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    reserve.done = shut_down;
    assert_int_equal(submit_one(queue, &reserve), 1);
    put_one("a");
    code_in_callback = BIDE_PENDING;
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(code_in_callback, BIDE_OK);
    assert_int_equal(reserve.status, BIDE_OK);
    bide_job_clear(&job);
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    assert_int_equal(bide_shutdown(NULL), BIDE_EINVAL);
}

static void close_without_shutdown_ends_waiting_calls(void **state)
{
    (void)state;
    static struct calls calls;
    bide_subscription *feed;
    assert_int_equal(bide_subscribe(queue, NULL, 1u << BIDE_EVENT_DONE, 0, &feed), BIDE_OK);
    begin(&calls, put_one("a"), feed);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_int_equal(bide_cq_drain(cq, 0), 3);
    are_closed(&calls);
}

static void *reserve_for_ever(void *arg)
{
    (void)arg;
    bide_job job;
    return (void *)(intptr_t)bide_reserve(queue, "empty", BIDE_FOREVER, &job);
}

static void threads_that_wait_are_released_and_can_be_joined(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reserve_for_ever, NULL), 0);
    assert_int_equal(bide_shutdown(queue), BIDE_OK); /* whether they wait already, or not yet */
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *code;
        pthread_join(threads[i], &code);
        assert_int_equal((intptr_t)code, BIDE_CLOSED);
    }
}

static void shutting_down_does_not_disturb_what_is_being_stored(void **state)
{
    (void)state;
    struct slow_store *slow;
    bide *held = slow_open("slow:", &slow);
    slow_set(slow, true, 0);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(held, &put), 1);
    slow_await(slow, 2);
    assert_int_equal(bide_shutdown(held), BIDE_OK);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    slow_set(slow, false, 0);
    await_completions(cq, 1);
    assert_int_equal(put.status, BIDE_OK);
    assert_int_equal(slow_jobs(slow), 1);
    assert_int_equal(bide_close(held), BIDE_OK);
}

static void close_accepts_null(void **state)
{
    (void)state;
    assert_int_equal(bide_close(NULL), BIDE_OK);
}

static void a_queue_that_was_never_used_closes(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        bide *other;
        assert_int_equal(bide_open(i % 2 == 0 ? "memory:" : "memory:?ticker=wheel", NULL, &other),
                         BIDE_OK);
        assert_int_equal(bide_close(other), BIDE_OK);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shutting_down_ends_every_call_that_waits),
        TEST(after_shutting_down_no_job_is_given_out),
        TEST(after_shutting_down_a_worker_can_finish_what_it_holds),
        TEST(callback_may_shut_down_repeatedly),
        TEST(close_without_shutdown_ends_waiting_calls),
        TEST(threads_that_wait_are_released_and_can_be_joined),
        TEST(shutting_down_does_not_disturb_what_is_being_stored),
        TEST(close_accepts_null),
        TEST(a_queue_that_was_never_used_closes),
    };
    return cmocka_run_group_tests_name("close", tests, NULL, NULL);
}
