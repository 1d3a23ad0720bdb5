/* SPDX-License-Identifier: MIT */
/*
 * Reserves that lack bodies and come to nothing: taken back, rolled back, or short of memory.
 */
#include "body_fixture.h"

#define SIZE 100
#define TTR  (60 * SECOND)

struct call {
    bide_op op;
    bide_slice names[2];
    bide_job jobs[4];
};

/* A reserve from topic a, or from a and b. */
static int reserve_from(struct call *call, size_t topic_count, int64_t timeout_ms, size_t max)
{
    memset(call, 0, sizeof(*call));
    call->names[0] = text("a");
    call->names[1] = text("b");
    call->op = (bide_op){.kind = BIDE_OP_RESERVE,
                         .reserve = {.topics = call->names,
                                     .topic_count = topic_count,
                                     .timeout_ms = timeout_ms,
                                     .jobs = call->jobs,
                                     .job_max = max}};
    return run(&w, &call->op);
}

static int reserve(struct call *call, int64_t timeout_ms, size_t max)
{
    return reserve_from(call, 1, timeout_ms, max);
}

static void take_lacking(struct call *call, int64_t timeout_ms, size_t max)
{
    assert_int_equal(reserve(call, timeout_ms, max), BIDE_OK);
    assert_true(lacks_body(&call->op));
}

/* What the backend does with an op that is answered otherwise. */
static void give_up(struct call *call)
{
    bi_lease_undo_reserve(w.core, &call->op, w.now);
    bi_waiter_unpark(w.core, &call->op);
    assert_false(lacks_body(&call->op));
    for (size_t i = 0; i < call->op.reserve.count; i++)
        bide_job_clear(&call->jobs[i]);
    core_fixture_check(&w);
}

static uint64_t reserves_of(uint64_t id)
{
    bide_job job;
    assert_true(look(&w, id, &job));
    uint64_t reserves = job.reserves;
    bide_job_clear(&job);
    return reserves;
}

/* With a retry limit, so that its reserve is stored. */
static uint64_t store_limited(void)
{
    bide_put_options options = put_options();
    options.max_retries = 3;
    uint64_t id = put_sized(&w, "a", SIZE, &options);
    commit(&w);
    return id;
}

static uint64_t topics(void)
{
    return stats_of(&w).topics;
}

/* From here on there is no memory, and what the journal had left is used up. */
static void exhaust_journal(void)
{
    bide_put_options options = put_options();
    options.max_retries = 3;
    uint64_t first = put_sized(&w, "f", 0, &options);
    for (int i = 0; i < 300; i++)
        put_sized(&w, "f", 0, &options);
    commit(&w);
    w.alloc.failing = true;
    while (bury(&w, first, 0) == BIDE_OK)
        first++;
}

/* ---- taken back ---- */

static void undone_reserve_leaves_jobs_ready_and_uncounted(void **state)
{
    (void)state;
    uint64_t first = store_sized(&w, "a", SIZE);
    uint64_t second = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 2);
    assert_int_equal(reserves_of(first), 1);
    give_up(&call);
    assert_int_equal(state_of(&w, first), BIDE_STATE_READY);
    assert_int_equal(state_of(&w, second), BIDE_STATE_READY);
    assert_int_equal(reserves_of(first), 0);
    assert_int_equal(stats_of(&w).waiting, 0);
    assert_int_equal(topics(), 1);
    assert_false(bi_journal_is_dirty(w.core));
    take_lacking(&call, 0, 1);
    assert_int_equal(call.jobs[0].id, first); /* at its old place */
    give_up(&call);
}

static void rollback_takes_back_a_reserve_job(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = id, .job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    bi_lease_undo_reserve(w.core, &op, w.now);
    bi_waiter_unpark(w.core, &op);
    bide_job_clear(&job);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(reserves_of(id), 0);
}

