/* SPDX-License-Identifier: MIT */
/* async.c - ops: lists, every kind, waiting, cancelling, closing. */
#include "contract.h"

#include <string.h>

/* Submits a list and waits until every op of it has completed. */
static void run_list(bide *queue, struct waiter **waiters, size_t count)
{
    bide_op *ops[64];
    CHECK(count <= COUNT(ops));
    for (size_t i = 0; i < count; i++)
        ops[i] = &waiters[i]->op;
    int pending = bide_submit(queue, ops, count);
    BETWEEN(pending, 0, (int64_t)count);
    int found = 0;
    for (size_t i = 0; i < count; i++)
        found += waiters[i]->op.status == BIDE_PENDING;
    EQ(found, pending);
    for (size_t i = 0; i < count; i++)
        UNTIL(waiters[i]->op.status != BIDE_PENDING || bide_cq_drain(waiters[i]->op.cq, 0) < 0);
}

static struct waiter *new_put(bide_cq *cq, const char *topic, const bide_put_options *options)
{
    struct waiter *waiter = new_op(BIDE_OP_PUT, cq);
    waiter->op.put.topic = slice(topic);
    waiter->op.put.body = slice("body");
    waiter->op.put.options = options;
    return waiter;
}

static struct waiter *new_lease(bide_op_kind kind, bide_cq *cq, uint64_t id, uint64_t token)
{
    struct waiter *waiter = new_op(kind, cq);
    waiter->op.lease.id = id;
    waiter->op.lease.token = token;
    return waiter;
}

static struct waiter *new_reserve(bide_cq *cq, const bide_slice *topic, int64_t timeout_ms)
{
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, cq);
    waiter->op.reserve = reserve_args(topic, 1, timeout_ms, &waiter->job, 1);
    return waiter;
}

static void the_ops_of_a_list_run_in_order(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_put_options urgent = BIDE_PUT_OPTIONS_INIT;
    urgent.priority = 1;
    struct waiter *list[] = {new_reserve(cq, &topic, 0), new_put(cq, a, NULL),
                             new_put(cq, a, &urgent),    new_reserve(cq, &topic, 0),
                             new_reserve(cq, &topic, 0), new_reserve(cq, &topic, 0)};
    run_list(queue, list, COUNT(list));
    EQ(list[0]->op.status, BIDE_TIMED_OUT);
    EQ(list[1]->op.status, BIDE_OK);
    EQ(list[2]->op.status, BIDE_OK);
    CHECK(list[2]->op.put.id > list[1]->op.put.id);
    EQ(list[3]->op.status, BIDE_OK);
    EQ(list[3]->job.id, list[2]->op.put.id);
    EQ(list[4]->job.id, list[1]->op.put.id);
    EQ(list[5]->op.status, BIDE_TIMED_OUT);
}

static void rejected_op_does_not_affect_the_others(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    struct waiter *list[] = {new_put(cq, a, NULL),
                             new_put(cq, "not a topic", NULL),
                             new_lease(BIDE_OP_DELETE, cq, BIDE_ID_MAX, 0),
                             new_op(BIDE_OP_NONE, cq),
                             new_op((bide_op_kind)999, cq),
                             new_put(cq, a, NULL)};
    run_list(queue, list, COUNT(list));
    static const int want[] = {BIDE_OK,     BIDE_EINVAL, BIDE_NOT_FOUND,
                               BIDE_EINVAL, BIDE_EINVAL, BIDE_OK};
    for (size_t i = 0; i < COUNT(list); i++) {
        EQ(list[i]->op.status, want[i]);
        CHECK((want[i] == BIDE_OK) == (list[i]->op.error[0] == '\0'));
    }
    EQ(topic_of(queue, a).jobs.ready, 2);
}

static void completed_op_can_be_submitted_again(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct waiter *waiter = new_put(new_cq(), a, NULL);
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        waiter->calls = 0;
        submit_code(queue, waiter, BIDE_OK);
        CHECK(waiter->op.put.id > last);
        last = waiter->op.put.id;
    }
    EQ(topic_of(queue, a).jobs.ready, 10);
}

