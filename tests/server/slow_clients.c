/* SPDX-License-Identifier: MIT */
/*
 * slow_clients.c - clients that do not read, do not end their lines, or go away behind what they
 * have sent: they use a bounded amount of memory, and other clients are not affected.
 */
#include "robust.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOW      8
#define FUSE      (INT64_C(256) << 20) /* bytes that no server reads for clients that do not */
#define BIG       60000                /* bytes of a body */
#define STILL     500                  /* attempts in a row at which nothing more could be sent */
#define GARBAGE   (INT64_C(1) << 30)
#define DECLARED  INT64_C(100000000)
#define PIECE     65536
#define LOOK_EACH 64 /* pieces between looks at the others */
#define MANY      100
#define FEW       40 /* commands */

/* ---- others ---- */

/* A client that behaves gets its answers. */
static void others_are_served(struct client *other)
{
    CHECK(send_put(other, 0, 0, 100, "fine", 4));
    uint64_t id = EXPECT_NUMBER(other, "INSERTED");
    send_text(other, "reserve\r\ndelete %" PRIu64 "\r\n", id);
    CHECK(EXPECT_NUMBER(other, "RESERVED") == id);
    EXPECT_LINE(other, "fine");
    EXPECT_LINE(other, "DELETED");
}

static void stays_small(const struct server *server, int64_t before)
{
    test_server_check_alive(server);
    int64_t now = test_server_memory(server);
    if (now > before + test_server_settings.memory_limit)
        FAIL("the server has grown from %" PRId64 " to %" PRId64 " bytes", before, now);
}

/* ---- not reading ---- */

/* Sends as much as is taken now; true if something was. */
static bool push(int fd, const char *data, size_t size, int64_t *sent)
{
    ssize_t got = send(fd, data, size, MSG_NOSIGNAL);
    if (got < 0)
        CHECK(errno == EAGAIN || errno == ECONNRESET || errno == EPIPE);
    *sent += got > 0 ? got : 0;
    return got > 0;
}

/* With little room on this side, so that it is the server's that is filled. */
static int connect_narrowly(const struct server *server)
{
    int size = 4096;
    int fd = test_server_connect(server);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    return fd;
}

/* The same command again and again, until the server reads no more, or has had enough. */
static void flood(const struct server *server, struct client *other, const char *command)
{
    static char text[PIECE];
    int fds[SLOW];
    int64_t sent = 0;
    int64_t before = test_server_memory(server);
    size_t line = strlen(command);
    size_t size = 0;
    for (; size + line <= sizeof text; size += line)
        memcpy(text + size, command, line);
    for (int i = 0; i < SLOW; i++)
        fds[i] = connect_narrowly(server);
    for (int still = 0; still < STILL;) {
        bool moved = false;
        for (int i = 0; i < SLOW; i++)
            moved = push(fds[i], text, size - size % line, &sent) || moved;
        still = moved ? 0 : still + 1;
        stays_small(server, before);
        CHECK(sent < FUSE);
        if (!moved)
            others_are_served(other);
    }
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
    others_are_served(other);
}

static void do_not_read(const struct server *server)
{
    static char body[BIG];
    char command[64];
    struct client other;
    test_client_open(&other, server);
    test_client_use_only(&other, "others");
    send_text(&other, "use big\r\n");
    EXPECT_LINE(&other, "USING big");
    CHECK(send_put(&other, 0, 0, 100, body, sizeof body));
    uint64_t id = EXPECT_NUMBER(&other, "INSERTED");
    send_text(&other, "use others\r\n");
    EXPECT_LINE(&other, "USING others");
    snprintf(command, sizeof command, "peek %" PRIu64 "\r\n", id);
    flood(server, &other, command);
    flood(server, &other, "stats\r\n");
    flood(server, &other, "x\r\n");
    send_text(&other, "delete %" PRIu64 "\r\n", id);
    EXPECT_LINE(&other, "DELETED");
    test_client_close(&other);
}

static void memory_of_clients_that_do_not_read_is_bounded(void)
{
    with_server(IN_MEMORY, do_not_read);
}

static void memory_of_clients_that_do_not_read_is_bounded_with_a_file(void)
{
    with_server(IN_FILE, do_not_read);
}

/* True if the peer's kernel has all that was sent. */
static bool is_delivered(int fd)
{
    int unsent = -1;
    CHECK(ioctl(fd, SIOCOUTQ, &unsent) == 0);
    return unsent == 0;
}

/*
 * While the server stands still, many send pipelines that take long, and then one asks one thing:
 * it is answered before each of the others has had more than a few of theirs.
 */
