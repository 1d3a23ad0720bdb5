/* SPDX-License-Identifier: MIT */
/*
 * memory_limits.c - clients that keep memory which all share: long lists of tubes, calls that wait
 * with room for many jobs, bodies that drip, answers that are not read. Others are served.
 */
#define _GNU_SOURCE /* prlimit */
#include "hostile.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- memory of clients ---- */

/* What needs memory of the clients: a call, and a body that comes in pieces. */
static void others_have_memory(const struct bided *bided)
{
    struct client client;
    bide *queue = open_at(bided);
    OK(bide_put(queue, "others", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    connect_client(&client, bided);
    CHECK(put_in_pieces(&client, 60000));
    test_client_close(&client);
}

/* ---- calls ---- */

static void send_reference(struct client *client, uint64_t tag, const char *topic, int delta)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {topic, strlen(topic)}, .delta = delta};
    send_rpc(client, tag, &op);
}

/* ---- references to topics ---- */

static uint64_t references_of(bide *queue, const char *topic)
{
    bide_topic_stats stats = {0};
    return bide_topic_get_stats(queue, topic, &stats) == BIDE_OK ? stats.references : 0;
}

/* Made and given back in one batch, whether the first can be made or not. */
static void topic_refs_are_released_while_they_are_made(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-topics=2");
    bide *queue = open_at(bided);
    struct client client;
    connect_client(&client, bided);
    pause_server(bided);
    for (uint64_t i = 0; i < 100; i++) {
        send_reference(&client, i, "-none", 1);
        send_reference(&client, i, "-none", -1);
        send_reference(&client, i, "-none", -1);
        send_reference(&client, i, "one", 1);
        send_reference(&client, i, "one", -1);
        send_reference(&client, i, "one", 1);
        send_reference(&client, i, "too-many", 1);
        send_reference(&client, i, "too-many", -1);
    }
    CHECK(kill(bided->pid, SIGCONT) == 0);
    for (int i = 0; i < 100; i++) {
        EQ(read_rpc_reply(&client, NULL), BIDE_EINVAL);
        EQ(read_rpc_reply(&client, NULL), BIDE_EINVAL);
        EQ(read_rpc_reply(&client, NULL), BIDE_EINVAL);
        EQ(read_rpc_reply(&client, NULL), BIDE_OK);
        EQ(read_rpc_reply(&client, NULL), BIDE_OK);
        EQ(read_rpc_reply(&client, NULL), BIDE_OK);
        EQ(read_rpc_reply(&client, NULL), BIDE_TOO_MANY_TOPICS);
        EQ(read_rpc_reply(&client, NULL), BIDE_NOT_FOUND);
    }
    EQ(references_of(queue, "one"), 100);
    test_client_close(&client);
    bide_stats stats;
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.topics == 1);
    EQ(references_of(queue, "default"), 1);
    OK(bide_close(queue));
    stop(bided);
}

/* ---- memory ---- */

