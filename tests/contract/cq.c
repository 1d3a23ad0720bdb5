/* SPDX-License-Identifier: MIT */
/* cq.c - completion queues: who drains, on which thread, and what a callback may do. */
#include "contract.h"

#include <poll.h>

static bool readable(const bide_cq *cq, int timeout_ms)
{
    struct pollfd poll_for = {.fd = bide_cq_fd(cq), .events = POLLIN};
    CHECK(poll_for.fd >= 0);
    return poll(&poll_for, 1, timeout_ms) == 1;
}

static void cq_fd_is_readable_while_completions_are_queued(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    CHECK(!readable(cq, 0));
    begin_reserve(queue, cq, &topic, 1);
    begin_reserve(queue, cq, &topic, 1);
    CHECK(!readable(cq, 0));
    put(queue, a, "1");
    put(queue, a, "2");
    UNTIL(topic_of(queue, a).jobs.reserved == 2);
    CHECK(readable(cq, PATIENCE_MS));
    EQ(bide_cq_drain(cq, 1), 1);
    CHECK(readable(cq, PATIENCE_MS));
    EQ(bide_cq_drain(cq, 1), 1);
    CHECK(!readable(cq, 0));
    EQ(bide_cq_drain(cq, 0), 0);
}

static void drain_runs_at_most_its_maximum_of_callbacks(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiters[5];
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiters[i] = begin_reserve(queue, cq, &topic, 1);
    for (size_t i = 0; i < COUNT(waiters); i++)
        put(queue, a, "body");
    UNTIL(topic_of(queue, a).jobs.reserved == COUNT(waiters));
    CHECK(readable(cq, PATIENCE_MS));
    int ran = 0;
    for (int i = 0; i < 100 && ran < 3; i++)
        ran += bide_cq_drain(cq, 3 - (size_t)ran);
    EQ(ran, 3);
    int called = 0;
    for (size_t i = 0; i < COUNT(waiters); i++)
        called += waiters[i]->calls;
    EQ(called, 3);
    for (size_t i = 0; i < COUNT(waiters); i++)
        completes(waiters[i], BIDE_OK);
}

static void cq_wait_ends_with_the_first_completion_or_its_timeout(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    EQ(bide_cq_wait(cq, 0), 0);
    int64_t start_us = clock_us();
    EQ(bide_cq_wait(cq, 30), 0);
    NOT_BEFORE(start_us, 30);
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    start_us = clock_us();
    put_later(queue, a, 30);
    EQ(bide_cq_wait(cq, BIDE_FOREVER), 1);
    NOT_BEFORE(start_us, 30);
    EQ(waiter->op.status, BIDE_OK);
    EQ(waiter->calls, 1);
}

static void an_op_needs_no_callback(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    waiter->op.done = NULL;
    submit_pending(queue, waiter);
    uint64_t id = put(queue, a, "body");
    UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
    EQ(waiter->op.status, BIDE_OK);
    EQ(waiter->job.id, id);
}

struct putter {
    bide *queue;
    const char *topic;
};

static void *put_in_thread(void *arg)
{
    struct putter *putter = arg;
    put(putter->queue, putter->topic, "body");
    return NULL;
}

static void callbacks_run_on_the_thread_that_drains(void)
{
    struct putter putter = {open_queue(""), fresh_topic("a")};
    bide_slice topic = slice(putter.topic);
    struct waiter *waiter = begin_reserve(putter.queue, new_cq(), &topic, 1);
    pthread_t thread = start_thread(put_in_thread, &putter);
    completes(waiter, BIDE_OK);
    CHECK(pthread_equal(waiter->caller, pthread_self()));
    join_thread(thread);
}

#define LINKS 20

/* A chain: the callback of a reserve deletes its job and submits the reserve again. */
struct chain {
    bide *queue;
    int left;
    int submitted;
    int removed;
    bide_op removes[LINKS];
};

static void count_removed(bide_op *op)
{
    struct chain *chain = op->user;
    CHECK(op->status == BIDE_OK);
    chain->removed++;
}

