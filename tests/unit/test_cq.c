/* SPDX-License-Identifier: MIT */
/*
 * Completion queues, on a queue in memory and on one that holds its answers.
 */
#include "slow_store.h"

#include <poll.h>
#include <stdatomic.h>

static bide *queue;
static bide_cq *cq;

static int set_up(void **state)
{
    (void)state;
    return bide_open("memory:", NULL, &queue) == BIDE_OK ? bide_cq_new(&cq) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bide_close(queue);
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

static bool readable(void)
{
    struct pollfd fd = {.fd = bide_cq_fd(cq), .events = POLLIN};
    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLIN) != 0;
}

/* A reserve that waits, with everything that it needs. */
struct call {
    bide_op op;
    bide_slice topic;
    bide_job job;
    int ran;
};

static void count_run(bide_op *op)
{
    struct call *call = op->user;
    call->ran++;
}

static void begin(struct call *call, void (*done)(bide_op *))
{
    memset(call, 0, sizeof(*call));
    call->topic = text("a");
    call->op = reserve_op(cq, &call->topic, &call->job);
    call->op.reserve.timeout_ms = BIDE_FOREVER;
    call->op.done = done;
    call->op.user = call;
    assert_int_equal(submit_one(queue, &call->op), 1);
}

static void serve(int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(bide_put(queue, "a", "x", 1, NULL, NULL), BIDE_OK);
}

static void the_fd_is_readable_exactly_while_there_is_something_to_drain(void **state)
{
    (void)state;
    static struct call calls[3];
    assert_false(readable());
    for (int i = 0; i < 3; i++)
        begin(&calls[i], count_run);
    assert_false(readable());
    serve(1);
    assert_true(readable());
    serve(2);
    assert_true(readable());
    assert_int_equal(bide_cq_drain(cq, 2), 2);
    assert_true(readable());
    assert_int_equal(bide_cq_drain(cq, 2), 1);
    assert_false(readable());
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].ran, 1);
        bide_job_clear(&calls[i].job);
    }
}

static void an_op_completes_when_it_is_drained_and_not_before(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, count_run);
    serve(1);
    assert_int_equal(call.op.status, BIDE_PENDING);
    assert_int_equal(call.ran, 0);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(call.op.status, BIDE_OK);
    assert_int_equal(call.ran, 1);
    bide_job_clear(&call.job);
}

static void a_drain_runs_no_more_than_it_was_asked_for_in_order(void **state)
{
    (void)state;
    static struct call calls[5];
    for (int i = 0; i < 5; i++)
        begin(&calls[i], count_run);
    serve(5);
    for (int drained = 0; drained < 5; drained++) {
        assert_int_equal(bide_cq_drain(cq, 1), 1);
        for (int i = 0; i < 5; i++)
            assert_int_equal(calls[i].ran, i <= drained);
    }
    for (int i = 0; i < 5; i++)
        bide_job_clear(&calls[i].job);
}

static void an_op_that_finishes_within_submit_has_no_callback(void **state)
{
    (void)state;
    static struct call call;
    bide_op put = put_op(cq, "a");
    put.done = count_run;
    put.user = &call;
    assert_int_equal(submit_one(queue, &put), 0);
    assert_int_equal(put.status, BIDE_OK);
    assert_false(readable());
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    assert_int_equal(call.ran, 0);
}

static void an_op_without_a_callback_completes_all_the_same(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, NULL);
    serve(1);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(call.op.status, BIDE_OK);
    bide_job_clear(&call.job);
}

/* Takes the job, deletes it without waiting, and asks for the next. */
static void delete_and_ask_again(bide_op *op)
{
    struct call *call = op->user;
    call->ran++;
    if (op->status != BIDE_OK)
        return;
    bide_op delete_it = lease_op(NULL, BIDE_OP_DELETE, call->job.id, call->job.token);
    submit_one(queue, &delete_it);
    bide_job_clear(&call->job);
    if (delete_it.status == BIDE_OK)
        submit_one(queue, op);
}

static void a_callback_may_submit(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, delete_and_ask_again);
    for (int i = 1; i <= 10; i++) {
        serve(1);
        assert_int_equal(bide_cq_drain(cq, 0), 1);
        assert_int_equal(call.ran, i);
        assert_int_equal(call.op.status, BIDE_PENDING);
    }
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.total.deletes, 10);
}

static int refusals[5];

static void call_what_is_forbidden(bide_op *op)
{
    (void)op;
    refusals[0] = bide_put(queue, "a", "x", 1, NULL, NULL);
    refusals[1] = bide_cq_drain(cq, 0);
    refusals[2] = bide_cq_wait(cq, 0);
    refusals[3] = bide_close(queue);
    refusals[4] = bide_queue_stats(queue, &(bide_stats){.topics = 0});
}

static void what_could_block_is_refused_in_a_callback(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, call_what_is_forbidden);
    serve(1);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    for (size_t i = 0; i < COUNT_OF(refusals); i++)
        assert_int_equal(refusals[i], BIDE_ECALLBACK);
    bide_job_clear(&call.job);
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, NULL), BIDE_OK); /* and allowed again */
}

static void a_completion_queue_that_is_in_use_is_not_freed(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, count_run);
    assert_int_equal(bide_cq_free(cq), BIDE_EBUSY); /* pending */
    serve(1);
    assert_int_equal(bide_cq_free(cq), BIDE_EBUSY); /* completed, not drained */
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
    bide_job_clear(&call.job);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
}

