/* SPDX-License-Identifier: MIT */
/*
 * stub_server - a server in this process on a stub backend, with clients on another thread.
 */
#ifndef BI_UNIT_STUB_SERVER_H
#define BI_UNIT_STUB_SERVER_H

#include "stub_backend.h"

#include "run_server.h"

extern struct stub *stub;

void send_bytes(int fd, const void *data, size_t size);

/* Sends commands and reads their replies; the server has then handled everything that was
 * pending. */
void ping_server(int fd);

/* Runs a server until clients() stops it. */
void serve_stub(void *(*clients)(void *arg), uint64_t max_client_bytes);

#endif