static void next_link(bide_op *op)
{
    struct chain *chain = op->user;
    CHECK(op->status == BIDE_OK && chain->left > 0);
    bide_op *remove = &chain->removes[--chain->left];
    *remove = (bide_op){.kind = BIDE_OP_DELETE, .cq = op->cq, .done = count_removed, .user = chain};
    remove->lease.id = op->reserve.jobs[0].id;
    remove->lease.token = op->reserve.jobs[0].token;
    bide_job_clear(op->reserve.jobs);
    bide_op *again[] = {remove, op};
    CHECK(bide_submit(chain->queue, again, chain->left == 0 ? 1 : 2) >= 0);
    if (remove->status != BIDE_PENDING)
        count_removed(remove);
    chain->submitted += chain->left > 0;
}

static void a_callback_may_submit(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct chain chain = {.queue = queue, .left = LINKS};
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    waiter->op.done = next_link;
    waiter->op.user = &chain;
    submit_pending(queue, waiter);
    for (int i = 0; i < LINKS; i++) {
        put(queue, a, "body");
        int left = LINKS - i;
        UNTIL(chain.left < left || bide_cq_wait(cq, 10) < 0);
    }
    EQ(chain.left, 0);
    EQ(chain.submitted, LINKS - 1);
    UNTIL(chain.removed == LINKS || bide_cq_wait(cq, 10) < 0);
    CHECK(!topic_exists(queue, a));
}

/* What the callback below found; blocking calls are made in it. */
struct refusals {
    bide *queue;
    bide_cq *cq;
    const char *topic;
    uint64_t id;
    int made;
};

#define REFUSED(call)               \
    do {                            \
        CODE(call, BIDE_ECALLBACK); \
        refusals->made++;           \
    } while (0)

static void make_blocking_calls(bide_op *op)
{
    struct refusals *refusals = op->user;
    bide *queue = refusals->queue;
    uint64_t id = refusals->id;
    bide_job job = {0};
    bide_stats stats = {0};
    bide_slice topic = slice(refusals->topic);
    bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
    bide_put_item item = {.topic = topic};
    bide_state state = BIDE_STATE_GONE;
    REFUSED(bide_put(queue, refusals->topic, "x", 1, NULL, NULL));
    REFUSED(bide_put_many(queue, &item, 1, NULL));
    REFUSED(bide_reserve(queue, refusals->topic, 0, &job));
    REFUSED(bide_reserve_many(queue, &args));
    REFUSED(bide_reserve_job(queue, id, &job));
    REFUSED(bide_delete(queue, id, 0));
    REFUSED(bide_kick(queue, refusals->topic, 1, NULL));
    REFUSED(bide_cancel(queue, id));
    REFUSED(bide_peek(queue, id, &job));
    REFUSED(bide_wait(queue, id, 0, &state, NULL));
    REFUSED(bide_queue_stats(queue, &stats));
    REFUSED(bide_ping(queue));
    REFUSED(bide_drain(queue, true));
    REFUSED(bide_close(queue));
    EQ(bide_cq_drain(refusals->cq, 0), BIDE_ECALLBACK);
    EQ(bide_cq_wait(refusals->cq, 0), BIDE_ECALLBACK);
    EQ(job.id, 0);
}

static void blocking_calls_are_rejected_in_a_callback(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct refusals refusals = {queue, cq, a, 0, 0};
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    waiter->op.done = make_blocking_calls;
    waiter->op.user = &refusals;
    submit_pending(queue, waiter);
    put(queue, a, "body");
    refusals.id = put(queue, a, "other");
    UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
    EQ(refusals.made, 14);
    EQ(state_of(queue, refusals.id), BIDE_STATE_READY);
    EQ(topic_of(queue, a).total.puts, 2);
    CHECK(!stats_of(queue).draining);
    OK(bide_delete(queue, waiter->job.id, waiter->job.token));
}

static bide *cancelling_queue;

