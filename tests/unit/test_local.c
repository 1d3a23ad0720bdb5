/* SPDX-License-Identifier: MIT */
/*
 * The local backend: opening on a store that has something, or cannot be read, and ops that wait
 * for time.
 */
#include "backend/local.h"

#include "slow.h"

#include "backend/alarm.h"

#include "util/clock.h"

/* What a store finds when it is opened, and how that goes. */
static struct {
    int start_code;
    _Atomic int scan_code;
    size_t count;
    struct bi_record records[4];
    unsigned commits, closes;
    _Atomic uint64_t aside;
} found;

static int found_start(struct store *store, struct store_start *start, char *error)
{
    (void)store;
    if (found.start_code != BIDE_OK)
        strcpy(error, "the store does not start");
    else
        *start = (struct store_start){.next_id = 500, .next_token = 7000};
    return found.start_code;
}

static int found_visit(store_visit visit, void *ctx, bool pauses, char *error)
{
    for (size_t i = 0; i < found.count; i++) {
        if ((found.records[i].kind == BI_PAUSE) != pauses)
            continue;
        int code = visit(ctx, &found.records[i], NULL);
        if (code != BIDE_OK) {
            strcpy(error, "the store has something that cannot be");
            return code;
        }
    }
    return BIDE_OK;
}

static int found_pauses(struct store *store, store_visit visit, void *ctx, char *error)
{
    (void)store;
    return found_visit(visit, ctx, true, error);
}

static int found_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                      store_visit visit, void *ctx, char *error)
{
    (void)store;
    (void)after;
    (void)below;
    (void)max;
    int code = found_visit(visit, ctx, false, error);
    if (code != BIDE_OK)
        return code;
    if (found.scan_code != BIDE_OK)
        strcpy(error, "the store cannot be read");
    return found.scan_code != BIDE_OK ? found.scan_code : BIDE_NOT_FOUND;
}

static int found_set_aside(struct store *store, uint64_t id, const char *reason, char *error)
{
    (void)store;
    (void)reason;
    (void)error;
    found.aside = id;
    return BIDE_OK;
}

static int found_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    (void)store;
    (void)batch;
    (void)error;
    found.commits++;
    return BIDE_OK;
}

static void found_close(struct store *store)
{
    free(store);
    found.closes++;
}

static const struct store_ops keeping_ops = {
    .name = "found",
    .keeps = true,
    .start = found_start,
    .pauses = found_pauses,
    .count = slow_count,
    .fetch = slow_fetch,
    .scan = found_scan,
    .set_aside = found_set_aside,
    .commit = found_commit,
    .close = found_close,
};

/* Keeps nothing: scan and commit are never called. */
static const struct store_ops passing_ops = {
    .name = "passing",
    .keeps = false,
    .start = found_start,
    .close = found_close,
};

static int open_on(const struct store_ops *ops, bide **queue, char *error)
{
    struct store *store = calloc(1, sizeof(*store));
    *queue = calloc(1, sizeof(**queue));
    if (store == NULL || *queue == NULL)
        abort();
    store->ops = ops;
    struct bi_url url;
    const char *reason;
    struct backend_context context = {.finish = bi_submit_finish, .complete = bi_cq_complete};
    assert_true(bi_url_parse(&url, "found:", &reason));
    assert_int_equal(bi_options_resolve(NULL, &url, &context.options), BIDE_OK);
    (*queue)->options = context.options;
    int code = bi_local_open(&context, &slow_backend_ops, store, &(*queue)->backend, error);
    if (code != BIDE_OK) {
        free(*queue);
        *queue = NULL;
    }
    return code;
}

static int set_up(void **state)
{
    (void)state;
    found.start_code = BIDE_OK;
    found.scan_code = BIDE_OK;
    found.count = found.commits = found.closes = 0;
    found.aside = 0;
    return 0;
}

static struct bi_image *find_job(uint64_t id)
{
    struct bi_record *record = &found.records[found.count++];
    record->kind = BI_INSERT;
    record->image = (struct bi_image){.id = id,
                                      .state = BIDE_STATE_READY,
                                      .ttr = 60000000,
                                      .max_retries = BIDE_NO_RETRY_LIMIT,
                                      .created = bi_clock_wall(),
                                      .body_size = 4,
                                      .body = bide_buf_new("body", 4),
                                      .topic = "a"};
    return &record->image;
}

