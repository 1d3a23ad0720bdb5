/* SPDX-License-Identifier: MIT */
/*
 * remote_socket - connects to a server within a time limit.
 *
 * Sockets never block. All waiting is done in bi_remote_socket_wait(), which ends at a deadline or
 * when the queue closes. Host names are resolved in the background (resolve.h).
 */
#ifndef BI_REMOTE_SOCKET_H
#define BI_REMOTE_SOCKET_H

#include "remote/remote_address.h"

/*
 * How long to wait, and what to do meanwhile. expire() is called at expire_at, and whenever wake_fd
 * was written to; it returns when to call it next. So requests expire on time while a connection is
 * being made for them.
 */
struct io_wait {
    int64_t deadline; /* boot-time clock */
    int stop_fd;      /* readable: the wait ends; -1: none */
    int wake_fd;      /* an eventfd, which the wait reads; only with expire() */
    int64_t expire_at;
    int64_t (*expire)(void *owner); /* NULL: nothing to do meanwhile */
    void *owner;
};

/* Returns a connected socket, or -1 with the reason ("no server listens there"). */
int bi_remote_socket_connect(const struct address *address, struct io_wait *io_wait, char *reason);

/* Connects to the peer of another socket: the same server, without a lookup. trusted: as in struct
 * address. */
int bi_remote_socket_connect_peer(int other, bool trusted, struct io_wait *io_wait, char *reason);

/* Waits for POLLIN or POLLOUT. False: the deadline has passed, or stop_fd is readable. */
bool bi_remote_socket_wait(int fd, short events, struct io_wait *io_wait);

#endif
