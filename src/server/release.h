/* SPDX-License-Identifier: MIT */
/*
 * release - gives leases back to the queue: those of closed connections, and those of replies that
 * never reached their client.
 *
 * Ordering   Leases are given back in the order of the calls. A release never overtakes a deferred
 *            one.
 * Limits     Releases in flight fill a few commits at most, like the changes of bulk senders; more
 *            of them would only delay the changes of light clients. Beyond that, and while the queue
 *            is throttled, they are deferred.
 * Failure    A lease that cannot be given back now is deferred and retried after a pause, which
 *            grows while the queue is full. If there is no memory to defer it, the ttr of the job
 *            ends the lease.
 */
#ifndef BI_RELEASE_H
#define BI_RELEASE_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct deferred_release;

struct releases {
    struct deferred_release *deferred; /* leases to give back when the queue has room */
    size_t first, count, room;
    int64_t retry_at;                  /* deferred releases wait until then, */
    struct event retry_timer;          /* which wakes the loop */
    int64_t busy_pause;                /* last pause because of a full queue; 0: none */
    uint64_t in_flight, in_flight_max; /* leases being given back, and their limit */
};

/* Assigns the timer. Requires server->base. */
void bi_release_init(struct server *server);
/* Gives back a lease, or defers this. failed: the job counts a failed attempt. */
void bi_release_lease(struct server *server, uint64_t id, uint64_t token, bool failed);
/* True if a release would be submitted now. False while the queue is throttled, enough releases are
 * in flight, or some are deferred. */
bool bi_release_is_immediate(const struct server *server);
/* True if deferred releases can be submitted now. */
bool bi_release_has_due(const struct server *server);
/* Submits a slice of the deferred releases. */
void bi_release_submit_deferred(struct server *server);

#endif
