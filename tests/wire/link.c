/* SPDX-License-Identifier: MIT */
#include "link.h"

#include "../contract/contract.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 65536

bool link_open(struct link *link, struct server *server)
{
    *link = (struct link){.fd = server_connect(server)};
    return link->fd >= 0;
}

void link_close(struct link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    bytes_done(&link->in);
    *link = (struct link){.fd = -1};
}

void link_half(struct link *link)
{
    shutdown(link->fd, SHUT_WR);
}

/* Whatever ends a connection ends it: a server that closes with unread input resets it. */
static void read_some(struct link *link)
{
    char *room = bytes_room(&link->in, READ_SIZE);
    ssize_t got = read(link->fd, room, READ_SIZE);
    if (got > 0)
        link->in.size += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        link->ended = true;
}

static bool wait_for(struct link *link, short events, int64_t limit_us, short *got)
{
    struct pollfd wanted = {.fd = link->fd, .events = events};
    for (;;) {
        int64_t left_us = limit_us - clock_us();
        if (left_us < 0)
            left_us = 0;
        int count = poll(&wanted, 1, (int)((left_us + 999) / 1000));
        if (count > 0) {
            *got = wanted.revents;
            return true;
        }
        if (left_us == 0)
            return false;
    }
}

bool link_send(struct link *link, const char *data, size_t size)
{
    while (size > 0) {
        short got = 0;
        short events = link->ended ? POLLOUT : POLLIN | POLLOUT;
        if (!wait_for(link, events, clock_us() + PATIENCE_MS * 1000, &got))
            return false;
        if (got & POLLIN && !link->ended)
            read_some(link);
        ssize_t sent = send(link->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return true;
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
    }
    return true;
}

bool link_fill(struct link *link, int64_t limit_us)
{
    short got = 0;
    size_t before = link->in.size;
    while (!link->ended && wait_for(link, POLLIN, limit_us, &got)) {
        read_some(link);
        if (link->in.size > before)
            return true;
    }
    return false;
}
