/* SPDX-License-Identifier: MIT */
/*
 * outage_ack.c - a handler answers while the server is away, silent, or gone for good.
 *
 * What the worker owes reaches the server as soon as it is back, as long as the lease lasts; a
 * server that was started again knows no lease of before, and the job is done again.
 */
#include "outage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- the connection breaks ---- */

/* A job is begun, and its answer is owed because there is no connection. */
static uint64_t defer_ack(const char *body, const bide_put_options *options)
{
    uint64_t id = put_job("work", body, options);
    UNTIL(event_log_count("began", id) == 1);
    relay_set(RELAY_CUT);
    open_gate("a");
    UNTIL(event_log_count("deferred", id) == 1);
    struct entry owed = event_log_get("deferred", id, 0);
    CHECK(owed.code < 0);
    CHECK(owed.text[0] != '\0');
    EQ(state_now(id), BIDE_STATE_RESERVED);
    return id;
}

/* In the end it was told once, as this. */
static void reported_once(uint64_t id, const char *what)
{
    relay_set(RELAY_OPEN);
    UNTIL(event_log_count(what, id) == 1);
    EQ(event_log_count("began", id), 1);
    EQ(event_log_count("deferred", id), 1);
    EQ(event_log_count("lost", id) + event_log_count("given-up", id), 0);
}

static void deferred_done_is_sent_after_a_server_restart(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = defer_ack("hold a", NULL);
    reported_once(id, "done");
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("began", 0), 1);
    end_server();
}

