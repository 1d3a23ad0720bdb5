/* SPDX-License-Identifier: MIT */
/*
 * When a batch cannot be stored, everything is as it was when the last one was.
 */
#include "core_fixture.h"

#include "util/hash.h"

/* ---- a picture: the visible state of all jobs ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    return bi_hash_bytes(hash * 31 + size, data, data == NULL ? 0 : size);
}

static uint64_t mix_job(uint64_t hash, bide_job *job)
{
    hash = mix(hash, job->key, job->key_size);
    hash = mix(hash, job->last_error, job->last_error_size);
    hash = mix(hash, job->result, job->result_size);
    hash = mix(hash, job->history, job->history_size);
    hash = mix(hash, job->progress, job->progress_size);
    hash = mix(hash, job->topic, strlen(job->topic));
    const int64_t values[] = {
        (int64_t)job->id,       job->state,         job->priority,    job->ttr_ms,
        job->left_ms,           job->age_ms,        job->run_at_ms,   job->run_at_wall,
        job->key_hold_retained, job->cancel_wanted, job->max_retries, job->failures,
        job->expires_at_ms,     job->retain_ms,     job->reserves,    job->timeouts,
        job->releases,          job->fails,         job->buries,      job->kicks,
        job->touches,           job->created_ms,    job->ready_ms,    job->reserved_ms,
        job->touched_ms,        job->buried_ms,     job->done_ms};
    return mix(hash, values, sizeof(values));
}

static uint64_t mix_first(uint64_t hash, const char *topic, bide_state state)
{
    bide_job job;
    bide_op op = {.kind = BIDE_OP_PEEK_FIRST,
                  .query = {.topic = text(topic), .state = state, .job = &job}};
    if (run(&w, &op) != BIDE_OK)
        return mix(hash, "none", 4);
    hash = mix(hash, &job.id, sizeof(job.id));
    bide_job_clear(&job);
    return hash;
}

static uint64_t mix_topic(uint64_t hash, const char *name)
{
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {text(name), &stats}};
    if (run(&w, &op) != BIDE_OK)
        return mix(hash, "none", 4);
    const uint64_t values[] = {stats.jobs.delayed,
                               stats.jobs.ready,
                               stats.jobs.reserved,
                               stats.jobs.buried,
                               stats.jobs.done,
                               stats.jobs.urgent,
                               stats.references,
                               stats.paused,
                               (uint64_t)stats.pause_left_ms,
                               (uint64_t)stats.oldest_ready_age_ms};
    return mix(hash, values, sizeof(values));
}

static uint64_t picture(void)
{
    static const char *const topics[] = {"a", "b", "c"};
    uint64_t hash = 1;
    for (uint64_t id = 1; id < 40; id++) {
        bide_job job;
        if (!look(&w, id, &job))
            continue;
        hash = mix_job(hash, &job);
        bide_job_clear(&job);
    }
    for (size_t i = 0; i < COUNT_OF(topics); i++) {
        hash = mix_topic(hash, topics[i]);
        for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
            hash = mix_first(hash, topics[i], (bide_state)state);
    }
    return hash;
}

/* What was done since the picture cannot be stored: all is as it was, and the next commit, which
 * stores nothing but the limit of tokens, works. */
static void expect_undone(uint64_t before)
{
    assert_int_not_equal(picture(), before);
    fail_commit(&w);
    assert_int_equal(picture(), before);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 0);
    commit_sealed(&w, &batch);
    assert_int_equal(picture(), before);
}

/* ---- one op each ---- */

static void a_put_is_undone_with_its_topic(void **state)
{
    (void)state;
    commit(&w);
    uint64_t before = picture();
    uint64_t id = put_keyed(&w, "a", "key");
    expect_undone(before);
    assert_int_equal(stats_of(&w).topics, 0);
    assert_true(put_keyed(&w, "a", "key") > id);
}

static void undone_delete_keeps_the_lease_valid(void **state)
{
    (void)state;
    uint64_t id = put_keyed(&w, "a", "key");
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", id);
    uint64_t before = picture();
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
    expect_undone(before);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token + 1), BIDE_LEASE_LOST);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
}

