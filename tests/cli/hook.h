/* SPDX-License-Identifier: MIT */
/*
 * hook - a web server inside a test, on a port of its own: it keeps every request, and answers with
 * what the test has said for the path.
 */
#ifndef CLI_HOOK_H
#define CLI_HOOK_H

#include <stddef.h>

/* The server, which is started when it is first asked for, and this path. */
const char *hook_url(const char *path);

/* All of what is sent for a path, from "HTTP/1.1 200 OK" on; NULL: nothing, ever. */
void hook_answers(const char *path, const char *answer);

/* How many requests have come, and over how many connections. */
size_t hook_requests(void);
size_t hook_connections(void);
/* One of them, from 0 on, with its headers and body. It must have come. */
const char *hook_request(size_t number);

#endif
