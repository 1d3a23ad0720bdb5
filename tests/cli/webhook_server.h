/* SPDX-License-Identifier: MIT */
/*
 * webhook_server - a web server inside a test, on a port of its own: it keeps every request, and
 * answers with what the test has said for the path.
 */
#ifndef CLI_HOOK_H
#define CLI_HOOK_H

#include <stddef.h>

/* The server, which is started when it is first asked for, and this path. */
const char *webhook_url(const char *path);

/* All of what is sent for a path, from "HTTP/1.1 200 OK" on; NULL: nothing, ever. */
void webhook_set_reply(const char *path, const char *answer);

/* How many requests have come, and over how many connections. */
size_t webhook_request_count(void);
size_t webhook_connection_count(void);
/* One of them, from 0 on, with its headers and body. It must have come. */
const char *webhook_request(size_t number);

#endif
