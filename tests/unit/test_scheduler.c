/* SPDX-License-Identifier: MIT */
/* test_scheduler.c - the turns of a scheduler at a queue that replies as the test says. */
#include "schedule/scheduler.h"

#include "stub_backend.h"

#include <semaphore.h>

/* 2026-11-20 00:00:00 UTC */
#define NIGHT INT64_C(1795132800000)

static struct stub *stub;
static bide_scheduler *scheduler;
static _Atomic unsigned warnings;

static void count_warning(void *user, bide_log_level level, const char *text)
{
    (void)user, (void)text;
    warnings += level == BIDE_LOG_WARN;
}

/* Where a find blocks within the submit. */
static struct {
    _Atomic bool closed;
    sem_t entered, leave;
} gate;

static void pass_gate(struct stub *of, bide_op_kind kind)
{
    (void)of;
    if (kind != BIDE_OP_FIND || !gate.closed)
        return;
    sem_post(&gate.entered);
    while (sem_wait(&gate.leave) != 0)
        ;
}

static int set_up(void **state)
{
    (void)state;
    stub = stub_new();
    stub->queue.options.log = count_warning;
    stub->before = pass_gate;
    warnings = 0;
    assert_int_equal(bi_scheduler_start(&stub->queue, NULL, false, &scheduler), BIDE_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(bide_scheduler_stop(scheduler), BIDE_OK);
    stub_free(stub);
    return 0;
}

/* Makes a schedule available that is due, and has failed so often. */
static void add_due(uint64_t id, const char *definition, uint32_t failures)
{
    bide_job job = stub_job(id, 5000);
    job.key = "s";
    job.key_size = 1;
    job.body = definition;
    job.body_size = strlen(definition);
    job.reserved_ms = NIGHT;
    job.failures = failures;
    stub_add_job(stub, job);
}

#define DUE "\"name\":\"s\",\"topic\":\"t\",\"next_at_ms\":1795132800000"

/* ---- overlap ---- */

#define REPLACE "{" DUE ",\"when\":\"every 1h\",\"overlap\":\"replace\",\"key\":\"k\"}"

static void last_job_is_cancelled_before_the_step(void **state)
{
    (void)state;
    add_due(1, REPLACE, 0);
    stub_await(stub, BIDE_OP_FINISH_AND_PUT, 0, 1);
    assert_int_equal(stub_count(stub, BIDE_OP_CANCEL, 0), 1);
}

/* Another scheduler has had the turn meanwhile: the job that holds the key is its job. */
static void scheduler_that_has_lost_its_lease_cancels_no_job(void **state)
{
    (void)state;
    stub_once(stub, BIDE_OP_TOUCH, BIDE_LEASE_LOST);
    add_due(1, REPLACE, 0);
    stub_await(stub, BIDE_OP_RESERVE, 0, 2);
    assert_int_equal(stub_count(stub, BIDE_OP_FIND, 0), 1);
    assert_int_equal(stub_count(stub, BIDE_OP_CANCEL, 0), 0);
    assert_int_equal(stub_count(stub, BIDE_OP_FINISH_AND_PUT, 0), 0);
    assert_int_equal(stub_count(stub, BIDE_OP_FAIL, 0), 0);
    assert_int_equal(stub_count(stub, BIDE_OP_BURY, 0), 0);
}

/* ---- zones ---- */

#define MISSING "{" DUE ",\"when\":\"@hourly\",\"zone\":\"Mars/Olympus\"}"

static void missing_zone_is_tried_again_ever_more_rarely_and_logged_once(void **state)
{
    (void)state;
    static const struct {
        uint32_t failures;
        int64_t retry_in_ms;
    } turns[] = {{0, 1000},   {1, 2000},    {8, 256000},
                 {9, 512000}, {10, 600000}, {4000000000, 600000}};
    for (size_t i = 0; i < COUNT_OF(turns); i++) {
        add_due(i + 1, MISSING, turns[i].failures);
        struct stub_record fail = stub_await(stub, BIDE_OP_FAIL, i + 1, 1);
        assert_int_equal(fail.delay_ms, turns[i].retry_in_ms);
        assert_non_null(strstr(fail.text, "Mars/Olympus"));
    }
    assert_int_equal(stub_count(stub, BIDE_OP_FINISH_AND_PUT, 0), 0);
    assert_int_equal(warnings, 1);
}

/* At most one line per second: a slow machine may need more than one. */
static void many_schedules_of_a_missing_zone_are_logged_together(void **state)
{
    (void)state;
    int64_t began_us = bi_clock_boot();
    for (uint64_t id = 1; id <= 20; id++) {
        add_due(id, MISSING, 0);
        stub_await(stub, BIDE_OP_FAIL, id, 1);
    }
    assert_in_range(warnings, 1, 1 + (bi_clock_boot() - began_us) / 1000000);
}

static void zone_that_cannot_exist_is_buried(void **state)
{
    (void)state;
    static const char *const definitions[] = {
        "{" DUE ",\"when\":\"@hourly\",\"zone\":\"../passwd\"}",
        "{" DUE ",\"when\":\"@hourly\",\"zone\":\"+99:00\"}",
        "{" DUE ",\"when\":\"@hourly\",\"zone\":\"\"}",
        "{" DUE ",\"when\":\"0 0 30 2 *\",\"zone\":\"UTC\"}",
    };
    for (size_t i = 0; i < COUNT_OF(definitions); i++) {
        add_due(i + 1, definitions[i], 0);
        stub_await(stub, BIDE_OP_BURY, i + 1, 1);
    }
    assert_int_equal(stub_count(stub, BIDE_OP_FAIL, 0), 0);
}

static void every_does_not_need_its_zone(void **state)
{
    (void)state;
    add_due(1, "{" DUE ",\"when\":\"every 1h\",\"zone\":\"Mars/Olympus\"}", 0);
    stub_await(stub, BIDE_OP_FINISH_AND_PUT, 0, 1);
}

/* ---- the end ---- */

/* A call of the queue hangs. The process that ends gives up the thread and closes the queue. */
static void patient_scheduler_waits_for_a_notice_while_there_are_no_schedules(void **state)
{
    (void)state;
    assert_int_equal(bide_scheduler_stop(scheduler), BIDE_OK);
    size_t reserves = stub_count(stub, BIDE_OP_RESERVE, 0);

    /* The topic exists, because another scheduler waits for it, and has no jobs. */
    assert_int_equal(bi_scheduler_start(&stub->queue, NULL, true, &scheduler), BIDE_OK);
    stub_await(stub, BIDE_OP_TOPIC_STATS, 0, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(stub_count(stub, BIDE_OP_RESERVE, 0), reserves);

    bi_scheduler_notice(scheduler);
    stub_await(stub, BIDE_OP_RESERVE, 0, reserves + 1);
}

static void abandon_does_not_wait_for_a_call_in_progress(void **state)
{
    (void)state;
    sem_init(&gate.entered, 0, 0);
    sem_init(&gate.leave, 0, 0);
    gate.closed = true;
    add_due(1, REPLACE, 0);
    while (sem_wait(&gate.entered) != 0)
        ;
    bi_scheduler_quit(scheduler);
    assert_false(bi_scheduler_join(scheduler, 0));
    bi_scheduler_abandon(scheduler);
    assert_int_equal(stub->queue.workers, 0);
    assert_int_equal(stub->queue.active_calls > 0, 1); /* bide_close() waits for it */

    gate.closed = false;
    sem_post(&gate.leave);
    stub->queue.workers++; /* the test stops it nevertheless */
    assert_int_equal(bide_scheduler_stop(scheduler), BIDE_OK);
    assert_int_equal(stub->queue.active_calls, 0);
    assert_int_equal(stub_count(stub, BIDE_OP_TOUCH, 0), 0);
    sem_destroy(&gate.entered);
    sem_destroy(&gate.leave);
    scheduler = NULL;
}

static void stop_is_bounded_and_may_be_repeated(void **state)
{
    (void)state;
    bide_scheduler_options options = BIDE_SCHEDULER_OPTIONS_INIT;
    bide_scheduler *other;
    options.stop_timeout_ms = 1;
    stub_rule(stub, BIDE_OP_FINISH_AND_PUT, HELD, BIDE_OK);
    assert_int_equal(bide_scheduler_stop(scheduler), BIDE_OK);
    scheduler = NULL;
    assert_int_equal(bide_scheduler_start(&stub->queue, &options, &other), BIDE_OK);
    add_due(1, "{" DUE ",\"when\":\"every 1h\"}", 0);
    stub_await(stub, BIDE_OP_FINISH_AND_PUT, 0, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(bide_scheduler_stop(other), BIDE_TIMED_OUT);
    assert_int_equal(stub->queue.workers, 1);
    assert_true(stub_release(stub, BIDE_OP_FINISH_AND_PUT, BIDE_OK));
    int code = BIDE_TIMED_OUT;
    for (int i = 0; i < 10000 && code == BIDE_TIMED_OUT; i++)
        code = bide_scheduler_stop(other);
    assert_int_equal(code, BIDE_OK);
    assert_int_equal(stub->queue.workers, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(last_job_is_cancelled_before_the_step),
        TEST(scheduler_that_has_lost_its_lease_cancels_no_job),
        TEST(missing_zone_is_tried_again_ever_more_rarely_and_logged_once),
        TEST(many_schedules_of_a_missing_zone_are_logged_together),
        TEST(zone_that_cannot_exist_is_buried),
        TEST(every_does_not_need_its_zone),
        TEST(patient_scheduler_waits_for_a_notice_while_there_are_no_schedules),
        TEST(abandon_does_not_wait_for_a_call_in_progress),
        TEST(stop_is_bounded_and_may_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
