/* SPDX-License-Identifier: MIT */
/*
 * Jobs, bodies, pauses and limits in a SQLite file.
 */
#include "sqlite_fixture.h"

#include "util/clock.h"

static struct store *store;
static char error[BIDE_ERROR_SIZE];

static int set_up(void **state)
{
    folder_make(state);
    open_store(&store);
    return 0;
}

static int tear_down(void **state)
{
    close_store(store);
    return folder_remove(state);
}

static struct store_start reopen(void)
{
    close_store(store);
    return open_store(&store);
}

/* ---- what a visit shows ---- */

struct seen {
    size_t count;
    struct bi_image last; /* its texts and body are references */
    const char *damage;
    uint64_t ids[300];
};

static void seen_clear(struct seen *seen)
{
    bide_buf_unref(seen->last.body);
    bide_buf_unref(seen->last.key);
    bide_buf_unref(seen->last.last_error);
    bide_buf_unref(seen->last.result);
    memset(&seen->last, 0, sizeof(seen->last));
}

static int see(void *ctx, const struct bi_record *record, const char *damage)
{
    struct seen *seen = ctx;
    seen_clear(seen);
    seen->last = record->image;
    bide_buf_ref(seen->last.body);
    bide_buf_ref(seen->last.key);
    bide_buf_ref(seen->last.last_error);
    bide_buf_ref(seen->last.result);
    seen->damage = damage;
    seen->ids[seen->count++ % COUNT_OF(seen->ids)] = record->image.id;
    return BIDE_OK;
}

static int fetch(uint64_t id, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    return store->ops->fetch(store, id, see, seen, error);
}

static int scan(uint64_t *after, uint64_t below, size_t max, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    return store->ops->scan(store, after, below, max, see, seen, error);
}

static void assert_same_bytes(const bide_buf *a, const bide_buf *b)
{
    assert_int_equal(a == NULL, b == NULL);
    assert_int_equal(bide_buf_size(a), bide_buf_size(b));
    if (bide_buf_size(a) > 0)
        assert_memory_equal(bide_buf_data(a), bide_buf_data(b), bide_buf_size(a));
}

