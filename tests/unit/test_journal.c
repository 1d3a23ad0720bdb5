/* SPDX-License-Identifier: MIT */
/*
 * What a batch contains, and which answers hold for it.
 */
#include "core_fixture.h"

static int set_up(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    commit(&w); /* stores the limit of tokens, so that tokens are given freely from here on */
    return 0;
}

/* Runs an op and answers the batch that its answer holds for; 0 for none. */
static uint64_t hold_of(bide_op *op, int wanted)
{
    assert_int_equal(run(&w, op), wanted);
    uint64_t hold = op->private_.hold;
    return hold > bi_journal_committed_batch(w.core) ? hold : 0;
}

static bide_op lease_op(bide_op_kind kind, uint64_t id, uint64_t token)
{
    return (bide_op){.kind = kind, .lease = {.id = id, .token = token}};
}

static bide_op put_op(const char *topic)
{
    return (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = text(topic), .body = text("body")}};
}

static const struct bi_record *record_of(const struct bi_batch *batch, uint64_t id)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].image.id == id)
            return &batch->records[i];
    return NULL;
}

/* ---- holding ---- */

static void change_is_held_for_the_open_batch(void **state)
{
    (void)state;
    bide_op op = put_op("a");
    uint64_t gathering = bi_journal_open_batch(w.core);
    assert_int_equal(hold_of(&op, BIDE_OK), gathering);
    assert_true(bi_journal_is_dirty(w.core));
    commit(&w);
    assert_false(bi_journal_is_dirty(w.core));
    assert_int_equal(bi_journal_committed_batch(w.core), gathering);
    op = lease_op(BIDE_OP_DELETE, op.put.id, 0);
    assert_int_equal(hold_of(&op, BIDE_OK), gathering + 1);
}

static void op_that_sees_a_change_is_held_with_it(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    uint64_t gathering = bi_journal_open_batch(w.core);
    bide_job job;
    bide_op peek = {.kind = BIDE_OP_PEEK, .query = {.id = id, .job = &job}};
    assert_int_equal(hold_of(&peek, BIDE_OK), gathering);
    bide_job_clear(&job);
    bide_slice name = text("a");
    bide_op reserve = {.kind = BIDE_OP_RESERVE,
                       .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    assert_int_equal(hold_of(&reserve, BIDE_OK), gathering);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = job.token}};
    assert_int_equal(hold_of(&touch, BIDE_OK), gathering);
    bide_op delete_it = lease_op(BIDE_OP_DELETE, id, job.token);
    assert_int_equal(hold_of(&delete_it, BIDE_OK), gathering);
    bide_op again = lease_op(BIDE_OP_DELETE, id, job.token);
    assert_int_equal(hold_of(&again, BIDE_NOT_FOUND), gathering);
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = id, .timeout_ms = 0}};
    assert_int_equal(hold_of(&wait, BIDE_OK), gathering);
    assert_int_equal(wait.wait.state, BIDE_STATE_GONE);
    bide_job_clear(&job);
}

static void stored_state_holds_no_op(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    put(&w, "a"); /* another job's change is not theirs */
    bide_job job;
    bide_op peek = {.kind = BIDE_OP_PEEK, .query = {.id = id, .job = &job}};
    assert_int_equal(hold_of(&peek, BIDE_OK), 0);
    bide_job_clear(&job);
    bide_slice name = text("a");
    bide_op reserve = {.kind = BIDE_OP_RESERVE,
                       .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    assert_int_equal(hold_of(&reserve, BIDE_OK), 0);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = job.token}};
    assert_int_equal(hold_of(&touch, BIDE_OK), 0);
    bide_job_clear(&job);
    bide_op unknown = lease_op(BIDE_OP_DELETE, 999, 0);
    assert_int_equal(hold_of(&unknown, BIDE_NOT_FOUND), 0);
}

static void change_in_flight_is_held_for_its_batch(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    struct bi_batch batch = seal(&w);
    uint64_t flying = batch.number;
    bide_job job;
    bide_op peek = {.kind = BIDE_OP_PEEK, .query = {.id = id, .job = &job}};
    assert_int_equal(hold_of(&peek, BIDE_OK), flying);
    bide_job_clear(&job);
    bide_op bury_it = {.kind = BIDE_OP_BURY, .bury = {.id = id, .priority = BIDE_KEEP}};
    assert_int_equal(hold_of(&bury_it, BIDE_OK), flying + 1);
    assert_int_equal(hold_of(&peek, BIDE_OK), flying + 1);
    bide_job_clear(&job);
    commit_sealed(&w, &batch);
    assert_int_equal(hold_of(&peek, BIDE_OK), flying + 1);
    bide_job_clear(&job);
    commit(&w);
    assert_int_equal(hold_of(&peek, BIDE_OK), 0);
    bide_job_clear(&job);
}

