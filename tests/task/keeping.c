/* SPDX-License-Identifier: MIT */
/*
 * keeping.c - leases that are kept alive while a handler runs, up to its time limit.
 *
 * A machine that stands still for a whole ttr loses a lease, and nobody is to blame. So each of these
 * is tried again with a ttr four times as long before a lost lease counts.
 */
#include "fixed.h"

#define FIRST_TTR_MS INT64_C(400)
#define LAST_TTR_MS  INT64_C(6400)

#define HOLDS(try)                                                              \
    do {                                                                        \
        int64_t holds_ttr_ = FIRST_TTR_MS;                                      \
        for (; !(try)(holds_ttr_); holds_ttr_ *= 4)                             \
            check_true(HERE, holds_ttr_ < LAST_TTR_MS, "a lease that is kept"); \
    } while (0)

BIDE_TASK(endless, bytes, .topic = FIXED_A, .time_limit_ms = BIDE_FOREVER,
          .max_retries = BIDE_NO_RETRY_LIMIT);

BIDE_TASK(patient, bytes, .topic = FIXED_B, .time_limit_ms = BIDE_FOREVER);

/* ---- without an end ---- */

static int hold(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    enter(crew);
    while (!crew->open && bide_context_wait(context, 5) == BIDE_REASON_NONE)
        continue;
    leave(crew);
    return BIDE_DONE;
}

static void publish_with_ttr(struct crew *crew, int count, int64_t ttr_ms)
{
    bide_put_options options = bide_defaults(endless);
    options.ttr_ms = ttr_ms;
    for (int i = 0; i < count; i++)
        OK(bide_publish(crew->queue, endless, slice("body"), &options, NULL));
}

static bool many_leases_are_kept(int count, int64_t ttr_ms)
{
    bide_worker_options options = threads((uint32_t)count);
    struct crew *crew = new_crew(open_fixed(""), &options);
    OK(bide_handle(crew->worker, endless, hold, crew));
    OK(bide_worker_start(crew->worker));
    publish_with_ttr(crew, count, ttr_ms);
    UNTIL(crew->runs >= count);
    nap_ms(3 * ttr_ms);
    bide_topic_stats stats = topic_of(crew->queue, FIXED_A);
    crew->open = true;
    OK(bide_worker_stop(crew->worker));
    bool held = stats.total.timeouts == 0 && crew->runs == count;
    EQ(told(crew, BIDE_WORK_OVERRAN), 0);
    if (held) {
        EQ(stats.jobs.reserved, count);
        EQ(told(crew, BIDE_WORK_DONE), count);
    }
    free_worker(crew);
    close_queue(crew->queue);
    return held;
}

static bool one_lease_is_kept(int64_t ttr_ms)
{
    return many_leases_are_kept(1, ttr_ms);
}

static bool fifty_leases_are_kept(int64_t ttr_ms)
{
    return many_leases_are_kept(50, ttr_ms);
}

static void a_handler_without_a_time_limit_keeps_its_lease(void)
{
    HOLDS(one_lease_is_kept);
}

static void many_handlers_at_once_keep_their_leases(void)
{
    HOLDS(fifty_leases_are_kept);
}

/* ---- up to the limit ---- */

/* The first run holds until it is told, and on until the second has begun. */
static int hold_beyond_the_limit(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    int run = enter(crew);
    if (run == 2)
        crew->number = clock_us();
    if (run > 1)
        return BIDE_DONE;
    crew->code = (int)bide_context_wait(context, BIDE_FOREVER);
    if (crew->code == BIDE_REASON_OVERRUN)
        EQ(bide_context_left_ms(context), 0);
    UNTIL(crew->runs > 1);
    return BIDE_DONE;
}

/* Beside it runs one without a limit, whose lease goes on being extended. */
static bool is_given_up_at_the_limit(int64_t ttr_ms)
{
    static bide_task task;
    bide_worker_options options = threads(3);
    struct crew *crew = new_crew(open_fixed(""), &options);
    struct crew *other = new_crew(crew->queue, NULL);
    bide_put_options put = with_ttr(ttr_ms);
    task = bide_task_of_endless;
    task.time_limit_ms = 3 * ttr_ms;
    OK(bide_worker_handle_task(crew->worker, &task, bide_handle_of_endless,
                               (bide_function *)hold_beyond_the_limit, crew));
    OK(bide_handle(crew->worker, patient, hold, other));
    OK(bide_worker_start(crew->worker));
    put_as(crew->queue, FIXED_B, "body", &put);
    UNTIL(other->running == 1);
    int64_t start_us = clock_us();
    publish_with_ttr(crew, 1, ttr_ms);
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    UNTIL_TOLD(crew, BIDE_WORK_LOST, 1);
    other->open = true;
    bool held = crew->number - start_us >= task.time_limit_ms * 1000;
    if (held) {
        EQ(crew->code, BIDE_REASON_OVERRUN);
        EQ(told(crew, BIDE_WORK_OVERRAN), 1);
        EQ(crew->runs, 2);
    }
    free_worker(crew);
    free_worker(other);
    close_queue(crew->queue);
    return held;
}

static void a_lease_lives_until_the_time_limit_and_then_another_gets_the_job(void)
{
    HOLDS(is_given_up_at_the_limit);
}

/* ---- by hand ---- */

static int touch_on_and_on(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    if (enter(crew) > 1)
        return BIDE_DONE;
    for (int i = 0; i < 20; i++) {
        bide_context_wait(context, crew->number / 10);
        crew->code = bide_context_touch(context);
        if (crew->code != BIDE_OK)
            break;
    }
    return BIDE_DONE;
}

