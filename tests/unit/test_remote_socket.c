/* SPDX-License-Identifier: MIT */
/* Connecting to a host of several addresses, some of which drop packets. The addresses come from a
 * getaddrinfo() of this test. */
#define _GNU_SOURCE
#include "unit.h"

#include "remote/remote_socket.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST        "several.invalid"
#define FILLERS_MAX 32

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

/* The ports of 127.0.0.1 that the host has, in their order. */
static char ports[3][8];
static size_t port_count;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (strcmp(host, HOST) != 0)
        return __real_getaddrinfo(host, port, hints, found);
    if ((hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    for (size_t i = 0; i < port_count; i++, found = &(*found)->ai_next)
        if (__real_getaddrinfo("127.0.0.1", ports[i], hints, found) != 0)
            return EAI_AGAIN;
    return 0;
}

/* When each connect() began, and until when it was to be waited for. */
static struct io_wait io_wait;
static int64_t begun[3], limits[3];
static size_t connects;

int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    if (connects < COUNT_OF(limits)) {
        begun[connects] = bi_clock_boot();
        limits[connects++] = io_wait.deadline;
    }
    return __real_connect(fd, to, size);
}

static int listen_on(size_t index, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(ports[index], sizeof(ports[index]), "%u", ntohs(at.sin_port));
    return fd;
}

/* Connects until the queue of the listener is full, and further packets are dropped. */
static size_t fill(size_t index, int *fillers)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned port = 0;
    sscanf(ports[index], "%u", &port);
    to.sin_port = htons((uint16_t)port);
    for (size_t count = 1; count <= FILLERS_MAX; count++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        fillers[count - 1] = fd;
        __real_connect(fd, (const struct sockaddr *)&to, sizeof(to));
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        if (poll(&polled, 1, 300) == 0)
            return count;
    }
    fail_msg("a listener with a backlog of 0 has accepted %d connections", FILLERS_MAX);
    return 0;
}

/* On a loopback the last connection succeeds even without any time left. */
static void an_address_that_drops_packets_leaves_time_for_the_next(void **state)
{
    (void)state;
    int fillers[2][FILLERS_MAX];
    char reason[BIDE_ERROR_SIZE] = "";
    struct address address = {.host = HOST, .port = "1"};
    int first = listen_on(0, 0), second = listen_on(1, 0), third = listen_on(2, 16);
    size_t counts[2] = {fill(0, fillers[0]), fill(1, fillers[1])};
    port_count = 3;
    io_wait = (struct io_wait){.deadline = bi_clock_boot() + 3000000, .stop_fd = -1};
    int64_t deadline = io_wait.deadline;
    int fd = bi_remote_socket_connect(&address, &io_wait, reason);
    if (fd < 0)
        fail_msg("no connection: %s", reason);
    assert_int_equal(io_wait.deadline, deadline);
    close(fd);
    assert_int_equal(connects, 3);
    assert_true(limits[0] < limits[1] && limits[1] < limits[2]);
    assert_true(begun[1] >= limits[0] && begun[2] >= limits[1]);
    assert_int_equal(limits[2], deadline);

    /* Without the last the others have all of the time. */
    port_count = 2;
    io_wait.deadline = bi_clock_boot() + 600000;
    assert_int_equal(bi_remote_socket_connect(&address, &io_wait, reason), -1);
    assert_string_equal(reason, "no answer in time");
    assert_true(bi_clock_boot() >= io_wait.deadline);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < counts[i]; j++)
            close(fillers[i][j]);
    close(first);
    close(second);
    close(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_drops_packets_leaves_time_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
