/* SPDX-License-Identifier: MIT */
/*
 * Does the core notice when a store holds something else than it was given?
 */
#include "core_fixture.h"

/* Texts of images, until the end of the test. */
static bide_buf *kept[64];
static size_t kept_count;

static bide_buf *keep(bide_buf *buf)
{
    assert_true(kept_count < COUNT_OF(kept));
    kept[kept_count++] = buf;
    return buf;
}

static int tear_down(void **state)
{
    (void)state;
    while (kept_count > 0)
        bide_buf_unref(kept[--kept_count]);
    core_fixture_close(&w);
    return 0;
}

/* The image of a job as the next batch stores it. */
static struct bi_image store(uint64_t id)
{
    struct bi_batch batch = seal(&w);
    struct bi_image image = {.id = 0};
    for (size_t i = 0; i < batch.count; i++)
        if (batch.records[i].image.id == id)
            image = batch.records[i].image;
    assert_int_equal(image.id, id);
    image.body = NULL;
    keep(bide_buf_ref(image.key));
    keep(bide_buf_ref(image.last_error));
    keep(bide_buf_ref(image.result));
    commit_sealed(&w, &batch);
    return image;
}

static void assert_same(const struct bi_image *image)
{
    assert_null(bi_verify_job(w.core, image));
}

static void assert_differs(const struct bi_image *image, const char *how)
{
    const char *difference = bi_verify_job(w.core, image);
    assert_non_null(difference);
    assert_non_null(strstr(difference, how));
}

/* ---- the job itself ---- */

static void stored_job_is_equal_in_every_state(void **state)
{
    (void)state;
    uint64_t ready = put(&w, "a");
    struct bi_image image = store(ready);
    assert_same(&image);
    uint64_t delayed = put_delayed(&w, "a", 1000);
    image = store(delayed);
    assert_same(&image);
    assert_int_equal(bury(&w, ready, 0), BIDE_OK);
    image = store(ready);
    assert_same(&image);
    uint64_t limited = put_limited(&w, "b", 3);
    reserve_expected(&w, "b", limited);
    image = store(limited);
    assert_same(&image);
    uint64_t finished = put(&w, "c");
    assert_int_equal(done(&w, finished, reserve_expected(&w, "c", finished), 100000), BIDE_OK);
    image = store(finished);
    assert_int_equal(image.state, BIDE_STATE_DONE);
    assert_same(&image);
}

static void unwritten_change_is_not_a_difference(void **state)
{
    (void)state;
    uint64_t id = put_delayed(&w, "a", 1000);
    struct bi_image image = store(id);
    advance_clocks(&w, SECOND);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    assert_same(&image);
    uint64_t token = reserve_expected(&w, "a", id);
    assert_same(&image);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = id, .token = token}};
    assert_int_equal(run(&w, &touch), BIDE_OK);
    assert_same(&image);
    advance_clocks(&w, 60 * SECOND); /* the lease runs out, which is not written without a limit */
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    step_wall_clock(&w, 1000 * SECOND);
    assert_same(&image);
}

static void every_difference_is_reported(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    struct bi_image image = store(id);
    struct bi_image other = image;
    other.id = 999;
    assert_differs(&other, "does not have it");
    other = image;
    strcpy(other.topic, "b");
    assert_differs(&other, "topic");
    strcpy(other.topic, "aa");
    assert_differs(&other, "topic");
    other = image;
    other.priority++;
    assert_differs(&other, "priority");
    other = image;
    other.ttr++;
    assert_differs(&other, "ttr");
    other = image;
    other.body_size++;
    assert_differs(&other, "size");
    assert_same(&image);
}

