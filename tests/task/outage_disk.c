/* SPDX-License-Identifier: MIT */
/*
 * outage_disk.c - a handler answers while the disk of the queue takes nothing.
 */
#include "../fault/vfs.h"
#include "outage.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

static struct relayed_worker relayed_worker;

/* A queue in a file, whose worker is the test's own: it has no other way to it. */
static void begin(unsigned threads)
{
    vfs_install();
    vfs_skip_syncs(true);
    relayed_worker = relayed_worker_start(url_of("jobs.db", ""), threads, 0);
    queue = relayed_worker.queue;
}

static void fail_disk(int code, int system)
{
    const struct vfs_fault fault = {VFS_WRITE, "", 1, 0, code, system};
    vfs_fail(&fault);
}

/* The answer is owed while every write fails, and arrives when none does. */
static void deferred_and_reported(int code, int system, int reported_code)
{
    begin(2);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    fail_disk(code, system);
    open_gate("a");
    UNTIL(event_log_count("deferred", id) == 1);
    EQ(event_log_get("deferred", id, 0).code, reported_code);
    unsigned failed = vfs_failed();
    UNTIL(vfs_failed() > failed);
    EQ(event_log_count("done", id), 0);
    vfs_clear_faults();
    UNTIL(event_log_count("done", id) == 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    EQ(event_log_count("began", id), 1);
    EQ(event_log_count("deferred", id), 1);
    EQ(event_log_count("lost", id) + event_log_count("given-up", id), 0);
    relayed_worker_stop(&relayed_worker);
}

static void ack_rejected_by_a_full_disk_is_retried(void)
{
    deferred_and_reported(SQLITE_FULL, ENOSPC, BIDE_EFULL);
}

static void ack_rejected_by_a_failing_disk_is_retried(void)
{
    deferred_and_reported(SQLITE_IOERR_WRITE, EIO, BIDE_EIO);
}

static void job_runs_again_after_a_full_disk_outlasts_its_lease(void)
{
    begin(2);
    bide_put_options options = with_ttr(1000);
    uint64_t id = put_job("work", "hold a", &options);
    UNTIL(event_log_count("began", id) == 1);
    int64_t end_us = lease_end_us(id);
    fail_disk(SQLITE_FULL, ENOSPC);
    open_gate("a");
    UNTIL(event_log_count("given-up", id) + event_log_count("lost", id) == 1);
    CHECK(clock_us() >= end_us);
    vfs_clear_faults();
    UNTIL(event_log_count("done", id) == 1);
    CHECK(event_log_count("began", id) >= 2);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
}

/* A stop waits for what is owed. */
static void a_stop_waits_for_the_disk(void)
{
    begin(1);
    uint64_t id = put_job("work", "", NULL);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    fail_disk(SQLITE_FULL, ENOSPC);
    open_gate("a");
    UNTIL(event_log_count("deferred", id) == 1);
    OK(bide_worker_quit(relayed_worker.worker));
    vfs_clear_faults();
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("done", id), 1);
    queue = open_jobs("");
    EQ(state_now(id), BIDE_STATE_GONE);
    OK(bide_close(queue));
}

/* ---- many ---- */

enum { JOBS = 5000, THREADS = 4 };

/* Taking a job writes nothing, so that it is the worker's own choice not to take more than it can
 * answer for. */
static void deferred_acks_limit_the_reserved_jobs(void)
{
    static const bide_put_item item = {.topic = {"work", 4}, .body = {"", 0}};
    static bide_put_item items[1000];
    begin(THREADS);
    OK(bide_pause(queue, "work", BIDE_FOREVER));
    for (int i = 0; i < JOBS; i += (int)COUNT(items)) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = item;
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    OK(bide_resume(queue, "work"));
    fail_disk(SQLITE_FULL, ENOSPC);
    UNTIL(event_log_count("deferred", 0) >= 2 * THREADS || counts_now().ready == 0);
    size_t begun;
    do {
        begun = event_log_count("began", 0);
        nap_ms(1000);
    } while (event_log_count("began", 0) > begun);
    /* A few may have been done before the disk was full. */
    CHECK(begun - event_log_count("done", 0) <= 4 * THREADS);
    vfs_clear_faults();
    UNTIL(counts_now().ready + counts_now().reserved == 0);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("given-up", 0) + event_log_count("lost", 0), 0);
    EQ(event_log_count("done", 0), JOBS);
    EQ(event_log_count("began", 0), JOBS);
}

static const struct test tests[] = {
    TEST(ack_rejected_by_a_full_disk_is_retried),
    TEST(ack_rejected_by_a_failing_disk_is_retried),
    TEST(job_runs_again_after_a_full_disk_outlasts_its_lease),
    TEST(a_stop_waits_for_the_disk),
    TEST(deferred_acks_limit_the_reserved_jobs),
};
const struct theme disk_theme = {"outage_disk", tests, COUNT(tests)};
