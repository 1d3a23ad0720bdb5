/* SPDX-License-Identifier: MIT */
/* check_call.c - the check of what is stored: in a queue that is well there is nothing to find. */
#include "backlog.h"
#include "chaos.h"

#include <string.h>

#define NOTHING_WRONG(queue, jobs) nothing_wrong(HERE, (queue), (jobs))
static void nothing_wrong(struct where at, bide *queue, uint64_t jobs)
{
    bide_check_report report;
    memset(&report, 0x5a, sizeof report);
    check_code(at, bide_check(queue, &report), BIDE_OK, "bide_check()");
    check_text(at, report.problem, strlen(report.problem), "", "the problem");
    check_equal(at, (int64_t)report.damaged, 0, "damaged rows");
    check_equal(at, (int64_t)report.differences, 0, "differences");
    check_equal(at, (int64_t)report.jobs, (int64_t)jobs, "jobs in order");
}

static void check_of_an_intact_queue_finds_no_damage(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static char body[65535];
    NOTHING_WRONG(queue, 0);
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        put_in(queue, a, (bide_state)state);
    NOTHING_WRONG(queue, 5);
    OK(bide_put(queue, a, body, sizeof body, NULL, NULL));
    OK(bide_put(queue, a, body, 0, NULL, NULL));
    OK(bide_pause(queue, a, BIDE_FOREVER));
    put_key(queue, a, "key");
    NOTHING_WRONG(queue, 8);
    queue = reopen(queue, "");
    NOTHING_WRONG(queue, 8);
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    NOTHING_WRONG(queue, is_in_process() ? 3 : 4); /* the server keeps leases */
}

static uint64_t stored_jobs(bide *queue)
{
    bide_check_report report = {0};
    OK(bide_check(queue, &report));
    return report.jobs;
}

/* Whatever is not written at once must not count as a difference. */
static void check_passes_after_changes_that_are_not_written(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 5;
    uint64_t timed = put_as(queue, a, "body", &options);
    take_job(queue, timed);
    uint64_t held = put(queue, a, "body"), back = put(queue, a, "body");
    OK(bide_touch(queue, held, take_job(queue, held)->token, 0, "half"));
    OK(bide_give_back(queue, back, take_job(queue, back)->token));
    uint64_t soon = put_later(queue, a, 5);
    UNTIL(state_of(queue, timed) == BIDE_STATE_READY);
    UNTIL(state_of(queue, soon) == BIDE_STATE_READY);
    NOTHING_WRONG(queue, 4);
    options.ttr_ms = 0;
    options.max_retries = 3;
    uint64_t limited = put_as(queue, a, "body", &options);
    take_job(queue, limited);
    OK(bide_cancel(queue, limited));
    NOTHING_WRONG(queue, 5);
    queue = reopen(queue, "");
    if (!is_in_process()) {
        EQ(state_of(queue, limited), BIDE_STATE_RESERVED); /* the server keeps leases */
        NOTHING_WRONG(queue, 5);
        return;
    }
    /* The job that was to stop is gone, but what goes by itself is stored a little later. */
    EQ(state_of(queue, limited), BIDE_STATE_GONE);
    UNTIL(stored_jobs(queue) == 4);
    NOTHING_WRONG(queue, 4);
}

