/* SPDX-License-Identifier: MIT */
/*
 * Looks and lists of jobs whose bodies only the store has, and what is read ahead.
 */
#include "body_fixture.h"

#define SIZE 100

static uint64_t store_keyed(void)
{
    bide_put_options options = put_options();
    options.key = text("key");
    uint64_t id = put_sized(&w, "a", SIZE, &options);
    commit(&w);
    return id;
}

/* ---- the four looks ---- */

struct look {
    bide_op op;
    bide_job job;
};

enum { STYLE_COUNT = 3 };

/* peek, peek_first, find */
static bide_op *begin_look(struct look *look, int kind, uint64_t id)
{
    static const bide_op_kind kinds[STYLE_COUNT] = {BIDE_OP_PEEK, BIDE_OP_PEEK_FIRST, BIDE_OP_FIND};
    memset(look, 0, sizeof(*look));
    look->op = (bide_op){.kind = kinds[kind],
                         .query = {.id = id,
                                   .topic = text("a"),
                                   .key = text("key"),
                                   .state = BIDE_STATE_READY,
                                   .job = &look->job}};
    assert_int_equal(run(&w, &look->op), BIDE_OK);
    assert_true(lacks_body(&look->op));
    return &look->op;
}

static void peek_gets_its_missing_body(void **state)
{
    (void)state;
    uint64_t id = store_keyed();
    for (int kind = 0; kind < STYLE_COUNT; kind++) {
        struct look look;
        bide_op *op = begin_look(&look, kind, id);
        struct bi_body bodies[2];
        assert_int_equal(bi_body_fetch_missing(op, 0, bodies, 2), 1);
        assert_int_equal(bodies[0].id, id);
        assert_int_equal(bodies[0].size, SIZE);
        assert_int_equal(bi_body_fetch_missing(op, 1, bodies, 2), 0);
        assert_int_equal(supply(&w, op), BIDE_OK);
        assert_int_equal(look.job.id, id);
        assert_int_equal(look.job.token, 0);
        assert_body(look.job.body, look.job.body_size, SIZE);
        bide_job_clear(&look.job);
    }
}

static void peek_of_an_unreadable_body_fails_and_changes_nothing(void **state)
{
    (void)state;
    uint64_t id = store_keyed();
    for (int kind = 0; kind < STYLE_COUNT; kind++) {
        struct look look;
        bide_op *op = begin_look(&look, kind, id);
        assert_int_equal(supply_except(&w, op, id), BIDE_EIO);
        assert_non_null(strstr(op->error, "the page is torn"));
        assert_non_null(strstr(op->error, bide_op_name(op->kind)));
        assert_int_equal(look.job.id, 0);
        assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    }
    assert_false(bi_journal_is_dirty(w.core));
}

static void peek_at_a_job_removed_during_its_read_is_not_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < STYLE_COUNT; kind++) {
        uint64_t id = store_keyed();
        struct look look;
        bide_op *op = begin_look(&look, kind, id);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        commit(&w);
        assert_int_equal(supply_except(&w, op, id), BIDE_NOT_FOUND);
        assert_int_equal(look.job.id, 0);
    }
}

static void peek_with_its_body_shows_a_job_removed_afterwards(void **state)
{
    (void)state;
    for (int kind = 0; kind < STYLE_COUNT; kind++) {
        uint64_t id = store_keyed();
        struct look look;
        bide_op *op = begin_look(&look, kind, id);
        assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        assert_int_equal(supply(&w, op), BIDE_OK);
        assert_int_equal(look.job.id, id);
        bide_job_clear(&look.job);
    }
}

static void body_op_has_the_outcomes_of_a_peek(void **state)
{
    (void)state;
    uint64_t id = store_keyed();
    bide_op op = {.kind = BIDE_OP_BODY, .fetch = {.id = id}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(&w, &op), BIDE_OK);
        assert_true(lacks_body(&op));
        assert_null(op.fetch.buf);
        struct bi_body body;
        assert_int_equal(bi_body_fetch_missing(&op, 0, &body, 1), 1);
        assert_int_equal(body.id, id);
        assert_int_equal(body.size, SIZE);
        assert_int_equal(bi_body_fetch_missing(&op, 1, &body, 1), 0);
        if (i == 0) {
            assert_int_equal(supply(&w, &op), BIDE_OK);
            assert_body(bide_buf_data(op.fetch.buf), bide_buf_size(op.fetch.buf), SIZE);
            bide_buf_unref(op.fetch.buf);
            op.fetch.buf = NULL;
        } else {
            assert_int_equal(supply_except(&w, &op, id), BIDE_EIO);
            assert_null(op.fetch.buf);
        }
    }
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
    assert_int_equal(supply_except(&w, &op, id), BIDE_NOT_FOUND);
}

