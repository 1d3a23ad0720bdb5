/* SPDX-License-Identifier: MIT */
/*
 * Answers that were held and then taken back: what they had brought is gone, nothing leaks (which
 * the address sanitizer sees), and ops that work in slices survive a commit that fails.
 */
#include "slow_store.h"

static bide *queue;
static struct slow_store *slow;
static bide_cq *cq;

static int set_up(void **state)
{
    (void)state;
    queue = slow_open("slow:?seed=1", &slow);
    return bide_cq_new(&cq);
}

static int tear_down(void **state)
{
    (void)state;
    slow_set(slow, false, 0);
    bide_close(queue);
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

/* Puts a job, in a batch that will fail, and the op behind it, which sees the job. */
static void fail_together(bide_op *put, bide_op *op)
{
    bide_op *list[] = {put, op};
    slow_set(slow, true, 1);
    assert_int_equal(bide_submit(queue, list, 2), 2);
    slow_set(slow, false, 1);
    await_completions(cq, 2);
    assert_int_equal(put->status, BIDE_EIO);
    assert_int_equal(op->status, BIDE_EIO);
    assert_string_equal(op->error, FAILURE);
}

/* The id that the next put gets. */
static uint64_t next_id(void)
{
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    return stats.last_id + 1;
}

static void holds_nothing(const bide_job *job)
{
    assert_int_equal(job->id, 0);
    assert_null(job->body);
    for (size_t i = 0; i < COUNT_OF(job->bufs_); i++)
        assert_null(job->bufs_[i]);
}

static void failed_commit_revokes_a_reserve_and_its_jobs(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job jobs[3];
    memset(jobs, 0, sizeof(jobs));
    bide_op put = put_op(cq, "a");
    bide_op reserve = reserve_op(cq, &topic, jobs);
    reserve.reserve.job_max = 3;
    fail_together(&put, &reserve);
    assert_int_equal(reserve.reserve.count, 0);
    holds_nothing(&jobs[0]);
}

static void failed_commit_revokes_a_reserve_that_waited(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job job = {0};
    bide_op reserve = reserve_op(cq, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &reserve), 1);
    slow_set(slow, false, 1);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &put), 1);
    await_completions(cq, 2);
    assert_int_equal(put.status, BIDE_EIO);
    assert_int_equal(reserve.status, BIDE_EIO);
    holds_nothing(&job);
}

static void failed_commit_revokes_queries_and_their_snapshots(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = text("key");
    for (int i = 0; i < 4; i++) {
        bide_job job = {0};
        bide_op put = put_op(cq, "a");
        put.put.options = &options;
        bide_op look = {.cq = cq,
                        .query = {.id = next_id(),
                                  .topic = text("a"),
                                  .key = text("key"),
                                  .state = BIDE_STATE_READY,
                                  .job = &job}};
        look.kind =
            (bide_op_kind[]){BIDE_OP_PEEK, BIDE_OP_PEEK_FIRST, BIDE_OP_FIND, BIDE_OP_JOB_STATS}[i];
        fail_together(&put, &look);
        holds_nothing(&job);
    }
}

static void failed_commit_revokes_reserve_job(void **state)
{
    (void)state;
    bide_job job = {0};
    bide_op put = put_op(cq, "a");
    bide_op take = {
        .kind = BIDE_OP_RESERVE_JOB, .cq = cq, .reserve_job = {.id = next_id(), .job = &job}};
    fail_together(&put, &take);
    holds_nothing(&job);
}

static void failed_commit_revokes_body_and_result(void **state)
{
    (void)state;
    bide_op put = put_op(cq, "a");
    bide_op body = {.kind = BIDE_OP_BODY, .cq = cq, .fetch = {.id = next_id()}};
    fail_together(&put, &body);
    assert_null(body.fetch.buf);
    uint64_t id;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_OK);
    bide_op done = {.kind = BIDE_OP_DONE,
                    .cq = cq,
                    .finish = {.id = id, .result = text("result"), .retain_ms = 60000}};
    bide_op result = {.kind = BIDE_OP_RESULT, .cq = cq, .fetch = {.id = id}};
    fail_together(&done, &result);
    assert_null(result.fetch.buf);
    assert_int_equal(bide_done(queue, id, 0, "again", 5, 60000), BIDE_OK);
}