static void state_differs_unless_it_is_reached_without_a_write(void **state)
{
    (void)state;
    uint64_t ids[6] = {0};
    ids[BIDE_STATE_DELAYED] = put_delayed(&w, "a", 100000);
    ids[BIDE_STATE_RESERVED] = put(&w, "a");
    reserve_expected(&w, "a", ids[BIDE_STATE_RESERVED]);
    ids[BIDE_STATE_BURIED] = put(&w, "a");
    assert_int_equal(bury(&w, ids[BIDE_STATE_BURIED], 0), BIDE_OK);
    ids[BIDE_STATE_DONE] = put(&w, "a");
    uint64_t token = reserve_expected(&w, "a", ids[BIDE_STATE_DONE]);
    assert_int_equal(done(&w, ids[BIDE_STATE_DONE], token, 100000), BIDE_OK);
    ids[BIDE_STATE_READY] = put(&w, "a");
    struct bi_batch batch = seal(&w);
    static const char *const may[6] = {"", "drR", "rR", "", "b", "D"};
    static const char letters[] = "gdrRbD";
    struct bi_image images[6];
    for (size_t i = 0; i < batch.count; i++)
        for (size_t is = 1; is < 6; is++)
            if (ids[is] == batch.records[i].image.id) {
                images[is] = batch.records[i].image;
                keep(bide_buf_ref(images[is].last_error));
                keep(bide_buf_ref(images[is].result));
            }
    commit_sealed(&w, &batch);
    for (size_t is = BIDE_STATE_DELAYED; is <= BIDE_STATE_DONE; is++) {
        for (size_t said = BIDE_STATE_DELAYED; said <= BIDE_STATE_DONE; said++) {
            if (said == BIDE_STATE_RESERVED)
                continue; /* never stored */
            images[is].state = (bide_state)said;
            bool same = strchr(may[said], letters[is]) != NULL;
            const char *difference = bi_verify_job(w.core, &images[is]);
            assert_int_equal(difference == NULL, same);
        }
    }
}

static void every_difference_in_variable_fields_is_reported(void **state)
{
    (void)state;
    bide_put_options options = put_options();
    options.max_retries = 5;
    options.key = text("key");
    options.backoff_base_ms = 20;
    options.backoff_max_ms = 300;
    options.expires_at_ms = EPOCH / MS + 1000000;
    options.retain_ms = 400;
    options.run_at_ms = EPOCH / MS + 1000;
    uint64_t id = put_with(&w, "a", &options);
    struct bi_image image = store(id);
    struct bi_image other = image;
    other.due++;
    assert_differs(&other, "due");
    struct bi_image others[12];
    for (size_t i = 0; i < COUNT_OF(others); i++)
        others[i] = image;
    others[0].max_retries++;
    others[1].failures++;
    others[2].backoff_base++;
    others[3].backoff_max++;
    others[4].expires_at++;
    others[5].retain++;
    others[6].bury_order++;
    others[7].cancel_wanted = true;
    others[8].key = keep(bide_buf_new("kez", 3));
    others[9].last_error = keep(bide_buf_new("oops", 4));
    others[10].result = keep(bide_buf_new("", 0));
    others[11].history = keep(bide_buf_new("", 0));
    assert_same(&image);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_differs(&others[i], "");
}

/* ---- what is stored, not what is ---- */

static void changes_that_are_not_stored_yet_are_not_compared(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    struct bi_image before = store(id);
    bide_op update = update_of(id);
    update.update.priority = 7;
    assert_int_equal(run(&w, &update), BIDE_OK);
    struct bi_image after = before;
    after.priority = 7;
    assert_same(&before);
    assert_differs(&after, "priority");
    struct bi_batch batch = seal(&w);
    assert_same(&before); /* nor while it flies */
    update.update.priority = 8;
    assert_int_equal(run(&w, &update), BIDE_OK);
    assert_same(&before);
    commit_sealed(&w, &batch);
    assert_same(&after);
    assert_differs(&before, "priority");
    fail_commit(&w);
    assert_same(&after);
}

