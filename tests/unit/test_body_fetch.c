/* SPDX-License-Identifier: MIT */
/*
 * Reserves of jobs whose bodies only the store has: in two steps, and what may come in between.
 */
#include "body_fixture.h"

#define SIZE 100
#define TTR  (60 * SECOND)

/* Every body that is stored goes at once. */
/* A reserve with room for its answer. */
struct call {
    bide_op op;
    bide_slice name;
    bide_job jobs[4];
};

static int reserve(struct call *call, int64_t timeout_ms, size_t max)
{
    memset(call, 0, sizeof(*call));
    call->name = text("a");
    call->op = (bide_op){.kind = BIDE_OP_RESERVE,
                         .reserve = {.topics = &call->name,
                                     .topic_count = 1,
                                     .timeout_ms = timeout_ms,
                                     .jobs = call->jobs,
                                     .job_max = max}};
    return run(&w, &call->op);
}

/* Takes jobs of which some are without their bodies. */
static void take_lacking(struct call *call, int64_t timeout_ms, size_t max)
{
    assert_int_equal(reserve(call, timeout_ms, max), BIDE_OK);
    assert_true(lacks_body(&call->op));
}

/* The call has this job, with its body; the answer is dropped. */
static void assert_has(struct call *call, size_t i, uint64_t id)
{
    assert_true(i < call->op.reserve.count);
    assert_int_equal(call->jobs[i].id, id);
    assert_body(call->jobs[i].body, call->jobs[i].body_size, SIZE);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    bide_job_clear(&call->jobs[i]);
}

static void assert_buried(uint64_t id)
{
    bide_job job;
    assert_true(look(&w, id, &job));
    assert_int_equal(job.state, BIDE_STATE_BURIED);
    assert_string_equal(job.last_error, "the page is torn");
    bide_failure failure;
    assert_int_equal(bide_job_history(&job, &failure, 1), 1);
    assert_int_equal(failure.kind, BIDE_FAILURE_BURIED);
    assert_memory_equal(failure.error.data, "the page is torn", failure.error.size);
    bide_job_clear(&job);
}

/* ---- bodies that come ---- */

static void reserve_lists_its_missing_bodies_and_gets_them(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    struct bi_body bodies[2];
    assert_int_equal(bi_body_fetch_missing(&call.op, 0, bodies, 2), 1);
    assert_int_equal(bodies[0].id, id);
    assert_int_equal(bodies[0].size, SIZE);
    uint64_t token = call.jobs[0].token;
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_has(&call, 0, id);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
}

static void missing_bodies_can_be_listed_in_parts(void **state)
{
    (void)state;
    uint64_t ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = store_sized(&w, "a", SIZE);
    put_sized(&w, "a", SIZE, NULL); /* not stored, so it lacks nothing */
    struct call call;
    take_lacking(&call, 0, 4);
    assert_int_equal(call.op.reserve.count, 4);
    struct bi_body bodies[4];
    assert_int_equal(bi_body_fetch_missing(&call.op, 0, bodies, 2), 2);
    assert_int_equal(bodies[1].id, ids[1]);
    assert_int_equal(bi_body_fetch_missing(&call.op, 2, bodies, 2), 1);
    assert_int_equal(bodies[0].id, ids[2]);
    assert_int_equal(bi_body_fetch_missing(&call.op, 3, bodies, 2), 0);
    assert_int_equal(bi_body_fetch_missing(&call.op, 0, bodies, 0), 0);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    for (size_t i = 0; i < 4; i++)
        assert_has(&call, i, ids[0] + i);
}

static void empty_bodies_are_never_missing(void **state)
{
    (void)state;
    store_sized(&w, "a", 0);
    struct call call;
    assert_int_equal(reserve(&call, 0, 1), BIDE_OK);
    assert_false(lacks_body(&call.op));
    bide_job_clear(&call.jobs[0]);
}

static void waiting_call_is_served_after_its_body_was_read(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    commit(&w);
    struct call call;
    assert_int_equal(reserve(&call, BIDE_FOREVER, 1), BIDE_PENDING);
    assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
    assert_int_equal(w.completed_count, 1);
    assert_ptr_equal(w.completed[0], &call.op);
    assert_true(lacks_body(&call.op));
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_has(&call, 0, id);
    assert_int_equal(stats_of(&w).waiting, 0);
}

/* ---- the lease ---- */