static void failed_commit_revokes_wait(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_OK);
    bide_op waits[2];
    for (int i = 0; i < 2; i++)
        waits[i] = (bide_op){
            .kind = BIDE_OP_WAIT, .cq = cq, .wait = {.id = id, .timeout_ms = BIDE_FOREVER}};
    assert_int_equal(submit_one(queue, &waits[0]), 1); /* one before the end of the job, */
    bide_op done = {.kind = BIDE_OP_DONE,
                    .cq = cq,
                    .finish = {.id = id, .result = text("result"), .retain_ms = 60000}};
    slow_set(slow, true, 1);
    bide_op *list[] = {&done, &waits[1]}; /* and one after it */
    assert_int_equal(bide_submit(queue, list, 2), 2);
    slow_set(slow, false, 1);
    await_completions(cq, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waits[i].status, BIDE_EIO);
        assert_null(waits[i].wait.result);
    }
}

static void failed_commit_revokes_fail_and_kick(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_OK);
    assert_int_equal(bide_bury(queue, id, 0, BIDE_KEEP, "set aside"), BIDE_OK);
    slow_set(slow, false, 1);
    uint64_t count = 55;
    assert_int_equal(bide_kick(queue, "a", 10, &count), BIDE_EIO);
    bide_job job;
    assert_int_equal(bide_peek(queue, id, &job), BIDE_OK);
    assert_int_equal(job.state, BIDE_STATE_BURIED);
    bide_job_clear(&job);
}

static void failed_commit_revokes_finish_and_reserve(void **state)
{
    (void)state;
    uint64_t first;
    uint64_t second;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &first), BIDE_OK);
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &second), BIDE_OK);
    bide_job job = {0};
    assert_int_equal(bide_reserve(queue, "a", 0, &job), BIDE_OK);
    uint64_t token = job.token;
    bide_job_clear(&job);
    slow_set(slow, false, 1);
    bide_slice topic = text("a");
    bide_finish_item finish = {.id = first, .token = token};
    bide_reserve_args args = {.topics = &topic, .topic_count = 1, .jobs = &job, .job_max = 1};
    assert_int_equal(bide_finish_and_reserve(queue, &finish, &args), BIDE_EIO);
    assert_int_equal(finish.status, BIDE_EIO);
    assert_null(job.body);
    assert_int_equal(bide_delete(queue, first, token), BIDE_OK);
}

/* The reserve finds no job, so the room for jobs, which still has the one that is finished, and its
 * count stay as the caller has left them. */
static void failed_commit_leaves_the_jobs_of_a_finish_and_reserve_that_found_none(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_OK);
    bide_job job = {0};
    bide_slice topic = text("a");
    bide_reserve_args args = {.topics = &topic, .topic_count = 1, .jobs = &job, .job_max = 1};
    assert_int_equal(bide_reserve_many(queue, &args), BIDE_OK);
    assert_int_equal(args.count, 1);

    slow_set(slow, false, 1);
    bide_finish_item finish = {.id = id, .token = job.token};
    assert_int_equal(bide_finish_and_reserve(queue, &finish, &args), BIDE_EIO);
    assert_int_equal(finish.status, BIDE_EIO);
    assert_int_equal(args.count, 1);
    assert_int_equal(job.id, id);
    assert_non_null(job.body);
    assert_int_equal(bide_delete(queue, job.id, job.token), BIDE_OK);
    bide_job_clear(&job);
}