static void drop_found(void)
{
    for (size_t i = 0; i < found.count; i++)
        bide_buf_unref(found.records[i].image.body);
}

static void what_the_store_has_is_there_after_opening(void **state)
{
    (void)state;
    find_job(3);
    find_job(9)->state = BIDE_STATE_BURIED;
    found.records[found.count++] =
        (struct bi_record){.kind = BI_PAUSE, .image = {.due = BI_NEVER, .topic = "b"}};
    bide *queue;
    char error[BIDE_ERROR_SIZE] = "";
    assert_int_equal(open_on(&keeping_ops, &queue, error), BIDE_OK);
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, NULL), BIDE_OK);
    bide_job job;
    assert_int_equal(bide_reserve(queue, "a", 0, &job), BIDE_OK);
    assert_int_equal(job.id, 3);
    assert_memory_equal(job.body, "body", 4);
    assert_true(job.token >= 7000);
    bide_job_clear(&job);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.buried, 1);
    uint64_t id;
    assert_int_equal(bide_put(queue, "b", "x", 1, NULL, &id), BIDE_OK);
    assert_int_equal(id, 500);
    assert_int_equal(bide_reserve(queue, "b", 0, &job), BIDE_TIMED_OUT);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(found.closes, 1);
    drop_found();
}

static void a_store_that_does_not_start_fails_the_open_and_is_closed(void **state)
{
    (void)state;
    const struct store_ops *const kinds[] = {&keeping_ops, &passing_ops};
    for (unsigned i = 0; i < 2; i++) {
        found.start_code = BIDE_EIO;
        bide *queue;
        char error[BIDE_ERROR_SIZE] = "";
        assert_int_equal(open_on(kinds[i], &queue, error), BIDE_EIO);
        assert_string_equal(error, "the store does not start");
        assert_int_equal(found.closes, i + 1);
    }
}

static void a_store_that_cannot_be_read_is_tried_again_while_new_jobs_are_served(void **state)
{
    (void)state;
    find_job(3);
    found.scan_code = BIDE_EIO;
    bide *queue;
    char error[BIDE_ERROR_SIZE] = "";
    assert_int_equal(open_on(&keeping_ops, &queue, error), BIDE_OK);
    uint64_t id;
    assert_int_equal(bide_put(queue, "b", "x", 1, NULL, &id), BIDE_OK);
    bide_recovery progress;
    assert_int_equal(bide_wait_recovered(queue, 0, &progress), BIDE_TIMED_OUT);
    assert_true(progress.phase != BIDE_PHASE_RECOVERED);
    found.scan_code = BIDE_OK;
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, &progress), BIDE_OK);
    assert_int_equal(progress.phase, BIDE_PHASE_RECOVERED);
    assert_int_equal(progress.loaded, 1);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(found.closes, 1);
    drop_found();
}

static void a_row_that_makes_no_sense_is_counted_and_set_aside(void **state)
{
    (void)state;
    find_job(3);
    find_job(4)->ttr = -1;
    find_job(5);
    bide *queue;
    char error[BIDE_ERROR_SIZE] = "";
    assert_int_equal(open_on(&keeping_ops, &queue, error), BIDE_OK);
    bide_recovery progress;
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, &progress), BIDE_OK);
    assert_int_equal(progress.loaded, 2);
    assert_int_equal(progress.failed, 1);
    assert_int_equal(progress.total, 3);
    while (found.aside == 0) /* the commit thread comes to it */
        bi_alarm_sleep(1);
    assert_int_equal(found.aside, 4);
    assert_int_equal(bide_close(queue), BIDE_OK);
    drop_found();
}

static void a_store_that_keeps_nothing_holds_no_answer(void **state)
{
    (void)state;
    bide *queue;
    char error[BIDE_ERROR_SIZE] = "";
    assert_int_equal(open_on(&passing_ops, &queue, error), BIDE_OK);
    bide_op op = put_op(NULL, "a");
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    op = lease_op(NULL, BIDE_OP_DELETE, op.put.id, 0);
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(found.commits, 0);
}

/* ---- on the memory store ---- */

static bide *queue_;
static bide_cq *cq;

static int open_memory(void **state)
{
    (void)state;
    return bide_open("memory:", NULL, &queue_) == BIDE_OK ? bide_cq_new(&cq) : -1;
}

