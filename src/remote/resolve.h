/* SPDX-License-Identifier: MIT */
/*
 * resolve - looks up the addresses of a host without blocking the caller.
 *
 * getaddrinfo() takes as long as the name servers let it, and cannot be interrupted. So each lookup
 * runs on a detached thread. The caller polls a descriptor until it is done, and may stop waiting
 * at any time: the thread finishes alone. Callers of the same name share a lookup. A result that no
 * caller waited for is cached for some seconds, for the next attempt.
 *
 * Ownership  A lookup is reference-counted: by the list of lookups, by its thread, and by each
 *            caller until bi_resolve_end().
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

/* Returns the addresses, valid until bi_resolve_end(); NULL with the reason. The lookup must be
 * done. */
const struct addrinfo *bi_resolve_result(const struct lookup *lookup, char *reason);

void bi_resolve_end(struct lookup *lookup);

#endif
