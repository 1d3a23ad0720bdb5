/* SPDX-License-Identifier: MIT */
/*
 * process_poison.c - a job that kills every process which touches it: it ends buried, and the
 * others get done.
 */
#include "process.h"

#include <stdio.h>

enum { OTHERS = 20, RETRIES = 2 };

static uint64_t others[OTHERS];

/* The poison is in the middle of them. */
static uint64_t put_all(const char *poison, int64_t ttr_ms)
{
    bide_put_options deadly = with_retries(ttr_ms, RETRIES);
    bide_put_options harmless = with_ttr(ttr_ms);
    uint64_t id = 0;
    for (int i = 0; i < OTHERS; i++) {
        if (i == OTHERS / 2)
            id = put_job("work", poison, &deadly);
        others[i] = put_job("work", "", &harmless);
    }
    return id;
}

static void buried_for(uint64_t id, const char *reason)
{
    EQ(state_now(id), BIDE_STATE_BURIED);
    EQ(get_job(id).failures, RETRIES + 1);
    LAST_ERROR(id, reason);
    EQ(event_log_count("began", id), RETRIES + 1);
    for (size_t i = 0; i <= RETRIES; i++)
        EQ(event_log_get("began", id, i).attempt, i + 1);
    EQ(event_log_count("done", id) + event_log_count("buried", id), 0);
    for (int i = 0; i < OTHERS; i++)
        EQ(state_now(others[i]), BIDE_STATE_GONE);
}

/* Whoever dies is replaced, as by any supervisor. */
static void at_a_server(const char *poison)
{
    int code, deaths = 0;
    begin_server(IN_MEMORY);
    uint64_t id = put_all(poison, 1500);
    const char *url = server_url(server.port, "");
    pid_t worker = start_worker_process(url, 2);
    while (state_now(id) != BIDE_STATE_BURIED || counts_now().ready + counts_now().reserved > 0) {
        UNTIL(has_ended(worker, &code) || state_now(id) == BIDE_STATE_BURIED);
        if (state_now(id) == BIDE_STATE_BURIED)
            UNTIL(counts_now().ready + counts_now().reserved == 0);
        else {
            CHECK(code != 0);
            CHECK(++deaths <= RETRIES + 1);
            worker = start_worker_process(url, 2);
        }
    }
    EQ(deaths, RETRIES + 1);
    UNTIL(waiting_now() > 0); /* the last one may only just have been hired */
    stop_worker_process(worker);
    buried_for(id, "ttr ran out");
    end_server();
}

static void in_a_file(const char *poison)
{
    int code;
    queue = open_jobs("");
    uint64_t id = put_all(poison, HOUR_MS);
    OK(bide_close(queue));
    for (int deaths = 0; deaths <= RETRIES; deaths++) {
        pid_t victim = start_worker_process(url_of("jobs.db", ""), 2);
        UNTIL(has_ended(victim, &code));
        CHECK(code != 0);
        EQ(event_log_count("began", id), deaths + 1);
    }
    pid_t survivor = start_worker_process(url_of("jobs.db", ""), 2);
    UNTIL(event_log_has("health", survivor));
    for (int i = 0; i < OTHERS; i++)
        UNTIL(event_log_count("began", others[i]) > 0);
    stop_worker_process(survivor);
    queue = open_jobs("");
    buried_for(id, "the queue was restarted while the job was reserved");
    OK(bide_close(queue));
}

static void a_job_that_kills_its_process_ends_buried(void)
{
    at_a_server("die");
}

static void a_job_that_aborts_its_process_ends_buried(void)
{
    at_a_server("abort");
}

static void job_that_segfaults_its_process_ends_buried(void)
{
    at_a_server("null");
}

static void job_that_kills_its_process_ends_buried_in_a_file(void)
{
    in_a_file("die");
}

static void job_that_segfaults_its_process_ends_buried_in_a_file(void)
{
    in_a_file("null");
}

static const struct test tests[] = {
    TEST(a_job_that_kills_its_process_ends_buried),
    TEST(a_job_that_aborts_its_process_ends_buried),
    TEST(job_that_segfaults_its_process_ends_buried),
    TEST(job_that_kills_its_process_ends_buried_in_a_file),
    TEST(job_that_segfaults_its_process_ends_buried_in_a_file),
};
const struct theme poison_theme = {"process_poison", tests, COUNT(tests)};
