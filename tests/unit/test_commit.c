/* SPDX-License-Identifier: MIT */
/*
 * Apply, commit, answer: the local backend on a store that is slow and fails on demand.
 */
#include "slow_store.h"

#include <semaphore.h>
#include <stdatomic.h>

/* How long a test that fails waits. */
#define PATIENCE_MS 5000

static bide *queue;
static struct slow_store *slow;
static bide_cq *cq;

static int set_up_with(const char *url)
{
    queue = slow_open(url, &slow);
    return bide_cq_new(&cq);
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with("slow:");
}

static int tear_down(void **state)
{
    (void)state;
    if (queue != NULL) {
        slow_set(slow, false, 0);
        bide_close(queue);
        queue = NULL;
    }
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

static bide_stats stats(void)
{
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    return stats;
}

static uint64_t put_stored(const char *topic)
{
    uint64_t id;
    assert_int_equal(bide_put(queue, topic, "body", 4, NULL, &id), BIDE_OK);
    return id;
}

static uint64_t take_stored(const char *topic, uint64_t *token)
{
    bide_job job;
    assert_int_equal(bide_reserve(queue, topic, 0, &job), BIDE_OK);
    uint64_t id = job.id;
    *token = job.token;
    bide_job_clear(&job);
    return id;
}

/* ---- holding ---- */

static void reply_is_held_until_its_batch_is_stored(void **state)
{
    (void)state;
    slow_set(slow, true, 0);
    bide_op op = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &op), 1);
    slow_await(slow, 2);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    assert_int_equal(op.status, BIDE_PENDING);
    assert_int_equal(stats().jobs.ready, 1); /* figures are not held */
    slow_permit(slow);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_not_equal(op.put.id, 0);
    assert_int_equal(slow_jobs(slow), 1);
}

/* What a watchdog looks at. */
static void commit_age_grows_while_a_commit_hangs(void **state)
{
    (void)state;
    slow_set(slow, true, 0);
    bide_op op = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &op), 1);
    slow_await(slow, 2);
    int64_t first = bi_queue_commit_age(queue);
    assert_true(first > 0);
    while (bi_queue_commit_age(queue) <= first)
        continue;
    slow_permit(slow);
    await_completions(cq, 1);
    assert_int_equal(bi_queue_commit_age(queue), 0);
}

static void blocking_call_returns_when_its_batch_is_stored(void **state)
{
    (void)state;
    uint64_t id = put_stored("a");
    assert_int_equal(slow_jobs(slow), 1);
    assert_int_equal(bide_delete(queue, id, 0), BIDE_OK);
    assert_int_equal(slow_jobs(slow), 0);
}

static void a_reserve_of_a_job_just_put_is_held_with_it(void **state)
{
    (void)state;
    slow_set(slow, true, 0);
    bide_slice topic = text("a");
    bide_job job;
    bide_op put = put_op(cq, "a");
    bide_op reserve = reserve_op(cq, &topic, &job);
    bide_op *list[] = {&put, &reserve};
    assert_int_equal(bide_submit(queue, list, 2), 2);
    slow_await(slow, 2);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    slow_permit(slow);
    await_completions(cq, 2);
    assert_int_equal(put.status, BIDE_OK);
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(job.id, put.put.id);
    bide_job_clear(&job);
}

static void a_reserve_that_waits_is_held_with_the_put_that_serves_it(void **state)
{
    (void)state;
    slow_set(slow, true, 0);
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = reserve_op(cq, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &reserve), 1);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &put), 1);
    slow_await(slow, 2);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    slow_permit(slow);
    await_completions(cq, 2);
    assert_int_equal(reserve.status, BIDE_OK);
    bide_job_clear(&job);
}

