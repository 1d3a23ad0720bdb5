/* SPDX-License-Identifier: MIT */
/*
 * A worker: what is registered, and how it starts, stops, and starts again, with a queue that does
 * not always answer.
 */
#include "staged.h"

#include <stdio.h>
#include <unistd.h>

#define TTR_MS 60000

static const struct role staying = {.stays = true};
static const struct role waiting = {.waits = true};

static int retry(bide_context *context)
{
    return bide_context_retry(context, "not now");
}

/* ---- options and registration ---- */

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct puppet *puppet = puppet_new();
    static const bide_worker_options good = BIDE_WORKER_OPTIONS_INIT;
    bide_worker_options bad[8];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = good;
    bad[0].size = 0;
    bad[1].threads = BIDE_WORKER_THREADS_MAX + 1;
    bad[2].strategy = (bide_strategy)4;
    bad[3].stop_timeout_ms = -2;
    bad[4].stop_timeout_ms = BIDE_TIME_MAX_MS + 1;
    bad[5].health_interval_ms = -1;
    bad[6].health_interval_ms = BIDE_TIME_MAX_MS + 1;
    bad[7].strategy = (bide_strategy)-1;
    bide_worker *worker = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(bide_worker_new(&puppet->queue, &bad[i], &worker), BIDE_EINVAL);
        assert_string_not_equal(bide_last_error(), "");
        assert_null(worker);
    }
    assert_int_equal(bide_worker_new(NULL, NULL, &worker), BIDE_EINVAL);
    assert_int_equal(bide_worker_new(&puppet->queue, NULL, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_new(&puppet->queue, NULL, &worker), BIDE_OK);
    assert_true(worker->options.threads >= 1);
    assert_int_equal(worker->options.stop_timeout_ms, 30000);
    assert_int_equal(worker->options.health_interval_ms, 15000);
    assert_int_equal(bide_worker_free(worker), BIDE_OK);
    assert_int_equal(bide_worker_free(NULL), BIDE_OK);
    puppet_free(puppet);
}

