/* SPDX-License-Identifier: MIT */
/*
 * outage_beanstalkd.c - a worker at a plain beanstalkd: what that can do, a worker can do there.
 *
 * It knows no failures, no reasons, no results and no cancels, and counts in whole seconds.
 */
#include "outage.h"

#include <stdio.h>
#include <string.h>

static struct relayed_worker relayed_worker;

static void begin(unsigned threads)
{
    test_server_settings.program = "beanstalkd";
    begin_server(IN_MEMORY);
    relayed_worker = start_worker_behind_relay(threads, 0);
}

static void end(void)
{
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("lost", 0) + event_log_count("given-up", 0) + event_log_count("deferred", 0),
       0);
    end_server();
}

static void jobs_are_done(void)
{
    uint64_t ids[20];
    begin(4);
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put_job("work", i % 2 ? "nap 5" : "", NULL);
    for (size_t i = 0; i < COUNT(ids); i++) {
        UNTIL(event_log_count("done", ids[i]) == 1);
        EQ(state_now(ids[i]), BIDE_STATE_GONE);
        EQ(event_log_count("began", ids[i]), 1);
    }
    end();
}

/* A plain beanstalkd does not store it. */
static void a_job_with_a_result_is_done(void)
{
    begin(1);
    uint64_t id = put_job("work", "result 42", NULL);
    UNTIL(event_log_count("done", id) == 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    end();
}

static void failed_job_is_retried_after_its_delay(void)
{
    begin(1);
    uint64_t id = put_job("work", "retry 1000", NULL);
    UNTIL(event_log_count("began", id) == 2);
    struct entry first = event_log_get("retried", id, 0), second = event_log_get("began", id, 1);
    EQ(first.delay_ms, 1000);
    TEXT(first.text, strlen(first.text), "it went wrong");
    CHECK(second.at_us >= event_log_get("began", id, 0).at_us + 1000000);
    UNTIL(event_log_count("retried", id) == 2);
    EQ(state_now(id), BIDE_STATE_DELAYED);
    OK(bide_delete(queue, id, 0));
    end();
}

static void buried_job_reports_its_reason_in_the_event(void)
{
    begin(1);
    uint64_t id = put_job("work", "bury", NULL);
    UNTIL(event_log_count("buried", id) == 1);
    struct entry buried = event_log_get("buried", id, 0);
    TEXT(buried.text, strlen(buried.text), "no use");
    EQ(state_now(id), BIDE_STATE_BURIED);
    EQ(event_log_count("began", id), 1);
    end();
}

static void snoozed_job_runs_later(void)
{
    begin(1);
    uint64_t id = put_job("work", "snooze 3600000", NULL);
    UNTIL(event_log_count("snoozed", id) == 1);
    EQ(state_now(id), BIDE_STATE_DELAYED);
    EQ(event_log_count("began", id), 1);
    end();
}

/* Two seconds are the shortest with which beanstalkd has a margin. */
static void leases_are_kept_alive(void)
{
    uint64_t ids[10];
    bide_put_options options = with_ttr(2000);
    begin(COUNT(ids));
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put_job("beat", "hold a", &options);
    UNTIL(event_log_count("began", 0) == COUNT(ids));
    UNTIL(clock_us() > event_log_get("began", ids[0], 0).at_us + 3 * options.ttr_ms * 1000);
    EQ(counts_now().reserved, COUNT(ids));
    open_gate("a");
    UNTIL(event_log_count("done", 0) == COUNT(ids));
    EQ(event_log_count("began", 0), COUNT(ids));
    end();
}

static void notified_handler_gives_its_job_back(void)
{
    begin(1);
    relayed_worker_stop(&relayed_worker);
    relayed_worker.queue = open_url(server_url(server.port, ""));
    relayed_worker.worker = new_worker(relayed_worker.queue, 1, 1, 0);
    OK(bide_worker_start(relayed_worker.worker));
    uint64_t id = put_job("work", "listen", NULL);
    UNTIL(event_log_count("began", id) == 1);
    end();
    EQ(event_log_count("heard", id), 1);
    EQ(event_log_count("interrupted", id), 1);
}

/* The lease went with the connection. */
static void lost_connection_loses_the_lease_and_the_job_runs_again(void)
{
    begin(1);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    relay_set(RELAY_CUT);
    UNTIL(state_now(id) == BIDE_STATE_READY);
    relay_set(RELAY_OPEN);
    open_gate("a");
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_count("began", id), 2);
    EQ(event_log_count("lost", id), 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static const struct test tests[] = {
    TEST(jobs_are_done),
    TEST(a_job_with_a_result_is_done),
    TEST(failed_job_is_retried_after_its_delay),
    TEST(buried_job_reports_its_reason_in_the_event),
    TEST(snoozed_job_runs_later),
    TEST(leases_are_kept_alive),
    TEST(notified_handler_gives_its_job_back),
    TEST(lost_connection_loses_the_lease_and_the_job_runs_again),
};
const struct theme plain_theme = {"outage_beanstalkd", tests, COUNT(tests)};