static void a_second_delete_is_held_with_the_first(void **state)
{
    (void)state;
    uint64_t id = put_stored("a");
    slow_set(slow, true, 0);
    bide_op first = lease_op(cq, BIDE_OP_DELETE, id, 0);
    bide_op second = lease_op(cq, BIDE_OP_DELETE, id, 0);
    assert_int_equal(submit_one(queue, &first), 1);
    slow_await(slow, 3);
    assert_int_equal(submit_one(queue, &second), 1);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    slow_permit(slow);
    await_completions(cq, 2);
    assert_int_equal(first.status, BIDE_OK);
    assert_int_equal(second.status, BIDE_NOT_FOUND);
}

static void ops_on_stored_jobs_complete_at_once(void **state)
{
    (void)state;
    uint64_t id = put_stored("a");
    put_stored("a");
    slow_set(slow, true, 0);
    bide_op other = put_op(cq, "b");
    assert_int_equal(submit_one(queue, &other), 1);
    slow_await(slow, 4);
    bide_job job;
    assert_int_equal(bide_peek(queue, id, &job), BIDE_OK);
    bide_job_clear(&job);
    uint64_t token;
    assert_int_equal(take_stored("a", &token), id);
    assert_int_equal(bide_touch(queue, id, token, 0, NULL), BIDE_OK);
    assert_int_equal(other.status, BIDE_PENDING);
    slow_permit(slow);
    await_completions(cq, 1);
}

static void next_batch_gathers_while_one_is_written(void **state)
{
    (void)state;
    enum { MANY = 100 };
    static bide_op ops[MANY];
    slow_set(slow, true, 0);
    bide_op first = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &first), 1);
    slow_await(slow, 2);
    for (int i = 0; i < MANY; i++) {
        ops[i] = put_op(cq, "a");
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    }
    assert_int_equal(slow_started(slow), 2);
    slow_permit(slow);
    slow_await(slow, 3);
    await_completions(cq, 1);
    assert_int_equal(first.status, BIDE_OK);
    assert_int_equal(ops[0].status, BIDE_PENDING);
    slow_permit(slow);
    await_completions(cq, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(ops[i].status, BIDE_OK);
    assert_int_equal(slow_started(slow), 3);
    assert_int_equal(slow_last_count(slow), MANY);
}

static void held_op_without_completion_queue_is_rejected(void **state)
{
    (void)state;
    bide_op op = put_op(NULL, "a");
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_EINVAL);
    assert_true(strlen(op.error) > 0);
    assert_int_equal(stats().jobs.ready, 0);
    bide_stats figures;
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {.stats = &figures}};
    assert_int_equal(submit_one(queue, &look), 0);
    assert_int_equal(look.status, BIDE_OK);
    bide_op ping = {.kind = BIDE_OP_PING};
    assert_int_equal(submit_one(queue, &ping), 0);
    assert_int_equal(ping.status, BIDE_OK);
}

/* ---- a commit fails ---- */

static void failed_put_reports_the_error_and_leaves_no_job(void **state)
{
    (void)state;
    slow_set(slow, false, 1);
    uint64_t id = 77;
    assert_int_equal(bide_put(queue, "a", "body", 4, NULL, &id), BIDE_EIO);
    assert_string_equal(bide_last_error(), FAILURE);
    assert_int_equal(id, 77); /* a failed call leaves what it would set */
    assert_int_equal(stats().jobs.ready, 0);
    assert_int_equal(stats().topics, 0);
    assert_int_not_equal(put_stored("a"), 0);
}

static void failed_delete_leaves_the_job_leased(void **state)
{
    (void)state;
    put_stored("a");
    uint64_t token;
    uint64_t id = take_stored("a", &token);
    slow_set(slow, false, 1);
    assert_int_equal(bide_delete(queue, id, token), BIDE_EIO);
    bide_job job;
    assert_int_equal(bide_peek(queue, id, &job), BIDE_OK);
    assert_int_equal(job.state, BIDE_STATE_RESERVED);
    bide_job_clear(&job);
    assert_int_equal(bide_delete(queue, id, token), BIDE_OK);
    assert_int_equal(slow_jobs(slow), 0);
}

