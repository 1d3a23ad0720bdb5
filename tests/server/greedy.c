/* SPDX-License-Identifier: MIT */
/*
 * greedy.c - clients that take much of something by a way that is seldom used, or of two things at
 * once: the others are served, and all goes back when they end.
 */
#include "hostile.h"

#include "backend/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- references to topics ---- */

/* Connections that refer to many topics leave some to others, as those that watch many do. */
static void references_leave_room_for_others(void)
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

    struct talk other;
    open_talk(&other, bided);
    for (int i = 0; i < 20; i++) {
        say(&other, "use mine-%d\r\nwatch mine-%d\r\n", i, i);
        HEAR_NUMBER(&other, "USING");
        EQ(HEAR_NUMBER(&other, "WATCHING"), i + 2);
    }
    for (int i = 0; i < GREEDY; i++)
        OK(bide_close(greedy[i]));
    UNTIL(talk_stat(&other, "stats", "current-connections") == 1);
    EQ(talk_stat(&other, "stats", "current-tubes"), 21);
    talk_close(&other);
    stop(bided);
}

/* Makes so many references to one topic, in a connection that then ends. */
static void refer_and_go(const struct bided *bided, int count)
{
    enum { BATCH = 1000 };
    struct talk talk;
    struct call_bytes bytes = {0};
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {"much", 4}, .delta = 1};
    CHECK(bi_call_encode(&op, 0, &bytes) == BIDE_OK);
    open_talk(&talk, bided);
    for (int i = 0; i < count; i++) {
        say(&talk, "call 1 topic_ref %zu\r\n", bytes.size);
        talk_send(&talk, bytes.data, bytes.size);
        talk_send(&talk, "\r\n", 2);
        for (int j = 0; i % BATCH == BATCH - 1 && j < BATCH; j++) {
            HEAR(&talk, "ANSWER 1 0 1");
            hear(&talk);
        }
    }
    bi_call_bytes_free(&bytes);
    talk_close(&talk);
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
static void references_to_one_topic_go_back_in_slices(void)
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
static void cancels_of_one_tag_end_as_many_calls(void)
{
    enum { ALIKE = 50 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    struct talk talk;
    struct call_bytes bytes = {0};
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER, .job_max = 1};
    CHECK(bi_call_encode(&op, 0, &bytes) == BIDE_OK);
    open_talk(&talk, bided);
    for (int i = 0; i < ALIKE; i++) {
        say(&talk, "call 7 reserve %zu\r\n", bytes.size);
        talk_send(&talk, bytes.data, bytes.size);
        talk_send(&talk, "\r\n", 2);
    }
    for (int i = 0; i < ALIKE; i++)
        say(&talk, "call-cancel 7\r\n");
    for (int i = 0; i < ALIKE; i++) {
        unsigned long long size = 0;
        CHECK(sscanf(hear(&talk), "ANSWER 7 15 %llu", &size) == 1);
        EQ(strlen(hear(&talk)), size);
    }
    bi_call_bytes_free(&bytes);
    talk_close(&talk);
    stop(bided);
}

static const struct test tests[] = {
    TEST(references_leave_room_for_others),
    TEST(references_to_one_topic_go_back_in_slices),
    TEST(cancels_of_one_tag_end_as_many_calls),
};

const struct theme greedy_theme = {"greedy", tests, COUNT(tests)};
