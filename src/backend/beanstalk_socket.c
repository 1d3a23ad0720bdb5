/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_NONBLOCK, TCP_USER_TIMEOUT */
#include "backend/beanstalk_socket.h"

#include "util/clock.h"
#include "util/text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A server that has gone without a word is noticed after about this many seconds. */
#define SILENCE_S 30

bool bi_socket_wait(int fd, short events, int64_t deadline, int stop)
{
    struct pollfd polled[2] = {{.fd = fd, .events = events}, {.fd = stop, .events = POLLIN}};
    for (;;) {
        int64_t left = (deadline - bi_clock_boot() + 999) / 1000;
        int ready = poll(polled, 2, left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0)
            return (polled[1].revents & POLLIN) == 0;
        if (left <= 0)
            return false;
    }
}

static void say(char *reason, int number)
{
    bi_text_copy(reason, number == ECONNREFUSED ? "nobody listens there"
                         : number == ENOENT     ? "there is no such socket"
                         : number == ETIMEDOUT  ? "no answer in time"
                                                : strerrordesc_np(number));
}

/* What the kernel is to watch for. None of it is needed for a connection to work. */
static void tune(int fd)
{
    const int on = 1, idle = SILENCE_S / 2, interval = SILENCE_S / 6, count = 3;
    const unsigned silence = SILENCE_S * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof(silence));
}

/* Waits until a connection that has been begun stands. Answers an error number. */
static int finish(int fd, int64_t deadline, int stop)
{
    int number = 0;
    socklen_t size = sizeof(number);
    if (!bi_socket_wait(fd, POLLOUT, deadline, stop))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

static int connect_to(const struct sockaddr *to, socklen_t size, int64_t deadline, int stop,
                      char *reason)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int number = fd < 0 || connect(fd, to, size) != 0 ? errno : 0;
    if (fd >= 0 && (number == EINPROGRESS || number == EINTR))
        number = finish(fd, deadline, stop);
    if (number == 0)
        return fd;
    say(reason, number);
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_path(const struct address *address, int64_t deadline, int stop, char *reason)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, address->path, sizeof(to.sun_path));
    return connect_to((const struct sockaddr *)&to, sizeof(to), deadline, stop, reason);
}

int bi_socket_connect(const struct address *address, int64_t deadline, int stop, char *reason)
{
    if (address->host[0] == 0)
        return connect_path(address, deadline, stop, reason);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(address->host, address->port, &hints, &found);
    if (code != 0) {
        snprintf(reason, BIDE_ERROR_SIZE, "%s", gai_strerror(code));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *each = found; each != NULL && fd < 0; each = each->ai_next)
        fd = connect_to(each->ai_addr, each->ai_addrlen, deadline, stop, reason);
    freeaddrinfo(found);
    if (fd >= 0)
        tune(fd);
    return fd;
}
