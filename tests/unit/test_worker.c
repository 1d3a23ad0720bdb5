/* SPDX-License-Identifier: MIT */
/*
 * A worker: what is registered, and how it starts, stops, and starts again, with a queue that does
 * not always answer.
 */
#include "worker_fixture.h"

#include <stdio.h>
#include <unistd.h>

#define TTR_MS 60000

static const struct handler_plan staying = {.blocks = true};

static int retry(bide_context *context)
{
    return bide_context_retry(context, "not now");
}

/* ---- options and registration ---- */

static void options_have_their_defaults(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    bide_worker *worker = NULL;
    assert_int_equal(bide_worker_new(&stub->queue, NULL, &worker), BIDE_OK);
    assert_true(worker->options.threads >= 1);
    assert_int_equal(worker->options.stop_timeout_ms, 30000);
    assert_int_equal(worker->options.health_interval_ms, 15000);
    assert_int_equal(bide_worker_free(worker), BIDE_OK);
    stub_free(stub);
}

static void many_topics_are_found_by_name_and_kept_in_order(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    bide_worker *worker = fixture->worker;
    char topic[24];
    for (unsigned i = 1; i < BIDE_WORKER_TOPICS_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic-%u", i * 7919 % BIDE_WORKER_TOPICS_MAX);
        assert_int_equal(bide_worker_handle(worker, topic, fixture_handle, NULL), BIDE_OK);
        assert_string_equal(worker->topics[i].data, topic);
    }
    assert_int_equal(bide_worker_handle(worker, "more", fixture_handle, NULL), BIDE_EINVAL);
    for (unsigned i = 1; i < BIDE_WORKER_TOPICS_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic-%u", i);
        assert_string_equal(bi_registry_lookup(worker, topic)->topic, topic);
    }
    assert_int_equal(bide_worker_set_weight(worker, "topic-9", 5), BIDE_OK);
    unsigned heavier = 0;
    for (unsigned i = 0; i < BIDE_WORKER_TOPICS_MAX; i++)
        heavier += worker->weights[i] == 5;
    assert_int_equal(heavier, 1);
    fixture_free(fixture);
}

/* ---- calls from inside ---- */

static int codes[4];

static void stop_it(struct fixture *fixture, const bide_work_event *event)
{
    if (event->kind == BIDE_WORK_DONE) {
        codes[0] = bide_worker_stop(fixture->worker);
        codes[1] = bide_worker_quit(fixture->worker);
    }
}

static void event_handler_may_quit_but_not_stop_the_worker(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(2);
    fixture->on_event = stop_it;
    stub_add_job(fixture->stub, stub_job(1, TTR_MS));
    assert_int_equal(bide_worker_run(fixture->worker), BIDE_OK);
    assert_int_equal(codes[0], BIDE_ECALLBACK);
    assert_int_equal(codes[1], BIDE_OK);
    fixture_free(fixture);
}

static void start_it(struct fixture *fixture, const bide_work_event *event)
{
    if (event->kind == BIDE_WORK_HEALTHY) {
        codes[0] = bide_worker_start(fixture->worker);
        codes[1] = bide_worker_stop(fixture->worker);
        codes[2] = bide_worker_free(fixture->worker);
        codes[3] = bide_worker_run(fixture->worker);
    }
}

/* The next start emits HEALTHY on the thread of its caller. */
static void event_of_a_start_cannot_start_or_stop_the_worker(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    stub_rule(fixture->stub, BIDE_OP_RESERVE, AT_ONCE, BIDE_EIO);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    fixture_await(fixture, BIDE_WORK_UNHEALTHY, 0);
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_OK);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_HEALTHY, 0), 0);
    fixture->on_event = start_it;
    memset(codes, 0, sizeof(codes));
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_HEALTHY, 0), 1);
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        assert_int_equal(codes[i], BIDE_ECALLBACK);
    fixture_free(fixture);
}

static void run_from_a_callback(bide_op *op)
{
    codes[0] = bide_run(op->user, "t", fixture_handle, NULL);
}

