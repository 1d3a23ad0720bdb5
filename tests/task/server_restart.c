/* SPDX-License-Identifier: MIT */
/* server_restart.c - a worker whose server goes away, and comes back. Only where not
 * is_in_process(). */
#include "../contract/location.h"
#include "worker_fixture.h"

#include <stdio.h>
#include <string.h>

static char location[LOCATION_SIZE];

/* A worker that is a client of its own, and does not wait long for a server that is away. */
static struct worker_fixture *crew_with_health_checks(int64_t interval_ms)
{
    bide_worker_options options = threads(1);
    char base[LOCATION_SIZE], url[LOCATION_SIZE + 64];
    bide *queue = NULL;
    options.name = "crew";
    options.health_interval_ms = interval_ms;
    open_location(new_location(location, sizeof location), "");
    snprintf(url, sizeof url, "%s?connect_timeout=100ms&reconnect_max=50ms",
             second_url(base, sizeof base, location));
    OK(bide_open(url, NULL, &queue));
    struct worker_fixture *fixture = new_fixture(queue, &options);
    OK(bide_worker_handle(fixture->worker, fixture->topic, do_at_gate, fixture));
    OK(bide_worker_start(fixture->worker));
    return fixture;
}

static struct worker_fixture *crew_of_a_server(void)
{
    return crew_with_health_checks(50);
}

static void close_client(struct worker_fixture *fixture)
{
    free_worker(fixture);
    OK(bide_close(fixture->queue));
}

/* The server is killed while a handler runs, whose answer is owed then. */
static uint64_t lose_the_server(struct worker_fixture *fixture, int64_t ttr_ms)
{
    bide_put_options options = with_ttr(ttr_ms);
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL(fixture->running == 1);
    kill_location_server(location);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DEFERRED, 1);
    const struct recorded_event *owed = nth_event(fixture, BIDE_WORK_DEFERRED, 0);
    EQ(owed->id, id);
    CHECK(owed->code < 0);
    CHECK(owed->text[0] != '\0');
    return id;
}

/* The lease is the old server's, so that the new one refuses the answer. */
static void deferred_ack_is_retried(void)
{
    struct worker_fixture *fixture = crew_of_a_server();
    uint64_t id = lose_the_server(fixture, 60000);
    start_location_server(location);
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    EQ(nth_event(fixture, BIDE_WORK_LOST, 0)->id, id);
    EQ(count_events(fixture, BIDE_WORK_GIVEN_UP), 0);
    close_client(fixture);
}

static void deferred_ack_is_given_up_when_the_lease_ends(void)
{
    struct worker_fixture *fixture = crew_of_a_server();
    int64_t start_us = clock_us();
    uint64_t id = lose_the_server(fixture, 400);
    UNTIL_EVENTS(fixture, BIDE_WORK_GIVEN_UP, 1);
    NOT_BEFORE(start_us, 400);
    EQ(nth_event(fixture, BIDE_WORK_GIVEN_UP, 0)->id, id);
    start_location_server(location);
    close_client(fixture);
}

/* It has a waiting reserve that gets no reply. */
static void worker_is_unhealthy_without_a_server_and_recovers(void)
{
    struct worker_fixture *fixture = crew_of_a_server();
    fixture->open = true;
    UNTIL(stats_of(fixture->queue).waiting == 2); /* and its scheduler */
    kill_location_server(location);
    UNTIL_EVENTS(fixture, BIDE_WORK_UNHEALTHY, 1);
    CHECK(nth_event(fixture, BIDE_WORK_UNHEALTHY, 0)->code != BIDE_OK);
    CHECK(nth_event(fixture, BIDE_WORK_UNHEALTHY, 0)->text[0] != '\0');
    start_location_server(location);
    UNTIL_EVENTS(fixture, BIDE_WORK_HEALTHY, 1);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    close_client(fixture);
}

static void worker_continues_after_a_server_restart(void)
{
    struct worker_fixture *fixture = crew_of_a_server();
    fixture->open = true;
    for (int i = 1; i <= 3; i++) {
        enqueue(fixture, "body");
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, i);
        kill_location_server(location);
        start_location_server(location);
        UNTIL(bide_ping(fixture->queue) == BIDE_OK);
    }
    close_client(fixture);
}

static bool is_announced(bide *queue)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_announced workers[10];
    bide_worker_info info;
    size_t count = 0;
    bool found = false;
    if (bide_workers(queue, cursor, workers, COUNT(workers), &count) != BIDE_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        found = found || (bide_worker_decode(workers[i].data, workers[i].data_size, &info, NULL, 0,
                                             NULL, 0) &&
                          info.name.size > 5 && memcmp(info.name.data, "crew:", 5) == 0);
        bide_announced_clear(&workers[i]);
    }
    return found;
}

/* A server stores no announcements; the next health check is far away. */
static void worker_announces_itself_again_after_a_server_restart(void)
{
    struct worker_fixture *fixture = crew_with_health_checks(3600000);
    fixture->open = true;
    UNTIL(is_announced(fixture->queue));
    UNTIL(stats_of(fixture->queue).watching == 1); /* it is subscribed to cancels */
    kill_location_server(location);
    start_location_server(location);
    UNTIL(is_announced(fixture->queue));
    close_client(fixture);
}

static const struct test tests[] = {
    TEST(deferred_ack_is_retried),
    TEST(deferred_ack_is_given_up_when_the_lease_ends),
    TEST(worker_is_unhealthy_without_a_server_and_recovers),
    TEST(worker_continues_after_a_server_restart),
    TEST(worker_announces_itself_again_after_a_server_restart),
};

const struct theme server_restart_theme = {"server_restart", tests, COUNT(tests)};
