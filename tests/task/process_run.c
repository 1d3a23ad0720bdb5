/* SPDX-License-Identifier: MIT */
/*
 * process_run.c - bide_worker_run() in a process of its own, and the signals that end it.
 */
#include "process.h"

#include <signal.h>
#include <stdio.h>

/* The process begins a job, and hears the signal while the handler runs. */
static void finishes_on(int signal)
{
    begin_server(IN_MEMORY);
    uint64_t id = put_job("work", "hold a", NULL);
    pid_t worker = start_worker_process(server_url(server.port, ""), 1);
    int code = -1;
    UNTIL(event_log_count("began", id) == 1);
    kill(worker, signal);
    uint64_t later = put_job("work", "", NULL);
    nap_ms(200);
    CHECK(!has_ended(worker, &code));
    open_gate("a");
    ends_with(worker, 0);
    EQ(event_log_count("done", id), 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    EQ(event_log_count("started", later), 0);
    EQ(state_now(later), BIDE_STATE_READY);
    end_server();
}

static void sigterm_lets_the_handlers_finish(void)
{
    finishes_on(SIGTERM);
}

static void sigint_lets_the_handlers_finish(void)
{
    finishes_on(SIGINT);
}

static void a_worker_without_work_ends_at_once(void)
{
    begin_server(IN_MEMORY);
    pid_t worker = start_worker_process(server_url(server.port, ""), 4);
    UNTIL(waiting_now() > 0);
    stop_worker_process(worker);
    UNTIL(waiting_now() == 0);
    end_server();
}

/* Supervisors and impatient people send it again: what is being finished is finished. */
static void further_signals_change_nothing(void)
{
    begin_server(IN_MEMORY);
    uint64_t id = put_job("work", "hold a", NULL);
    pid_t worker = start_worker_process(server_url(server.port, ""), 1);
    int code = -1;
    UNTIL(event_log_count("began", id) == 1);
    for (int i = 0; i < 3; i++) {
        kill(worker, SIGTERM);
        nap_ms(50);
    }
    CHECK(!has_ended(worker, &code));
    open_gate("a");
    ends_with(worker, 0);
    EQ(event_log_count("done", id), 1);
    end_server();
}

/* Who presses the keys again, but not at once, does not want to wait. The job goes to another
 * process when its ttr is over. */
static void a_later_sigint_ends_the_process(void)
{
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(1000);
    uint64_t id = put_job("work", "hold a", &options);
    const char *url = server_url(server.port, "");
    pid_t worker = start_worker_process(url, 1);
    int code = -1;
    UNTIL(event_log_count("began", id) == 1);
    int64_t start_us = clock_us();
    UNTIL(has_ended(worker, &code) || (kill(worker, SIGINT) != 0));
    EQ(code, 256 + SIGINT);
    NOT_BEFORE(start_us, 500);
    open_gate("a");
    pid_t other = start_worker_process(url, 1);
    UNTIL(event_log_count("done", id) == 1);
    EQ(event_log_get("done", id, 0).pid, other);
    stop_worker_process(other);
    end_server();
}

/* As under nohup, or in the background of a shell. */
static void a_signal_that_is_ignored_stays_ignored(void)
{
    begin_server(IN_MEMORY);
    signal(SIGINT, SIG_IGN);
    pid_t worker = start_worker_process(server_url(server.port, ""), 1);
    int code = -1;
    UNTIL(waiting_now() > 0);
    kill(worker, SIGINT);
    nap_ms(100);
    CHECK(!has_ended(worker, &code));
    uint64_t id = put_job("work", "", NULL);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    stop_worker_process(worker);
    end_server();
}

/* The handler is told, does not return in time, and its job is given back to others. */
static void a_handler_that_does_not_return_in_time_loses_its_job_to_others(void)
{
    begin_server(IN_MEMORY);
    bide_put_options options = with_retries(HOUR_MS, 0);
    uint64_t id = put_job("work", "hold a", &options);
    const char *url = server_url(server.port, "");
    pid_t worker = start_worker_process_with(url, 1, 1);
    UNTIL(event_log_count("began", id) == 1);
    kill(worker, SIGTERM);
    UNTIL(event_log_count("interrupted", id) == 1);
    pid_t other = start_worker_process(url, 1);
    UNTIL(event_log_count("began", id) == 2);
    EQ(get_job(id).failures, 0);
    UNTIL(event_log_count("ran", 0) == 1);
    EQ(event_log_get("ran", 0, 0).code, BIDE_TIMED_OUT);
    open_gate("a");
    ends_with(worker, BIDE_TIMED_OUT);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    stop_worker_process(other);
    EQ(event_log_count("done", id), 1);
    EQ(event_log_get("done", id, 0).pid, other);
    end_server();
}

/* ---- without a server ---- */

#define IMPATIENT "connect_timeout=500ms&answer_timeout=1s"

static void a_worker_ends_when_its_server_is_gone(void)
{
    begin_server(IN_MEMORY);
    pid_t worker = start_worker_process(server_url(server.port, IMPATIENT), 4);
    UNTIL(waiting_now() > 0);
    test_server_kill(&server);
    UNTIL(event_log_count("unhealthy", 0) > 0);
    stop_worker_process(worker);
    OK(bide_close(queue));
}

/* What it owes cannot be told any more: it says so, and ends. */
static void worker_with_a_deferred_ack_ends_without_its_server(void)
{
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(HOUR_MS);
    uint64_t id = put_job("work", "hold a", &options);
    pid_t worker = start_worker_process_with(server_url(server.port, IMPATIENT), 4, 1000);
    UNTIL(event_log_count("began", id) == 1);
    test_server_kill(&server);
    open_gate("a");
    UNTIL(event_log_count("deferred", id) == 1);
    stop_worker_process(worker);
    EQ(event_log_count("given-up", id), 1);
    EQ(event_log_count("done", id), 0);
    OK(bide_close(queue));
}

/* ---- with a silent server ---- */

static void a_worker_ends_when_its_server_is_silent(void)
{
    begin_server(IN_MEMORY);
    pid_t worker = start_worker_process(server_url(server.port, IMPATIENT), 4);
    UNTIL(waiting_now() > 0);
    kill(server.pid, SIGSTOP);
    stop_worker_process(worker);
    kill(server.pid, SIGCONT);
    end_server();
}

/* Whether it is given up before the stop is over, or after, is a matter of the times. */
static void worker_with_a_deferred_ack_ends_with_a_silent_server(void)
{
    begin_server(IN_MEMORY);
    bide_put_options options = with_ttr(HOUR_MS);
    uint64_t id = put_job("work", "hold a", &options);
    pid_t worker = start_worker_process_with(server_url(server.port, IMPATIENT), 4, 1000);
    int code = -1;
    UNTIL(event_log_count("began", id) == 1);
    kill(server.pid, SIGSTOP);
    open_gate("a");
    nap_ms(100);
    kill(worker, SIGTERM);
    UNTIL(has_ended(worker, &code));
    CHECK(code == 0 || code == BIDE_TIMED_OUT);
    EQ(event_log_count("done", id), 0);
    kill(server.pid, SIGCONT);
    end_server();
}

static const struct test tests[] = {
    TEST(sigterm_lets_the_handlers_finish),
    TEST(sigint_lets_the_handlers_finish),
    TEST(a_worker_without_work_ends_at_once),
    TEST(further_signals_change_nothing),
    TEST(a_later_sigint_ends_the_process),
    TEST(a_signal_that_is_ignored_stays_ignored),
    TEST(a_handler_that_does_not_return_in_time_loses_its_job_to_others),
    TEST(a_worker_ends_when_its_server_is_gone),
    TEST(worker_with_a_deferred_ack_ends_without_its_server),
    TEST(a_worker_ends_when_its_server_is_silent),
    TEST(worker_with_a_deferred_ack_ends_with_a_silent_server),
};
const struct theme run_theme = {"process_run", tests, COUNT(tests)};
