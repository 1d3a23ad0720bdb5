/* SPDX-License-Identifier: MIT */
/*
 * process_stop.c - processes are stopped and started again under load: nothing is lost, nothing is
 * done twice, and no stop costs a retry.
 */
#include "../sim/rng.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 2000, CREW = 3, THREADS = 4 };

static uint64_t first_id;

/* None of them may fail even once. */
static void put_jobs(struct rng *rng, const char *format)
{
    char body[100];
    bide_put_options options = with_retries(60000, 0);
    for (int i = 0; i < JOBS; i++) {
        snprintf(body, sizeof body, "%s %d", format, (int)rng_below(rng, 15));
        uint64_t id = put_job("work", body, &options);
        if (i == 0)
            first_id = id;
    }
}

static bool any_left(void)
{
    bide_counts counts = counts_now();
    return counts.ready + counts.reserved + counts.delayed > 0;
}

/* Stops one after the other, each after it has begun to work, until all is done; answers how many
 * times. */
static int stop_and_start(struct rng *rng, int64_t stop_timeout_ms)
{
    pid_t fixture[CREW];
    int stops = 0;
    const char *url = server_url(server.port, "");
    for (int i = 0; i < CREW; i++)
        fixture[i] = start_worker_process_with(url, THREADS, stop_timeout_ms);
    for (; any_left(); stops++) {
        pid_t *one = &fixture[rng_below(rng, CREW)];
        UNTIL(event_log_has("began", *one) || !any_left());
        nap_ms(rng_below(rng, 60));
        if (!event_log_has("began", *one))
            break;
        stop_worker_process(*one);
        *one = start_worker_process_with(url, THREADS, stop_timeout_ms);
    }
    /* A process that was just started may not have installed its signal handlers yet. */
    for (int i = 0; i < CREW; i++) {
        int code;
        kill(fixture[i], SIGTERM);
        UNTIL(has_ended(fixture[i], &code));
        CHECK(code == 0 || (code == 256 + SIGTERM && !event_log_has("began", fixture[i])));
    }
    return stops;
}

/* Each was done once, by the queue's word, and nothing was said of it but that a stop interrupted
 * it, before or after it began. */
static void each_once(void)
{
    static unsigned done[JOBS];
    size_t count;
    struct entry *entries = event_log_read(&count);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        const char *what = entry->what;
        if (strcmp(what, "done") == 0 && entry->id - first_id < JOBS)
            done[entry->id - first_id]++;
        else if (strcmp(what, "began") != 0 && strcmp(what, "started") != 0 &&
                 strcmp(what, "interrupted") != 0 && strcmp(what, "ran") != 0 &&
                 strcmp(what, "health") != 0)
            FAIL("job %d: %s (%s)", (int)entry->id, what, entry->text);
    }
    free(entries);
    for (int i = 0; i < JOBS; i++)
        if (done[i] != 1)
            FAIL("job %d of %d was done %u times", i, JOBS, done[i]);
}

static void all_gone(void)
{
    bide_stats stats = {0};
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.buried + stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed, 0);
    EQ(stats.total.fails + stats.total.timeouts + stats.total.buries, 0);
    EQ(stats.total.deletes + stats.total.dones, JOBS);
}

static void stopping_processes_lose_and_duplicate_no_job(void)
{
    struct rng rng = {.state = 11};
    begin_server(IN_MEMORY);
    put_jobs(&rng, "nap");
    CHECK(stop_and_start(&rng, 0) >= 5);
    each_once();
    all_gone();
    end_server();
}

/* Handlers are told to stop after a millisecond, and answer that they could not do it. */
static void stop_without_waiting_gives_jobs_back_uncounted(void)
{
    struct rng rng = {.state = 13};
    begin_server(IN_MEMORY);
    put_jobs(&rng, "until");
    CHECK(stop_and_start(&rng, 1) >= 5);
    each_once();
    CHECK(event_log_count("interrupted", 0) > 0);
    all_gone();
    end_server();
}

static const struct test tests[] = {
    TEST(stopping_processes_lose_and_duplicate_no_job),
    TEST(stop_without_waiting_gives_jobs_back_uncounted),
};
const struct theme stop_theme = {"process_stop", tests, COUNT(tests)};
