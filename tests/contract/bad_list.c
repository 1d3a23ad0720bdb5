/* SPDX-License-Identifier: MIT */
/* bad_list.c - bad input to pages, feeds, submit and completion queues. */
#include "sample_queue.h"

#include <string.h>

static void page_of_an_invalid_size_is_rejected(void)
{
    static bide_job jobs[BIDE_BATCH_JOBS + 1];
    static bide_topic_stats topics[BIDE_BATCH_JOBS + 1];
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    static const size_t sizes[] = {0, BIDE_BATCH_JOBS + 1, SIZE_MAX};
    size_t count;
    spoil(&count, sizeof count);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        BAD(sample, bide_list(queue, NULL, BIDE_STATE_GONE, NULL, cursor, jobs, sizes[i], &count));
        BAD(sample, bide_topics(queue, cursor, topics, sizes[i], &count));
        BAD(sample, bide_waiting(queue, cursor, topics, sizes[i], &count));
    }
    SPOILED(count);
    EQ(jobs[0].id, 0);
    EQ(topics[0].name[0], 0);
}

static void page_without_an_array_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job job;
    bide_topic_stats topic;
    size_t count;
    spoil(&job, sizeof job);
    spoil(&topic, sizeof topic);
    spoil(&count, sizeof count);
    BAD(sample, bide_list(queue, NULL, BIDE_STATE_GONE, NULL, NULL, &job, 1, &count));
    BAD(sample, bide_list(queue, NULL, BIDE_STATE_GONE, NULL, cursor, NULL, 1, &count));
    BAD(sample, bide_topics(queue, NULL, &topic, 1, &count));
    BAD(sample, bide_topics(queue, cursor, NULL, 1, &count));
    BAD(sample, bide_waiting(queue, NULL, &topic, 1, &count));
    BAD(sample, bide_waiting(queue, cursor, NULL, 1, &count));
    SPOILED(job);
    SPOILED(topic);
    SPOILED(count);
}

static void invalid_cursor_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    static const char *const texts[] = {"garbage", " ", "\001\002\377", "0123456789;;;;;;;;;"};
    bide_job job;
    bide_topic_stats topic;
    size_t count;
    spoil(&job, sizeof job);
    spoil(&topic, sizeof topic);
    spoil(&count, sizeof count);
    for (size_t i = 0; i <= COUNT(texts); i++) {
        char cursor[BIDE_CURSOR_SIZE] = "", before[BIDE_CURSOR_SIZE];
        if (i < COUNT(texts))
            memcpy(cursor, texts[i], strlen(texts[i]));
        else
            memset(cursor, 'x', sizeof cursor); /* a text that does not end */
        memcpy(before, cursor, sizeof cursor);
        BAD(sample, bide_list(queue, NULL, BIDE_STATE_GONE, NULL, cursor, &job, 1, &count));
        BAD(sample, bide_topics(queue, cursor, &topic, 1, &count));
        BAD(sample, bide_waiting(queue, cursor, &topic, 1, &count));
        CHECK(memcmp(cursor, before, sizeof cursor) == 0);
    }
    SPOILED(job);
    SPOILED(topic);
    SPOILED(count);
}

static void filter_with_an_invalid_key_or_text_is_rejected(void)
{
    static const char long_key[BIDE_KEY_MAX + 1] = {0};
    struct sample_queue *sample = new_sample_queue("");
    bide_filter filters[] = {
        {.key = {NULL, 1}}, {.text = {NULL, 1}}, {.key = {long_key, sizeof long_key}}};
    bide_job job;
    size_t count;
    spoil(&job, sizeof job);
    spoil(&count, sizeof count);
    for (size_t i = 0; i < COUNT(filters); i++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        BAD(sample,
            bide_list(sample->queue, NULL, BIDE_STATE_GONE, &filters[i], cursor, &job, 1, &count));
    }
    SPOILED(job);
    SPOILED(count);
}

static void invalid_subscription_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_subscription *feed;
    spoil(&feed, sizeof feed);
    BAD(sample, bide_subscribe(sample->queue, NULL, 1U << BIDE_EVENT_KINDS, 0, &feed));
    BAD(sample, bide_subscribe(sample->queue, NULL, 1U << 31, 0, &feed));
    BAD(sample, bide_subscribe(sample->queue, NULL, 0, 1000001, &feed));
    BAD(sample, bide_subscribe(sample->queue, NULL, 0, UINT32_MAX, &feed));
    BAD(sample, bide_subscribe(sample->queue, NULL, 0, 0, NULL));
    SPOILED(feed);
}

