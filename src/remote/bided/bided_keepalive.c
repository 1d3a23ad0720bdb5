/* SPDX-License-Identifier: MIT */
/*
 * bided_keepalive - detects a server that keeps its connection open and does not reply.
 *
 * A stopped process or a machine that vanished leaves the connection established. Silence alone
 * proves nothing: a reserve may wait for hours. So when requests are pending and nothing was
 * received for answer_timeout, the client sends a ping. If there is no activity for answer_timeout
 * again, the connection counts as lost. A bided whose disk hangs still replies to a ping.
 *
 * A writable socket counts as activity, too: while output is queued, a server that reads it is
 * alive.
 */
#include "remote/bided/bided_client.h"
#include "util/clock.h"

#include <string.h>

void bi_bided_keepalive_reset(struct bided *bided)
{
    bided->ping_sent = false;
    bided->activity_before = bided->activity;
    bided->keepalive_at = bi_clock_boot() + bided->address.answer_timeout;
}

/* Returns false if out of memory; the next check tries again. */
static bool send_ping(struct bided *bided)
{
    memset(&bided->ping, 0, sizeof(bided->ping));
    bided->ping.kind = BIDE_OP_PING;

    struct request *request = bi_bided_request_new(bided, &bided->ping, false);
    if (request == NULL)
        return false;

    request->internal = true;
    if (!bi_bided_request_add(bided, request)) {
        bi_bided_request_free(request);
        return false;
    }

    /* Urgent and not counted in flight: the ping must not wait behind calls that the server may
     * never reply to. */
    bi_bided_send_ping(bided, request);
    bi_bided_send_flush(bided);
    return true;
}

bool bi_bided_keepalive_check(struct bided *bided, int64_t now)
{
    if (!bided->connected || now < bided->keepalive_at)
        return true;

    /* Without pending requests silence is expected. TCP keepalive finds a dead peer then. */
    bool silent = bided->first != NULL && bided->activity == bided->activity_before;
    bool ping_sent = bided->ping_sent;
    bi_bided_keepalive_reset(bided);

    if (silent && !ping_sent)
        bided->ping_sent = send_ping(bided);
    return !silent || !ping_sent;
}
