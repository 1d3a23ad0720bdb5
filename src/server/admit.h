/* SPDX-License-Identifier: MIT */
/*
 * admit - which connections are served, which must say the secret first, and which are refused.
 *
 * A client of this machine (a unix socket, a loopback address, the address that it connects to) and
 * one from a network of `trust` is served at once, unless `auth` is always. Every other client must say
 * the secret; without a secret it is refused.
 *
 * Guessing   A wrong secret is answered after a pause, which doubles with every failure from the same
 *            address (of IPv6: the same network of 64 bits), and further attempts from there wait for
 *            the end of it. A refused connection hears its reply at once and is closed after such a
 *            pause, so that a client which connects again and again does so slowly. Pauses are timers:
 *            the loop never waits.
 * Slots      Connections that have not said the secret may take an eighth of max_connections, and are
 *            the first to go: beyond that, or when the server is full, the oldest of them is closed.
 *            One address may have 64 of them, and one IPv6 network half. A part of the slots is for
 *            clients of this machine only. An address may have max_connections_per_address connections.
 * Peers      What is known of an address is kept while it has connections, and of the PEERS_IDLE_MAX
 *            latest others for PEER_FORGET_US. Clients of a unix socket count by their
 *            user. The hosts of a local network have one IPv6 network, and one host may have each of its
 *            addresses.
 * Cost       O(1) for each connection and attempt.
 */
#ifndef BI_ADMIT_H
#define BI_ADMIT_H

#include "server/network.h"
#include "util/log.h"
#include "util/secret.h"

#include <stdint.h>

#define BI_GRACE_US INT64_C(5000000) /* to say the secret */

struct conn;
struct server;
struct peer;
struct bide_op;
struct sockaddr_storage;

struct admission {
    struct peer **buckets;
    struct bi_secret secret;             /* of the hash of the buckets */
    struct peer *idle_first, *idle_last; /* without connections, the one that left first in front */
    size_t idle_count;
    struct conn *pending_first, *pending_last; /* that must say the secret, oldest first */
    uint32_t pending_count;
    uint32_t remote_count; /* connections of other machines that are not pending */
    struct bi_log_repeat full, stranger, crowd, wrong; /* lines of the log */
    int64_t audit_until;              /* lines about administrative actions: of this second, */
    uint32_t audit_count, audit_lost; /* so many were written, and so many before it left out */
};

bool bi_admit_init(struct admission *admission);
void bi_admit_done(struct admission *admission);

/* A client has connected: opens a connection for it, or refuses it. The socket is taken over. */
void bi_admit(struct server *server, int fd, const struct sockaddr_storage *address);

/* May a command that says the secret be looked at now? False: it waits, and is looked at again. */
bool bi_admit_may_try(struct conn *conn);

/* A command was refused for want of the secret. */
void bi_admit_demanded(struct conn *conn);

/* Has it had its time to say the secret? */
bool bi_admit_is_late(const struct conn *conn);

/* The connection goes. */
void bi_admit_leave(struct conn *conn);

/* Writes to the log who asks for an administrative op; others are not looked at. */
void bi_admit_audit(const struct conn *conn, const struct bide_op *op);

#endif
