/* SPDX-License-Identifier: MIT */
/*
 * call_limit - what one connection may have of calls that wait, of answers that it does not read, of feeds,
 * and of memory; and whether it may have the server write files.
 *
 * The limits of the queue are for all clients together. These keep one connection, or a few, from
 * taking everything.
 */
#define _GNU_SOURCE /* struct ucred */
#include "server/inside.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_SMALL 256 /* bytes of an answer that shows no jobs, about */
#define WAITS_FREE   64  /* calls that wait which a connection may have however many others have */
#define BYTES_FREE   ((size_t)256 << 10) /* and the memory of its calls, to which one more may come */
#define HEARD_US     INT64_C(10000000) /* with ANSWERS_MAX unread, and nothing taken for so long, */
#define SHARE_US     INT64_C(1000000)  /* or for so long when memory is short, it is closed */

/* ---- memory ---- */

size_t bi_call_promise(const struct server *server, const bide_op *op)
{
    const size_t job = server->max_job_size;
    const size_t page = job > BIDE_BATCH_BYTES ? job : BIDE_BATCH_BYTES;
    size_t size = ANSWER_SMALL;
    switch (op->kind) {
    case BIDE_OP_RESERVE:
        size = op->reserve.job_max * job;
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        size = op->finish_and_reserve.reserve.job_max * job;
        break;
    case BIDE_OP_LIST:
        size = op->list.job_max * (op->list.with_body ? job : sizeof(bide_job));
        break;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        return op->topics.topic_max * sizeof(bide_topic_stats);
    case BIDE_OP_EVENTS:
        return op->feed.event_max * sizeof(bide_event);
    case BIDE_OP_RESULT:
    case BIDE_OP_WAIT:
        return server->max_result_size;
    case BIDE_OP_RESERVE_JOB:
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_BODY:
        return job;
    default:
        break;
    }
    return size < page ? size : page;
}

uint64_t bi_call_free(const struct server *server, uint64_t most, uint64_t all)
{
    if (all < most)
        return most; /* a limit that is so small is for one connection, and refuses by itself */
    uint64_t share = all / (server->connections > 0 ? server->connections : 1);
    return share < most ? share : most;
}

bool bi_call_has_room(const struct conn *conn, size_t bytes)
{
    struct server *server = conn->server;
    uint64_t half = server->limits.max_client_bytes / 2;
    if (conn->call_bytes > bi_call_free(server, BYTES_FREE, half / 2) &&
        server->client_bytes + bytes > half)
        return false;
    return bi_server_has_room(server, conn, bytes, bytes);
}

/* ---- answers that are not read ---- */

size_t bi_call_unread(const struct conn *conn)
{
    return bi_output_left(&conn->output) + conn->unsaid_bytes;
}

/* What a connection may leave unread when memory is short: many that each have less than
 * ANSWERS_SHARE have all of it, too. */
static size_t share_of(const struct server *server)
{
    uint64_t share = server->limits.max_client_bytes / 2 / server->connections;
    return share < ANSWERS_SHARE ? (size_t)share : ANSWERS_SHARE;
}

bool bi_call_is_stuck(const struct conn *conn)
{
    const struct server *server = conn->server;
    size_t left = bi_call_unread(conn);
    int64_t silent = server->now - conn->heard;
    return (left > ANSWERS_MAX && silent > HEARD_US) ||
           (bi_server_lacks_room(server) && left > share_of(server) && silent > SHARE_US);
}

/* ---- calls that wait ---- */

/* One at least: else a client could not wait at all. */
static uint32_t free_waits(const struct server *server)
{
    uint32_t waits = (uint32_t)bi_call_free(server, WAITS_FREE, server->max_waiters / 2);
    return waits > 0 ? waits : 1;
}

bool bi_call_may_wait(const struct conn *conn)
{
    const struct server *server = conn->server;
    return conn->may_wait < server->limits.max_waiters_per_connection &&
           (conn->may_wait < free_waits(server) || server->may_wait < server->max_waiters / 2);
}

void bi_call_refuse_wait(const struct conn *conn, bide_op *op)
{
    struct server *server = conn->server;
    char peer[PEER_SIZE];
    op->status = BIDE_TOO_MANY_WAITERS;
    snprintf(
        op->error, sizeof(op->error),
        "%s: this connection has %u calls that wait; max_waiters_per_connection allows %u, and "
        "%u while all connections have half of max_waiters",
        bide_op_name(op->kind), conn->may_wait, server->limits.max_waiters_per_connection,
        free_waits(server));
    uint64_t count = bi_log_repeats(&server->crowded, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "a call of %s was refused, %s (max_waiters_per_connection is %u); %llu so far",
               bi_conn_peer(conn, peer), "its connection has too many that wait",
               server->limits.max_waiters_per_connection, (unsigned long long)count);
}

/* ---- feeds ---- */

int bi_call_check_feeds(const struct conn *conn, char *error)
{
    uint32_t max = conn->server->limits.max_feeds_per_connection;
    if (conn->feed_links + conn->feed_asked < max)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE,
             "subscribe: this connection has %u feeds, as many as max_feeds_per_connection allows; "
             "end one that is not needed",
             max);
    return BIDE_TOO_MANY_WAITERS;
}

/* ---- files ---- */

/* What a backup writes, this client could write himself: he is the server's user, or root. */
static bool may_write_files(const struct conn *conn)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof(peer);
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t room = sizeof(address);
    return getsockname(conn->fd, (struct sockaddr *)&address, &room) == 0 &&
           address.ss_family == AF_UNIX &&
           getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

int bi_call_check_backup(const struct conn *conn, const char *path, char *error)
{
    if (!may_write_files(conn)) {
        snprintf(
            error, BIDE_ERROR_SIZE,
            "backup: the server writes files only for its own user and root, who are known at its "
            "unix socket: connect there (beanstalk:///PATH), or use \"bide export\"");
        return BIDE_ENOTSUP;
    }
    if (path == NULL || path[0] != '/') {
        snprintf(error, BIDE_ERROR_SIZE,
                 "backup: the server runs in another folder; write the whole path, from / on");
        return BIDE_EINVAL;
    }
    return BIDE_OK;
}
