/* SPDX-License-Identifier: MIT */
/*
 * admission - decides which connections are served, must authenticate first, or are rejected.
 *
 * A local client (unix socket, loopback address, or the same address on both ends) and a client
 * from a network of `trust` is served at once, unless `auth` is always. Every other client must
 * authenticate with the secret. If no secret is configured, it is rejected.
 *
 * Guessing   The reply to a wrong secret is delayed by a pause, which doubles with every failure
 *            from the same address (IPv6: the same /64 network). Further attempts from there wait
 *            for its end. A rejected connection receives its reply at once and is closed after such
 *            a pause, which slows down a client that reconnects in a loop. Pauses are timers: the
 *            loop never blocks.
 * Slots      Pending connections, which have not authenticated, may use an eighth of
 *            max_connections. Beyond that, or when the server is full, the oldest of them is
 *            evicted. One address may have 64 of them, one IPv6 network half of all. A part of the
 *            slots is reserved for local clients. max_connections_per_address limits the
 *            connections that are served.
 * Peers      The record of an address exists while the address has connections; the PEERS_IDLE_MAX
 *            latest others are retained. Clients of a unix socket are counted by user. An IPv6 host
 *            can use any address of its /64 network, but hosts of a local network share one:
 *            failures count for the network, connections for the address.
 * Cost       O(1) for each connection and attempt.
 */
#ifndef BI_ADMISSION_H
#define BI_ADMISSION_H

#include "server/address.h"
#include "server/fair_queue.h"
#include "server/protocol.h"
#include "util/hash.h"
#include "util/message.h"

#include <bide/job.h>
#include <stdint.h>
#include <sys/queue.h>

#define BI_AUTH_TIMEOUT_US INT64_C(5000000) /* to authenticate */

struct acceptor;
struct conn;
struct event;
struct server;
struct peer;
struct bide_op;
struct sockaddr_storage;

struct admission {
    struct peer **buckets;
    struct bi_hash_secret secret; /* key of the hash */
    TAILQ_HEAD(, peer) idle;      /* peers without connections, oldest first */
    size_t idle_count;
    struct conn_queue pending; /* not authenticated, oldest first */
    uint32_t pending_count;
    uint32_t remote_count;       /* connections of other machines that are not pending */
    uint64_t auth_failure_count; /* wrong secrets */
    struct bi_log_limit full_log, stranger_log, peer_limit_log,
        wrong_log;                       /* rate limits of log lines */
    int64_t audit_until;                 /* end of the current second of the audit log, */
    uint32_t audit_count, audit_dropped; /* its lines, and the lines dropped in it */
};

/* What admission knows of a connection. */
struct conn_admission {
    bool authorised;   /* has authenticated, or need not */
    bool remote;       /* authorised, and from another machine */
    bool pause_closes; /* at the end of the pause the connection is closed */
    bool pause_waited; /* the auth command has waited for a pause */
    uint8_t auth_failures;
    uint8_t auth_required_count;      /* commands rejected before authentication */
    enum admission_reply pause_reply; /* at the end of the pause */
    struct event *pause;              /* NULL: never paused */
    struct peer *peer;                /* NULL: unknown */
    struct peer *subnet;              /* of a remote IPv6 client; NULL: none */
    int64_t auth_deadline;            /* to authenticate */
};

bool bi_admission_init(struct admission *admission);
void bi_admission_done(struct admission *admission);

/* Opens a connection for an accepted socket, or rejects it. Takes the socket. */
void bi_admission_accept(const struct acceptor *acceptor, int fd,
                         const struct sockaddr_storage *address);

/* True if an auth command may execute now. Otherwise a pause has begun, and the command is tried
 * again after it. */
bool bi_admission_may_authenticate(struct conn *conn);

/* Checks the secret and replies, at once or after a pause. */
void bi_admission_authenticate(struct conn *conn, bide_slice secret);

/* Counts a command rejected before authentication; too many close the connection. */
void bi_admission_auth_required(struct conn *conn);

/* True if the connection has not authenticated in time. */
bool bi_admission_is_auth_overdue(const struct conn *conn);

/* Frees the slot of a connection that is being closed. */
void bi_admission_release(struct conn *conn);

/* Logs the client of an administrative op. Other ops are ignored. */
void bi_admission_audit(const struct conn *conn, const struct bide_op *op);

#endif