static void lease_starts_when_the_body_is_supplied(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    advance_clocks(&w, 100 * TTR);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_int_equal(call.jobs[0].left_ms, TTR / MS);
    assert_int_equal(call.jobs[0].reserved_ms, w.now.wall / MS);
    assert_has(&call, 0, id);
    advance_clocks(&w, TTR - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void no_lease_of_a_reserve_expires_before_it_completes(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    uint64_t complete = put_sized(&w, "a", SIZE, NULL);
    struct call call;
    take_lacking(&call, 0, 2);
    advance_clocks(&w, 2 * TTR);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    assert_int_equal(state_of(&w, complete), BIDE_STATE_RESERVED);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_int_equal(call.op.reserve.count, 2);
    assert_has(&call, 0, id);
    assert_has(&call, 1, complete);
}

static void all_leases_of_a_reserve_start_together(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    uint64_t in_memory_id = put_sized(&w, "a", SIZE, NULL);
    struct call call;
    take_lacking(&call, 0, 2);
    advance_clocks(&w, TTR / 2);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_int_equal(call.op.reserve.count, 2);
    assert_int_equal(call.jobs[1].left_ms, TTR / MS);
    assert_has(&call, 0, id);
    assert_has(&call, 1, in_memory_id);
    advance_clocks(&w, TTR - 1);
    assert_int_equal(state_of(&w, in_memory_id), BIDE_STATE_RESERVED);
}

/* ---- bodies that cannot be read ---- */

static void unreadable_job_is_buried_and_another_reserved(void **state)
{
    (void)state;
    uint64_t bad = store_sized(&w, "a", SIZE);
    uint64_t good = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(supply_except(&w, &call.op, bad), BI_AGAIN);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_has(&call, 0, good);
    assert_buried(bad);
    assert_int_equal(call.op.private_.hold,
                     bi_journal_open_batch(w.core)); /* it tells of a burial */
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].image.state, BIDE_STATE_BURIED);
    commit_sealed(&w, &batch);
}

static void cached_job_is_reserved_at_once(void **state)
{
    (void)state;
    uint64_t bad = store_sized(&w, "a", SIZE);
    uint64_t good = put_sized(&w, "a", SIZE, NULL);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(supply_except(&w, &call.op, bad), BIDE_OK);
    assert_has(&call, 0, good);
}

static void reserve_without_another_job_times_out(void **state)
{
    (void)state;
    uint64_t bad = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(supply_except(&w, &call.op, bad), BIDE_TIMED_OUT);
    assert_buried(bad);
    assert_int_equal(call.op.reserve.count, 0);
    assert_string_equal(call.op.error, bide_code_text(BIDE_TIMED_OUT));
}

static void reserve_without_another_job_waits_at_its_old_position(void **state)
{
    (void)state;
    uint64_t bad = store_sized(&w, "a", SIZE);
    struct call first, second;
    take_lacking(&first, BIDE_FOREVER, 1);
    assert_int_equal(reserve(&second, BIDE_FOREVER, 1), BIDE_PENDING);
    assert_int_equal(supply_except(&w, &first.op, bad), BIDE_PENDING);
    assert_int_equal(w.completed_count, 0);
    uint64_t next = put_sized(&w, "a", SIZE, NULL);
    assert_int_equal(w.completed_count, 1);
    assert_ptr_equal(w.completed[0], &first.op);
    assert_int_equal(first.op.status, BIDE_OK);
    assert_has(&first, 0, next);
    uint64_t last = put_sized(&w, "a", SIZE, NULL);
    assert_ptr_equal(w.completed[1], &second.op);
    assert_has(&second, 0, last);
}

/* In the line of a topic that it named besides that of the bad job. */
static void resumed_call_waits_between_earlier_and_later_ones(void **state)
{
    enum { LINE = 500, RESUMED = 321 };
    (void)state;
    static bide_slice names[2];
    static struct call calls[LINE];
    names[0] = text("a"), names[1] = text("b");
    uint64_t bad = store_sized(&w, "a", SIZE);
    for (int i = 0; i < LINE; i++) {
        calls[i] = (struct call){.op = {.kind = BIDE_OP_RESERVE,
                                        .reserve = {.topics = i == RESUMED ? names : names + 1,
                                                    .topic_count = i == RESUMED ? 2 : 1,
                                                    .timeout_ms = BIDE_FOREVER,
                                                    .jobs = calls[i].jobs,
                                                    .job_max = 1}}};
        assert_int_equal(run(&w, &calls[i].op), i == RESUMED ? BIDE_OK : BIDE_PENDING);
    }
    assert_int_equal(supply_except(&w, &calls[RESUMED].op, bad), BIDE_PENDING);
    for (int i = 0; i < LINE; i++) {
        w.completed_count = 0;
        uint64_t id = put_sized(&w, "b", SIZE, NULL);
        assert_int_equal(w.completed_count, 1);
        assert_ptr_equal(w.completed[0], &calls[i].op);
        assert_has(&calls[i], 0, id);
    }
}

