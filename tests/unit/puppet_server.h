/* SPDX-License-Identifier: MIT */
/*
 * puppet_server - a server in this process whose queue is a puppet, and clients on a thread of their own.
 */
#ifndef BI_UNIT_PUPPET_SERVER_H
#define BI_UNIT_PUPPET_SERVER_H

#include "puppet.h"

#include "run_server.h"

#define ROUNDS 50

static struct puppet *puppet;

/* ---- clients ---- */

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
    puppet = puppet_new();
    struct server_settings settings = {
        .queue = &puppet->queue,
        .options = BIDE_OPTIONS_INIT,
        .limits = {.max_connections = 100,
                   .max_tubes_per_connection = 10,
                   .stop_timeout_ms = 10000,
                   .max_client_bytes = max_client_bytes},
    };
    run_server(&settings, clients);
    puppet_free(puppet);
}

#endif