/* Everything but the body. */
static void assert_same_image(const struct bi_image *a, const struct bi_image *b)
{
    const int64_t pairs[][2] = {
        {(int64_t)a->id, (int64_t)b->id},
        {a->state, b->state},
        {a->started, b->started},
        {a->cancel_wanted, b->cancel_wanted},
        {a->due_wall, b->due_wall},
        {a->key_hold_retained, b->key_hold_retained},
        {a->plain, b->plain},
        {a->priority, b->priority},
        {a->ttr, b->ttr},
        {a->due, b->due},
        {a->max_retries, b->max_retries},
        {a->failures, b->failures},
        {a->backoff_base, b->backoff_base},
        {a->backoff_max, b->backoff_max},
        {a->expires_at, b->expires_at},
        {a->retain, b->retain},
        {(int64_t)a->bury_order, (int64_t)b->bury_order},
        {(int64_t)a->token, (int64_t)b->token},
        {a->lease, b->lease},
        {a->reserves, b->reserves},
        {a->timeouts, b->timeouts},
        {a->releases, b->releases},
        {a->fails, b->fails},
        {a->buries, b->buries},
        {a->kicks, b->kicks},
        {a->touches, b->touches},
        {a->created, b->created},
        {a->since, b->since},
        {a->ready, b->ready},
        {a->reserved, b->reserved},
        {a->touched, b->touched},
        {a->buried, b->buried},
        {a->done, b->done},
        {a->body_size, b->body_size},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            fail_msg("field %zu: %lld, not %lld", i, (long long)pairs[i][0],
                     (long long)pairs[i][1]);
    assert_string_equal(a->topic, b->topic);
    assert_same_bytes(a->key, b->key);
    assert_same_bytes(a->last_error, b->last_error);
    assert_same_bytes(a->result, b->result);
}

/* A job with something in every field; seed makes another one. */
static struct bi_image full_image(uint64_t id, int seed)
{
    struct bi_image image = {
        .id = id,
        .state = seed % 2 == 0 ? BIDE_STATE_BURIED : BIDE_STATE_DONE,
        .started = seed % 2 == 0,
        .cancel_wanted = seed % 2 == 1,
        .due_wall = seed % 2 == 0,
        .key_hold_retained = seed % 2 == 1,
        .priority = UINT32_MAX - (uint32_t)seed,
        .ttr = 111 + seed,
        .due = INT64_C(222000000000000) + seed,
        .max_retries = seed,
        .failures = UINT32_MAX - (uint32_t)seed,
        .backoff_base = 333 + seed,
        .backoff_max = 444 + seed,
        .expires_at = INT64_C(555000000000000) + seed,
        .retain = 666 + seed,
        .bury_order = (UINT64_C(1) << 52) + (uint64_t)seed,
        .token = (UINT64_C(1) << 51) + (uint64_t)seed,
        .lease = 999 + seed,
        .reserves = 1 + (uint32_t)seed,
        .timeouts = 2 + (uint32_t)seed,
        .releases = 3 + (uint32_t)seed,
        .fails = 4 + (uint32_t)seed,
        .buries = 5 + (uint32_t)seed,
        .kicks = 6 + (uint32_t)seed,
        .touches = UINT32_MAX - (uint32_t)seed,
        .created = 777 + seed,
        .since = 888 + seed,
        .ready = 11 + seed,
        .reserved = 22 + seed,
        .touched = 33 + seed,
        .buried = 44 + seed,
        .done = 55 + seed,
        .key = bide_buf_new("k\0y", 3),
        .last_error = bide_buf_new("oops", 4),
        .result = buf_of(1000 + (size_t)seed),
    };
    snprintf(image.topic, sizeof(image.topic), "topic-%d", seed);
    return image;
}

static void drop_texts(struct bi_image *image)
{
    bide_buf_unref(image->key);
    bide_buf_unref(image->last_error);
    bide_buf_unref(image->result);
}

/* ---- fields ---- */

static void every_field_is_inserted_and_updated(void **state)
{
    (void)state;
    for (int seed = 0; seed < 2; seed++) {
        struct bi_image image = full_image(7, seed);
        commit_one(store, (struct bi_record){seed == 0 ? BI_INSERT : BI_UPDATE, image});
        for (int retry = 0; retry < 2; retry++) {
            struct seen seen;
            assert_int_equal(fetch(7, &seen), BIDE_OK);
            assert_null(seen.damage);
            assert_same_image(&seen.last, &image);
            seen_clear(&seen);
            uint64_t after = 0;
            assert_int_equal(scan(&after, 100, 10, &seen), BIDE_NOT_FOUND);
            assert_int_equal(seen.count, 1);
            assert_same_image(&seen.last, &image);
            seen_clear(&seen);
            reopen();
        }
        drop_texts(&image);
    }
}

static void plain_job_is_plain_until_its_first_update(void **state)
{
    (void)state;
    struct bi_record record = insert_of(1);
    commit_one(store, record);
    struct seen seen;
    assert_int_equal(fetch(1, &seen), BIDE_OK);
    assert_same_image(&seen.last, &record.image);
    assert_true(seen.last.plain);
    seen_clear(&seen);
    record.kind = BI_UPDATE;
    record.image.plain = false;
    record.image.kicks = 1;
    commit_one(store, record);
    assert_int_equal(fetch(1, &seen), BIDE_OK);
    assert_same_image(&seen.last, &record.image);
    seen_clear(&seen);
}

static void limits_of_the_fields_are_kept(void **state)
{
    (void)state;
    struct bi_image image = full_image(UINT64_C(1) << 53, 0);
    image.id = BIDE_ID_MAX;
    image.priority = 0;
    image.max_retries = INT32_MAX;
    image.since = image.created;
    memset(image.topic, 'x', BIDE_TOPIC_MAX);
    image.topic[BIDE_TOPIC_MAX] = 0;
    bide_buf_unref(image.result);
    image.result = bide_buf_new("", 0); /* empty is not none */
    commit_one(store, (struct bi_record){BI_INSERT, image});
    struct seen seen;
    assert_int_equal(fetch(BIDE_ID_MAX, &seen), BIDE_OK);
    assert_null(seen.damage);
    assert_same_image(&seen.last, &image);
    seen_clear(&seen);
    drop_texts(&image);
}

/* ---- bodies ---- */

static void update_keeps_the_body(void **state)
{
    (void)state;
    commit_sized(store, 1, 300);
    commit_sized(store, 2, 3000);
    for (uint64_t id = 1; id <= 2; id++) {
        struct bi_record update = insert_of(id);
        update.kind = BI_UPDATE;
        update.image.plain = false;
        update.image.state = BIDE_STATE_BURIED;
        update.image.body_size = id == 1 ? 300 : 3000;
        commit_one(store, update);
        struct store_body_request request = {.id = id, .size = update.image.body_size};
        store->ops->read(store, &request, 1);
        bide_buf *wanted = buf_of(request.size);
        assert_same_bytes(request.body, wanted);
        bide_buf_unref(wanted);
        bide_buf_unref(request.body);
    }
}

static void changed_body_is_rejected(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 4; id++)
        commit_sized(store, id, id % 2 == 1 ? 100 : 1000);
    alter(file, "UPDATE job SET body=zeroblob(100) WHERE id=1;"
                "UPDATE body SET data=zeroblob(1000) WHERE id=2;"
                "UPDATE job SET body=zeroblob(99) WHERE id=3;"
                "DELETE FROM body WHERE id=4");
    for (uint64_t id = 1; id <= 5; id++) {
        struct store_body_request request = {.id = id, .size = id % 2 == 1 ? 100 : 1000};
        store->ops->read(store, &request, 1);
        assert_null(request.body);
        assert_false(request.retry);
        assert_string_not_equal(request.reason, "");
    }
}