static void key_conflict_is_held_with_the_holder_of_the_key(void **state)
{
    (void)state;
    put_keyed(&w, "a", "key");
    bide_put_options options = put_options();
    options.key = text("key");
    bide_op op = put_op("a");
    op.put.options = &options;
    assert_int_equal(hold_of(&op, BIDE_EXISTS), bi_journal_open_batch(w.core));
    commit(&w);
    assert_int_equal(hold_of(&op, BIDE_EXISTS), 0);
}

static void waiting_call_is_held_with_the_put_that_serves_it(void **state)
{
    (void)state;
    bide_slice name = text("a");
    bide_job job;
    bide_op reserve = {.kind = BIDE_OP_RESERVE,
                       .reserve = {.topics = &name,
                                   .topic_count = 1,
                                   .timeout_ms = BIDE_FOREVER,
                                   .jobs = &job,
                                   .job_max = 1}};
    assert_int_equal(run(&w, &reserve), BIDE_PENDING);
    put(&w, "a");
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(reserve.private_.hold, bi_journal_open_batch(w.core));
    bide_job_clear(&job);
}

static void first_token_is_held_for_the_batch_that_stores_its_limit(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_open(&w, true);
    assert_true(bi_journal_is_dirty(w.core));
    struct bi_image image = {.id = 1,
                             .state = BIDE_STATE_READY,
                             .ttr = SECOND,
                             .created = EPOCH,
                             .body_size = 1,
                             .max_retries = -1,
                             .topic = "a"};
    image.body = bide_buf_new("x", 1);
    assert_int_equal(bi_load_job(w.core, &image, w.now), BIDE_OK);
    bide_buf_unref(image.body);
    bide_slice name = text("a");
    bide_job job;
    bide_op reserve = {.kind = BIDE_OP_RESERVE,
                       .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    assert_int_equal(hold_of(&reserve, BIDE_OK), 1);
    struct bi_batch batch = seal(&w);
    assert_true(batch.next_token > job.token);
    commit_sealed(&w, &batch);
    bide_job_clear(&job);
}

/* ---- what is written ---- */

static void a_new_job_is_inserted_with_its_body_and_everything(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.priority = 7;
    options.delay_ms = 1500;
    options.ttr_ms = 2500;
    options.key = text("key");
    options.key_hold_retained = true;
    options.max_retries = 4;
    options.backoff_base_ms = 10;
    options.backoff_max_ms = 100;
    options.expires_at_ms = EPOCH / MS + 5000;
    options.retain_ms = 6000;
    uint64_t id = put_with(&w, "a", &options);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].kind, BI_INSERT);
    const struct bi_image *image = &batch.records[0].image;
    assert_int_equal(image->id, id);
    assert_int_equal(image->state, BIDE_STATE_DELAYED);
    assert_string_equal(image->topic, "a");
    assert_int_equal(image->priority, 7);
    assert_int_equal(image->due, EPOCH + 1500 * MS);
    assert_false(image->due_wall);
    assert_int_equal(image->ttr, 2500 * MS);
    assert_true(image->key_hold_retained);
    assert_int_equal(image->max_retries, 4);
    assert_int_equal(image->backoff_base, 10 * MS);
    assert_int_equal(image->backoff_max, 100 * MS);
    assert_int_equal(image->expires_at, EPOCH + 5000 * MS);
    assert_int_equal(image->retain, 6000 * MS);
    assert_int_equal(image->created, EPOCH);
    assert_memory_equal(bide_buf_data(image->key), "key", 3);
    assert_memory_equal(bide_buf_data(image->body), "a", 1);
    assert_int_equal(image->body_size, 1);
    assert_int_equal(batch.next_id, id + 1);
    commit_sealed(&w, &batch);
}

static void a_stored_job_is_updated_without_its_body_and_removed_by_its_id(void **state)
{
    (void)state;
    uint64_t changed = put(&w, "a");
    uint64_t removed = put(&w, "a");
    commit(&w);
    assert_int_equal(bury(&w, changed, 0), BIDE_OK);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, removed, 0), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 2);
    const struct bi_record *record = record_of(&batch, changed);
    assert_int_equal(record->kind, BI_UPDATE);
    assert_null(record->image.body);
    assert_int_equal(record->image.state, BIDE_STATE_BURIED);
    assert_int_equal(record->image.buries, 1);
    assert_memory_equal(bide_buf_data(record->image.last_error), "why", 3);
    assert_int_equal(record_of(&batch, removed)->kind, BI_REMOVE);
    commit_sealed(&w, &batch);
}

static void job_inserted_and_removed_in_one_batch_is_not_written(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 0);
    assert_int_equal(batch.next_id, id + 1); /* but its id is used up */
    commit_sealed(&w, &batch);
}

static void job_removed_during_its_insert_is_removed_by_the_next_batch(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    struct bi_batch first = seal(&w);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    commit_sealed(&w, &first);
    struct bi_batch second = seal(&w);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.records[0].kind, BI_REMOVE);
    assert_int_equal(second.records[0].image.id, id);
    commit_sealed(&w, &second);
}

