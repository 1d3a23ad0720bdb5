/* SPDX-License-Identifier: MIT */
/*
 * Memory: given back when a backlog has drained, and missed at every point where it may be.
 */
#include "core_fixture.h"

#include <stdio.h>

/* ---- giving back ---- */

#define BACKLOG 100000u

/* What may stay behind: a little, and a hundredth of what there was. */
static size_t peak;
#define NEAR (((size_t)16 << 10) + peak / 100)

static void open_world(bool journal)
{
    peak = 0;
    core_fixture_open(&w, journal);
    run_topic_op(&w, BIDE_OP_TOPIC_REF, "a", 1);
    /* The first job makes slabs, which stay. */
    uint64_t id = put_keyed(&w, "a", "first");
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    if (journal)
        commit(&w);
}

static void delete_from(uint64_t first, uint64_t step)
{
    if (w.alloc.bytes > peak)
        peak = w.alloc.bytes;
    for (uint64_t id = first; id <= BACKLOG + 1; id += step)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
}

static void expect_near(size_t start)
{
    assert_int_equal(stats_of(&w).jobs.ready + stats_of(&w).jobs.delayed, 0);
    if (w.alloc.bytes > start + NEAR)
        fail_msg("%zu bytes are left of a backlog; %zu there were before it", w.alloc.bytes, start);
    core_fixture_close(&w);
}

static void a_backlog_of_ready_jobs_leaves_no_memory_behind(void **state)
{
    (void)state;
    open_world(false);
    size_t start = w.alloc.bytes;
    for (uint32_t i = 0; i < BACKLOG; i++)
        put(&w, "a");
    assert_true(w.alloc.bytes > start + BACKLOG * 100);
    delete_from(2, 1);
    expect_near(start);
}

static void a_backlog_deleted_in_another_order_leaves_no_memory_behind(void **state)
{
    (void)state;
    open_world(false);
    size_t start = w.alloc.bytes;
    for (uint32_t i = 0; i < BACKLOG; i++)
        put(&w, "a");
    for (uint64_t first = 2; first < 9; first++)
        delete_from(first, 7);
    expect_near(start);
}

static void a_backlog_of_delayed_keyed_jobs_leaves_no_memory_behind(void **state)
{
    (void)state;
    open_world(false);
    size_t start = w.alloc.bytes;
    for (uint32_t i = 0; i < BACKLOG; i++) {
        bide_put_options options = put_options();
        options.delay_ms = 1 + i % 1000;
        options.key = (bide_slice){&i, sizeof(i)};
        options.expires_at_ms = EPOCH / MS + 100000;
        put_with(&w, "a", &options);
    }
    advance_clocks(&w, 500 * MS);
    delete_from(2, 1);
    expect_near(start);
}

static void a_backlog_that_was_stored_leaves_no_memory_behind(void **state)
{
    (void)state;
    open_world(true);
    size_t start = w.alloc.bytes;
    for (uint32_t i = 0; i < BACKLOG; i++) {
        put(&w, "a");
        if (i % 1000 == 999)
            commit(&w);
    }
    delete_from(2, 1);
    commit(&w);
    expect_near(start);
}

static void removed_topics_leave_no_memory_behind(void **state)
{
    (void)state;
    open_world(false);
    size_t start = w.alloc.bytes;
    char name[16];
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "topic-%u", i);
        put(&w, name);
    }
    peak = w.alloc.bytes;
    for (uint64_t id = 2; id <= 20001; id++)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(stats_of(&w).topics, 1);
    expect_near(start);
}

static void memory_statistics_return_to_their_start(void **state)
{
    (void)state;
    open_world(false);
    uint64_t start = stats_of(&w).memory_bytes;
    for (uint32_t i = 0; i < 1000; i++) {
        bide_put_options options = put_options();
        options.key = (bide_slice){&i, sizeof(i)};
        put_with(&w, i % 2 == 0 ? "a" : "b", &options);
    }
    assert_true(stats_of(&w).memory_bytes > start);
    for (uint64_t id = 2; id <= 1001; id++)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(stats_of(&w).memory_bytes, start);
    core_fixture_close(&w);
}