static void watch_lists_leave_memory_to_others(void)
{
    enum { GREEDY = 10, TUBES = 8000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=4MiB");
    struct client greedy[GREEDY];
    int refused = 0;
    for (int i = 0; i < GREEDY; i++) {
        connect_client(&greedy[i], bided);
        for (int j = 0; j < TUBES; j++)
            send_text(&greedy[i], "watch tube-%d\r\n", j);
        for (int j = 0; j < TUBES; j++)
            refused += strcmp(read_line(&greedy[i]), "OUT_OF_MEMORY") == 0;
    }
    CHECK(refused > 0);
    others_have_memory(bided);
    close_all(greedy, GREEDY);
    stop(bided);
}

/* A call that waits has room for all the jobs that it may bring: large ones take most of the
 * memory, small ones what is left. */
static void waiting_calls_leave_memory_to_others(void)
{
    enum { LARGE = 100, MIDDLE = 200, CALLS = 3000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=16MiB");
    struct client client;
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve =
        (bide_reserve_args){.topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER};
    connect_client(&client, bided);
    for (uint64_t i = 0; i < CALLS; i++) {
        op.reserve.job_max = i < LARGE ? BIDE_BATCH_JOBS : i < MIDDLE ? BIDE_BATCH_JOBS / 20 : 1;
        send_rpc(&client, i, &op);
    }
    send_text(&client, "list-tube-used\r\n");
    const char *line;
    int refused = 0;
    while (strcmp(line = read_line(&client), "USING default") != 0) {
        size_t size = 0;
        int code = 0;
        CHECK(sscanf(line, "ANSWER %*u %d %zu", &code, &size) == 2);
        CHECK(read_body(&client, size) != NULL);
        EQ(code, BIDE_EBUSY);
        refused++;
    }
    BETWEEN(refused, 1, CALLS - 1);
    others_have_memory(bided);
    test_client_close(&client);
    stop(bided);
}

/* Lists of tubes that wait for their turn count. */
static void lists_of_tubes_leave_memory_to_others(void)
{
    enum { LISTS = 100, TUBES = 2000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=2MiB");
    struct client lists[LISTS], client;
    int refused = 0;
    connect_client(&client, bided);
    for (int i = 0; i < TUBES; i++)
        send_text(&client, "use tube-%d\r\nput 0 0 100 1\r\nx\r\n", i);
    for (int i = 0; i < TUBES; i++) {
        EXPECT_NUMBER(&client, "USING");
        EXPECT_NUMBER(&client, "INSERTED");
    }
    for (int i = 0; i < LISTS; i++) {
        connect_client(&lists[i], bided);
        send_text(&lists[i], "list-tube-used\r\n");
        EXPECT_LINE(&lists[i], "USING default");
    }
    pause_server(bided);
    for (int i = 0; i < LISTS; i++)
        send_text(&lists[i], "list-tubes\r\n");
    CHECK(kill(bided->pid, SIGCONT) == 0);
    for (int i = 0; i < LISTS; i++) {
        const char *line = read_line(&lists[i]);
        size_t size = 0;
        if (sscanf(line, "OK %zu", &size) == 1)
            CHECK(read_body(&lists[i], size) != NULL);
        else
            TEXT(line, strlen(line), "OUT_OF_MEMORY");
        refused += size == 0;
    }
    BETWEEN(refused, 1, LISTS - 1);
    others_have_memory(bided);
    /* All of it was given back. */
    send_text(&client, "list-tubes\r\n");
    CHECK(read_body(&client, EXPECT_NUMBER(&client, "OK")) != NULL);
    close_all(lists, LISTS);
    test_client_close(&client);
    stop(bided);
}

/* ---- slow clients ---- */

/* A byte now and then keeps no room for which others are refused. */
static void slow_bodies_leave_memory_to_others(void)
{
    enum { GREEDY = 20, BODY = 60000 };
    static char body[BODY];
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=1MiB");
    struct client greedy[GREEDY], other;
    for (int i = 0; i < GREEDY; i++) {
        connect_client(&greedy[i], bided);
        greedy[i].may_end = true;
        send_text(&greedy[i], "put 0 0 100 %d\r\n", BODY);
        test_client_send(&greedy[i], body, BODY - 100);
    }
    connect_client(&other, bided);
    bool taken = false;
    for (int second = 0; second < 40 && !taken; second++) {
        for (int i = 0; i < GREEDY; i++)
            test_client_send(&greedy[i], "x", 1);
        taken = put_in_pieces(&other, BODY);
        nap_ms(taken ? 0 : 1000);
    }
    CHECK(taken);
    await_log(bided, "incomplete command, too slow for");
    test_client_close(&other);
    close_all(greedy, GREEDY);
    stop(bided);
}

/* Many connections that each leave a little unread have all of the memory, too. */
static void unread_replies_leave_memory_to_others(void)
{
    enum { GREEDY = 40, PEEKS = 20, BODY = 60000 };
    char flag[300], text[PEEKS * 10];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    struct bided *bided =
        serve("--url=memory:", "--listen=127.0.0.1:0", flag, "--max-client-bytes=2MiB");
    struct client other;
    int fds[GREEDY];
    size_t size = 0;
    connect_client(&other, bided);
    CHECK(put_in_pieces(&other, BODY));
    for (int i = 0; i < PEEKS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "peek 1\r\n");
    for (int i = 0; i < GREEDY; i++) {
        fds[i] = connect_at(HERE, try_unix(test_path("a.sock")));
        CHECK(send(fds[i], text, size, MSG_NOSIGNAL) == (ssize_t)size);
    }
    nap_ms(200);
    bool taken = false;
    for (int second = 0; second < 20 && !taken; second++) {
        taken = put_in_pieces(&other, BODY);
        nap_ms(taken ? 0 : 1000);
    }
    CHECK(taken);
    for (int i = 0; i < GREEDY; i++)
        close(fds[i]);
    test_client_close(&other);
    stop(bided);
}

/* ---- a store that fails ---- */

static void set_file_size(const struct bided *bided, rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(prlimit(bided->pid, RLIMIT_FSIZE, &limit, NULL) == 0);
}

static void open_worker(struct client *client, const struct bided *bided)
{
    connect_client(client, bided);
    send_text(client, "put 0 0 100 1 retries=3\r\nx\r\nreserve\r\n");
    EXPECT_NUMBER(client, "INSERTED");
    EXPECT_NUMBER(client, "RESERVED");
    EXPECT_LINE(client, "x");
}

/* What a lost connection owes to a store that cannot be written does not keep later ones from
 * ending. */
static void connections_are_released_while_the_store_fails(void)
{
    enum { VISITS = 100 }; /* several times as many as there may be */
    char url[300];
    snprintf(url, sizeof url, "--url=sqlite:%s", test_path("jobs.db"));
    struct bided *bided = serve(url, "--listen=0", "--max-connections=20");
    struct client workers[2], other, visitor;
    open_worker(&workers[0], bided);
    open_worker(&workers[1], bided);
    connect_client(&other, bided);

    /* That the jobs have failed cannot be stored: the server owes it. */
    set_file_size(bided, 1);
    test_client_close(&workers[0]);
    test_client_close(&workers[1]);
    UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
    send_text(&other, "put 0 0 100 1\r\ny\r\n");
    EXPECT_LINE(&other, "OUT_OF_MEMORY");
    for (int i = 0; i < VISITS; i++) {
        connect_client(&visitor, bided);
        send_text(&visitor, "list-tube-used\r\n");
        EXPECT_LINE(&visitor, "USING default");
        test_client_close(&visitor);
    }
    UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
    set_file_size(bided, RLIM_INFINITY);
    UNTIL(test_client_stat(&other, "stats", "current-jobs-reserved") == 0);
    test_client_close(&other);
    stop(bided);
}

static const struct test tests[] = {
    TEST(topic_refs_are_released_while_they_are_made),
    TEST(watch_lists_leave_memory_to_others),
    TEST(waiting_calls_leave_memory_to_others),
    TEST(lists_of_tubes_leave_memory_to_others),
    TEST(slow_bodies_leave_memory_to_others),
    TEST(unread_replies_leave_memory_to_others),
    TEST(connections_are_released_while_the_store_fails),
};

const struct theme memory_limits_theme = {"memory_limits", tests, COUNT(tests)};
