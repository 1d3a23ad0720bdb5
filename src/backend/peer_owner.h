/* SPDX-License-Identifier: MIT */
/*
 * peer_owner - which user owns a server on this machine.
 *
 * A client that was not told which server to use must not hand its jobs to any local user who listens
 * at the usual place. With `peer=trusted` in its URL it talks only to servers of root, of the system
 * user bide (bided.service) or of the user that it runs as.
 *
 * The owner of a unix socket is the peer of the connection (SO_PEERCRED). For a TCP port it is the
 * user of the listening socket, from /proc/self/net/tcp and tcp6. That table is read before and after
 * the connection is made: the same listener at both times is the one that took the connection.
 *
 * Cost       One pass over /proc/self/net/tcp, twice for each TCP connection.
 */
#ifndef BI_PEER_OWNER_H
#define BI_PEER_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The sockets that listen on an address. */
struct peer_listener {
    uint32_t count;
    uint64_t inodes; /* their sum: it changes when one is replaced */
    bool foreign;    /* at least one of them has an owner that is not trusted */
    uid_t owner;     /* of the first foreign one, else of the first */
};

/* Is a server of this user used without being named? */
bool bi_peer_trusts(uid_t owner);

/* Finds the sockets that listen on a loopback address and port. False, with the reason
 * (BIDE_ERROR_SIZE bytes), if there is none, the address is not loopback, or /proc cannot be read. */
bool bi_peer_find_listener(const struct sockaddr *to, struct peer_listener *listener, char *reason);

/* Before connect(): may this address be connected to? False, with the reason. */
bool bi_peer_may_connect(const struct sockaddr *to, struct peer_listener *before, char *reason);

/* After connect(): is fd connected to a trusted server? before: what bi_peer_may_connect() found.
 * False, with the reason. */
bool bi_peer_is_trusted(int fd, const struct sockaddr *to, const struct peer_listener *before,
                        char *reason);

#endif