static void job_stats_need_no_body(void **state)
{
    (void)state;
    uint64_t id = store_keyed();
    bide_job job;
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = id, .job = &job}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_false(lacks_body(&op));
    assert_int_equal(job.body_size, SIZE);
    assert_null(job.body);
    bide_job_clear(&job);
}

static void body_read_by_a_peek_is_cached(void **state)
{
    (void)state;
    core_fixture_close(&w);
    bodies_open(&w, SIZE);
    uint64_t id = store_keyed();
    uint64_t other = store_sized(&w, "b", SIZE);
    assert_false(in_memory(&w, id, SIZE));
    struct look look;
    assert_int_equal(supply(&w, begin_look(&look, 0, id)), BIDE_OK);
    bide_job_clear(&look.job);
    assert_true(in_memory(&w, id, SIZE));
    assert_false(in_memory(&w, other, SIZE));
}

/* ---- lists ---- */

struct page {
    bide_op op;
    char cursor[BIDE_CURSOR_SIZE];
    bide_job jobs[8];
};

static void begin_list(struct page *page, bool with_body, const char *filter)
{
    memset(page, 0, sizeof(*page));
    page->op = (bide_op){.kind = BIDE_OP_LIST,
                         .list = {.topic = text("a"),
                                  .filter = {.text = text(filter)},
                                  .with_body = with_body,
                                  .cursor = page->cursor,
                                  .jobs = page->jobs,
                                  .job_max = COUNT_OF(page->jobs)}};
    assert_int_equal(run(&w, &page->op), BIDE_OK);
}

static void end_list(struct page *page)
{
    for (size_t i = 0; i < page->op.list.count; i++)
        bide_job_clear(&page->jobs[i]);
}

static void a_list_with_bodies_gets_them(void **state)
{
    (void)state;
    uint64_t first = store_sized(&w, "a", 30);
    store_sized(&w, "a", 0);
    put_sized(&w, "a", 32, NULL);
    store_sized(&w, "a", 33);
    put_sized(&w, "a", 34, NULL); /* not stored, so in memory */
    struct page page;
    begin_list(&page, true, "");
    assert_true(lacks_body(&page.op));
    assert_int_equal(supply(&w, &page.op), BIDE_OK);
    assert_int_equal(page.op.list.count, 5);
    static const size_t sizes[] = {30, 0, 32, 33, 34};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(page.jobs[i].id, first + i);
        assert_body(page.jobs[i].body, page.jobs[i].body_size, sizes[i]);
    }
    end_list(&page);
}

static void list_without_bodies_needs_no_read(void **state)
{
    (void)state;
    store_sized(&w, "a", SIZE);
    struct page page;
    begin_list(&page, false, "");
    assert_false(lacks_body(&page.op));
    assert_int_equal(page.op.list.count, 1);
    assert_null(page.jobs[0].body);
    assert_int_equal(page.jobs[0].body_size, SIZE);
    end_list(&page);
}

static void list_shows_an_unreadable_job_without_its_body(void **state)
{
    (void)state;
    uint64_t bad = store_sized(&w, "a", 30);
    store_sized(&w, "a", 31);
    struct page page;
    begin_list(&page, true, "");
    assert_int_equal(supply_except(&w, &page.op, bad), BIDE_OK);
    assert_int_equal(page.op.list.count, 2);
    assert_int_equal(page.jobs[0].id, bad);
    assert_null(page.jobs[0].body);
    assert_int_equal(page.jobs[0].body_size, 30);
    assert_body(page.jobs[1].body, page.jobs[1].body_size, 31);
    assert_int_equal(state_of(&w, bad), BIDE_STATE_READY);
    end_list(&page);
}