/* ---- limits ---- */

static void commit_limits(uint64_t next_id, uint64_t next_token)
{
    struct bi_batch batch = {.number = 1, .next_id = next_id, .next_token = next_token};
    assert_int_equal(store->ops->commit(store, &batch, error), BIDE_OK);
}

static void a_new_file_begins_with_the_first_id(void **state)
{
    (void)state;
    uint64_t before = (uint64_t)bi_clock_wall();
    struct store_start start = reopen();
    assert_int_equal(start.next_id, 1);
    assert_true(start.next_token >= before);
}

/* In the future: tokens of any other file are below it. */
#define FAR (BIDE_ID_MAX / 2)

static void close_skips_no_id(void **state)
{
    (void)state;
    commit_limits(42, FAR + 5000);
    struct store_start start = reopen();
    assert_int_equal(start.next_id, 42);
    assert_int_equal(start.next_token, FAR + 5000);
    start = reopen(); /* nothing was stored in between */
    assert_int_equal(start.next_id, 42);
    assert_int_equal(start.next_token, FAR + 5000);
    commit_limits(43, FAR + 9000);
    start = reopen();
    assert_int_equal(start.next_id, 43);
    assert_int_equal(start.next_token, FAR + 9000);
}

static void the_secret_of_a_file_is_drawn_once(void **state)
{
    (void)state;
    struct store_start first = reopen();
    assert_int_equal(first.token_from, 1);
    commit_limits(1, FAR);
    struct store_start second = reopen();
    assert_true(second.secret.key[0] != 0 || second.secret.key[1] != 0);
    assert_memory_equal(&first.secret, &second.secret, sizeof(first.secret));
    assert_int_equal(second.token_from, 1);
}

static void tokens_of_a_file_without_a_secret_stay_as_they_are(void **state)
{
    (void)state;
    commit_limits(42, FAR + 5000);
    struct store_start before = reopen();
    alter(file, "DELETE FROM meta WHERE name IN ('secret_1','secret_2','token_from')");
    for (int i = 0; i < 3; i++) {
        struct store_start start = reopen();
        assert_memory_not_equal(&start.secret, &before.secret, sizeof(start.secret));
        assert_int_equal(start.token_from, FAR + 5000);
        commit_limits(42, FAR + 6000 + (uint64_t)i);
    }
}

