/* SPDX-License-Identifier: MIT */
/*
 * Completion queues: no completion is lost to a thread that is about to sleep in bide_cq_wait(),
 * and a completion queue can be freed as soon as a wait has returned.
 */
#include "slow_store.h"

#include "util/clock.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define ROUNDS 2000

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

/* A reserve that waits. */
struct call {
    bide_op op;
    bide_slice topic;
    bide_job job;
};

static void begin(struct call *call)
{
    memset(call, 0, sizeof(*call));
    call->topic = text("a");
    call->op = reserve_op(cq, &call->topic, &call->job);
    call->op.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &call->op), 1);
}

static bool readable(void)
{
    struct pollfd fd = {.fd = bide_cq_fd(cq), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* How two threads play: one puts, the other waits for it, and then it is the first one's turn. */
struct game {
    int rounds;
    unsigned rest_us; /* before each put; 0: sometimes the other sleeps by then, sometimes not */
    int64_t timeout_ms;
    bool frees; /* the completion queue, after each wait */
    atomic_int seen;
    atomic_int refused;
};

static void *put_often(void *arg)
{
    struct game *game = arg;
    for (int i = 0; i < game->rounds; i++) {
        if (game->rest_us > 0)
            usleep(game->rest_us + (unsigned)i % 100);
        if (bide_put(queue, "a", "x", 1, NULL, NULL) != BIDE_OK)
            atomic_fetch_add(&game->refused, 1);
        while (atomic_load(&game->seen) <= i)
            sched_yield();
    }
    return NULL;
}

static void wait_for_one(const struct game *game, struct call *call)
{
    int count;
    do
        count = bide_cq_wait(cq, game->timeout_ms);
    while (count == 0 && game->timeout_ms != BIDE_FOREVER);
    assert_int_equal(count, 1);
    assert_int_equal(call->op.status, BIDE_OK);
    assert_int_equal(bide_delete(queue, call->job.id, call->job.token), BIDE_OK);
    bide_job_clear(&call->job);
    if (game->frees) {
        assert_int_equal(bide_cq_free(cq), BIDE_OK);
        assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    }
}

static void play(struct game *game)
{
    static struct call call;
    pthread_t thread;
    begin(&call);
    assert_int_equal(pthread_create(&thread, NULL, put_often, game), 0);
    for (int i = 1; i <= game->rounds; i++) {
        wait_for_one(game, &call);
        if (i < game->rounds)
            begin(&call);
        atomic_store(&game->seen, i);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&game->refused), 0);
    assert_false(readable());
}

static void every_wait_returns_its_completion(void **state)
{
    (void)state;
    play(&(struct game){.rounds = ROUNDS, .timeout_ms = BIDE_FOREVER});
}

static void completion_at_the_timeout_is_not_lost(void **state)
{
    (void)state;
    play(&(struct game){.rounds = 300, .rest_us = 950, .timeout_ms = 1});
}

static void cq_without_notification_still_ends_waits(void **state)
{
    (void)state;
    bi_cq_disable_notify(cq);
    play(&(struct game){.rounds = ROUNDS, .timeout_ms = BIDE_FOREVER});
}

static void a_completion_queue_may_be_freed_as_soon_as_a_wait_has_ended(void **state)
{
    (void)state;
    play(&(struct game){.rounds = ROUNDS, .timeout_ms = BIDE_FOREVER, .frees = true});
    play(&(struct game){.rounds = 300, .rest_us = 50, .timeout_ms = BIDE_FOREVER, .frees = true});
}

static void cq_wait_is_never_early(void **state)
{
    (void)state;
    static struct call call;
    begin(&call);
    for (int64_t ms = 1; ms < 20; ms += 6) {
        int64_t before = bi_clock_boot();
        assert_int_equal(bide_cq_wait(cq, ms), 0);
        assert_true(bi_clock_boot() - before >= ms * 1000);
    }
    assert_int_equal(call.op.status, BIDE_PENDING);
}

static void wake_ends_only_the_next_wait(void **state)
{
    (void)state;
    bi_cq_wake(cq);
    bi_cq_wake(cq);
    assert_int_equal(bide_cq_wait(cq, BIDE_FOREVER), 0);
    int64_t before = bi_clock_boot();
    assert_int_equal(bide_cq_wait(cq, 5), 0);
    assert_true(bi_clock_boot() - before >= 5000);
    assert_false(readable());
}

static void *wait_once(void *arg)
{
    int *count = arg;
    *count = bide_cq_wait(cq, BIDE_FOREVER);
    return NULL;
}

static void wake_ends_a_sleeping_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        int count = -1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_once, &count), 0);
        if (i % 2 == 0)
            sched_yield();
        bi_cq_wake(cq);
        pthread_join(thread, NULL);
        assert_int_equal(count, 0);
    }
}

static void fd_is_readable_for_completions_after_a_wait(void **state)
{
    (void)state;
    static struct call calls[2];
    begin(&calls[0]);
    assert_int_equal(bide_cq_wait(cq, 1), 0);
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, NULL), BIDE_OK);
    assert_true(readable());
    assert_int_equal(bide_cq_wait(cq, BIDE_FOREVER), 1);
    assert_false(readable());
    begin(&calls[1]);
    assert_int_equal(bide_put(queue, "a", "x", 1, NULL, NULL), BIDE_OK);
    assert_true(readable());
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_false(readable());
    for (int i = 0; i < 2; i++)
        bide_job_clear(&calls[i].job);
}

/* ---- ops that are submitted on one thread and drained on another ---- */

#define HANDED_OVER 2000

static atomic_int freed;

/* An op may be freed in its callback. */
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
        TEST(every_wait_returns_its_completion),
        TEST(completion_at_the_timeout_is_not_lost),
        TEST(cq_without_notification_still_ends_waits),
        TEST(a_completion_queue_may_be_freed_as_soon_as_a_wait_has_ended),
        TEST(cq_wait_is_never_early),
        TEST(wake_ends_only_the_next_wait),
        TEST(wake_ends_a_sleeping_wait),
        TEST(fd_is_readable_for_completions_after_a_wait),
        TEST(ops_may_be_submitted_on_one_thread_and_drained_on_another),
    };
    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
