/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - clients that mean harm: whatever one connection asks for, holds or declares, the
 * others are served, and the server stays small.
 *
 * Nothing is timed. What must not depend on the number of something is measured twice in one run,
 * in processor time of the server, and compared; what must be shared is seen in the order of
 * replies.
 */
#include "hostile.h"

#include "op/op_codec.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- connections ---- */

void connect_client(struct client *client, const struct bided *bided)
{
    struct server server = {.pid = bided->pid, .port = port_of(bided, "127.0.0.1")};
    test_client_open(client, &server);
}

/* Another client puts a job, takes it and deletes it. */
static void others_are_served(const struct bided *bided)
{
    struct client client;
    connect_client(&client, bided);
    test_client_use_only(&client, "others");
    CHECK(send_put(&client, 0, 0, 100, "fine", 4));
    uint64_t id = EXPECT_NUMBER(&client, "INSERTED");
    send_text(&client, "reserve\r\ndelete %" PRIu64 "\r\n", id);
    CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
    EXPECT_LINE(&client, "fine");
    EXPECT_LINE(&client, "DELETED");
    test_client_close(&client);
}

/* ---- calls ---- */

void send_rpc(struct client *client, uint64_t tag, const bide_op *op)
{
    struct op_bytes bytes = {0};
    CHECK(bi_op_codec_encode(op, 0, &bytes) == BIDE_OK);
    send_text(client, "call %" PRIu64 " %s %zu\r\n", tag, bide_op_name(op->kind), bytes.size);
    test_client_send(client, bytes.data, bytes.size);
    test_client_send(client, "\r\n", 2);
    bi_op_codec_wire_free_bytes(&bytes);
}

static void send_reserve(struct client *client, uint64_t tag, int64_t timeout_ms)
{
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = timeout_ms, .job_max = 1};
    send_rpc(client, tag, &op);
}

int read_rpc_reply(struct client *client, uint64_t *tag)
{
    unsigned long long number = 0;
    int code = 0;
    size_t size = 0;
    const char *line = read_line(client);
    CHECK(line != NULL && sscanf(line, "ANSWER %llu %d %zu", &number, &code, &size) == 3);
    CHECK(read_body(client, size) != NULL);
    if (tag != NULL)
        *tag = number;
    return code;
}

static void hear_code(struct client *client, uint64_t tag, int want)
{
    uint64_t got;
    EQ(read_rpc_reply(client, &got), want);
    EQ(got, tag);
}

/* ---- processor time ---- */

