/* SPDX-License-Identifier: MIT */
/*
 * stop_under_load.c - a worker is stopped and started at random moments while others put jobs:
 * nothing is lost, and nothing is done twice.
 */
#include "worker_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#define PRODUCERS 2
#define ROUNDS    25

/* What was asked for, by the number in the body: how often its effect was made, and
 * acknowledged. */
struct ledger {
    struct worker_fixture *fixture;
    int each; /* jobs a producer puts */
    _Atomic int next;
    _Atomic int *effects;
    uint64_t *ids;
    bool listens;  /* the handlers give up when they are told to stop */
    bool was_late; /* a stop did not see the end of a handler */
};

static int make_the_effect(bide_context *context, const bide_slice *body, void *arg)
{
    struct ledger *ledger = ((struct worker_fixture *)arg)->more;
    char number[16] = "";
    CHECK(body->size < sizeof number);
    snprintf(number, sizeof number, "%.*s", (int)body->size, (const char *)body->data);
    int which = atoi(number);
    if (which % 8 == 0 && ledger->listens) {
        if (bide_context_wait(context, which % 3) != BIDE_REASON_NONE)
            return bide_context_retry(context, "told to stop");
    }
    ledger->effects[which]++;
    return BIDE_DONE;
}

static void *produce(void *arg)
{
    struct ledger *ledger = arg;
    bide_put_options options = with_retries(0);
    for (int i = 0; i < ledger->each; i++) {
        char number[16];
        int which = ledger->next++;
        snprintf(number, sizeof number, "%d", which);
        ledger->ids[which] = enqueue_as(ledger->fixture, number, &options);
        if (i % 16 == 0)
            nap_ms(1);
    }
    return NULL;
}

/* In haste, a handler that the machine keeps from running for a second loses its job: then its
 * effect may be made once more, which an acknowledgement may not. */
static void stop_once(struct worker_fixture *fixture, struct ledger *ledger)
{
    int code = bide_worker_stop(fixture->worker);
    if (code == BIDE_TIMED_OUT && ledger->listens)
        ledger->was_late = true;
    else
        CODE(code, BIDE_OK);
}

static void stop_and_start(struct worker_fixture *fixture, struct ledger *ledger)
{
    unsigned seed = 12345;
    for (int i = 0; i < ROUNDS; i++) {
        nap_ms(rand_r(&seed) % 12);
        stop_once(fixture, ledger);
        EQ(stats_of(fixture->queue).jobs.reserved, 0);
        UNTIL(bide_worker_start(fixture->worker) == BIDE_OK);
    }
}

static void each_was_done_once(struct worker_fixture *fixture, const struct ledger *ledger,
                               int count)
{
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, count);
    OK(bide_worker_stop(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_DONE), count);
    for (int i = 0; i < count; i++) {
        EQ(count_events_of(fixture, BIDE_WORK_DONE, ledger->ids[i]), 1);
        BETWEEN(ledger->effects[i], 1, ledger->was_late ? ROUNDS : 1);
        EQ(state_of(fixture->queue, ledger->ids[i]), BIDE_STATE_GONE);
    }
    CHECK(count_events(fixture, BIDE_WORK_STARTED) <=
          count_events(fixture, BIDE_WORK_DONE) + count_events(fixture, BIDE_WORK_INTERRUPTED));
    EQ(count_events(fixture, BIDE_WORK_LOST) + count_events(fixture, BIDE_WORK_BURIED), 0);
}

static void stop_under_load(int64_t stop_timeout_ms, int each)
{
    bide_worker_options options = threads(4);
    struct ledger ledger = {.each = each, .listens = stop_timeout_ms > 0};
    int count = PRODUCERS * each;
    pthread_t producers[PRODUCERS];
    options.stop_timeout_ms = stop_timeout_ms;
    struct worker_fixture *fixture = ledger.fixture = new_fixture_of(make_the_effect, &options);
    fixture->more = &ledger;
    ledger.effects = calloc((size_t)count, sizeof *ledger.effects);
    ledger.ids = calloc((size_t)count, sizeof *ledger.ids);
    CHECK(ledger.effects && ledger.ids);
    OK(bide_worker_start(fixture->worker));
    for (int i = 0; i < PRODUCERS; i++)
        producers[i] = start_thread(produce, &ledger);
    stop_and_start(fixture, &ledger);
    for (int i = 0; i < PRODUCERS; i++)
        join_thread(producers[i]);
    each_was_done_once(fixture, &ledger, count);
    free(ledger.effects);
    free(ledger.ids);
}

static void repeatedly_stopped_worker_runs_every_job_once(void)
{
    stop_under_load(0, 300);
}

/* Here handlers are interrupted, too. */
static void worker_stopped_without_waiting_runs_every_job_once(void)
{
    stop_under_load(1, 300);
}

static const struct test tests[] = {
    TEST(repeatedly_stopped_worker_runs_every_job_once),
    TEST(worker_stopped_without_waiting_runs_every_job_once),
};

const struct theme load_theme = {"stop_under_load", tests, COUNT(tests)};
