/* SPDX-License-Identifier: MIT */
/*
 * away_beat.c - leases that are kept alive while the way to the server comes and goes.
 */
#include "away.h"

#include <signal.h>
#include <stdio.h>

enum { HANDLERS = 200, TTR_MS = 3000 };

static uint64_t ids[HANDLERS];

static struct away begin(enum peer_place where)
{
    bide_put_options options = lasting(TTR_MS);
    begin_server(where);
    for (int i = 0; i < HANDLERS; i++)
        ids[i] = put_job("beat", "hold a", &options);
    struct away away = away_behind_relay(HANDLERS, 0);
    UNTIL(diary_count("began", 0) == HANDLERS);
    return away;
}

static bool all_touched(uint32_t times)
{
    for (int i = 0; i < HANDLERS; i++)
        if (look(ids[i]).touches < times)
            return false;
    return true;
}

/* Nobody else got one of them, nor was one lost. */
static void all_done_once(struct away *away)
{
    EQ(counts_now().reserved, HANDLERS);
    open_gate("a");
    UNTIL(counts_now().reserved == 0);
    away_end(away);
    EQ(counts_now().ready + counts_now().delayed + counts_now().buried, 0);
    EQ(diary_count("began", 0), HANDLERS);
    EQ(diary_count("done", 0), HANDLERS);
    EQ(diary_count("lost", 0) + diary_count("given-up", 0) + diary_count("overran", 0), 0);
}

static void leases_outlive_their_ttr_while_handlers_run(void)
{
    struct away away = begin(IN_MEMORY);
    int64_t start_us = clock_us();
    UNTIL(all_touched(3) && clock_us() > start_us + 2 * TTR_MS * 1000);
    all_done_once(&away);
    end_server();
}

static void leases_outlive_a_connection_that_breaks(void)
{
    struct away away = begin(IN_MEMORY);
    for (uint32_t i = 1; i <= 3; i++) {
        relay_set(RELAY_CUT);
        nap_ms(200);
        relay_set(RELAY_OPEN);
        UNTIL(all_touched(2 * i));
    }
    all_done_once(&away);
    end_server();
}

static void leases_outlive_a_server_that_is_silent_for_a_while(void)
{
    struct away away = begin(IN_MEMORY);
    for (uint32_t i = 1; i <= 2; i++) {
        kill(server.pid, SIGSTOP);
        nap_ms(500);
        kill(server.pid, SIGCONT);
        UNTIL(all_touched(2 * i));
    }
    all_done_once(&away);
    end_server();
}

/* ---- and those that do not ---- */

/* No lease outlives its server: handlers are told, and the jobs are done by others, or by the same
 * worker when it has a thread for them. */
static void a_server_that_was_started_again_knows_no_lease(void)
{
    bide_put_options options = lasting(TTR_MS);
    begin_server(IN_FILE);
    struct away away = away_behind_relay(2, 0);
    ids[0] = put_job("beat", "listen", &options);
    UNTIL(diary_count("began", ids[0]) == 1);
    peer_kill(&server);
    OK(bide_close(queue));
    begin_server(IN_FILE);
    relay_to(server.port);
    UNTIL(diary_count("heard", ids[0]) == 1);
    EQ(diary_get("heard", ids[0], 0).code, BIDE_REASON_LEASE_LOST);
    UNTIL(diary_count("began", ids[0]) >= 2);
    UNTIL(diary_count("lost", ids[0]) == 1);
    OK(bide_cancel(queue, ids[0]));
    UNTIL(state_now(ids[0]) == BIDE_STATE_GONE);
    away_end(&away);
    EQ(diary_count("cancelled", ids[0]), 1);
    end_server();
}

/* Who cannot extend a lease for as long as it lasts knows that it has lost it. */
static void a_server_that_is_away_for_longer_than_the_ttr_has_the_lease_lost(void)
{
    bide_put_options options = lasting(1500);
    begin_server(IN_MEMORY);
    struct away away = away_behind_relay(1, 0);
    ids[0] = put_job("beat", "listen", &options);
    UNTIL(diary_count("began", ids[0]) == 1);
    int64_t end_us = lease_end_us(ids[0]);
    relay_set(RELAY_CUT);
    UNTIL(diary_count("heard", ids[0]) == 1);
    EQ(diary_get("heard", ids[0], 0).code, BIDE_REASON_LEASE_LOST);
    CHECK(diary_get("heard", ids[0], 0).at_us >= end_us);
    OK(bide_cancel(queue, ids[0]));
    UNTIL(state_now(ids[0]) == BIDE_STATE_GONE);
    relay_set(RELAY_OPEN);
    away_end(&away);
    end_server();
}

/* The event of it was lost with the connection. */
static void a_cancel_that_was_missed_is_heard_when_the_server_is_back(void)
{
    begin_server(IN_MEMORY);
    struct away away = away_behind_relay(1, 0);
    ids[0] = put_job("work", "listen", NULL);
    UNTIL(diary_count("began", ids[0]) == 1);
    relay_set(RELAY_CUT);
    OK(bide_cancel(queue, ids[0]));
    nap_ms(100);
    EQ(diary_count("heard", ids[0]), 0);
    relay_set(RELAY_OPEN);
    UNTIL(diary_count("heard", ids[0]) == 1);
    EQ(diary_get("heard", ids[0], 0).code, BIDE_REASON_CANCELLED);
    UNTIL(diary_count("cancelled", ids[0]) == 1);
    EQ(state_now(ids[0]), BIDE_STATE_GONE);
    away_end(&away);
    end_server();
}

static const struct test tests[] = {
    TEST(leases_outlive_their_ttr_while_handlers_run),
    TEST(leases_outlive_a_connection_that_breaks),
    TEST(leases_outlive_a_server_that_is_silent_for_a_while),
    TEST(a_server_that_was_started_again_knows_no_lease),
    TEST(a_server_that_is_away_for_longer_than_the_ttr_has_the_lease_lost),
    TEST(a_cancel_that_was_missed_is_heard_when_the_server_is_back),
};
const struct theme beat_theme = {"beat", tests, COUNT(tests)};
