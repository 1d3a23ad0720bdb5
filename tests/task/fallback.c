/* SPDX-License-Identifier: MIT */
/* fallback.c - the function that is called when a handler has failed. */
#include "task_topics.h"

#include <stdio.h>
#include <string.h>

struct parcel {
    int32_t number;
};
BIDE_TYPE(parcel, struct parcel, BIDE_FIELD(number));
BIDE_TASK(deliver, parcel, .topic = TASK_TOPIC_A, .max_retries = 2, .backoff_base_ms = 1,
          .backoff_max_ms = 1);
BIDE_TASK(other, parcel, .topic = TASK_TOPIC_B);

/* What the fallback was called with, one after another. */
struct fall {
    char error[64];
    uint32_t attempt;
    bool is_last;
    int32_t number;
};

struct falls {
    struct fall list[16];
    _Atomic int count;
};

static void note_fall(bide_context *context, const struct parcel *parcel, const char *error,
                      void *arg)
{
    struct worker_fixture *fixture = arg;
    struct falls *falls = fixture->more;
    const bide_job *job = bide_context_job(context);
    int i = falls->count;
    CHECK(i < (int)COUNT(falls->list));
    CHECK(parcel != NULL && error != NULL);
    EQ(state_of(fixture->queue, job->id), BIDE_STATE_RESERVED);
    OK(bide_touch(fixture->queue, job->id, job->token, 0, NULL));
    snprintf(falls->list[i].error, sizeof falls->list[i].error, "%s", error);
    falls->list[i].attempt = bide_context_attempt(context);
    falls->list[i].is_last = bide_context_is_last(context);
    falls->list[i].number = parcel->number;
    falls->count = i + 1;
}

/* Answers by the number of the parcel. */
static int answer_by_number(bide_context *context, const struct parcel *parcel, void *arg)
{
    struct worker_fixture *fixture = arg;
    uint32_t attempt = bide_context_attempt(context);
    enter(fixture);
    switch (parcel->number) {
    case 1:
        return bide_context_retry(context, "nobody at home, %u", attempt);
    case 2:
        return bide_context_bury(context, "no such street");
    case 3:
        return fixture->runs < 3 ? bide_context_snooze(context, 0) : BIDE_DONE;
    case 4:
        return attempt == 1 ? 4711 : BIDE_DONE;
    default:
        return BIDE_DONE;
    }
}

static struct falls *deliver_one(struct worker_fixture **fixture, int32_t number, uint64_t *id)
{
    static struct falls falls;
    struct worker_fixture *made = *fixture = new_fixture(open_with_task_topics(""), NULL);
    made->more = &falls;
    OK(bide_handle(made->worker, deliver, answer_by_number, made));
    OK(bide_fallback(made->worker, deliver, note_fall, made));
    OK(bide_publish(made->queue, deliver, (struct parcel){number}, NULL, id));
    OK(bide_worker_start(made->worker));
    return &falls;
}

static void is_fall(const struct fall *fall, const char *error, uint32_t attempt, bool is_last)
{
    TEXT(fall->error, strlen(fall->error), error);
    EQ(fall->attempt, attempt);
    EQ(fall->is_last, is_last);
}

static void fallback_is_called_at_each_failure(void)
{
    struct worker_fixture *fixture;
    uint64_t id;
    struct falls *falls = deliver_one(&fixture, 1, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    EQ(falls->count, 3);
    is_fall(&falls->list[0], "nobody at home, 1", 1, false);
    is_fall(&falls->list[1], "nobody at home, 2", 2, false);
    is_fall(&falls->list[2], "nobody at home, 3", 3, true);
    EQ(falls->list[2].number, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_BURIED);
}

static void fallback_sees_a_burial_as_the_last_failure(void)
{
    struct worker_fixture *fixture;
    uint64_t id;
    struct falls *falls = deliver_one(&fixture, 2, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    EQ(falls->count, 1);
    is_fall(&falls->list[0], "no such street", 1, true);
}

static void fallback_is_not_called_for_snooze_and_done(void)
{
    struct worker_fixture *fixture;
    uint64_t id;
    struct falls *falls = deliver_one(&fixture, 3, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(count_events(fixture, BIDE_WORK_SNOOZED), 2);
    EQ(falls->count, 0);
}

static void fallback_is_called_for_other_return_values(void)
{
    struct worker_fixture *fixture;
    uint64_t id;
    struct falls *falls = deliver_one(&fixture, 4, &id);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(falls->count, 1);
    is_fall(&falls->list[0], "the handler answered 4711", 1, false);
}

static int fail_at_once(bide_context *context, const struct parcel *parcel, void *arg)
{
    (void)parcel;
    enter(arg);
    return bide_context_bury(context, "no");
}

static void each_task_has_its_own_fallback(void)
{
    static struct falls falls;
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t id = 0;
    fixture->more = &falls;
    OK(bide_handle(fixture->worker, deliver, fail_at_once, fixture));
    OK(bide_handle(fixture->worker, other, fail_at_once, fixture));
    OK(bide_fallback(fixture->worker, other, note_fall, fixture));
    OK(bide_publish(fixture->queue, deliver, (struct parcel){7}, NULL, NULL));
    OK(bide_publish(fixture->queue, other, (struct parcel){8}, NULL, &id));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 2);
    EQ(falls.count, 1);
    EQ(falls.list[0].number, 8);
}

static int fail_when_stopped(bide_context *context, const struct parcel *parcel, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)parcel;
    enter(fixture);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_STOPPING);
    leave(fixture);
    return bide_context_retry(context, "stopped");
}

static void fallback_is_not_called_for_an_interruption(void)
{
    static struct falls falls;
    bide_worker_options options = threads(1);
    options.stop_timeout_ms = 1;
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), &options);
    fixture->more = &falls;
    OK(bide_handle(fixture->worker, deliver, fail_when_stopped, fixture));
    OK(bide_fallback(fixture->worker, deliver, note_fall, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, deliver, (struct parcel){1}, NULL, NULL));
    UNTIL(fixture->running == 1);
    OK(bide_worker_stop(fixture->worker));
    EQ(count_events(fixture, BIDE_WORK_INTERRUPTED), 1);
    EQ(falls.count, 0);
}

static void fallback_is_set_between_handle_and_start(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    CODE(bide_fallback(fixture->worker, deliver, note_fall, fixture), BIDE_NOT_FOUND);
    OK(bide_handle(fixture->worker, deliver, answer_by_number, fixture));
    OK(bide_worker_start(fixture->worker));
    CODE(bide_fallback(fixture->worker, deliver, note_fall, fixture), BIDE_EBUSY);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_fallback(fixture->worker, deliver, note_fall, fixture));
}

static const struct test tests[] = {
    TEST(fallback_is_called_at_each_failure),
    TEST(fallback_sees_a_burial_as_the_last_failure),
    TEST(fallback_is_not_called_for_snooze_and_done),
    TEST(fallback_is_called_for_other_return_values),
    TEST(each_task_has_its_own_fallback),
    TEST(fallback_is_not_called_for_an_interruption),
    TEST(fallback_is_set_between_handle_and_start),
};

const struct theme fallback_theme = {"fallback", tests, COUNT(tests)};
