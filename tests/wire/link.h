/* SPDX-License-Identifier: MIT */
/*
 * link - one connection to a server, seen from the client. What comes is kept until it is taken.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include "bytes.h"
#include "server.h"

struct link {
    int fd;     /* -1: not open */
    bool ended; /* the server has closed */
    struct bytes in;
    size_t taken; /* how much of it is behind us */
};

bool link_open(struct link *link, struct server *server);
void link_close(struct link *link);

/* No more is sent; the server sees the end after what it was sent before. */
void link_half(struct link *link);

/* Sends all of it, and reads meanwhile what comes, so that neither side stands still. What a server
 * that has closed does not take is lost. False when it does not go on for PATIENCE_MS. */
bool link_send(struct link *link, const char *data, size_t size);

/* Waits for more; false when the server has closed, or nothing has come until then. */
bool link_fill(struct link *link, int64_t limit_us);

/* What has come and is not taken yet. */
static inline const char *link_data(const struct link *link)
{
    return link->in.data == NULL ? "" : link->in.data + link->taken;
}

static inline size_t link_size(const struct link *link)
{
    return link->in.size - link->taken;
}

#endif
