/* SPDX-License-Identifier: MIT */
/*
 * Commits of unknown outcome, reopened files, full disks; and that
 * batches come to the store one at a time and in order.
 */
#include "fake_store.h"

#include <unistd.h>

static struct fake_store *fake;
static bide *queue;
static bide_cq *cq;

static int set_up(void **state)
{
    (void)state;
    fake = fake_new();
    for (uint64_t id = 1; id <= 10; id++)
        fake_row(fake, id);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:", NULL);
    fake_await_ready(queue);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fake_tear_down(fake, queue, cq);
}

/* The next commits, or all, answer so. */
static void fail_commits(int code, unsigned count)
{
    pthread_mutex_lock(&fake->lock);
    fake->commit_code = code;
    fake->commit_failures = count;
    pthread_mutex_unlock(&fake->lock);
}

static int try_put(const char *topic)
{
    return bide_put(queue, topic, "x", 1, NULL, NULL);
}

/* Puts until the queue takes jobs again. */
static void await_puts(void)
{
    unsigned arrived = gate_arrived(fake, GATE_COMMIT);
    while (try_put("again") != BIDE_OK)
        gate_await(fake, GATE_COMMIT, ++arrived);
}

static uint64_t count_ready(const char *topic)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, topic, &stats);
    return code == BIDE_OK ? stats.jobs.ready : 0;
}

/* ---- commits of unknown outcome ---- */

/* Several ops wait for a commit of unknown outcome. */
static void enter_in_doubt(bide_op ops[3])
{
    gate_shut(fake, GATE_COMMIT);
    unsigned arrived = gate_arrived(fake, GATE_COMMIT);
    ops[0] = put_op(cq, "new");
    assert_int_equal(submit_one(queue, &ops[0]), 1);
    gate_await(fake, GATE_COMMIT, arrived + 1);
    ops[1] = put_op(cq, "later"); /* for the batch after it */
    ops[2] = lease_op(cq, BIDE_OP_DELETE, 3, 0);
    assert_int_equal(submit_one(queue, &ops[1]), 1);
    assert_int_equal(submit_one(queue, &ops[2]), 1);
    fail_commits(BIDE_EUNKNOWN, FOR_EVER);
    gate_open(fake, GATE_COMMIT);
    await_completions(cq, 3);
}

static void pending_ops_complete_with_eunknown(void **state)
{
    (void)state;
    bide_op ops[3];
    enter_in_doubt(ops);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].status, BIDE_EUNKNOWN);
        assert_string_equal(ops[i].error, FAILURE);
    }
    assert_int_equal(ops[0].put.id, 0);
    fail_commits(BIDE_OK, 0);
}

static void in_doubt_queue_rejects_writes_and_answers_stats(void **state)
{
    (void)state;
    bide_op ops[3];
    enter_in_doubt(ops);
    assert_int_equal(try_put("new"), BIDE_EIO);
    assert_string_equal(bide_last_error(), FAILURE);
    assert_int_equal(bide_delete(queue, 5, 0), BIDE_EIO);
    bide_job job;
    assert_int_equal(bide_reserve(queue, "old", 0, &job), BIDE_EIO);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(bide_ping(queue), BIDE_OK);
    assert_int_equal(bide_drain(queue, true), BIDE_OK);
    assert_int_equal(bide_drain(queue, false), BIDE_OK);
    bide_topic_stats topic;
    assert_int_equal(bide_topic_get_stats(queue, "old", &topic), BIDE_OK);
    fail_commits(BIDE_OK, 0);
}

static void queue_resumes_when_in_doubt_batch_was_stored(void **state)
{
    (void)state;
    bide_op ops[3];
    enter_in_doubt(ops);
    fail_commits(BIDE_OK, 0);
    await_puts();
    assert_int_equal(count_ready("new"), 1);   /* it was in the batch */
    assert_int_equal(count_ready("later"), 1); /* and this is stored after it */
    assert_int_equal(bide_delete(queue, 3, 0), BIDE_NOT_FOUND);
    assert_int_equal(fake_stored(fake, 3).id, 0);
}

static void queue_rolls_back_when_in_doubt_batch_was_lost(void **state)
{
    (void)state;
    bide_op ops[3];
    enter_in_doubt(ops);
    fail_commits(BIDE_EIO, 1);
    await_puts();
    assert_int_equal(count_ready("new"), 0);
    assert_int_equal(count_ready("later"), 0);
    assert_int_equal(bide_delete(queue, 3, 0), BIDE_OK);
}

