/* SPDX-License-Identifier: MIT */
/*
 * connection - one connection to a server, seen from the client. What comes is kept until it is
 * taken.
 */
#ifndef WIRE_CONNECTION_H
#define WIRE_CONNECTION_H

#include "bytes.h"
#include "server.h"

struct connection {
    int fd;     /* -1: not open */
    bool ended; /* the server has closed */
    struct bytes in;
    size_t taken; /* how much of it is behind us */
};

bool connection_open(struct connection *connection, struct server *server);
void connection_close(struct connection *connection);

/* No more is sent; the server sees the end after what it was sent before. */
void connection_half_close(struct connection *connection);

/* Sends all of it, and reads meanwhile what comes, so that neither side stands still. What a server
 * that has closed does not take is lost. False when it does not go on for PATIENCE_MS. */
bool connection_send(struct connection *connection, const char *data, size_t size);

/* Waits for more; false when the server has closed, or nothing has come until then. */
bool connection_fill(struct connection *connection, int64_t limit_us);

/* What has come and is not taken yet. */
static inline const char *connection_data(const struct connection *connection)
{
    return connection->in.data == NULL ? "" : connection->in.data + connection->taken;
}

static inline size_t connection_size(const struct connection *connection)
{
    return connection->in.size - connection->taken;
}

#endif
