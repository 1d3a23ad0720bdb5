/* SPDX-License-Identifier: MIT */
/* worker_events.c - what a worker tells of its work, and of the health of its queue. */
#include "worker_fixture.h"

#include <string.h>

/* ---- names ---- */

static void every_kind_and_every_reason_has_a_name(void)
{
    static const char *const kinds[BIDE_WORK_KINDS] = {
        "started", "done", "retried",  "buried",   "snoozed",   "interrupted", "cancelled",
        "overran", "lost", "deferred", "given up", "unhealthy", "healthy"};
    static const char *const reasons[] = {"none", "cancelled", "overrun", "lease lost", "stopping"};
    for (int i = 0; i < BIDE_WORK_KINDS; i++)
        TEXT(bide_work_name((bide_work_kind)i), strlen(bide_work_name((bide_work_kind)i)),
             kinds[i]);
    for (int i = 0; i < (int)COUNT(reasons); i++)
        TEXT(bide_reason_name((bide_reason)i), strlen(bide_reason_name((bide_reason)i)),
             reasons[i]);
    TEXT(bide_work_name((bide_work_kind)BIDE_WORK_KINDS), 1, "?");
    TEXT(bide_work_name((bide_work_kind)-1), 1, "?");
    TEXT(bide_reason_name((bide_reason)5), 1, "?");
    TEXT(bide_reason_name((bide_reason)-1), 1, "?");
}

/* ---- the fields of an event ---- */

static int nap_and_answer(bide_context *context, const bide_slice *body, void *arg)
{
    (void)arg;
    nap_ms(20);
    if (body_is(body, "retry"))
        return bide_context_retry_in(context, 3600000, "no luck");
    if (body_is(body, "bury"))
        return bide_context_bury(context, "no use");
    if (body_is(body, "snooze"))
        return bide_context_snooze(context, 7200000);
    return BIDE_DONE;
}

static void reports(struct worker_fixture *fixture, const char *body, bide_work_kind kind,
                    const char *text, int64_t delay_ms)
{
    uint64_t id = enqueue(fixture, body);
    UNTIL_EVENTS(fixture, kind, 1);
    const struct recorded_event *event = nth_event(fixture, kind, 0);
    EQ(event->id, id);
    EQ(event->code, BIDE_OK);
    EQ(event->attempt, 1);
    EQ(event->delay_ms, delay_ms);
    CHECK(event->took_us >= 20000);
    TEXT(event->text, strlen(event->text), text);
    TEXT(event->topic, strlen(event->topic), fixture->topic);
    EQ(count_events_of(fixture, BIDE_WORK_STARTED, id), 1);
}

static void event_has_the_outcome_of_the_job(void)
{
    struct worker_fixture *fixture = start_fixture(nap_and_answer, 1);
    reports(fixture, "done", BIDE_WORK_DONE, "", 0);
    reports(fixture, "retry", BIDE_WORK_RETRIED, "no luck", 3600000);
    reports(fixture, "bury", BIDE_WORK_BURIED, "no use", 0);
    reports(fixture, "snooze", BIDE_WORK_SNOOZED, "", 7200000);
    const struct recorded_event *started = nth_event(fixture, BIDE_WORK_STARTED, 0);
    TEXT(started->topic, strlen(started->topic), fixture->topic);
    EQ(started->attempt, 1);
    EQ(started->code, BIDE_OK);
    TEXT(started->text, strlen(started->text), "");
}

/* An event follows the change that it tells of. */
static void see_the_change(void *user, const bide_work_event *event)
{
    struct worker_fixture *fixture = user;
    if (event->kind == BIDE_WORK_STARTED)
        EQ(state_of(fixture->queue, event->id), BIDE_STATE_RESERVED);
    if (event->kind == BIDE_WORK_DONE)
        EQ(state_of(fixture->queue, event->id), BIDE_STATE_GONE);
    if (event->kind == BIDE_WORK_RETRIED || event->kind == BIDE_WORK_SNOOZED)
        EQ(state_of(fixture->queue, event->id), BIDE_STATE_DELAYED);
    if (event->kind == BIDE_WORK_BURIED)
        EQ(state_of(fixture->queue, event->id), BIDE_STATE_BURIED);
    if (event->kind != BIDE_WORK_STARTED)
        fixture->number++;
}

static void event_is_emitted_after_the_ack(void)
{
    struct worker_fixture *fixture = new_fixture_of(nap_and_answer, NULL);
    bide_worker_options options = threads(2);
    bide_worker *worker = NULL;
    options.event = see_the_change;
    options.user = fixture;
    OK(bide_worker_new(fixture->queue, &options, &worker));
    OK(bide_worker_handle(worker, fixture->topic, nap_and_answer, fixture));
    OK(bide_worker_start(worker));
    enqueue(fixture, "done");
    enqueue(fixture, "retry");
    enqueue(fixture, "bury");
    enqueue(fixture, "snooze");
    UNTIL(fixture->number == 4);
    OK(bide_worker_free(worker));
}