/* ---- every allocation fails once ---- */

static void failed_core_creation_leaks_nothing(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        core_fixture_init(&w);
        w.options.journal = variant % 2 == 1;
        w.options.wheel = variant / 2 == 1;
        for (uint64_t point = 1; w.core == NULL; point++) {
            w.alloc.countdown = point;
            w.core = bi_core_new(&w.options, w.now);
            if (w.core == NULL)
                assert_int_equal(w.alloc.blocks, 0);
            assert_true(point < 100);
        }
        w.alloc.countdown = 0;
        core_fixture_close(&w);
    }
}

/* The script. Jobs are numbered from 1 and tokens from TOKEN, whatever failed before; an op that
 * is left waiting needs a place that stays. */
static bide_op waiting[8];
static bide_slice names[20];
static bide_job taken;
static bide_subscription *feed;

static int put_plain(void)
{
    uint64_t id;
    return try_put(&w, "a", NULL, &id);
}

static int put_rich(void)
{
    bide_put_options options = put_options();
    uint64_t id;
    options.key = text("key");
    options.max_retries = 3;
    options.expires_at_ms = EPOCH / MS + 1000000;
    options.delay_ms = 1000;
    return try_put(&w, "b", &options, &id);
}

static int put_replacing(void)
{
    bide_put_options options = put_options();
    uint64_t id;
    options.key = text("key");
    options.conflict = BIDE_REPLACE;
    options.max_retries = 3;
    return try_put(&w, "b", &options, &id);
}

static int reserve_a(void)
{
    uint64_t id;
    uint64_t token;
    return try_reserve(&w, "a", &id, &token);
}

static int release_a(void)
{
    return release(&w, 1, TOKEN, 0);
}

static int take_job_b(void)
{
    bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = 3, .job = &taken}};
    int code = run(&w, &op);
    if (code == BIDE_OK)
        bide_job_clear(&taken);
    return code;
}

static int touch_b(void)
{
    bide_op op = {.kind = BIDE_OP_TOUCH, .touch = {.id = 3, .token = TOKEN + 1}};
    return run(&w, &op);
}

static int fail_b(void)
{
    return fail_job(&w, 3, TOKEN + 1, BIDE_KEEP);
}

static int bury_a(void)
{
    return bury(&w, 1, 0);
}

static int kick_a(void)
{
    return run_lease_op(&w, BIDE_OP_KICK_JOB, 1, 0);
}

static int move_b(void)
{
    bide_op op = update_of(3);
    op.update.topic = text("c");
    op.update.priority = 7;
    op.update.delay_ms = 0;
    return run(&w, &op);
}

static int pause_d(void)
{
    return run_topic_op(&w, BIDE_OP_PAUSE, "d", 1000);
}

static int refer_e(void)
{
    return run_topic_op(&w, BIDE_OP_TOPIC_REF, "e", 1);
}

static int wait_for_a(void)
{
    waiting[0] = (bide_op){.kind = BIDE_OP_WAIT, .wait = {.id = 1, .timeout_ms = 50}};
    return run(&w, &waiting[0]);
}

/* More topics than fit on the stack, all of them new. */
static int reserve_waiting(void)
{
    static const char *const new_names[20] = {"n0",  "n1",  "n2",  "n3",  "n4",  "n5",  "n6",
                                              "n7",  "n8",  "n9",  "n10", "n11", "n12", "n13",
                                              "n14", "n15", "n16", "n17", "n3",  "n19"};
    for (size_t i = 0; i < 20; i++)
        names[i] = text(new_names[i]);
    waiting[1] = (bide_op){
        .kind = BIDE_OP_RESERVE,
        .reserve = {
            .topics = names, .topic_count = 20, .timeout_ms = 5000, .jobs = &taken, .job_max = 1}};
    return run(&w, &waiting[1]);
}

