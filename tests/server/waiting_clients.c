/* SPDX-License-Identifier: MIT */
/*
 * waiting_clients.c - what waits for ever on behalf of a client ends with the client, in whichever
 * way it goes: only bided knows these verbs.
 */
#include "robust.h"

#include "op/op_codec.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- ways to go ---- */

static void go_plainly(struct client *client)
{
    test_client_close(client);
}

static void go_with_reset(struct client *client)
{
    struct linger linger = {1, 0};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    test_client_close(client);
}

static void go_by_halves(struct client *client)
{
    client->may_end = true;
    shutdown(client->fd, SHUT_WR);
    CHECK(read_body(client, SIZE_MAX / 2) == NULL); /* whatever comes, until the end */
    test_client_close(client);
}

static void go_with_a_word(struct client *client)
{
    client->may_end = true;
    send_text(client, "quit\r\n");
    go_by_halves(client);
}

static void (*const ways[])(struct client *client) = {go_plainly, go_with_reset, go_by_halves,
                                                      go_with_a_word};

/* ---- what waits ---- */

static void call(struct client *client, const bide_op *op)
{
    struct op_bytes bytes = {0};
    OK(bi_op_codec_encode(op, 0, &bytes));
    send_text(client, "call 7 %s %zu\r\n", bide_op_name(op->kind), bytes.size);
    test_client_send(client, bytes.data, bytes.size);
    send_text(client, "\r\n");
    bi_op_codec_wire_free_bytes(&bytes);
}

static void call_reserve(struct client *client, uint64_t id)
{
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    (void)id;
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER, .job_max = 1};
    call(client, &op);
}

static void call_wait(struct client *client, uint64_t id)
{
    bide_op op = {.kind = BIDE_OP_WAIT};
    op.wait = (bide_wait_args){.id = id, .timeout_ms = BIDE_FOREVER};
    call(client, &op);
}

static void ask_many(struct client *client, uint64_t id)
{
    (void)id;
    send_text(client, "reserve-many 5 100d\r\n");
}

static void ask_result(struct client *client, uint64_t id)
{
    send_text(client, "result %llu 100d\r\n", (unsigned long long)id);
}

static void (*const waits[])(struct client *client, uint64_t id) = {call_reserve, call_wait,
                                                                    ask_many, ask_result};

/* ---- what stands in front of it ---- */

static void front_nothing(struct client *client)
{
    send_text(client, "list-tube-used\r\n");
}

/* What is behind it begins when the client has gone already. */
static void front_reserve(struct client *client)
{
    send_text(client, "reserve\r\n");
}

/* What is behind it waits already, when the client goes, but is not the first in the line. */
static void front_put(struct client *client)
{
    CHECK(send_put(client, 0, 0, 100, "front", 5));
}

static void (*const fronts[])(struct client *client) = {front_nothing, front_reserve, front_put};

/* ---- all ways with all of them ---- */

static void come_wait_and_go(const struct server *server, struct client *other, uint64_t id,
                             size_t front)
{
    for (size_t i = 0; i < COUNT(waits); i++) {
        for (size_t j = 0; j < COUNT(ways); j++) {
            struct client client;
            test_client_open(&client, server);
            test_client_use_only(&client, "nothing");
            send_text(&client, "use front\r\n");
            EXPECT_LINE(&client, "USING front");
            fronts[front](&client);
            waits[i](&client, id);
            send_text(&client, "stats\r\n");
            ways[j](&client);
            UNTIL(test_client_stat(other, "stats", "current-connections") == 1);
            EQ(test_client_stat(other, "stats", "current-waiting"), 0);
        }
    }
}

static void drain(struct client *client)
{
    struct job_reply job_reply;
    char line[64];
    send_text(client, "watch front\r\n");
    EXPECT_LINE(client, "WATCHING 2");
    while (send_text(client, "reserve-with-timeout 0\r\n") &&
           read_job(client, "RESERVED", &job_reply, line)) {
        send_text(client, "delete %llu\r\n", (unsigned long long)job_reply.id);
        EXPECT_LINE(client, "DELETED");
    }
    TEXT(line, strlen(line), "TIMED_OUT");
}

static void wait_and_go(const struct server *server)
{
    struct client other;
    test_client_open(&other, server);
    CHECK(send_put(&other, 0, 0, 100, "x", 1));
    uint64_t id = EXPECT_NUMBER(&other, "INSERTED");
    for (size_t i = 0; i < COUNT(fronts); i++)
        come_wait_and_go(server, &other, id, i);
    drain(&other);
    test_client_close(&other);
}

static void waits_end_with_their_client(void)
{
    if (!test_server_is_beanstalkd())
        with_server(IN_MEMORY, wait_and_go);
}

static void waits_end_with_their_client_with_a_file(void)
{
    if (!test_server_is_beanstalkd())
        with_server(IN_FILE, wait_and_go);
}

static const struct test tests[] = {
    TEST(waits_end_with_their_client),
    TEST(waits_end_with_their_client_with_a_file),
};

const struct theme waiting_clients_theme = {"waiting_clients", tests, COUNT(tests)};
