/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_keepalive - detects a server that is silent although its connections are established.
 *
 * beanstalkd replies to the commands of a connection in order, and at once except for a reserve
 * that waits. So the pings of remote_keepalive.c are not needed: a reply that is due is a ping. If
 * it is due for answer_timeout, and the server has neither sent nor read anything on that
 * connection, the connection counts as lost. A blocked reserve proves nothing. While only such are
 * outstanding, the client sends a harmless command on the main connection.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

static bool is_reply_due(const struct conn *conn)
{
    return !conn->broken && !conn->blocked && bi_beanstalkd_conn_expects(conn);
}

static bool has_blocked(const struct beanstalkd *beanstalkd)
{
    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (each->blocked && !each->broken)
            return true;
    return false;
}

int64_t bi_beanstalkd_keepalive_next_at(const struct beanstalkd *beanstalkd)
{
    int64_t first = REMOTE_NEVER;

    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (is_reply_due(each) && each->active < first)
            first = each->active;
    if (beanstalkd->main != NULL && beanstalkd->main->active < first &&
        (is_reply_due(beanstalkd->main) || has_blocked(beanstalkd)))
        first = beanstalkd->main->active;
    return first == REMOTE_NEVER ? first : first + beanstalkd->remote.address.answer_timeout;
}

/* Input that this thread had no time to read proves that the server is alive. */
static bool has_no_input(const struct conn *conn, int64_t before)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    return is_reply_due(conn) && conn->active <= before && poll(&polled, 1, 0) == 0;
}

void bi_beanstalkd_keepalive_check(struct beanstalkd *beanstalkd, int64_t now)
{
    int64_t before = now - beanstalkd->remote.address.answer_timeout;
    struct conn *conn = beanstalkd->main;
    bool silent = conn != NULL && has_no_input(conn, before);

    if (silent)
        conn->broken = conn->silent = true;
    else if (conn != NULL && !conn->broken && !is_reply_due(conn) && conn->active <= before &&
             has_blocked(beanstalkd))
        /* The probe. Its reply, or its absence, is judged by the next check. */
        bi_beanstalkd_conn_command(conn, NULL, 0, "list-tube-used");

    /* All connections are to one server. If the main one is silent, blocked reserves are lost,
     * too. */
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if ((silent && each->blocked) || has_no_input(each, before))
            each->broken = true;
}
