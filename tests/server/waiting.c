/* SPDX-License-Identifier: MIT */
/*
 * waiting.c - what waits for ever on behalf of a client ends with the client, in whichever way it
 * goes: only bided knows these verbs.
 */
#include "robust.h"

#include "backend/call.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- ways to go ---- */

static void go_plainly(struct talk *talk)
{
    talk_close(talk);
}

static void go_with_reset(struct talk *talk)
{
    struct linger linger = {1, 0};
    setsockopt(talk->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    talk_close(talk);
}

static void go_by_halves(struct talk *talk)
{
    talk->may_end = true;
    shutdown(talk->fd, SHUT_WR);
    CHECK(hear_body(talk, SIZE_MAX / 2) == NULL); /* whatever comes, until the end */
    talk_close(talk);
}

static void go_with_a_word(struct talk *talk)
{
    talk->may_end = true;
    say(talk, "quit\r\n");
    go_by_halves(talk);
}

static void (*const ways[])(struct talk *talk) = {go_plainly, go_with_reset, go_by_halves,
                                                  go_with_a_word};

/* ---- what waits ---- */

static void call(struct talk *talk, const bide_op *op)
{
    struct call_bytes bytes = {0};
    OK(bi_call_encode(op, 0, &bytes));
    say(talk, "call 7 %s %zu\r\n", bide_op_name(op->kind), bytes.size);
    talk_send(talk, bytes.data, bytes.size);
    say(talk, "\r\n");
    bi_call_bytes_free(&bytes);
}

static void call_reserve(struct talk *talk, uint64_t id)
{
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    (void)id;
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER, .job_max = 1};
    call(talk, &op);
}

static void call_wait(struct talk *talk, uint64_t id)
{
    bide_op op = {.kind = BIDE_OP_WAIT};
    op.wait = (bide_wait_args){.id = id, .timeout_ms = BIDE_FOREVER};
    call(talk, &op);
}

static void ask_many(struct talk *talk, uint64_t id)
{
    (void)id;
    say(talk, "reserve-many 5 100d\r\n");
}

static void ask_result(struct talk *talk, uint64_t id)
{
    say(talk, "result %llu 100d\r\n", (unsigned long long)id);
}

static void (*const waits[])(struct talk *talk, uint64_t id) = {call_reserve, call_wait, ask_many,
                                                                ask_result};

/* ---- what stands in front of it ---- */

static void front_nothing(struct talk *talk)
{
    say(talk, "list-tube-used\r\n");
}

/* What is behind it begins when the client has gone already. */
static void front_reserve(struct talk *talk)
{
    say(talk, "reserve\r\n");
}

/* What is behind it waits already, when the client goes, but is not the first in the line. */
static void front_put(struct talk *talk)
{
    CHECK(say_put(talk, 0, 0, 100, "front", 5));
}

static void (*const fronts[])(struct talk *talk) = {front_nothing, front_reserve, front_put};

/* ---- all ways with all of them ---- */

static void come_wait_and_go(const struct peer *peer, struct talk *other, uint64_t id, size_t front)
{
    for (size_t i = 0; i < COUNT(waits); i++) {
        for (size_t j = 0; j < COUNT(ways); j++) {
            struct talk talk;
            talk_open(&talk, peer);
            talk_stay(&talk, "nothing");
            say(&talk, "use front\r\n");
            HEAR(&talk, "USING front");
            fronts[front](&talk);
            waits[i](&talk, id);
            say(&talk, "stats\r\n");
            ways[j](&talk);
            UNTIL(talk_stat(other, "stats", "current-connections") == 1);
            EQ(talk_stat(other, "stats", "current-waiting"), 0);
        }
    }
}

static void drain(struct talk *talk)
{
    struct given given;
    char line[64];
    say(talk, "watch front\r\n");
    HEAR(talk, "WATCHING 2");
    while (say(talk, "reserve-with-timeout 0\r\n") && hear_job(talk, "RESERVED", &given, line)) {
        say(talk, "delete %llu\r\n", (unsigned long long)given.id);
        HEAR(talk, "DELETED");
    }
    TEXT(line, strlen(line), "TIMED_OUT");
}

static void wait_and_go(const struct peer *peer)
{
    struct talk other;
    talk_open(&other, peer);
    CHECK(say_put(&other, 0, 0, 100, "x", 1));
    uint64_t id = HEAR_NUMBER(&other, "INSERTED");
    for (size_t i = 0; i < COUNT(fronts); i++)
        come_wait_and_go(peer, &other, id, i);
    drain(&other);
    talk_close(&other);
}

static void what_waits_ends_with_its_client(void)
{
    if (!peer_is_reference())
        with_peer(IN_MEMORY, wait_and_go);
}

static void what_waits_ends_with_its_client_when_jobs_are_stored(void)
{
    if (!peer_is_reference())
        with_peer(IN_FILE, wait_and_go);
}

static const struct test tests[] = {
    TEST(what_waits_ends_with_its_client),
    TEST(what_waits_ends_with_its_client_when_jobs_are_stored),
};

const struct theme waiting_theme = {"waiting", tests, COUNT(tests)};