static void body_read_does_not_block_other_calls(void **state)
{
    (void)state;
    store_sized(&w, "a", SIZE);
    struct call first, second;
    take_lacking(&first, BIDE_FOREVER, 1);
    assert_int_equal(reserve(&second, BIDE_FOREVER, 1), BIDE_PENDING);
    uint64_t next = put_sized(&w, "a", SIZE, NULL);
    assert_int_equal(w.completed_count, 1);
    assert_ptr_equal(w.completed[0], &second.op);
    assert_has(&second, 0, next);
    assert_int_equal(supply(&w, &first.op), BIDE_OK);
    bide_job_clear(&first.jobs[0]);
}

static void timers_fire_while_a_body_is_read(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        uint64_t bad = store_sized(&w, "a", SIZE);
        struct call call;
        take_lacking(&call, 1000, 1);
        advance_clocks(&w, late ? SECOND : SECOND - 1);
        assert_int_equal(w.completed_count, 0); /* it has its answer, if not all of it */
        int code = supply_except(&w, &call.op, bad);
        assert_int_equal(code, late ? BIDE_TIMED_OUT : BIDE_PENDING);
        advance_clocks(&w, 1);
        if (!late) {
            assert_int_equal(w.completed_count, 1);
            assert_int_equal(call.op.status, BIDE_TIMED_OUT);
            w.completed_count = 0;
        }
    }
}

static void body_read_after_the_timeout_completes_the_reserve(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 1000, 1);
    advance_clocks(&w, 2 * SECOND);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_has(&call, 0, id);
}

static void readable_jobs_of_a_batch_are_kept(void **state)
{
    (void)state;
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = store_sized(&w, "a", SIZE);
    for (int bad = 0; bad < 3; bad++) {
        struct call call;
        take_lacking(&call, BIDE_FOREVER, 3);
        assert_int_equal(supply_except(&w, &call.op, ids[bad]), BIDE_OK);
        assert_int_equal(call.op.reserve.count, 2);
        uint64_t tokens[2] = {call.jobs[0].token, call.jobs[1].token};
        assert_has(&call, 0, ids[bad == 0 ? 1 : 0]);
        assert_has(&call, 1, ids[bad == 2 ? 1 : 2]);
        assert_buried(ids[bad]);
        assert_int_equal(release(&w, ids[bad == 0 ? 1 : 0], tokens[0], 0), BIDE_OK);
        assert_int_equal(release(&w, ids[bad == 2 ? 1 : 2], tokens[1], 0), BIDE_OK);
        assert_int_equal(kick(&w, "a", 1), 1);
        commit(&w);
    }
}

static void call_that_cannot_wait_reports_the_missing_body(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_init(&w);
    w.options.journal = true;
    w.options.limits.cache_bytes = 1;
    w.options.limits.max_waiters = 0;
    core_fixture_start(&w);
    uint64_t bad = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 1);
    assert_int_equal(supply_except(&w, &call.op, bad), BIDE_EIO);
    assert_non_null(strstr(call.op.error, "cannot be read"));
    assert_buried(bad);
}

/* ---- reserve_job, finish_and_reserve ---- */

static void reserve_job_gets_its_body(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = id, .job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_true(lacks_body(&op));
    advance_clocks(&w, 10 * TTR);
    assert_int_equal(supply(&w, &op), BIDE_OK);
    assert_int_equal(job.left_ms, TTR / MS);
    assert_body(job.body, job.body_size, SIZE);
    bide_job_clear(&job);
}

static void unreadable_job_of_reserve_job_is_buried(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = id, .job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(supply_except(&w, &op, id), BIDE_EIO);
    assert_non_null(strstr(op.error, "the page is torn"));
    assert_int_equal(job.id, 0);
    assert_buried(id);
    assert_int_equal(run(&w, &op), BIDE_OK); /* it may be tried again */
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, job.token), BIDE_OK);
    assert_int_equal(supply(&w, &op), BIDE_NOT_FOUND);
    assert_int_equal(job.id, 0);
}