/* What a process stored that ended without closing. */
static void in_a_process_that_ends(void (*what)(void))
{
    close_store(store);
    pid_t child = fork();
    if (child == 0) {
        open_store(&store);
        what();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void put_some(void)
{
    commit_sized(store, 1, 10);
    commit_sized(store, 2, 10000);
    commit_limits(3, 7000);
}

static void after_a_crash_everything_is_there_and_ids_go_on_above(void **state)
{
    (void)state;
    in_a_process_that_ends(put_some);
    struct store_start start = open_store(&store);
    assert_true(start.next_id >= 3);
    assert_true(start.next_token >= 7000);
    uint64_t count = 0;
    assert_int_equal(store->ops->count(store, start.next_id, &count, error), BIDE_OK);
    assert_int_equal(count, 2);
    struct store_body_request request = {.id = 2, .size = 10000};
    store->ops->read(store, &request, 1);
    assert_non_null(request.body);
    bide_buf_unref(request.body);
}

/* ---- pages and pauses ---- */

static void a_scan_comes_in_pages_in_the_order_of_ids(void **state)
{
    (void)state;
    struct bi_record records[250];
    for (size_t i = 0; i < COUNT_OF(records); i++)
        records[i] = insert_of(3 * (COUNT_OF(records) - i));
    commit_records(store, records, COUNT_OF(records));
    uint64_t count;
    assert_int_equal(store->ops->count(store, 301, &count, error), BIDE_OK);
    assert_int_equal(count, 100);
    static struct seen seen;
    uint64_t after = 0, last = 0, total = 0;
    int code = BIDE_OK;
    while (code == BIDE_OK) {
        code = scan(&after, 601, 64, &seen);
        assert_true(seen.count <= 64);
        for (size_t i = 0; i < seen.count; i++) {
            assert_int_equal(seen.ids[i], last + 3);
            last = seen.ids[i];
        }
        total += seen.count;
        seen_clear(&seen);
    }
    assert_int_equal(code, BIDE_NOT_FOUND);
    assert_int_equal(total, 200); /* those below 601 */
    after = 600;
    assert_int_equal(scan(&after, BIDE_ID_MAX, 10, &seen), BIDE_OK);
    assert_int_equal(seen.ids[0], 603);
    assert_int_equal(after, 630);
    seen_clear(&seen);
}

static void failed_count_reports_the_reason(void **state)
{
    (void)state;
    uint64_t count = 77;
    store->stopping = true;
    error[0] = 0;
    assert_int_equal(store->ops->count(store, 10, &count, error), BIDE_CLOSED);
    assert_string_not_equal(error, "");
    store->stopping = false;

    error[0] = 0;
    sqlite3_int64 before = sqlite3_hard_heap_limit64(1);
    int code = store->ops->count(store, 10, &count, error);
    sqlite3_hard_heap_limit64(before);
    assert_int_equal(code, BIDE_ENOMEM);
    assert_string_not_equal(error, "");
    assert_int_equal(count, 77);
    assert_int_equal(store->ops->count(store, 10, &count, error), BIDE_OK);
    assert_int_equal(count, 0);
}

static int stop(void *ctx, const struct bi_record *record, const char *damage)
{
    (void)record;
    (void)damage;
    ++*(int *)ctx;
    return BIDE_ENOMEM;
}

static void visitor_can_stop_a_scan(void **state)
{
    (void)state;
    struct bi_record records[3] = {insert_of(1), insert_of(2), insert_of(3)};
    commit_records(store, records, 3);
    int calls = 0;
    uint64_t after = 0;
    assert_int_equal(store->ops->scan(store, &after, 10, 10, stop, &calls, error), BIDE_ENOMEM);
    assert_int_equal(calls, 1);
    assert_int_equal(store->ops->fetch(store, 2, stop, &calls, error), BIDE_ENOMEM);
    assert_int_equal(calls, 2);
    struct seen seen; /* the next one begins anew */
    assert_int_equal(fetch(3, &seen), BIDE_OK);
    seen_clear(&seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_field_is_inserted_and_updated),
        TEST(plain_job_is_plain_until_its_first_update),
        TEST(limits_of_the_fields_are_kept),
        TEST(update_keeps_the_body),
        TEST(changed_body_is_rejected),
        TEST(a_new_file_begins_with_the_first_id),
        TEST(close_skips_no_id),
        TEST(the_secret_of_a_file_is_drawn_once),
        TEST(tokens_of_a_file_without_a_secret_stay_as_they_are),
        TEST(after_a_crash_everything_is_there_and_ids_go_on_above),
        TEST(a_scan_comes_in_pages_in_the_order_of_ids),
        TEST(failed_count_reports_the_reason),
        TEST(visitor_can_stop_a_scan),
    };
    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
