/* SPDX-License-Identifier: MIT */
/*
 * peer_owner - which user owns a server on this machine.
 *
 * A client that has no configured server must not send its jobs to any local process that listens
 * at the default place. With `peer=trusted` in its URL it connects only to servers of root, of the
 * system user bide (bided.service) or of the user that it runs as.
 *
 * The owner of a unix socket is the peer of the connection (SO_PEERCRED). The owner of a TCP port
 * is the user of the listening socket, from /proc/self/net/tcp and tcp6. That table is read before
 * and after connect(): if both show the same listener, that listener accepted the connection.
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
    bool untrusted;  /* at least one owner is not trusted */
    uid_t owner;     /* of the first untrusted one, else of the first */
};

/* Returns whether a server of this user may be used with peer=trusted: root, bide, or the own
 * user. */
bool bi_peer_owner_is_trusted(uid_t owner);

/* Finds the sockets that listen on a loopback address and port. False, with the reason
 * (BIDE_ERROR_SIZE bytes): there is none, the address is not loopback, or /proc cannot be read. */
bool bi_peer_owner_find_listener(const struct sockaddr *to, struct peer_listener *listener,
                                 char *reason);

/* Before connect(): returns whether this address may be connected to. False, with the reason. */
bool bi_peer_owner_check_listener(const struct sockaddr *to, struct peer_listener *before,
                                  char *reason);

/* After connect(), before anything is sent: returns whether fd is connected to a trusted server.
 * before: the result of bi_peer_owner_check_listener(). False, with the reason. */
bool bi_peer_owner_verify(int fd, const struct sockaddr *to, const struct peer_listener *before,
                          char *reason);

#endif
