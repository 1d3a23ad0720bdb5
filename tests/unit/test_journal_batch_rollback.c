/* SPDX-License-Identifier: MIT */
/*
 * Several batches that wait to be stored, of which one cannot be; and very many of them.
 */
#include "journal_fixture.h"

/* ---- rollback ---- */

/* A stored job that changes in this and the next three batches. */
static uint64_t change_in_batches(void)
{
    uint64_t id = put(&w, "a");
    assert_int_equal(set_priority(id, 1), BIDE_OK);
    commit_all();
    for (int i = 2; i < 5; i++) {
        assert_int_equal(set_priority(id, i), BIDE_OK);
        next_batch();
    }
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    return id;
}

static void a_rollback_undoes_all_batches_that_wait(void **state)
{
    (void)state;
    for (int flying = 0; flying < 2; flying++) {
        uint64_t id = change_in_batches();
        uint64_t gathering = bi_journal_open_batch(w.core);
        if (flying) {
            fail_commit(&w);
        } else {
            roll_back_sealed(&w, NULL);
        }
        assert_int_equal(priority_of(id), 1);
        assert_int_equal(hold_of(id), 0);
        assert_int_equal(stats_of(&w).topics, 1);
        assert_int_equal(bi_journal_backlog(w.core), 0);
        assert_true(bi_journal_open_batch(w.core) > gathering);
        /* What comes then is stored by a batch that no one has waited for. */
        uint64_t other = put(&w, "b");
        assert_int_equal(hold_of(other), bi_journal_open_batch(w.core));
        assert_true(hold_of(other) > gathering);
        struct bi_batch batch = seal(&w);
        assert_int_equal(batch.number, hold_of(other));
        assert_int_equal(batch.count, 1);
        commit_sealed(&w, &batch);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, other, 0), BIDE_OK);
        commit_all();
    }
}

static void rollback_keeps_stored_batches(void **state)
{
    (void)state;
    uint64_t id = change_in_batches();
    commit_count(2); /* priority 2, and another job */
    commit_count(2); /* priority 3, and another */
    fail_commit(&w);
    assert_int_equal(priority_of(id), 3);
    assert_int_equal(stats_of(&w).jobs.ready, 3);
    assert_true(bi_verify_is_stored(w.core, id));
}

/* A call that waits on a topic without jobs. */
static void begin_to_wait(bide_op *op, const bide_slice *topic)
{
    static bide_job never;
    *op = (bide_op){.kind = BIDE_OP_RESERVE,
                    .reserve = {.topics = topic,
                                .topic_count = 1,
                                .timeout_ms = BIDE_FOREVER,
                                .jobs = &never,
                                .job_max = 1}};
    assert_int_equal(run(&w, op), BIDE_PENDING);
}

/* Wherever a rollback stands, calls that wait may be cancelled: those that it has come to, the one
 * that is next, and those after it. */
static void calls_are_cancelled_between_the_slices(void **state)
{
    (void)state;
    enum { WAITING = 12 };
    bide_op ops[WAITING];
    bide_slice topic = text("none");
    for (unsigned budget = 1; budget < 20; budget++) {
        uint64_t id = change_in_batches();
        for (int i = 0; i < WAITING; i++)
            begin_to_wait(&ops[i], &topic);
        unsigned next = budget; /* 7 and 12 have no common divisor: all are cancelled */
        int cancelled = 0;
        while (bi_journal_rollback(w.core, w.now, budget))
            if (cancelled++ < WAITING)
                assert_true(bi_waiter_cancel(w.core, &ops[(next += 7) % WAITING]));
        core_fixture_check(&w);
        assert_int_equal(priority_of(id), 1);
        for (int i = 0; i < WAITING; i++)
            bi_waiter_cancel(w.core, &ops[i]);
        assert_int_equal(stats_of(&w).waiting, 0);
        assert_int_equal(w.completed_count, WAITING);
        w.completed_count = 0;
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        commit_all();
    }
}

static void pauses_are_undone_to_the_last_one_stored(void **state)
{
    (void)state;
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "p", 1000), BIDE_OK);
    commit_all();
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "p", 0), BIDE_OK);
    next_batch();
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "p", 5000), BIDE_OK);
    next_batch();
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "p", 0), BIDE_OK);
    fail_commit(&w);
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {text("p"), &stats}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_true(stats.paused);
    assert_int_equal(stats.pause_left_ms, 1000);
}

static void rollback_returns_a_key_to_its_stored_holder(void **state)
{
    (void)state;
    uint64_t old = put_keyed(&w, "a", "key");
    commit_all();
    for (int i = 0; i < 5; i++)
        replace("key");
    commit(&w);
    uint64_t holder;
    bide_put_options options = put_options();
    options.key = text("key");
    fail_commit(&w);
    assert_int_equal(try_put(&w, "a", &options, &holder), BIDE_EXISTS);
    assert_int_equal(holder, old + 1); /* the first replacement was stored */
}

