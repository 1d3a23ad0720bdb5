/* SPDX-License-Identifier: MIT */
/*
 * remote_keepalive - detects a server that is silent although its connection is established.
 *
 * A stopped process or a machine that vanished leaves the connection established. Silence alone
 * proves nothing: a reserve may wait for hours. So when ops are pending and nothing was received
 * for answer_timeout, the client sends a ping. If there is no activity for answer_timeout again,
 * the connection counts as lost. A server whose disk hangs still replies to a ping. A socket that
 * becomes writable counts as activity, too: a server that reads is alive.
 *
 * Only clients with the function ping() use it. The client of a plain beanstalkd has another way
 * (beanstalkd_keepalive.c).
 */
#include "remote/remote.h"
#include "util/clock.h"

void bi_remote_keepalive_reset(struct remote *remote)
{
    remote->ping_sent = false;
    remote->activity_before = remote->activity;
    remote->keepalive_at = remote->client->ping == NULL
                               ? REMOTE_NEVER
                               : bi_clock_boot() + remote->address.answer_timeout;
}

bool bi_remote_keepalive_is_alive(struct remote *remote, int64_t now)
{
    if (!remote->connected || now < remote->keepalive_at)
        return true;

    /* Without pending ops silence is expected. TCP keepalive finds a dead peer then. */
    bool silent = remote->first != NULL && remote->activity == remote->activity_before;
    bool ping_sent = remote->ping_sent;
    bi_remote_keepalive_reset(remote);

    /* Out of memory: the next check tries again. */
    if (silent && !ping_sent)
        remote->ping_sent = remote->client->ping(remote);
    return !silent || !ping_sent;
}
