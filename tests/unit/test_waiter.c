/* SPDX-License-Identifier: MIT */
/*
 * Calls that wait: for jobs, for the end of a job, for recovery.
 */
#include "core_fixture.h"

#include <stdio.h>

/* A reserve with everything that it points to. */
struct call {
    bide_op op;
    bide_slice topics[4];
    bide_job jobs[8];
};

static int reserve_from(struct call *call, const char *const *topics, size_t max,
                        bide_strategy strategy, int64_t timeout_ms)
{
    memset(call, 0, sizeof(*call));
    size_t count = 0;
    for (; count < COUNT_OF(call->topics) && topics[count] != NULL; count++)
        call->topics[count] = text(topics[count]);
    call->op.kind = BIDE_OP_RESERVE;
    call->op.reserve = (bide_reserve_args){.topics = call->topics,
                                           .topic_count = count,
                                           .strategy = strategy,
                                           .timeout_ms = timeout_ms,
                                           .jobs = call->jobs,
                                           .job_max = max};
    return run(&w, &call->op);
}

#define TOPICS(...) ((const char *const[]){__VA_ARGS__, NULL, NULL, NULL, NULL})

static void begin_wait(struct call *call, const char *const *topics, size_t max)
{
    assert_int_equal(reserve_from(call, topics, max, BIDE_BY_PRIORITY, BIDE_FOREVER), BIDE_PENDING);
}

/* The call has completed with exactly these jobs. */
static void got(struct call *call, const uint64_t *ids, size_t count)
{
    assert_int_equal(call->op.status, BIDE_OK);
    assert_int_equal(call->op.reserve.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call->jobs[i].id, ids[i]);
        bide_job_clear(&call->jobs[i]);
    }
}

static void got_one(struct call *call, uint64_t id)
{
    got(call, &id, 1);
}

/* ---- waiting ---- */

static void put_many_serves_the_longest_waiting_call_first(void **state)
{
    (void)state;
    static struct call calls[3];
    begin_wait(&calls[0], TOPICS("c"), 1);
    begin_wait(&calls[1], TOPICS("a"), 2);
    begin_wait(&calls[2], TOPICS("b", "a"), 1);
    const char *topics[] = {"b", "a", "a", "c"};
    bide_put_item items[4];
    for (size_t i = 0; i < 4; i++)
        items[i] = (bide_put_item){.topic = text(topics[i]), .body = text("x")};
    bide_op op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 4}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(w.completed_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(w.completed[i], &calls[i].op);
    got_one(&calls[0], items[3].id);
    got(&calls[1], (uint64_t[]){items[1].id, items[2].id}, 2);
    got_one(&calls[2], items[0].id);
}

static void batch_reserve_takes_the_jobs_that_are_ready_with_the_first(void **state)
{
    (void)state;
    static struct call call;
    uint64_t early = put_delayed(&w, "a", 10);
    uint64_t also = put_delayed(&w, "a", 10);
    begin_wait(&call, TOPICS("a"), 5);
    /* Timer events serve one by one: the first that comes due is all there is. */
    advance_clocks(&w, 10 * MS);
    got_one(&call, early);
    assert_int_equal(state_of(&w, also), BIDE_STATE_READY);
}

static void job_of_a_paused_topic_is_delivered_when_the_pause_ends(void **state)
{
    (void)state;
    static struct call call;
    begin_wait(&call, TOPICS("a"), 1);
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 50), BIDE_OK);
    uint64_t id = put(&w, "a");
    assert_int_equal(call.op.status, BIDE_PENDING);
    advance_clocks(&w, 50 * MS - 1);
    assert_int_equal(call.op.status, BIDE_PENDING);
    advance_clocks(&w, 1);
    got_one(&call, id);
}

static void call_times_out_exactly(void **state)
{
    (void)state;
    static struct call call;
    assert_int_equal(reserve_from(&call, TOPICS("a"), 1, BIDE_BY_PRIORITY, 5), BIDE_PENDING);
    advance_clocks(&w, 5 * MS - 1);
    assert_int_equal(call.op.status, BIDE_PENDING);
    advance_clocks(&w, 1);
    assert_int_equal(call.op.status, BIDE_TIMED_OUT);
    assert_int_equal(stats_of(&w).topics, 0);
}

/* What comes due at the moment of the timeout is still given: jobs come before calls. */
static void job_due_at_the_timeout_is_delivered(void **state)
{
    (void)state;
    static struct call call;
    uint64_t id = put_delayed(&w, "a", 5);
    assert_int_equal(reserve_from(&call, TOPICS("a"), 1, BIDE_BY_PRIORITY, 5), BIDE_PENDING);
    advance_clocks(&w, 5 * MS);
    got_one(&call, id);
}