static void event_stream_omits_rolled_back_changes(void **state)
{
    (void)state;
    bide_subscription *feed;
    assert_int_equal(bide_subscribe(queue, "a", 0, 0, &feed), BIDE_OK);
    slow_set(slow, false, 1);
    uint64_t id;
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_EIO);
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, &id), BIDE_OK);
    bide_event events[4];
    size_t count;
    assert_int_equal(bide_events(queue, feed, 0, events, 4, &count, NULL), BIDE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(events[0].id, id);
    assert_int_equal(bide_unsubscribe(queue, feed), BIDE_OK);
}

/* ---- slices ---- */

/* Whatever slice the failure hits: the op completes, and what it says is what the store has. */
static void check_slices(bide_op_kind kind, unsigned jobs, unsigned failures)
{
    enum { AT_ONCE = 1000 };
    static bide_put_item items[AT_ONCE];
    bide_put_options delayed = BIDE_PUT_OPTIONS_INIT;
    delayed.delay_ms = 3600000;
    for (unsigned left = jobs; left > 0; left -= AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            items[i] = (bide_put_item){.topic = text("a"), .body = text("x"), .options = &delayed};
        assert_int_equal(bide_put_many(queue, items, AT_ONCE, NULL), BIDE_OK);
    }
    bide_op op = {.kind = kind, .cq = cq};
    if (kind == BIDE_OP_PURGE)
        op.purge = (bide_purge_args){.topic = text("a"), .state = BIDE_STATE_DELAYED};
    else
        op.kick = (bide_kick_args){.topic = text("a"), .max = jobs};
    slow_set(slow, false, failures);
    submit_one(queue, &op);
    await_completions(cq, 1);
    slow_set(slow, false, 0);
    uint64_t count = kind == BIDE_OP_PURGE ? op.purge.count : op.kick.count;
    bide_stats stats;
    bide_op flush = put_op(cq, "b"); /* behind everything that is still to be stored */
    submit_one(queue, &flush);
    await_completions(cq, 1);
    assert_int_equal(flush.status, BIDE_OK);
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.delayed + stats.jobs.ready, slow_jobs(slow));
    assert_true(count <= jobs);
    if (op.status == BIDE_OK) {
        assert_int_equal(count, jobs);
        assert_int_equal(stats.jobs.delayed, 0);
    } else {
        assert_int_equal(op.status, BIDE_EIO);
    }
}

static void a_purge_of_one_slice_completes_when_a_commit_fails(void **state)
{
    (void)state;
    check_slices(BIDE_OP_PURGE, 1000, 1);
}

static void a_purge_of_many_slices_completes_when_a_commit_fails(void **state)
{
    (void)state;
    check_slices(BIDE_OP_PURGE, 20000, 1);
}

static void a_kick_of_many_slices_completes_when_commits_fail(void **state)
{
    (void)state;
    check_slices(BIDE_OP_KICK, 20000, 2);
}

static void a_purge_of_many_slices_counts_every_job(void **state)
{
    (void)state;
    check_slices(BIDE_OP_PURGE, 20000, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(failed_commit_revokes_a_reserve_and_its_jobs),
        TEST(failed_commit_revokes_a_reserve_that_waited),
        TEST(failed_commit_revokes_queries_and_their_snapshots),
        TEST(failed_commit_revokes_reserve_job),
        TEST(failed_commit_revokes_body_and_result),
        TEST(failed_commit_revokes_wait),
        TEST(failed_commit_revokes_fail_and_kick),
        TEST(failed_commit_revokes_finish_and_reserve),
        TEST(failed_commit_leaves_the_jobs_of_a_finish_and_reserve_that_found_none),
        TEST(event_stream_omits_rolled_back_changes),
        TEST(a_purge_of_one_slice_completes_when_a_commit_fails),
        TEST(a_purge_of_many_slices_completes_when_a_commit_fails),
        TEST(a_kick_of_many_slices_completes_when_commits_fail),
        TEST(a_purge_of_many_slices_counts_every_job),
    };
    return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