static void bide_run_is_rejected_in_a_completion_callback(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    bide_cq *cq;
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    stub_rule(stub, BIDE_OP_PING, THROUGH_CQ, BIDE_OK);
    bide_op op = {
        .kind = BIDE_OP_PING, .cq = cq, .done = run_from_a_callback, .user = &stub->queue};
    bide_op *const list[1] = {&op};
    assert_int_equal(bide_submit(&stub->queue, list, 1), 1);
    assert_int_equal(bide_cq_wait(cq, BIDE_FOREVER), 1);
    assert_int_equal(codes[0], BIDE_ECALLBACK);
    bide_cq_free(cq);
    stub_free(stub);
}

/* ---- taking ---- */

static void failing_reserve_is_reported_once_and_its_recovery(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(3);
    stub_rule(fixture->stub, BIDE_OP_RESERVE, AT_ONCE, BIDE_EIO);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    assert_int_equal(fixture_await(fixture, BIDE_WORK_UNHEALTHY, 0).code, BIDE_EIO);
    stub_await(fixture->stub, BIDE_OP_RESERVE, 0, 6);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_UNHEALTHY, 0), 1);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_HEALTHY, 0), 0);
    stub_rule(fixture->stub, BIDE_OP_RESERVE, HELD, BIDE_OK);
    fixture_add_job(fixture, stub_job(1, TTR_MS), (struct handler_plan){0});
    fixture_await(fixture, BIDE_WORK_HEALTHY, 0);
    fixture_await(fixture, BIDE_WORK_DONE, 1);
    fixture_free(fixture);
}

static void deferred_acks_of_all_threads_stop_new_jobs(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    for (uint64_t id = 1; id <= 3; id++)
        stub_add_job(fixture->stub, stub_job(id, TTR_MS));
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    /* The second was taken together with the answer to the first. */
    fixture_await(fixture, BIDE_WORK_DEFERRED, 1);
    fixture_await(fixture, BIDE_WORK_DEFERRED, 2);
    stub_await(fixture->stub, BIDE_OP_DELETE, 1, 4);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_STARTED, 3), 0);
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_OK);
    for (uint64_t id = 1; id <= 3; id++)
        fixture_await(fixture, BIDE_WORK_DONE, id);
    fixture_free(fixture);
}

static void failed_ack_is_deferred_before_the_next_handler_returns(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(1);
    stub_rule(fixture->stub, BIDE_OP_DELETE, HELD, BIDE_OK);
    fixture_add_job(fixture, stub_job(1, TTR_MS), (struct handler_plan){0});
    fixture_add_job(fixture, stub_job(2, TTR_MS), staying);
    stub_await(fixture->stub, BIDE_OP_DELETE, 1, 1);
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_OK);
    assert_true(stub_release(fixture->stub, BIDE_OP_DELETE, BIDE_EFULL));
    assert_int_equal(fixture_await(fixture, BIDE_WORK_DEFERRED, 1).code, BIDE_EFULL);
    fixture_await(fixture, BIDE_WORK_DONE, 1);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_DONE, 2), 0);
    fixture_end(fixture);
}

static void job_reserved_during_a_stop_is_given_back_unstarted(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    fixture->stub->serves_cancelled = true;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_ENOTSUP);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    stub_await(fixture->stub, BIDE_OP_RESERVE, 0, 1);
    fixture_add_job(fixture, stub_job(1, TTR_MS), (struct handler_plan){0});
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_OK);
    assert_int_equal(stub_count(fixture->stub, BIDE_OP_GIVE_BACK, 1), 1);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_STARTED, 1), 0);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_INTERRUPTED, 1), 1);
    fixture_free(fixture);
}

