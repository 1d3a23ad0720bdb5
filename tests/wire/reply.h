/* SPDX-License-Identifier: MIT */
/*
 * reply - the replies of two servers: taken from their connections, and compared where they must be
 * the same.
 *
 * May differ: what is the server's own in stats (pid, version, times used, uptime, id, host, log,
 * and how often it was asked for stats, which the tester does by itself),
 * quotes around values, the file of a job, the order of list-tubes, the size of a YAML text, and
 * ages and times left by as much as the servers were apart in time. Ids are compared by which job
 * they are.
 */
#ifndef WIRE_REPLY_H
#define WIRE_REPLY_H

#include "connection.h"

/* Finds the size of the first reply in data; 0 when it is not complete, or none. */
size_t reply_size(const char *data, size_t size);

/* How the ids of a server are told as jobs of the story. */
struct reply_names {
    const uint64_t *ids; /* by the number of the job */
    size_t count;
};

/* Writes the reply so that it can be compared; kind: see struct turn. */
void reply_plain(const char *data, size_t size, char kind, const struct reply_names *names,
                 struct bytes *out);

/* Compares two replies that are written plainly; times may differ by so many seconds. */
bool reply_same(const struct bytes *left, const struct bytes *right, uint64_t apart_s);

/* The number of the job that a plain reply says is reserved now, or -1. */
long reply_reserved(const struct bytes *plain);

/* The value of a key in a reply to stats, or -1. */
long reply_value(const char *data, size_t size, const char *key);

#endif
