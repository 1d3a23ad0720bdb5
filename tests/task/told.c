/* SPDX-License-Identifier: MIT */
/* told.c - what a worker tells of its work, and of the health of its queue. */
#include "crew.h"

#include <string.h>

/* ---- names ---- */

static void every_kind_and_every_reason_has_a_name(void)
{
    static const char *const kinds[BIDE_WORK_KINDS] = {
        "started", "done", "retried", "buried",   "snoozed", "interrupted", "cancelled",
        "overran", "lost", "owed",    "given up", "starved", "fed"};
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
    if (reads(body, "retry"))
        return bide_context_retry_in(context, 3600000, "no luck");
    if (reads(body, "bury"))
        return bide_context_bury(context, "no use");
    if (reads(body, "snooze"))
        return bide_context_snooze(context, 7200000);
    return BIDE_DONE;
}

static void tells(struct crew *crew, const char *body, bide_work_kind kind, const char *text,
                  int64_t delay_ms)
{
    uint64_t id = give(crew, body);
    UNTIL_TOLD(crew, kind, 1);
    const struct told *event = nth_told(crew, kind, 0);
    EQ(event->id, id);
    EQ(event->code, BIDE_OK);
    EQ(event->attempt, 1);
    EQ(event->delay_ms, delay_ms);
    CHECK(event->took_us >= 20000);
    TEXT(event->text, strlen(event->text), text);
    TEXT(event->topic, strlen(event->topic), crew->topic);
    EQ(told_of(crew, BIDE_WORK_STARTED, id), 1);
}

static void an_event_says_what_came_of_the_job(void)
{
    struct crew *crew = start_crew(nap_and_answer, 1);
    tells(crew, "done", BIDE_WORK_DONE, "", 0);
    tells(crew, "retry", BIDE_WORK_RETRIED, "no luck", 3600000);
    tells(crew, "bury", BIDE_WORK_BURIED, "no use", 0);
    tells(crew, "snooze", BIDE_WORK_SNOOZED, "", 7200000);
    const struct told *started = nth_told(crew, BIDE_WORK_STARTED, 0);
    TEXT(started->topic, strlen(started->topic), crew->topic);
    EQ(started->attempt, 1);
    EQ(started->code, BIDE_OK);
    TEXT(started->text, strlen(started->text), "");
}

/* An event follows the change that it tells of. */
static void see_the_change(void *user, const bide_work_event *event)
{
    struct crew *crew = user;
    if (event->kind == BIDE_WORK_STARTED)
        EQ(state_of(crew->queue, event->id), BIDE_STATE_RESERVED);
    if (event->kind == BIDE_WORK_DONE)
        EQ(state_of(crew->queue, event->id), BIDE_STATE_GONE);
    if (event->kind == BIDE_WORK_RETRIED || event->kind == BIDE_WORK_SNOOZED)
        EQ(state_of(crew->queue, event->id), BIDE_STATE_DELAYED);
    if (event->kind == BIDE_WORK_BURIED)
        EQ(state_of(crew->queue, event->id), BIDE_STATE_BURIED);
    if (event->kind != BIDE_WORK_STARTED)
        crew->number++;
}

static void an_event_comes_when_the_queue_has_been_told(void)
{
    struct crew *crew = new_crew_of(nap_and_answer, NULL);
    bide_worker_options options = threads(2);
    bide_worker *worker = NULL;
    options.event = see_the_change;
    options.user = crew;
    OK(bide_worker_new(crew->queue, &options, &worker));
    OK(bide_worker_handle(worker, crew->topic, nap_and_answer, crew));
    OK(bide_worker_start(worker));
    give(crew, "done");
    give(crew, "retry");
    give(crew, "bury");
    give(crew, "snooze");
    UNTIL(crew->number == 4);
    OK(bide_worker_free(worker));
}

/* A thread does not begin with a job before it knows what became of the last. */
static void a_thread_tells_of_one_job_after_the_other(void)
{
    struct crew *crew = new_crew_of(do_nothing, NULL);
    put_lots(crew->queue, crew->topic, 100, NULL, NULL);
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 100);
    OK(bide_worker_stop(crew->worker));
    EQ(crew->told_count, 200);
    for (size_t i = 0; i < 200; i += 2) {
        EQ(crew->told[i].kind, BIDE_WORK_STARTED);
        EQ(crew->told[i + 1].kind, BIDE_WORK_DONE);
        EQ(crew->told[i + 1].id, crew->told[i].id);
    }
}