static void deferred_result_is_sent_after_a_server_restart(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    bide_put_options options = with_ttr(60000);
    options.retain_ms = HOUR_MS;
    uint64_t id = defer_ack("hold a; result 42", &options);
    reported_once(id, "done");
    bide_buf *result = NULL;
    OK(bide_result(queue, id, &result));
    TEXT(bide_buf_data(result), bide_buf_size(result), "42");
    bide_buf_unref(result);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void deferred_fail_is_counted_once_after_a_server_restart(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = defer_ack("hold a; retry 3600000", NULL);
    reported_once(id, "retried");
    EQ(state_now(id), BIDE_STATE_DELAYED);
    EQ(get_job(id).failures, 1);
    LAST_ERROR(id, "it went wrong");
    BETWEEN(event_log_get("retried", id, 0).delay_ms, 3600000, 3600000);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void deferred_bury_is_sent_after_a_server_restart(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = defer_ack("hold a; bury", NULL);
    reported_once(id, "buried");
    EQ(state_now(id), BIDE_STATE_BURIED);
    LAST_ERROR(id, "no use");
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void deferred_snooze_starts_after_a_server_restart(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = defer_ack("hold a; snooze 3600000", NULL);
    reported_once(id, "snoozed");
    EQ(state_now(id), BIDE_STATE_DELAYED);
    EQ(get_job(id).failures, 0);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* ---- the server hears it, but its answer is lost ---- */

static void server_received(uint64_t id, bide_state state)
{
    UNTIL(event_log_count("began", id) == 1);
    relay_set(RELAY_DROP_REPLIES);
    open_gate("a");
    UNTIL(state_now(id) == state);
    relay_set(RELAY_CUT);
    UNTIL(event_log_count("deferred", id) == 1);
    EQ(event_log_get("deferred", id, 0).code, BIDE_EUNKNOWN);
}

static void ack_with_a_lost_reply_is_applied_once(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    uint64_t id = put_job("work", "hold a", NULL);
    server_received(id, BIDE_STATE_GONE);
    reported_once(id, "done");
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void result_with_a_lost_reply_is_kept_once(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    bide_put_options options = with_ttr(60000);
    options.retain_ms = HOUR_MS;
    uint64_t id = put_job("work", "hold a; result 42", &options);
    server_received(id, BIDE_STATE_DONE);
    reported_once(id, "done");
    EQ(state_now(id), BIDE_STATE_DONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* The jobs that were put into the topic, ever. */
static uint64_t puts_into(const char *topic)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, topic, &stats);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
    return code == BIDE_OK ? stats.total.puts : 0;
}

static void deferred_put_is_stored_with_its_job(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = defer_ack("put next; hold a", NULL);
    EQ(puts_into("next"), 0);
    reported_once(id, "done");
    EQ(state_now(id), BIDE_STATE_GONE);
    EQ(puts_into("next"), 1);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* The step is repeated, and puts nothing a second time, however the job has ended. */
static void put_with_a_lost_reply_happens_once(void)
{
    static const struct {
        const char *body;
        int64_t retain_ms;
        bide_state state;
        const char *reported;
    } cases[] = {
        {"put next; hold a", 0, BIDE_STATE_GONE, "done"},
        {"put next; hold a; result 42", HOUR_MS, BIDE_STATE_DONE, "done"},
        {"put next; hold a; snooze 3600000", 0, BIDE_STATE_DELAYED, "lost"},
    };
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        bide_put_options options = with_ttr(60000);
        options.retain_ms = cases[i].retain_ms;
        close_gate("a");
        uint64_t id = put_job("work", cases[i].body, &options);
        server_received(id, cases[i].state);
        EQ(puts_into("next"), i + 1);
        relay_set(RELAY_OPEN);
        UNTIL(event_log_count(cases[i].reported, id) == 1);
        EQ(event_log_count("began", id), 1);
        EQ(event_log_count("given-up", id), 0);
        EQ(puts_into("next"), i + 1);
    }
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* Whether it was the worker's own failure that ended the lease, the worker cannot know. */
static void fail_with_a_lost_reply_is_counted_once(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    uint64_t id = put_job("work", "hold a; retry 3600000", NULL);
    server_received(id, BIDE_STATE_DELAYED);
    relay_set(RELAY_OPEN);
    UNTIL(event_log_count("retried", id) + event_log_count("lost", id) == 1);
    EQ(event_log_count("began", id), 1);
    EQ(event_log_count("deferred", id), 1);
    EQ(get_job(id).failures, 1);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("cancelled", id) + event_log_count("given-up", id), 0);
    end_server();
}

/* ---- for too long ---- */

static void ack_deferred_beyond_the_lease_is_given_up_and_the_job_runs_again(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    bide_put_options options = with_ttr(1500);
    uint64_t id = put_job("work", "hold a", &options);
    UNTIL(event_log_count("began", id) == 1);
    int64_t end_us = lease_end_us(id);
    relay_set(RELAY_CUT);
    open_gate("a");
    UNTIL(event_log_count("given-up", id) == 1);
    struct entry given_up = event_log_get("given-up", id, 0);
    CHECK(given_up.at_us >= end_us);
    CHECK(given_up.code < 0);
    EQ(event_log_count("deferred", id), 1);
    UNTIL(state_now(id) == BIDE_STATE_READY);
    relay_set(RELAY_OPEN);
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_count("began", id), 2);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* ---- silent ---- */

static void stalled_server_gets_the_ack_when_it_continues(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    kill(server.pid, SIGSTOP);
    open_gate("a");
    nap_ms(1000);
    EQ(event_log_count("done", id), 0);
    kill(server.pid, SIGCONT);
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_count("began", id), 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static void ack_after_a_stall_beyond_the_lease_is_rejected(void)
{
    begin_server(IN_MEMORY);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    bide_put_options options = with_ttr(1000);
    uint64_t id = put_job("work", "hold a", &options);
    UNTIL(event_log_count("began", id) == 1);
    int64_t end_us = lease_end_us(id);
    kill(server.pid, SIGSTOP);
    open_gate("a");
    UNTIL(clock_us() > end_us + 500000);
    EQ(event_log_count("done", id), 0);
    kill(server.pid, SIGCONT);
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_count("began", id), 2);
    EQ(event_log_count("lost", id) + event_log_count("given-up", id), 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* ---- killed, and started again on its file ---- */

static void start_again(void)
{
    OK(bide_close(queue));
    begin_server(IN_FILE);
    relay_set_target(server.port);
}

/* Until the worker's queue has found out that it has no connection. */
static void await_loss(const struct relayed_worker *relayed_worker)
{
    bide_stats stats;
    UNTIL(bide_queue_stats(relayed_worker->queue, &stats) < 0);
}

/* No lease outlives a crash of the server: what is owed is refused, and the job done again. */
static void killed_server_rejects_the_ack_and_redelivers_the_job(void)
{
    begin_server(IN_FILE);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    test_server_kill(&server);
    await_loss(
        &relayed_worker); /* else the answer could be sent, and the job be gone when it is sent again */
    open_gate("a");
    UNTIL(event_log_count("deferred", id) == 1);
    start_again();
    UNTIL(event_log_count("done", id) == 1);
    UNTIL(event_log_count("lost", id) == 1);
    EQ(event_log_count("began", id), 2);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    EQ(event_log_count("done", id), 1);
    end_server();
}

/* The server is killed after it has read the ack: while the job exists it must not be reported as
 * done. */
static void ack_lost_in_a_crash_is_not_reported_as_done(void)
{
    begin_server(IN_FILE);
    struct relayed_worker relayed_worker = start_worker_behind_relay(1, 0);
    uint64_t id = put_job("work", "hold a", NULL);
    UNTIL(event_log_count("began", id) == 1);
    kill(server.pid, SIGSTOP);
    open_gate("a");
    nap_ms(300);
    test_server_kill(&server);
    UNTIL(event_log_count("deferred", id) == 1);
    EQ(event_log_get("deferred", id, 0).code, BIDE_EUNKNOWN);
    OK(bide_close(queue));
    begin_server(IN_FILE);
    OK(bide_pause(queue, "work", BIDE_FOREVER));
    relay_set_target(server.port);
    UNTIL(event_log_count("lost", id) == 1);
    EQ(event_log_count("done", id), 0);
    EQ(state_now(id), BIDE_STATE_READY);
    OK(bide_resume(queue, "work"));
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_count("began", id), 2);
    EQ(state_now(id), BIDE_STATE_GONE);
    relayed_worker_stop(&relayed_worker);
    end_server();
}

/* In order: the lease outlives the restart. The other thread of the worker does not get the job,
 * and the answer is taken, whether the handler returns before or after the start. */
static void restarted_server_accepts_the_ack(void)
{
    begin_server(IN_FILE);
    struct relayed_worker relayed_worker = start_worker_behind_relay(2, 0);
    bide_put_options options = with_retries(60000, 0);
    options.retain_ms = HOUR_MS;
    uint64_t before = put_job("work", "hold a", &options);
    uint64_t after = put_job("work", "hold b", &options);
    UNTIL(event_log_count("began", before) == 1 && event_log_count("began", after) == 1);
    OK(bide_close(queue));
    test_server_stop(&server);
    open_gate("a");
    UNTIL(event_log_count("deferred", before) == 1);
    begin_server(IN_FILE);
    EQ(state_now(after), BIDE_STATE_RESERVED);
    relay_set_target(server.port);
    UNTIL(event_log_count("done", before) == 1);
    open_gate("b");
    UNTIL(event_log_count("done", after) == 1);
    const uint64_t ids[] = {before, after};
    for (size_t i = 0; i < COUNT(ids); i++) {
        EQ(state_now(ids[i]), BIDE_STATE_DONE);
        EQ(get_job(ids[i]).failures, 0);
        EQ(event_log_count("began", ids[i]), 1);
        EQ(event_log_count("lost", ids[i]), 0);
    }
    relayed_worker_stop(&relayed_worker);
    end_server();
}

static const struct test tests[] = {
    TEST(deferred_done_is_sent_after_a_server_restart),
    TEST(deferred_result_is_sent_after_a_server_restart),
    TEST(deferred_fail_is_counted_once_after_a_server_restart),
    TEST(deferred_bury_is_sent_after_a_server_restart),
    TEST(deferred_snooze_starts_after_a_server_restart),
    TEST(ack_with_a_lost_reply_is_applied_once),
    TEST(result_with_a_lost_reply_is_kept_once),
    TEST(deferred_put_is_stored_with_its_job),
    TEST(put_with_a_lost_reply_happens_once),
    TEST(fail_with_a_lost_reply_is_counted_once),
    TEST(ack_deferred_beyond_the_lease_is_given_up_and_the_job_runs_again),
    TEST(stalled_server_gets_the_ack_when_it_continues),
    TEST(ack_after_a_stall_beyond_the_lease_is_rejected),
    TEST(killed_server_rejects_the_ack_and_redelivers_the_job),
    TEST(restarted_server_accepts_the_ack),
    TEST(ack_lost_in_a_crash_is_not_reported_as_done),
};
const struct theme answer_theme = {"outage_ack", tests, COUNT(tests)};
