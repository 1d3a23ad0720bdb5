/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_NONBLOCK, TCP_USER_TIMEOUT, memmem */
#include "remote/remote_socket.h"

#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A peer that vanished without a FIN is detected after about this many seconds. */
#define DEAD_PEER_S 30

#define BACKLOG_RETRY_US INT64_C(10000) /* between two attempts at a full backlog */

#define BUFFER_KEEP ((size_t)1 << 20) /* a larger buffer is freed when it is empty */

int bi_remote_socket_ms_until(int64_t time)
{
    if (time == INT64_MAX)
        return -1;
    /* Round up: a poll that ends early would spin until the deadline. */
    int64_t left = (time - bi_clock_boot() + 999) / 1000;
    return left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void expire(struct io_wait *io_wait)
{
    uint64_t count;
    ssize_t size = read(io_wait->wake_fd, &count, sizeof(count));
    (void)size; /* EAGAIN: only expire_at has passed */
    io_wait->expire_at = io_wait->expire(io_wait->owner);
}

bool bi_remote_socket_wait(int fd, short events, struct io_wait *io_wait)
{
    bool expires = io_wait->expire != NULL;
    struct pollfd polled[3] = {{.fd = fd, .events = events},
                               {.fd = io_wait->stop_fd, .events = POLLIN},
                               {.fd = expires ? io_wait->wake_fd : -1, .events = POLLIN}};

    for (;;) {
        bool early = expires && io_wait->expire_at < io_wait->deadline;
        int left = bi_remote_socket_ms_until(io_wait->deadline);
        int wait = early ? bi_remote_socket_ms_until(io_wait->expire_at) : left;

        int ready = poll(polled, 3, wait);
        if (ready < 0 && errno != EINTR)
            return false;
        /* stop wins over data: the queue is closing, and the connection is not wanted any more. */
        if (ready > 0 && (polled[1].revents & POLLIN) != 0)
            return false;
        if (ready > 0 && polled[0].revents != 0)
            return true;
        if (left == 0)
            return false;

        if (expires && (ready > 0 || io_wait->expire_at <= bi_clock_boot()))
            expire(io_wait);
    }
}

static void set_reason(char *reason, int error_number)
{
    bi_text_copy(reason, error_number == ECONNREFUSED ? "no server listens there"
                         : error_number == ENOENT     ? "there is no such socket"
                         : error_number == ETIMEDOUT || error_number == EAGAIN
                             ? "no answer in time"
                             : strerrordesc_np(error_number));
}

/* Best effort: the connection works without any of these options. */
static void set_socket_options(int fd)
{
    const int on = 1, idle = DEAD_PEER_S / 2, interval = DEAD_PEER_S / 6, count = 3;
    const unsigned dead_peer_ms = DEAD_PEER_S * 1000;

    /* Calls are gathered before they are written; Nagle's algorithm would only delay them. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

    /* Keepalive covers an idle connection, TCP_USER_TIMEOUT one with unacknowledged data. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_peer_ms, sizeof(dead_peer_ms));
}

/* A unix socket rejects a client at once while its backlog is full, where TCP lets it wait. Waits a
 * moment. False: the deadline has passed, or stop_fd is readable. */
static bool wait_for_backlog(struct io_wait *io_wait)
{
    int64_t deadline = io_wait->deadline;
    int64_t retry_at = bi_clock_boot() + BACKLOG_RETRY_US;
    if (retry_at >= deadline)
        return false;

    io_wait->deadline = retry_at;
    bi_remote_socket_wait(-1, 0, io_wait);
    io_wait->deadline = deadline;
    return bi_clock_boot() >= retry_at; /* earlier: stop_fd is readable */
}

static int connect_unchecked(const struct sockaddr *to, socklen_t size, struct io_wait *io_wait,
                             char *reason)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error_number = fd < 0 || connect(fd, to, size) != 0 ? errno : 0;

    while (fd >= 0 && error_number == EAGAIN && to->sa_family == AF_UNIX &&
           wait_for_backlog(io_wait))
        error_number = connect(fd, to, size) != 0 ? errno : 0;

    /* After EINTR the connect continues in the background, as after EINPROGRESS. */
    if (fd >= 0 && (error_number == EINPROGRESS || error_number == EINTR)) {
        socklen_t length = sizeof(error_number);
        if (!bi_remote_socket_wait(fd, POLLOUT, io_wait))
            error_number = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length) != 0)
            error_number = errno;
    }

    if (error_number == 0)
        return fd;
    set_reason(reason, error_number);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Connects. trusted: only to a server whose owner is trusted; no byte is sent before that is
 * known. */
static int connect_to(const struct sockaddr *to, socklen_t size, bool trusted,
                      struct io_wait *io_wait, char *reason)
{
    struct peer_listener before;

    if (!trusted)
        return connect_unchecked(to, size, io_wait, reason);
    if (!bi_peer_owner_check_listener(to, &before, reason))
        return -1;
    int fd = connect_unchecked(to, size, io_wait, reason);
    if (fd < 0 || bi_peer_owner_verify(fd, to, &before, reason))
        return fd;
    close(fd);
    return -1;
}

static int connect_path(const struct address *address, struct io_wait *io_wait, char *reason)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    memcpy(to.sun_path, address->path, sizeof(to.sun_path));
    int fd =
        connect_to((const struct sockaddr *)&to, sizeof(to), address->trusted, io_wait, reason);

    /* ENOENT has two causes. A missing directory is a wrong path; a missing socket, a server that
     * does not run. */
    char *slash = strrchr(to.sun_path, '/');
    if (fd >= 0 || slash == NULL || slash == to.sun_path)
        return fd;
    *slash = 0;
    if (access(to.sun_path, F_OK) != 0 && errno == ENOENT)
        bi_text_copy(reason, "there is no such directory");
    return fd;
}