static void ask_beside_pipelines(const struct server *server)
{
    static char text[PIECE];
    int fds[MANY];
    struct client other;
    int64_t sent = 0;
    if (test_server_is_beanstalkd())
        return;
    for (size_t i = 0; i + 7 <= sizeof text; i += 7)
        memcpy(text + i, "stats\r\n", 7);
    test_client_open(&other, server);
    for (int i = 0; i < MANY; i++)
        fds[i] = test_server_connect(server);
    UNTIL(test_client_stat(&other, "stats", "current-connections") == MANY + 1);
    int64_t before = test_client_stat(&other, "stats", "cmd-stats");
    CHECK(kill(server->pid, SIGSTOP) == 0);
    for (int i = 0; i < MANY; i++)
        CHECK(push(fds[i], text, sizeof text - sizeof text % 7, &sent));
    send_text(&other, "stats\r\n");
    /* On a busy machine the command may be late, and the server would not know of it. */
    UNTIL(is_delivered(other.fd));
    CHECK(kill(server->pid, SIGCONT) == 0);
    size_t size = EXPECT_NUMBER(&other, "OK");
    const char *found = strstr(read_body(&other, size), "\ncmd-stats: ");
    CHECK(found != NULL);
    int64_t executed = strtoll(found + 12, NULL, 10) - before;
    if (executed > MANY * FEW)
        FAIL("%" PRId64 " commands of others were executed before one that waited with them",
             executed);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    others_are_served(&other);
    test_client_close(&other);
}

static void command_waits_for_few_commands_of_each_pipeline(void)
{
    with_server(IN_MEMORY, ask_beside_pipelines);
}

/* Puts whose replies are never read: all that fit are stored, and the server goes on. */
static void put_and_not_read(const struct server *server)
{
    struct client client;
    struct client other;
    test_client_open(&other, server);
    test_client_open(&client, server);
    test_client_use_only(&client, "unheard");
    for (int i = 0; i < 20000; i++)
        CHECK(send_put(&client, 0, 0, 100, "unheard", 7));
    others_are_served(&other);
    for (int i = 0; i < 20000; i++)
        EXPECT_NUMBER(&client, "INSERTED");
    for (int i = 0; i < 20000; i++)
        send_text(&client, "reserve\r\n");
    uint64_t *ids = calloc(20000, sizeof *ids);
    CHECK(ids != NULL);
    for (int i = 0; i < 20000; i++) {
        ids[i] = EXPECT_NUMBER(&client, "RESERVED");
        EXPECT_LINE(&client, "unheard");
        CHECK(i == 0 || ids[i] > ids[i - 1]);
    }
    for (int i = 0; i < 20000; i++)
        send_text(&client, "delete %" PRIu64 "\r\n", ids[i]);
    for (int i = 0; i < 20000; i++)
        EXPECT_LINE(&client, "DELETED");
    free(ids);
    test_client_close(&client);
    test_client_close(&other);
}

static void twenty_thousand_commands_in_flight_are_all_answered(void)
{
    with_server(IN_MEMORY, put_and_not_read);
    with_server(IN_FILE, put_and_not_read);
}

/* ---- going away behind a waiting reserve ---- */

static void reset(int fd)
{
    struct linger linger = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

/* A reserve that waits, and so many bytes of commands behind it, or as many as are taken. */
static int wait_with(const struct server *server, size_t behind, bool *delivered)
{
    static char text[PIECE];
    int64_t sent = 0;
    int fd = test_server_connect(server);
    for (size_t i = 0; i + 7 <= sizeof text; i += 7)
        memcpy(text + i, "stats\r\n", 7);
    push(fd, "watch nothing\r\nreserve\r\n", 24, &sent);
    sent = 0;
    for (int still = 0; still < STILL && (size_t)sent < behind;) {
        size_t left = behind - (size_t)sent;
        bool moved = push(fd, text, left < sizeof text ? left : sizeof text, &sent);
        still = moved ? 0 : still + 1;
        if (!moved)
            nap_ms(1);
    }
    for (int i = 0; i < STILL && !is_delivered(fd); i++)
        nap_ms(1);
    *delivered = is_delivered(fd);
    return fd;
}

static void go_away(const struct server *server)
{
    static const size_t sizes[] = {0, 7, 7000, 70000, 700000, 70000000};
    struct client other;
    test_client_open(&other, server);
    unsigned closed = 0;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bool delivered;
        int fd = wait_with(server, sizes[i], &delivered);
        UNTIL(test_client_stat(&other, "stats", "current-waiting") == 1);
        /* What the other side's system has no room for keeps the end of the stream back, too; a
         * reset goes before it. */
        if (delivered) {
            close(fd);
            closed++;
        } else {
            reset(fd);
        }
        UNTIL(test_client_stat(&other, "stats", "current-waiting") == 0);
        UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
        fd = wait_with(server, sizes[i], &delivered);
        UNTIL(test_client_stat(&other, "stats", "current-waiting") == 1);
        reset(fd);
        UNTIL(test_client_stat(&other, "stats", "current-connections") == 1);
    }
    CHECK(closed >= 3);
    others_are_served(&other);
    test_client_close(&other);
}

static void disconnect_behind_a_waiting_reserve_is_detected(void)
{
    with_server(IN_MEMORY, go_away);
}

/* ---- lines and bodies without end ---- */

