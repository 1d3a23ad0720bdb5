/* SPDX-License-Identifier: MIT */
/*
 * clock.c - the wall clock was set between two runs; and what of a time that is over stays stored.
 *
 * The stored times are shifted instead: a clock that was set back by an hour finds times that lie
 * an hour later than they did. What was given as a moment stays as it was given.
 */
#include "snapshot.h"

#include <stdio.h>
#include <string.h>

#define MINUTE_US INT64_C(60000000)
#define HOUR_US   (60 * MINUTE_US)
#define DAY_US    (24 * HOUR_US)

/* The jobs of a file, one of each kind. */
struct jobs {
    uint64_t ready, delayed, released, failed, moment, buried, done, expiring, limited;
    int64_t moment_ms, expires_ms;
};

static uint64_t put_with(bide *queue, const bide_put_options *options)
{
    uint64_t id = 0;
    OK(bide_put(queue, "work", "body", 4, options, &id));
    return id;
}

static void put_delays(bide *queue, struct jobs *jobs)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = HOUR_MS;
    jobs->delayed = put_with(queue, &options);
    options.delay_ms = 0;
    options.run_at_ms = jobs->moment_ms = wall_ms() + HOUR_MS;
    jobs->moment = put_with(queue, &options);
    options.run_at_ms = 0;
    options.expires_at_ms = jobs->expires_ms = wall_ms() + HOUR_MS;
    jobs->expiring = put_with(queue, &options);
}

static void put_finished(bide *queue, struct jobs *jobs)
{
    bide_job job;
    jobs->released = put_with(queue, NULL);
    OK(bide_reserve_job(queue, jobs->released, &job));
    OK(bide_release(queue, job.id, job.token, BIDE_KEEP, HOUR_MS));
    bide_job_clear(&job);
    jobs->failed = put_with(queue, NULL);
    OK(bide_reserve_job(queue, jobs->failed, &job));
    OK(bide_fail(queue, job.id, job.token, "went wrong", HOUR_MS, NULL, NULL));
    bide_job_clear(&job);
    jobs->buried = put_with(queue, NULL);
    OK(bide_bury(queue, jobs->buried, 0, BIDE_KEEP, "set aside"));
    jobs->done = put_with(queue, NULL);
    OK(bide_done(queue, jobs->done, 0, "result", 6, HOUR_MS));
}

static struct jobs make_jobs(void)
{
    struct jobs jobs;
    bide *queue = open_jobs("");
    memset(&jobs, 0, sizeof(jobs));
    jobs.ready = put_with(queue, NULL);
    put_delays(queue, &jobs);
    put_finished(queue, &jobs);
    OK(bide_pause(queue, "paused", HOUR_MS));
    OK(bide_close(queue));
    return jobs;
}

/* Shifts all times, but those that were given as moments: the due time with flag 4, and the end of
 * life. */
static void shift_times(int64_t us)
{
    static const char *const columns[] = {"created", "since",  "ready", "reserved",
                                          "touched", "buried", "done"};
    const char *path = test_path("jobs.db");
    for (size_t i = 0; i < COUNT(columns); i++)
        SQL(path, "UPDATE job SET %s=%s+(%lld) WHERE %s IS NOT NULL", columns[i], columns[i],
            (long long)us, columns[i]);
    SQL(path,
        "UPDATE job SET due=due+(%lld) WHERE due IS NOT NULL AND (flags IS NULL OR flags&4=0)",
        (long long)us);
    SQL(path, "UPDATE pause SET until=until+(%lld)", (long long)us);
}

static bide_job look(bide *queue, uint64_t id)
{
    bide_job job;
    OK(bide_job_stats(queue, id, &job));
    CHECK(job.age_ms >= 0);
    CHECK(job.left_ms >= 0);
    return job;
}

static void check_state(bide *queue, uint64_t id, bide_state state)
{
    bide_job job = look(queue, id);
    EQ(job.state, state);
    bide_job_clear(&job);
}

/* Not longer than it was. */
static void check_left(bide *queue, uint64_t id, bide_state state, int64_t most_ms)
{
    bide_job job = look(queue, id);
    EQ(job.state, state);
    BETWEEN(job.left_ms, 0, most_ms);
    bide_job_clear(&job);
}

/* What follows the wall clock, or no clock at all. */
static void check_steady(bide *queue, const struct jobs *jobs)
{
    bide_stats stats;
    bide_job job = look(queue, jobs->moment);
    EQ(job.state, BIDE_STATE_DELAYED);
    EQ(job.run_at_ms, jobs->moment_ms);
    CHECK(job.run_at_wall);
    bide_job_clear(&job);
    job = look(queue, jobs->expiring);
    EQ(job.expires_at_ms, jobs->expires_ms);
    bide_job_clear(&job);
    check_state(queue, jobs->ready, BIDE_STATE_READY);
    check_state(queue, jobs->buried, BIDE_STATE_BURIED);
    OK(bide_queue_stats(queue, &stats));
    CHECK(stats.oldest_ready_age_ms >= 0);
}