static void in_doubt_queue_can_be_closed(void **state)
{
    (void)state;
    bide_op ops[3];
    enter_in_doubt(ops);
    bide_slice name = text("nothing");
    bide_job job;
    memset(&job, 0, sizeof(job));
    bide_op wait = {.kind = BIDE_OP_RECOVERED, .cq = cq, .recovered = {.timeout_ms = 0}};
    assert_int_equal(submit_one(queue, &wait), 0);
    assert_int_equal(wait.status, BIDE_OK);
    bide_op reserve = reserve_op(cq, &name, &job);
    assert_int_equal(submit_one(queue, &reserve), 0);
    assert_int_equal(reserve.status, BIDE_EIO);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_int_equal(bide_cq_drain(cq, 0), 0);
}

static void waiting_reserve_survives_an_in_doubt_commit(void **state)
{
    (void)state;
    bide_slice name = text("awaited");
    bide_job job;
    bide_op reserve = reserve_op(cq, &name, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &reserve), 1);
    bide_op ops[3];
    enter_in_doubt(ops);
    assert_int_equal(reserve.status, BIDE_PENDING);
    fail_commits(BIDE_OK, 0);
    await_puts();
    assert_int_equal(try_put("awaited"), BIDE_OK);
    await_completions(cq, 1);
    assert_int_equal(reserve.status, BIDE_OK);
    bide_job_clear(&job);
}

#define WAITING_CALLS 20000

/* A step of the queue completes a bounded number of the calls that wait for one job. Those that are
 * left when the commit of its end is in doubt must not wait until the store is back. */
static void all_calls_that_wait_for_an_ended_job_complete_with_eunknown(void **state)
{
    (void)state;
    bide_op *calls = calloc(WAITING_CALLS, sizeof(*calls));
    assert_non_null(calls);
    for (size_t i = 0; i < WAITING_CALLS; i++) {
        calls[i] = (bide_op){
            .kind = BIDE_OP_WAIT, .cq = cq, .wait = {.id = 3, .timeout_ms = BIDE_FOREVER}};
        assert_int_equal(submit_one(queue, &calls[i]), 1);
    }
    fail_commits(BIDE_EUNKNOWN, FOR_EVER);
    bide_op end = lease_op(cq, BIDE_OP_DELETE, 3, 0);
    assert_int_equal(submit_one(queue, &end), 1);
    await_completions(cq, WAITING_CALLS + 1);
    for (size_t i = 0; i < WAITING_CALLS; i++)
        assert_int_equal(calls[i].status, BIDE_EUNKNOWN);
    assert_int_equal(try_put("new"), BIDE_EIO);
    fail_commits(BIDE_OK, 0);
    free(calls);
}

/* The finish is in doubt while the reserve waits for a job, and its timeout is kept. */
static void finish_and_reserve_in_doubt_ends_at_its_timeout(void **state)
{
    (void)state;
    bide_slice name = text("nothing");
    bide_job first, next;
    assert_int_equal(bide_reserve(queue, "old", 0, &first), BIDE_OK);
    bide_op op = {.kind = BIDE_OP_FINISH_AND_RESERVE, .cq = cq};
    op.finish_and_reserve.finish = (bide_finish_item){.id = first.id, .token = first.token};
    op.finish_and_reserve.reserve = (bide_reserve_args){
        .topics = &name, .topic_count = 1, .timeout_ms = 50, .jobs = &next, .job_max = 1};
    bide_job_clear(&first);
    fail_commits(BIDE_EUNKNOWN, FOR_EVER);
    assert_int_equal(submit_one(queue, &op), 1);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_EUNKNOWN);
    assert_int_equal(op.finish_and_reserve.finish.status, BIDE_EUNKNOWN);
    assert_int_equal(try_put("new"), BIDE_EIO);
    fail_commits(BIDE_OK, 0);
}

/* ---- a full disk ---- */