static void restored_lease_expires_at_its_time(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", id);
    advance_clocks(&w, 20 * SECOND);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, token), BIDE_OK);
    fail_commit(&w);
    advance_clocks(&w, 40 * SECOND - 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    advance_clocks(&w, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void release_fail_bury_and_done_are_undone(void **state)
{
    (void)state;
    uint64_t ids[4];
    uint64_t tokens[4];
    for (size_t i = 0; i < 4; i++)
        ids[i] = put_keyed(&w, "a", (const char *[]){"k0", "k1", "k2", "k3"}[i]);
    for (size_t i = 0; i < 4; i++)
        tokens[i] = reserve_expected(&w, "a", ids[i]);
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(release(&w, ids[0], tokens[0], 1000), BIDE_OK);
    assert_int_equal(fail_job(&w, ids[1], tokens[1], BIDE_KEEP), BIDE_OK);
    assert_int_equal(bury(&w, ids[2], tokens[2]), BIDE_OK);
    assert_int_equal(done(&w, ids[3], tokens[3], 60000), BIDE_OK);
    put_keyed(&w, "a", "k3"); /* the result does not hold its key */
    expect_undone(before);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, ids[i], tokens[i]), BIDE_OK);
}

static void burials_keep_their_order(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 6; id++)
        put(&w, "a");
    /* Not in the order of their ids. */
    static const uint64_t order[] = {4, 2, 6, 1, 5, 3};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(bury(&w, order[i], 0), BIDE_OK);
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(kick(&w, "a", 2), 2);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, 1, 0), BIDE_OK);
    assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, 3, 0), BIDE_OK);
    assert_int_equal(bury(&w, 4, 0), BIDE_OK);
    expect_undone(before);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(kick(&w, "a", 1), 1);
        assert_int_equal(state_of(&w, order[i]), BIDE_STATE_READY);
    }
}

static void a_kick_of_delayed_jobs_is_undone(void **state)
{
    (void)state;
    uint64_t soon = put_delayed(&w, "a", 1000);
    put_delayed(&w, "a", 2000);
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(kick(&w, "a", 5), 2);
    expect_undone(before);
    advance_clocks(&w, SECOND);
    assert_int_equal(state_of(&w, soon), BIDE_STATE_READY);
}

static void an_update_that_moves_a_job_is_undone_with_its_key(void **state)
{
    (void)state;
    uint64_t id = put_keyed(&w, "a", "key");
    put(&w, "a");
    commit(&w);
    uint64_t before = picture();
    bide_op op = update_of(id);
    op.update.topic = text("b");
    op.update.priority = 1;
    op.update.ttr_ms = 5000;
    op.update.delay_ms = 60000;
    assert_int_equal(run(&w, &op), BIDE_OK);
    put_keyed(&w, "a", "key"); /* the key moved along, so it is free here */
    expect_undone(before);
    bide_put_options options = put_options();
    uint64_t holder;
    options.key = text("key");
    assert_int_equal(try_put(&w, "a", &options, &holder), BIDE_EXISTS);
    assert_int_equal(holder, id);
    assert_int_equal(stats_of(&w).topics, 1);
}

static void an_update_of_the_due_time_is_undone_on_either_clock(void **state)
{
    (void)state;
    uint64_t relative = put_delayed(&w, "a", 1000);
    bide_put_options options = put_options();
    options.run_at_ms = EPOCH / MS + 1000;
    uint64_t absolute = put_with(&w, "a", &options);
    commit(&w);
    uint64_t before = picture();
    bide_op op = update_of(relative);
    op.update.run_at_ms = EPOCH / MS + 5000;
    assert_int_equal(run(&w, &op), BIDE_OK);
    op = update_of(absolute);
    op.update.delay_ms = 0;
    assert_int_equal(run(&w, &op), BIDE_OK);
    expect_undone(before);
    step_wall_clock(&w, SECOND);
    assert_int_equal(state_of(&w, relative), BIDE_STATE_DELAYED);
    assert_int_equal(state_of(&w, absolute), BIDE_STATE_READY);
}