static void a_topic_has_one_handler_and_a_name_that_is_one(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    bide_worker *worker = stage->worker;
    assert_int_equal(bide_worker_handle(worker, "t", stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(worker, "", stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(worker, "-a", stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(worker, "a b", stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(worker, NULL, stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(worker, "a", NULL, NULL), BIDE_EINVAL);
    assert_int_equal(bide_worker_handle(NULL, "a", stage_play, NULL), BIDE_EINVAL);
    assert_int_equal(worker->entry_count, 1);
    stage_free(stage);
}

static void many_topics_are_found_by_name_and_kept_in_order(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    bide_worker *worker = stage->worker;
    char topic[24];
    for (unsigned i = 1; i < BIDE_WORKER_TOPICS_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic-%u", i * 7919 % BIDE_WORKER_TOPICS_MAX);
        assert_int_equal(bide_worker_handle(worker, topic, stage_play, NULL), BIDE_OK);
        assert_string_equal(worker->topics[i].data, topic);
    }
    assert_int_equal(bide_worker_handle(worker, "more", stage_play, NULL), BIDE_EINVAL);
    for (unsigned i = 1; i < BIDE_WORKER_TOPICS_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic-%u", i);
        assert_string_equal(bi_worker_entry(worker, topic)->topic, topic);
    }
    assert_int_equal(bide_worker_weigh(worker, "topic-9", 5), BIDE_OK);
    unsigned heavier = 0;
    for (unsigned i = 0; i < BIDE_WORKER_TOPICS_MAX; i++)
        heavier += worker->weights[i] == 5;
    assert_int_equal(heavier, 1);
    stage_free(stage);
}

static int pass(bide_context *context, void *arg)
{
    (void)arg;
    return bide_context_next(context);
}

static void weights_and_middleware_have_their_limits(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    bide_worker *worker = stage->worker;
    assert_int_equal(bide_worker_weigh(worker, "t", 0), BIDE_EINVAL);
    assert_int_equal(bide_worker_weigh(worker, "none", 2), BIDE_NOT_FOUND);
    assert_int_equal(bide_worker_weigh(worker, NULL, 2), BIDE_EINVAL);
    assert_int_equal(bide_worker_weigh(NULL, "t", 2), BIDE_EINVAL);
    assert_int_equal(bide_worker_use(worker, NULL, NULL), BIDE_EINVAL);
    for (unsigned i = 0; i < BIDE_WORKER_MIDDLEWARE_MAX; i++)
        assert_int_equal(bide_worker_use(worker, pass, NULL), BIDE_OK);
    assert_int_equal(bide_worker_use(worker, pass, NULL), BIDE_EINVAL);
    stage_free(stage);
}

static void nothing_is_registered_while_it_runs(void **state)
{
    (void)state;
    struct stage *stage = stage_start(1);
    bide_worker *worker = stage->worker;
    assert_int_equal(bide_worker_handle(worker, "a", stage_play, NULL), BIDE_EBUSY);
    assert_int_equal(bide_worker_weigh(worker, "t", 2), BIDE_EBUSY);
    assert_int_equal(bide_worker_use(worker, pass, NULL), BIDE_EBUSY);
    assert_int_equal(bide_worker_start(worker), BIDE_EBUSY);
    assert_int_equal(bide_worker_stop(worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(worker, "a", stage_play, NULL), BIDE_OK);
    assert_int_equal(bide_worker_start(worker), BIDE_OK);
    stage_free(stage);
}

static void a_worker_without_handlers_does_not_start(void **state)
{
    (void)state;
    struct puppet *puppet = puppet_new();
    bide_worker *worker;
    assert_int_equal(bide_worker_new(&puppet->queue, NULL, &worker), BIDE_OK);
    assert_int_equal(bide_worker_start(worker), BIDE_EINVAL);
    assert_int_equal(bide_worker_stop(worker), BIDE_OK);
    assert_int_equal(bide_worker_quit(worker), BIDE_OK);
    assert_int_equal(bide_worker_free(worker), BIDE_OK);
    puppet_free(puppet);
}

/* ---- calls from inside ---- */

static int codes[4];

static int try_everything(bide_context *context)
{
    bide_worker *worker = context->worker;
    codes[0] = bide_worker_start(worker);
    codes[1] = bide_worker_stop(worker);
    codes[2] = bide_worker_free(worker);
    codes[3] = bide_worker_run(worker);
    return BIDE_DONE;
}

static void a_handler_cannot_start_stop_or_free_its_worker(void **state)
{
    (void)state;
    struct stage *stage = stage_start(1);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){.say = try_everything});
    stage_await(stage, BIDE_WORK_DONE, 1);
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        assert_int_equal(codes[i], BIDE_ECALLBACK);
    stage_free(stage);
}

static void stop_it(struct stage *stage, const bide_work_event *event)
{
    if (event->kind == BIDE_WORK_DONE) {
        codes[0] = bide_worker_stop(stage->worker);
        codes[1] = bide_worker_quit(stage->worker);
    }
}

static void an_event_may_make_it_quit_but_not_stop_it(void **state)
{
    (void)state;
    struct stage *stage = stage_new(2);
    stage->on_event = stop_it;
    puppet_give(stage->puppet, puppet_job(1, TTR_MS));
    assert_int_equal(bide_worker_run(stage->worker), BIDE_OK);
    assert_int_equal(codes[0], BIDE_ECALLBACK);
    assert_int_equal(codes[1], BIDE_OK);
    stage_free(stage);
}

static void run_from_a_callback(bide_op *op)
{
    codes[0] = bide_run(op->user, "t", stage_play, NULL);
}

static void the_simple_form_is_refused_in_a_completion_callback(void **state)
{
    (void)state;
    struct puppet *puppet = puppet_new();
    bide_cq *cq;
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    puppet_rule(puppet, BIDE_OP_PING, THROUGH_CQ, BIDE_OK);
    bide_op op = {
        .kind = BIDE_OP_PING, .cq = cq, .done = run_from_a_callback, .user = &puppet->queue};
    bide_op *const list[1] = {&op};
    assert_int_equal(bide_submit(&puppet->queue, list, 1), 1);
    assert_int_equal(bide_cq_wait(cq, BIDE_FOREVER), 1);
    assert_int_equal(codes[0], BIDE_ECALLBACK);
    bide_cq_free(cq);
    puppet_free(puppet);
}

/* ---- taking ---- */

static void a_queue_that_gives_no_jobs_is_told_once_and_when_it_does_again(void **state)
{
    (void)state;
    struct stage *stage = stage_new(3);
    puppet_rule(stage->puppet, BIDE_OP_RESERVE, AT_ONCE, BIDE_EIO);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    assert_int_equal(stage_await(stage, BIDE_WORK_STARVED, 0).code, BIDE_EIO);
    puppet_await(stage->puppet, BIDE_OP_RESERVE, 0, 6);
    assert_int_equal(stage_count(stage, BIDE_WORK_STARVED, 0), 1);
    assert_int_equal(stage_count(stage, BIDE_WORK_FED, 0), 0);
    puppet_rule(stage->puppet, BIDE_OP_RESERVE, HELD, BIDE_OK);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){0});
    stage_await(stage, BIDE_WORK_FED, 0);
    stage_await(stage, BIDE_WORK_DONE, 1);
    stage_free(stage);
}

static void no_job_is_begun_while_as_many_answers_are_owed_as_there_are_threads(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    for (uint64_t id = 1; id <= 3; id++)
        puppet_give(stage->puppet, puppet_job(id, TTR_MS));
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    /* The second was taken together with the answer to the first. */
    stage_await(stage, BIDE_WORK_OWED, 1);
    stage_await(stage, BIDE_WORK_OWED, 2);
    puppet_await(stage->puppet, BIDE_OP_DELETE, 1, 4);
    assert_int_equal(stage_count(stage, BIDE_WORK_STARTED, 3), 0);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, AT_ONCE, BIDE_OK);
    for (uint64_t id = 1; id <= 3; id++)
        stage_await(stage, BIDE_WORK_DONE, id);
    stage_free(stage);
}

static void an_answer_that_fails_is_owed_before_the_next_handler_returns(void **state)
{
    (void)state;
    struct stage *stage = stage_start(1);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, HELD, BIDE_OK);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){0});
    stage_give(stage, puppet_job(2, TTR_MS), staying);
    puppet_await(stage->puppet, BIDE_OP_DELETE, 1, 1);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, AT_ONCE, BIDE_OK);
    assert_true(puppet_let_go(stage->puppet, BIDE_OP_DELETE, BIDE_EFULL));
    assert_int_equal(stage_await(stage, BIDE_WORK_OWED, 1).code, BIDE_EFULL);
    stage_await(stage, BIDE_WORK_DONE, 1);
    assert_int_equal(stage_count(stage, BIDE_WORK_DONE, 2), 0);
    stage_end(stage);
}