static void invalid_events_call_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    bide_subscription *feed = NULL;
    bide_event event;
    size_t count;
    uint64_t lost;
    spoil(&event, sizeof event);
    spoil(&count, sizeof count);
    spoil(&lost, sizeof lost);
    OK(bide_subscribe(queue, NULL, 0, 0, &feed));
    sample_queue_remember(sample);
    CODE(bide_events(queue, NULL, 0, &event, 1, &count, &lost), BIDE_EINVAL);
    CODE(bide_events(queue, feed, 0, NULL, 1, &count, &lost), BIDE_EINVAL);
    CODE(bide_events(queue, feed, 0, &event, 0, &count, &lost), BIDE_EINVAL);
    CODE(bide_unsubscribe(queue, NULL), BIDE_EINVAL);
    SPOILED(event);
    SPOILED(count);
    SPOILED(lost);
    UNCHANGED(sample);
    OK(bide_unsubscribe(queue, feed));
}

static void invalid_list_of_ops_is_not_read(void)
{
    struct sample_queue *sample = new_sample_queue("");
    struct waiter *op = new_op(BIDE_OP_PUT, new_cq());
    op->op.put.topic = slice(sample->topic);
    op->op.status = 42;
    bide_op *ops[] = {&op->op, NULL};
    EQ(bide_submit(NULL, ops, 1), BIDE_EINVAL);
    EQ(bide_submit(sample->queue, NULL, 1), BIDE_EINVAL);
    EQ(bide_submit(sample->queue, ops, 2), BIDE_EINVAL);
    CHECK(bide_submit(sample->queue, ops, 0) <= 0);
    EQ(bide_submit(sample->queue, NULL, 0), 0);
    EQ(op->op.status, 42);
    UNCHANGED(sample);
}

/* Ops with nothing set but their kind: whatever an op needs is missing. */
static void zeroed_op_of_any_kind_is_rejected_or_harmless(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_cq *cq = new_cq();
    for (int kind = 1; kind < BIDE_OP_COUNT; kind++) {
        /* These ask for nothing, or for something that cannot be missing. */
        if (kind == BIDE_OP_PING || kind == BIDE_OP_DRAIN || kind == BIDE_OP_SUBSCRIBE ||
            kind == BIDE_OP_WAIT || kind == BIDE_OP_RECOVERED)
            continue;
        struct waiter *op = new_op((bide_op_kind)kind, cq);
        bide_op *ops[] = {&op->op};
        int pending = bide_submit(sample->queue, ops, 1);
        BETWEEN(pending, 0, completes_in_submit() ? 0 : 1);
        UNTIL(op->op.status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        if (op->op.status != BIDE_EINVAL && op->op.status != BIDE_NOT_FOUND)
            FAIL("an empty %s: expected BIDE_EINVAL or BIDE_NOT_FOUND, got %s",
                 bide_op_name((bide_op_kind)kind), bide_code_name(op->op.status));
        CHECK(op->op.error[0] != '\0');
        EQ(op->calls, pending);
        UNCHANGED(sample);
    }
}

static void invalid_cancellation_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    struct waiter *op = new_op(BIDE_OP_PING, new_cq());
    EQ(bide_cancel_op(sample->queue, NULL), BIDE_EINVAL);
    EQ(bide_cancel_op(NULL, &op->op), BIDE_EINVAL);
    EQ(bide_cancel_op(sample->queue, &op->op), BIDE_EINVAL);
    submit_code(sample->queue, op, BIDE_OK);
    EQ(bide_cancel_op(sample->queue, &op->op), BIDE_EINVAL);
    UNCHANGED(sample);
}

static void invalid_completion_queue_is_rejected(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    bide_slice topic = slice(fresh_topic("a"));
    EQ(bide_cq_new(NULL), BIDE_EINVAL);
    CHECK(bide_cq_fd(NULL) < 0);
    EQ(bide_cq_drain(NULL, 0), BIDE_EINVAL);
    EQ(bide_cq_wait(NULL, 0), BIDE_EINVAL);
    /* There is something to drain, so that a wait which is not refused does not last. */
    struct waiter *waiter = begin_reserve(queue, cq, &topic, 1);
    EQ(bide_cancel_op(queue, &waiter->op), BIDE_OK);
    for (size_t i = 0; i < COUNT(bad_times); i++)
        EQ(bide_cq_wait(cq, bad_times[i]), BIDE_EINVAL);
    completes(waiter, BIDE_CANCELLED);
    EQ(bide_cq_free(NULL), BIDE_OK);
}

static const struct test tests[] = {
    TEST(page_of_an_invalid_size_is_rejected), TEST(page_without_an_array_is_rejected),
    TEST(invalid_cursor_is_rejected),          TEST(filter_with_an_invalid_key_or_text_is_rejected),
    TEST(invalid_subscription_is_rejected),    TEST(invalid_events_call_is_rejected),
    TEST(invalid_list_of_ops_is_not_read),     TEST(zeroed_op_of_any_kind_is_rejected_or_harmless),
    TEST(invalid_cancellation_is_rejected),    TEST(invalid_completion_queue_is_rejected),
};

const struct theme bad_list_theme = {"bad_list", tests, COUNT(tests)};