static void a_pause_and_a_resume_are_undone(void **state)
{
    (void)state;
    put(&w, "a");
    put(&w, "b");
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "b", 10000), BIDE_OK);
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", BIDE_FOREVER), BIDE_OK);
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "c", 5000), BIDE_OK);
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "b", 0), BIDE_OK);
    expect_undone(before);
    assert_nothing_ready(&w, "b");
    advance_clocks(&w, 10 * SECOND);
    reserve_expected(&w, "b", 2);
}

static void a_put_that_replaces_is_undone_and_the_old_job_holds_its_key(void **state)
{
    (void)state;
    uint64_t old = put_keyed(&w, "a", "key");
    commit(&w);
    uint64_t before = picture();
    bide_put_options options = put_options();
    options.key = text("key");
    options.conflict = BIDE_REPLACE;
    uint64_t second = put_with(&w, "a", &options);
    uint64_t third = put_with(&w, "a", &options);
    assert_int_equal(state_of(&w, second), BIDE_STATE_GONE);
    assert_int_equal(state_of(&w, old), BIDE_STATE_GONE);
    expect_undone(before);
    assert_int_equal(state_of(&w, third), BIDE_STATE_GONE);
    bide_job job;
    bide_op find = {.kind = BIDE_OP_FIND,
                    .query = {.topic = text("a"), .key = text("key"), .job = &job}};
    assert_int_equal(run(&w, &find), BIDE_OK);
    assert_int_equal(job.id, old);
    bide_job_clear(&job);
}

/* Ends the job with two puts: one into a new topic, and one that replaces the holder of a key. */
static int end_and_put(uint64_t id, uint64_t token, bide_ending ending, bool keep)
{
    bide_put_options keyed = put_options();
    keyed.key = text("key");
    keyed.conflict = BIDE_REPLACE;
    bide_put_item items[] = {
        {.topic = text("c"), .body = text("x")},
        {.topic = text("b"), .body = text("x"), .options = &keyed},
    };
    bide_op op = {.kind = BIDE_OP_FINISH_AND_PUT};
    op.finish_and_put =
        (bide_finish_and_put_args){.finish = {.id = id, .token = token},
                                   .ending = ending,
                                   .priority = 3,
                                   .delay_ms = ending == BIDE_ENDING_RELEASE ? 9 : 0,
                                   .items = items,
                                   .count = COUNT_OF(items)};
    op.finish_and_put.finish.keep = keep;
    op.finish_and_put.finish.retain_ms = keep ? 1000 : 0;
    return run(&w, &op);
}

static void a_step_is_undone_as_a_whole(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    uint64_t holder = put_keyed(&w, "b", "key");
    uint64_t token = reserve_expected(&w, "a", id);
    commit(&w);
    uint64_t before = picture();
    for (int i = 0; i < 4; i++) {
        bide_ending ending = i < 2 ? BIDE_ENDING_FINISH : (bide_ending)(i - 1);
        assert_int_equal(end_and_put(id, token, ending, i == 1), BIDE_OK);
        expect_undone(before);
        assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
        assert_int_equal(state_of(&w, holder), BIDE_STATE_READY);
    }
    assert_int_equal(end_and_put(id, token, BIDE_ENDING_FINISH, false), BIDE_OK);
    commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
    assert_int_equal(state_of(&w, holder), BIDE_STATE_GONE);
}

static void a_cancel_mark_and_a_restore_are_undone(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", id);
    uint64_t before = picture();
    assert_int_equal(run_lease_op(&w, BIDE_OP_CANCEL, id, 0), BIDE_OK);
    bide_job job = {.state = BIDE_STATE_BURIED, .ttr_ms = 1000, .max_retries = -1, .topic = "b"};
    bide_op op = {.kind = BIDE_OP_RESTORE, .restore = {.job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    expect_undone(before);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = token}};
    assert_int_equal(run(&w, &touch), BIDE_OK);
}