static int subscribe(void)
{
    bide_op op = {.kind = BIDE_OP_SUBSCRIBE, .subscription = {.topic = text("zzz"), .capacity = 4}};
    int code = run(&w, &op);
    feed = op.subscription.handle;
    return code;
}

static int read_events(void)
{
    static bide_event events[4];
    waiting[2] = (bide_op){
        .kind = BIDE_OP_EVENTS,
        .subscription = {
            .handle = feed, .events = events, .event_max = 4, .timeout_ms = BIDE_FOREVER}};
    return run(&w, &waiting[2]);
}

static int restore(void)
{
    bide_job job = {.state = BIDE_STATE_BURIED,
                    .body = "body",
                    .body_size = 4,
                    .key = "restored",
                    .key_size = 8,
                    .max_retries = 2,
                    .ttr_ms = 1000,
                    .topic = "f"};
    bide_op op = {.kind = BIDE_OP_RESTORE, .restore = {.job = &job}};
    return run(&w, &op);
}

static int done_f(void)
{
    return done(&w, 4, 0, 60000);
}

static int cancel_b(void)
{
    return run_lease_op(&w, BIDE_OP_CANCEL, 3, 0);
}

static int delete_f(void)
{
    return run_lease_op(&w, BIDE_OP_DELETE, 4, 0);
}

static const struct {
    const char *name;
    int (*run)(void);
    int code;
} script[] = {
    {"put", put_plain, BIDE_OK},
    {"put with everything", put_rich, BIDE_OK},
    {"put that replaces", put_replacing, BIDE_OK},
    {"reserve", reserve_a, BIDE_OK},
    {"release", release_a, BIDE_OK},
    {"reserve_job", take_job_b, BIDE_OK},
    {"touch", touch_b, BIDE_OK},
    {"fail", fail_b, BIDE_OK},
    {"bury", bury_a, BIDE_OK},
    {"kick_job", kick_a, BIDE_OK},
    {"update", move_b, BIDE_OK},
    {"pause", pause_d, BIDE_OK},
    {"topic_ref", refer_e, BIDE_OK},
    {"wait", wait_for_a, BIDE_PENDING},
    {"reserve that waits", reserve_waiting, BIDE_PENDING},
    {"subscribe", subscribe, BIDE_OK},
    {"events", read_events, BIDE_PENDING},
    {"restore", restore, BIDE_OK},
    {"done", done_f, BIDE_OK},
    {"cancel", cancel_b, BIDE_OK},
    {"delete", delete_f, BIDE_OK},
};

/* Runs one op of the script, with the first allocation failing, then the second, until it needs no
 * more. Answers how many of them made it fail. */
static unsigned miss_every_point(size_t at)
{
    unsigned failures = 0;
    for (uint64_t point = 1;; point++) {
        assert_true(point < 1000);
        uint64_t before = core_state_hash(w.core);
        w.alloc.failed = 0;
        w.alloc.countdown = point;
        int code = script[at].run();
        w.alloc.countdown = 0;
        core_fixture_check(&w);
        if (code == script[at].code)
            return failures;
        if (code != BIDE_ENOMEM || w.alloc.failed == 0)
            fail_msg("%s answered %s", script[at].name, bide_code_name(code));
        if (core_state_hash(w.core) != before)
            fail_msg("%s changed something at allocation %u", script[at].name, (unsigned)point);
        failures++;
    }
}

static void run_script(bool journal)
{
    core_fixture_open(&w, journal);
    unsigned failures = 0;
    for (size_t i = 0; i < COUNT_OF(script); i++)
        failures += miss_every_point(i);
    assert_true(failures > 20);
    assert_int_equal(w.completed_count, 0);
    core_fixture_close(&w);
}

static void failed_allocation_in_an_op_changes_nothing(void **state)
{
    (void)state;
    run_script(false);
}

