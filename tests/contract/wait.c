/* SPDX-License-Identifier: MIT */
/* wait.c - waiting until a job is done, buried or gone. */
#include "contract.h"

static void wait_for_an_ended_job_completes_at_once(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t done = put_in(queue, a, BIDE_STATE_DONE);
    uint64_t buried = put_in(queue, a, BIDE_STATE_BURIED);
    uint64_t gone = put(queue, a, "body");
    OK(bide_delete(queue, gone, 0));
    bide_state state = BIDE_STATE_READY;
    bide_buf *result = NULL;
    OK(bide_wait(queue, done, 0, &state, &result));
    EQ(state, BIDE_STATE_DONE);
    CHECK(result != NULL);
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    bide_buf_unref(result);
    OK(bide_wait(queue, buried, 0, &state, NULL));
    EQ(state, BIDE_STATE_BURIED);
    OK(bide_wait(queue, gone, BIDE_FOREVER, &state, NULL));
    EQ(state, BIDE_STATE_GONE);
    OK(bide_wait(queue, BIDE_ID_MAX, 0, &state, NULL));
    EQ(state, BIDE_STATE_GONE);
    OK(bide_wait(queue, done, 0, NULL, NULL));
}

static void a_wait_with_a_timeout_of_0_does_not_wait(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED};
    for (size_t i = 0; i < COUNT(states); i++) {
        bide_state state = BIDE_STATE_BURIED;
        bide_buf *result = NULL;
        CODE(bide_wait(queue, put_in(queue, a, states[i]), 0, &state, &result), BIDE_TIMED_OUT);
        EQ(state, BIDE_STATE_BURIED);
        CHECK(result == NULL);
    }
}

static void a_wait_lasts_its_whole_timeout(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    bide_state state = BIDE_STATE_BURIED;
    int64_t start_us = clock_us();
    CODE(bide_wait(queue, id, 40, &state, NULL), BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 40);
    EQ(state, BIDE_STATE_BURIED);
    EQ(stats_of(queue).watching, 0);
}

/* The wait has completed with this state, and with no result. */
static void ended(struct waiter *waiter, bide_state state)
{
    completes(waiter, BIDE_OK);
    EQ(waiter->op.wait.state, state);
    CHECK(waiter->op.wait.result == NULL);
}

static void a_wait_ends_when_the_job_is_done(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    struct waiter *waiter = begin_wait(queue, new_cq(), id);
    EQ(stats_of(queue).watching, 1);
    EQ(stats_of(queue).waiting, 0);
    uint64_t token = take(queue, a)->token;
    still_pending(waiter);
    OK(bide_done(queue, id, token, "yes", 3, 3600000));
    completes(waiter, BIDE_OK);
    EQ(waiter->op.wait.state, BIDE_STATE_DONE);
    bide_buf *result = waiter->op.wait.result;
    CHECK(result != NULL);
    OK(bide_delete(queue, id, 0));
    TEXT(bide_buf_data(result), bide_buf_size(result), "yes");
    bide_buf_unref(result);
    EQ(stats_of(queue).watching, 0);
}

static void a_wait_for_a_job_done_without_a_result_has_none(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    struct waiter *waiter = begin_wait(queue, new_cq(), id);
    OK(bide_done(queue, id, 0, NULL, 0, 3600000));
    ended(waiter, BIDE_STATE_DONE);
}

static void a_wait_ends_when_done_retains_nothing(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    struct waiter *waiter = begin_wait(queue, new_cq(), id);
    OK(bide_done(queue, id, 0, NULL, 0, 0));
    completes(waiter, BIDE_OK);
    CHECK(waiter->op.wait.state == BIDE_STATE_DONE || waiter->op.wait.state == BIDE_STATE_GONE);
    bide_buf_unref(waiter->op.wait.result);
}

/* Whether the work was done, where nothing of the job is kept that could tell. */
static void wait_reports_whether_the_job_was_finished(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    struct waiter *waiter;
    uint64_t id;

    waiter = begin_wait(queue, cq, id = put(queue, a, "deleted by its holder"));
    OK(bide_delete(queue, id, take(queue, a)->token));
    ended(waiter, BIDE_STATE_GONE);
    CHECK(waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, id = put(queue, a, "done, and nothing kept"));
    OK(bide_done(queue, id, take(queue, a)->token, NULL, 0, 0));
    completes(waiter, BIDE_OK);
    CHECK(waiter->op.wait.finished);
    bide_buf_unref(waiter->op.wait.result);

    waiter = begin_wait(queue, cq, id = put(queue, a, "done, and kept"));
    OK(bide_done(queue, id, take(queue, a)->token, NULL, 0, 3600000));
    ended(waiter, BIDE_STATE_DONE);
    CHECK(waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, id = put(queue, a, "deleted by another"));
    OK(bide_delete(queue, id, 0));
    ended(waiter, BIDE_STATE_GONE);
    CHECK(!waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, id = put(queue, a, "cancelled"));
    OK(bide_cancel(queue, id));
    ended(waiter, BIDE_STATE_GONE);
    CHECK(!waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, put(queue, a, "purged"));
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    ended(waiter, BIDE_STATE_GONE);
    CHECK(!waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, id = put(queue, a, "cancelled while it runs"));
    uint64_t token = take(queue, a)->token;
    OK(bide_cancel(queue, id));
    OK(bide_fail(queue, id, token, "stopped", BIDE_KEEP, NULL, NULL));
    ended(waiter, BIDE_STATE_GONE);
    CHECK(!waiter->op.wait.finished);

    waiter = begin_wait(queue, cq, id = put(queue, a, "buried"));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    ended(waiter, BIDE_STATE_BURIED);
    CHECK(!waiter->op.wait.finished);
}