/* ---- calls that name very many topics ---- */

#define MANY_TOPICS BIDE_RESERVE_TOPICS
#define MANY_CALLS  40
#define STEP_MOST   100000 /* the work of one step: what is bound, and one call more */

static bide_slice many_topics[MANY_TOPICS];

static void name_many_topics(void)
{
    static char names[MANY_TOPICS][8];
    for (int i = 0; i < MANY_TOPICS; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        many_topics[i] = text(names[i]);
    }
}

static void wait_for_many(struct call *call, int64_t timeout_ms)
{
    memset(call, 0, sizeof(*call));
    call->op.kind = BIDE_OP_RESERVE;
    call->op.reserve = (bide_reserve_args){.topics = many_topics,
                                           .topic_count = MANY_TOPICS,
                                           .timeout_ms = timeout_ms,
                                           .jobs = call->jobs,
                                           .job_max = 1};
    assert_int_equal(run(&w, &call->op), BIDE_PENDING);
}

/* Ticks until nothing is left to do; answers how many steps that took, none of which did much. */
static int steps_of_ticks(void)
{
    int steps = 1;
    uint64_t work = bi_core_work(w.core);
    while (bi_core_tick(w.core, w.now, UINT32_MAX)) {
        assert_in_range(bi_core_work(w.core) - work, 1, STEP_MOST);
        work = bi_core_work(w.core);
        steps++;
    }
    assert_in_range(bi_core_work(w.core) - work, 0, STEP_MOST);
    return steps;
}

static void calls_with_many_topics_are_served_in_steps(void **state)
{
    (void)state;
    static struct call calls[MANY_CALLS];
    static bide_put_item items[MANY_CALLS];
    name_many_topics();
    for (int i = 0; i < MANY_CALLS; i++)
        wait_for_many(&calls[i], BIDE_FOREVER);
    for (int i = 0; i < MANY_CALLS; i++)
        items[i] = (bide_put_item){.topic = text("t9"), .body = text("x")};
    bide_op op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = MANY_CALLS}};

    uint64_t work = bi_core_work(w.core);
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_in_range(bi_core_work(w.core) - work, 1, STEP_MOST);
    assert_in_range(w.completed_count, 1, MANY_CALLS / 2);
    assert_true(bi_core_unserved(w.core));

    assert_in_range(steps_of_ticks(), 3, MANY_CALLS);
    assert_int_equal(w.completed_count, MANY_CALLS);
    for (int i = 0; i < MANY_CALLS; i++)
        bide_job_clear(&calls[i].jobs[0]);
}

static void calls_with_many_topics_time_out_in_steps(void **state)
{
    (void)state;
    static struct call calls[MANY_CALLS];
    name_many_topics();
    for (int i = 0; i < MANY_CALLS; i++)
        wait_for_many(&calls[i], 5);
    w.now.mono += 5 * MS;
    assert_in_range(steps_of_ticks(), 3, MANY_CALLS);
    assert_int_equal(w.completed_count, MANY_CALLS);
    for (int i = 0; i < MANY_CALLS; i++)
        assert_int_equal(calls[i].op.status, BIDE_TIMED_OUT);
}

static void calls_with_many_topics_are_closed_in_steps(void **state)
{
    (void)state;
    static struct call calls[MANY_CALLS];
    int steps = 1;
    name_many_topics();
    for (int i = 0; i < MANY_CALLS; i++)
        wait_for_many(&calls[i], BIDE_FOREVER);
    while (bi_waiter_close_all(w.core, UINT32_MAX))
        steps++;
    assert_in_range(steps, 3, MANY_CALLS);
    assert_int_equal(w.completed_count, MANY_CALLS);
}

/* ---- many calls that wait for one job ---- */

#define WATCHERS  3500
#define STEP_ENDS 1000 /* calls that one op or tick completes */

static bide_op watching[WATCHERS];

/* Every call has a timeout, which is not reached in the test unless it says so. */
static uint64_t watch_job(void)
{
    uint64_t id = put(&w, "a");
    for (int i = 0; i < WATCHERS; i++) {
        watching[i] = (bide_op){.kind = BIDE_OP_WAIT, .wait = {.id = id, .timeout_ms = 1000}};
        assert_int_equal(run(&w, &watching[i]), BIDE_PENDING);
    }
    w.completed_count = 0;
    return id;
}

static void learned_the_end(const bide_op *op)
{
    assert_int_equal(op->status, BIDE_OK);
    assert_int_equal(op->wait.state, BIDE_STATE_GONE);
}

