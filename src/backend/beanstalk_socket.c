/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_NONBLOCK, TCP_USER_TIMEOUT */
#include "backend/beanstalk_socket.h"

#include "backend/peer_owner.h"
#include "backend/resolve.h"
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

static int milliseconds_until(int64_t moment)
{
    int64_t left = (moment - bi_clock_boot() + 999) / 1000;
    return left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void look(struct patience *patience)
{
    uint64_t rung;
    ssize_t size = read(patience->wake, &rung, sizeof(rung));
    (void)size; /* it may not have been rung */
    patience->look_at = patience->look(patience->owner);
}

bool bi_socket_wait(int fd, short events, struct patience *patience)
{
    bool looks = patience->look != NULL;
    struct pollfd polled[3] = {{.fd = fd, .events = events},
                               {.fd = patience->stop, .events = POLLIN},
                               {.fd = looks ? patience->wake : -1, .events = POLLIN}};
    for (;;) {
        bool early = looks && patience->look_at < patience->deadline;
        int left = milliseconds_until(patience->deadline);
        int wait = early ? milliseconds_until(patience->look_at) : left;
        int ready = poll(polled, 3, wait);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0 && (polled[1].revents & POLLIN) != 0)
            return false;
        if (ready > 0 && polled[0].revents != 0)
            return true;
        if (left == 0)
            return false;
        if (looks && (ready > 0 || patience->look_at <= bi_clock_boot()))
            look(patience);
    }
}

static void say(char *reason, int number)
{
    bi_text_copy(reason, number == ECONNREFUSED ? "no server listens there"
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
static int finish(int fd, struct patience *patience)
{
    int number = 0;
    socklen_t size = sizeof(number);
    if (!bi_socket_wait(fd, POLLOUT, patience))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

static int connect_any(const struct sockaddr *to, socklen_t size, struct patience *patience,
                       char *reason)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int number = fd < 0 || connect(fd, to, size) != 0 ? errno : 0;
    if (fd >= 0 && (number == EINPROGRESS || number == EINTR))
        number = finish(fd, patience);
    if (number == 0)
        return fd;
    say(reason, number);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* trusted: only to a server whose owner is trusted; nothing is sent before that is known. */
static int connect_to(const struct sockaddr *to, socklen_t size, bool trusted,
                      struct patience *patience, char *reason)
{
    struct peer_listener before;

    if (!trusted)
        return connect_any(to, size, patience, reason);
    if (!bi_peer_may_connect(to, &before, reason))
        return -1;
    int fd = connect_any(to, size, patience, reason);
    if (fd < 0 || bi_peer_is_trusted(fd, to, &before, reason))
        return fd;
    close(fd);
    return -1;
}

static int connect_path(const struct address *address, struct patience *patience, char *reason)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, address->path, sizeof(to.sun_path));
    int fd =
        connect_to((const struct sockaddr *)&to, sizeof(to), address->trusted, patience, reason);

    /* A directory that is missing is another mistake than a server that does not run. */
    char *slash = strrchr(to.sun_path, '/');
    if (fd >= 0 || slash == NULL || slash == to.sun_path)
        return fd;
    *slash = 0;
    if (access(to.sun_path, F_OK) != 0 && errno == ENOENT)
        bi_text_copy(reason, "there is no such directory");
    return fd;
}

/* Tries the addresses of a host, in their order. */
static int connect_each(const struct addrinfo *found, bool trusted, struct patience *patience,
                        char *reason)
{
    int fd = -1;
    for (; found != NULL && fd < 0; found = found->ai_next)
        fd = connect_to(found->ai_addr, found->ai_addrlen, trusted, patience, reason);
    if (fd >= 0)
        tune(fd);
    return fd;
}

int bi_socket_connect(const struct address *address, struct patience *patience, char *reason)
{
    if (address->host[0] == 0)
        return connect_path(address, patience, reason);
    struct lookup *lookup = bi_resolve_begin(address->host, address->port, reason);
    if (lookup == NULL)
        return -1;
    int fd = -1;
    if (!bi_socket_wait(bi_resolve_fd(lookup), POLLIN, patience))
        bi_text_copy(reason, "no name server has answered in time");
    else
        fd = connect_each(bi_resolve_result(lookup, reason), address->trusted, patience, reason);
    bi_resolve_end(lookup);
    return fd;
}

int bi_socket_connect_like(int other, bool trusted, struct patience *patience, char *reason)
{
    struct sockaddr_storage to = {0};
    socklen_t size = sizeof(to);
    if (getpeername(other, (struct sockaddr *)&to, &size) != 0) {
        say(reason, errno);
        return -1;
    }
    int fd = connect_to((const struct sockaddr *)&to, size, trusted, patience, reason);
    if (fd >= 0 && to.ss_family != AF_UNIX)
        tune(fd);
    return fd;
}