static void a_job_changed_many_times_is_written_once_as_it_is_at_the_end(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bury(&w, id, 0), BIDE_OK);
        assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
    }
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].image.state, BIDE_STATE_READY);
    assert_int_equal(batch.records[0].image.kicks, 5);
    commit_sealed(&w, &batch);
}

static void neither_a_plain_reserve_nor_a_touch_nor_the_end_of_a_delay_is_written(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    put_delayed(&w, "b", 10);
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", id);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = token}};
    assert_int_equal(run(&w, &touch), BIDE_OK);
    advance_clocks(&w, 10 * MS);
    assert_int_equal(stats_of(&w).jobs.ready, 1);
    assert_int_equal(run_lease_op(&w, BIDE_OP_GIVE_BACK, id, token), BIDE_OK);
    assert_false(bi_journal_is_dirty(w.core));
}

static void a_reserve_with_a_retry_limit_is_written_as_started(void **state)
{
    (void)state;
    uint64_t id = put_limited(&w, "a", 2);
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", id);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_true(batch.records[0].image.started);
    assert_int_equal(batch.records[0].image.state, BIDE_STATE_READY);
    commit_sealed(&w, &batch);
    assert_int_equal(run_lease_op(&w, BIDE_OP_GIVE_BACK, id, token), BIDE_OK);
    batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_false(batch.records[0].image.started);
    commit_sealed(&w, &batch);
}

static void counted_timeout_is_written_later(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    commit(&w);
    reserve_expected(&w, "a", id);
    advance_clocks(&w, 60 * SECOND);
    assert_true(bi_journal_is_dirty(w.core));
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.records[0].image.timeouts, 1);
    commit_sealed(&w, &batch);
}

static void pause_is_written_as_a_wall_clock_time(void **state)
{
    (void)state;
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "a", 1000), BIDE_OK);
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "b", BIDE_FOREVER), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.records[0].kind, BI_TOPIC);
    assert_string_equal(batch.records[0].image.topic, "a");
    assert_int_equal(batch.records[0].image.due, EPOCH + SECOND);
    assert_int_equal(batch.records[1].image.due, BI_NEVER);
    commit_sealed(&w, &batch);
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "b", 0), BIDE_OK);
    batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_string_equal(batch.records[0].image.topic, "b");
    assert_int_equal(batch.records[0].image.due, 0);
    commit_sealed(&w, &batch);
}

static void a_moved_job_is_written_with_its_new_topic(void **state)
{
    (void)state;
    uint64_t id = put_keyed(&w, "a", "key");
    commit(&w);
    bide_op op = update_of(id);
    op.update.topic = text("b");
    assert_int_equal(run(&w, &op), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.records[0].kind, BI_UPDATE);
    assert_string_equal(batch.records[0].image.topic, "b");
    commit_sealed(&w, &batch);
    assert_int_equal(stats_of(&w).topics, 1);
}

static void a_replaced_job_and_its_successor_are_in_one_batch(void **state)
{
    (void)state;
    uint64_t old = put_keyed(&w, "a", "key");
    commit(&w);
    bide_put_options options = put_options();
    options.key = text("key");
    options.conflict = BIDE_REPLACE;
    uint64_t new_one = put_with(&w, "a", &options);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 2);
    assert_int_equal(record_of(&batch, old)->kind, BI_REMOVE);
    assert_int_equal(record_of(&batch, new_one)->kind, BI_INSERT);
    commit_sealed(&w, &batch);
}

static void without_a_journal_no_op_is_held(void **state)
{
    (void)state;
    core_fixture_close(&w);
    core_fixture_open(&w, false);
    bide_op op = put_op("a");
    assert_int_equal(hold_of(&op, BIDE_OK), 0);
    assert_false(bi_journal_is_dirty(w.core));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(change_is_held_for_the_open_batch),
        TEST(op_that_sees_a_change_is_held_with_it),
        TEST(stored_state_holds_no_op),
        TEST(change_in_flight_is_held_for_its_batch),
        TEST(key_conflict_is_held_with_the_holder_of_the_key),
        TEST(waiting_call_is_held_with_the_put_that_serves_it),
        TEST(first_token_is_held_for_the_batch_that_stores_its_limit),
        TEST(a_new_job_is_inserted_with_its_body_and_everything),
        TEST(a_stored_job_is_updated_without_its_body_and_removed_by_its_id),
        TEST(job_inserted_and_removed_in_one_batch_is_not_written),
        TEST(job_removed_during_its_insert_is_removed_by_the_next_batch),
        TEST(a_job_changed_many_times_is_written_once_as_it_is_at_the_end),
        TEST(neither_a_plain_reserve_nor_a_touch_nor_the_end_of_a_delay_is_written),
        TEST(a_reserve_with_a_retry_limit_is_written_as_started),
        TEST(counted_timeout_is_written_later),
        TEST(pause_is_written_as_a_wall_clock_time),
        TEST(a_moved_job_is_written_with_its_new_topic),
        TEST(a_replaced_job_and_its_successor_are_in_one_batch),
        TEST(without_a_journal_no_op_is_held),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
