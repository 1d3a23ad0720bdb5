/* SPDX-License-Identifier: MIT */
/* recovered.c - waiting for the loading to end, and being told how far it has come. */
#include "backlog.h"

#include <string.h>

#define CROWD_ALL (BACKLOG_JOBS + BACKLOG_SPOTS * (BACKLOG_KINDS - 1))

#define SENSIBLE(progress, total) sensible(HERE, (progress), (total))
static void sensible(struct where at, const bide_recovery *progress, uint64_t total)
{
    check_between(at, progress->phase, BIDE_PHASE_COUNTING, BIDE_PHASE_RECOVERED, "the phase");
    check_true(at, progress->total == 0 || progress->total == total, "the total");
    check_true(at, progress->loaded + progress->failed <= total, "no more jobs than there are");
    check_equal(at, (int64_t)progress->failed, 0, "rows that cannot be read");
    if (progress->phase != BIDE_PHASE_RECOVERED)
        return;
    check_equal(at, (int64_t)progress->loaded, (int64_t)total, "loaded in the end");
    check_equal(at, (int64_t)progress->total, (int64_t)total, "the total in the end");
}

static void a_wait_for_the_end_of_the_loading_ends_with_it(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_recovery progress;
    memset(&progress, 0x5a, sizeof progress);
    OK(bide_wait_recovered(queue, BIDE_FOREVER, &progress));
    EQ(progress.phase, BIDE_PHASE_RECOVERED);
    SENSIBLE(&progress, CROWD_ALL);
    OK(bide_wait_recovered(queue, 0, NULL));
    OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void wait_recovered_times_out_with_progress(void)
{
    struct backlog *backlog = new_backlog();
    for (int64_t timeout_ms = 0; timeout_ms < 3; timeout_ms++) {
        bide *queue = open_backlog(backlog);
        bide_recovery last = {0};
        int code = BIDE_TIMED_OUT;
        int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
        while (code == BIDE_TIMED_OUT && clock_us() < limit_us) {
            bide_recovery progress = {0};
            code = bide_wait_recovered(queue, timeout_ms, &progress);
            SENSIBLE(&progress, CROWD_ALL);
            CHECK(progress.phase >= last.phase && progress.loaded >= last.loaded);
            last = progress;
        }
        OK(code);
        EQ(last.phase, BIDE_PHASE_RECOVERED);
        leave_queue(queue);
    }
}

static void a_queue_without_jobs_recovers_too(void)
{
    bide *queue = open_queue("");
    bide_recovery progress;
    memset(&progress, 0x5a, sizeof progress);
    OK(bide_wait_recovered(queue, BIDE_FOREVER, &progress));
    EQ(progress.phase, BIDE_PHASE_RECOVERED);
    SENSIBLE(&progress, 0);
    put(queue, fresh_topic("a"), "body");
    OK(bide_wait_recovered(queue, 0, &progress));
    queue = reopen(queue, "");
    OK(bide_wait_recovered(queue, BIDE_FOREVER, &progress));
    SENSIBLE(&progress, 1);
}

/* ---- the callback ---- */

static struct told {
    pthread_mutex_t lock;
    bide_recovery last;
    unsigned calls;
    unsigned seen[BIDE_PHASE_RECOVERED + 1];
    uint64_t total;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *user, const bide_recovery *progress)
{
    CHECK(user == &told);
    pthread_mutex_lock(&told.lock);
    SENSIBLE(progress, told.total);
    CHECK(progress->phase >= told.last.phase);
    CHECK(progress->loaded >= told.last.loaded);
    told.last = *progress;
    told.calls++;
    told.seen[progress->phase]++;
    pthread_mutex_unlock(&told.lock);
}

static bool told_the_end(void)
{
    pthread_mutex_lock(&told.lock);
    bool end = told.last.phase == BIDE_PHASE_RECOVERED;
    pthread_mutex_unlock(&told.lock);
    return end;
}

static void forget_what_was_told(uint64_t total)
{
    memset(&told.last, 0, sizeof told.last);
    memset(told.seen, 0, sizeof told.seen);
    told.calls = 0;
    told.total = total;
}

static void phases_are_reported_in_order_and_the_end_once(void)
{
    struct backlog *backlog = new_backlog();
    bide_options options = BIDE_OPTIONS_INIT;
    options.recovery = hear;
    options.recovery_user = &told;
    for (int round = 0; round < 3; round++) {
        forget_what_was_told(CROWD_ALL);
        bide *queue = open_location_with(backlog->location, "", &options);
        OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
        if (is_in_process())
            UNTIL(told_the_end());
        BACKLOG_IS_WHOLE(backlog, queue);
        leave_queue(queue);
        EQ(told.seen[BIDE_PHASE_RECOVERED], is_in_process());
        if (!is_in_process())
            continue;
        CHECK(told.seen[BIDE_PHASE_LOADING] >= 1);
        EQ(told.last.loaded + told.last.failed, CROWD_ALL);
    }
}

static void no_progress_is_reported_after_close(void)
{
    struct backlog *backlog = new_backlog();
    bide_options options = BIDE_OPTIONS_INIT;
    options.recovery = hear;
    options.recovery_user = &told;
    for (int round = 0; round < 10; round++) {
        forget_what_was_told(CROWD_ALL);
        bide *queue = open_location_with(backlog->location, "", &options);
        nap_ms(round % 5);
        leave_queue(queue);
        unsigned calls = told.calls;
        nap_ms(2);
        EQ(told.calls, calls);
        CHECK(told.seen[BIDE_PHASE_RECOVERED] <= 1);
    }
}

/* ---- waiting while the end comes ---- */

static void *wait_for_the_end(void *arg)
{
    bide_recovery progress = {0};
    int code = bide_wait_recovered(arg, BIDE_FOREVER, &progress);
    CHECK(code == BIDE_OK || code == BIDE_CLOSED);
    CHECK(code == BIDE_CLOSED || progress.phase == BIDE_PHASE_RECOVERED);
    return NULL;
}

static void shutdown_completes_waits_for_recovery(void)
{
    struct backlog *backlog = new_backlog();
    for (int round = 0; round < 5; round++) {
        bide *queue = open_backlog(backlog);
        pthread_t threads[3];
        for (size_t i = 0; i < COUNT(threads); i++)
            threads[i] = start_thread(wait_for_the_end, queue);
        OK(bide_shutdown(queue));
        for (size_t i = 0; i < COUNT(threads); i++)
            join_thread(threads[i]);
        leave_queue(queue);
    }
}

static void wait_recovered_can_be_submitted_as_an_op(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    for (int round = 0; round < 6; round++) {
        bide *queue = open_backlog(backlog);
        struct waiter *waiter = new_op(BIDE_OP_RECOVERED, cq);
        waiter->op.recovered.timeout_ms = BIDE_FOREVER;
        bide_op *ops[] = {&waiter->op};
        int pending = bide_submit(queue, ops, 1);
        BETWEEN(pending, 0, 1);
        if (round % 3 == 1 && pending == 1)
            EQ(bide_cancel_op(queue, &waiter->op), BIDE_OK);
        if (round % 3 == 2)
            leave_queue(queue);
        UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
        int code = waiter->op.status;
        CHECK(code == BIDE_OK || (round % 3 == 1 && code == BIDE_CANCELLED) ||
              (round % 3 == 2 && code == BIDE_CLOSED));
        if (code == BIDE_OK)
            SENSIBLE(&waiter->op.recovered.progress, CROWD_ALL);
        EQ(waiter->calls, pending);
        if (round % 3 != 2)
            leave_queue(queue);
    }
}

static const struct test tests[] = {
    TEST(a_wait_for_the_end_of_the_loading_ends_with_it),
    TEST(wait_recovered_times_out_with_progress),
    TEST(a_queue_without_jobs_recovers_too),
    TEST(phases_are_reported_in_order_and_the_end_once),
    TEST(no_progress_is_reported_after_close),
    TEST(shutdown_completes_waits_for_recovery),
    TEST(wait_recovered_can_be_submitted_as_an_op),
};

const struct theme recovered_theme = {"recovered", tests, COUNT(tests)};
