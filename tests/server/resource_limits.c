/* SPDX-License-Identifier: MIT */
/*
 * resource_limits.c - clients that take much of something by a way that is seldom used, or of two
 * things at once: the others are served, and all goes back when they end.
 */
#include "hostile.h"

#include "op/op_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- references to topics ---- */

/* Connections that refer to many topics leave some to others, as those that watch many do. */
static void topic_refs_leave_topics_for_others(void)
{
    enum { GREEDY = 4, EACH = 300 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-topics=1000");
    bide *greedy[GREEDY];
    int refused = 0;
    for (int i = 0; i < GREEDY; i++) {
        greedy[i] = open_at(bided);
        for (int j = 0; j < EACH; j++) {
            char name[32];
            snprintf(name, sizeof name, "topic-%d-%d", i, j);
            int code = bide_topic_ref(greedy[i], name, 1);
            CHECK(code == BIDE_OK || code == BIDE_TOO_MANY_TOPICS);
            refused += code != BIDE_OK;
        }
    }
    CHECK(refused > 0);

    struct client other;
    connect_client(&other, bided);
    for (int i = 0; i < 20; i++) {
        send_text(&other, "use mine-%d\r\nwatch mine-%d\r\n", i, i);
        EXPECT_NUMBER(&other, "USING");
        EQ(EXPECT_NUMBER(&other, "WATCHING"), i + 2);
    }
    for (int i = 0; i < GREEDY; i++)
        OK(bide_close(greedy[i]));
    UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
    EQ(test_client_stat(&other, "stats", "current-tubes"), 21);
    test_client_close(&other);
    stop(bided);
}

/* Makes so many references to one topic, in a connection that then ends. */
static void refer_and_go(const struct bided *bided, int count)
{
    enum { BATCH = 1000 };
    struct client client;
    struct op_bytes bytes = {0};
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {"much", 4}, .delta = 1};
    CHECK(bi_op_codec_encode(&op, 0, &bytes) == BIDE_OK);
    connect_client(&client, bided);
    for (int i = 0; i < count; i++) {
        send_text(&client, "call 1 topic_ref %zu\r\n", bytes.size);
        test_client_send(&client, bytes.data, bytes.size);
        test_client_send(&client, "\r\n", 2);
        for (int j = 0; i % BATCH == BATCH - 1 && j < BATCH; j++) {
            EXPECT_LINE(&client, "ANSWER 1 0 1");
            read_line(&client);
        }
    }
    bi_op_codec_wire_free_bytes(&bytes);
    test_client_close(&client);
}

/* How often the references of a connection that ends are seen on their way. */
static int count_partial(const struct bided *bided, bide *other, uint64_t count)
{
    bide_topic_stats stats;
    int partial = 0;
    refer_and_go(bided, (int)count);
    while (bide_topic_get_stats(other, "much", &stats) == BIDE_OK && stats.references > 0)
        partial += stats.references < count;
    return partial;
}

/* Others are answered while a connection that has ended gives back its references to one topic. */
static void topic_refs_to_one_topic_are_released_in_slices(void)
{
    enum { REFERENCES = 100000, ATTEMPTS = 5 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    bide *other = open_at(bided);
    int partial = 0;
    for (int i = 0; i < ATTEMPTS && partial == 0; i++)
        partial = count_partial(bided, other, REFERENCES);
    CHECK(partial > 0);
    bide_stats stats;
    OK(bide_queue_stats(other, &stats));
    EQ(stats.topics, 1);
    OK(bide_close(other));
    stop(bided);
}

/* ---- calls ---- */

/* Each cancel ends another call of its tag, also if the next comes before the end is known. */
static void each_cancel_of_a_shared_tag_cancels_one_call(void)
{
    enum { ALIKE = 50 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    struct client client;
    struct op_bytes bytes = {0};
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER, .job_max = 1};
    CHECK(bi_op_codec_encode(&op, 0, &bytes) == BIDE_OK);
    connect_client(&client, bided);
    for (int i = 0; i < ALIKE; i++) {
        send_text(&client, "call 7 reserve %zu\r\n", bytes.size);
        test_client_send(&client, bytes.data, bytes.size);
        test_client_send(&client, "\r\n", 2);
    }
    for (int i = 0; i < ALIKE; i++)
        send_text(&client, "call-cancel 7\r\n");
    for (int i = 0; i < ALIKE; i++) {
        unsigned long long size = 0;
        CHECK(sscanf(read_line(&client), "ANSWER 7 15 %llu", &size) == 1);
        EQ(strlen(read_line(&client)), size);
    }
    bi_op_codec_wire_free_bytes(&bytes);
    test_client_close(&client);
    stop(bided);
}

/* ---- reserves that are put off because too much is unread ---- */

enum { LARGE = 4 << 20, LARGE_COUNT = 18, MANY_TOPICS = 257, PUT_OFF = 4000 };

static void send_wait(struct client *client, uint64_t tag, const bide_slice *topics, size_t count)
{
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve = (bide_reserve_args){
        .topics = topics, .topic_count = count, .timeout_ms = BIDE_FOREVER, .job_max = 1};
    send_rpc(client, tag, &op);
}

static uint64_t waiting_at(bide *queue)
{
    bide_stats stats = {0};
    OK(bide_queue_stats(queue, &stats));
    return stats.waiting;
}

static void put_jobs(bide *queue, const char *topic, int count, size_t size)
{
    char *body = calloc(1, size);
    CHECK(body != NULL);
    for (int i = 0; i < count; i++)
        OK(bide_put(queue, topic, body, size, NULL, NULL));
    free(body);
}

/* A client has thousands of reserves that wait for many topics each, and does not read. They are
 * made again when it does, and each is answered at once: that takes no more of the server's stack
 * than one. */
static void parked_reserves_are_resubmitted_one_by_one(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-job-size=4MiB");
    bide *other = open_at(bided);
    struct client lazy;
    char names[MANY_TOPICS][8];
    bide_slice topics[MANY_TOPICS];
    for (int i = 0; i < MANY_TOPICS; i++)
        topics[i] = (bide_slice){names[i], (size_t)snprintf(names[i], sizeof names[i], "t%d", i)};
    connect_client(&lazy, bided);
    for (int i = 0; i < PUT_OFF; i++)
        send_wait(&lazy, (uint64_t)i + 1, topics, MANY_TOPICS);
    for (int i = 0; i < LARGE_COUNT; i++)
        send_wait(&lazy, PUT_OFF + (uint64_t)i + 1, &(bide_slice){"large", 5}, 1);
    UNTIL(waiting_at(other) == PUT_OFF + LARGE_COUNT);

    put_jobs(other, "large", LARGE_COUNT, LARGE);
    put_jobs(other, "t0", PUT_OFF, 1);
    UNTIL(waiting_at(other) == 0);
    for (int i = 0; i < PUT_OFF + LARGE_COUNT; i++) {
        size_t size = 0;
        CHECK(sscanf(read_line(&lazy), "ANSWER %*u 0 %zu", &size) == 1);
        read_body(&lazy, size);
    }
    test_client_close(&lazy);
    OK(bide_close(other));
    stop(bided);
}

static const struct test tests[] = {
    TEST(topic_refs_leave_topics_for_others),
    TEST(topic_refs_to_one_topic_are_released_in_slices),
    TEST(each_cancel_of_a_shared_tag_cancels_one_call),
    TEST(parked_reserves_are_resubmitted_one_by_one),
};

const struct theme resource_limits_theme = {"resource_limits", tests, COUNT(tests)};
