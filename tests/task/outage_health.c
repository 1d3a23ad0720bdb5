/* SPDX-License-Identifier: MIT */
/*
 * outage_health.c - what a worker tells of its queue: starved and fed, and how it is.
 */
#include "../fault/vfs.h"
#include "outage.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>

#define INTERVAL_MS 100
/* Longer than a ping takes on a busy machine: one without a reply in this time is bad health. */
#define PATIENT_INTERVAL_MS 1500

static bool health_is(int code)
{
    struct entry entry;
    return event_log_last("health", 0, &entry) && entry.code == code;
}

static bool health_is_bad(void)
{
    struct entry entry;
    return event_log_last("health", 0, &entry) && entry.code < 0 && entry.text[0] != '\0';
}

static void worker_reports_unhealthy_and_healthy(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(3, PATIENT_INTERVAL_MS);
    for (size_t times = 1; times <= 2; times++) {
        uint64_t id = put_job("work", "", NULL);
        UNTIL(state_now(id) == BIDE_STATE_GONE);
        EQ(event_log_count("unhealthy", 0), times - 1);
        EQ(event_log_count("healthy", 0), times - 1);
        relay_set(RELAY_CUT);
        UNTIL(event_log_count("unhealthy", 0) == times);
        struct entry starved = event_log_get("unhealthy", 0, times - 1);
        EQ(starved.id, 0);
        CHECK(starved.code != 0);
        CHECK(starved.text[0] != '\0');
        relay_set(RELAY_OPEN);
        UNTIL(event_log_count("healthy", 0) == times);
    }
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("unhealthy", 0), 2);
    EQ(event_log_count("healthy", 0), 2);
    end_server();
}

/* Jobs come, and go, and sometimes there are none: that is no hunger. */
static void idle_worker_is_healthy(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(3, PATIENT_INTERVAL_MS);
    UNTIL(event_log_count("health", 0) >= 2);
    uint64_t id = put_job("work", "", NULL);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    UNTIL(event_log_count("health", 0) >= 4);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("unhealthy", 0) + event_log_count("healthy", 0), 0);
    size_t count = event_log_count("health", 0);
    for (size_t i = 0; i < count; i++)
        EQ(event_log_get("health", 0, i).code, BIDE_OK);
    end_server();
}

static void health_is_bad_without_a_connection_and_good_again(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, INTERVAL_MS);
    UNTIL(health_is(BIDE_OK));
    relay_set(RELAY_CUT);
    UNTIL(health_is_bad());
    relay_set(RELAY_OPEN);
    UNTIL(health_is(BIDE_OK));
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void health_is_bad_when_the_server_is_killed_and_good_when_it_is_back(void)
{
    begin_server(IN_FILE);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, INTERVAL_MS);
    UNTIL(health_is(BIDE_OK));
    test_server_kill(&server);
    UNTIL(health_is_bad());
    OK(bide_close(queue));
    begin_server(IN_FILE);
    relay_set_target(server.port);
    UNTIL(health_is(BIDE_OK));
    uint64_t id = put_job("work", "", NULL);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void silent_server_is_reported_as_timed_out(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, INTERVAL_MS);
    UNTIL(health_is(BIDE_OK));
    kill(server.pid, SIGSTOP);
    UNTIL(health_is(BIDE_TIMED_OUT));
    size_t count = event_log_count("health", 0);
    UNTIL(event_log_count("health", 0) > count);
    CHECK(health_is(BIDE_TIMED_OUT));
    kill(server.pid, SIGCONT);
    UNTIL(health_is(BIDE_OK));
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* A job with a retry limit cannot be taken when that cannot be stored. */
static void failing_disk_makes_the_worker_unhealthy(void)
{
    const struct vfs_fault fault = {VFS_WRITE, "", 1, 0, SQLITE_FULL, ENOSPC};
    vfs_install();
    queue = open_jobs("");
    bide_put_options options = with_retries(60000, 3);
    uint64_t id = put_job("work", "", &options);
    vfs_fail(&fault);
    bide_worker *worker = new_worker(queue, 2, 0, 0);
    OK(bide_worker_start(worker));
    UNTIL(event_log_count("unhealthy", 0) == 1);
    EQ(event_log_get("unhealthy", 0, 0).code, BIDE_EFULL);
    EQ(event_log_count("began", 0), 0);
    vfs_clear_faults();
    UNTIL(event_log_count("done", id) == 1);
    UNTIL(event_log_count("healthy", 0) == 1);
    EQ(event_log_count("began", id), 1);
    EQ(event_log_get("began", id, 0).attempt, 1);
    OK(bide_worker_free(worker));
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(worker_reports_unhealthy_and_healthy),
    TEST(idle_worker_is_healthy),
    TEST(health_is_bad_without_a_connection_and_good_again),
    TEST(health_is_bad_when_the_server_is_killed_and_good_when_it_is_back),
    TEST(silent_server_is_reported_as_timed_out),
    TEST(failing_disk_makes_the_worker_unhealthy),
};
const struct theme health_theme = {"outage_health", tests, COUNT(tests)};
