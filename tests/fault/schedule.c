/* SPDX-License-Identifier: MIT */
/* schedule.c - schedules while the disk fails: no moment is lost, and none has two jobs. */
#include "fault.h"
#include "local_server.h"
#include "vfs.h"

#include "schedule/scheduler.h"

#include <bide/schedule.h>
#include <errno.h>
#include <sqlite3.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND   INT64_C(1000)
#define MOMENTS  30
#define FAULTS_S 2 /* how long the disk fails */

/* The moment of the key "tick@2026-11-20T06:00:00Z". */
static int64_t moment_of(const bide_job *job)
{
    char key[BIDE_KEY_MAX + 1];
    struct tm tm = {0};
    snprintf(key, sizeof key, "%.*s", (int)job->key_size, (const char *)job->key);
    EQ(sscanf(key, "tick@%d-%d-%dT%d:%d:%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
              &tm.tm_min, &tm.tm_sec),
       6);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * SECOND;
}

/* The ids of the jobs by moment. A job whose delete has failed is seen again. */
struct seen {
    int64_t begin_ms;
    uint64_t ids[MOMENTS];
    size_t count;
};

static void look(bide *queue, struct seen *seen)
{
    bide_job job = {0};
    if (bide_reserve(queue, "ticks", 20, &job) != BIDE_OK)
        return;
    int64_t place = (moment_of(&job) - seen->begin_ms) / SECOND;
    CHECK(place >= 0 && place < MOMENTS);
    if (seen->ids[place] == 0) {
        seen->ids[place] = job.id;
        seen->count++;
    }
    EQ(job.id, seen->ids[place]);
    bide_delete(queue, job.id, job.token);
    bide_job_clear(&job);
}

/* Moments that are past, this second's, and some that come: all of them have a turn while commits
 * fail, or are made up for. */
static void put_schedule(bide *queue, const struct seen *seen)
{
    char body[400];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice_of("tick");
    options.ttr_ms = 500; /* shorter than that of a scheduler: the test waits for its end */
    snprintf(
        body, sizeof body,
        "{\"name\":\"tick\",\"when\":\"every 1s\",\"topic\":\"ticks\",\"ttr_ms\":300,\"misfire\":"
        "\"all\",\"misfire_max\":1000,\"next_at_ms\":%lld,\"end_at_ms\":%lld}",
        (long long)seen->begin_ms, (long long)(seen->begin_ms + MOMENTS * SECOND));
    OK(bide_put(queue, BIDE_SCHEDULE_TOPIC, body, strlen(body), &options, NULL));
}

static void each_moment_has_one_job_although_commits_fail(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    bide_scheduler *schedulers[2];
    struct seen seen = {.begin_ms = (wall_ms() / SECOND - MOMENTS + FAULTS_S) * SECOND};
    put_schedule(queue, &seen);
    vfs_fail_at_random(7, 100);
    for (size_t i = 0; i < COUNT(schedulers); i++)
        OK(bide_scheduler_start(queue, NULL, &schedulers[i]));
    int64_t end_us = clock_us() + FAULTS_S * 1000000;
    while (clock_us() < end_us)
        look(queue, &seen);
    vfs_clear_faults();
    CHECK(vfs_failed() > 0);
    int64_t limit_us = clock_us() + 60 * INT64_C(1000000);
    while (seen.count < MOMENTS) {
        CHECK(clock_us() < limit_us);
        look(queue, &seen);
    }
    bide_schedule *schedule = NULL;
    UNTIL(bide_schedule_get(queue, "tick", &schedule) == BIDE_OK);
    EQ(schedule->made, MOMENTS);
    bide_schedule_free(schedule);
    for (size_t i = 0; i < COUNT(schedulers); i++)
        OK(bide_scheduler_stop(schedulers[i]));
    OK(bide_close(queue));
}