static void a_put_may_bring_a_buffer(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct waiter *waiter = new_put(new_cq(), a, NULL);
    bide_buf *buf = bide_buf_new("from a buffer", 13);
    waiter->op.put.body = (bide_slice){NULL, 0};
    waiter->op.put.buf = buf;
    submit_code(queue, waiter, BIDE_OK);
    bide_buf_unref(buf);
    const bide_job *job = take(queue, a);
    TEXT(job->body, job->body_size, "from a buffer");
}

/* The message is that of the first refused item, and error_item names it. */
static void rejected_item_of_a_list_is_named(void)
{
    bide *queue = open_queue("");
    bide_slice topic = slice(fresh_topic("a"));
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct waiter *op = new_op(BIDE_OP_PUT_MANY, new_cq());
    options.key = slice("k");
    bide_put_item items[3] = {
        {.topic = topic}, {.topic = topic, .options = &options}, {.topic = topic}};
    op->op.put_many = (bide_put_many_args){.items = items, .count = 3};
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.error_item, 0);
    EQ(strlen(op->op.error), 0);

    op->calls = 0;
    submit_code(queue, op, BIDE_OK); /* the key is held now */
    EQ(op->op.put_many.accepted, 2);
    EQ(items[1].status, BIDE_EXISTS);
    EQ(op->op.error_item, 2);
    CHECK(strncmp(op->op.error, "put_many: job ", 14) == 0);

    items[2].topic = slice("no topic"); /* refused before the queue sees the list */
    op->calls = 0;
    submit_code(queue, op, BIDE_OK);
    EQ(items[1].status, BIDE_EXISTS);
    EQ(items[2].status, BIDE_EINVAL);
    EQ(op->op.error_item, 3);
    CHECK(strstr(op->op.error, "no topic") != NULL);

    OK(bide_put_many(queue, items, 3, NULL));
    CHECK(strncmp(bide_last_error(), "item 2: ", 8) == 0);
}

static void every_kind_of_op_that_changes_jobs_can_be_submitted(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *op = new_op(BIDE_OP_PUT_MANY, cq);
    bide_put_item items[2] = {{.topic = topic, .body = slice("1")}, {.topic = topic}};
    op->op.put_many.items = items;
    op->op.put_many.count = 2;
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.put_many.accepted, 2);

    struct waiter *taken = new_op(BIDE_OP_RESERVE_JOB, cq);
    taken->op.reserve_job.id = items[0].id;
    taken->op.reserve_job.job = &taken->job;
    submit_code(queue, taken, BIDE_OK);
    uint64_t id = items[0].id, token = taken->job.token;
    op = new_op(BIDE_OP_TOUCH, cq);
    op->op.touch = (bide_touch_item){.id = id, .token = token, .progress = slice("half")};
    submit_code(queue, op, BIDE_OK);
    BETWEEN(op->op.touch.left_ms, 60000 - PATIENCE_MS, 60000);
    op = new_op(BIDE_OP_RELEASE, cq);
    op->op.release.id = id;
    op->op.release.token = token;
    op->op.release.priority = BIDE_KEEP;
    submit_code(queue, op, BIDE_OK);

    op = new_op(BIDE_OP_FAIL, cq);
    op->op.fail.id = id;
    op->op.fail.retry_in_ms = 3600000;
    op->op.fail.error = slice("text");
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.fail.state, BIDE_STATE_DELAYED);
    EQ(op->op.fail.delay_ms, 3600000);
    submit_code(queue, new_lease(BIDE_OP_KICK_JOB, cq, id, 0), BIDE_OK);
    op = new_op(BIDE_OP_BURY, cq);
    op->op.bury.id = id;
    op->op.bury.priority = BIDE_KEEP;
    submit_code(queue, op, BIDE_OK);
    op = new_op(BIDE_OP_KICK, cq);
    op->op.kick.topic = topic;
    op->op.kick.max = 5;
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.kick.count, 1);
    submit_code(queue, new_lease(BIDE_OP_CANCEL, cq, items[1].id, 0), BIDE_OK);
    taken = new_reserve(cq, &topic, 0);
    submit_code(queue, taken, BIDE_OK);
    EQ(taken->job.id, id);
    submit_code(queue, new_lease(BIDE_OP_GIVE_BACK, cq, id, taken->job.token), BIDE_OK);
    op = new_op(BIDE_OP_UPDATE, cq);
    op->op.update = (bide_update_args){id, 5, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, {NULL, 0}, {0}};
    submit_code(queue, op, BIDE_OK);
    op = new_op(BIDE_OP_DONE, cq);
    op->op.finish = (bide_finish_item){.id = id, .keep = true, .result = slice("r")};
    op->op.finish.retain_ms = 3600000;
    submit_code(queue, op, BIDE_OK);
    EQ(state_of(queue, id), BIDE_STATE_DONE);
    submit_code(queue, new_lease(BIDE_OP_DELETE, cq, id, 0), BIDE_OK);
    EQ(state_of(queue, id), BIDE_STATE_GONE);
}