/* A thread does not begin with a job before it knows what became of the last. */
static void events_of_a_thread_are_in_job_order(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    put_lots(fixture->queue, fixture->topic, 100, NULL, NULL);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 100);
    OK(bide_worker_stop(fixture->worker));
    EQ(fixture->event_count, 200);
    for (size_t i = 0; i < 200; i += 2) {
        EQ(fixture->events[i].kind, BIDE_WORK_STARTED);
        EQ(fixture->events[i + 1].kind, BIDE_WORK_DONE);
        EQ(fixture->events[i + 1].id, fixture->events[i].id);
    }
}

static void a_worker_needs_no_event_handler(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    bide_worker *worker = NULL;
    OK(bide_worker_new(fixture->queue, NULL, &worker));
    OK(bide_worker_handle(worker, fixture->topic, nap_and_answer, fixture));
    OK(bide_worker_start(worker));
    uint64_t bury = enqueue(fixture, "bury"), done = enqueue(fixture, "done");
    UNTIL(state_of(fixture->queue, bury) == BIDE_STATE_BURIED);
    UNTIL(state_of(fixture->queue, done) == BIDE_STATE_GONE);
    OK(bide_worker_free(worker));
}

/* ---- starving ---- */

/* Another call takes the only slot of max_waiters. */
static void worker_reports_unhealthy_and_healthy(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue("max_waiters=1"), NULL);
    uint64_t other = put_later(fixture->queue, fresh_topic("b"), 3600000);
    struct waiter *waiter = begin_wait(fixture->queue, new_cq(), other);
    UNTIL(stats_of(fixture->queue).watching == 1);
    OK(bide_worker_handle(fixture->worker, fixture->topic, do_nothing, fixture));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_UNHEALTHY, 1);
    const struct recorded_event *starved = nth_event(fixture, BIDE_WORK_UNHEALTHY, 0);
    EQ(starved->code, BIDE_TOO_MANY_WAITERS);
    EQ(starved->id, 0);
    CHECK(starved->text[0] != '\0');
    TEXT(starved->topic, strlen(starved->topic), "");
    OK(bide_delete(fixture->queue, other, 0));
    completes(waiter, BIDE_OK);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_HEALTHY, 1);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(nth_event(fixture, BIDE_WORK_HEALTHY, 0)->id, 0);
}

static void unhealthy_worker_can_be_stopped(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue("max_waiters=1"), NULL);
    uint64_t other = put_later(fixture->queue, fresh_topic("b"), 3600000);
    struct waiter *waiter = begin_wait(fixture->queue, new_cq(), other);
    UNTIL(stats_of(fixture->queue).watching == 1);
    OK(bide_worker_handle(fixture->worker, fixture->topic, do_nothing, fixture));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_UNHEALTHY, 1);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_delete(fixture->queue, other, 0));
    completes(waiter, BIDE_OK);
}

/* ---- health ---- */

static void note_health(void *user, int code, const char *text)
{
    struct worker_fixture *fixture = user;
    CHECK(text != NULL);
    /* On a busy machine the reply may take longer than the interval. */
    if (code == BIDE_TIMED_OUT)
        return;
    EQ(code, BIDE_OK);
    TEXT(text, strlen(text), "");
    fixture->number++;
}

static void health_is_reported_periodically(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    bide_worker_options options = threads(1);
    bide_worker *worker = NULL;
    options.health = note_health;
    options.health_interval_ms = 20;
    options.user = fixture;
    OK(bide_worker_new(fixture->queue, &options, &worker));
    OK(bide_worker_handle(worker, fixture->topic, do_nothing, fixture));
    int64_t start_us = clock_us();
    OK(bide_worker_start(worker));
    UNTIL(fixture->number >= 4);
    NOT_BEFORE(start_us, 3 * 20);
    OK(bide_worker_stop(worker));
    int64_t count = fixture->number;
    nap_ms(60);
    EQ(fixture->number, count);
    OK(bide_worker_free(worker));
}

static void the_queue_answers_a_ping(void)
{
    bide *queue = open_queue("");
    OK(bide_ping(queue));
}

static const struct test tests[] = {
    TEST(every_kind_and_every_reason_has_a_name),
    TEST(event_has_the_outcome_of_the_job),
    TEST(event_is_emitted_after_the_ack),
    TEST(events_of_a_thread_are_in_job_order),
    TEST(a_worker_needs_no_event_handler),
    TEST(worker_reports_unhealthy_and_healthy),
    TEST(unhealthy_worker_can_be_stopped),
    TEST(health_is_reported_periodically),
    TEST(the_queue_answers_a_ping),
};

const struct theme worker_events_theme = {"worker_events", tests, COUNT(tests)};
