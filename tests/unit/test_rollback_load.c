/* SPDX-License-Identifier: MIT */
/*
 * Callers that go on and on while a failed commit is undone. What they bring waits until all is
 * undone, and there is no end of it; but commits go on, and what waits is bounded.
 */
#include "slow_store.h"

#include "util/clock.h"

#include <stdatomic.h>

#define UNDONE      20000 /* changes of the commit that fails */
#define LISTED      5000  /* jobs that each list looks at */
#define LISTS       200   /* at a time */
#define PENDING     100
#define FLOOD       1000
#define ITEMS       200
#define PATIENCE_MS 20000

static bide *queue;
static struct slow_store *slow;
static bide_cq *cq;

static void set_up(const char *url)
{
    queue = slow_open(url, &slow);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
}

static void tear_down(void)
{
    assert_int_equal(bide_close(queue), BIDE_OK);
    bide_cq_drain(cq, 0);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
}

static void put_jobs(bide_op *ops, int count, const char *topic)
{
    for (int i = 0; i < count; i++) {
        ops[i] = put_op(cq, topic);
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    }
}

/* ---- commits go on ---- */

struct listing {
    bide_op op;
    bide_job job;
    char cursor[BIDE_CURSOR_SIZE];
};

static atomic_bool stop;

static void init_listing(struct listing *listing, bide_cq *own)
{
    listing->op = (bide_op){.kind = BIDE_OP_LIST,
                            .cq = own,
                            .list = {.topic = text("a"),
                                     .state = BIDE_STATE_READY,
                                     .filter = {.text = text("none")},
                                     .cursor = listing->cursor,
                                     .jobs = &listing->job,
                                     .job_max = 1}};
}

/* Lists again and again: each list that has come back is followed by another. */
static void *list_on(void *arg)
{
    struct listing *listings = calloc(LISTS, sizeof(*listings));
    bide_cq *own;
    (void)arg;
    if (listings == NULL || bide_cq_new(&own) != BIDE_OK)
        abort();
    for (int i = 0; i < LISTS; i++)
        init_listing(&listings[i], own);
    while (!atomic_load(&stop)) {
        for (int i = 0; i < LISTS; i++) {
            if (listings[i].op.status == BIDE_PENDING)
                continue;
            listings[i].cursor[0] = 0;
            submit_one(queue, &listings[i].op);
        }
        bide_cq_drain(own, 0);
    }
    while (bide_cq_free(own) != BIDE_OK)
        bide_cq_wait(own, 10);
    free(listings);
    return NULL;
}

static void commits_continue_under_endless_lists(void **state)
{
    (void)state;
    static bide_op ops[UNDONE];
    pthread_t thread;
    set_up("slow:?seed=1");
    put_jobs(ops, LISTED, "a");
    await_completions(cq, LISTED);
    slow_set(slow, true, 1);
    put_jobs(ops, UNDONE, "b");
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, list_on, NULL), 0);
    slow_set(slow, false, 1);
    await_completions(cq, UNDONE);
    bide_op put = put_op(cq, "b");
    assert_int_equal(submit_one(queue, &put), 1);
    assert_int_equal(bide_cq_wait(cq, PATIENCE_MS), 1);
    assert_int_equal(put.status, BIDE_OK);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    tear_down();
}

/* ---- what waits is bounded ---- */

/* Many jobs in one op: to run it takes much longer than to hand it over. */
static void init_puts(bide_op *op, bide_put_item *items)
{
    for (int i = 0; i < ITEMS; i++)
        items[i] = put_op(cq, "a").put;
    *op =
        (bide_op){.kind = BIDE_OP_PUT_MANY, .cq = cq, .put_many = {.items = items, .count = ITEMS}};
}

/* Submits what is not pending, and counts what is. */
static int flood(bide_op *ops)
{
    int pending = 0;
    for (int i = 0; i < FLOOD; i++) {
        if (ops[i].status != BIDE_PENDING)
            submit_one(queue, &ops[i]);
        pending += ops[i].status == BIDE_PENDING;
    }
    return pending;
}

static void waiting_ops_stay_below_max_pending_ops(void **state)
{
    (void)state;
    static bide_op ops[FLOOD];
    static bide_put_item items[FLOOD][ITEMS];
    set_up("slow:?seed=1&max_pending_ops=100");
    for (int i = 0; i < FLOOD; i++)
        init_puts(&ops[i], items[i]);
    slow_set(slow, true, 1);
    assert_int_equal(flood(ops), PENDING);
    unsigned started = slow_started(slow);
    slow_permit(slow);
    /* Until the next commit stands in the store all that is pending may not have been drained. */
    int64_t end = bi_clock_boot() + INT64_C(1000) * PATIENCE_MS;
    while (slow_started(slow) == started && bi_clock_boot() < end)
        flood(ops);
    assert_true(slow_started(slow) > started);
    int pending = flood(ops);
    while (pending > PENDING && bi_clock_boot() < end && bide_cq_wait(cq, 10) >= 0)
        pending = flood(ops);
    assert_true(pending <= PENDING);
    slow_set(slow, false, 0);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_continue_under_endless_lists),
        cmocka_unit_test(waiting_ops_stay_below_max_pending_ops),
    };
    return cmocka_run_group_tests_name("undoing", tests, NULL, NULL);
}
