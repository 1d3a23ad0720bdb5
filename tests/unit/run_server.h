/* SPDX-License-Identifier: MIT */
/*
 * run_server - runs a server in this process on a Unix socket, with clients on another thread.
 */
#ifndef BI_UNIT_RUN_SERVER_H
#define BI_UNIT_RUN_SERVER_H

#include "server/beanstalk/beanstalk.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 30

int open_client(void);

/* Runs a server until a client stops it by a signal. */
void run_server(const struct server_settings *settings, void *(*clients)(void *arg));

#endif
