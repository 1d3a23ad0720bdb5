/* SPDX-License-Identifier: MIT */
/*
 * process_crash.c - a worker process is killed in the middle of its work: another one does it.
 */
#include "../sim/rng.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>

/* One process begins a job, another waits for it; answers when the lease of the first ends that has
 * been killed. */
static int64_t begin_and_kill(const char *url, uint64_t id, pid_t *other)
{
    pid_t first = start_worker_process(url, 1);
    UNTIL(event_log_count("began", id) == 1);
    *other = start_worker_process(url, 1);
    UNTIL(waiting_now() > 0);
    int64_t end_us = lease_end_us(id);
    kill_worker_process(first);
    return end_us;
}

/* The other one begins it, not before the lease has ended. */
static void taken_over(uint64_t id, pid_t other, int64_t end_us)
{
    UNTIL(event_log_count("began", id) == 2);
    struct entry began = event_log_get("began", id, 1);
    EQ(began.pid, other);
    CHECK(began.at_us >= end_us);
    EQ(get_job(id).state, BIDE_STATE_RESERVED);
    EQ(get_job(id).timeouts, 1);
    EQ(get_job(id).reserves, 2);
}

static void done_once(uint64_t id, pid_t other)
{
    open_gate("a");
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    stop_worker_process(other);
    EQ(event_log_count("began", id), 2);
    EQ(event_log_count("done", id), 1);
    EQ(event_log_get("done", id, 0).pid, other);
    EQ(event_log_count("lost", 0) + event_log_count("given-up", 0), 0);
}

static void another_process_gets_the_job_after_the_ttr(void)
{
    pid_t other;
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(1000);
    uint64_t id = put_job("work", "hold a", &options);
    int64_t end_us = begin_and_kill(server_url(server.port, ""), id, &other);
    taken_over(id, other, end_us);
    EQ(get_job(id).failures, 0);
    EQ(event_log_get("began", id, 1).attempt, 1);
    done_once(id, other);
    end_server();
}

static void crash_is_a_failure_with_a_retry_limit(void)
{
    pid_t other;
    begin_server(IN_MEMORY);
    bide_put_options options = with_retries(1000, 1);
    uint64_t id = put_job("work", "hold a", &options);
    int64_t end_us = begin_and_kill(server_url(server.port, ""), id, &other);
    taken_over(id, other, end_us);
    EQ(get_job(id).failures, 1);
    LAST_ERROR(id, "ttr ran out");
    EQ(event_log_get("began", id, 1).attempt, 2);
    done_once(id, other);
    end_server();
}

/* The lease was extended beyond the ttr, and is not extended any more. */
static void extended_lease_ends_with_its_process(void)
{
    pid_t other;
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(1000);
    uint64_t id = put_job("beat", "hold a", &options);
    const char *url = server_url(server.port, "");
    pid_t first = start_worker_process(url, 1);
    UNTIL(event_log_count("began", id) == 1);
    other = start_worker_process(url, 1);
    UNTIL(get_job(id).touches >= 3);
    UNTIL(clock_us() > event_log_get("began", id, 0).at_us + 2 * options.ttr_ms * 1000);
    EQ(event_log_count("began", id), 1);
    int64_t end_us = lease_end_us(id);
    kill_worker_process(first);
    taken_over(id, other, end_us);
    done_once(id, other);
    end_server();
}

/* ---- a file: the next process that opens it ---- */

/* Leaves a job in a file that nobody has open, begun by a process that was killed; then another
 * process does it. The job is kept, so that it can be looked at. */
static void in_a_file(bide_put_options *options)
{
    options->retain_ms = HOUR_MS;
    queue = open_jobs("");
    uint64_t id = put_job("work", "hold a", options);
    OK(bide_close(queue));
    pid_t first = start_worker_process(url_of("jobs.db", ""), 2);
    UNTIL(event_log_count("began", id) == 1);
    kill_worker_process(first);
    pid_t other = start_worker_process(url_of("jobs.db", ""), 2);
    UNTIL(event_log_count("began", id) == 2);
    EQ(event_log_get("began", id, 1).pid, other);
    open_gate("a");
    UNTIL(event_log_count("done", id) == 1);
    stop_worker_process(other);
    EQ(event_log_count("began", id), 2);
    EQ(event_log_count("done", id), 1);
    queue = open_jobs("");
    EQ(state_now(id), BIDE_STATE_DONE);
}

/* The job is available before its ttr: the process that opens the file knows that the owner is
 * gone. */
static void the_next_process_that_opens_the_file_gets_the_job(void)
{
    bide_put_options options = with_ttr(HOUR_MS);
    in_a_file(&options);
    EQ(get_job(1).failures, 0);
    OK(bide_close(queue));
}

static void crash_is_a_failure_with_a_retry_limit_in_a_file(void)
{
    bide_put_options options = with_retries(HOUR_MS, 1);
    in_a_file(&options);
    EQ(get_job(1).failures, 1);
    EQ(event_log_get("began", 1, 1).attempt, 2);
    LAST_ERROR(1, "the queue was restarted while the job was reserved");
    OK(bide_close(queue));
}

/* ---- again and again ---- */

enum { JOBS = 150, CREW = 3, DEATHS = 12 };

/* Every job is in a few hands, and never done twice: whose done was acknowledged, but not noted
 * because the process was killed in between, has none. */
static void kills_at_random_lose_and_duplicate_no_ack(void)
{
    struct rng rng = {.state = 7};
    uint64_t ids[JOBS];
    pid_t fixture[CREW];
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(300);
    for (int i = 0; i < JOBS; i++)
        ids[i] = put_job("beat", i % 2 ? "nap 20" : "", &options);
    const char *url = server_url(server.port, "");
    for (int i = 0; i < CREW; i++)
        fixture[i] = start_worker_process(url, 2);
    for (int i = 0; i < DEATHS; i++) {
        size_t begun = event_log_count("began", 0);
        UNTIL(event_log_count("began", 0) > begun || counts_now().ready == 0);
        nap_ms(rng_below(&rng, 20));
        kill_worker_process(fixture[i % CREW]);
        fixture[i % CREW] = start_worker_process(url, 2);
    }
    UNTIL(counts_now().ready + counts_now().reserved == 0);
    for (int i = 0; i < CREW; i++)
        stop_worker_process(fixture[i]);
    for (int i = 0; i < JOBS; i++) {
        EQ(state_now(ids[i]), BIDE_STATE_GONE);
        CHECK(event_log_count("began", ids[i]) >= 1);
        CHECK(event_log_count("done", ids[i]) <= 1);
    }
    CHECK(event_log_count("done", 0) >= JOBS - DEATHS * 2);
    end_server();
}

static const struct test tests[] = {
    TEST(another_process_gets_the_job_after_the_ttr),
    TEST(crash_is_a_failure_with_a_retry_limit),
    TEST(extended_lease_ends_with_its_process),
    TEST(the_next_process_that_opens_the_file_gets_the_job),
    TEST(crash_is_a_failure_with_a_retry_limit_in_a_file),
    TEST(kills_at_random_lose_and_duplicate_no_ack),
};
const struct theme crash_theme = {"process_crash", tests, COUNT(tests)};
