/* SPDX-License-Identifier: MIT */
/*
 * release - what an ended connection holds goes back: its leases to the queue, and all else that
 * its protocol knows of.
 *
 * A connection may hold a million jobs, watch ten thousand topics and have thousands of commands
 * that wait. Its socket is closed at once (bi_conn_close()). The first slice is released with it,
 * which is all of a small connection. The rest follows in slices, between which other connections
 * are served. The connection is counted until everything is released. protocol->release() finds
 * what it holds; each lease, and that of a reply that never reached its client, goes through
 * bi_release_lease().
 *
 * Ordering   Leases are given back in the order of the calls. A release never overtakes a deferred
 *            one.
 * Limits     Releases in flight fill a few commits at most, like the changes of bulk senders; more
 *            of them would only delay the changes of light clients. Beyond that, and while the
 *            queue is throttled, leases are deferred, and so are the further slices of connections.
 *            The protocol decides which connections are released all the same.
 * Failure    A lease that cannot be given back now is deferred and retried after a pause, which
 *            grows while the queue is full. If there is no memory to defer it, the ttr of the job
 *            ends the lease.
 */
#ifndef BI_RELEASE_H
#define BI_RELEASE_H

#include "server/fair_queue.h"

#include <event2/event_struct.h>
#include <sys/queue.h>

TAILQ_HEAD(release_blocks, release_block);

struct releases {
    struct conn_queue conns;           /* ended, with more to release */
    struct release_blocks blocks;      /* leases to give back when the queue has room, */
    size_t count;                      /* and how many */
    int64_t retry_at;                  /* deferred releases wait until then, */
    struct event retry_timer;          /* which wakes the loop */
    int64_t busy_pause;                /* last pause because of a full queue; 0: none */
    uint64_t in_flight, in_flight_max; /* leases being given back, and their limit */
};

/* Requires server->base and the limits of the batch. */
void bi_release_init(struct server *server);
/* Frees the connections that are not released and flushes the batch, then frees the deferred
 * leases. Of the leases that are left, only those of unsent replies may still be given back. */
void bi_release_done(struct server *server);

/* Begins to release what a connection holds that has ended, closed or lingering. A closed one is
 * freed when nothing is left. */
void bi_release_conn(struct conn *conn);
/* Releases a slice of the connections that have more. */
void bi_release_continue(struct server *server);

/* Gives back a lease, or defers this. failed: the job counts a failed attempt. */
void bi_release_lease(struct server *server, uint64_t id, uint64_t token, bool failed);
/* Submits a slice of the deferred releases. */
void bi_release_submit_deferred(struct server *server);

/* True if a release would be submitted now. False while the queue is throttled, enough releases are
 * in flight, or some are deferred. */
bool bi_release_is_immediate(const struct server *server);
/* True if a connection or a deferred lease can be released now. */
bool bi_release_has_work(const struct server *server);
/* True if no connection or lease is left to release. */
bool bi_release_is_complete(const struct server *server);

#endif