/* The topics are before, between and after those of the worker. */
static void job_of_a_topic_without_handler_is_retried_and_runs_no_handler(void **state)
{
    (void)state;
    static const char *const topics[] = {"a", "s", "tt", "z", ""};
    struct fixture *fixture = fixture_new(1);
    assert_int_equal(bide_worker_handle(fixture->worker, "r", fixture_handle, fixture), BIDE_OK);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    for (size_t i = 0; i < COUNT_OF(topics); i++) {
        uint64_t id = i + 1;
        char text[40];
        bide_job job = stub_job(id, 60000);
        snprintf(job.topic, sizeof(job.topic), "%s", topics[i]);
        snprintf(text, sizeof(text), "a job of topic \"%s\"", topics[i]);
        fixture_add_job(fixture, job, (struct handler_plan){.respond = NULL});
        struct stub_record fail = stub_await(fixture->stub, BIDE_OP_FAIL, id, 1);
        assert_non_null(strstr(fail.text, text));
        fixture_await(fixture, BIDE_WORK_RETRIED, id);
        assert_int_equal(fixture_count(fixture, BIDE_WORK_STARTED, id), 0);
        assert_false(fixture->started[id]);
    }
    fixture_end(fixture);
}

static void reason_of_one_job_does_not_reach_the_next(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start(1);
    stub_await(fixture->stub, BIDE_OP_EVENTS, 0, 1);
    fixture_add_job(fixture, stub_job(1, TTR_MS),
                    (struct handler_plan){.waits = true, .respond = retry});
    fixture_await_start(fixture, 1);
    assert_true(stub_emit_event(fixture->stub, 1, 0));
    fixture_await(fixture, BIDE_WORK_CANCELLED, 1);
    stub_await(fixture->stub, BIDE_OP_RESERVE, 0, 2);
    fixture->stub->serves_cancelled = true;
    fixture_add_job(fixture, stub_job(2, TTR_MS), (struct handler_plan){0});
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_OK);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_CANCELLED, 2), 0);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_INTERRUPTED, 2), 1);
    fixture_free(fixture);
}

/* ---- stopping ---- */

static void stop_returns_although_an_ack_is_pending(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start_short_stop(1);
    stub_rule(fixture->stub, BIDE_OP_DELETE, HELD, BIDE_OK);
    fixture_add_job(fixture, stub_job(1, TTR_MS), (struct handler_plan){0});
    stub_await(fixture->stub, BIDE_OP_DELETE, 1, 1);
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_EBUSY);
    assert_true(stub_release(fixture->stub, BIDE_OP_DELETE, BIDE_OK));
    fixture_free(fixture);
}

static void stop_returns_although_background_ops_are_pending(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    stub_rule(fixture->stub, BIDE_OP_PING, HELD, BIDE_OK);
    stub_rule(fixture->stub, BIDE_OP_UNSUBSCRIBE, HELD, BIDE_OK);
    fixture->worker->options.stop_timeout_ms = 50;
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    stub_await(fixture->stub, BIDE_OP_EVENTS, 0, 1);
    stub_await(fixture->stub, BIDE_OP_PING, 0, 1);
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    stub_await(fixture->stub, BIDE_OP_UNSUBSCRIBE, 0, 1);
    assert_true(stub_release(fixture->stub, BIDE_OP_UNSUBSCRIBE, BIDE_OK));
    assert_true(stub_release(fixture->stub, BIDE_OP_PING, BIDE_OK));
    fixture_free(fixture);
}

static _Atomic bool subscribes;

/* Stands in a subscribe until the keeper is told to end. */
static void await_quit(struct stub *stub, bide_op_kind kind)
{
    const bide_worker *worker = stub->user;
    if (kind == BIDE_OP_SUBSCRIBE)
        atomic_store(&subscribes, true);
    while (kind == BIDE_OP_SUBSCRIBE && !atomic_load(&worker->background.quit))
        usleep(1000);
}

static void subscription_during_the_stop_is_released(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    fixture->stub->user = fixture->worker;
    fixture->stub->before = await_quit;
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    while (!atomic_load(&subscribes))
        usleep(1000);
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_OK);
    assert_int_equal(stub_count(fixture->stub, BIDE_OP_SUBSCRIBE, 0), 1);
    assert_int_equal(stub_count(fixture->stub, BIDE_OP_UNSUBSCRIBE, 0), 1);
    fixture_free(fixture);
}

