/* SPDX-License-Identifier: MIT */
/*
 * process_cancel.c - a job is cancelled by another process.
 */
#include "process.h"

#include <signal.h>
#include <stdio.h>

/* A job that runs is cancelled; its handler hears of it, and the job is gone. */
static void receives(const char *topic)
{
    uint64_t id = put_job(topic, "listen", NULL);
    UNTIL(event_log_count("began", id) == 1);
    OK(bide_cancel(queue, id));
    UNTIL(event_log_count("heard", id) == 1);
    EQ(event_log_get("heard", id, 0).code, BIDE_REASON_CANCELLED);
    UNTIL(event_log_count("cancelled", id) == 1);
    EQ(state_now(id), BIDE_STATE_GONE);
    EQ(event_log_count("began", id), 1);
    EQ(event_log_count("retried", id), 0);
}

static void a_cancel_reaches_the_handler_in_another_process(void)
{
    begin_server(IN_MEMORY);
    pid_t worker = start_worker_process(server_url(server.port, ""), 2);
    receives("work");
    receives("beat");
    stop_worker_process(worker);
    end_server();
}

/* Only the handler of the cancelled job is notified. */
static void only_the_handler_of_the_cancelled_job_is_notified(void)
{
    begin_server(IN_MEMORY);
    const char *url = server_url(server.port, "");
    pid_t workers[] = {start_worker_process(url, 2), start_worker_process(url, 2)};
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = put_job("work", "listen", NULL);
    for (int i = 0; i < 4; i++)
        UNTIL(event_log_count("began", ids[i]) == 1);
    for (size_t i = 0; i < 4; i++) {
        EQ(event_log_count("heard", 0), i);
        OK(bide_cancel(queue, ids[i]));
        UNTIL(event_log_count("heard", ids[i]) == 1);
    }
    UNTIL(event_log_count("cancelled", 0) == 4);
    EQ(counts_now().ready + counts_now().reserved, 0);
    stop_worker_process(workers[0]);
    stop_worker_process(workers[1]);
    end_server();
}

/* The feeds of the queue are taken by connections none of which has more than it may. */
static void cancel_is_noticed_without_an_event_stream(void)
{
    enum { EACH = 10, CONNECTIONS = BIDE_SUBSCRIPTIONS_MAX / EACH };
    bide *others[CONNECTIONS];
    bide_subscription *feed = NULL;
    begin_server(IN_MEMORY);
    for (size_t i = 0; i < COUNT(others); i++) {
        others[i] = open_url(server_url(server.port, ""));
        for (size_t j = 0; j < EACH; j++)
            OK(bide_subscribe(others[i], NULL, 0, 1, &feed));
    }
    CODE(bide_subscribe(queue, NULL, 0, 1, &feed), BIDE_TOO_MANY_WAITERS);
    pid_t worker = start_worker_process(server_url(server.port, ""), 2);
    receives("work");
    receives("beat");
    stop_worker_process(worker);
    for (size_t i = 0; i < COUNT(others); i++)
        OK(bide_close(others[i]));
    end_server();
}

/* The other order: the job is cancelled while the worker cannot be notified. */
static void cancel_is_noticed_by_a_paused_process(void)
{
    begin_server(IN_MEMORY);
    pid_t worker = start_worker_process(server_url(server.port, ""), 1);
    uint64_t id = put_job("work", "listen", NULL);
    UNTIL(event_log_count("began", id) == 1);
    kill(worker, SIGSTOP);
    OK(bide_cancel(queue, id));
    nap_ms(50);
    kill(worker, SIGCONT);
    UNTIL(event_log_count("heard", id) == 1);
    EQ(event_log_get("heard", id, 0).code, BIDE_REASON_CANCELLED);
    UNTIL(state_now(id) == BIDE_STATE_GONE);
    stop_worker_process(worker);
    end_server();
}

static const struct test tests[] = {
    TEST(a_cancel_reaches_the_handler_in_another_process),
    TEST(only_the_handler_of_the_cancelled_job_is_notified),
    TEST(cancel_is_noticed_without_an_event_stream),
    TEST(cancel_is_noticed_by_a_paused_process),
};
const struct theme cancel_theme = {"process_cancel", tests, COUNT(tests)};