static void many_waits_complete_in_steps(void **state)
{
    (void)state;
    uint64_t id = watch_job();
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(w.completed_count, STEP_ENDS);
    assert_true(bi_core_unserved(w.core));
    /* One more job ends meanwhile, and one call is cancelled. */
    uint64_t other = put(&w, "a");
    bide_op last = {.kind = BIDE_OP_WAIT, .wait = {.id = other, .timeout_ms = BIDE_FOREVER}};
    assert_int_equal(run(&w, &last), BIDE_PENDING);
    assert_true(bi_waiter_cancel(w.core, &watching[WATCHERS - 1]));
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, other, 0), BIDE_OK);
    for (size_t before = w.completed_count; bi_core_tick(w.core, w.now, UINT32_MAX);
         before = w.completed_count) {
        assert_in_range(w.completed_count - before, 1, STEP_ENDS);
        core_fixture_check(&w);
    }
    assert_false(bi_core_unserved(w.core));
    assert_int_equal(w.completed_count, WATCHERS + 1);
    assert_int_equal(watching[WATCHERS - 1].status, BIDE_CANCELLED);
    for (int i = 0; i < WATCHERS - 1; i++)
        learned_the_end(&watching[i]);
    learned_the_end(&last);
    assert_ptr_equal(w.completed[WATCHERS], &last);
}

/* A list of ops yields the lock by its work. Each of them completes as many calls as a step may. */
static void completing_the_calls_of_a_job_that_ended_counts_as_work(void **state)
{
    (void)state;
    uint64_t id = watch_job();
    uint64_t before = bi_core_work(w.core);
    bide_op ping = {.kind = BIDE_OP_PING};
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_true(bi_core_work(w.core) - before >= STEP_ENDS);
    while (bi_core_unserved(w.core))
        assert_int_equal(run(&w, &ping), BIDE_OK);
    assert_int_equal(w.completed_count, WATCHERS);
    assert_true(bi_core_work(w.core) - before >= WATCHERS);
}

static void timeout_after_the_end_of_the_job_completes_waits_with_the_end(void **state)
{
    (void)state;
    uint64_t id = watch_job();
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    w.now.mono += 2 * SECOND;
    while (bi_core_tick(w.core, w.now, UINT32_MAX))
        continue;
    assert_int_equal(w.completed_count, WATCHERS);
    for (int i = 0; i < WATCHERS; i++)
        learned_the_end(&watching[i]);
}

static void close_after_the_end_of_the_job_completes_waits_with_the_end(void **state)
{
    (void)state;
    uint64_t id = watch_job();
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    while (bi_waiter_close_all(w.core, 7))
        continue;
    assert_int_equal(w.completed_count, WATCHERS);
    for (int i = 0; i < WATCHERS; i++)
        learned_the_end(&watching[i]);
}

/* ---- many calls that wait for recovery ---- */

static void open_and_watch_recovery(void)
{
    core_fixture_close(&w);
    core_fixture_init(&w);
    w.options.recovering = true;
    core_fixture_start(&w);
    for (int i = 0; i < WATCHERS; i++) {
        watching[i] = (bide_op){.kind = BIDE_OP_RECOVERED, .recovered = {.timeout_ms = 1000}};
        assert_int_equal(run(&w, &watching[i]), BIDE_PENDING);
    }
}

static void learned_of_recovery(int from, int to)
{
    for (int i = from; i < to; i++)
        assert_int_equal(watching[i].status, BIDE_OK);
}

static void many_waits_for_recovery_complete_in_steps(void **state)
{
    (void)state;
    open_and_watch_recovery();
    /* The next one to visit is cancelled between two steps. */
    bi_core_end_recovery(w.core, w.now);
    assert_int_equal(w.completed_count, STEP_ENDS);
    assert_true(bi_core_unserved(w.core));
    assert_true(bi_waiter_cancel(w.core, &watching[STEP_ENDS]));
    bide_op late = {.kind = BIDE_OP_RECOVERED, .recovered = {.timeout_ms = 0}};
    for (size_t before = w.completed_count; bi_core_tick(w.core, w.now, UINT32_MAX);
         before = w.completed_count) {
        assert_in_range(w.completed_count - before, 1, STEP_ENDS);
        core_fixture_check(&w);
    }
    assert_int_equal(run(&w, &late), BIDE_OK);
    assert_int_equal(w.completed_count, WATCHERS);
    assert_int_equal(watching[STEP_ENDS].status, BIDE_CANCELLED);
    learned_of_recovery(0, STEP_ENDS);
    learned_of_recovery(STEP_ENDS + 1, WATCHERS);
}

static void close_after_recovery_completes_waits_with_success(void **state)
{
    (void)state;
    open_and_watch_recovery();
    bi_core_end_recovery(w.core, w.now);
    while (bi_waiter_close_all(w.core, 7))
        continue;
    assert_int_equal(w.completed_count, WATCHERS);
    learned_of_recovery(0, WATCHERS);
}