static void failed_allocation_in_an_op_leaves_the_journal_unchanged(void **state)
{
    (void)state;
    run_script(true);
}

static void sealing_without_memory_changes_nothing(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    put(&w, "a");
    uint64_t before = core_state_hash(w.core);
    uint64_t gathering = bi_journal_open_batch(w.core);
    struct bi_batch batch;
    w.alloc.failing = true;
    assert_int_equal(bi_journal_seal(w.core, w.now, &batch), BIDE_ENOMEM);
    w.alloc.failing = false;
    assert_int_equal(core_state_hash(w.core), before);
    assert_int_equal(bi_journal_open_batch(w.core), gathering);
    assert_true(bi_journal_is_dirty(w.core));
    batch = seal(&w);
    assert_int_equal(batch.count, 1);
    commit_sealed(&w, &batch);
    core_fixture_close(&w);
}

/* Undoing and committing need no memory at all. */
static void rollback_and_commit_need_no_memory(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    for (int i = 0; i < 100; i++)
        put_limited(&w, "a", 3);
    commit(&w);
    for (uint64_t id = 1; id <= 100; id++) {
        uint64_t token = reserve_expected(&w, "a", id);
        if (id % 2 == 0)
            assert_int_equal(bury(&w, id, token), BIDE_OK);
        else
            assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
    }
    struct bi_batch batch = seal(&w);
    w.alloc.failing = true;
    roll_back_sealed(&w, &batch);
    w.alloc.failing = false;
    assert_int_equal(stats_of(&w).jobs.ready, 100);
    for (uint64_t id = 1; id <= 100; id++)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    batch = seal(&w);
    w.alloc.failing = true;
    commit_sealed(&w, &batch);
    w.alloc.failing = false;
    core_fixture_close(&w);
}

/* Each end of a lease makes an entry in the journal; there is room for some of them. */
static void expiry_without_memory_is_retried(void **state)
{
    (void)state;
    enum { LEASES = 300 };
    core_fixture_open(&w, true);
    for (int i = 0; i < LEASES; i++)
        put(&w, "a");
    commit(&w);
    for (uint64_t id = 1; id <= LEASES; id++)
        reserve_expected(&w, "a", id);
    w.alloc.failing = true;
    advance_clocks(&w, 60 * SECOND);
    core_fixture_check(&w);
    assert_true(stats_of(&w).jobs.reserved > 0);
    assert_int_equal(stats_of(&w).jobs.reserved + stats_of(&w).jobs.ready, LEASES);
    w.alloc.failing = false;
    advance_clocks(&w, SECOND);
    assert_int_equal(stats_of(&w).jobs.ready, LEASES);
    assert_int_equal(stats_of(&w).total.timeouts, LEASES);
    core_fixture_close(&w);
}

static void unserved_call_is_served_at_the_next_op(void **state)
{
    (void)state;
    core_fixture_open(&w, false);
    bide_slice name = text("a");
    bide_job job;
    bide_op reserve = {.kind = BIDE_OP_RESERVE,
                       .reserve = {.topics = &name,
                                   .topic_count = 1,
                                   .timeout_ms = BIDE_FOREVER,
                                   .jobs = &job,
                                   .job_max = 1}};
    assert_int_equal(run(&w, &reserve), BIDE_PENDING);
    /* The put has what it needs; the lease, which comes after, has not. */
    uint64_t id = 0;
    for (uint64_t point = 1; id == 0; point++) {
        w.alloc.countdown = point;
        uint64_t made;
        if (try_put(&w, "a", NULL, &made) == BIDE_OK)
            id = made;
        assert_true(point < 100);
    }
    w.alloc.countdown = 0;
    core_fixture_check(&w);
    assert_int_equal(reserve.status, BIDE_PENDING);
    bide_op ping = {.kind = BIDE_OP_PING};
    assert_int_equal(run(&w, &ping), BIDE_OK);
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
    core_fixture_close(&w);
}