static void a_worker_needs_no_event_handler(void)
{
    struct crew *crew = new_crew_of(do_nothing, NULL);
    bide_worker *worker = NULL;
    OK(bide_worker_new(crew->queue, NULL, &worker));
    OK(bide_worker_handle(worker, crew->topic, nap_and_answer, crew));
    OK(bide_worker_start(worker));
    uint64_t bury = give(crew, "bury"), done = give(crew, "done");
    UNTIL(state_of(crew->queue, bury) == BIDE_STATE_BURIED);
    UNTIL(state_of(crew->queue, done) == BIDE_STATE_GONE);
    OK(bide_worker_free(worker));
}

/* ---- starving ---- */

/* A call of somebody else takes the only place to wait. */
static void a_worker_that_can_have_no_jobs_says_so_and_when_it_can(void)
{
    struct crew *crew = new_crew(open_queue("max_waiters=1"), NULL);
    uint64_t other = put_later(crew->queue, fresh_topic("b"), 3600000);
    struct waiter *waiter = begin_wait(crew->queue, new_cq(), other);
    UNTIL(stats_of(crew->queue).watching == 1);
    OK(bide_worker_handle(crew->worker, crew->topic, do_nothing, crew));
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_STARVED, 1);
    const struct told *starved = nth_told(crew, BIDE_WORK_STARVED, 0);
    EQ(starved->code, BIDE_TOO_MANY_WAITERS);
    EQ(starved->id, 0);
    CHECK(starved->text[0] != '\0');
    TEXT(starved->topic, strlen(starved->topic), "");
    OK(bide_delete(crew->queue, other, 0));
    completes(waiter, BIDE_OK);
    give(crew, "body");
    UNTIL_TOLD(crew, BIDE_WORK_FED, 1);
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(nth_told(crew, BIDE_WORK_FED, 0)->id, 0);
}

static void a_worker_that_starves_can_be_stopped(void)
{
    struct crew *crew = new_crew(open_queue("max_waiters=1"), NULL);
    uint64_t other = put_later(crew->queue, fresh_topic("b"), 3600000);
    struct waiter *waiter = begin_wait(crew->queue, new_cq(), other);
    UNTIL(stats_of(crew->queue).watching == 1);
    OK(bide_worker_handle(crew->worker, crew->topic, do_nothing, crew));
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_STARVED, 1);
    OK(bide_worker_stop(crew->worker));
    OK(bide_delete(crew->queue, other, 0));
    completes(waiter, BIDE_OK);
}

/* ---- health ---- */

static void note_health(void *user, int code, const char *text)
{
    struct crew *crew = user;
    CHECK(text != NULL);
    EQ(code, BIDE_OK);
    TEXT(text, strlen(text), "");
    crew->number++;
}

static void the_health_of_the_queue_is_told_again_and_again(void)
{
    struct crew *crew = new_crew_of(do_nothing, NULL);
    bide_worker_options options = threads(1);
    bide_worker *worker = NULL;
    options.health = note_health;
    options.health_interval_ms = 20;
    options.user = crew;
    OK(bide_worker_new(crew->queue, &options, &worker));
    OK(bide_worker_handle(worker, crew->topic, do_nothing, crew));
    int64_t start_us = clock_us();
    OK(bide_worker_start(worker));
    UNTIL(crew->number >= 4);
    NOT_BEFORE(start_us, 3 * 20);
    OK(bide_worker_stop(worker));
    int64_t count = crew->number;
    nap_ms(60);
    EQ(crew->number, count);
    OK(bide_worker_free(worker));
}

static void the_queue_answers_a_ping(void)
{
    bide *queue = open_queue("");
    OK(bide_ping(queue));
}

static const struct test tests[] = {
    TEST(every_kind_and_every_reason_has_a_name),
    TEST(an_event_says_what_came_of_the_job),
    TEST(an_event_comes_when_the_queue_has_been_told),
    TEST(a_thread_tells_of_one_job_after_the_other),
    TEST(a_worker_needs_no_event_handler),
    TEST(a_worker_that_can_have_no_jobs_says_so_and_when_it_can),
    TEST(a_worker_that_starves_can_be_stopped),
    TEST(the_health_of_the_queue_is_told_again_and_again),
    TEST(the_queue_answers_a_ping),
};

const struct theme told_theme = {"told", tests, COUNT(tests)};
