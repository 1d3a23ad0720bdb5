/* SPDX-License-Identifier: MIT */
/*
 * rpc_limit - the limits of one connection's calls: waiting calls, unread replies, subscriptions
 * and memory; and the permission to make the server write files.
 *
 * The limits of the queue apply to all clients together. These keep a few connections from using
 * them up: while more than half of a limit is in use, a connection gets no more than its guaranteed
 * share. So a client with few calls is still served while others have many.
 */
#define _GNU_SOURCE /* struct ucred */
#include "op/op_result.h"
#include "server/beanstalk/beanstalk.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_SMALL      256                 /* bytes of a reply without jobs, roughly */
#define WAITS_GUARANTEED 64                  /* waiting calls, whatever others have */
#define BYTES_GUARANTEED ((size_t)256 << 10) /* memory of calls, whatever others have */

/* ---- memory ---- */

size_t bi_rpc_limit_reply_estimate(const struct server *server, const bide_op *op)
{
    const size_t job = server->options->max_job_size;
    const size_t page = job > BIDE_BATCH_BYTES ? job : BIDE_BATCH_BYTES;
    size_t item_size;
    size_t items = bi_op_result_room(op, &item_size);

    if (bi_op_is(op, OP_RESULTS))
        return server->options->max_result_size;
    if (!bi_op_is(op, OP_BODIES))
        return items == 0 ? REPLY_SMALL : items * item_size;
    if (items == 0)
        return job;

    /* A reserve or list returns BIDE_BATCH_BYTES at most, or one job that is larger. */
    bool with_body = op->kind != BIDE_OP_LIST || op->list.with_body;
    size_t size = items * (with_body ? job : item_size);
    return size < page ? size : page;
}

uint64_t bi_rpc_limit_guaranteed_share(const struct server *server, uint64_t most, uint64_t all)
{
    if (all < most)
        return most; /* the limit is small on purpose, and rejects by itself */

    uint64_t share = all / (server->connections > 0 ? server->connections : 1);
    return share < most ? share : most;
}

bool bi_rpc_limit_has_memory(const struct beanstalk_conn *conn, size_t bytes)
{
    struct server *server = conn->base.server;
    uint64_t half = server->limits.max_client_bytes / 2;

    /* A connection below its share may go over the half, which is left free for that. */
    if (conn->rpc_bytes > bi_rpc_limit_guaranteed_share(server, BYTES_GUARANTEED, half / 2) &&
        server->client_bytes + bytes > half)
        return false;

    return bi_server_has_memory(server, &conn->base, bytes, bytes);
}

/* ---- waiting calls ---- */

/* At least one, or a client could not wait at all. */
static uint32_t guaranteed_waits(const struct server *server)
{
    uint32_t waits = (uint32_t)bi_rpc_limit_guaranteed_share(server, WAITS_GUARANTEED,
                                                             server->options->max_waiters / 2);
    return waits > 0 ? waits : 1;
}

bool bi_rpc_limit_may_wait(const struct beanstalk_conn *conn)
{
    const struct server *server = conn->base.server;
    return conn->waiter_count < server->limits.max_waiters_per_connection &&
           (conn->waiter_count < guaranteed_waits(server) ||
            conn->beanstalk->waiter_count < server->options->max_waiters / 2);
}

void bi_rpc_limit_reject_wait(const struct beanstalk_conn *conn, bide_op *op)
{
    struct server *server = conn->base.server;
    char peer[PEER_SIZE];

    op->status = BIDE_TOO_MANY_WAITERS;
    snprintf(
        op->error, sizeof(op->error),
        "%s: this connection has %u calls that wait; max_waiters_per_connection allows %u, and "
        "%u while all connections have half of max_waiters",
        bide_op_name(op->kind), conn->waiter_count, server->limits.max_waiters_per_connection,
        guaranteed_waits(server));

    /* A misconfigured client repeats the call; the log has a rate limit. */
    uint64_t count = bi_log_limit_hit(&conn->beanstalk->crowded_log, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "call from %s rejected: too many waiting calls on its connection "
               "(max_waiters_per_connection is %u); %llu rejected so far",
               bi_conn_format_peer(&conn->base, peer), server->limits.max_waiters_per_connection,
               (unsigned long long)count);
}

/* ---- subscriptions ---- */

int bi_rpc_limit_check_subscriptions(const struct beanstalk_conn *conn, char *error)
{
    uint32_t max = conn->base.server->limits.max_feeds_per_connection;
    /* Pending subscribes count, or a pipeline of them would pass the limit. */
    if (conn->subscription_count + conn->subscriptions_pending < max)
        return BIDE_OK;

    return bi_error_set(
        error, BIDE_TOO_MANY_WAITERS,
        "subscribe: this connection has %u feeds, the limit (max_feeds_per_connection)", max);
}

/* ---- files ---- */

/* A backup writes with the rights of the server. Only its own user and root could write such a file
 * themselves, and only a unix socket proves who the peer is. */
static bool may_write_files(const struct beanstalk_conn *conn)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof(peer);
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t room = sizeof(address);

    /* SO_PEERCRED of a socket of another family says nothing about the client. */
    return getsockname(conn->base.fd, (struct sockaddr *)&address, &room) == 0 &&
           address.ss_family == AF_UNIX &&
           getsockopt(conn->base.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

int bi_rpc_limit_check_backup(const struct beanstalk_conn *conn, const char *path, char *error)
{
    if (!may_write_files(conn)) {
        snprintf(
            error, BIDE_ERROR_SIZE,
            "backup: only the user of the server and root may write files, through its unix socket "
            "(beanstalk:///PATH); otherwise use \"bide export\"");
        return BIDE_ENOTSUP;
    }

    if (path == NULL || path[0] != '/')
        return bi_error_set(error, BIDE_EINVAL, "backup: the path must be absolute");
    return BIDE_OK;
}