static void a_job_that_comes_when_it_stops_is_given_back_unbegun(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    stage->puppet->serves_cancelled = true;
    puppet_rule(stage->puppet, BIDE_OP_SUBSCRIBE, AT_ONCE, BIDE_ENOTSUP);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    puppet_await(stage->puppet, BIDE_OP_RESERVE, 0, 1);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){0});
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_GIVE_BACK, 1), 1);
    assert_int_equal(stage_count(stage, BIDE_WORK_STARTED, 1), 0);
    assert_int_equal(stage_count(stage, BIDE_WORK_INTERRUPTED, 1), 1);
    stage_free(stage);
}

static void what_was_told_of_one_job_is_not_told_of_the_next(void **state)
{
    (void)state;
    struct stage *stage = stage_start(1);
    puppet_await(stage->puppet, BIDE_OP_EVENTS, 0, 1);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){.waits = true, .say = retry});
    stage_await_begin(stage, 1);
    assert_true(puppet_tell(stage->puppet, 1, 0));
    stage_await(stage, BIDE_WORK_CANCELLED, 1);
    puppet_await(stage->puppet, BIDE_OP_RESERVE, 0, 2);
    stage->puppet->serves_cancelled = true;
    stage_give(stage, puppet_job(2, TTR_MS), (struct role){0});
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(stage_count(stage, BIDE_WORK_CANCELLED, 2), 0);
    assert_int_equal(stage_count(stage, BIDE_WORK_INTERRUPTED, 2), 1);
    stage_free(stage);
}

static void a_queue_that_is_shut_down_ends_the_run(void **state)
{
    (void)state;
    struct stage *stage = stage_new(4);
    assert_int_equal(bide_shutdown(&stage->puppet->queue), BIDE_OK);
    assert_int_equal(bide_worker_run(stage->worker), BIDE_OK);
    assert_int_equal(bide_run(&stage->puppet->queue, "t", stage_play, stage), BIDE_OK);
    stage_free(stage);
}

/* ---- stopping ---- */

static void a_handler_that_returns_when_told_to_stop_gives_its_job_back(void **state)
{
    (void)state;
    struct stage *stage = stage_start_hasty(2);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){.waits = true, .say = retry});
    stage_give(stage, puppet_job(2, TTR_MS), waiting);
    stage_await_begin(stage, 1);
    stage_await_begin(stage, 2);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(stage_reason(stage, 1), BIDE_REASON_STOPPING);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_GIVE_BACK, 1), 1);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_FAIL, 0), 0);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_DELETE, 2), 1);
    assert_int_equal(stage_count(stage, BIDE_WORK_INTERRUPTED, 1), 1);
    assert_int_equal(stage_count(stage, BIDE_WORK_DONE, 2), 1);
    stage_free(stage);
}

