/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_socket - a connection to a server, made within a time.
 *
 * Sockets never block; a caller that waits does so here, within its patience. Names of hosts are
 * looked up in the background (resolve.h).
 */
#ifndef BI_BEANSTALK_SOCKET_H
#define BI_BEANSTALK_SOCKET_H

#include "backend/beanstalk_address.h"

/*
 * How long to wait, and what to do meanwhile. look() is called at look_at, and whenever the eventfd
 * wake was written to; it answers when to call it next. So the timeouts of requests are kept while
 * a connection is being made for them.
 */
struct patience {
    int64_t deadline; /* boot-time clock */
    int stop;         /* the wait ends when it is readable; -1: there is none */
    int wake;         /* with look() only */
    int64_t look_at;
    int64_t (*look)(void *owner); /* NULL: nothing */
    void *owner;
};

/* The descriptor, or -1 with the reason ("no server listens there"). */
int bi_socket_connect(const struct address *address, struct patience *patience, char *reason);

/* Connects to where another socket is connected to. trusted: as in struct address. */
int bi_socket_connect_like(int other, bool trusted, struct patience *patience, char *reason);

/* Waits for POLLIN or POLLOUT. False when the time is over, or stop is. */
bool bi_socket_wait(int fd, short events, struct patience *patience);

#endif