static void every_kind_of_op_on_lists_and_topics_can_be_submitted(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    uint64_t id = put_in(queue, a, BIDE_STATE_READY);
    const bide_job *job = take_job(queue, id);
    struct waiter *op = new_op(BIDE_OP_TOUCH_MANY, cq);
    bide_touch_item touch = {.id = id, .token = job->token, .status = BIDE_EIO};
    op->op.touch_many.items = &touch;
    op->op.touch_many.count = 1;
    submit_code(queue, op, BIDE_OK);
    EQ(touch.status, BIDE_OK);
    op = new_op(BIDE_OP_FINISH_MANY, cq);
    bide_finish_item finish = {.id = id, .token = job->token, .status = BIDE_EIO};
    op->op.finish_many.items = &finish;
    op->op.finish_many.count = 1;
    submit_code(queue, op, BIDE_OK);
    EQ(finish.status, BIDE_OK);

    static const bide_op_kind kinds[] = {BIDE_OP_TOPIC_REF, BIDE_OP_PAUSE, BIDE_OP_RESUME};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        op = new_op(kinds[i], cq);
        op->op.topic.topic = slice(a);
        op->op.topic.delta = 1;
        op->op.topic.for_ms = 3600000;
        submit_code(queue, op, BIDE_OK);
        EQ(topic_of(queue, a).paused, kinds[i] == BIDE_OP_PAUSE);
    }
    OK(bide_topic_ref(queue, a, -1));
    put(queue, a, "body");
    op = new_op(BIDE_OP_PURGE, cq);
    op->op.purge.topic = slice(a);
    op->op.purge.state = BIDE_STATE_READY;
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.purge.count, 1);
    op = new_op(BIDE_OP_DRAIN, cq);
    op->op.drain.on = true;
    submit_code(queue, op, BIDE_OK);
    CHECK(stats_of(queue).draining);
    op->calls = 0;
    op->op.drain.on = false;
    submit_code(queue, op, BIDE_OK);
    submit_code(queue, new_op(BIDE_OP_PING, cq), BIDE_OK);
}

static void every_query_op_can_be_submitted(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    options.key_hold_retained = true;
    uint64_t id = put_in_as(queue, a, BIDE_STATE_DONE, &options);
    static const bide_op_kind looks[] = {BIDE_OP_PEEK, BIDE_OP_PEEK_FIRST, BIDE_OP_FIND,
                                         BIDE_OP_JOB_STATS};
    struct waiter *op = NULL;
    for (size_t i = 0; i < COUNT(looks); i++) {
        op = new_op(looks[i], cq);
        op->op.query.id = id;
        op->op.query.topic = slice(a);
        op->op.query.key = slice("k");
        op->op.query.state = BIDE_STATE_DONE;
        op->op.query.job = &op->job;
        submit_code(queue, op, BIDE_OK);
        EQ(op->job.id, id);
        CHECK((op->job.body == NULL) == (looks[i] == BIDE_OP_JOB_STATS));
    }
    static const bide_op_kind fetches[] = {BIDE_OP_BODY, BIDE_OP_RESULT};
    for (size_t i = 0; i < COUNT(fetches); i++) {
        op = new_op(fetches[i], cq);
        op->op.fetch.id = id;
        submit_code(queue, op, BIDE_OK);
        TEXT(bide_buf_data(op->op.fetch.buf), bide_buf_size(op->op.fetch.buf),
             i == 0 ? "body" : "result");
        bide_buf_unref(op->op.fetch.buf);
    }
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats one = {0};
    op = new_op(BIDE_OP_TOPICS, cq);
    op->op.topics.cursor = cursor;
    op->op.topics.topics = &one;
    op->op.topics.topic_max = 1;
    submit_code(queue, op, BIDE_OK);
    EQ(op->op.topics.count, 1);
    op = new_op(BIDE_OP_TOPIC_STATS, cq);
    op->op.topic_stats.topic = slice(a);
    op->op.topic_stats.stats = &one;
    submit_code(queue, op, BIDE_OK);
    EQ(one.jobs.done, 1);
    bide_stats stats = {0};
    op = new_op(BIDE_OP_STATS, cq);
    op->op.stats.stats = &stats;
    submit_code(queue, op, BIDE_OK);
    CHECK(stats.jobs.done >= 1);
    op = new_op(BIDE_OP_RESTORE, cq);
    bide_job copy = *peek_job(queue, id);
    memcpy(copy.topic, fresh_topic("b"), strlen(fresh_topic("b")) + 1);
    op->op.restore.job = &copy;
    submit_code(queue, op, BIDE_OK);
    EQ(state_of(queue, op->op.restore.id), BIDE_STATE_DONE);
}