static void a_handler_that_does_not_return_loses_its_job(void **state)
{
    (void)state;
    struct stage *stage = stage_start_hasty(1);
    stage_give(stage, puppet_job(1, TTR_MS), staying);
    stage_await_begin(stage, 1);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_TIMED_OUT);
    assert_int_equal(stage_count(stage, BIDE_WORK_INTERRUPTED, 1), 1);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_EBUSY);
    assert_int_equal(bide_worker_handle(stage->worker, "a", stage_play, NULL), BIDE_EBUSY);
    stage_let_go(stage, 1);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_GIVE_BACK, 1), 1);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_DELETE, 1), 0);
    assert_int_equal(stage_count(stage, BIDE_WORK_DONE, 1), 0);
    stage_give(stage, puppet_job(2, TTR_MS), (struct role){0});
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    stage_await(stage, BIDE_WORK_DONE, 2);
    stage_free(stage);
}

static void a_queue_that_never_answers_does_not_keep_a_stop_from_returning(void **state)
{
    (void)state;
    struct stage *stage = stage_start_hasty(1);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, HELD, BIDE_OK);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){0});
    puppet_await(stage->puppet, BIDE_OP_DELETE, 1, 1);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_TIMED_OUT);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_EBUSY);
    assert_true(puppet_let_go(stage->puppet, BIDE_OP_DELETE, BIDE_OK));
    stage_free(stage);
}

static void a_keeper_whose_ops_stay_out_does_not_keep_a_stop_from_returning(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    puppet_rule(stage->puppet, BIDE_OP_PING, HELD, BIDE_OK);
    puppet_rule(stage->puppet, BIDE_OP_UNSUBSCRIBE, HELD, BIDE_OK);
    stage->worker->options.stop_timeout_ms = 50;
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    puppet_await(stage->puppet, BIDE_OP_EVENTS, 0, 1);
    puppet_await(stage->puppet, BIDE_OP_PING, 0, 1);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_TIMED_OUT);
    puppet_await(stage->puppet, BIDE_OP_UNSUBSCRIBE, 0, 1);
    assert_true(puppet_let_go(stage->puppet, BIDE_OP_UNSUBSCRIBE, BIDE_OK));
    assert_true(puppet_let_go(stage->puppet, BIDE_OP_PING, BIDE_OK));
    stage_free(stage);
}

static _Atomic bool subscribes;

/* Stands in a subscribe until the keeper is told to end. */
static void await_quit(struct puppet *puppet, bide_op_kind kind)
{
    const bide_worker *worker = puppet->user;
    if (kind == BIDE_OP_SUBSCRIBE)
        atomic_store(&subscribes, true);
    while (kind == BIDE_OP_SUBSCRIBE && !atomic_load(&worker->keeper.quit))
        usleep(1000);
}

static void a_feed_that_comes_when_the_keeper_ends_is_given_back(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    stage->puppet->user = stage->worker;
    stage->puppet->before = await_quit;
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    while (!atomic_load(&subscribes))
        usleep(1000);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_SUBSCRIBE, 0), 1);
    assert_int_equal(puppet_count(stage->puppet, BIDE_OP_UNSUBSCRIBE, 0), 1);
    stage_free(stage);
}

static void *give_feed(void *arg)
{
    struct stage *stage = arg;
    while (!atomic_load(&stage->worker->keeper.quit))
        usleep(1000);
    puppet_let_go(stage->puppet, BIDE_OP_SUBSCRIBE, BIDE_OK);
    return NULL;
}

static void a_feed_that_comes_late_is_given_back_and_the_keeper_ends(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    pthread_t thread;
    puppet_rule(stage->puppet, BIDE_OP_SUBSCRIBE, HELD, BIDE_OK);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    puppet_await(stage->puppet, BIDE_OP_SUBSCRIBE, 0, 1);
    assert_int_equal(pthread_create(&thread, NULL, give_feed, stage), 0);
    bide_worker_stop(stage->worker);
    pthread_join(thread, NULL);
    stage_free(stage);
}

static void *stop_worker(void *arg)
{
    struct stage *stage = arg;
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    return NULL;
}

