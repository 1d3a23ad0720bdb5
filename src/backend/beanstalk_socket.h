/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_socket - a connection to a server, made within a time.
 *
 * Sockets never block; who wants to wait does so here, until a deadline (boot-time clock) or until
 * the descriptor stop is readable (-1: there is none).
 */
#ifndef BI_BEANSTALK_SOCKET_H
#define BI_BEANSTALK_SOCKET_H

#include "backend/beanstalk_address.h"

/* The descriptor, or -1 with the reason ("nobody listens there"). */
int bi_socket_connect(const struct address *address, int64_t deadline, int stop, char *reason);

/* Waits for POLLIN or POLLOUT. False when the time is over, or stop is. */
bool bi_socket_wait(int fd, short events, int64_t deadline, int stop);

#endif
