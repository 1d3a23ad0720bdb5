/* SPDX-License-Identifier: MIT */
/*
 * puppet_server - a server in this process whose queue is a puppet, and clients on a thread of their own.
 */
#ifndef BI_UNIT_PUPPET_SERVER_H
#define BI_UNIT_PUPPET_SERVER_H

#include "puppet.h"

#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ROUNDS     50
#define PATIENCE_S 30

static struct puppet *puppet;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* ---- clients ---- */

static inline int open_client(void)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        abort();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

static inline void say(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
}

/* The server has done what it had to do before these. */
static inline void ask_often(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 0;
        say(fd, "list-tube-used\r\n", 16);
        while (byte != '\n')
            if (recv(fd, &byte, 1, 0) != 1)
                abort();
    }
}

/* ---- the server ---- */

/* Runs a server until its clients, who are done then, have it stop. */
static inline void serve_puppet(void *(*clients)(void *arg), uint64_t max_client_bytes)
{
    char error[BIDE_ERROR_SIZE];
    struct server *server;
    pthread_t thread;
    puppet = puppet_new();
    struct server_settings settings = {
        .queue = &puppet->queue,
        .options = BIDE_OPTIONS_INIT,
        .limits = {.max_connections = 100,
                   .max_tubes_per_connection = 10,
                   .stop_timeout_ms = 10000,
                   .max_client_bytes = max_client_bytes},
    };
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bide-puppet-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(bi_server_listen(server, fd), BIDE_OK);
    assert_int_equal(pthread_create(&thread, NULL, clients, NULL), 0);
    bi_server_run(server);
    pthread_join(thread, NULL);
    unlink(address.sun_path);
    bi_server_free(server);
    puppet_free(puppet);
}

#endif