/* Nanoseconds that the server has used. */
static int64_t used_ns(const struct bided *bided)
{
    clockid_t clock;
    struct timespec used = {0};
    CHECK(clock_getcpuclockid(bided->pid, &clock) == 0 && clock_gettime(clock, &used) == 0);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* ---- what a call costs ---- */

#define FEW     100
#define MANY    30000
#define CANCELS 20000

/* Cancels calls that are not there. */
static int64_t cost_of_cancels(const struct bided *bided, struct client *client)
{
    int64_t before = used_ns(bided);
    for (int i = 0; i < CANCELS; i++)
        send_text(client, "call-cancel %d\r\n", 1000000 + i);
    send_text(client, "list-tube-used\r\n");
    EXPECT_LINE(client, "USING default");
    return used_ns(bided) - before;
}

static void cancel_cost_does_not_depend_on_waiting_calls(void)
{
    struct bided *bided =
        serve("--url=memory:", "--listen=0", "--max-waiters-per-connection=100000");
    struct client client, other;
    connect_client(&client, bided);
    connect_client(&other, bided);
    for (int i = 0; i < FEW; i++)
        send_reserve(&client, (uint64_t)i, BIDE_FOREVER);
    UNTIL(test_client_stat(&other, "stats", "current-waiting") == FEW);
    int64_t few = cost_of_cancels(bided, &client);
    for (int i = FEW; i < MANY; i++)
        send_reserve(&client, (uint64_t)i, BIDE_FOREVER);
    UNTIL(test_client_stat(&other, "stats", "current-waiting") == MANY);
    int64_t many = cost_of_cancels(bided, &client);
    if (many > 8 * few)
        FAIL("%d cancels take %" PRId64 " us with %d calls that wait, and %" PRId64 " us with %d",
             CANCELS, few / 1000, FEW, many / 1000, MANY);
    /* Each of them is found, the first as the last. */
    for (int i = 0; i < MANY; i++)
        send_text(&client, "call-cancel %d\r\n", i);
    for (int i = 0; i < MANY; i++)
        hear_code(&client, (uint64_t)i, BIDE_CANCELLED);
    EQ(test_client_stat(&other, "stats", "current-waiting"), 0);
    test_client_close(&client);
    test_client_close(&other);
    stop(bided);
}

/* A client may give several calls one tag: each cancel ends one of them. */
static void calls_of_one_tag_are_cancelled_one_by_one(void)
{
    enum { ALIKE = 50 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    struct client client, other;
    connect_client(&client, bided);
    connect_client(&other, bided);
    for (int i = 0; i < ALIKE; i++) {
        send_reserve(&client, 7, BIDE_FOREVER);
        send_reserve(&client, 8, BIDE_FOREVER);
    }
    UNTIL(test_client_stat(&other, "stats", "current-waiting") == (int64_t)2 * ALIKE);
    for (int i = 0; i < ALIKE; i++) {
        send_text(&client, "call-cancel 7\r\n");
        hear_code(&client, 7, BIDE_CANCELLED);
        EQ(test_client_stat(&other, "stats", "current-waiting"), 2 * ALIKE - i - 1);
    }
    send_text(&client, "call-cancel 7\r\ncall-cancel 8\r\n");
    hear_code(&client, 8, BIDE_CANCELLED);
    test_client_close(&client);
    UNTIL(test_client_stat(&other, "stats", "current-waiting") == 0);
    test_client_close(&other);
    stop(bided);
}

/* ---- one turn ---- */

#define WATCHED  3000
#define REPEATED 2500 /* less than a socket takes while the server is stopped */

void pause_server(const struct bided *bided)
{
    CHECK(kill(bided->pid, SIGSTOP) == 0);
    nap_ms(50);
}

/* Looks at all watched tubes, thousands of times, and then puts a job: another client, whose
 * command came at the same time, does not wait for all of that, so it does not see the job. */
static void slow_commands_are_executed_in_slices(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    struct client client, other;
    connect_client(&client, bided);
    connect_client(&other, bided);
    for (int i = 0; i < WATCHED; i++)
        send_text(&client, "watch tube-%d\r\n", i);
    for (int i = 0; i < WATCHED; i++)
        EXPECT_NUMBER(&client, "WATCHING");
    send_text(&client, "list-tube-used\r\n");
    EXPECT_LINE(&client, "USING default");
    send_text(&other, "list-tube-used\r\n");
    EXPECT_LINE(&other, "USING default");

    pause_server(bided);
    static char text[REPEATED * 20 + 100];
    size_t size = 0;
    for (int i = 0; i < REPEATED; i++)
        size += (size_t)sprintf(text + size, "watch tube-%d\r\n", WATCHED - 1);
    size += (size_t)sprintf(text + size, "put 0 0 100 1\r\nx\r\n");
    CHECK(test_client_send(&client, text, size));
    nap_ms(50);
    send_text(&other, "reserve-with-timeout 0\r\n");
    nap_ms(50);
    CHECK(kill(bided->pid, SIGCONT) == 0);

    EXPECT_LINE(&other, "TIMED_OUT");
    for (int i = 0; i < REPEATED; i++)
        EXPECT_NUMBER(&client, "WATCHING");
    EXPECT_NUMBER(&client, "INSERTED");
    test_client_close(&client);
    test_client_close(&other);
    stop(bided);
}

/* ---- bodies that do not come ---- */

#define DECLARED 1040000

/* So many connections declare a large body, and send so much of it. */
static void declare(const struct bided *bided, struct client *clients, int count, size_t sent)
{
    static char part[DECLARED];
    for (int i = 0; i < count; i++) {
        connect_client(&clients[i], bided);
        send_text(&clients[i], "list-tube-used\r\n");
        EXPECT_LINE(&clients[i], "USING default");
        send_text(&clients[i], "put 0 0 100 %d\r\n", DECLARED);
        test_client_send(&clients[i], part, sent);
    }
}

void close_all(struct client *clients, int count)
{
    for (int i = 0; i < count; i++)
        test_client_close(&clients[i]);
}

bool put_in_pieces(struct client *client, size_t size)
{
    char *body = calloc(1, size);
    CHECK(body != NULL);
    send_text(client, "list-tube-used\r\nput 0 0 100 %zu\r\n", size);
    EXPECT_LINE(client, "USING default");
    test_client_send(client, body, size / 2);
    nap_ms(20);
    test_client_send(client, body + size / 2, size - size / 2);
    test_client_send(client, "\r\n", 2);
    free(body);
    const char *line = read_line(client);
    CHECK(strncmp(line, "INSERTED ", 9) == 0 || strcmp(line, "OUT_OF_MEMORY") == 0);
    return line[0] == 'I';
}

static void declared_bodies_take_no_memory(void)
{
    enum { CONNECTIONS = 40 };
    struct bided *bided =
        serve("--url=memory:?max_job_size=1MiB", "--listen=0", "--max-client-bytes=4MiB");
    struct client clients[CONNECTIONS], other;
    declare(bided, clients, CONNECTIONS, 0);
    others_are_served(bided);
    bide *queue = open_at(bided);
    OK(bide_put(queue, "others", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    connect_client(&other, bided);
    CHECK(put_in_pieces(&other, DECLARED));
    /* Those who declared them may send them now, one after the other. */
    static char rest[DECLARED];
    for (int i = 0; i < 4; i++) {
        test_client_send(&clients[i], rest, sizeof rest);
        test_client_send(&clients[i], "\r\n", 2);
        EXPECT_NUMBER(&clients[i], "INSERTED");
    }
    test_client_close(&other);
    close_all(clients, CONNECTIONS);
    stop(bided);
}

/* Bodies that come in part, and then no more, leave room for the commands of others. */
static void large_bodies_leave_memory_for_small_ones(void)
{
    enum { CONNECTIONS = 12 };
    struct bided *bided =
        serve("--url=memory:?max_job_size=1MiB", "--listen=0", "--max-client-bytes=4MiB");
    struct client clients[CONNECTIONS], other;
    declare(bided, clients, CONNECTIONS, DECLARED - 1);
    connect_client(&other, bided);
    CHECK(put_in_pieces(&other, 60000));
    others_are_served(bided);
    bide *queue = open_at(bided);
    OK(bide_put(queue, "others", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    /* Some of them had to be refused: they hear it when their body is complete. */
    int refused = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        test_client_send(&clients[i], "x\r\n", 3);
        const char *line = read_line(&clients[i]);
        CHECK(strncmp(line, "INSERTED ", 9) == 0 || strcmp(line, "OUT_OF_MEMORY") == 0);
        refused += line[0] == 'O';
        send_text(&clients[i], "list-tube-used\r\n");
        EXPECT_LINE(&clients[i], "USING default");
    }
    BETWEEN(refused, CONNECTIONS - 4, CONNECTIONS - 1);
    test_client_close(&other);
    close_all(clients, CONNECTIONS);
    stop(bided);
}

/* ---- commands that are not finished ---- */

static void partial_command_times_out(void)
{
    static const char *const parts[] = {
        "stat",                      /* half a line */
        "put 0 0 100 5\r\n",         /* a body of which nothing comes, */
        "put 0 0 100 5\r\nhel",      /* and one of which a part comes; */
        "put 0 0 100 100000\r\nhel", /* the same for one that is refused, */
        "call 1 put 100000\r\nhel",  /* and for a call */
        "put 0 0 100 5\r\nhello\r",
    };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--command-timeout=1s");
    int port = port_of(bided, "127.0.0.1");
    int fds[COUNT(parts)];
    int64_t start_us = clock_us();
    for (size_t i = 0; i < COUNT(parts); i++) {
        fds[i] = connect_tcp(port);
        ssize_t size = (ssize_t)strlen(parts[i]);
        CHECK(send(fds[i], parts[i], (size_t)size, MSG_NOSIGNAL) == size);
    }
    for (size_t i = 0; i < COUNT(parts); i++)
        await_close(fds[i]);
    NOT_BEFORE(start_us, 900);
    await_log(bided, "incomplete command, no input for");
    others_are_served(bided);
    stop(bided);
}

static void slow_command_does_not_time_out(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--command-timeout=2s");
    int port = port_of(bided, "127.0.0.1");
    int idle = connect_tcp(port), waiting = connect_tcp(port), slow = connect_tcp(port);
    ask(idle, "list-tube-used\r\n", "USING default\r\n");
    /* What stands behind a reserve that waits is not looked at. */
    static const char behind[] =
        "watch other\r\nignore default\r\nreserve-with-timeout 6\r\nlist-tub";
    CHECK(send(waiting, behind, sizeof behind - 1, MSG_NOSIGNAL) == sizeof behind - 1);
    static const char text[] = "put 0 0 100 5\r\nhello\r\n";
    for (size_t i = 0; i < sizeof text - 1; i++) {
        nap_ms(300);
        CHECK(send(slow, text + i, 1, MSG_NOSIGNAL) == 1);
    }
    ask(slow, "", "INSERTED 1\r\n");
    ask(idle, "list-tube-used\r\n", "USING default\r\n");
    ask(waiting, "", "WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n");
    ask(waiting, "e-used\r\n", "USING default\r\n");
    LACKS(bided->err, "a part of a command");
    stop(bided);
}

/* ---- feeds ---- */

static void subscription_uses_only_the_memory_it_needs(void)
{
    enum { FEEDS = 16 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-memory=32MiB");
    bide *queue = open_at(bided), *other = open_at(bided);
    bide_subscription *feeds[FEEDS], *feed = NULL;
    for (int i = 0; i < FEEDS; i++)
        OK(bide_subscribe(queue, NULL, 0, 1000000, &feeds[i]));
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    BETWEEN((int64_t)stats.memory_bytes, 0, 8 << 20);
    OK(bide_put(queue, "a", "x", 1, NULL, NULL));
    CODE(bide_subscribe(queue, NULL, 0, 0, &feed), BIDE_TOO_MANY_WAITERS);
    CHECK(strstr(bide_last_error(), "max_feeds_per_connection") != NULL);
    OK(bide_subscribe(other, NULL, 0, 0, &feed));
    OK(bide_unsubscribe(queue, feeds[0]));
    OK(bide_subscribe(queue, NULL, 0, 0, &feeds[0]));
    OK(bide_close(queue));
    OK(bide_close(other));
    stop(bided);
}

/* However much happens, what feeds keep leaves room for jobs. */
static void unread_subscriptions_leave_memory_for_jobs(void)
{
    enum { FEEDS = 16, JOBS = 20000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-memory=32MiB");
    bide *queue = open_at(bided);
    bide_subscription *feeds[FEEDS];
    for (int i = 0; i < FEEDS; i++)
        OK(bide_subscribe(queue, NULL, 0, 1000000, &feeds[i]));
    struct client client;
    connect_client(&client, bided);
    for (int i = 0; i < JOBS; i++)
        CHECK(send_put(&client, 0, 0, 100, "x", 1));
    for (int i = 0; i < JOBS; i++)
        EXPECT_NUMBER(&client, "INSERTED");
    /* The last events are there, and the reader hears how many are not. */
    bide_event events[100];
    size_t count = 0, seen = 0;
    uint64_t lost = 0, all_lost = 0, last = 0;
    while (bide_events(queue, feeds[0], 0, events, COUNT(events), &count, &lost) == BIDE_OK) {
        all_lost += lost;
        for (size_t i = 0; i < count; i++, seen++) {
            CHECK(events[i].id > last || events[i].kind != BIDE_EVENT_PUT);
            last = events[i].id;
        }
    }
    EQ(last, JOBS);
    CHECK(all_lost > 0 && seen > 0);
    test_client_close(&client);
    OK(bide_close(queue));
    stop(bided);
}

/* ---- HTTP ---- */

static const char http_line[] = "GET / HTTP/1.1\r\n";

/* The server stops reading such a connection. A reserve in front of the request must not keep
 * it. */
static void http_request_after_a_reserve_closes_the_connection(void)
{
    static const char *const reserves[] = {"reserve\r\n", "reserve-with-timeout 100000\r\n",
                                           "reserve\r\nreserve\r\n"};
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    int other = connect_tcp(port);
    for (size_t i = 0; i < COUNT(reserves); i++) {
        char text[200];
        size_t size = (size_t)snprintf(text, sizeof text, "%s%s", reserves[i], http_line);
        int fd = connect_tcp(port);
        CHECK(send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size);
        await_close(fd);
    }
    ask(other, "put 0 0 100 1\r\nx\r\n", "INSERTED 1\r\n");
    ask(other, "peek-ready\r\n", "FOUND 1 1\r\nx\r\n");
    stop(bided);
}

/* The beginning and the end of a request, and how many bytes of a path stand between them. */
static const struct {
    const char *begin;
    size_t path;
    const char *end;
} requests[] = {
    {"POST /", 0, " HTTP/1.1\r\nHost: 127.0.0.1:11300\r\nContent-Length: 30\r\n\r\n"},
    {"GET /", 10, " HTTP/1.0\r\n"},
    {"GET /", 224, " HTTP/1.1\r\n"}, /* lines that are too long */
    {"POST /", 1000, " HTTP/1.1\r\n"},
    {"OPTIONS *", 0, " HTTP/1.1\r\n"},
    {"stats /", 0, " HTTP/1.1\r\n"},
    {"Host: ", 9, "\r\n"},
    {"host:", 1, "\r\n"},
};

static void http_request_closes_the_connection(void)
{
    static const char behind[] = "put 0 0 100 1\r\nx\r\nuse injected\r\n";
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    int other = connect_tcp(port);
    for (size_t i = 0; i < COUNT(requests); i++) {
        char text[2000], path[1001] = "";
        memset(path, 'x', requests[i].path);
        size_t size = (size_t)snprintf(text, sizeof text, "%s%s%s%s", requests[i].begin, path,
                                       requests[i].end, behind);
        CHECK(size < sizeof text);
        /* In one piece, and byte by byte. */
        int fd = connect_tcp(port);
        CHECK(send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size);
        await_close(fd);
        fd = connect_tcp(port);
        for (size_t at = 0; at < size && send(fd, text + at, 1, MSG_NOSIGNAL) == 1; at++)
            continue;
        await_close(fd);
        ask(other, "peek-ready\r\n", "NOT_FOUND\r\n");
        ask(other, "stats-tube injected\r\n", "NOT_FOUND\r\n");
    }
    await_log(bided, "it sent an HTTP request");
    HAS(bided->err, "closing connection from 127.0.0.1:");
    stop(bided);
}

static void commands_that_resemble_http_are_executed(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "GET key\r\n", "UNKNOWN_COMMAND\r\n");
    ask(fd, "PUT 0 0 1 1\r\n", "UNKNOWN_COMMAND\r\n");
    ask(fd, "hosts\r\n", "UNKNOWN_COMMAND\r\n");
    ask(fd, "use HTTP/1.1\r\n", "USING HTTP/1.1\r\n");
    ask(fd, "put 0 0 100 32\r\nPOST / HTTP/1.1\r\nHost: example\r\n\r\n", "INSERTED 1\r\n");
    ask(fd, "peek 1\r\n", "FOUND 1 32\r\nPOST / HTTP/1.1\r\nHost: example\r\n\r\n");
    LACKS(bided->err, "HTTP request");
    stop(bided);
}

/* ---- waiting ---- */

/* Makes calls that wait; the codes of those that are answered must be this one. Answers their
 * number. */
static int wait_often(struct client *client, struct client *other, int count)
{
    for (int i = 0; i < count; i++)
        send_reserve(client, (uint64_t)i, BIDE_FOREVER);
    send_text(client, "list-tube-used\r\n");
    int refused = 0;
    const char *line;
    while (strncmp(line = read_line(client), "ANSWER ", 7) == 0) {
        unsigned long long tag;
        int code;
        size_t size;
        CHECK(sscanf(line, "ANSWER %llu %d %zu", &tag, &code, &size) == 3);
        CHECK(read_body(client, size) != NULL);
        EQ(code, BIDE_TOO_MANY_WAITERS);
        refused++;
    }
    TEXT(line, strlen(line), "USING default");
    (void)other;
    return refused;
}

static void the_waiting_calls_of_a_connection_are_limited(void)
{
    enum { LIMIT = 10 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-waiters-per-connection=10");
    struct client client, other;
    connect_client(&client, bided);
    connect_client(&other, bided);
    EQ(wait_often(&client, &other, 2 * LIMIT), LIMIT);
    EQ(test_client_stat(&other, "stats", "current-waiting"), LIMIT);
    await_log(bided, "too many waiting calls on its connection");
    /* What can be answered at once is. */
    send_text(&other, "use nothing\r\nput 0 0 100 1\r\nx\r\nput 0 0 100 1\r\ny\r\n");
    EXPECT_LINE(&other, "USING nothing");
    EXPECT_NUMBER(&other, "INSERTED");
    EXPECT_NUMBER(&other, "INSERTED");
    hear_code(&client, 0, BIDE_OK);
    hear_code(&client, 1, BIDE_OK);
    EQ(wait_often(&client, &other, 4), 2);
    EQ(test_client_stat(&other, "stats", "current-waiting"), LIMIT);
    CHECK(send_put(&other, 0, 0, 100, "z", 1));
    EXPECT_NUMBER(&other, "INSERTED");
    hear_code(&client, 2, BIDE_OK);
    test_client_close(&client);
    test_client_close(&other);
    stop(bided);
}

/* A few connections do not take all that may wait. */
static void waiting_calls_leave_room_for_others(void)
{
    enum { ALL = 400, GREEDY = 4 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-waiters=400");
    struct client greedy[GREEDY], other, plain;
    connect_client(&other, bided);
    int refused = 0;
    for (int i = 0; i < GREEDY; i++) {
        connect_client(&greedy[i], bided);
        refused += wait_often(&greedy[i], &other, ALL);
    }
    CHECK(refused > 0);
    EQ(wait_often(&other, &other, 5), 0);
    connect_client(&plain, bided);
    send_text(&plain, "reserve\r\n");
    UNTIL(test_client_stat(&other, "stats", "current-waiting") == GREEDY * ALL - refused + 6);
    CHECK(send_put(&other, 0, 0, 100, "for one", 7));
    EXPECT_NUMBER(&other, "INSERTED");
    EXPECT_NUMBER(&plain, "RESERVED");
    close_all(greedy, GREEDY);
    test_client_close(&plain);
    test_client_close(&other);
    stop(bided);
}

/* What each connection may have is less when there are many of them. */
static void many_connections_leave_room_for_others_that_wait(void)
{
    enum { ALL = 400, GREEDY = 40 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-waiters=400");
    struct client greedy[GREEDY], other;
    int refused = 0;
    for (int i = 0; i < GREEDY; i++)
        connect_client(&greedy[i], bided);
    connect_client(&other, bided);
    for (int i = 0; i < GREEDY; i++)
        refused += wait_often(&greedy[i], &other, ALL / 10);
    CHECK(refused > 0);
    EQ(wait_often(&other, &other, 1), 0);
    close_all(greedy, GREEDY);
    test_client_close(&other);
    stop(bided);
}

/* ---- tubes ---- */

static void the_tubes_of_a_connection_are_limited(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-tubes-per-connection=3");
    int fd = connect_tcp(port_of(bided, "127.0.0.1")),
        other = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "watch a\r\n", "WATCHING 2\r\n");
    ask(fd, "watch b\r\n", "WATCHING 3\r\n");
    ask(fd, "watch c\r\n", "OUT_OF_MEMORY\r\n");
    ask(fd, "stats-tube c\r\n", "NOT_FOUND\r\n");
    ask(fd, "watch b\r\n", "WATCHING 3\r\n");
    ask(fd, "ignore a\r\n", "WATCHING 2\r\n");
    ask(fd, "watch c\r\n", "WATCHING 3\r\n");
    ask(other, "watch d\r\n", "WATCHING 2\r\n");
    await_log(bided, "max_tubes_per_connection allows 3");
    stop(bided);
}

/* Connections that watch many tubes leave topics to others, and give them back when they end. */
static void watched_tubes_leave_room_for_others(void)
{
    enum { GREEDY = 4 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-topics=1000");
    struct client greedy[GREEDY], other;
    int refused = 0;
    for (int i = 0; i < GREEDY; i++) {
        connect_client(&greedy[i], bided);
        for (int j = 0; j < 300; j++)
            send_text(&greedy[i], "watch tube-%d-%d\r\n", i, j);
        for (int j = 0; j < 300; j++)
            refused += strcmp(read_line(&greedy[i]), "OUT_OF_MEMORY") == 0;
    }
    CHECK(refused > 0);
    connect_client(&other, bided);
    for (int i = 0; i < 20; i++) {
        send_text(&other, "use mine-%d\r\nwatch mine-%d\r\n", i, i);
        EXPECT_NUMBER(&other, "USING");
        EQ(EXPECT_NUMBER(&other, "WATCHING"), i + 2);
    }
    close_all(greedy, GREEDY);
    UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
    EQ(test_client_stat(&other, "stats", "current-tubes"), 21);
    test_client_close(&other);
    stop(bided);
}

/* ---- references to topics ---- */

static uint64_t references_of(bide *queue, const char *topic)
{
    bide_topic_stats stats = {0};
    return bide_topic_get_stats(queue, topic, &stats) == BIDE_OK ? stats.references : 0;
}

static void topic_refs_end_with_their_connection(void)
{
    enum { TOPICS = 3000 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    bide *queue = open_at(bided), *other = open_at(bided);
    char name[32];
    for (int i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "topic-%d", i);
        OK(bide_topic_ref(queue, name, 1));
    }
    OK(bide_topic_ref(queue, "topic-7", 1));
    OK(bide_topic_ref(other, "topic-7", 1));
    EQ(references_of(other, "topic-7"), 3);
    OK(bide_close(queue));
    bide_stats stats;
    UNTIL(bide_queue_stats(other, &stats) == BIDE_OK && stats.topics == 2); /* and default */
    EQ(references_of(other, "topic-7"), 1);
    OK(bide_topic_ref(other, "topic-7", -1));
    OK(bide_queue_stats(other, &stats));
    EQ(stats.topics, 1);
    OK(bide_close(other));
    stop(bided);
}

/* Neither those of other clients nor those of the server itself. */
static void topic_refs_of_others_cannot_be_released(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-tubes-per-connection=3");
    bide *queue = open_at(bided), *other = open_at(bided);
    struct client client;
    connect_client(&client, bided);
    test_client_use_only(&client, "used");
    OK(bide_topic_ref(queue, "mine", 1));
    CODE(bide_topic_ref(other, "mine", -1), BIDE_EINVAL);
    CODE(bide_topic_ref(other, "used", -1), BIDE_EINVAL);
    CODE(bide_topic_ref(other, "default", -1), BIDE_EINVAL);
    CODE(bide_topic_ref(other, "nothing", -1), BIDE_NOT_FOUND);
    EQ(references_of(other, "mine"), 1);
    EQ(references_of(other, "used"), 1);
    EQ(references_of(other, "default"), 1);
    /* And there is a limit, as for watched tubes; the default tube is one of them. */
    OK(bide_topic_ref(queue, "more", 1));
    CODE(bide_topic_ref(queue, "too many", 1), BIDE_EINVAL);
    CODE(bide_topic_ref(queue, "too-many", 1), BIDE_TOO_MANY_TOPICS);
    OK(bide_topic_ref(queue, "more", 1));
    OK(bide_topic_ref(queue, "mine", -1));
    OK(bide_topic_ref(queue, "too-many", 1));
    test_client_close(&client);
    OK(bide_close(queue));
    OK(bide_close(other));
    stop(bided);
}

/* ---- many jobs held ---- */

static void hold(struct client *client, int jobs)
{
    static char text[1 << 16];
    size_t size = 0;
    for (int i = 0; i < jobs; i++) {
        size += (size_t)sprintf(text + size, "put 0 0 1000 1\r\nx\r\nreserve\r\n");
        if (size > sizeof text - 100 || i == jobs - 1) {
            CHECK(test_client_send(client, text, size));
            size = 0;
        }
    }
    for (int i = 0; i < jobs; i++) {
        EXPECT_NUMBER(client, "INSERTED");
        EXPECT_NUMBER(client, "RESERVED");
        EXPECT_LINE(client, "x");
    }
}

/* How often the jobs of a connection that ends are seen on their way. */
static int count_partial(const struct bided *bided, struct client *other, int jobs)
{
    struct client client;
    int partial = 0;
    int64_t reserved;
    connect_client(&client, bided);
    test_client_use_only(&client, "held");
    hold(&client, jobs);
    test_client_close(&client);
    while ((reserved = test_client_stat(other, "stats-tube held", "current-jobs-reserved")) != 0)
        partial += reserved < jobs;
    UNTIL(test_client_stat(other, "stats", "current-connections") == 1);
    EQ(test_client_stat(other, "stats-tube held", "current-jobs-ready"), jobs);
    send_text(other, "purge-tube held ready\r\n");
    EQ(EXPECT_NUMBER(other, "PURGED"), jobs);
    return partial;
}

/* Others are answered while a connection that has ended gives its jobs back. */
static void jobs_of_a_connection_are_released_in_slices(void)
{
    enum { JOBS = 100000, ATTEMPTS = 5 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    struct client other;
    int partial = 0;
    connect_client(&other, bided);
    /* This client may be slow to ask, so it tries more than once. */
    for (int i = 0; i < ATTEMPTS && partial == 0; i++)
        partial = count_partial(bided, &other, JOBS);
    CHECK(partial > 0);
    test_client_close(&other);
    stop(bided);
}

/* In the order of the reservations, also when they go back in slices. */
static void jobs_are_released_in_order_of_reservation(void)
{
    enum { JOBS = 20000 };
    struct bided *bided = serve("--url=memory:", "--listen=0");
    bide *queue = open_at(bided);
    bide_subscription *feed;
    struct client client;
    connect_client(&client, bided);
    hold(&client, JOBS);
    OK(bide_subscribe(queue, NULL, 1u << BIDE_EVENT_RELEASED, 1000000, &feed));
    test_client_close(&client);
    bide_event events[1000];
    size_t count = 0;
    uint64_t lost = 0, seen = 0;
    while (seen < JOBS) {
        OK(bide_events(queue, feed, PATIENCE_MS, events, COUNT(events), &count, &lost));
        EQ(lost, 0);
        for (size_t i = 0; i < count; i++)
            EQ(events[i].id, ++seen);
    }
    OK(bide_close(queue));
    stop(bided);
}

static void shutdown_waits_for_jobs_being_released(void)
{
    enum { JOBS = 20000 };
    char url[600];
    snprintf(url, sizeof url, "--url=%s", url_of("jobs.db", "sync=off"));
    struct bided *bided = serve(url, "--listen=0");
    struct client client;
    connect_client(&client, bided);
    hold(&client, JOBS);
    test_client_close(&client);
    stop(bided);
    bided = serve(url, "--listen=0");
    connect_client(&client, bided);
    UNTIL(test_client_stat(&client, "stats", "current-jobs-ready") == JOBS);
    EQ(test_client_stat(&client, "stats", "current-jobs-reserved"), 0);
    test_client_close(&client);
    stop(bided);
}

static const struct test tests[] = {
    TEST(cancel_cost_does_not_depend_on_waiting_calls),
    TEST(calls_of_one_tag_are_cancelled_one_by_one),
    TEST(slow_commands_are_executed_in_slices),
    TEST(declared_bodies_take_no_memory),
    TEST(large_bodies_leave_memory_for_small_ones),
    TEST(partial_command_times_out),
    TEST(slow_command_does_not_time_out),
    TEST(subscription_uses_only_the_memory_it_needs),
    TEST(unread_subscriptions_leave_memory_for_jobs),
    TEST(http_request_closes_the_connection),
    TEST(http_request_after_a_reserve_closes_the_connection),
    TEST(commands_that_resemble_http_are_executed),
    TEST(the_waiting_calls_of_a_connection_are_limited),
    TEST(waiting_calls_leave_room_for_others),
    TEST(many_connections_leave_room_for_others_that_wait),
    TEST(the_tubes_of_a_connection_are_limited),
    TEST(watched_tubes_leave_room_for_others),
    TEST(topic_refs_end_with_their_connection),
    TEST(topic_refs_of_others_cannot_be_released),
    TEST(jobs_of_a_connection_are_released_in_slices),
    TEST(jobs_are_released_in_order_of_reservation),
    TEST(shutdown_waits_for_jobs_being_released),
};

const struct theme hostile_theme = {"hostile", tests, COUNT(tests)};