static int close_memory(void **state)
{
    (void)state;
    bide_close(queue_);
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

static void an_op_that_would_wait_and_names_no_completion_queue_is_refused(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = reserve_op(NULL, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue_, &reserve), 0);
    assert_int_equal(reserve.status, BIDE_EINVAL);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue_, &stats), BIDE_OK);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.topics, 0);
    uint64_t id;
    assert_int_equal(bide_put(queue_, "a", "x", 1, NULL, &id), BIDE_OK);
    assert_int_equal(submit_one(queue_, &reserve), 0); /* now it need not wait */
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
}

static void a_refused_op_does_not_take_others_along(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job jobs[2];
    bide_op waits = reserve_op(cq, &topic, &jobs[0]);
    waits.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue_, &waits), 1);
    bide_op put = put_op(NULL, "a");
    bide_op refused = reserve_op(NULL, &topic, &jobs[1]);
    refused.reserve.timeout_ms = BIDE_FOREVER;
    bide_op bad = put_op(NULL, "");
    bide_op *list[] = {&put, &refused, &bad};
    assert_int_equal(bide_submit(queue_, list, 3), 0);
    assert_int_equal(put.status, BIDE_OK);
    assert_int_equal(refused.status, BIDE_EINVAL);
    assert_int_equal(bad.status, BIDE_EINVAL);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(waits.status, BIDE_OK);
    assert_int_equal(jobs[0].id, put.put.id);
    bide_job_clear(&jobs[0]);
}

/* The clock that a delay is measured with is read before the put and after the reserve. */
static void a_delay_is_never_early(void **state)
{
    (void)state;
    for (int64_t delay = 1; delay <= 5; delay++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.delay_ms = delay;
        int64_t before = bi_clock_boot();
        assert_int_equal(bide_put(queue_, "a", "x", 1, &options, NULL), BIDE_OK);
        bide_job job;
        assert_int_equal(bide_reserve(queue_, "a", BIDE_FOREVER, &job), BIDE_OK);
        assert_true(bi_clock_boot() - before >= delay * 1000);
        assert_int_equal(bide_delete(queue_, job.id, job.token), BIDE_OK);
        bide_job_clear(&job);
    }
}

static void a_nearer_deadline_wakes_the_timer_that_sleeps_for_a_farther(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = BIDE_TIME_MAX_MS;
    assert_int_equal(bide_put(queue_, "a", "far", 3, &options, NULL), BIDE_OK);
    options.delay_ms = 1;
    uint64_t near;
    assert_int_equal(bide_put(queue_, "a", "near", 4, &options, &near), BIDE_OK);
    bide_job job;
    assert_int_equal(bide_reserve(queue_, "a", BIDE_FOREVER, &job), BIDE_OK);
    assert_int_equal(job.id, near);
    bide_job_clear(&job);
}

static void a_purge_without_a_completion_queue_is_done_when_submit_returns(void **state)
{
    (void)state;
    for (int i = 0; i < 3500; i++)
        assert_int_equal(bide_put(queue_, "a", "x", 1, NULL, NULL), BIDE_OK);
    bide_op op = {.kind = BIDE_OP_PURGE, .purge = {.topic = text("a"), .state = BIDE_STATE_READY}};
    assert_int_equal(submit_one(queue_, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(op.purge.count, 3500);
}

#define OPEN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, NULL)
#define TEST(name)      cmocka_unit_test_setup_teardown(name, open_memory, close_memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN_TEST(what_the_store_has_is_there_after_opening),
        OPEN_TEST(a_store_that_does_not_start_fails_the_open_and_is_closed),
        OPEN_TEST(a_store_that_cannot_be_read_is_tried_again_while_new_jobs_are_served),
        OPEN_TEST(a_row_that_makes_no_sense_is_counted_and_set_aside),
        OPEN_TEST(a_store_that_keeps_nothing_holds_no_answer),
        TEST(an_op_that_would_wait_and_names_no_completion_queue_is_refused),
        TEST(a_refused_op_does_not_take_others_along),
        TEST(a_delay_is_never_early),
        TEST(a_nearer_deadline_wakes_the_timer_that_sleeps_for_a_farther),
        TEST(a_purge_without_a_completion_queue_is_done_when_submit_returns),
    };
    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