static void a_refused_op_does_not_keep_its_completion_queue_busy(void **state)
{
    (void)state;
    bide_op bad = put_op(cq, "not a topic");
    assert_int_equal(submit_one(queue, &bad), 0);
    assert_int_equal(bad.status, BIDE_EINVAL);
    bide_op put = put_op(cq, "a");
    assert_int_equal(submit_one(queue, &put), 0);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
}

static void a_cancelled_op_completes_once(void **state)
{
    (void)state;
    static struct call call;
    begin(&call, count_run);
    assert_int_equal(bide_cancel_op(queue, &call.op), BIDE_OK);
    assert_int_equal(bide_cancel_op(queue, &call.op), BIDE_OK);
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(call.op.status, BIDE_CANCELLED);
    assert_int_equal(call.ran, 1);
    assert_int_equal(bide_cancel_op(queue, &call.op), BIDE_EINVAL);
}

static void waiting_returns_what_has_completed(void **state)
{
    (void)state;
    static struct call call;
    assert_int_equal(bide_cq_wait(cq, 0), 0);
    begin(&call, count_run);
    assert_int_equal(bide_cq_wait(cq, 0), 0);
    serve(1);
    assert_int_equal(bide_cq_wait(cq, BIDE_FOREVER), 1);
    bide_job_clear(&call.job);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    assert_int_equal(bide_cq_new(NULL), BIDE_EINVAL);
    assert_int_equal(bide_cq_free(NULL), BIDE_OK);
    assert_int_equal(bide_cq_fd(NULL), BIDE_EINVAL);
    assert_int_equal(bide_cq_drain(NULL, 0), BIDE_EINVAL);
    assert_int_equal(bide_cq_wait(NULL, 0), BIDE_EINVAL);
    assert_int_equal(bide_cq_wait(cq, -2), BIDE_EINVAL);
    assert_int_equal(bide_cq_wait(cq, BIDE_TIME_MAX_MS + 1), BIDE_EINVAL);
    bide_op op = put_op(cq, "a");
    bide_op *with_null[] = {&op, NULL};
    assert_int_equal(bide_submit(NULL, with_null, 1), BIDE_EINVAL);
    assert_int_equal(bide_submit(queue, NULL, 1), BIDE_EINVAL);
    assert_int_equal(bide_submit(queue, with_null, 2), BIDE_EINVAL);
    assert_int_equal(bide_submit(queue, NULL, 0), 0);
    assert_int_equal(bide_cancel_op(NULL, &op), BIDE_EINVAL);
    assert_int_equal(bide_cancel_op(queue, NULL), BIDE_EINVAL);
}

static void ops_that_closing_completes_are_still_drained(void **state)
{
    (void)state;
    static struct call calls[3];
    for (int i = 0; i < 3; i++)
        begin(&calls[i], count_run);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_true(readable());
    assert_int_equal(bide_cq_drain(cq, 0), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(calls[i].op.status, BIDE_CLOSED);
}

/* ---- the thread that drains is not the one that submits ---- */

#define HANDED_OVER 2000

static atomic_int freed;

/* Whoever is told that an op has completed may free it at once. */
static void free_op(bide_op *op)
{
    atomic_fetch_add(&freed, op->status == BIDE_OK ? 1 : 0);
    free(op);
}

static void *drain_all(void *arg)
{
    for (int count = 0; count < HANDED_OVER;)
        count += bide_cq_wait(arg, BIDE_FOREVER);
    return NULL;
}

static void ops_may_be_submitted_on_one_thread_and_drained_on_another(void **state)
{
    (void)state;
    struct slow_store *slow;
    bide *held = slow_open("slow:", &slow);
    atomic_store(&freed, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain_all, cq), 0);
    for (int i = 0; i < HANDED_OVER; i += 4) {
        bide_op *list[4];
        for (int j = 0; j < 4; j++) {
            list[j] = malloc(sizeof(bide_op));
            assert_non_null(list[j]);
            *list[j] = put_op(cq, "a");
            list[j]->done = free_op;
        }
        assert_int_equal(bide_submit(held, list, 4), 4);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&freed), HANDED_OVER);
    assert_int_equal(bide_close(held), BIDE_OK);
    assert_int_equal(bide_cq_free(cq), BIDE_OK); /* as many were drained as were handed over */
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_fd_is_readable_exactly_while_there_is_something_to_drain),
        TEST(an_op_completes_when_it_is_drained_and_not_before),
        TEST(a_drain_runs_no_more_than_it_was_asked_for_in_order),
        TEST(an_op_that_finishes_within_submit_has_no_callback),
        TEST(an_op_without_a_callback_completes_all_the_same),
        TEST(a_callback_may_submit),
        TEST(what_could_block_is_refused_in_a_callback),
        TEST(a_completion_queue_that_is_in_use_is_not_freed),
        TEST(a_refused_op_does_not_keep_its_completion_queue_busy),
        TEST(a_cancelled_op_completes_once),
        TEST(waiting_returns_what_has_completed),
        TEST(bad_arguments_are_refused),
        TEST(ops_that_closing_completes_are_still_drained),
        TEST(ops_may_be_submitted_on_one_thread_and_drained_on_another),
    };
    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