/* So many bytes without a line end, while another client works. */
static void send_endless(const struct server *server, struct client *client, struct client *other,
                         int64_t size)
{
    static char text[PIECE];
    int64_t before = test_server_memory(server);
    memset(text, 'x', sizeof text);
    for (int64_t sent = 0, i = 0; sent < size; i++) {
        size_t piece = size - sent < PIECE ? (size_t)(size - sent) : PIECE;
        test_client_send(client, text, piece);
        sent += (int64_t)piece;
        if (i % LOOK_EACH == 0) {
            stays_small(server, before);
            others_are_served(other);
        }
    }
    stays_small(server, before);
}

static void never_end_a_line(const struct server *server)
{
    struct client client;
    struct client other;
    test_client_open(&other, server);
    test_client_open(&client, server);
    send_endless(server, &client, &other, test_server_is_beanstalkd() ? GARBAGE / 16 : GARBAGE);
    send_text(&client, "\r\nlist-tube-used\r\n");
    EXPECT_LINE(&client, "BAD_FORMAT");
    /* beanstalkd may lose a line that follows a long one. */
    if (!test_server_is_beanstalkd())
        EXPECT_LINE(&client, "USING default");
    test_client_close(&client);
    test_client_close(&other);
}

static void gibibyte_without_a_line_end_is_one_invalid_line(void)
{
    with_server(IN_MEMORY, never_end_a_line);
}

static void declare_too_much(const struct server *server)
{
    struct client client;
    struct client other;
    test_client_open(&other, server);
    test_client_open(&client, server);
    send_text(&client, "put 0 0 100 %" PRId64 "\r\n", DECLARED);
    send_endless(server, &client, &other, DECLARED);
    send_text(&client, "\r\nlist-tube-used\r\n");
    EXPECT_LINE(&client, "JOB_TOO_BIG");
    EXPECT_LINE(&client, "USING default");
    send_text(&client, "put 0 0 100 4294967295\r\nxxx");
    test_client_close(&client);
    test_client_close(&other);
}

static void oversized_body_is_skipped(void)
{
    with_server(IN_MEMORY, declare_too_much);
}

/* ---- a stop ---- */

/* Reads to the end, a little at a time; answers how many lines came. */
static void *read_slowly(void *arg)
{
    int fd = *(int *)arg;
    char bytes[512];
    intptr_t lines = 0;
    int64_t limit_us = clock_us() + 6 * PATIENCE_MS * 1000;
    while (clock_us() < limit_us) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got == 0)
            return (void *)lines;
        if (got < 0) {
            if (errno != EAGAIN)
                FAIL("no end of the stream, but: %s", strerror(errno));
            nap_ms(1);
        }
        for (ssize_t i = 0; i < got; i++)
            lines += bytes[i] == '\n';
    }
    FAIL("the connection does not end");
}

/* A producer that has many puts on their way when the server is stopped hears of each that is
 * stored, although it goes on sending and its socket takes little at a time. */
static void shutdown_closes_after_all_replies(void)
{
    static const char put[] = "put 0 0 100 1\r\nx\r\n";
    struct server server;
    struct client client;
    pthread_t reader;
    void *heard = NULL;
    int small = 4096;
    char first;
    int64_t sent = 0;
    if (test_server_is_beanstalkd())
        return;
    test_server_start(&server, IN_FILE);
    int fd = test_server_connect(&server);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    static char many[sizeof put * 2000];
    for (size_t i = 0; i < 2000; i++)
        memcpy(many + i * (sizeof put - 1), put, sizeof put - 1);
    size_t size = 2000 * (sizeof put - 1);
    for (int still = 0; still < 50 && sent < 4 << 20;) {
        size_t at = (size_t)sent % size;
        still = push(fd, many + at, size - at, &sent) ? 0 : still + 1;
        nap_ms(still > 0 ? 1 : 0);
    }
    UNTIL(recv(fd, &first, 1, MSG_PEEK) == 1); /* a stop before the first put is none of this */
    CHECK(pthread_create(&reader, NULL, read_slowly, &fd) == 0);
    test_server_stop(&server);
    CHECK(pthread_join(reader, &heard) == 0);
    close(fd);
    test_server_start(&server, IN_FILE);
    test_client_open(&client, &server);
    EQ((intptr_t)heard, test_client_stat(&client, "stats", "current-jobs-ready"));
    CHECK((intptr_t)heard > 0);
    test_client_close(&client);
    test_server_stop(&server);
}

static const struct test tests[] = {
    TEST(memory_of_clients_that_do_not_read_is_bounded),
    TEST(memory_of_clients_that_do_not_read_is_bounded_with_a_file),
    TEST(command_waits_for_few_commands_of_each_pipeline),
    TEST(twenty_thousand_commands_in_flight_are_all_answered),
    TEST(disconnect_behind_a_waiting_reserve_is_detected),
    TEST(shutdown_closes_after_all_replies),
    TEST(gibibyte_without_a_line_end_is_one_invalid_line),
    TEST(oversized_body_is_skipped),
};

const struct theme slow_clients_theme = {"slow_clients", tests, COUNT(tests)};
