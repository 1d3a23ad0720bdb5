/* SPDX-License-Identifier: MIT */
/*
 * away_disk.c - a handler answers while the disk of the queue takes nothing.
 */
#include "../fault/vfs.h"
#include "away.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

static struct away away;

/* A queue in a file, whose worker is the test's own: it has no other way to it. */
static void begin(unsigned threads)
{
    vfs_install();
    vfs_skip_syncs(true);
    away = away_begin(url_of("jobs.db", ""), threads, 0);
    queue = away.queue;
}

static void spoil(int code, int system)
{
    const struct vfs_fault fault = {VFS_WRITE, "", 1, 0, code, system};
    vfs_fail(&fault);
}

/* The answer is owed while every write fails, and arrives when none does. */
static void owed_and_told(int code, int system, int told)
{
    begin(2);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(diary_count("began", id) == 1);
    spoil(code, system);
    open_gate("a");
    UNTIL(diary_count("owed", id) == 1);
    EQ(diary_get("owed", id, 0).code, told);
    unsigned failed = vfs_failed();
    UNTIL(vfs_failed() > failed);
    EQ(diary_count("done", id), 0);
    vfs_heal();
    UNTIL(diary_count("done", id) == 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    EQ(diary_count("began", id), 1);
    EQ(diary_count("owed", id), 1);
    EQ(diary_count("lost", id) + diary_count("given-up", id), 0);
    away_end(&away);
}

static void an_answer_that_a_full_disk_refuses_arrives_when_there_is_room(void)
{
    owed_and_told(SQLITE_FULL, ENOSPC, BIDE_EFULL);
}

static void an_answer_that_a_broken_disk_refuses_arrives_when_it_is_mended(void)
{
    owed_and_told(SQLITE_IOERR_WRITE, EIO, BIDE_EIO);
}

static void a_disk_that_is_full_for_longer_than_the_lease_has_the_job_done_again(void)
{
    begin(2);
    bide_put_options options = lasting(1000);
    uint64_t id = put_job("work", "hold a", &options);
    UNTIL(diary_count("began", id) == 1);
    int64_t end_us = lease_end_us(id);
    spoil(SQLITE_FULL, ENOSPC);
    open_gate("a");
    UNTIL(diary_count("given-up", id) + diary_count("lost", id) == 1);
    CHECK(clock_us() >= end_us);
    vfs_heal();
    UNTIL(diary_count("done", id) == 1);
    CHECK(diary_count("began", id) >= 2);
    EQ(state_now(id), BIDE_STATE_GONE);
    away_end(&away);
}

/* A stop waits for what is owed. */
static void a_stop_waits_for_the_disk(void)
{
    begin(1);
    uint64_t id = put_job("work", "", NULL);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    id = put_job("work", "hold a", NULL);
    UNTIL(diary_count("began", id) == 1);
    spoil(SQLITE_FULL, ENOSPC);
    open_gate("a");
    UNTIL(diary_count("owed", id) == 1);
    OK(bide_worker_quit(away.worker));
    vfs_heal();
    away_end(&away);
    EQ(diary_count("done", id), 1);
    queue = open_jobs("");
    EQ(state_now(id), BIDE_STATE_GONE);
    OK(bide_close(queue));
}

/* ---- many ---- */

enum { JOBS = 5000, THREADS = 4 };

/* Taking a job writes nothing, so that it is the worker's own choice not to take more than it can
 * answer for. */
static void while_answers_are_owed_only_so_many_jobs_are_taken(void)
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
    spoil(SQLITE_FULL, ENOSPC);
    UNTIL(diary_count("owed", 0) >= 2 * THREADS || counts_now().ready == 0);
    size_t begun;
    do {
        begun = diary_count("began", 0);
        nap_ms(1000);
    } while (diary_count("began", 0) > begun);
    /* A few may have been done before the disk was full. */
    CHECK(begun - diary_count("done", 0) <= 4 * THREADS);
    vfs_heal();
    UNTIL(counts_now().ready + counts_now().reserved == 0);
    away_end(&away);
    EQ(diary_count("given-up", 0) + diary_count("lost", 0), 0);
    EQ(diary_count("done", 0), JOBS);
    EQ(diary_count("began", 0), JOBS);
}

static const struct test tests[] = {
    TEST(an_answer_that_a_full_disk_refuses_arrives_when_there_is_room),
    TEST(an_answer_that_a_broken_disk_refuses_arrives_when_it_is_mended),
    TEST(a_disk_that_is_full_for_longer_than_the_lease_has_the_job_done_again),
    TEST(a_stop_waits_for_the_disk),
    TEST(while_answers_are_owed_only_so_many_jobs_are_taken),
};
const struct theme disk_theme = {"disk", tests, COUNT(tests)};