static void a_wait_ends_when_the_job_is_buried(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    struct waiter *waiter = begin_wait(queue, cq, id);
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    ended(waiter, BIDE_STATE_BURIED);

    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    id = put_as(queue, a, "body", &options);
    waiter = begin_wait(queue, cq, id);
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, BIDE_KEEP, NULL, NULL));
    ended(waiter, BIDE_STATE_BURIED);

    options.ttr_ms = 20;
    id = put_as(queue, a, "body", &options);
    waiter = begin_wait(queue, cq, id);
    take(queue, a);
    ended(waiter, BIDE_STATE_BURIED);
}

static void a_wait_ends_when_the_job_is_removed(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    struct waiter *waiter = begin_wait(queue, cq, id);
    OK(bide_delete(queue, id, 0));
    ended(waiter, BIDE_STATE_GONE);

    id = put(queue, a, "body");
    waiter = begin_wait(queue, cq, id);
    OK(bide_cancel(queue, id));
    ended(waiter, BIDE_STATE_GONE);

    id = put(queue, a, "body");
    waiter = begin_wait(queue, cq, id);
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    ended(waiter, BIDE_STATE_GONE);

    id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    waiter = begin_wait(queue, cq, id);
    OK(bide_cancel(queue, id));
    still_pending(waiter);
    OK(bide_give_back(queue, id, token));
    ended(waiter, BIDE_STATE_GONE);
}

static void a_wait_ends_when_the_job_expires(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() + 1500;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    struct waiter *waiter = begin_wait(queue, new_cq(), id);
    ended(waiter, BIDE_STATE_GONE);
    CHECK(wall_us() >= options.expires_at_ms * 1000);
}

static void a_wait_goes_on_through_retries(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    struct waiter *waiter = begin_wait(queue, new_cq(), id);
    OK(bide_fail(queue, id, take(queue, a)->token, "no", 0, NULL, NULL));
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_give_back(queue, id, take(queue, a)->token));
    OK(bide_fail(queue, id, take(queue, a)->token, "no", 3600000, NULL, NULL));
    OK(bide_kick_job(queue, id));
    still_pending(waiter);
    OK(bide_delete(queue, id, take(queue, a)->token));
    ended(waiter, BIDE_STATE_GONE);
}

static void every_wait_for_a_job_completes(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body"), other = put(queue, a, "body");
    struct waiter *waiters[10];
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiters[i] = begin_wait(queue, cq, id);
    struct waiter *apart = begin_wait(queue, cq, other);
    EQ(stats_of(queue).watching, COUNT(waiters) + 1);
    OK(bide_done(queue, id, 0, "yes", 3, 3600000));
    for (size_t i = 0; i < COUNT(waiters); i++) {
        completes(waiters[i], BIDE_OK);
        EQ(waiters[i]->op.wait.state, BIDE_STATE_DONE);
        bide_buf *result = waiters[i]->op.wait.result;
        TEXT(bide_buf_data(result), bide_buf_size(result), "yes");
        bide_buf_unref(result);
    }
    still_pending(apart);
}

struct waiting_thread {
    bide *queue;
    uint64_t id;
    bide_state state;
    bide_buf *result;
};

static void *wait_in_thread(void *arg)
{
    struct waiting_thread *it = arg;
    OK(bide_wait(it->queue, it->id, PATIENCE_MS, &it->state, &it->result));
    return NULL;
}

static void a_blocking_wait_is_woken(void)
{
    bide *queue = open_queue("");
    struct waiting_thread it = {queue, put(queue, fresh_topic("a"), "body"), 0, NULL};
    pthread_t thread = start_thread(wait_in_thread, &it);
    UNTIL(stats_of(queue).watching == 1);
    OK(bide_done(queue, it.id, 0, "woken", 5, 3600000));
    join_thread(thread);
    EQ(it.state, BIDE_STATE_DONE);
    TEXT(bide_buf_data(it.result), bide_buf_size(it.result), "woken");
    bide_buf_unref(it.result);
}

static const struct test tests[] = {
    TEST(wait_for_an_ended_job_completes_at_once),
    TEST(a_wait_with_a_timeout_of_0_does_not_wait),
    TEST(a_wait_lasts_its_whole_timeout),
    TEST(a_wait_ends_when_the_job_is_done),
    TEST(a_wait_for_a_job_done_without_a_result_has_none),
    TEST(a_wait_ends_when_done_retains_nothing),
    TEST(wait_reports_whether_the_job_was_finished),
    TEST(a_wait_ends_when_the_job_is_buried),
    TEST(a_wait_ends_when_the_job_is_removed),
    TEST(a_wait_ends_when_the_job_expires),
    TEST(a_wait_goes_on_through_retries),
    TEST(every_wait_for_a_job_completes),
    TEST(a_blocking_wait_is_woken),
};

const struct theme wait_theme = {"wait", tests, COUNT(tests)};
