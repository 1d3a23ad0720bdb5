/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include "../contract/contract.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 65536

bool connection_open(struct connection *connection, struct server *server)
{
    *connection = (struct connection){.fd = server_connect(server)};
    return connection->fd >= 0;
}

void connection_close(struct connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    bytes_done(&connection->in);
    *connection = (struct connection){.fd = -1};
}

void connection_half_close(struct connection *connection)
{
    shutdown(connection->fd, SHUT_WR);
}

/* Whatever ends a connection ends it: a server that closes with unread input resets it. */
static void read_some(struct connection *connection)
{
    char *room = bytes_room(&connection->in, READ_SIZE);
    ssize_t got = read(connection->fd, room, READ_SIZE);
    if (got > 0)
        connection->in.size += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        connection->ended = true;
}

static bool wait_for(struct connection *connection, short events, int64_t limit_us, short *got)
{
    struct pollfd wanted = {.fd = connection->fd, .events = events};
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

bool connection_send(struct connection *connection, const char *data, size_t size)
{
    while (size > 0) {
        short got = 0;
        short events = connection->ended ? POLLOUT : POLLIN | POLLOUT;
        if (!wait_for(connection, events, clock_us() + PATIENCE_MS * 1000, &got))
            return false;
        if (got & POLLIN && !connection->ended)
            read_some(connection);
        ssize_t sent = send(connection->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return true;
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
    }
    return true;
}

bool connection_fill(struct connection *connection, int64_t limit_us)
{
    short got = 0;
    size_t before = connection->in.size;
    while (!connection->ended && wait_for(connection, POLLIN, limit_us, &got)) {
        read_some(connection);
        if (connection->in.size > before)
            return true;
    }
    return false;
}
