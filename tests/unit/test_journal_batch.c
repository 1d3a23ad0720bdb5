/* SPDX-License-Identifier: MIT */
/*
 * Several batches that wait to be stored: what each of them contains.
 */
#include "journal_fixture.h"

/* ---- how large ---- */

static void batch_changes_are_bounded(void **state)
{
    (void)state;
    uint64_t ids[5];
    uint64_t gathering = bi_journal_open_batch(w.core);
    for (size_t i = 0; i < 5; i++) {
        ids[i] = put(&w, "a");
        assert_int_equal(hold_of(ids[i]), gathering + i / 2);
    }
    assert_int_equal(bi_journal_backlog(w.core), 5);
    for (size_t i = 0; i < 3; i++) {
        struct bi_batch batch = seal(&w);
        assert_int_equal(batch.number, gathering + i);
        assert_int_equal(batch.count, i < 2 ? 2 : 1);
        assert_int_equal(batch.records[0].image.id, ids[2 * i]);
        assert_true(batch.next_id > ids[4]);
        commit_sealed(&w, &batch);
        for (size_t j = 0; j < 5; j++)
            assert_int_equal(hold_of(ids[j]), j / 2 <= i ? 0 : gathering + j / 2);
    }
    assert_false(bi_journal_is_dirty(w.core));
}

static void batch_bytes_are_bounded(void **state)
{
    (void)state;
    reopen_with(0, 1000);
    static const size_t sizes[] = {400, 600, 1, 999, 500, 501, 0, 0, 499};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        put_size(sizes[i]);
    commit_count(2);
    commit_count(2);
    commit_count(1);
    commit_count(4);
    assert_false(bi_journal_is_dirty(w.core));
}

static void a_body_larger_than_a_batch_is_alone_in_one(void **state)
{
    (void)state;
    reopen_with(0, 1000);
    put_size(100);
    uint64_t large = put_size(5000);
    put_size(100);
    commit_count(1);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].image.id, large);
    commit_sealed(&w, &batch);
    commit_count(1);
    put_size(5000); /* the first of a batch */
    put_size(5000);
    commit_count(1);
    commit_count(1);
    assert_false(bi_journal_is_dirty(w.core));
}

static void changes_without_bodies_have_no_bytes(void **state)
{
    (void)state;
    reopen_with(0, 1000);
    uint64_t ids[5];
    for (size_t i = 0; i < 5; i++) {
        ids[i] = put_size(900);
        commit(&w);
    }
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(bury(&w, ids[i], 0), BIDE_OK);
    commit_count(5);
}

static void a_job_changed_often_counts_once_in_a_batch(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    for (int i = 1; i < 10; i++)
        assert_int_equal(set_priority(id, i), BIDE_OK);
    put(&w, "a");
    commit_count(2);
    assert_false(bi_journal_is_dirty(w.core));
}

static void insert_and_remove_in_one_batch_leave_it_empty(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    commit_count(0);
    assert_int_equal(hold_of(id), 0);
}

static void timed_changes_are_batched(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        put_limited(&w, "a", 9);
    commit_all();
    for (int i = 0; i < 5; i++) {
        uint64_t id, token;
        assert_int_equal(try_reserve(&w, "a", &id, &token), BIDE_OK);
    }
    commit_all();
    advance_clocks(&w, 60 * SECOND);
    commit_count(2);
    commit_count(2);
    commit_count(1);
}