static void results_keep_their_order_and_retention(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        put(&w, "a");
        assert_int_equal(done(&w, id, 0, 10000), BIDE_OK);
        advance_clocks(&w, SECOND);
    }
    commit(&w);
    uint64_t before = picture();
    for (uint64_t id = 3; id >= 1; id--)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    expect_undone(before);
    for (uint64_t id = 1; id <= 3; id++) {
        bide_job job;
        bide_op op = {.kind = BIDE_OP_PEEK_FIRST,
                      .query = {.topic = text("a"), .state = BIDE_STATE_DONE, .job = &job}};
        assert_int_equal(run(&w, &op), BIDE_OK);
        assert_int_equal(job.id, id);
        assert_memory_equal(job.result, "result", 6);
        advance_clocks(&w, job.left_ms * MS);
        bide_job_clear(&job);
        assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
    }
}

/* ---- what time did meanwhile ---- */

static void an_expiry_that_was_not_stored_happens_again(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.expires_at_ms = EPOCH / MS + 1000;
    uint64_t id = put_with(&w, "a", &options);
    commit(&w);
    advance_clocks(&w, SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
    fail_commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    tick(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_GONE);
}

static void delay_ended_before_the_rollback_ends_again(void **state)
{
    (void)state;
    uint64_t id = put_delayed(&w, "a", 1000);
    commit(&w);
    bide_op op = update_of(id);
    op.update.priority = 3;
    assert_int_equal(run(&w, &op), BIDE_OK);
    advance_clocks(&w, SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    fail_commit(&w);
    tick(&w);
    bide_job job;
    assert_true(look(&w, id, &job));
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.priority, BIDE_DEFAULT_PRIORITY);
    bide_job_clear(&job);
}

static void a_timeout_that_was_not_stored_is_counted_once(void **state)
{
    (void)state;
    uint64_t id = put_limited(&w, "a", 5);
    commit(&w);
    reserve_expected(&w, "a", id);
    commit(&w);
    advance_clocks(&w, 60 * SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_DELAYED);
    fail_commit(&w);
    assert_int_equal(state_of(&w, id), BIDE_STATE_RESERVED);
    tick(&w);
    bide_job job;
    assert_true(look(&w, id, &job));
    assert_int_equal(job.state, BIDE_STATE_DELAYED);
    assert_int_equal(job.failures, 1);
    assert_int_equal(job.timeouts, 1);
    bide_job_clear(&job);
}

static void written_reserve_is_undone_and_unwritten_is_kept(void **state)
{
    (void)state;
    uint64_t limited = put_limited(&w, "a", 3);
    uint64_t plain = put(&w, "a");
    commit(&w);
    uint64_t lost = reserve_expected(&w, "a", limited);
    uint64_t token = reserve_expected(&w, "a", plain);
    fail_commit(&w);
    assert_int_equal(state_of(&w, limited), BIDE_STATE_READY);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, limited, lost), BIDE_LEASE_LOST);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, plain, token), BIDE_OK);
    assert_true(reserve_expected(&w, "a", limited) > token);
}

/* ---- two batches ---- */

static void both_batches_are_undone_when_the_first_cannot_be_stored(void **state)
{
    (void)state;
    uint64_t id = put_keyed(&w, "a", "key");
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    uint64_t flying = put(&w, "b");
    struct bi_batch batch = seal(&w);
    assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(bury(&w, flying, 0), BIDE_OK);
    put_keyed(&w, "a", "key");
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 1000), BIDE_OK);
    roll_back_sealed(&w, &batch);
    assert_int_equal(picture(), before);
}

static int64_t pause_of(const char *topic)
{
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {text(topic), &stats}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    return stats.pause_ms;
}

static void restored_pause_has_its_original_length(void **state)
{
    (void)state;
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 10000), BIDE_OK);
    commit(&w);
    advance_clocks(&w, 3 * SECOND);
    assert_int_equal(pause_of("a"), 10000);
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 60000), BIDE_OK);
    assert_int_equal(pause_of("a"), 60000);
    fail_commit(&w);
    assert_int_equal(pause_of("a"), 10000);
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "a", 0), BIDE_OK);
    fail_commit(&w);
    assert_int_equal(pause_of("a"), 10000);
}