static void failed_batch_rolls_back_everything_after_it(void **state)
{
    (void)state;
    uint64_t kept = put_stored("a");
    slow_set(slow, true, 1);
    bide_op flying = put_op(cq, "b");
    assert_int_equal(submit_one(queue, &flying), 1);
    slow_await(slow, 3);
    bide_op gathering[3] = {put_op(cq, "b"), lease_op(cq, BIDE_OP_DELETE, kept, 0),
                            lease_op(cq, BIDE_OP_DELETE, kept, 0)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(submit_one(queue, &gathering[i]), 1);
    slow_permit(slow);
    await_completions(cq, 4);
    assert_int_equal(flying.status, BIDE_EIO);
    assert_string_equal(flying.error, FAILURE);
    assert_int_equal(flying.put.id, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gathering[i].status, BIDE_EIO);
    assert_int_equal(stats().jobs.ready, 1);
    slow_set(slow, false, 0);
    assert_int_equal(bide_delete(queue, kept, 0), BIDE_OK);
    put_stored("b");
    assert_int_equal(slow_jobs(slow), 1);
}

static void commits_recover_after_repeated_failures(void **state)
{
    (void)state;
    slow_set(slow, false, 3);
    int failed = 0;
    uint64_t id;
    while (bide_put(queue, "a", "body", 4, NULL, &id) != BIDE_OK)
        failed++;
    assert_in_range(failed, 1, 3);
    assert_int_equal(stats().jobs.ready, 1);
    assert_int_equal(slow_jobs(slow), 1);
}

static void a_failed_list_of_puts_has_the_error_in_every_item(void **state)
{
    (void)state;
    bide_put_item items[3] = {{.topic = text("a"), .body = text("1")},
                              {.topic = text("bad topic"), .body = text("2")},
                              {.topic = text("a"), .body = text("3")}};
    slow_set(slow, false, 1);
    size_t accepted = 9;
    assert_int_equal(bide_put_many(queue, items, 3, &accepted), BIDE_EIO);
    assert_int_equal(items[0].status, BIDE_EIO);
    assert_int_equal(items[1].status, BIDE_EINVAL);
    assert_int_equal(items[2].status, BIDE_EIO);
    assert_int_equal(stats().jobs.ready, 0);
}

/* ---- too much is pending ---- */

static void max_pending_ops_is_enforced(void **state)
{
    (void)state;
    tear_down(NULL);
    set_up_with("slow:?max_pending_ops=3");
    slow_set(slow, true, 0);
    static bide_op ops[5];
    bide_op *list[5];
    for (int i = 0; i < 5; i++) {
        ops[i] = put_op(cq, "a");
        list[i] = &ops[i];
    }
    assert_int_equal(bide_submit(queue, list, 5), 3);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ops[i].status, i < 3 ? BIDE_PENDING : BIDE_EBUSY);
    assert_int_equal(stats().jobs.ready, 3); /* a refused one has changed nothing */
    slow_set(slow, false, 0);
    await_completions(cq, 3);
    assert_int_equal(submit_one(queue, &ops[4]), 1);
    await_completions(cq, 1);
    assert_int_equal(ops[4].status, BIDE_OK);
}

static void max_pending_bytes_is_enforced(void **state)
{
    (void)state;
    static char body[600];
    tear_down(NULL);
    set_up_with("slow:?max_pending_bytes=1KiB");
    slow_set(slow, true, 0);
    static bide_op ops[3];
    for (int i = 0; i < 3; i++) {
        ops[i] = put_op(cq, "a");
        ops[i].put.body = (bide_slice){body, sizeof(body)};
        assert_int_equal(submit_one(queue, &ops[i]), i < 2 ? 1 : 0);
    }
    assert_int_equal(ops[2].status, BIDE_EBUSY);
    slow_set(slow, false, 0);
    await_completions(cq, 2);
    assert_int_equal(submit_one(queue, &ops[2]), 1);
    await_completions(cq, 1);
    assert_int_equal(ops[2].status, BIDE_OK);
}