static void full_disk_rejects_new_jobs_only(void **state)
{
    (void)state;
    fake->base.full = true;
    assert_int_equal(try_put("new"), BIDE_EFULL);
    assert_non_null(strstr(bide_last_error(), "disk"));
    bide_put_item items[2] = {{.topic = text("new")}, {.topic = text("new")}};
    size_t accepted = 7;
    assert_int_equal(bide_put_many(queue, items, 2, &accepted), BIDE_EFULL);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(items[i].status, BIDE_EFULL);
    bide_job job;
    memset(&job, 0, sizeof(job));
    job.state = BIDE_STATE_READY;
    job.max_retries = BIDE_NO_RETRY_LIMIT;
    strcpy(job.topic, "new");
    assert_int_equal(bide_restore(queue, &job, NULL), BIDE_EFULL);
    assert_int_equal(count_ready("new"), 0);

    assert_int_equal(bide_reserve(queue, "old", 0, &job), BIDE_OK);
    assert_int_equal(bide_touch(queue, job.id, job.token, 0, NULL), BIDE_OK);
    assert_int_equal(bide_bury(queue, job.id, job.token, BIDE_KEEP, "why"), BIDE_OK);
    assert_int_equal(bide_kick_job(queue, job.id), BIDE_OK);
    assert_int_equal(bide_delete(queue, job.id, 0), BIDE_OK);
    bide_job_clear(&job);
    assert_int_equal(bide_pause(queue, "old", 1000), BIDE_OK);
    assert_int_equal(bide_resume(queue, "old"), BIDE_OK);
    fake->base.full = false;
    assert_int_equal(try_put("new"), BIDE_OK);
}

/* ---- files that were opened again ---- */

static void reopen_at_next_commit(void)
{
    pthread_mutex_lock(&fake->lock);
    fake->reopens = true;
    pthread_mutex_unlock(&fake->lock);
}

/* Everything is compared while the queue serves: a difference is found in the end. */
static void await_refusal(void)
{
    int code = BIDE_OK;
    for (int i = 0; i < 10000 && code == BIDE_OK; i++) {
        code = bide_delete(queue, 999999, 0);
        code = code == BIDE_NOT_FOUND ? BIDE_OK : code;
        usleep(1000);
    }
    assert_int_equal(code, BIDE_EIO);
    assert_non_null(strstr(bide_last_error(), "does not hold what was acknowledged"));
    assert_int_equal(try_put("new"), BIDE_EIO);
    assert_int_equal(bide_delete(queue, 1, 0), BIDE_EIO);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
}

static void reopened_store_with_all_jobs_stays_in_use(void **state)
{
    (void)state;
    for (int stored = 0; stored < 2; stored++) {
        /* The commit in which they were opened again turned out to be stored, or not. */
        unsigned scans = gate_arrived(fake, GATE_SCAN);
        unsigned fetches = gate_arrived(fake, GATE_FETCH);
        reopen_at_next_commit();
        fail_commits(BIDE_EIO, stored ? 0 : 1);
        assert_int_equal(try_put("new"), stored ? BIDE_OK : BIDE_EIO);
        assert_true(gate_arrived(fake, GATE_FETCH) > fetches); /* the batch was compared at once */
        assert_int_equal(try_put("new"), BIDE_OK);
        gate_await(fake, GATE_SCAN, scans + 1); /* and everything in the end */
    }
    assert_int_equal(count_ready("new"), 3);
}

static void full_verify_runs_while_the_queue_serves(void **state)
{
    (void)state;
    unsigned scans = gate_arrived(fake, GATE_SCAN);
    gate_shut(fake, GATE_SCAN);
    reopen_at_next_commit();
    assert_int_equal(try_put("new"), BIDE_OK);
    gate_await(fake, GATE_SCAN, scans + 1);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(try_put("new"), BIDE_OK);
        assert_int_equal(bide_delete(queue, id, 0), BIDE_OK);
    }
    gate_open(fake, GATE_SCAN);
    gate_await(fake, GATE_SCANNED, scans + 1);
    assert_int_equal(try_put("new"), BIDE_OK);
}

/* While the rows of a stored batch are compared, so many batches gather that the last one has the
 * slot of that batch in local->held. */
