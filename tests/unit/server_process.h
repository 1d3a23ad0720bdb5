/* SPDX-License-Identifier: MIT */
/*
 * server_process - a server in a child process, on a Unix socket in a temporary directory, and
 * clients that send and receive bytes. No call waits longer than PATIENCE_S.
 */
#ifndef BI_UNIT_SERVER_PROCESS_H
#define BI_UNIT_SERVER_PROCESS_H

#include "server/beanstalk/beanstalk.h"

#include "unit.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 30

struct server_process {
    char folder[64];
    struct sockaddr_un address;
    pid_t pid;
    bool stop_sent;
};

struct client {
    int fd;
    char *data; /* received and not consumed */
    size_t size, room;
};

extern const struct server_limits server_process_limits;

/* A %s in url stands for the directory. */
void server_process_start_with(struct server_process *server_process, const char *url,
                               const bide_options *options, const struct server_limits *limits);
void server_process_start(struct server_process *server_process, const char *url);
void server_process_send_stop(struct server_process *server_process);

/* Stops the server by SIGTERM; it must exit with status 0. */
void server_process_stop(struct server_process *server_process);
struct client client_open(const struct server_process *server_process);
void client_close(struct client *client);
void client_send(struct client *client, const void *data, size_t size);

/* False at the end of the stream. */
bool client_receive(struct client *client);
void client_consume(struct client *client, size_t size);

/* The next line, without its CRLF. */
void client_line(struct client *client, char *line, size_t room);
void client_expect(struct client *client, const char *expected);
void client_send_line(struct client *client, const char *line);

#endif