/* ---- the history of failures ---- */

static unsigned malloc_countdown; /* 0: off; else this call of malloc() and all later ones fail */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    if (malloc_countdown == 0)
        return __real_malloc(size);
    if (malloc_countdown == 1)
        return NULL;
    malloc_countdown--;
    return __real_malloc(size);
}

static size_t history_count(uint64_t id)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    bide_job job;
    assert_true(look(&w, id, &job));
    size_t count = bide_job_history(&job, failures, BIDE_HISTORY_MAX);
    bide_job_clear(&job);
    return count;
}

static void fail_without_memory_changes_nothing(void **state)
{
    (void)state;
    for (int journal = 0; journal < 2; journal++) {
        core_fixture_open(&w, journal != 0);
        uint64_t id = put_limited(&w, "a", 5);
        uint64_t token = reserve_expected(&w, "a", id);
        uint64_t hash = core_state_hash(w.core);
        unsigned failed = 0;
        for (;; failed++) {
            malloc_countdown = failed + 1;
            int code = fail_job(&w, id, token, 0);
            malloc_countdown = 0;
            if (code == BIDE_OK)
                break;
            assert_int_equal(code, BIDE_ENOMEM);
            assert_true(core_state_hash(w.core) == hash);
            assert_int_equal(history_count(id), 0);
        }
        assert_int_equal(failed, 2); /* the history, and the last error */
        assert_int_equal(history_count(id), 1);
        core_fixture_close(&w);
    }
}

/* A lease that expires waits for no memory that only its record needs. */
static void expired_lease_without_memory_for_the_history_leaves_it_as_it_was(void **state)
{
    (void)state;
    core_fixture_open(&w, false);
    uint64_t id = put(&w, "a");
    assert_int_equal(fail_job(&w, id, reserve_expected(&w, "a", id), 0), BIDE_OK);
    reserve_expected(&w, "a", id);
    malloc_countdown = 1;
    advance_clocks(&w, 3600 * SECOND);
    malloc_countdown = 0;
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_int_equal(history_count(id), 1);
    core_fixture_close(&w);
}

static void failed_commit_restores_the_history(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    uint64_t id = put(&w, "a");
    assert_int_equal(fail_job(&w, id, 0, 0), BIDE_OK);
    commit(&w);
    uint64_t memory = stats_of(&w).memory_bytes;
    assert_int_equal(fail_job(&w, id, 0, 0), BIDE_OK);
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    assert_int_equal(history_count(id), 3);
    fail_commit(&w);
    assert_int_equal(history_count(id), 1);
    assert_int_equal(stats_of(&w).memory_bytes, memory);
    core_fixture_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backlog_of_ready_jobs_leaves_no_memory_behind),
        cmocka_unit_test(a_backlog_deleted_in_another_order_leaves_no_memory_behind),
        cmocka_unit_test(a_backlog_of_delayed_keyed_jobs_leaves_no_memory_behind),
        cmocka_unit_test(a_backlog_that_was_stored_leaves_no_memory_behind),
        cmocka_unit_test(removed_topics_leave_no_memory_behind),
        cmocka_unit_test(memory_statistics_return_to_their_start),
        cmocka_unit_test(failed_core_creation_leaks_nothing),
        cmocka_unit_test(failed_allocation_in_an_op_changes_nothing),
        cmocka_unit_test(failed_allocation_in_an_op_leaves_the_journal_unchanged),
        cmocka_unit_test(sealing_without_memory_changes_nothing),
        cmocka_unit_test(rollback_and_commit_need_no_memory),
        cmocka_unit_test(expiry_without_memory_is_retried),
        cmocka_unit_test(unserved_call_is_served_at_the_next_op),
        cmocka_unit_test(fail_without_memory_changes_nothing),
        cmocka_unit_test(expired_lease_without_memory_for_the_history_leaves_it_as_it_was),
        cmocka_unit_test(failed_commit_restores_the_history),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