static void ops_of_a_later_batch_wait_while_a_batch_is_compared(void **state)
{
    (void)state;
    tear_down(NULL);
    fake = fake_new();
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:?batch_jobs=1", NULL);
    fake_await_ready(queue);
    unsigned commits = gate_arrived(fake, GATE_COMMIT), fetches = gate_arrived(fake, GATE_FETCH);
    gate_set(fake, GATE_COMMIT, true, 1);
    gate_shut(fake, GATE_FETCH);
    reopen_at_next_commit();

    static bide_op ops[1 + BI_BATCHES_MAX];
    ops[0] = put_op(cq, "new");
    assert_int_equal(submit_one(queue, &ops[0]), 1);
    gate_await(fake, GATE_FETCH, fetches + 1);
    for (size_t i = 1; i < COUNT_OF(ops); i++) {
        ops[i] = put_op(cq, "new");
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    }

    gate_open(fake, GATE_FETCH);
    gate_await(fake, GATE_COMMIT, commits + 2);
    await_completions(cq, 1);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    assert_int_equal(ops[0].status, BIDE_OK);
    assert_int_equal(ops[BI_BATCHES_MAX].status, BIDE_PENDING);
    gate_open(fake, GATE_COMMIT);
    await_completions(cq, BI_BATCHES_MAX);
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        assert_int_equal(ops[i].status, BIDE_OK);
}

static void rolled_back_op_completes_before_the_batch_is_compared(void **state)
{
    (void)state;
    unsigned fetches = gate_arrived(fake, GATE_FETCH);
    gate_shut(fake, GATE_FETCH);
    reopen_at_next_commit();
    fail_commits(BIDE_EIO, 1);
    bide_op op = put_op(cq, "new");
    assert_int_equal(submit_one(queue, &op), 1);
    gate_await(fake, GATE_FETCH, fetches + 1);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(op.status, BIDE_EIO);
    gate_open(fake, GATE_FETCH);
    assert_int_equal(try_put("new"), BIDE_OK);
}

static void unreadable_rows_of_the_batch_are_read_again(void **state)
{
    (void)state;
    pthread_mutex_lock(&fake->lock);
    fake->fetch_code = BIDE_EIO;
    fake->reopens = true;
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    unsigned fetches = gate_arrived(fake, GATE_FETCH);
    assert_int_equal(try_put("new"), BIDE_EIO);
    bide_op op = put_op(cq, "new");
    assert_int_equal(submit_one(queue, &op), 1);
    gate_await(fake, GATE_FETCH, fetches + 4);
    assert_int_equal(bide_cq_drain(cq, 0), 0); /* nothing is acknowledged before it is compared */
    pthread_mutex_lock(&fake->lock);
    fake->fetch_code = BIDE_OK;
    pthread_mutex_unlock(&fake->lock);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(count_ready("new"), 1);
}

static void lost_job_of_the_batch_stops_writes_at_once(void **state)
{
    (void)state;
    pthread_mutex_lock(&fake->lock);
    fake_drop(fake, 7);
    fake->reopens = true;
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(bide_delete(queue, 7, 0), BIDE_EIO);
    assert_int_equal(try_put("new"), BIDE_EIO);
    assert_non_null(strstr(bide_last_error(), "job 7: it is not stored"));
    await_refusal();
}

static void lost_job_stops_writes(void **state)
{
    (void)state;
    pthread_mutex_lock(&fake->lock);
    fake_drop(fake, 7);
    fake->reopens = true;
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(try_put("new"), BIDE_EIO);
    await_refusal();
}

static void stale_row_stops_writes(void **state)
{
    (void)state;
    pthread_mutex_lock(&fake->lock);
    fake->rows[7]->image.priority = 3;
    fake->reopens = true;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(try_put("new"), BIDE_OK); /* it is stored all the same */
    await_refusal();
}

static void resurrected_job_stops_writes(void **state)
{
    (void)state;
    assert_int_equal(bide_delete(queue, 7, 0), BIDE_OK);
    pthread_mutex_lock(&fake->lock);
    fake_row(fake, 7); /* a delete that came back */
    fake->reopens = true;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(try_put("new"), BIDE_OK);
    await_refusal();
}

/* ---- one at a time, in order ---- */

enum { THREADS = 8, PUTS = 60 };

static void *put_many_times(void *arg)
{
    const char *topic = arg;
    for (int i = 0; i < PUTS; i++) {
        uint64_t id;
        assert(bide_put(queue, topic, "x", 1, NULL, &id) == BIDE_OK);
        assert(i % 3 != 0 || bide_delete(queue, id, 0) == BIDE_OK);
    }
    return NULL;
}