/* Those that were completed before the rollback are held by the caller, who fails them. */
static void rolled_back_end_fails_the_remaining_waits(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_open(&w, true);
    uint64_t id = watch_job();
    commit(&w);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(w.completed_count, STEP_ENDS);
    assert_true(watching[0].private_.hold > 0);
    fail_commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(w.completed_count, WATCHERS);
    for (int i = STEP_ENDS; i < WATCHERS; i++) {
        assert_int_equal(watching[i].status, BIDE_EIO);
        assert_int_equal(watching[i].private_.hold, 0);
    }
    /* The job can be waited for again. */
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, watch_job(), 0), BIDE_OK);
    while (bi_core_tick(w.core, w.now, UINT32_MAX))
        continue;
    assert_int_equal(w.completed_count, WATCHERS);
    commit(&w);
}

/* Their replies depend on the batch of the end, also if a later step completes them. */
static void waits_completed_later_are_held_with_the_end(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_open(&w, true);
    uint64_t id = watch_job();
    commit(&w);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    uint64_t hold = watching[0].private_.hold;
    assert_true(hold > 0);
    while (bi_core_tick(w.core, w.now, UINT32_MAX))
        continue;
    for (int i = 0; i < WATCHERS; i++)
        assert_int_equal(watching[i].private_.hold, hold);
    commit(&w);
}

/* ---- strategies ---- */

#define DRAWS 4000u

/* A topic stays as long as it is marked to be served, although nothing else needs it. */
static void unserved_topic_is_kept(void **state)
{
    (void)state;
    static struct call calls[2];
    begin_wait(&calls[0], TOPICS("a"), 1);
    begin_wait(&calls[1], TOPICS("b"), 1);
    put_delayed(&w, "a", 10);
    uint64_t other = put_delayed(&w, "b", 10);
    w.alloc.failing = true;
    advance_clocks(&w, 10 * MS); /* both are ready, and memory lacks to reserve them */
    assert_int_equal(w.completed_count, 0);
    assert_true(bi_waiter_cancel(w.core, &calls[1].op));
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, other, 0), BIDE_OK);
    core_fixture_check(&w);
    w.alloc.failing = false;
    bi_core_serve(w.core, w.now);
    assert_int_equal(calls[0].op.status, BIDE_OK);
    bide_job_clear(&calls[0].jobs[0]);
    assert_int_equal(stats_of(&w).topics, 1);
}

/* No op and no deadline follows: only the retry serves the call. */
static void call_is_served_when_memory_returns(void **state)
{
    (void)state;
    static struct call call;
    begin_wait(&call, TOPICS("a"), 1);
    put_delayed(&w, "a", 10);
    w.alloc.failing = true;
    advance_clocks(&w, 10 * MS); /* the job is ready, and memory lacks to reserve it */
    advance_clocks(&w, SECOND);
    assert_int_equal(w.completed_count, 0);
    assert_false(bi_core_unserved(w.core)); /* the retry waits */

    int64_t retry_at = bi_core_next_timeout(w.core);
    assert_in_range(retry_at, w.now.mono + 1, w.now.mono + SECOND);
    w.alloc.failing = false;
    advance_clocks(&w, retry_at - w.now.mono);
    assert_int_equal(call.op.status, BIDE_OK);
    bide_job_clear(&call.jobs[0]);
    assert_int_equal(bi_core_next_timeout(w.core), BI_NEVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_core, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(put_many_serves_the_longest_waiting_call_first),
        TEST(batch_reserve_takes_the_jobs_that_are_ready_with_the_first),
        TEST(job_of_a_paused_topic_is_delivered_when_the_pause_ends),
        TEST(call_times_out_exactly),
        TEST(job_due_at_the_timeout_is_delivered),
        TEST(calls_with_many_topics_are_served_in_steps),
        TEST(calls_with_many_topics_time_out_in_steps),
        TEST(calls_with_many_topics_are_closed_in_steps),
        TEST(many_waits_complete_in_steps),
        TEST(completing_the_calls_of_a_job_that_ended_counts_as_work),
        TEST(timeout_after_the_end_of_the_job_completes_waits_with_the_end),
        TEST(close_after_the_end_of_the_job_completes_waits_with_the_end),
        TEST(many_waits_for_recovery_complete_in_steps),
        TEST(close_after_recovery_completes_waits_with_success),
        TEST(rolled_back_end_fails_the_remaining_waits),
        TEST(waits_completed_later_are_held_with_the_end),
        TEST(unserved_topic_is_kept),
        TEST(call_is_served_when_memory_returns),
    };
    return cmocka_run_group_tests_name("waiter", tests, NULL, NULL);
}