static void rollback_undoes_the_reserve_of_finish_and_reserve(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    bide_slice name = text("a");
    bide_job job;
    bide_op op = {.kind = BIDE_OP_FINISH_AND_RESERVE,
                  .finish_and_reserve = {
                      .finish = {.id = 999},
                      .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(op.finish_and_reserve.finish.status, BIDE_NOT_FOUND);
    bi_lease_undo_reserve(w.core, &op, w.now);
    bi_waiter_unpark(w.core, &op);
    bide_job_clear(&job);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void stored_started_mark_is_removed_from_the_store(void **state)
{
    (void)state;
    uint64_t id = store_limited();
    struct call call;
    take_lacking(&call, 0, 1);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_true(batch.records[0].image.started);
    commit_sealed(&w, &batch);
    give_up(&call);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_false(batch.records[0].image.started);
    assert_int_equal(batch.records[0].image.reserves, 0);
    commit_sealed(&w, &batch);
}

static void undo_without_memory_is_retried(void **state)
{
    (void)state;
    uint64_t id = store_limited();
    struct call call;
    take_lacking(&call, 0, 1);
    commit(&w);
    exhaust_journal();
    give_up(&call);
    w.alloc.failing = false;
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    advance_clocks(&w, SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY); /* and nothing is counted */
}

static void cancelled_job_is_removed_when_its_reserve_is_undone(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(run_lease_op(&w, BIDE_OP_CANCEL, id, 0), BIDE_OK);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    give_up(&call);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
}

static void undo_leaves_a_job_that_was_reserved_again(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call, other;
    take_lacking(&call, 0, 1);
    assert_int_equal(release(&w, id, call.jobs[0].token, 0), BIDE_OK);
    take_lacking(&other, 0, 1);
    give_up(&call);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    assert_int_equal(supply(&w, &other.op), BIDE_OK);
    assert_int_equal(other.jobs[0].id, id);
    bide_job_clear(&other.jobs[0]);
}

static void undone_reserve_serves_waiting_calls(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call, other;
    take_lacking(&call, 0, 1);
    assert_int_equal(reserve(&other, BIDE_FOREVER, 1), BIDE_PENDING);
    give_up(&call);
    bi_core_serve(w.core, w.now);
    assert_int_equal(w.completed_count, 1);
    assert_true(lacks_body(&other.op));
    assert_int_equal(supply(&w, &other.op), BIDE_OK);
    assert_int_equal(other.jobs[0].id, id);
    bide_job_clear(&other.jobs[0]);
}

/* Its topic is to be served already, under the number of a call that came later. */
static void resumed_call_is_served_before_a_later_one_of_another_topic(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.max_retries = 3;
    options.delay_ms = 10;
    options.priority = 2;
    uint64_t second = put_sized(&w, "b", SIZE, &options);
    options.priority = 1;
    uint64_t first = put_sized(&w, "a", SIZE, &options);
    uint64_t bad = store_sized(&w, "a", SIZE);
    struct call resumed, later;
    bide_slice names[2] = {text("b"), text("a")};
    take_lacking(&resumed, BIDE_FOREVER, 1);
    memset(&later, 0, sizeof(later));
    later.op = (bide_op){.kind = BIDE_OP_RESERVE,
                         .reserve = {.topics = names,
                                     .topic_count = 2,
                                     .timeout_ms = BIDE_FOREVER,
                                     .jobs = later.jobs,
                                     .job_max = 1}};
    assert_int_equal(run(&w, &later.op), BIDE_PENDING);

    /* Both jobs are ready, and memory lacks to reserve them. */
    exhaust_journal();
    advance_clocks(&w, 10 * MS);
    assert_int_equal(supply_except(&w, &resumed.op, bad), BIDE_PENDING);
    assert_int_equal(w.completed_count, 0);
    w.alloc.failing = false;
    bi_core_serve(w.core, w.now);
    assert_int_equal(w.completed_count, 2);
    assert_int_equal(resumed.jobs[0].id, first);
    assert_int_equal(later.jobs[0].id, second);
    assert_int_equal(supply(&w, &resumed.op), BIDE_OK);
    assert_int_equal(supply(&w, &later.op), BIDE_OK);
    bide_job_clear(&resumed.jobs[0]);
    bide_job_clear(&later.jobs[0]);
}

/* ---- rolled back ---- */

static void rollback_undoes_a_logged_reserve(void **state)
{
    (void)state;
    uint64_t id = store_limited();
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 1);
    assert_int_equal(call.op.private_.hold, bi_journal_open_batch(w.core));
    fail_commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(w.completed_count, 0); /* it continues when its body is supplied */
    give_up(&call);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(reserves_of(id), 0);
    assert_int_equal(stats_of(&w).waiting, 0);
}

static void rollback_keeps_an_unlogged_reserve(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 1);
    put_sized(&w, "c", SIZE, NULL);
    fail_commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_int_equal(call.jobs[0].id, id);
    bide_job_clear(&call.jobs[0]);
}

static void call_supplied_after_a_rollback_waits_again(void **state)
{
    (void)state;
    uint64_t id = store_limited();
    struct call call;
    take_lacking(&call, BIDE_FOREVER, 1);
    fail_commit(&w);
    /* Its reservation does not stand any more; but the job is there to be taken again. */
    assert_int_equal(supply(&w, &call.op), BI_AGAIN);
    assert_int_equal(call.op.reserve.count, 1);
    assert_int_equal(call.jobs[0].id, id);
    assert_int_equal(supply(&w, &call.op), BIDE_OK);
    assert_int_equal(call.jobs[0].left_ms, TTR / MS);
    bide_job_clear(&call.jobs[0]);
}

static void burial_for_an_unreadable_body_is_rolled_back(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    assert_int_equal(supply_except(&w, &call.op, id), BIDE_TIMED_OUT);
    assert_int_equal(state_of(&w, id), BIDE_STATE_BURIED);
    fail_commit(&w);
    bide_state state_now = state_of(&w, id);
    assert_true(state_now == BIDE_STATE_RESERVED || state_now == BIDE_STATE_READY);
    advance_clocks(&w, BIDE_TIME_MAX_MS * MS);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

/* ---- out of memory ---- */

static void reserve_is_atomic_at_every_failed_allocation(void **state)
{
    (void)state;
    for (int timeout = 0; timeout < 2; timeout++) {
        uint64_t failed = 1;
        for (uint64_t point = 1; failed > 0; point++) {
            assert_true(point < 100);
            core_fixture_close(&w);
            bodies_open(&w, 1);
            uint64_t id = store_limited();
            struct call call;
            w.alloc.countdown = point;
            int code = reserve(&call, timeout ? BIDE_FOREVER : 0, 1);
            w.alloc.countdown = 0;
            failed = w.alloc.failed;
            core_fixture_check(&w);
            if (code == BIDE_ENOMEM) {
                assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
                continue;
            }
            assert_int_equal(code, BIDE_OK);
            assert_true(lacks_body(&call.op));
            code = supply_except(&w, &call.op, id);
            assert_int_equal(state_of(&w, id), BIDE_STATE_BURIED);
            /* One that could not be kept waiting has nothing but this to tell. */
            int wanted = failed > 0 ? BIDE_EIO : timeout ? BIDE_PENDING : BIDE_TIMED_OUT;
            assert_int_equal(code, wanted);
            if (failed > 0)
                assert_non_null(strstr(call.op.error, "cannot be read"));
            bi_waiter_cancel(w.core, &call.op); /* if it waits */
            w.completed_count = 0;
        }
    }
}

static void burial_without_memory_is_retried(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    take_lacking(&call, 0, 1);
    exhaust_journal();
    int code = supply_except(&w, &call.op, id);
    w.alloc.failing = false;
    assert_int_equal(code, BIDE_TIMED_OUT);
    assert_int_equal(state_of(&w, id),
                     BIDE_STATE_RESERVED); /* without a holder, until its lease expires */
    advance_clocks(&w, TTR);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void topics_needed_only_by_a_parked_call_are_removed_after_it(void **state)
{
    (void)state;
    uint64_t id = store_sized(&w, "a", SIZE);
    struct call call;
    assert_int_equal(reserve_from(&call, 2, BIDE_FOREVER, 1), BIDE_OK);
    assert_true(lacks_body(&call.op));
    assert_int_equal(topics(), 2);
    assert_int_equal(supply_except(&w, &call.op, id), BIDE_PENDING);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    uint64_t other = put_sized(&w, "b", SIZE, NULL); /* it waits in both lines */
    assert_int_equal(w.completed_count, 1);
    assert_int_equal(call.jobs[0].id, other);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, other, call.jobs[0].token), BIDE_OK);
    bide_job_clear(&call.jobs[0]);
    commit(&w);
    assert_int_equal(topics(), 0);
}

static void topics_of_a_parked_call_are_kept(void **state)
{
    (void)state;
    store_sized(&w, "a", SIZE);
    struct call call;
    assert_int_equal(reserve_from(&call, 2, BIDE_FOREVER, 1), BIDE_OK);
    const char *fault = core_check_all(w.core);
    give_up(&call);
    assert_null(fault);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_bodies, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(undone_reserve_leaves_jobs_ready_and_uncounted),
        TEST(rollback_takes_back_a_reserve_job),
        TEST(rollback_undoes_the_reserve_of_finish_and_reserve),
        TEST(stored_started_mark_is_removed_from_the_store),
        TEST(undo_without_memory_is_retried),
        TEST(cancelled_job_is_removed_when_its_reserve_is_undone),
        TEST(undo_leaves_a_job_that_was_reserved_again),
        TEST(undone_reserve_serves_waiting_calls),
        TEST(resumed_call_is_served_before_a_later_one_of_another_topic),
        TEST(rollback_undoes_a_logged_reserve),
        TEST(rollback_keeps_an_unlogged_reserve),
        TEST(call_supplied_after_a_rollback_waits_again),
        TEST(burial_for_an_unreadable_body_is_rolled_back),
        TEST(reserve_is_atomic_at_every_failed_allocation),
        TEST(burial_without_memory_is_retried),
        TEST(topics_needed_only_by_a_parked_call_are_removed_after_it),
        TEST(topics_of_a_parked_call_are_kept),
    };
    return cmocka_run_group_tests_name("fetch_undo", tests, NULL, NULL);
}