static void search_text_is_found_in_read_bodies(void **state)
{
    (void)state;
    for (int with_body = 0; with_body < 2; with_body++) {
        store_sized(&w, "a", 26);                     /* a... */
        uint64_t wanted = store_sized(&w, "a", 27);   /* b... */
        uint64_t bad = store_sized(&w, "a", 27);      /* b..., but cannot be read */
        put_sized(&w, "a", 28, NULL);                 /* c..., in memory */
        uint64_t also = put_sized(&w, "a", 53, NULL); /* b..., in memory */
        struct page page;
        begin_list(&page, with_body == 1, "bbb");
        assert_true(lacks_body(&page.op));
        assert_int_equal(supply_except(&w, &page.op, bad), BIDE_OK);
        assert_int_equal(page.op.list.count, 2);
        assert_int_equal(page.jobs[0].id, wanted);
        assert_int_equal(page.jobs[1].id, also);
        for (size_t i = 0; i < 2; i++) {
            if (with_body == 1)
                assert_body(page.jobs[i].body, page.jobs[i].body_size, i == 0 ? 27 : 53);
            else
                assert_null(page.jobs[i].body);
        }
        end_list(&page);
        for (uint64_t id = wanted - 1; id <= also; id++)
            assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, 0), BIDE_OK);
        commit(&w);
    }
}

static void page_without_remaining_jobs_keeps_its_cursor(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        put_sized(&w, "a", 26, NULL);
    uint64_t wanted = put_sized(&w, "a", 27, NULL);
    commit(&w);
    struct page page;
    begin_list(&page, false, "bbb");
    assert_int_equal(supply(&w, &page.op), BIDE_OK);
    assert_int_equal(page.op.list.count, 0);
    assert_string_not_equal(page.cursor, "");
    assert_int_equal(run(&w, &page.op), BIDE_OK);
    assert_int_equal(supply(&w, &page.op), BIDE_OK);
    assert_int_equal(page.op.list.count, 1);
    assert_int_equal(page.jobs[0].id, wanted);
    assert_string_equal(page.cursor, "");
    end_list(&page);
}

/* ---- ahead ---- */

/* Reserves a job and gives it its body. */
static void take_first(uint64_t id)
{
    bide_slice name = text("a");
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    if (lacks_body(&op))
        assert_int_equal(supply(&w, &op), BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
}

static void next_bodies_are_prefetched_into_free_cache(void **state)
{
    (void)state;
    core_fixture_close(&w);
    bodies_open(&w, 4 * 3 * SIZE); /* a quarter of it: three bodies */
    uint64_t ids[8];
    for (int i = 0; i < 8; i++)
        ids[i] = store_sized(&w, "a", SIZE);
    for (int i = 0; i < 12; i++)
        store_sized(&w, "b", SIZE); /* these push the others out */
    struct bi_body bodies[8];
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 8, 10000), 0); /* not taken */
    take_first(ids[0]);
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 8, 10000), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(bodies[i].id, ids[1], ids[7]);
        assert_int_equal(bodies[i].size, SIZE);
    }
    assert_int_equal(bodies[0].id, ids[1]);
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 8, 2 * SIZE), 2);
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 1, 10000), 1);
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 8, SIZE - 1), 0);
    assert_int_equal(bi_body_fetch_readahead(w.core, 12345, bodies, 8, 10000), 0);
    bi_body_fetch_cache(w.core, ids[1], body_buf(SIZE));
    assert_int_equal(bi_body_fetch_readahead(w.core, ids[0], bodies, 8, 10000), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_not_equal(bodies[i].id, ids[1]); /* it is there */
    assert_true(in_memory(&w, ids[1], SIZE));
    take_first(ids[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_bodies, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(peek_gets_its_missing_body),
        TEST(peek_of_an_unreadable_body_fails_and_changes_nothing),
        TEST(peek_at_a_job_removed_during_its_read_is_not_found),
        TEST(peek_with_its_body_shows_a_job_removed_afterwards),
        TEST(body_op_has_the_outcomes_of_a_peek),
        TEST(job_stats_need_no_body),
        TEST(body_read_by_a_peek_is_cached),
        TEST(a_list_with_bodies_gets_them),
        TEST(list_without_bodies_needs_no_read),
        TEST(list_shows_an_unreadable_job_without_its_body),
        TEST(search_text_is_found_in_read_bodies),
        TEST(page_without_remaining_jobs_keeps_its_cursor),
        TEST(next_bodies_are_prefetched_into_free_cache),
    };
    return cmocka_run_group_tests_name("fetch_look", tests, NULL, NULL);
}