static void full_disk_delays_moments_and_loses_none(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    bide_scheduler *scheduler;
    struct seen seen = {.begin_ms = (wall_ms() / SECOND - MOMENTS) * SECOND};
    OK(bide_scheduler_start(queue, NULL, &scheduler));
    put_schedule(queue, &seen);
    struct vfs_fault full = {
        .call = VFS_WRITE, .nth = 1, .times = 0, .code = SQLITE_FULL, .system = ENOSPC};
    vfs_fail(&full);
    for (int i = 0; i < 20; i++)
        look(queue, &seen);
    vfs_clear_faults();
    int64_t limit_us = clock_us() + 60 * INT64_C(1000000);
    while (seen.count < MOMENTS) {
        CHECK(clock_us() < limit_us);
        look(queue, &seen);
    }
    OK(bide_scheduler_stop(scheduler));
    OK(bide_close(queue));
}

/* The disk does not answer. The scheduler has begun a step, which ends when the disk goes on. */
static void stop_is_bounded_while_the_disk_hangs(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    bide_scheduler_options options = BIDE_SCHEDULER_OPTIONS_INIT;
    bide_scheduler *scheduler;
    struct seen seen = {.begin_ms = (wall_ms() / SECOND - MOMENTS) * SECOND};
    options.stop_timeout_ms = 1;
    put_schedule(queue, &seen);
    vfs_hold_syncs(true);
    OK(bide_scheduler_start(queue, &options, &scheduler));
    UNTIL(vfs_held_syncs() > 0);
    EQ(bide_scheduler_stop(scheduler), BIDE_TIMED_OUT);
    EQ(bide_close(queue), BIDE_EBUSY);
    vfs_hold_syncs(false);
    UNTIL(bide_scheduler_stop(scheduler) == BIDE_OK);
    OK(bide_close(queue));
}

#ifdef FAULT_SERVER
static uint64_t ready_ticks(bide *queue)
{
    bide_topic_stats stats;
    return bide_topic_get_stats(queue, "ticks", &stats) == BIDE_OK ? stats.jobs.ready : 0;
}

/* The event loop of a server commits what it has submitted itself. The steps of a schedule, of which
 * each waits for the commit of the one before it, do not wait for clients. */
static void steps_at_an_idle_server_do_not_wait_for_clients(void)
{
    enum { JOBS = 400, BODY = 60000 };
    static char text[BODY + 400];
    struct local_server local_server;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_scheduler *scheduler;
    int64_t end_ms = wall_ms() / SECOND * SECOND;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "");
    int fd = serve_connect(&local_server);
    serve_send(fd, "put 0 0 100 1\r\nx\r\n"); /* from now on commits are on request */
    serve_expect(fd, "INSERTED");
    options.key = slice_of("tick");
    int size = snprintf(text, sizeof text,
                        "{\"name\":\"tick\",\"when\":\"every 1s\",\"topic\":\"ticks\","
                        "\"misfire\":\"all\",\"misfire_max\":1000,\"next_at_ms\":%lld,"
                        "\"end_at_ms\":%lld,\"body\":\"%0*d\"}",
                        (long long)(end_ms - JOBS * SECOND), (long long)end_ms, BODY, 0);
    OK(bide_put(local_server.queue, BIDE_SCHEDULE_TOPIC, text, (size_t)size, &options, NULL));
    OK(bi_scheduler_start(local_server.queue, NULL, true, &scheduler));
    UNTIL(ready_ticks(local_server.queue) == JOBS);
    close(fd);
    OK(bide_scheduler_stop(scheduler));
    serve_end(&local_server);
}
#endif

static const struct test tests[] = {
    TEST(each_moment_has_one_job_although_commits_fail),
    TEST(full_disk_delays_moments_and_loses_none),
    TEST(stop_is_bounded_while_the_disk_hangs),
#ifdef FAULT_SERVER
    TEST(steps_at_an_idle_server_do_not_wait_for_clients),
#endif
};

const struct theme schedule_fault_theme = {"schedule", tests, COUNT(tests)};