static void concurrent_leaders_commit_one_batch_at_a_time(void **state)
{
    (void)state;
    tear_down(NULL);
    fake = fake_new();
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:?batch_jobs=3", NULL);
    pthread_t threads[THREADS];
    static char topics[THREADS][2];
    for (int i = 0; i < THREADS; i++) {
        topics[i][0] = (char)('a' + i);
        pthread_create(&threads[i], NULL, put_many_times, topics[i]);
    }
    static bide_op ops[200]; /* and some that do not wait */
    memset(ops, 0, sizeof(ops));
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        ops[i] = put_op(cq, "async");
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    }
    await_completions(cq, COUNT_OF(ops));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, THREADS * PUTS * 2 / 3 + COUNT_OF(ops));
    uint64_t stored = 0;
    for (uint64_t id = 1; id < FAKE_ROWS; id++)
        stored += fake_stored(fake, id).id != 0;
    assert_int_equal(stored, stats.jobs.ready);
    assert_true(fake->largest <= 3);
    /* fake_free() asserts that no two were there at once, and none before an earlier one */
}

static void batches_of_one_submit_commit_in_order(void **state)
{
    (void)state;
    tear_down(NULL);
    fake = fake_new();
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:?batch_jobs=2", NULL);
    fake_await_ready(queue);
    unsigned arrived = gate_arrived(fake, GATE_COMMIT);
    gate_shut(fake, GATE_COMMIT);
    bide_op ops[10];
    bide_op *list[10];
    for (size_t i = 0; i < 10; i++) {
        ops[i] = put_op(cq, "new");
        list[i] = &ops[i];
    }
    assert_int_equal(bide_submit(queue, list, 10), 10);
    for (unsigned batch = 1; batch <= 5; batch++) {
        gate_await(fake, GATE_COMMIT, arrived + batch);
        gate_set(fake, GATE_COMMIT, true, 1);
        await_completions(cq, 2);
        for (size_t i = 0; i < 10; i++)
            assert_int_equal(ops[i].status, i < 2 * batch ? BIDE_OK : BIDE_PENDING);
    }
}

static void failed_batch_fails_all_later_batches(void **state)
{
    (void)state;
    tear_down(NULL);
    fake = fake_new();
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:?batch_jobs=2", NULL);
    fake_await_ready(queue);
    unsigned arrived = gate_arrived(fake, GATE_COMMIT);
    gate_shut(fake, GATE_COMMIT);
    bide_op ops[10];
    bide_op *list[10];
    for (size_t i = 0; i < 10; i++) {
        ops[i] = put_op(cq, "new");
        list[i] = &ops[i];
    }
    assert_int_equal(bide_submit(queue, list, 10), 10);
    gate_await(fake, GATE_COMMIT, arrived + 1);
    gate_set(fake, GATE_COMMIT, true, 1);
    await_completions(cq, 2);
    gate_await(fake, GATE_COMMIT, arrived + 2);
    fail_commits(BIDE_EIO, 1);
    gate_open(fake, GATE_COMMIT);
    await_completions(cq, 8);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(ops[i].status, i < 2 ? BIDE_OK : BIDE_EIO);
    assert_int_equal(count_ready("new"), 2);
    assert_int_equal(try_put("new"), BIDE_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pending_ops_complete_with_eunknown),
        TEST(in_doubt_queue_rejects_writes_and_answers_stats),
        TEST(queue_resumes_when_in_doubt_batch_was_stored),
        TEST(queue_rolls_back_when_in_doubt_batch_was_lost),
        TEST(in_doubt_queue_can_be_closed),
        TEST(waiting_reserve_survives_an_in_doubt_commit),
        TEST(all_calls_that_wait_for_an_ended_job_complete_with_eunknown),
        TEST(finish_and_reserve_in_doubt_ends_at_its_timeout),
        TEST(full_disk_rejects_new_jobs_only),
        TEST(reopened_store_with_all_jobs_stays_in_use),
        TEST(full_verify_runs_while_the_queue_serves),
        TEST(ops_of_a_later_batch_wait_while_a_batch_is_compared),
        TEST(rolled_back_op_completes_before_the_batch_is_compared),
        TEST(unreadable_rows_of_the_batch_are_read_again),
        TEST(lost_job_of_the_batch_stops_writes_at_once),
        TEST(lost_job_stops_writes),
        TEST(stale_row_stops_writes),
        TEST(resurrected_job_stops_writes),
        TEST(concurrent_leaders_commit_one_batch_at_a_time),
        TEST(batches_of_one_submit_commit_in_order),
        TEST(failed_batch_fails_all_later_batches),
    };
    return cmocka_run_group_tests_name("doubt", tests, NULL, NULL);
}