/* A result in a buffer of the caller takes memory until it is stored, as a copied one does. */
static void results_in_buffers_count_as_pending_bytes(void **state)
{
    (void)state;
    static char bytes[600];
    tear_down(NULL);
    set_up_with("slow:?max_pending_bytes=1KiB");
    bide_buf *result = bide_buf_new(bytes, sizeof(bytes));
    static bide_op ops[3];
    uint64_t ids[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &ids[i]), BIDE_OK);
    slow_set(slow, true, 0);
    for (int i = 0; i < 3; i++) {
        ops[i] = (bide_op){.kind = BIDE_OP_DONE,
                           .cq = cq,
                           .finish = {.id = ids[i], .buf = result, .retain_ms = 60000}};
        assert_int_equal(submit_one(queue, &ops[i]), i < 2 ? 1 : 0);
    }
    assert_int_equal(ops[2].status, BIDE_EBUSY);
    slow_set(slow, false, 0);
    await_completions(cq, 2);
    bide_buf_unref(result);
}

static atomic_int returned;

static void *put_blocking(void *arg)
{
    (void)arg;
    int code = bide_put(queue, "a", "body", 4, NULL, NULL);
    atomic_fetch_add(&returned, 1);
    return (void *)(intptr_t)code;
}

static void blocking_calls_wait_at_the_pending_limit(void **state)
{
    (void)state;
    tear_down(NULL);
    set_up_with("slow:?max_pending_ops=1");
    slow_set(slow, true, 0);
    atomic_store(&returned, 0);
    bide_op op = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &op), 1);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_blocking, NULL), 0);
    slow_await(slow, 2);
    assert_int_equal(atomic_load(&returned), 0);
    slow_set(slow, false, 0);
    for (int i = 0; i < 3; i++) {
        void *code;
        pthread_join(threads[i], &code);
        assert_int_equal((intptr_t)code, BIDE_OK);
    }
    await_completions(cq, 1);
    assert_int_equal(stats().jobs.ready, 4);
}

/* ---- closing ---- */

static void *close_queue(void *arg)
{
    (void)arg;
    int code = bide_close(queue);
    atomic_fetch_add(&returned, 1);
    return (void *)(intptr_t)code;
}

static void close_waits_for_the_commit_and_completes_everything(void **state)
{
    (void)state;
    bool closed = false;
    slow->closed = &closed;
    slow_set(slow, true, 0);
    atomic_store(&returned, 0);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &put), 1);
    slow_await(slow, 2);
    bide_op second = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &second), 1);
    bide_slice topic = text("b");
    bide_job job;
    bide_op reserve = reserve_op(cq, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &reserve), 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_queue, NULL), 0);
    await_completions(cq, 1); /* what only waits is answered before the commit is done */
    assert_int_equal(reserve.status, BIDE_CLOSED);
    assert_int_equal(atomic_load(&returned), 0);
    assert_int_equal(put.status, BIDE_PENDING);
    slow_set(slow, false, 0);
    void *code;
    pthread_join(thread, &code);
    queue = NULL;
    assert_int_equal((intptr_t)code, BIDE_OK);
    assert_true(closed);
    assert_int_equal(bide_cq_drain(cq, 0), 2);
    assert_int_equal(put.status, BIDE_OK);
    assert_int_equal(second.status, BIDE_OK);
}

static void shutdown_does_not_affect_a_pending_commit(void **state)
{
    (void)state;
    slow_set(slow, true, 0);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &put), 1);
    slow_await(slow, 2);
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    slow_set(slow, false, 0);
    await_completions(cq, 1);
    assert_int_equal(put.status, BIDE_OK);
    assert_int_equal(slow_jobs(slow), 1);
}

