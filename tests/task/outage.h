/* SPDX-License-Identifier: MIT */
/*
 * outage - a worker in the process of the test, and a way to its server that can be cut.
 *
 * The worker reaches the server through the relay, a port of its own that passes bytes on. The
 * relay can be cut, so that the server is away for the worker while the test still looks at it; it
 * can swallow what the server says; and it can lead to another server, which is how one that was
 * killed comes back at the same address.
 */
#ifndef TASK_OUTAGE_H
#define TASK_OUTAGE_H

#include "process.h"

enum relay_mode {
    RELAY_OPEN,         /* passes on */
    RELAY_CUT,          /* ends all connections, and every new one at once */
    RELAY_DROP_REPLIES, /* passes on what is said to the server, and nothing of what it says */
};

/* Begins the relay to a server, and answers its port. */
int relay_start(int target_port);
/* What it does from now on, also with the connections that there are. */
void relay_set(enum relay_mode mode);
/* Where new connections lead. */
void relay_set_target(int target_port);

/* The worker of the test; its queue is none of the test's. */
struct relayed_worker {
    bide *queue;
    bide_worker *worker;
};

/* Starts it. */
struct relayed_worker relayed_worker_start(const char *url, unsigned threads,
                                           int64_t health_interval_ms);
/* The same through a relay to the server of the test, and with little patience. */
struct relayed_worker start_worker_behind_relay(unsigned threads, int64_t health_interval_ms);
/* Stops it, which must go well. */
#define relayed_worker_stop(relayed_worker) relayed_worker_stop_at(HERE, (relayed_worker))
void relayed_worker_stop_at(struct where at, struct relayed_worker *relayed_worker);

#endif
