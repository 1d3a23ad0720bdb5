/* SPDX-License-Identifier: MIT */
/*
 * lease_renewal.c - leases that are kept alive while a handler runs, up to its time limit.
 *
 * A machine that is suspended for a whole ttr loses a lease without a defect. So each of these
 * is tried again with a ttr four times as long before a lost lease counts.
 */
#include "task_topics.h"

#define FIRST_TTR_MS INT64_C(400)
#define LAST_TTR_MS  INT64_C(6400)

#define HOLDS(try)                                                              \
    do {                                                                        \
        int64_t holds_ttr_ = FIRST_TTR_MS;                                      \
        for (; !(try)(holds_ttr_); holds_ttr_ *= 4)                             \
            check_true(HERE, holds_ttr_ < LAST_TTR_MS, "a lease that is kept"); \
    } while (0)

BIDE_TASK(endless, bytes, .topic = TASK_TOPIC_A, .time_limit_ms = BIDE_FOREVER,
          .max_retries = BIDE_NO_RETRY_LIMIT);

BIDE_TASK(patient, bytes, .topic = TASK_TOPIC_B, .time_limit_ms = BIDE_FOREVER);

/* ---- without an end ---- */

static int hold(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    while (!fixture->open && bide_context_wait(context, 5) == BIDE_REASON_NONE)
        continue;
    leave(fixture);
    return BIDE_DONE;
}

static void publish_with_ttr(struct worker_fixture *fixture, int count, int64_t ttr_ms)
{
    bide_put_options options = bide_defaults(endless);
    options.ttr_ms = ttr_ms;
    for (int i = 0; i < count; i++)
        OK(bide_publish(fixture->queue, endless, slice("body"), &options, NULL));
}

static bool many_leases_are_kept(int count, int64_t ttr_ms)
{
    bide_worker_options options = threads((uint32_t)count);
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), &options);
    OK(bide_handle(fixture->worker, endless, hold, fixture));
    OK(bide_worker_start(fixture->worker));
    publish_with_ttr(fixture, count, ttr_ms);
    UNTIL(fixture->runs >= count);
    nap_ms(3 * ttr_ms);
    bide_topic_stats stats = topic_of(fixture->queue, TASK_TOPIC_A);
    fixture->open = true;
    OK(bide_worker_stop(fixture->worker));
    bool held = stats.total.timeouts == 0 && fixture->runs == count;
    EQ(count_events(fixture, BIDE_WORK_OVERRAN), 0);
    if (held) {
        EQ(stats.jobs.reserved, count);
        EQ(count_events(fixture, BIDE_WORK_DONE), count);
    }
    free_worker(fixture);
    close_queue(fixture->queue);
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
    struct worker_fixture *fixture = arg;
    (void)body;
    int run = enter(fixture);
    if (run == 2)
        fixture->number = clock_us();
    if (run > 1)
        return BIDE_DONE;
    fixture->code = (int)bide_context_wait(context, BIDE_FOREVER);
    if (fixture->code == BIDE_REASON_OVERRUN)
        EQ(bide_context_left_ms(context), 0);
    UNTIL(fixture->runs > 1);
    return BIDE_DONE;
}

/* Beside it runs one without a limit, whose lease goes on being extended. */
static bool is_given_up_at_the_limit(int64_t ttr_ms)
{
    static bide_task task;
    bide_worker_options options = threads(3);
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), &options);
    struct worker_fixture *other = new_fixture(fixture->queue, NULL);
    bide_put_options put = with_ttr(ttr_ms);
    task = bide_task_of_endless;
    task.time_limit_ms = 3 * ttr_ms;
    OK(bide_worker_handle_task(fixture->worker, &task, bide_handle_of_endless,
                               (bide_function *)hold_beyond_the_limit, fixture));
    OK(bide_handle(fixture->worker, patient, hold, other));
    OK(bide_worker_start(fixture->worker));
    put_as(fixture->queue, TASK_TOPIC_B, "body", &put);
    UNTIL(other->running == 1);
    int64_t start_us = clock_us();
    publish_with_ttr(fixture, 1, ttr_ms);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    other->open = true;
    bool held = fixture->number - start_us >= task.time_limit_ms * 1000;
    if (held) {
        EQ(fixture->code, BIDE_REASON_OVERRUN);
        EQ(count_events(fixture, BIDE_WORK_OVERRAN), 1);
        EQ(fixture->runs, 2);
    }
    free_worker(fixture);
    free_worker(other);
    close_queue(fixture->queue);
    return held;
}

static void lease_is_extended_until_the_time_limit(void)
{
    HOLDS(is_given_up_at_the_limit);
}

/* ---- by hand ---- */

static int touch_on_and_on(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    if (enter(fixture) > 1)
        return BIDE_DONE;
    for (int i = 0; i < 20; i++) {
        bide_context_wait(context, fixture->number / 10);
        fixture->code = bide_context_touch(context);
        if (fixture->code != BIDE_OK)
            break;
    }
    return BIDE_DONE;
}

