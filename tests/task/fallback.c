/* SPDX-License-Identifier: MIT */
/* fallback.c - who is called when a handler has failed. */
#include "fixed.h"

#include <stdio.h>
#include <string.h>

struct parcel {
    int32_t number;
};
BIDE_TYPE(parcel, struct parcel, BIDE_FIELD(number));
BIDE_TASK(deliver, parcel, .topic = FIXED_A, .max_retries = 2, .backoff_base_ms = 1,
          .backoff_max_ms = 1);
BIDE_TASK(other, parcel, .topic = FIXED_B);

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
    struct crew *crew = arg;
    struct falls *falls = crew->more;
    const bide_job *job = bide_context_job(context);
    int i = falls->count;
    CHECK(i < (int)COUNT(falls->list));
    CHECK(parcel != NULL && error != NULL);
    EQ(state_of(crew->queue, job->id), BIDE_STATE_RESERVED);
    OK(bide_touch(crew->queue, job->id, job->token, 0, NULL));
    snprintf(falls->list[i].error, sizeof falls->list[i].error, "%s", error);
    falls->list[i].attempt = bide_context_attempt(context);
    falls->list[i].is_last = bide_context_is_last(context);
    falls->list[i].number = parcel->number;
    falls->count = i + 1;
}

/* Answers by the number of the parcel. */
static int answer_by_number(bide_context *context, const struct parcel *parcel, void *arg)
{
    struct crew *crew = arg;
    uint32_t attempt = bide_context_attempt(context);
    enter(crew);
    switch (parcel->number) {
    case 1:
        return bide_context_retry(context, "nobody at home, %u", attempt);
    case 2:
        return bide_context_bury(context, "no such street");
    case 3:
        return crew->runs < 3 ? bide_context_snooze(context, 0) : BIDE_DONE;
    case 4:
        return attempt == 1 ? 4711 : BIDE_DONE;
    default:
        return BIDE_DONE;
    }
}

static struct falls *deliver_one(struct crew **crew, int32_t number, uint64_t *id)
{
    static struct falls falls;
    struct crew *made = *crew = new_crew(open_fixed(""), NULL);
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

static void it_is_called_at_each_failure_and_knows_the_last(void)
{
    struct crew *crew;
    uint64_t id;
    struct falls *falls = deliver_one(&crew, 1, &id);
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 1);
    EQ(falls->count, 3);
    is_fall(&falls->list[0], "nobody at home, 1", 1, false);
    is_fall(&falls->list[1], "nobody at home, 2", 2, false);
    is_fall(&falls->list[2], "nobody at home, 3", 3, true);
    EQ(falls->list[2].number, 1);
    EQ(state_of(crew->queue, id), BIDE_STATE_BURIED);
}

static void a_burial_is_the_last_failure(void)
{
    struct crew *crew;
    uint64_t id;
    struct falls *falls = deliver_one(&crew, 2, &id);
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 1);
    EQ(falls->count, 1);
    is_fall(&falls->list[0], "no such street", 1, true);
}

static void it_is_not_called_for_snooze_and_done(void)
{
    struct crew *crew;
    uint64_t id;
    struct falls *falls = deliver_one(&crew, 3, &id);
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(told(crew, BIDE_WORK_SNOOZED), 2);
    EQ(falls->count, 0);
}

static void it_is_called_for_a_number(void)
{
    struct crew *crew;
    uint64_t id;
    struct falls *falls = deliver_one(&crew, 4, &id);
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(falls->count, 1);
    is_fall(&falls->list[0], "the handler answered 4711", 1, false);
}

static int fail_at_once(bide_context *context, const struct parcel *parcel, void *arg)
{
    (void)parcel;
    enter(arg);
    return bide_context_bury(context, "no");
}

static void each_task_has_its_own(void)
{
    static struct falls falls;
    struct crew *crew = new_crew(open_fixed(""), NULL);
    uint64_t id = 0;
    crew->more = &falls;
    OK(bide_handle(crew->worker, deliver, fail_at_once, crew));
    OK(bide_handle(crew->worker, other, fail_at_once, crew));
    OK(bide_fallback(crew->worker, other, note_fall, crew));
    OK(bide_publish(crew->queue, deliver, (struct parcel){7}, NULL, NULL));
    OK(bide_publish(crew->queue, other, (struct parcel){8}, NULL, &id));
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 2);
    EQ(falls.count, 1);
    EQ(falls.list[0].number, 8);
}

static int fail_when_stopped(bide_context *context, const struct parcel *parcel, void *arg)
{
    struct crew *crew = arg;
    (void)parcel;
    enter(crew);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_STOPPING);
    leave(crew);
    return bide_context_retry(context, "stopped");
}

static void an_interruption_is_no_failure(void)
{
    static struct falls falls;
    bide_worker_options options = threads(1);
    options.stop_timeout_ms = 1;
    struct crew *crew = new_crew(open_fixed(""), &options);
    crew->more = &falls;
    OK(bide_handle(crew->worker, deliver, fail_when_stopped, crew));
    OK(bide_fallback(crew->worker, deliver, note_fall, crew));
    OK(bide_worker_start(crew->worker));
    OK(bide_publish(crew->queue, deliver, (struct parcel){1}, NULL, NULL));
    UNTIL(crew->running == 1);
    OK(bide_worker_stop(crew->worker));
    EQ(told(crew, BIDE_WORK_INTERRUPTED), 1);
    EQ(falls.count, 0);
}

static void it_comes_after_the_handler_is_registered_and_before_the_start(void)
{
    struct crew *crew = new_crew(open_fixed(""), NULL);
    CODE(bide_fallback(crew->worker, deliver, note_fall, crew), BIDE_NOT_FOUND);
    OK(bide_handle(crew->worker, deliver, answer_by_number, crew));
    OK(bide_worker_start(crew->worker));
    CODE(bide_fallback(crew->worker, deliver, note_fall, crew), BIDE_EBUSY);
    OK(bide_worker_stop(crew->worker));
    OK(bide_fallback(crew->worker, deliver, note_fall, crew));
}

static const struct test tests[] = {
    TEST(it_is_called_at_each_failure_and_knows_the_last),
    TEST(a_burial_is_the_last_failure),
    TEST(it_is_not_called_for_snooze_and_done),
    TEST(it_is_called_for_a_number),
    TEST(each_task_has_its_own),
    TEST(an_interruption_is_no_failure),
    TEST(it_comes_after_the_handler_is_registered_and_before_the_start),
};

const struct theme fallback_theme = {"fallback", tests, COUNT(tests)};
