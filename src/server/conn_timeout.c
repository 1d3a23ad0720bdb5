/* SPDX-License-Identifier: MIT */
/*
 * conn_timeout - closes connections that are idle, send a command too slowly, or do not read.
 *
 * idle_timeout, command_timeout and the time to authenticate are tested once a second for every
 * connection. While the clients' memory is short, the limits of slow clients are stricter: the
 * memory that they hold is missing to others.
 */
#include "server/server_internal.h"

#define OVERDUE_US              INT64_C(5000000)  /* of a partial command while memory is short, */
#define BODY_PACE               8192              /* plus a second per this many bytes of a body */
#define UNREAD_TIMEOUT_US       INT64_C(10000000) /* UNREAD_MAX unread and no progress: close */
#define UNREAD_TIMEOUT_SHORT_US INT64_C(1000000)  /* the same while memory is short */

bool bi_conn_timeout_is_reader_stalled(const struct conn *conn)
{
    const struct server *server = conn->server;
    size_t unread_bytes = bi_conn_unread_bytes(conn);
    int64_t stalled_us = server->now - conn->last_drained_at;

    /* With many connections the share is less than UNREAD_SHARE: together they would still hold all
     * of the memory. */
    uint64_t share = server->limits.max_client_bytes / 2 / server->connections;
    if (share > UNREAD_SHARE)
        share = UNREAD_SHARE;

    /* Reading slowly is allowed, as long as the client makes progress. */
    return (unread_bytes > UNREAD_MAX && stalled_us > UNREAD_TIMEOUT_US) ||
           (bi_server_is_memory_short(server) && unread_bytes > share &&
            stalled_us > UNREAD_TIMEOUT_SHORT_US);
}

/* Tests idle_timeout, and the limits for clients that do not read or do not authenticate. */
static bool is_idle_too_long(struct conn *conn)
{
    const struct server *server = conn->server;
    int64_t limit = server->limits.idle_timeout_ms * 1000;
    if (bi_conn_timeout_is_reader_stalled(conn) || bi_admission_is_auth_overdue(conn))
        return true;

    /* A connection that holds a job is not idle. */
    bool idle = bi_conn_is_idle(conn) && !bi_conn_is_in(conn, LIST_RUN) &&
                !bi_conn_is_in(conn, LIST_READ) && !conn->protocol->holds_lease(conn);
    if (!idle)
        conn->last_active_at = server->now;

    return limit != 0 && server->now - conn->last_active_at >= limit;
}

/* While memory is short, a body must arrive at BODY_PACE: a slow one holds memory for which other
 * clients are rejected. */
static bool is_body_too_slow(const struct conn *conn)
{
    const struct server *server = conn->server;
    const struct conn_body *body = conn->body;
    if (body == NULL || !bi_server_is_memory_short(server))
        return false;

    int64_t due_us = (int64_t)(body->received / BODY_PACE) * 1000000;
    return server->now - body->started_at > OVERDUE_US + due_us;
}

/* Tests command_timeout for a partial command. The timeout is at most OVERDUE_US while memory is
 * short. */
static bool is_command_overdue(struct conn *conn)
{
    struct server *server = conn->server;
    int64_t limit = server->limits.command_timeout_ms * 1000;

    /* The timeouts restart while the server itself does not read the connection. */
    if (limit == 0 || !bi_conn_has_partial_command(conn)) {
        conn->last_received_at = server->now;
        if (conn->body != NULL)
            conn->body->started_at = server->now;
        return false;
    }

    bool tight = bi_server_is_memory_tight(server) || bi_server_is_memory_short(server);
    if (tight && limit > OVERDUE_US)
        limit = OVERDUE_US;

    bool body_too_slow = is_body_too_slow(conn);
    if (server->now - conn->last_received_at < limit && !body_too_slow)
        return false;

    char peer[PEER_SIZE];
    uint64_t count = bi_log_limit_hit(&server->overdue_log, server->now);
    if (count > 0)
        bi_log(
            &server->log, BIDE_LOG_WARN,
            "closing connection from %s: incomplete command, %s for %lld s (command_timeout); %llu "
            "connections closed so far",
            bi_conn_format_peer(conn, peer), body_too_slow ? "too slow" : "no input",
            (long long)((server->now -
                         (body_too_slow ? conn->body->started_at : conn->last_received_at)) /
                        1000000),
            (unsigned long long)count);
    return true;
}

void bi_conn_timeout_check_all(struct server *server)
{
    for (struct conn *conn = server->conns.head; conn != NULL;
         conn = bi_conn_next(conn, LIST_ALL)) {
        bi_conn_look_again(conn);
        if (conn->lingering || (!is_command_overdue(conn) && !is_idle_too_long(conn)))
            continue;

        /* Closed at the end of the turn, as closing here would unlink it from this list. */
        conn->dead = true;
        bi_fair_queue_mark_dirty(conn);
    }
}
