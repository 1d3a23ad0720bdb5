/* SPDX-License-Identifier: MIT */
#include "stub_server.h"

#define ROUNDS 50

struct stub *stub;

void send_bytes(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
}

void ping_server(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 0;
        send_bytes(fd, "list-tube-used\r\n", 16);
        while (byte != '\n')
            if (recv(fd, &byte, 1, 0) != 1)
                abort();
    }
}

void serve_stub(void *(*clients)(void *arg), uint64_t max_client_bytes)
{
    stub = stub_new();
    struct server_settings settings = {
        .queue = &stub->queue,
        .limits = {.max_connections = 100,
                   .max_topics_per_connection = 10,
                   .stop_timeout_ms = 10000,
                   .max_client_bytes = max_client_bytes},
    };
    run_server(&settings, clients);
    stub_free(stub);
}