/* Twenty touches, a tenth of the ttr apart. */
static bool touches_keep_the_lease(int64_t ttr_ms)
{
    struct worker_fixture *fixture = new_fixture_of(touch_on_and_on, NULL);
    bide_put_options options = with_ttr(ttr_ms);
    fixture->number = ttr_ms;
    int64_t start_us = clock_us();
    enqueue_as(fixture, "body", &options);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    bool held = fixture->code == BIDE_OK && fixture->runs == 1;
    if (held) {
        NOT_BEFORE(start_us, 2 * ttr_ms);
        EQ(count_events(fixture, BIDE_WORK_OVERRAN) + count_events(fixture, BIDE_WORK_LOST), 0);
    }
    free_worker(fixture);
    return held;
}

static void handler_that_touches_keeps_its_lease(void)
{
    HOLDS(touches_keep_the_lease);
}

/* ---- touches that the queue refuses ---- */

/* The keeper extends the lease after a third of it, and is refused; progress comes later. */
static int make_progress_late(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    EQ(bide_context_wait(context, 4000), BIDE_REASON_NONE);
    bide_context_progress(context, "late");
    wait_at_gate(fixture);
    return BIDE_DONE;
}

static void progress_is_shown_where_touches_are_refused(void)
{
    struct worker_fixture *fixture =
        new_fixture(open_with_task_topics("max_touch_total=1ms"), NULL);
    bide_put_options options = bide_defaults(patient);
    uint64_t id = 0;
    options.ttr_ms = 9000;
    OK(bide_handle(fixture->worker, patient, make_progress_late, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, patient, slice("body"), &options, &id));
    UNTIL(stat_job(fixture->queue, id)->progress_size == 4);
    EQ(stat_job(fixture->queue, id)->touches, 0);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

/* The first run outlives its lease, which cannot be extended; the second ends the job. */
static int outlive_the_lease(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    if (enter(arg) > 1)
        return BIDE_DONE;
    EQ(bide_context_left_ms(context), BIDE_TIME_MAX_MS);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_LEASE_LOST);
    EQ(bide_context_left_ms(context), 0);
    return BIDE_DONE;
}

static void remaining_time_is_0_after_the_lease_ended(void)
{
    struct worker_fixture *fixture =
        new_fixture(open_with_task_topics("max_touch_total=1ms"), NULL);
    bide_put_options options = bide_defaults(patient);
    options.ttr_ms = 1000;
    OK(bide_handle(fixture->worker, patient, outlive_the_lease, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, patient, slice("body"), &options, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    /* The wheel ends a lease up to one tick late, and may accept the result of the first run. */
    EQ(count_events(fixture, BIDE_WORK_LOST), fixture->runs - 1);
}

/* ---- limits and answers ---- */

BIDE_TASK(brief, bytes, .topic = TASK_TOPIC_A, .time_limit_ms = 60, .ttr_ms = 60000);
BIDE_TASK(roomy, bytes, .topic = TASK_TOPIC_A, .time_limit_ms = 20000, .ttr_ms = 60000);

static int pass_the_limit(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    BETWEEN(bide_context_left_ms(context), 0, 60);
    EQ(bide_context_wait(context, BIDE_FOREVER), BIDE_REASON_OVERRUN);
    EQ(bide_context_left_ms(context), 0);
    UNTIL_EVENTS(fixture, BIDE_WORK_OVERRAN, 1);
    return BIDE_DONE;
}

static void ack_after_the_time_limit_within_the_lease_is_accepted(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t id = 0;
    OK(bide_handle(fixture->worker, brief, pass_the_limit, fixture));
    OK(bide_worker_start(fixture->worker));
    int64_t start_us = clock_us();
    OK(bide_publish(fixture->queue, brief, slice("body"), NULL, &id));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    NOT_BEFORE(start_us, 60);
    EVENTS_ARE(fixture, id, "started overran done");
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

/* Returns at the moment when its time is over, so that it is told by another thread or not at
 * all. */
static int return_at_the_limit(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    while (bide_context_reason(context) == BIDE_REASON_NONE)
        continue;
    EQ(bide_context_reason(context), BIDE_REASON_OVERRUN);
    return BIDE_DONE;
}

static void every_overrun_is_reported_once(void)
{
    enum { JOBS = 20 };
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t ids[JOBS];
    OK(bide_handle(fixture->worker, brief, return_at_the_limit, fixture));
    OK(bide_worker_start(fixture->worker));
    for (size_t i = 0; i < JOBS; i++)
        OK(bide_publish(fixture->queue, brief, slice("body"), NULL, &ids[i]));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, JOBS);
    OK(bide_worker_stop(fixture->worker));
    for (size_t i = 0; i < JOBS; i++)
        EQ(count_events_of(fixture, BIDE_WORK_OVERRAN, ids[i]), 1);
    EQ(count_events(fixture, BIDE_WORK_OVERRAN), JOBS);
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
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, roomy, touch_with_a_limit, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, roomy, slice("body"), NULL, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

static const struct test tests[] = {
    TEST(a_handler_without_a_time_limit_keeps_its_lease),
    TEST(progress_is_shown_where_touches_are_refused),
    TEST(remaining_time_is_0_after_the_lease_ended),
    TEST(every_overrun_is_reported_once),
    TEST(many_handlers_at_once_keep_their_leases),
    TEST(lease_is_extended_until_the_time_limit),
    TEST(handler_that_touches_keeps_its_lease),
    TEST(ack_after_the_time_limit_within_the_lease_is_accepted),
    TEST(a_touch_does_not_move_a_time_limit),
};

const struct theme lease_renewal_theme = {"lease_renewal", tests, COUNT(tests)};