static void arguments_may_be_changed_after_submit(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    char name[BIDE_TOPIC_MAX + 1], body[] = "before", key[] = "key";
    memcpy(name, a, strlen(a) + 1);
    bide_slice topics[1] = {slice(name)};
    struct waiter *reserve = new_reserve(cq, topics, BIDE_FOREVER);
    submit_pending(queue, reserve);
    memset(name, 'x', strlen(name));
    topics[0] = (bide_slice){NULL, 0};

    memcpy(name, a, strlen(a) + 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice(key);
    struct waiter *list = new_put(cq, name, &options);
    list->op.put.body = slice(body);
    bide_op *ops[] = {&list->op};
    CHECK(bide_submit(queue, ops, 1) >= 0);
    memset(name, 'x', strlen(name));
    memcpy(body, "after.", 6);
    memcpy(key, "xxx", 3);
    memset(&options, 0, sizeof options);
    completes(reserve, BIDE_OK);
    TEXT(reserve->job.body, reserve->job.body_size, "before");
    TEXT(reserve->job.key, reserve->job.key_size, "key");
    TEXT(reserve->job.topic, strlen(reserve->job.topic), a);
}

static void op_without_a_cq_is_rejected_if_it_would_wait(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *reserve = new_reserve(NULL, &topic, BIDE_FOREVER);
    submit_code(queue, reserve, BIDE_EINVAL);
    CHECK(!topic_exists(queue, a));
    struct waiter *wait = new_op(BIDE_OP_WAIT, NULL);
    wait->op.wait.id = put(queue, a, "body");
    wait->op.wait.timeout_ms = 1000;
    submit_code(queue, wait, BIDE_EINVAL);
    EQ(stats_of(queue).waiting + stats_of(queue).watching, 0);
    EQ(stat_job(queue, wait->op.wait.id)->state, BIDE_STATE_READY);
}

static void a_pending_op_is_pending_until_it_is_drained(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    uint64_t id = put(queue, a, "body");
    UNTIL(state_of(queue, id) == BIDE_STATE_RESERVED);
    EQ(waiter->op.status, BIDE_PENDING);
    EQ(waiter->calls, 0);
    completes(waiter, BIDE_OK);
    EQ(bide_cq_drain(cq, 0), 0);
    EQ(waiter->calls, 1);
}

static void a_pending_reserve_times_out_not_early(void)
{
    bide *queue = open_queue("");
    bide_slice topic = slice(fresh_topic("a"));
    struct waiter *waiter = new_reserve(new_cq(), &topic, 40);
    int64_t start_us = clock_us();
    submit_pending(queue, waiter);
    completes(waiter, BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 40);
    EQ(waiter->job.id, 0);
}

static void a_pending_op_can_be_cancelled(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *first = begin_reserve(queue, cq, &topic, 1);
    struct waiter *second = begin_reserve(queue, cq, &topic, 1);
    struct waiter *wait = begin_wait(queue, cq, put_later(queue, a, 3600000));
    EQ(bide_cancel_op(queue, &first->op), BIDE_OK);
    EQ(bide_cancel_op(queue, &first->op), BIDE_OK); /* still pending until it is drained */
    EQ(bide_cancel_op(queue, &wait->op), BIDE_OK);
    completes(first, BIDE_CANCELLED);
    completes(wait, BIDE_CANCELLED);
    EQ(topic_of(queue, a).waiting, 1);
    EQ(stats_of(queue).watching, 0);
    uint64_t id = put(queue, a, "body");
    completes(second, BIDE_OK);
    EQ(second->job.id, id);
    EQ(first->job.id, 0);
    EQ(first->calls, 1);
}

static void an_op_that_completed_before_the_cancel_keeps_its_result(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    uint64_t id = put(queue, a, "body");
    UNTIL(state_of(queue, id) == BIDE_STATE_RESERVED);
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_OK);
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, id);
    OK(bide_give_back(queue, id, waiter->job.token));
}

