/* SPDX-License-Identifier: MIT */
/*
 * outage_heartbeat.c - leases that are kept alive while the way to the server comes and goes.
 */
#include "outage.h"

#include <signal.h>
#include <stdio.h>

enum { HANDLERS = 200, TTR_MS = 3000 };

static uint64_t ids[HANDLERS];

static struct relayed_worker begin(enum test_server_storage where)
{
    bide_put_options options = with_ttr(TTR_MS);
    begin_server(where);
    for (int i = 0; i < HANDLERS; i++)
        ids[i] = put_job("beat", "hold a", &options);
    struct relayed_worker relayed_worker = start_worker_behind_relay(HANDLERS, 0);
    UNTIL(event_log_count("began", 0) == HANDLERS);
    return relayed_worker;
}

static bool all_touched(uint32_t times)
{
    for (int i = 0; i < HANDLERS; i++)
        if (get_job(ids[i]).touches < times)
            return false;
    return true;
}

/* No other worker got one of them, and none was lost. */
static void all_done_once(struct relayed_worker *relayed_worker)
{
    EQ(counts_now().reserved, HANDLERS);
    open_gate("a");
    UNTIL(counts_now().reserved == 0);
    relayed_worker_stop(relayed_worker);
    EQ(counts_now().ready + counts_now().delayed + counts_now().buried, 0);
    EQ(event_log_count("began", 0), HANDLERS);
    EQ(event_log_count("done", 0), HANDLERS);
    EQ(event_log_count("lost", 0) + event_log_count("given-up", 0) + event_log_count("overran", 0),
       0);
}

static void leases_outlive_their_ttr_while_handlers_run(void)
{
    struct relayed_worker relayed_worker = begin(IN_MEMORY);
    int64_t start_us = clock_us();
    UNTIL(all_touched(3) && clock_us() > start_us + 2 * TTR_MS * 1000);
    all_done_once(&relayed_worker);
    end_server();
}

static void leases_survive_a_lost_connection(void)
{
    struct relayed_worker relayed_worker = begin(IN_MEMORY);
    for (uint32_t i = 1; i <= 3; i++) {
        relay_set(RELAY_CUT);
        nap_ms(200);
        relay_set(RELAY_OPEN);
        UNTIL(all_touched(2 * i));
    }
    all_done_once(&relayed_worker);
    end_server();
}

static void leases_survive_a_stalled_server(void)
{
    struct relayed_worker relayed_worker = begin(IN_MEMORY);
    for (uint32_t i = 1; i <= 2; i++) {
        kill(server.pid, SIGSTOP);
        nap_ms(500);
        kill(server.pid, SIGCONT);
        UNTIL(all_touched(2 * i));
    }
    all_done_once(&relayed_worker);
    end_server();
}

/* ---- and those that do not ---- */

/* No lease outlives its server: handlers are told, and the jobs are done by others, or by the same
 * worker when it has a thread for them. */
static void crashed_server_has_lost_all_leases(void)
{
    bide_put_options options = with_ttr(TTR_MS);
    begin_server(IN_FILE);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    ids[0] = put_job("beat", "listen", &options);
    UNTIL(event_log_count("began", ids[0]) == 1);
    test_server_kill(&server);
    OK(bide_close(queue));
    begin_server(IN_FILE);
    relay_set_target(server.port);
    UNTIL(event_log_count("heard", ids[0]) == 1);
    EQ(event_log_get("heard", ids[0], 0).code, BIDE_REASON_LEASE_LOST);
    UNTIL(event_log_count("began", ids[0]) >= 2);
    UNTIL(event_log_count("lost", ids[0]) == 1);
    OK(bide_cancel(queue, ids[0]));
    UNTIL(state_now(ids[0]) == BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("cancelled", ids[0]), 1);
    end_server();
}

/* Who cannot extend a lease for as long as it lasts knows that it has lost it. */
static void lease_is_lost_when_the_server_is_down_beyond_the_ttr(void)
{
    bide_put_options options = with_ttr(1500);
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    ids[0] = put_job("beat", "listen", &options);
    UNTIL(event_log_count("began", ids[0]) == 1);
    int64_t end_us = lease_end_us(ids[0]);
    relay_set(RELAY_CUT);
    UNTIL(event_log_count("heard", ids[0]) == 1);
    EQ(event_log_get("heard", ids[0], 0).code, BIDE_REASON_LEASE_LOST);
    CHECK(event_log_get("heard", ids[0], 0).at_us >= end_us);
    OK(bide_cancel(queue, ids[0]));
    UNTIL(state_now(ids[0]) == BIDE_STATE_GONE);
    relay_set(RELAY_OPEN);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* The event of it was lost with the connection. */
static void cancel_during_an_outage_is_noticed_afterwards(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    ids[0] = put_job("work", "listen", NULL);
    UNTIL(event_log_count("began", ids[0]) == 1);
    relay_set(RELAY_CUT);
    OK(bide_cancel(queue, ids[0]));
    nap_ms(100);
    EQ(event_log_count("heard", ids[0]), 0);
    relay_set(RELAY_OPEN);
    UNTIL(event_log_count("heard", ids[0]) == 1);
    EQ(event_log_get("heard", ids[0], 0).code, BIDE_REASON_CANCELLED);
    UNTIL(event_log_count("cancelled", ids[0]) == 1);
    EQ(state_now(ids[0]), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static const struct test tests[] = {
    TEST(leases_outlive_their_ttr_while_handlers_run),
    TEST(leases_survive_a_lost_connection),
    TEST(leases_survive_a_stalled_server),
    TEST(crashed_server_has_lost_all_leases),
    TEST(lease_is_lost_when_the_server_is_down_beyond_the_ttr),
    TEST(cancel_during_an_outage_is_noticed_afterwards),
};
const struct theme beat_theme = {"outage_heartbeat", tests, COUNT(tests)};