static void a_job_is_stored_from_its_insert_to_its_removal(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    assert_false(bi_verify_is_stored(w.core, id));
    struct bi_batch batch = seal(&w);
    struct bi_image image = batch.records[0].image;
    assert_false(bi_verify_is_stored(w.core, id));
    assert_differs(&image, "does not have it");
    commit_sealed(&w, &batch);
    image.body = NULL;
    assert_true(bi_verify_is_stored(w.core, id));
    assert_same(&image);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_true(bi_verify_is_stored(w.core, id));
    assert_same(&image);
    commit(&w);
    assert_false(bi_verify_is_stored(w.core, id));
    assert_differs(&image, "does not have it");
}

/* ---- all ids ---- */

static void all_ids_that_the_store_should_have_are_listed_once(void **state)
{
    (void)state;
    enum { COUNT = 5000, ROOM = 256 };
    static unsigned char seen[2 * COUNT];
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < COUNT; i++)
        put(&w, "a");
    commit(&w);
    uint64_t last = put(&w, "a"); /* not stored */
    for (uint64_t id = 1; id < 100; id++)
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    commit(&w);
    uint64_t fresh = put(&w, "a");
    uint64_t ids[ROOM];
    uint64_t place = 0;
    bool end = false;
    while (!end) {
        size_t count = bi_verify_stored_ids(w.core, &place, ids, ROOM, &end);
        assert_true(count <= ROOM);
        for (size_t i = 0; i < count; i++)
            seen[ids[i]]++;
    }
    for (uint64_t id = 1; id <= fresh; id++)
        assert_int_equal(seen[id], id >= 100 && id <= last);
}

static void an_empty_core_has_no_ids(void **state)
{
    (void)state;
    uint64_t ids[64];
    uint64_t place = 0;
    bool end = false;
    size_t count = 0;
    while (!end)
        count += bi_verify_stored_ids(w.core, &place, ids, 64, &end);
    assert_int_equal(count, 0);
}

/* ---- ids of a table that could not grow: its chains have hundreds of jobs ---- */

static bool full;

/* The first segment that a table grows by has 64 buckets. */
static void *refuse_to_grow(void *ctx, void *memory, size_t size)
{
    bool grows = full && memory == NULL && size == 64 * sizeof(uint32_t);
    return grows ? NULL : test_alloc_resize(ctx, memory, size);
}

static void long_chains_are_listed_in_short_calls_without_a_gap(void **state)
{
    (void)state;
    enum { MANY = 50000, MAX = 256 };
    static bool seen[MANY + 1];
    core_fixture_close(&w);
    core_fixture_init(&w);
    w.options.journal = true;
    w.options.alloc.resize = refuse_to_grow;
    full = false;
    core_fixture_start(&w);
    for (uint64_t i = 1; i <= MANY; i++) {
        full = i > 20; /* before, other things are made of this size */
        assert_int_equal(put(&w, "a"), i);
    }
    commit(&w);

    uint64_t ids[MAX];
    uint64_t place = 0;
    uint64_t found = 0;
    size_t most = 0;
    bool end = false;
    while (!end) {
        size_t count = bi_verify_stored_ids(w.core, &place, ids, MAX, &end);
        most = count > most ? count : most;
        for (size_t i = 0; i < count; i++) {
            assert_in_range(ids[i], 1, MANY);
            assert_false(seen[ids[i]]);
            seen[ids[i]] = true;
            found++;
        }
    }
    assert_int_equal(found, MANY);
    assert_true(most < MAX / 2); /* each job takes a pass over its chain: a call ends early */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_journal, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stored_job_is_equal_in_every_state),
        TEST(unwritten_change_is_not_a_difference),
        TEST(every_difference_is_reported),
        TEST(state_differs_unless_it_is_reached_without_a_write),
        TEST(every_difference_in_variable_fields_is_reported),
        TEST(changes_that_are_not_stored_yet_are_not_compared),
        TEST(a_job_is_stored_from_its_insert_to_its_removal),
        TEST(all_ids_that_the_store_should_have_are_listed_once),
        TEST(an_empty_core_has_no_ids),
        TEST(long_chains_are_listed_in_short_calls_without_a_gap),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