/* ---- very many ---- */

static void when_very_many_batches_wait_the_last_one_grows(void **state)
{
    (void)state;
    reopen_with(1, 0);
    uint64_t committed = bi_journal_committed_batch(w.core);
    uint64_t first = put(&w, "a");
    for (int i = 1; i < 300; i++)
        put(&w, "a");
    assert_int_equal(bi_journal_open_batch(w.core), committed + BI_BATCHES_MAX);
    assert_int_equal(hold_of(first + 299), committed + BI_BATCHES_MAX);
    core_fixture_check(&w);
    commit_count(1);
    put(&w, "a"); /* there is room for one more batch */
    assert_int_equal(bi_journal_open_batch(w.core), committed + 1 + BI_BATCHES_MAX);
    for (int i = 2; i < BI_BATCHES_MAX; i++)
        commit_count(1);
    commit_count(300 - (BI_BATCHES_MAX - 1));
    commit_count(1);
    assert_false(bi_journal_is_dirty(w.core));
}

static void very_many_batches_are_undone_at_once(void **state)
{
    (void)state;
    reopen_with(1, 0);
    uint64_t id = put(&w, "a");
    assert_int_equal(set_priority(id, 77), BIDE_OK);
    commit_all();
    for (uint32_t i = 0; i < 2 * BI_BATCHES_MAX; i++)
        assert_int_equal(set_priority(id, 100 + i % 2), BIDE_OK);
    for (uint32_t i = 0; i < 2 * BI_BATCHES_MAX; i++) {
        put(&w, "b");
        assert_int_equal(set_priority(id, 200 + i), BIDE_OK);
    }
    fail_commit(&w);
    assert_int_equal(priority_of(id), 77);
    assert_int_equal(stats_of(&w).jobs.ready, 1);
}

/* ---- out of memory ---- */

static void batch_that_cannot_be_sealed_stays_open(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        put(&w, "a");
    uint64_t hash = core_state_hash(w.core);
    struct bi_batch batch;
    w.alloc.failing = true;
    assert_int_equal(bi_journal_seal(w.core, w.now, &batch), BIDE_ENOMEM);
    w.alloc.failing = false;
    assert_int_equal(core_state_hash(w.core), hash);
    assert_int_equal(bi_journal_backlog(w.core), 5);
    commit_count(2);
    commit_count(2);
    commit_count(1);
}

static void failed_allocation_leaves_each_step_atomic(void **state)
{
    (void)state;
    uint64_t failed = 1;
    for (uint64_t point = 1; failed > 0; point++) {
        assert_true(point < 500);
        reopen_with(2, 0);
        uint64_t old = put_keyed(&w, "a", "key");
        commit_all();
        w.alloc.countdown = point;
        uint64_t ids[200];
        size_t count = 0;
        for (size_t i = 0; i < COUNT_OF(ids); i++) {
            uint64_t id;
            if (try_put(&w, "b", NULL, &id) == BIDE_OK)
                ids[count++] = id;
        }
        bide_put_options options = put_options();
        options.key = text("key");
        options.conflict = BIDE_REPLACE;
        uint64_t new;
        bool replaced = try_put(&w, "a", &options, &new) == BIDE_OK;
        w.alloc.countdown = 0;
        failed = w.alloc.failed;
        core_fixture_check(&w);
        assert_int_equal(state_of(&w, old), replaced ? BIDE_STATE_GONE : BIDE_STATE_READY);
        size_t inserted = 0;
        while (bi_journal_is_dirty(w.core)) {
            struct bi_batch batch = seal(&w);
            for (size_t i = 0; i < batch.count; i++)
                inserted += batch.records[i].kind == BI_INSERT;
            commit_sealed(&w, &batch);
        }
        assert_int_equal(inserted, count + replaced);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_small_batches, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rollback_undoes_all_batches_that_wait),
        TEST(rollback_keeps_stored_batches),
        TEST(calls_are_cancelled_between_the_slices),
        TEST(pauses_are_undone_to_the_last_one_stored),
        TEST(rollback_returns_a_key_to_its_stored_holder),
        TEST(when_very_many_batches_wait_the_last_one_grows),
        TEST(very_many_batches_are_undone_at_once),
        TEST(batch_that_cannot_be_sealed_stays_open),
        TEST(failed_allocation_leaves_each_step_atomic),
    };
    return cmocka_run_group_tests_name("batches_undo", tests, NULL, NULL);
}