/* Twenty touches, a tenth of the ttr apart. */
static bool touches_keep_the_lease(int64_t ttr_ms)
{
    struct crew *crew = new_crew_of(touch_on_and_on, NULL);
    bide_put_options options = with_ttr(ttr_ms);
    crew->number = ttr_ms;
    int64_t start_us = clock_us();
    give_as(crew, "body", &options);
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    bool held = crew->code == BIDE_OK && crew->runs == 1;
    if (held) {
        NOT_BEFORE(start_us, 2 * ttr_ms);
        EQ(told(crew, BIDE_WORK_OVERRAN) + told(crew, BIDE_WORK_LOST), 0);
    }
    free_worker(crew);
    return held;
}

static void a_handler_that_touches_outlives_its_ttr(void)
{
    HOLDS(touches_keep_the_lease);
}

/* ---- touches that the queue refuses ---- */

/* The keeper extends the lease after a third of it, and is refused; progress comes later. */
static int make_progress_late(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    EQ(bide_context_wait(context, 4000), BIDE_REASON_NONE);
    bide_context_progress(context, "late");
    wait_at_gate(crew);
    return BIDE_DONE;
}

static void progress_is_shown_where_touches_are_refused(void)
{
    struct crew *crew = new_crew(open_fixed("max_touch_total=1ms"), NULL);
    bide_put_options options = bide_defaults(patient);
    uint64_t id = 0;
    options.ttr_ms = 9000;
    OK(bide_handle(crew->worker, patient, make_progress_late, crew));
    OK(bide_worker_start(crew->worker));
    OK(bide_publish(crew->queue, patient, slice("body"), &options, &id));
    UNTIL(stat_job(crew->queue, id)->progress_size == 4);
    EQ(stat_job(crew->queue, id)->touches, 0);
    crew->open = true;
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
}

/* ---- limits and answers ---- */

BIDE_TASK(brief, bytes, .topic = FIXED_A, .time_limit_ms = 60, .ttr_ms = 60000);
BIDE_TASK(roomy, bytes, .topic = FIXED_A, .time_limit_ms = 20000, .ttr_ms = 60000);

static int pass_the_limit(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;
    (void)body;
    BETWEEN(bide_context_left_ms(context), 0, 60);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_OVERRUN);
    EQ(bide_context_left_ms(context), 0);
    UNTIL_TOLD(crew, BIDE_WORK_OVERRAN, 1);
    return BIDE_DONE;
}

static void an_answer_after_the_limit_and_within_the_lease_is_in_time(void)
{
    struct crew *crew = new_crew(open_fixed(""), NULL);
    uint64_t id = 0;
    OK(bide_handle(crew->worker, brief, pass_the_limit, crew));
    OK(bide_worker_start(crew->worker));
    int64_t start_us = clock_us();
    OK(bide_publish(crew->queue, brief, slice("body"), NULL, &id));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    NOT_BEFORE(start_us, 60);
    STORY(crew, id, "started overran done");
    EQ(state_of(crew->queue, id), BIDE_STATE_GONE);
}

/* Returns at the moment when its time is over, so that it is told by another thread or not at all. */
static int return_at_the_limit(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    while (bide_context_reason(context) == BIDE_REASON_NONE)
        continue;
    EQ(bide_context_reason(context), BIDE_REASON_OVERRUN);
    return BIDE_DONE;
}

static void every_overrun_is_told_once_also_when_the_handler_returns_at_once(void)
{
    enum { JOBS = 20 };
    struct crew *crew = new_crew(open_fixed(""), NULL);
    uint64_t ids[JOBS];
    OK(bide_handle(crew->worker, brief, return_at_the_limit, crew));
    OK(bide_worker_start(crew->worker));
    for (size_t i = 0; i < JOBS; i++)
        OK(bide_publish(crew->queue, brief, slice("body"), NULL, &ids[i]));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, JOBS);
    OK(bide_worker_stop(crew->worker));
    for (size_t i = 0; i < JOBS; i++)
        EQ(told_of(crew, BIDE_WORK_OVERRAN, ids[i]), 1);
    EQ(told(crew, BIDE_WORK_OVERRAN), JOBS);
}

static int touch_with_a_limit(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    int64_t first = bide_context_left_ms(context);
    BETWEEN(first, 20000 - PATIENCE_MS, 20000);
    EQ(bide_context_wait(context, 30), BIDE_REASON_NONE);
    OK(bide_context_touch(context));
    CHECK(bide_context_left_ms(context) <= first - 29);
    enter(arg);
    return BIDE_DONE;
}

static void a_touch_does_not_move_a_time_limit(void)
{
    struct crew *crew = new_crew(open_fixed(""), NULL);
    OK(bide_handle(crew->worker, roomy, touch_with_a_limit, crew));
    OK(bide_worker_start(crew->worker));
    OK(bide_publish(crew->queue, roomy, slice("body"), NULL, NULL));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 1);
    EQ(crew->runs, 1);
}

static const struct test tests[] = {
    TEST(a_handler_without_a_time_limit_keeps_its_lease),
    TEST(progress_is_shown_where_touches_are_refused),
    TEST(every_overrun_is_told_once_also_when_the_handler_returns_at_once),
    TEST(many_handlers_at_once_keep_their_leases),
    TEST(a_lease_lives_until_the_time_limit_and_then_another_gets_the_job),
    TEST(a_handler_that_touches_outlives_its_ttr),
    TEST(an_answer_after_the_limit_and_within_the_lease_is_in_time),
    TEST(a_touch_does_not_move_a_time_limit),
};

const struct theme keeping_theme = {"keeping", tests, COUNT(tests)};
