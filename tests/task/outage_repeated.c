/* SPDX-License-Identifier: MIT */
/*
 * outage_repeated.c - the way to the server, and the server itself, come and go while there is
 * work.
 */
#include "../sim/rng.h"
#include "outage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 400, THREADS = 6, BREAKS = 15, KILLS = 5, TTR_MS = 5000, LONG_TTR_MS = 300000 };

static uint64_t first_id;

static void put_jobs(struct rng *rng, int64_t ttr_ms)
{
    char body[32];
    bide_put_options options = with_ttr(ttr_ms);
    for (int i = 0; i < JOBS; i++) {
        snprintf(body, sizeof body, "nap %d", (int)rng_below(rng, 30));
        uint64_t id = put_job("beat", body, &options);
        if (i == 0)
            first_id = id;
    }
}

/* How often something was noted of each job. */
static void count_each(const char *what, unsigned *counts)
{
    size_t count;
    struct entry *entries = event_log_read(&count);
    memset(counts, 0, JOBS * sizeof *counts);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].what, what) == 0 && entries[i].id - first_id < JOBS)
            counts[entries[i].id - first_id]++;
    free(entries);
}

static bool all_gone(void)
{
    bide_counts counts = counts_now();
    return counts.ready + counts.reserved + counts.delayed + counts.buried == 0;
}

/* Waits for some work, so that what happens next happens in the middle of it. */
static void let_work(struct rng *rng)
{
    size_t begun = event_log_count("began", 0);
    UNTIL(event_log_count("began", 0) > begun || counts_now().ready == 0);
    nap_ms(rng_below(rng, 40));
}

/*
 * A reserve whose reply was lost holds a job that no handler runs, until its ttr is over; an ack
 * may be told twice. But no handler runs for a job that is done, and none is told as done twice.
 */
static void lost_connections_lose_and_duplicate_no_job(void)
{
    static unsigned began[JOBS], done[JOBS];
    struct rng rng = {.state = 17};
    begin_server(IN_MEMORY);
    put_jobs(&rng, TTR_MS);
    struct relayed_worker relayed_worker = start_worker_behind_relay(THREADS, 0);
    for (int i = 0; i < BREAKS; i++) {
        let_work(&rng);
        if (rng_percent(&rng, 50)) {
            relay_set(RELAY_DROP_REPLIES);
            nap_ms(rng_below(&rng, 20));
        }
        relay_set(RELAY_CUT);
        nap_ms(rng_below(&rng, 50));
        relay_set(RELAY_OPEN);
    }
    UNTIL(all_gone());
    relayed_worker_stop(&relayed_worker);
    count_each("began", began);
    count_each("done", done);
    for (int i = 0; i < JOBS; i++)
        if (began[i] != 1 || done[i] != 1)
            FAIL("job %d: began %u times, done %u times", i, began[i], done[i]);
    EQ(event_log_count("lost", 0) + event_log_count("given-up", 0), 0);
    end_server();
}

/*
 * What runs when the server dies is done again: nothing is lost, and what was done stays done. A
 * kill ends every lease, so the ttr may be long: a worker tells again what it owes until its lease
 * ends, and no server is away for that long.
 */
static void killed_servers_lose_no_job(void)
{
    static unsigned done[JOBS];
    struct rng rng = {.state = 19};
    begin_server(IN_FILE);
    put_jobs(&rng, LONG_TTR_MS);
    struct relayed_worker relayed_worker = start_worker_behind_relay(THREADS, 0);
    for (int i = 0; i < KILLS; i++) {
        let_work(&rng);
        test_server_kill(&server);
        OK(bide_close(queue));
        begin_server(IN_FILE);
        relay_set_target(server.port);
    }
    UNTIL(all_gone());
    relayed_worker_stop(&relayed_worker);
    count_each("done", done);
    for (int i = 0; i < JOBS; i++)
        if (done[i] == 0)
            FAIL(
                "job %d is gone, and no worker reported that it was done: began %zu times, lost %zu, "
                "owed %zu, given up %zu",
                i, event_log_count("began", first_id + (uint64_t)i),
                event_log_count("lost", first_id + (uint64_t)i),
                event_log_count("deferred", first_id + (uint64_t)i),
                event_log_count("given-up", first_id + (uint64_t)i));
    CHECK(event_log_count("began", 0) <= JOBS + KILLS * 2 * THREADS);
    end_server();
}

static const struct test tests[] = {
    TEST(lost_connections_lose_and_duplicate_no_job),
    TEST(killed_servers_lose_no_job),
};
const struct theme storm_theme = {"outage_repeated", tests, COUNT(tests)};