static void close_returns_when_every_commit_fails(void **state)
{
    (void)state;
    uint64_t id = put_stored("a");
    slow_set(slow, true, FOR_EVER);
    bide_op ops[3] = {put_op(cq, "a"), put_op(cq, "b"), lease_op(cq, BIDE_OP_DELETE, id, 0)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    slow_await(slow, 3);
    slow_set(slow, false, FOR_EVER);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_int_equal(bide_cq_drain(cq, 0), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ops[i].status, BIDE_EIO);
}

/* A call that waits for room, behind another op of its list. */
static void *put_behind(void *arg)
{
    bide_op *list[2] = {arg, NULL};
    bide_op put = put_op(NULL, "a");
    sem_t stored;
    sem_init(&stored, 0, 0);
    put.status = BIDE_PENDING;
    put.private_.wake = &stored;
    list[1] = &put;
    list[0]->status = BIDE_PENDING;
    if (queue->backend->ops->submit(queue->backend, list, 2) > 0)
        sem_wait(&stored);
    sem_destroy(&stored);
    return NULL;
}

static void completions_are_delivered_before_a_caller_waits(void **state)
{
    (void)state;
    tear_down(state);
    assert_int_equal(set_up_with("slow:?max_pending_ops=1"), BIDE_OK);
    bide_subscription *feed;
    assert_int_equal(bide_subscribe(queue, NULL, 1u << BIDE_EVENT_KICKED, 0, &feed), BIDE_OK);
    bide_event event;
    bide_op events = {
        .kind = BIDE_OP_EVENTS,
        .cq = cq,
        .subscription = {
            .handle = feed, .timeout_ms = BIDE_FOREVER, .events = &event, .event_max = 1}};
    assert_int_equal(submit_one(queue, &events), 1);
    slow_set(slow, true, 0);
    bide_op put = put_op(cq, "a");
    unsigned started = slow_started(slow);
    assert_int_equal(submit_one(queue, &put), 1);
    slow_await(slow, started + 1);
    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE, .subscription = {.handle = feed}};
    pthread_t thread;
    pthread_create(&thread, NULL, put_behind, &end);
    int told = bide_cq_wait(cq, PATIENCE_MS); /* the put is still held */
    slow_set(slow, false, 0);
    pthread_join(thread, NULL);
    assert_int_equal(told, 1);
    assert_int_equal(events.status, BIDE_CANCELLED);
    await_completions(cq, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reply_is_held_until_its_batch_is_stored),
        TEST(commit_age_grows_while_a_commit_hangs),
        TEST(blocking_call_returns_when_its_batch_is_stored),
        TEST(a_reserve_of_a_job_just_put_is_held_with_it),
        TEST(a_reserve_that_waits_is_held_with_the_put_that_serves_it),
        TEST(a_second_delete_is_held_with_the_first),
        TEST(ops_on_stored_jobs_complete_at_once),
        TEST(next_batch_gathers_while_one_is_written),
        TEST(held_op_without_completion_queue_is_rejected),
        TEST(failed_put_reports_the_error_and_leaves_no_job),
        TEST(failed_delete_leaves_the_job_leased),
        TEST(failed_batch_rolls_back_everything_after_it),
        TEST(commits_recover_after_repeated_failures),
        TEST(a_failed_list_of_puts_has_the_error_in_every_item),
        TEST(max_pending_ops_is_enforced),
        TEST(max_pending_bytes_is_enforced),
        TEST(results_in_buffers_count_as_pending_bytes),
        TEST(blocking_calls_wait_at_the_pending_limit),
        TEST(close_waits_for_the_commit_and_completes_everything),
        TEST(shutdown_does_not_affect_a_pending_commit),
        TEST(close_returns_when_every_commit_fails),
        TEST(completions_are_delivered_before_a_caller_waits),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
