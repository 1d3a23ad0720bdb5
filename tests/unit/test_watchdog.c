/* SPDX-License-Identifier: MIT */
#include "slow_store.h"

#include "server/server.h"

#include <signal.h>
#include <time.h>

/*
 * The store stands still for TICKS calls of the server's own timer, counted by a thread that sleeps
 * as long: meanwhile the watchdog must not hear that the server is alive, and afterwards it must
 * again.
 */
#define WATCHDOG_MS INT64_C(90)
#define TICKS       40

static struct slow_store *slow;
static bide *queue;
static bide_cq *cq;
static bide_op put;
static unsigned calls, calls_while_shut;
static bool shut, opened;

static void *open_later(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_sec = WATCHDOG_MS * TICKS / 3 / 1000,
                                 .tv_nsec = WATCHDOG_MS * TICKS / 3 % 1000 * 1000000L},
              NULL);
    slow_set(slow, false, 0);
    return NULL;
}

static void on_event(void *user, enum server_event event)
{
    static pthread_t thread;
    (void)user;
    if (event != SERVER_ALIVE)
        return;
    calls++;
    if (!shut) {
        unsigned started = slow_started(slow);
        shut = true;
        slow_set(slow, true, 0);
        put = put_op(cq, "a");
        assert_int_equal(submit_one(queue, &put), 1);
        slow_await(slow, started + 1);
        assert_int_equal(pthread_create(&thread, NULL, open_later, NULL), 0);
        return;
    }
    if (bide_cq_drain(cq, 0) == 0 && !opened) {
        calls_while_shut++;
        return;
    }
    if (!opened)
        pthread_join(thread, NULL);
    opened = true;
    raise(SIGTERM);
}

static void hanging_commit_stops_the_watchdog_notifications(void **state)
{
    struct server *server;
    char error[BIDE_ERROR_SIZE];
    (void)state;
    queue = slow_open("memory:", &slow);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    struct server_settings settings = {
        .queue = queue,
        .limits = {.max_connections = 10, .stop_timeout_ms = 10000, .max_client_bytes = 1 << 20},
        .notify = on_event,
        .watchdog_us = WATCHDOG_MS * 1000,
    };
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    bi_server_run(server);
    bi_server_free(server);
    assert_true(opened);
    assert_int_equal(put.status, BIDE_OK);
    /* Before a commit has lasted for the watchdog's time there may be some. */
    assert_true(calls_while_shut < TICKS / 4);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
}

static void no_watchdog_gets_no_notification(void **state)
{
    struct server *server;
    char error[BIDE_ERROR_SIZE];
    struct server_settings settings = {
        .limits = {.max_connections = 10, .stop_timeout_ms = 10000, .max_client_bytes = 1 << 20},
        .notify = on_event,
    };
    (void)state;
    calls = 0;
    assert_int_equal(bide_open("memory:", NULL, &settings.queue), BIDE_OK);
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    raise(SIGTERM); /* the loop takes it when it runs */
    bi_server_run(server);
    bi_server_free(server);
    assert_int_equal(calls, 0);
    assert_int_equal(bide_close(settings.queue), BIDE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hanging_commit_stops_the_watchdog_notifications),
        cmocka_unit_test(no_watchdog_gets_no_notification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