static void a_pause_changed_in_both_batches_is_as_it_was_stored(void **state)
{
    (void)state;
    put(&w, "a");
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 5000), BIDE_OK);
    commit(&w);
    uint64_t before = picture();
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "a", 0), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", BIDE_FOREVER), BIDE_OK);
    roll_back_sealed(&w, &batch);
    assert_int_equal(picture(), before);
}

static void the_second_batch_alone_is_undone_when_the_first_was_stored(void **state)
{
    (void)state;
    uint64_t id = put_keyed(&w, "a", "key");
    struct bi_batch first = seal(&w);
    uint64_t before = picture();
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    commit_sealed(&w, &first);
    struct bi_batch second = seal(&w);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    roll_back_sealed(&w, &second);
    assert_int_equal(picture(), before);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
}

static void change_after_a_commit_is_undone_to_that_commit(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    for (uint32_t priority = 1; priority < 5; priority++) {
        bide_op op = update_of(id);
        op.update.priority = priority;
        assert_int_equal(run(&w, &op), BIDE_OK);
        commit(&w);
        uint64_t before = picture();
        op.update.priority = 100;
        assert_int_equal(run(&w, &op), BIDE_OK);
        expect_undone(before);
    }
}

/* So many, and so mixed, that the places in the list are not looked for one by one. */
static void jobs_removed_in_any_order_are_restored_in_order(void **state)
{
    (void)state;
    enum { MANY = 6000 };
    for (int i = 0; i < MANY; i++) {
        put(&w, "a");
        advance_clocks(&w, 10);
    }
    commit(&w);
    for (uint64_t i = 0; i < MANY; i += 2) /* every other one; 7919 is prime */
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, i * 7919 % MANY + 1, 0), BIDE_OK);
    fail_commit(&w); /* which checks the order of every list */
    assert_int_equal(stats_of(&w).jobs.ready, MANY);
    assert_int_equal(stats_of(&w).oldest_ready_age_ms, MANY * 10 / 1000);
    for (uint64_t id = 1; id <= MANY; id++)
        reserve_expected(&w, "a", id);
}

static void change_after_a_rollback_is_stored_by_the_next_commit(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    uint64_t lost = put(&w, "b");
    fail_commit(&w);
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    uint64_t kept = put(&w, "b");
    assert_true(kept > lost);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.records[0].kind, BI_UPDATE);
    assert_int_equal(batch.records[0].image.id, id);
    assert_int_equal(batch.records[1].kind, BI_INSERT);
    assert_int_equal(batch.records[1].image.id, kept);
    assert_true(batch.next_id > kept);
    commit_sealed(&w, &batch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_journal, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_put_is_undone_with_its_topic),
        TEST(undone_delete_keeps_the_lease_valid),
        TEST(restored_lease_expires_at_its_time),
        TEST(release_fail_bury_and_done_are_undone),
        TEST(burials_keep_their_order),
        TEST(a_kick_of_delayed_jobs_is_undone),
        TEST(an_update_that_moves_a_job_is_undone_with_its_key),
        TEST(an_update_of_the_due_time_is_undone_on_either_clock),
        TEST(a_pause_and_a_resume_are_undone),
        TEST(a_put_that_replaces_is_undone_and_the_old_job_holds_its_key),
        TEST(a_step_is_undone_as_a_whole),
        TEST(a_cancel_mark_and_a_restore_are_undone),
        TEST(results_keep_their_order_and_retention),
        TEST(an_expiry_that_was_not_stored_happens_again),
        TEST(delay_ended_before_the_rollback_ends_again),
        TEST(a_timeout_that_was_not_stored_is_counted_once),
        TEST(written_reserve_is_undone_and_unwritten_is_kept),
        TEST(both_batches_are_undone_when_the_first_cannot_be_stored),
        TEST(restored_pause_has_its_original_length),
        TEST(a_pause_changed_in_both_batches_is_as_it_was_stored),
        TEST(the_second_batch_alone_is_undone_when_the_first_was_stored),
        TEST(change_after_a_commit_is_undone_to_that_commit),
        TEST(jobs_removed_in_any_order_are_restored_in_order),
        TEST(change_after_a_rollback_is_stored_by_the_next_commit),
    };
    return cmocka_run_group_tests_name("rollback", tests, NULL, NULL);
}