static void a_finish_and_the_jobs_that_it_reserves_have_room_in_their_batch(void **state)
{
    (void)state;
    enum { MAX = 6, TAKEN = 4 };
    reopen_with(MAX, 0);
    for (int i = 0; i < TAKEN; i++)
        put_limited(&w, "a", 9);
    uint64_t done = put(&w, "b");
    commit_all();
    put(&w, "c");
    put(&w, "c");

    bide_job jobs[TAKEN];
    const bide_slice topic = text("a");
    bide_op op = {
        .kind = BIDE_OP_FINISH_AND_RESERVE,
        .finish_and_reserve = {
            .finish = {.id = done},
            .reserve = {.topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = TAKEN}}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(op.finish_and_reserve.finish.status, BIDE_OK);
    assert_int_equal(op.finish_and_reserve.reserve.count, TAKEN);
    for (int i = 0; i < TAKEN; i++)
        bide_job_clear(&jobs[i]);

    commit_count(2);
    commit_count(1 + TAKEN);
    assert_false(bi_journal_is_dirty(w.core));
}

static void put_many_is_one_batch_and_purge_may_be_several(void **state)
{
    (void)state;
    bide_put_item items[5];
    memset(items, 0, sizeof(items));
    for (size_t i = 0; i < 5; i++)
        items[i].topic = text("a");
    bide_op op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 5}};
    put(&w, "a");
    uint64_t gathering = bi_journal_open_batch(w.core);
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(op.private_.hold, gathering + 1); /* all of them, in a batch of their own */
    commit_count(1);
    commit_count(5);
    bide_op purge = {.kind = BIDE_OP_PURGE,
                     .purge = {.topic = text("a"), .state = BIDE_STATE_READY}};
    gathering = bi_journal_open_batch(w.core);
    /* Six jobs, two at a time; of three parts, no more than two wait to be stored. */
    assert_int_equal(run(&w, &purge), BI_AGAIN);
    assert_int_equal(purge.private_.hold, gathering + 1);
    assert_int_equal(purge.purge.count, 4);
    commit_count(2);
    assert_int_equal(resume_op(&w, &purge), BIDE_OK);
    assert_int_equal(purge.private_.hold, gathering + 2);
    assert_int_equal(purge.purge.count, 6);
    bi_slice_roll_back_count(w.core, &purge); /* as if a commit failed now */
    assert_int_equal(purge.purge.count, 2);
}

/* ---- images ---- */

static void each_batch_has_the_job_as_it_was_at_its_end(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    assert_int_equal(set_priority(id, 5), BIDE_OK);
    next_batch();
    bide_op bury_it = {.kind = BIDE_OP_BURY,
                       .bury = {.id = id, .priority = 6, .reason = text("first")}};
    assert_int_equal(run(&w, &bury_it), BIDE_OK);
    next_batch();
    assert_int_equal(run_lease_op(&w, BIDE_OP_KICK_JOB, id, 0), BIDE_OK);
    bide_op update = update_of(id);
    update.update.priority = 7;
    update.update.topic = text("moved");
    assert_int_equal(run(&w, &update), BIDE_OK);
    next_batch();
    assert_int_equal(bury(&w, id, 0), BIDE_OK);
    assert_int_equal(hold_of(id), bi_journal_open_batch(w.core));

    static const struct {
        enum bi_record_kind kind;
        bide_state state;
        uint32_t priority;
        const char *topic, *error;
    } wanted[] = {
        {BI_INSERT, BIDE_STATE_READY, 5, "a", NULL},
        {BI_UPDATE, BIDE_STATE_BURIED, 6, "a", "first"},
        {BI_UPDATE, BIDE_STATE_READY, 7, "moved", "first"},
        {BI_UPDATE, BIDE_STATE_BURIED, 7, "moved", "why"},
    };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        struct bi_batch batch = seal(&w);
        const struct bi_record *record = record_of(&batch, id);
        assert_non_null(record);
        assert_int_equal(record->kind, wanted[i].kind);
        assert_int_equal(record->image.state, wanted[i].state);
        assert_int_equal(record->image.priority, wanted[i].priority);
        assert_string_equal(record->image.topic, wanted[i].topic);
        assert_int_equal(record->image.body != NULL, i == 0);
        if (wanted[i].error != NULL)
            assert_string_equal(bide_buf_data(record->image.last_error), wanted[i].error);
        else
            assert_null(record->image.last_error);
        commit_sealed(&w, &batch);
    }
    assert_false(bi_journal_is_dirty(w.core));
    assert_int_equal(priority_of(id), 7);
}

static void a_job_removed_in_a_later_batch_is_inserted_first(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    next_batch();
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    struct bi_batch batch = seal(&w);
    assert_int_equal(record_of(&batch, id)->kind, BI_INSERT);
    assert_int_equal(record_of(&batch, id)->image.state, BIDE_STATE_READY);
    assert_int_equal(bide_buf_size(record_of(&batch, id)->image.body), 1);
    commit_sealed(&w, &batch);
    assert_true(bi_verify_is_stored(w.core, id));
    batch = seal(&w);
    assert_int_equal(record_of(&batch, id)->kind, BI_REMOVE);
    assert_int_equal(record_of(&batch, id)->image.body_size, 1);
    commit_sealed(&w, &batch);
    assert_false(bi_verify_is_stored(w.core, id));
}