static void finish_of_finish_and_reserve_is_kept(void **state)
{
    (void)state;
    uint64_t finished = put_sized(&w, "b", SIZE, NULL);
    uint64_t bad = store_sized(&w, "a", SIZE);
    uint64_t good = store_sized(&w, "a", SIZE);
    struct call call = {.name = text("a")};
    call.op = (bide_op){.kind = BIDE_OP_FINISH_AND_RESERVE,
                        .finish_and_reserve = {.finish = {.id = finished},
                                               .reserve = {.topics = &call.name,
                                                           .topic_count = 1,
                                                           .timeout_ms = BIDE_FOREVER,
                                                           .jobs = call.jobs,
                                                           .job_max = 1}}};
    assert_int_equal(run(&w, &call.op), BIDE_OK);
    assert_true(lacks_body(&call.op));
    assert_int_equal(call.op.finish_and_reserve.finish.status, BIDE_OK);
    assert_int_equal(supply_except(&w, &call.op, bad), BI_AGAIN);
    assert_int_equal(supply_except(&w, &call.op, good), BIDE_PENDING);
    uint64_t next = put_sized(&w, "a", SIZE, NULL);
    assert_int_equal(w.completed_count, 1);
    assert_int_equal(call.jobs[0].id, next);
    assert_int_equal(call.op.finish_and_reserve.reserve.count, 1);
    assert_int_equal(call.op.private_.hold, bi_journal_open_batch(w.core));
    bide_job_clear(&call.jobs[0]);
    assert_int_equal(state_of(&w, finished), BIDE_STATE_GONE);
}

/* ---- what may come in between ---- */

static void job_finished_during_its_read_is_not_returned(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, call.jobs[0].token), BIDE_OK);
    assert_int_equal(supply(&w, &call.op), BIDE_TIMED_OUT);
    assert_int_equal(call.op.reserve.count, 0);
}

static void completed_call_cannot_be_cancelled(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 1);
    assert_false(bi_waiter_cancel(w.core, &call.op));
    assert_int_equal(w.completed_count, 0);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_has(&call, 0, id);
    uint64_t bad = store_sized(&w, "a", SIZE);
    take_lacking(&call, BIDE_FOREVER, 1);
    assert_int_equal(supply_except(&w, &call.op, bad), BIDE_PENDING);
    assert_true(bi_waiter_cancel(w.core, &call.op)); /* it waits again */
    assert_int_equal(call.op.status, BIDE_CANCELLED);
}

static void close_lets_a_body_read_finish(void **state)
{
    (void)state;
    uint64_t good = store_sized(&w, "a", SIZE);
    uint64_t bad = store_sized(&w, "a", SIZE);
    struct call first, second;
    take_lacking(&first, BIDE_FOREVER, 1);
    take_lacking(&second, BIDE_FOREVER, 1);
    bi_waiter_close_all(w.core, UINT32_MAX);
    assert_int_equal(w.completed_count, 0);
    assert_int_equal(supply(&w, &first.op), BIDE_OK);
    assert_has(&first, 0, good);
    assert_int_equal(supply_except(&w, &second.op, bad), BIDE_CLOSED);
    assert_buried(bad);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_bodies, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reserve_lists_its_missing_bodies_and_gets_them),
        TEST(missing_bodies_can_be_listed_in_parts),
        TEST(empty_bodies_are_never_missing),
        TEST(waiting_call_is_served_after_its_body_was_read),
        TEST(lease_starts_when_the_body_is_supplied),
        TEST(no_lease_of_a_reserve_expires_before_it_completes),
        TEST(all_leases_of_a_reserve_start_together),
        TEST(unreadable_job_is_buried_and_another_reserved),
        TEST(cached_job_is_reserved_at_once),
        TEST(reserve_without_another_job_times_out),
        TEST(reserve_without_another_job_waits_at_its_old_position),
        TEST(resumed_call_waits_between_earlier_and_later_ones),
        TEST(body_read_does_not_block_other_calls),
        TEST(timers_fire_while_a_body_is_read),
        TEST(body_read_after_the_timeout_completes_the_reserve),
        TEST(readable_jobs_of_a_batch_are_kept),
        TEST(call_that_cannot_wait_reports_the_missing_body),
        TEST(reserve_job_gets_its_body),
        TEST(unreadable_job_of_reserve_job_is_buried),
        TEST(finish_of_finish_and_reserve_is_kept),
        TEST(job_finished_during_its_read_is_not_returned),
        TEST(completed_call_cannot_be_cancelled),
        TEST(close_lets_a_body_read_finish),
    };
    return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