static void *give_feed(void *arg)
{
    struct fixture *fixture = arg;
    while (!atomic_load(&fixture->worker->background.quit))
        usleep(1000);
    stub_release(fixture->stub, BIDE_OP_SUBSCRIBE, BIDE_OK);
    return NULL;
}

static void late_subscription_is_released_and_the_background_thread_ends(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    pthread_t thread;
    stub_rule(fixture->stub, BIDE_OP_SUBSCRIBE, HELD, BIDE_OK);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    stub_await(fixture->stub, BIDE_OP_SUBSCRIBE, 0, 1);
    assert_int_equal(pthread_create(&thread, NULL, give_feed, fixture), 0);
    bide_worker_stop(fixture->worker);
    pthread_join(thread, NULL);
    fixture_free(fixture);
}

static void deferred_ack_is_given_up_and_reported_at_a_stop(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start_short_stop(1);
    stub_rule(fixture->stub, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    fixture_add_job(fixture, stub_job(1, TTR_MS), (struct handler_plan){0});
    fixture_await(fixture, BIDE_WORK_DEFERRED, 1);
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_OK);
    assert_int_equal(fixture_count(fixture, BIDE_WORK_GIVEN_UP, 1), 1);
    fixture_free(fixture);
}

/* ---- health ---- */

struct health {
    struct fixture *fixture;
    _Atomic int good, late;
    _Atomic int stop_code;
};

static void on_health(void *user, int code, const char *text)
{
    struct health *health = user;
    atomic_fetch_add(&health->good, code == BIDE_OK);
    atomic_fetch_add(&health->late, code == BIDE_TIMED_OUT);
    assert_true(code == BIDE_OK || text[0] != 0);
    atomic_store(&health->stop_code, bide_worker_stop(health->fixture->worker));
}

static void silent_queue_is_reported_as_unhealthy(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(1);
    struct health health = {.fixture = fixture};
    bide_worker_options *options = &fixture->worker->options;
    options->health = on_health;
    options->event = NULL;
    options->user = &health;
    options->health_interval_ms = 5;
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    while (atomic_load(&health.good) < 2)
        usleep(1000);
    stub_rule(fixture->stub, BIDE_OP_PING, HELD, BIDE_OK);
    while (atomic_load(&health.late) < 2)
        usleep(1000);
    stub_rule(fixture->stub, BIDE_OP_PING, AT_ONCE, BIDE_OK);
    int good = atomic_load(&health.good);
    assert_true(stub_release(fixture->stub, BIDE_OP_PING, BIDE_OK));
    while (atomic_load(&health.good) < good + 2)
        usleep(1000);
    assert_int_equal(atomic_load(&health.stop_code), BIDE_ECALLBACK);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_their_defaults),
        cmocka_unit_test(many_topics_are_found_by_name_and_kept_in_order),
        cmocka_unit_test(event_handler_may_quit_but_not_stop_the_worker),
        cmocka_unit_test(event_of_a_start_cannot_start_or_stop_the_worker),
        cmocka_unit_test(bide_run_is_rejected_in_a_completion_callback),
        cmocka_unit_test(failing_reserve_is_reported_once_and_its_recovery),
        cmocka_unit_test(deferred_acks_of_all_threads_stop_new_jobs),
        cmocka_unit_test(failed_ack_is_deferred_before_the_next_handler_returns),
        cmocka_unit_test(job_reserved_during_a_stop_is_given_back_unstarted),
        cmocka_unit_test(job_of_a_topic_without_handler_is_retried_and_runs_no_handler),
        cmocka_unit_test(reason_of_one_job_does_not_reach_the_next),
        cmocka_unit_test(stop_returns_although_an_ack_is_pending),
        cmocka_unit_test(stop_returns_although_background_ops_are_pending),
        cmocka_unit_test(subscription_during_the_stop_is_released),
        cmocka_unit_test(late_subscription_is_released_and_the_background_thread_ends),
        cmocka_unit_test(deferred_ack_is_given_up_and_reported_at_a_stop),
        cmocka_unit_test(silent_queue_is_reported_as_unhealthy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