/* Tries the addresses of a host in order. The remaining time is divided by the remaining
 * addresses, so an address that drops packets does not use up the time of the others. */
static int connect_first(const struct addrinfo *found, bool trusted, struct io_wait *io_wait,
                         char *reason)
{
    int fd = -1;
    int64_t deadline = io_wait->deadline;
    int left = 0;

    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
        left++;

    for (; found != NULL && fd < 0; found = found->ai_next, left--) {
        int64_t now = bi_clock_boot();
        io_wait->deadline = now < deadline ? now + (deadline - now) / left : deadline;
        fd = connect_to(found->ai_addr, found->ai_addrlen, trusted, io_wait, reason);
    }

    /* The handshake continues with the same io_wait. */
    io_wait->deadline = deadline;
    if (fd >= 0)
        set_socket_options(fd);
    return fd;
}

int bi_remote_socket_connect(const struct address *address, struct io_wait *io_wait, char *reason)
{
    if (address->host[0] == 0)
        return connect_path(address, io_wait, reason);

    struct lookup *lookup = bi_resolve_begin(address->host, address->port, reason);
    if (lookup == NULL)
        return -1;

    int fd = -1;
    if (!bi_remote_socket_wait(bi_resolve_fd(lookup), POLLIN, io_wait))
        bi_text_copy(reason, "no name server has answered in time");
    else
        fd = connect_first(bi_resolve_result(lookup, reason), address->trusted, io_wait, reason);

    bi_resolve_end(lookup);
    return fd;
}

int bi_remote_socket_connect_peer(int other, bool trusted, struct io_wait *io_wait, char *reason)
{
    struct sockaddr_storage to = {0};
    socklen_t size = sizeof(to);

    if (getpeername(other, (struct sockaddr *)&to, &size) != 0) {
        set_reason(reason, errno);
        return -1;
    }

    int fd = connect_to((const struct sockaddr *)&to, size, trusted, io_wait, reason);
    if (fd >= 0 && to.ss_family != AF_UNIX)
        set_socket_options(fd);
    return fd;
}

void bi_remote_socket_close(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* ---- buffers ---- */

bool bi_remote_socket_reserve(struct remote_buffer *buffer, size_t more, size_t first_room)
{
    assert(buffer->used <= buffer->size && buffer->size <= buffer->room && more > 0);

    if (buffer->used == buffer->size)
        buffer->used = buffer->size = 0;
    if (buffer->size == 0 && buffer->room > BUFFER_KEEP) {
        free(buffer->data);
        *buffer = (struct remote_buffer){.data = NULL, .skip = buffer->skip};
    }
    if (buffer->room - buffer->size >= more)
        return true;

    /* Move the rest to the front only if at least half is free: each byte is then moved O(1) times.
     * Otherwise grow; without memory the move is good enough. */
    if (buffer->used < more || buffer->used < buffer->size / 2) {
        size_t room = buffer->room == 0 ? first_room : buffer->room * 2;
        if (room < buffer->size + more)
            room = buffer->size + more;
        unsigned char *data = realloc(buffer->data, room);
        if (data != NULL) {
            buffer->data = data;
            buffer->room = room;
        }
        if (data != NULL || buffer->used < more)
            return data != NULL;
    }

    buffer->size -= buffer->used;
    memmove(buffer->data, buffer->data + buffer->used, buffer->size);
    buffer->used = 0;
    return true;
}

static void discard_skipped(struct remote_buffer *input)
{
    assert(input->used <= input->size);
    size_t available = input->size - input->used;
    size_t size = available < input->skip ? available : input->skip;
    input->used += size;
    input->skip -= size;
}

void bi_remote_socket_skip(struct remote_buffer *input, size_t total_size)
{
    assert(input->skip == 0 && total_size > input->size - input->used);
    input->skip = total_size;
    discard_skipped(input);
}

ssize_t bi_remote_socket_read(int fd, struct remote_buffer *input, size_t first_room, char *reason)
{
    if (!bi_remote_socket_reserve(input, 1, first_room)) {
        bi_text_copy(reason, "lost: out of memory");
        return REMOTE_NO_MEMORY;
    }

    ssize_t size = recv(fd, input->data + input->size, input->room - input->size, 0);
    if (size > 0) {
        input->size += (size_t)size;
        discard_skipped(input);
        return size;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    bi_text_copy(reason, size == 0 ? "closed by the server" : "lost");
    return -1;
}

int bi_remote_socket_line(const struct remote_buffer *input, char *line, size_t room, size_t *size)
{
    size_t available = input->size - input->used;
    if (available == 0)
        return 0;

    const unsigned char *from = input->data + input->used;
    const unsigned char *end = memmem(from, available, "\r\n", 2);
    if (end == NULL)
        return available < room ? 0 : -1;

    *size = (size_t)(end - from);
    if (*size >= room)
        return -1;
    memcpy(line, from, *size);
    line[*size] = 0;
    return 1;
}

bool bi_remote_socket_data(const struct remote_buffer *input, size_t offset, size_t size,
                           const unsigned char **data)
{
    const unsigned char *from = input->data + input->used + offset;

    *data = NULL;
    if (input->size - input->used < offset + size + 2)
        return true;
    if (memcmp(from + size, "\r\n", 2) != 0)
        return false;
    *data = from;
    return true;
}
