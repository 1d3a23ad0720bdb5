/* SPDX-License-Identifier: MIT */
/*
 * graceful_close.c - connections that the server ends while their clients go on sending: all that
 * was said is heard, and then the end of the stream, never a reset.
 */
#include "bided_suite.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STILL 50    /* attempts in a row at which nothing more could be sent */
#define BODY  60000 /* bytes */
#define PEEKS 21000 /* more than a connection keeps, less than its socket takes besides */

/* A command that nothing behind it is executed after, and as much behind it as is taken. */
static void send_with_more(int fd, const char *command)
{
    static char text[7 * 30000];
    for (size_t i = 0; i + 7 <= sizeof text; i += 7)
        memcpy(text + i, "stats\r\n", 7);
    memcpy(text, command, strlen(command));
    for (int still = 0; still < STILL;) {
        if (send(fd, text, sizeof text, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
            still = 0;
            continue;
        }
        if (errno != EAGAIN)
            return; /* the other side has ended, which is for the reader to see */
        still++;
        nap_ms(1);
    }
}

/* Reads to the end of the stream, little by little; answers how many bytes came. */
static size_t hear_all(int fd)
{
    char bytes[16384];
    size_t size = 0;
    for (;;) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got == 0)
            break;
        if (got < 0)
            FAIL("no end of the stream, but: %s", strerror(errno));
        size += (size_t)got;
        nap_ms(1);
    }
    close(fd);
    return size;
}

static struct bided *serve_both(int fds[2])
{
    char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    struct bided *bided = serve("--url=memory:", "--listen=0", "--stop-timeout=1h", flag);
    fds[0] = connect_tcp(port_of(bided, "127.0.0.1"));
    fds[1] = connect_at(HERE, try_unix(test_path("a.sock")));
    return bided;
}

static void client_that_keeps_sending_after_quit_reads_all_replies(void)
{
    int fds[2];
    struct bided *bided = serve_both(fds);
    for (int i = 0; i < 2; i++) {
        ask(fds[i], "list-tube-used\r\n", "USING default\r\n");
        send_with_more(fds[i], "quit\r\n");
        EQ(hear_all(fds[i]), 0);
    }
    stop(bided);
}

static void client_that_keeps_sending_behind_a_reserve_reads_all_replies_at_shutdown(void)
{
    int fds[2];
    struct bided *bided = serve_both(fds);
    for (int i = 0; i < 2; i++) {
        ask(fds[i], "list-tube-used\r\n", "USING default\r\n");
        send_with_more(fds[i], "reserve\r\n");
    }
    kill(bided->pid, SIGTERM);
    for (int i = 0; i < 2; i++)
        EQ(hear_all(fds[i]), 0);
    await_end(bided, 0);
}

/* Is everything that was sent on the other side, read or not? */
static bool is_delivered(int fd)
{
    int waiting = 0;
    return ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting == 0;
}

/* One that has sent all it has to say and closed its side still wants the answers. */
static void half_closed_client_reads_all_replies_at_shutdown(void)
{
    static char text[BODY + 100], peeks[8 * PEEKS];
    struct bided *bided = serve("--url=memory:", "--listen=0", "--stop-timeout=1h");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "put 0 0 100 60000\r\n", 19);
    memcpy(text + 19 + BODY, "\r\n", 3);
    ask(fd, text, "INSERTED 1\r\n");
    for (size_t i = 0; i < PEEKS; i++)
        memcpy(peeks + 8 * i, "peek 1\r\n", 8);
    CHECK(send(fd, peeks, sizeof peeks, MSG_NOSIGNAL) == (ssize_t)sizeof peeks);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    UNTIL(is_delivered(fd));
    kill(bided->pid, SIGTERM);
    await_log(bided, "stopping");
    size_t heard = hear_all(fd);
    CHECK(heard > 0);
    EQ(heard % (strlen("FOUND 1 60000\r\n") + BODY + 2), 0);
    await_end(bided, 0);
}

static const struct test tests[] = {
    TEST(client_that_keeps_sending_after_quit_reads_all_replies),
    TEST(client_that_keeps_sending_behind_a_reserve_reads_all_replies_at_shutdown),
    TEST(half_closed_client_reads_all_replies_at_shutdown),
};

const struct theme graceful_close_theme = {"graceful_close", tests, COUNT(tests)};
