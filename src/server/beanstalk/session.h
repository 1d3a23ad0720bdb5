/* SPDX-License-Identifier: MIT */
/*
 * session - the state of a connection in the beanstalkd protocol: the tube it uses, the tubes it
 * watches and the jobs it holds.
 *
 * The queue identifies a lease by its token. Clients of beanstalkd know ids only, and hold a job
 * until they finish it or disconnect. The session maps the id of each job to its token and to the
 * end of its lease, for DEADLINE_SOON. It is a cache: the queue rejects a token that is no longer
 * valid, and the server then removes it here.
 *
 * Ordering   Leases are also linked in the order of reservation, so a closing connection gives
 *            jobs back in that order.
 * Ownership  Tubes are borrowed from the server's table; the caller counts users and watchers.
 * Failure    Only reserve_tube and add_lease can fail (out of memory); the session is unchanged.
 * Cost       Find a lease O(1), add and remove O(log n) for its deadline; find a tube O(watched).
 */
#ifndef BI_SESSION_H
#define BI_SESSION_H

#include "server/beanstalk/tubes.h"

struct lease {
    uint64_t id;
    uint64_t token;
    uint32_t next;            /* in its bucket or in the free list; 0: none */
    uint32_t before, after;   /* neighbours in the order of reservation; 0: none */
    uint32_t slot;            /* in the heap of deadlines */
    uint32_t pending_touches; /* the lease may last longer than its deadline here */
    bool has_retry_limit;     /* losing the connection counts as a failure of the job */
};

struct deadline {
    int64_t at; /* boot-time clock */
    uint64_t id;
    uint32_t lease;
};

#define BI_HEAP_NAME              deadline
#define BI_HEAP_ENTRY             struct deadline
#define BI_HEAP_LESS(a, b)        ((a)->at < (b)->at || ((a)->at == (b)->at && (a)->id < (b)->id))
#define BI_HEAP_MOVED(ctx, e, at) (((struct lease *)(ctx))[(e)->lease].slot = (at))

#include "core/heap.h"

struct session {
    struct tube *used;
    struct tube **watched; /* in the order of list-tubes-watched */
    bide_slice *names;     /* of watched, in the same order: the topics of a reserve */
    uint32_t watched_count, watched_room;
    struct lease *lease; /* an array; [0] is not used, so index 0 means none */
    uint32_t lease_count, lease_room, lease_free;
    uint32_t oldest, newest; /* ends of the list in order of reservation; 0: empty */
    uint32_t *buckets;       /* lease_room of them */
    uint64_t hash_seed;      /* secret: clients choose which ids they reserve */
    struct deadline_heap deadlines;
};

/* Frees the memory. The caller has released the tubes and given the jobs back. */
void bi_session_done(struct session *session);

/* ---- tubes ---- */

/* Approximate size of the link that a waiting reserve has in each of its topics. */
#define WAITER_LINK_SIZE 48

/* Memory of the lists of tubes, and of a reserve that waits for all of them. */
size_t bi_session_memory(const struct session *session);

/* Returns the index of the tube, or watched_count. */
uint32_t bi_session_find_tube(const struct session *session, const struct tube *tube);
/* Makes room for one tube. False: out of memory, or as many tubes as a reserve accepts. */
bool bi_session_reserve_tube(struct session *session);
/* Appends a tube. Requires a successful bi_session_reserve_tube(). */
void bi_session_add_tube(struct session *session, struct tube *tube);
/* The last tube takes its place. */
void bi_session_remove_tube(struct session *session, uint32_t at);

/* ---- leases ---- */

/* Adds a lease that ends at deadline (boot-time clock), or replaces the one of the same job. False:
 * out of memory. */
bool bi_session_add_lease(struct session *session, uint64_t id, uint64_t token, int64_t deadline,
                          bool has_retry_limit);
/* Returns NULL if the session does not hold the job. The pointer is valid until the next change. */
const struct lease *bi_session_find_lease(const struct session *session, uint64_t id);
int64_t bi_session_lease_end(const struct session *session, const struct lease *lease);
/* Brackets a touch of a job. deadline is the new end of the lease; 0: the touch failed. */
void bi_session_begin_touch(struct session *session, uint64_t id);
void bi_session_end_touch(struct session *session, uint64_t id, int64_t deadline);
void bi_session_remove_lease(struct session *session, uint64_t id);

/*
 * Removes leases that ended before now and returns the next deadline, INT64_MAX if there is none. A
 * lease with a pending touch is not removed but gets a grace period. One call removes a limited
 * number; if more have ended, it returns a time that is not yet "soon" (DEADLINE_SOON_US).
 */
int64_t bi_session_next_deadline(struct session *session, int64_t now);

/*
 * Takes the lease that was reserved first; NULL: there is none. Valid until the next call. The hash
 * table and the heap are not updated: only further calls of this and bi_session_done() may follow.
 */
const struct lease *bi_session_take_oldest_lease(struct session *session);

#endif