static void an_op_that_is_not_pending_cannot_be_cancelled(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    bide_slice topic = slice(fresh_topic("a"));
    struct waiter *waiter = new_reserve(cq, &topic, BIDE_FOREVER);
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_EINVAL);
    submit_pending(queue, waiter);
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_OK);
    completes(waiter, BIDE_CANCELLED);
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_EINVAL);
    EQ(waiter->op.status, BIDE_CANCELLED);
    EQ(waiter->calls, 1);
}

static void a_close_completes_every_pending_op(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    bide_event event;
    struct waiter *waiters[12];
    uint64_t id = put_later(queue, a, 3600000);
    for (size_t i = 0; i < 10; i++)
        waiters[i] = i % 2 ? begin_reserve(queue, cq, &topic, 1) : begin_wait(queue, cq, id);
    waiters[10] = new_op(BIDE_OP_EVENTS, cq);
    OK(bide_subscribe(queue, a, 0, 0, &waiters[10]->op.subscription.handle));
    waiters[10]->op.subscription.timeout_ms = BIDE_FOREVER;
    waiters[10]->op.subscription.events = &event;
    waiters[10]->op.subscription.event_max = 1;
    submit_pending(queue, waiters[10]);
    waiters[11] = new_reserve(cq, &topic, 3600000);
    submit_pending(queue, waiters[11]);
    OK(bide_delete(queue, id, 0));
    for (size_t i = 0; i < 10; i += 2)
        completes(waiters[i], BIDE_OK);
    completes(waiters[10], BIDE_OK);
    close_queue(queue);
    for (size_t i = 1; i < 12; i += 2)
        EQ(waiters[i]->op.status, BIDE_PENDING);
    for (size_t i = 1; i < 12; i += 2)
        completes(waiters[i], BIDE_CLOSED);
}

static void hundreds_of_pending_ops_complete_once_each(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiters[300];
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiters[i] = begin_reserve(queue, cq, &topic, 1);
    EQ(stats_of(queue).waiting, COUNT(waiters));
    for (size_t i = 0; i < COUNT(waiters); i++)
        put(queue, a, "body");
    for (size_t i = 0; i < COUNT(waiters); i++) {
        completes(waiters[i], BIDE_OK);
        for (size_t j = 0; j < i; j++)
            CHECK(waiters[j]->job.id != waiters[i]->job.id);
    }
    EQ(bide_cq_drain(cq, 0), 0);
    EQ(topic_of(queue, a).jobs.reserved, COUNT(waiters));
}

static const struct test tests[] = {
    TEST(the_ops_of_a_list_run_in_order),
    TEST(rejected_op_does_not_affect_the_others),
    TEST(completed_op_can_be_submitted_again),
    TEST(a_put_may_bring_a_buffer),
    TEST(rejected_item_of_a_list_is_named),
    TEST(every_kind_of_op_that_changes_jobs_can_be_submitted),
    TEST(every_kind_of_op_on_lists_and_topics_can_be_submitted),
    TEST(every_query_op_can_be_submitted),
    TEST(arguments_may_be_changed_after_submit),
    TEST(op_without_a_cq_is_rejected_if_it_would_wait),
    TEST(a_pending_op_is_pending_until_it_is_drained),
    TEST(a_pending_reserve_times_out_not_early),
    TEST(a_pending_op_can_be_cancelled),
    TEST(an_op_that_completed_before_the_cancel_keeps_its_result),
    TEST(an_op_that_is_not_pending_cannot_be_cancelled),
    TEST(a_close_completes_every_pending_op),
    TEST(hundreds_of_pending_ops_complete_once_each),
};

const struct theme async_theme = {"async", tests, COUNT(tests)};
