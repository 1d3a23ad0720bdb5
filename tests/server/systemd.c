/* SPDX-License-Identifier: MIT */
/* systemd.c - what systemd does for bided, and is told by it. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "bided_suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef BIDE_WITH_SYSTEMD
#define WITH_SYSTEMD true
#else
#define WITH_SYSTEMD false
#endif

/* ---- sockets ---- */

static int passed[2] = {-1, -1};
static int passed_count;

/* As systemd leaves them: from descriptor 3 on, and told by the environment. */
static void pass_sockets(void)
{
    char text[20];
    int safe[2];
    for (int i = 0; i < passed_count; i++)
        safe[i] = fcntl(passed[i], F_DUPFD, 50);
    for (int i = 0; i < passed_count; i++)
        dup2(safe[i], 3 + i);
    snprintf(text, sizeof text, "%d", (int)getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof text, "%d", passed_count);
    setenv("LISTEN_FDS", text, 1);
}

static int listen_tcp(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int listen_unix(const char *path, int kind)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    if (kind == SOCK_STREAM)
        CHECK(listen(fd, 16) == 0);
    return fd;
}

static void sockets_from_systemd_are_used(void)
{
    int port;
    passed[0] = listen_tcp(&port);
    passed[1] = listen_unix(test_path("s.sock"), SOCK_STREAM);
    passed_count = 2;
    before_exec = pass_sockets;
    if (!WITH_SYSTEMD) {
        HAS(ends_with(111, "--url=memory:")->err, "built without libsystemd-dev");
        return;
    }
    struct bided *bided = serve("--url=memory:");
    EQ(port_of(bided, "127.0.0.1"), port);
    int fd = connect_tcp(port);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    fd = connect_at(HERE, try_unix(test_path("s.sock")));
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    LACKS(bided->err, "ignored");
    stop(bided);
    /* The file is systemd's. */
    CHECK(file_exists(test_path("s.sock")));
}

/* As with the unit files of beanstalkd, which name the address and have a socket unit, too. */
static void configured_addresses_are_ignored_with_a_warning_when_systemd_passes_sockets(void)
{
    int port;
    char text[20];
    passed[0] = listen_tcp(&port);
    passed_count = 1;
    before_exec = pass_sockets;
    snprintf(text, sizeof text, "%d", port);
    if (!WITH_SYSTEMD) {
        HAS(ends_with(111, "--url=memory:")->err, "built without libsystemd-dev");
        return;
    }
    struct bided *bided = serve("--url=memory:", "-l", "127.0.0.1", "-p", text);
    HAS(bided->err, "using the sockets of systemd; listen is ignored");
    stop(bided);
}

static void descriptor_that_is_not_a_listening_socket_is_rejected(void)
{
    passed[0] = listen_unix(test_path("d.sock"), SOCK_DGRAM);
    passed_count = 1;
    before_exec = pass_sockets;
    HAS(ends_with(111, "--url=memory:")->err,
        WITH_SYSTEMD ? "not a listening stream socket" : "built without libsystemd-dev");
}

static void sockets_for_another_process_are_ignored(void)
{
    set_env("LISTEN_PID", "1");
    set_env("LISTEN_FDS", "1");
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

/* ---- notifications ---- */

/* The next message within PATIENCE_MS; it must have the text in it. */
static void notified_at(struct where at, int fd, const char *wanted)
{
    char text[1000] = "";
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (strstr(text, wanted) == NULL) {
        struct pollfd poll_for = {.fd = fd, .events = POLLIN};
        if (clock_us() > limit_us || poll(&poll_for, 1, (int)PATIENCE_MS) <= 0)
            fail_test(at, "no notification with \"%s\"; the last was \"%s\"", wanted, text);
        ssize_t size = recv(fd, text, sizeof text - 1, 0);
        check_true(at, size > 0, "a message");
        text[size] = 0;
        /* None is passed over but those of the recovery. */
        if (strstr(text, wanted) == NULL && strncmp(text, "STATUS=", 7) != 0)
            fail_test(at, "expected \"%s\", was notified of \"%s\"", wanted, text);
    }
    check_true(at, true, wanted);
}

#define NOTIFIED(fd, wanted) notified_at(HERE, (fd), (wanted))

static void systemd_is_notified_of_ready_reload_and_stop(void)
{
    int fd = listen_unix(test_path("notify"), SOCK_DGRAM);
    set_env("NOTIFY_SOCKET", test_path("notify"));
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    if (!WITH_SYSTEMD) {
        HAS(bided->err, "built without libsystemd-dev");
        stop(bided);
        return;
    }
    NOTIFIED(fd, "READY=1\nSTATUS=serving sqlite:");
    kill(bided->pid, SIGHUP);
    NOTIFIED(fd, "RELOADING=1\nMONOTONIC_USEC=");
    NOTIFIED(fd, "READY=1");
    stop(bided);
    NOTIFIED(fd, "STOPPING=1");
}

/* Once the server is ready, and for as long as its loop turns. */
static void watchdog_is_notified_periodically(void)
{
    char text[1000] = "";
    int fd = listen_unix(test_path("notify"), SOCK_DGRAM);
    set_env("NOTIFY_SOCKET", test_path("notify"));
    set_env("WATCHDOG_USEC", "300000");
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    if (!WITH_SYSTEMD) {
        stop(bided);
        return;
    }
    for (int alive = 0; alive < 3;) {
        struct pollfd poll_for = {.fd = fd, .events = POLLIN};
        CHECK(poll(&poll_for, 1, (int)PATIENCE_MS) == 1);
        ssize_t size = recv(fd, text, sizeof text - 1, 0);
        CHECK(size > 0);
        text[size] = 0;
        alive += strcmp(text, "WATCHDOG=1") == 0;
    }
    /* One that stands still says nothing. */
    kill(bided->pid, SIGSTOP);
    while (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0)
        continue;
    nap_ms(1000);
    CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) < 0);
    kill(bided->pid, SIGCONT);
    stop(bided);
}

static void without_a_watchdog_no_notification_is_sent(void)
{
    char text[1000] = "";
    int fd = listen_unix(test_path("notify"), SOCK_DGRAM);
    set_env("NOTIFY_SOCKET", test_path("notify"));
    struct bided *bided = serve("--listen=0", "--url=memory:");
    stop(bided);
    for (ssize_t size; (size = recv(fd, text, sizeof text - 1, MSG_DONTWAIT)) > 0;) {
        text[size] = 0;
        CHECK(strstr(text, "WATCHDOG") == NULL);
    }
}

static void missing_notify_socket_is_ignored(void)
{
    set_env("NOTIFY_SOCKET", test_path("nowhere"));
    struct bided *bided = serve("--listen=0", "--url=memory:");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static const struct test tests[] = {
    TEST(sockets_from_systemd_are_used),
    TEST(configured_addresses_are_ignored_with_a_warning_when_systemd_passes_sockets),
    TEST(descriptor_that_is_not_a_listening_socket_is_rejected),
    TEST(sockets_for_another_process_are_ignored),
    TEST(systemd_is_notified_of_ready_reload_and_stop),
    TEST(watchdog_is_notified_periodically),
    TEST(without_a_watchdog_no_notification_is_sent),
    TEST(missing_notify_socket_is_ignored),
};

const struct theme systemd_theme = {"systemd", tests, COUNT(tests)};
