/* SPDX-License-Identifier: MIT */
/*
 * resolve - addresses of a host, looked up without blocking the caller.
 *
 * getaddrinfo() takes as long as the name servers let it, and cannot be interrupted. So each lookup
 * runs on a detached thread. Callers poll a descriptor until it is done, and may stop waiting at any
 * time: the thread finishes alone. Callers that want the same name share one lookup. A result that
 * no caller has waited for is kept for some seconds, for the next attempt.
 *
 * Ownership  A lookup is reference-counted: by its thread, and by each caller until bi_resolve_end().
 * Threads    Any thread may call. At most RESOLVE_MAX lookups are in progress in a process.
 * Unloading  The threads may outlive every queue: the shared library is linked with -z nodelete.
 */
#ifndef BI_RESOLVE_H
#define BI_RESOLVE_H

#include <netdb.h>

#define RESOLVE_MAX 16

struct lookup;

/* Starts or joins a lookup. NULL with the reason (BIDE_ERROR_SIZE bytes). */
struct lookup *bi_resolve_begin(const char *host, const char *port, char *reason);

/* A descriptor that is readable when the lookup is done. */
int bi_resolve_fd(const struct lookup *lookup);

/* The addresses, valid until the end; NULL with the reason. Only when the lookup is done. */
const struct addrinfo *bi_resolve_result(const struct lookup *lookup, char *reason);

void bi_resolve_end(struct lookup *lookup);

#endif
