/* SPDX-License-Identifier: MIT */
/* owed.c - a worker whose server goes away, and comes back. Only where not is_own(). */
#include "../contract/place.h"
#include "crew.h"

#include <stdio.h>

static char place[PLACE_SIZE];

/* A worker that is a client of its own, and does not wait long for a server that is away. */
static struct crew *crew_of_a_server(void)
{
    bide_worker_options options = threads(1);
    char base[PLACE_SIZE], url[PLACE_SIZE + 64];
    bide *queue = NULL;
    options.health_interval_ms = 50;
    open_place(new_place(place, sizeof place), "");
    snprintf(url, sizeof url, "%s?connect_timeout=100ms&reconnect_max=50ms",
             open_again(base, sizeof base, place));
    OK(bide_open(url, NULL, &queue));
    struct crew *crew = new_crew(queue, &options);
    OK(bide_worker_handle(crew->worker, crew->topic, do_at_gate, crew));
    OK(bide_worker_start(crew->worker));
    return crew;
}

static void close_client(struct crew *crew)
{
    free_worker(crew);
    OK(bide_close(crew->queue));
}

/* The server is killed while a handler runs, whose answer is owed then. */
static uint64_t lose_the_server(struct crew *crew, int64_t ttr_ms)
{
    bide_put_options options = with_ttr(ttr_ms);
    uint64_t id = give_as(crew, "body", &options);
    UNTIL(crew->running == 1);
    kill_place(place);
    crew->open = true;
    UNTIL_TOLD(crew, BIDE_WORK_OWED, 1);
    const struct told *owed = nth_told(crew, BIDE_WORK_OWED, 0);
    EQ(owed->id, id);
    CHECK(owed->code < 0);
    CHECK(owed->text[0] != '\0');
    return id;
}

/* The lease is the old server's, so that the new one refuses the answer. */
static void what_a_server_could_not_be_told_is_told_again(void)
{
    struct crew *crew = crew_of_a_server();
    uint64_t id = lose_the_server(crew, 60000);
    start_place(place);
    UNTIL_TOLD(crew, BIDE_WORK_LOST, 1);
    EQ(nth_told(crew, BIDE_WORK_LOST, 0)->id, id);
    EQ(told(crew, BIDE_WORK_GIVEN_UP), 0);
    close_client(crew);
}

static void what_a_server_could_not_be_told_is_given_up_when_the_lease_has_ended(void)
{
    struct crew *crew = crew_of_a_server();
    int64_t start_us = clock_us();
    uint64_t id = lose_the_server(crew, 400);
    UNTIL_TOLD(crew, BIDE_WORK_GIVEN_UP, 1);
    NOT_BEFORE(start_us, 400);
    EQ(nth_told(crew, BIDE_WORK_GIVEN_UP, 0)->id, id);
    start_place(place);
    close_client(crew);
}

/* It has a reserve that waits, and nobody who answers it. */
static void a_worker_without_a_server_starves_and_is_fed_by_the_next(void)
{
    struct crew *crew = crew_of_a_server();
    crew->open = true;
    UNTIL(stats_of(crew->queue).waiting == 1);
    kill_place(place);
    UNTIL_TOLD(crew, BIDE_WORK_STARVED, 1);
    CHECK(nth_told(crew, BIDE_WORK_STARVED, 0)->code != BIDE_OK);
    CHECK(nth_told(crew, BIDE_WORK_STARVED, 0)->text[0] != '\0');
    start_place(place);
    UNTIL_TOLD(crew, BIDE_WORK_FED, 1);
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    close_client(crew);
}

static void a_worker_goes_on_when_its_server_has_come_back(void)
{
    struct crew *crew = crew_of_a_server();
    crew->open = true;
    for (int i = 1; i <= 3; i++) {
        give(crew, "body");
        UNTIL_TOLD(crew, BIDE_WORK_DONE, i);
        kill_place(place);
        start_place(place);
        UNTIL(bide_ping(crew->queue) == BIDE_OK);
    }
    close_client(crew);
}

static const struct test tests[] = {
    TEST(what_a_server_could_not_be_told_is_told_again),
    TEST(what_a_server_could_not_be_told_is_given_up_when_the_lease_has_ended),
    TEST(a_worker_without_a_server_starves_and_is_fed_by_the_next),
    TEST(a_worker_goes_on_when_its_server_has_come_back),
};

const struct theme owed_theme = {"owed", tests, COUNT(tests)};