static void try_set_back(int64_t us)
{
    struct jobs jobs = make_jobs();
    shift_times(us);
    bide *queue = open_jobs("");
    check_steady(queue, &jobs);
    check_left(queue, jobs.delayed, BIDE_STATE_DELAYED, HOUR_MS);
    check_left(queue, jobs.released, BIDE_STATE_DELAYED, HOUR_MS);
    check_left(queue, jobs.failed, BIDE_STATE_DELAYED, HOUR_MS);
    check_left(queue, jobs.done, BIDE_STATE_DONE, HOUR_MS);
    OK(bide_close(queue));
}

static void a_clock_set_back_by_minutes_makes_no_delay_longer(void)
{
    try_set_back(10 * MINUTE_US);
}

static void a_clock_set_back_by_days_makes_no_delay_longer(void)
{
    try_set_back(3 * DAY_US);
}

static void a_clock_set_back_by_years_makes_no_delay_longer(void)
{
    try_set_back(20 * 365 * DAY_US);
}

/* Delays have passed by the wall clock; nothing else is lost. */
static void try_set_forward(int64_t us)
{
    struct jobs jobs = make_jobs();
    shift_times(-us);
    bide *queue = open_jobs("");
    check_steady(queue, &jobs);
    check_state(queue, jobs.delayed, BIDE_STATE_READY);
    check_state(queue, jobs.released, BIDE_STATE_READY);
    check_state(queue, jobs.failed, BIDE_STATE_READY);
    bide_topic_stats stats;
    EQ(bide_topic_get_stats(queue, "paused", &stats), BIDE_NOT_FOUND);
    OK(bide_close(queue));
}

static void a_clock_set_forward_by_days_ends_delays(void)
{
    try_set_forward(3 * DAY_US);
}

static void a_clock_set_forward_by_years_ends_delays(void)
{
    try_set_forward(40 * 365 * DAY_US);
}

/* A little in between is what a restart takes anyway. */
static void a_clock_set_forward_a_little_keeps_the_rest_of_a_delay(void)
{
    struct jobs jobs = make_jobs();
    shift_times(-10 * MINUTE_US);
    bide *queue = open_jobs("");
    check_steady(queue, &jobs);
    check_left(queue, jobs.delayed, BIDE_STATE_DELAYED, HOUR_MS - 10 * 60000);
    check_left(queue, jobs.done, BIDE_STATE_DONE, HOUR_MS - 10 * 60000);
    OK(bide_close(queue));
}

/* ---- pauses ---- */

static int64_t count_pauses(void)
{
    return NUMBER(test_path("jobs.db"), "SELECT count(*) FROM pause");
}

static void ended_pause_is_removed_from_the_file(void)
{
    bide *queue = open_jobs("");
    OK(bide_pause(queue, "short", 20));
    OK(bide_pause(queue, "long", HOUR_MS));
    OK(bide_pause(queue, "endless", BIDE_FOREVER));
    UNTIL(count_pauses() == 2);
    OK(bide_pause(queue, "short", 20));
    OK(bide_pause(queue, "shorter", 10));
    UNTIL(count_pauses() == 2);
    OK(bide_close(queue));
    EQ(count_pauses(), 2);
}

static void pause_that_ended_while_closed_is_removed_from_the_file(void)
{
    bide *queue = open_jobs("");
    OK(bide_pause(queue, "short", HOUR_MS / 2));
    OK(bide_pause(queue, "long", HOUR_MS));
    OK(bide_pause(queue, "endless", BIDE_FOREVER));
    OK(bide_close(queue));
    EQ(count_pauses(), 3);
    SQL(test_path("jobs.db"), "UPDATE pause SET until=until-%lld WHERE topic='short'",
        (long long)HOUR_US);
    queue = open_jobs("");
    UNTIL(count_pauses() == 2);
    OK(bide_close(queue));
}

/* Loaded with a little of it left: nothing else is written, and it ends. */
static void loaded_pause_is_removed_from_the_file_when_it_ends(void)
{
    bide *queue = open_jobs("");
    OK(bide_pause(queue, "short", 300));
    OK(bide_pause(queue, "long", HOUR_MS));
    OK(bide_close(queue));
    queue = open_jobs("");
    UNTIL(count_pauses() == 1);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(a_clock_set_back_by_minutes_makes_no_delay_longer),
    TEST(a_clock_set_back_by_days_makes_no_delay_longer),
    TEST(a_clock_set_back_by_years_makes_no_delay_longer),
    TEST(a_clock_set_forward_by_days_ends_delays),
    TEST(a_clock_set_forward_by_years_ends_delays),
    TEST(a_clock_set_forward_a_little_keeps_the_rest_of_a_delay),
    TEST(ended_pause_is_removed_from_the_file),
    TEST(pause_that_ended_while_closed_is_removed_from_the_file),
    TEST(loaded_pause_is_removed_from_the_file_when_it_ends),
};
const struct theme clock_theme = {"clock", tests, COUNT(tests)};