static void check_passes_while_jobs_are_loaded(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    NOTHING_WRONG(queue, BACKLOG_JOBS + BACKLOG_SPOTS * (BACKLOG_KINDS - 1));
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void take_some(bide *queue)
{
    for (int i = 0; i < 20; i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.max_retries = i % 3;
        put_as(queue, fresh_topic("a"), "body", &options);
        if (i % 2 == 0)
            take(queue, fresh_topic("a"));
    }
}

static void check_passes_after_a_crash(void)
{
    char location[LOCATION_SIZE];
    fresh_topic("a");
    new_location(location, sizeof location);
    crash_during(location, "", take_some);
    bide *queue = open_location(location, "");
    NOTHING_WRONG(queue, 20);
    queue = reopen(queue, "");
    NOTHING_WRONG(queue, 20);
}

/* ---- while threads work ---- */

enum { WORKERS = 4, STEPS = 1000, CHECKS = 20 };

static struct shop {
    bide *queue;
    unsigned working;
} shop;

static void work_once(const char *topic)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = one_in(2) ? 1 : BIDE_NO_RETRY_LIMIT;
    options.delay_ms = one_in(4) ? 2 : 0;
    options.ttr_ms = one_in(4) ? 1 : 60000;
    bide_job job = {0};
    put_as(shop.queue, topic, "body", &options);
    if (bide_reserve(shop.queue, topic, 0, &job) != BIDE_OK)
        return;
    switch (roll(6)) {
    case 0:
        bide_release(shop.queue, job.id, job.token, BIDE_KEEP, 0);
        break;
    case 1:
        bide_fail(shop.queue, job.id, job.token, "it broke", 1, NULL, NULL);
        break;
    case 2:
        bide_done(shop.queue, job.id, job.token, "result", 6, 5);
        break;
    case 3:
        bide_bury(shop.queue, job.id, job.token, BIDE_KEEP, NULL);
        break;
    default:
        bide_delete(shop.queue, job.id, job.token);
    }
    bide_job_clear(&job);
}

static void *work(void *arg)
{
    dice = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < STEPS; i++)
        work_once(any_topic());
    __atomic_fetch_sub(&shop.working, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void check_passes_while_threads_work(void)
{
    pthread_t threads[WORKERS];
    bide_check_report report = {0};
    shop.queue = open_queue("");
    shop.working = WORKERS;
    for (size_t i = 0; i < WORKERS; i++)
        threads[i] = start_thread(work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < CHECKS; i++) {
        bool last = __atomic_load_n(&shop.working, __ATOMIC_ACQUIRE) == 0;
        OK(bide_check(shop.queue, &report));
        TEXT(report.problem, strlen(report.problem), "");
        EQ(report.damaged, 0);
        EQ(report.differences, 0);
        if (last)
            break;
    }
    for (size_t i = 0; i < WORKERS; i++)
        join_thread(threads[i]);
    bide_stats stats = stats_of(shop.queue);
    OK(bide_check(shop.queue, &report));
    TEXT(report.problem, strlen(report.problem), "");
    /* What is gone is taken out of the file a little later. */
    UNTIL(stored_jobs(shop.queue) <= all_of(&stats.jobs));
}

static void check_can_be_submitted_as_an_op(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    for (int round = 0; round < 2; round++) {
        bide *queue = open_backlog(backlog);
        bide_check_report report;
        struct waiter *waiter = new_op(BIDE_OP_CHECK, cq);
        waiter->op.check.report = &report;
        bide_op *ops[] = {&waiter->op};
        int pending = bide_submit(queue, ops, 1);
        BETWEEN(pending, 0, 1);
        if (round == 1)
            leave_queue(queue);
        UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
        EQ(waiter->calls, pending);
        CHECK(waiter->op.status == BIDE_OK || (round == 1 && waiter->op.status == BIDE_CLOSED));
        if (waiter->op.status == BIDE_OK)
            EQ(report.jobs, BACKLOG_JOBS + BACKLOG_SPOTS * (BACKLOG_KINDS - 1));
        if (round == 0)
            leave_queue(queue);
    }
}

static const struct test tests[] = {
    TEST(check_of_an_intact_queue_finds_no_damage),
    TEST(check_passes_after_changes_that_are_not_written),
    TEST(check_passes_while_jobs_are_loaded),
    TEST(check_passes_after_a_crash),
    TEST(check_passes_while_threads_work),
    TEST(check_can_be_submitted_as_an_op),
};

const struct theme check_call_theme = {"check_call", tests, COUNT(tests)};