static void cancel_the_other(bide_op *op)
{
    EQ(bide_cancel_op(cancelling_queue, op->user), BIDE_OK);
}

static void a_callback_may_cancel_another_op(void)
{
    bide *queue = cancelling_queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *first = new_op(BIDE_OP_RESERVE, cq);
    first->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &first->job, 1);
    first->op.done = cancel_the_other;
    submit_pending(queue, first);
    struct waiter *second = begin_reserve(queue, cq, &topic, 1);
    first->op.user = &second->op;
    put(queue, a, "body");
    UNTIL(first->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
    completes(second, BIDE_CANCELLED);
    EQ(topic_of(queue, a).waiting, 0);
}

static void shut_down(bide_op *op)
{
    EQ(bide_shutdown(op->user), BIDE_OK);
}

static void a_callback_may_shut_the_queue_down(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a), none = slice(fresh_topic("none"));
    struct waiter *first = new_op(BIDE_OP_RESERVE, cq);
    first->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &first->job, 1);
    first->op.done = shut_down;
    first->op.user = queue;
    submit_pending(queue, first);
    struct waiter *second = begin_reserve(queue, cq, &none, 1);
    uint64_t id = put(queue, a, "body");
    UNTIL(first->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
    EQ(first->op.status, BIDE_OK);
    EQ(first->job.id, id);
    completes(second, BIDE_CLOSED);
    OK(bide_shutdown(queue));
}

static void cq_in_use_cannot_be_freed(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = NULL;
    EQ(bide_cq_new(&cq), BIDE_OK);
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    EQ(bide_cq_free(cq), BIDE_EBUSY);
    uint64_t id = put(queue, a, "body");
    UNTIL(state_of(queue, id) == BIDE_STATE_RESERVED);
    EQ(bide_cq_free(cq), BIDE_EBUSY);
    completes(waiter, BIDE_OK);
    EQ(bide_cq_free(cq), BIDE_OK);
}

static void a_cq_serves_several_queues(void)
{
    bide *one = open_queue(""), *two = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice in_a = slice(a), in_b = slice(b);
    struct waiter *first = begin_reserve(one, cq, &in_a, 1);
    struct waiter *second = begin_reserve(two, cq, &in_b, 1);
    uint64_t put_two = put(two, b, "two");
    completes(second, BIDE_OK);
    EQ(second->job.id, put_two);
    still_pending(first);
    OK(bide_delete(two, put_two, second->job.token));
    close_queue(two);
    uint64_t put_one = put(one, a, "one");
    completes(first, BIDE_OK);
    EQ(first->job.id, put_one);
}

static void a_queue_serves_several_cqs(void)
{
    bide *queue = open_queue("");
    bide_cq *cqs[] = {new_cq(), new_cq()};
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *first = begin_reserve(queue, cqs[0], &topic, 1);
    struct waiter *second = begin_reserve(queue, cqs[1], &topic, 1);
    put(queue, a, "1");
    put(queue, a, "2");
    UNTIL(topic_of(queue, a).jobs.reserved == 2);
    completes(second, BIDE_OK);
    EQ(first->op.status, BIDE_PENDING);
    EQ(first->calls, 0);
    completes(first, BIDE_OK);
}

static const struct test tests[] = {
    TEST(cq_fd_is_readable_while_completions_are_queued),
    TEST(drain_runs_at_most_its_maximum_of_callbacks),
    TEST(cq_wait_ends_with_the_first_completion_or_its_timeout),
    TEST(an_op_needs_no_callback),
    TEST(callbacks_run_on_the_thread_that_drains),
    TEST(a_callback_may_submit),
    TEST(blocking_calls_are_rejected_in_a_callback),
    TEST(a_callback_may_cancel_another_op),
    TEST(a_callback_may_shut_the_queue_down),
    TEST(cq_in_use_cannot_be_freed),
    TEST(a_cq_serves_several_queues),
    TEST(a_queue_serves_several_cqs),
};

const struct theme cq_theme = {"cq", tests, COUNT(tests)};