static void each_batch_has_the_pause_as_it_was_at_its_end(void **state)
{
    (void)state;
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "p", 1000), BIDE_OK);
    next_batch();
    assert_int_equal(run_topic_op(&w, BIDE_OP_RESUME, "p", 0), BIDE_OK);
    next_batch();
    assert_int_equal(run_topic_op(&w, BIDE_OP_PAUSE, "p", 5000), BIDE_OK);
    static const int64_t wanted[] = {EPOCH + SECOND, 0, EPOCH + 5 * SECOND};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        struct bi_batch batch = seal(&w);
        const struct bi_record *record = record_of(&batch, 0);
        assert_non_null(record);
        assert_int_equal(record->kind, BI_TOPIC);
        assert_string_equal(record->image.topic, "p");
        assert_int_equal(record->image.due, wanted[i]);
        commit_sealed(&w, &batch);
    }
}

/* ---- one step is one batch ---- */

static void replaced_job_and_successor_are_in_one_batch_always(void **state)
{
    (void)state;
    for (uint32_t jobs = 1; jobs <= 3; jobs++) {
        for (uint32_t before = 0; before < 4; before++) {
            reopen_with(jobs, 0);
            uint64_t old = put_keyed(&w, "a", "key");
            commit_all();
            for (uint32_t i = 0; i < before; i++)
                put(&w, "b");
            uint64_t new = replace("key");
            assert_int_equal(hold_of(old), hold_of(new));
            bool found = false;
            while (bi_journal_is_dirty(w.core)) {
                struct bi_batch batch = seal(&w);
                const struct bi_record *inserted = record_of(&batch, new);
                const struct bi_record *removed = record_of(&batch, old);
                assert_int_equal(inserted != NULL, removed != NULL);
                if (inserted != NULL) {
                    assert_int_equal(inserted->kind, BI_INSERT);
                    assert_int_equal(removed->kind, BI_REMOVE);
                    found = true;
                }
                commit_sealed(&w, &batch);
            }
            assert_true(found);
        }
    }
}

static void repeatedly_replaced_job_is_stored_once(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++)
        last = replace("key");
    int64_t stored_jobs = 0;
    while (bi_journal_is_dirty(w.core)) {
        struct bi_batch batch = seal(&w);
        for (size_t i = 0; i < batch.count; i++) {
            stored_jobs += batch.records[i].kind == BI_INSERT;
            stored_jobs -= batch.records[i].kind == BI_REMOVE;
        }
        assert_int_equal(stored_jobs, 1);
        commit_sealed(&w, &batch);
    }
    assert_true(bi_verify_is_stored(w.core, last));
}

/* ---- events ---- */

static void events_are_released_by_batch(void **state)
{
    (void)state;
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    assert_int_equal(run(&w, &subscribe), BIDE_OK);
    for (int i = 0; i < 5; i++)
        put(&w, "a");
    bide_event events[8];
    bide_op read = {.kind = BIDE_OP_EVENTS,
                    .subscription = {
                        .handle = subscribe.subscription.handle, .events = events, .event_max = 8}};
    assert_int_equal(run(&w, &read), BIDE_TIMED_OUT);
    for (size_t i = 0; i < 3; i++) {
        commit(&w);
        assert_int_equal(run(&w, &read), BIDE_OK);
        assert_int_equal(read.subscription.count, i < 2 ? 2 : 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_small_batches, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batch_changes_are_bounded),
        TEST(batch_bytes_are_bounded),
        TEST(a_body_larger_than_a_batch_is_alone_in_one),
        TEST(changes_without_bodies_have_no_bytes),
        TEST(a_job_changed_often_counts_once_in_a_batch),
        TEST(insert_and_remove_in_one_batch_leave_it_empty),
        TEST(timed_changes_are_batched),
        TEST(a_finish_and_the_jobs_that_it_reserves_have_room_in_their_batch),
        TEST(put_many_is_one_batch_and_purge_may_be_several),
        TEST(each_batch_has_the_job_as_it_was_at_its_end),
        TEST(a_job_removed_in_a_later_batch_is_inserted_first),
        TEST(each_batch_has_the_pause_as_it_was_at_its_end),
        TEST(replaced_job_and_successor_are_in_one_batch_always),
        TEST(repeatedly_replaced_job_is_stored_once),
        TEST(events_are_released_by_batch),
    };
    return cmocka_run_group_tests_name("batches", tests, NULL, NULL);
}