static void it_may_be_stopped_by_several_at_once_and_started_again(void **state)
{
    (void)state;
    struct stage *stage = stage_new(3);
    pthread_t threads[4];
    for (uint64_t round = 1; round <= 20; round++) {
        assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
        stage_give(stage, puppet_job(round, TTR_MS), (struct role){0});
        stage_await(stage, BIDE_WORK_STARTED, round);
        for (size_t i = 0; i < COUNT_OF(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, stop_worker, stage), 0);
        for (size_t i = 0; i < COUNT_OF(threads); i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(stage_count(stage, BIDE_WORK_DONE, round), 1);
    }
    stage_free(stage);
}

static void what_is_owed_when_it_stops_is_given_up_and_told(void **state)
{
    (void)state;
    struct stage *stage = stage_start_hasty(1);
    puppet_rule(stage->puppet, BIDE_OP_DELETE, AT_ONCE, BIDE_EIO);
    stage_give(stage, puppet_job(1, TTR_MS), (struct role){0});
    stage_await(stage, BIDE_WORK_OWED, 1);
    assert_int_equal(bide_worker_stop(stage->worker), BIDE_OK);
    assert_int_equal(stage_count(stage, BIDE_WORK_GIVEN_UP, 1), 1);
    stage_free(stage);
}

/* ---- health ---- */

struct health {
    struct stage *stage;
    _Atomic int good, late;
    _Atomic int stop_code;
};

static void on_health(void *user, int code, const char *text)
{
    struct health *health = user;
    atomic_fetch_add(&health->good, code == BIDE_OK);
    atomic_fetch_add(&health->late, code == BIDE_TIMED_OUT);
    assert_true(code == BIDE_OK || text[0] != 0);
    atomic_store(&health->stop_code, bide_worker_stop(health->stage->worker));
}

static void its_health_is_told_and_a_queue_that_is_silent_is_not_well(void **state)
{
    (void)state;
    struct stage *stage = stage_new(1);
    struct health health = {.stage = stage};
    bide_worker_options *options = &stage->worker->options;
    options->health = on_health;
    options->event = NULL;
    options->user = &health;
    options->health_interval_ms = 5;
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    while (atomic_load(&health.good) < 2)
        usleep(1000);
    puppet_rule(stage->puppet, BIDE_OP_PING, HELD, BIDE_OK);
    while (atomic_load(&health.late) < 2)
        usleep(1000);
    puppet_rule(stage->puppet, BIDE_OP_PING, AT_ONCE, BIDE_OK);
    int good = atomic_load(&health.good);
    assert_true(puppet_let_go(stage->puppet, BIDE_OP_PING, BIDE_OK));
    while (atomic_load(&health.good) < good + 2)
        usleep(1000);
    assert_int_equal(atomic_load(&health.stop_code), BIDE_ECALLBACK);
    stage_free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(a_topic_has_one_handler_and_a_name_that_is_one),
        cmocka_unit_test(many_topics_are_found_by_name_and_kept_in_order),
        cmocka_unit_test(weights_and_middleware_have_their_limits),
        cmocka_unit_test(nothing_is_registered_while_it_runs),
        cmocka_unit_test(a_worker_without_handlers_does_not_start),
        cmocka_unit_test(a_handler_cannot_start_stop_or_free_its_worker),
        cmocka_unit_test(an_event_may_make_it_quit_but_not_stop_it),
        cmocka_unit_test(the_simple_form_is_refused_in_a_completion_callback),
        cmocka_unit_test(a_queue_that_gives_no_jobs_is_told_once_and_when_it_does_again),
        cmocka_unit_test(no_job_is_begun_while_as_many_answers_are_owed_as_there_are_threads),
        cmocka_unit_test(an_answer_that_fails_is_owed_before_the_next_handler_returns),
        cmocka_unit_test(a_job_that_comes_when_it_stops_is_given_back_unbegun),
        cmocka_unit_test(what_was_told_of_one_job_is_not_told_of_the_next),
        cmocka_unit_test(a_queue_that_is_shut_down_ends_the_run),
        cmocka_unit_test(a_handler_that_returns_when_told_to_stop_gives_its_job_back),
        cmocka_unit_test(a_handler_that_does_not_return_loses_its_job),
        cmocka_unit_test(a_queue_that_never_answers_does_not_keep_a_stop_from_returning),
        cmocka_unit_test(a_keeper_whose_ops_stay_out_does_not_keep_a_stop_from_returning),
        cmocka_unit_test(a_feed_that_comes_when_the_keeper_ends_is_given_back),
        cmocka_unit_test(a_feed_that_comes_late_is_given_back_and_the_keeper_ends),
        cmocka_unit_test(it_may_be_stopped_by_several_at_once_and_started_again),
        cmocka_unit_test(what_is_owed_when_it_stops_is_given_up_and_told),
        cmocka_unit_test(its_health_is_told_and_a_queue_that_is_silent_is_not_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
