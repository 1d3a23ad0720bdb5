/* SPDX-License-Identifier: MIT */
/*
 * session - what a connection of the beanstalkd protocol has: the tube it uses, the tubes it
 * watches, and the jobs it holds.
 *
 * The queue knows leases by their tokens; old clients know only ids, and that what they reserved is
 * theirs as long as the connection lasts. The session remembers the token of each job, and when its
 * lease ends, for DEADLINE_SOON. The queue decides: a token that is no longer good is refused
 * there, and then forgotten here.
 *
 * Cost       Finding, adding and forgetting a job O(1) and O(log n) for its deadline.
 */
#ifndef BI_SESSION_H
#define BI_SESSION_H

#include "server/tubes.h"

struct held {
    uint64_t id;
    uint64_t token;
    uint32_t next;          /* in its bucket, or of the free ones; 0: none */
    uint32_t before, after; /* it in the order of the reservations; 0: none */
    uint32_t slot;          /* in the heap of deadlines */
    uint32_t touches;       /* that are under way: the lease may be longer than is known here */
    bool has_retries;       /* has a limit of retries: lost with the connection, it has failed */
};

struct deadline {
    int64_t at; /* boot-time clock */
    uint64_t id;
    uint32_t held;
};

#define BI_HEAP_NAME              deadline
#define BI_HEAP_ENTRY             struct deadline
#define BI_HEAP_LESS(a, b)        ((a)->at < (b)->at || ((a)->at == (b)->at && (a)->id < (b)->id))
#define BI_HEAP_MOVED(ctx, e, at) (((struct held *)(ctx))[(e)->held].slot = (at))

#include "core/heap.h"

struct session {
    struct tube *used;
    struct tube **watched; /* in the order of list-tubes-watched */
    bide_slice *names;     /* of those, for reserve */
    uint32_t watched_count, watched_room;
    struct held *held; /* [0] is not used */
    uint32_t held_count, held_room, held_free;
    uint32_t oldest, newest; /* of the held, by their reservation; 0: none */
    uint32_t *buckets;       /* held_room of them */
    uint64_t secret;         /* of their hash */
    struct deadline_heap deadlines;
};

/* Frees what it has; the tubes and jobs have been given back. */
void bi_session_done(struct session *session);

/* ---- tubes ---- */

/* A call that waits has a link of about this size for every topic. */
#define LINK_SIZE 48

/* What its lists of tubes take of memory, and a reserve of all of them while it waits. */
size_t bi_session_memory(const struct session *session);

/* Where it is in the list, or watched_count. */
uint32_t bi_session_find_tube(const struct session *session, const struct tube *tube);
/* Room for one more; false when out of memory, or if there are as many as a reserve takes. */
bool bi_session_reserve_tube(struct session *session);
/* At the end of the list; there is room. */
void bi_session_add_tube(struct session *session, struct tube *tube);
/* The last one takes its place. */
void bi_session_remove_tube(struct session *session, uint32_t at);

/* ---- jobs ---- */

/* Remembers a lease that ends at deadline; false when out of memory. One that the job already has
 * here is replaced. */
bool bi_session_hold(struct session *session, uint64_t id, uint64_t token, int64_t deadline,
                     bool has_retries);
/* NULL if it is not here. */
const struct held *bi_session_find(const struct session *session, uint64_t id);
/* When its lease ends. */
int64_t bi_session_end(const struct session *session, const struct held *held);
/* A touch is under way; and has completed: the lease ends then, or, with 0, as it would have. */
void bi_session_touch_begins(struct session *session, uint64_t id);
void bi_session_touch(struct session *session, uint64_t id, int64_t deadline);
void bi_session_forget(struct session *session, uint64_t id);

/* When the first of the leases ends, after those that ended before now were forgotten, but for those
 * that are being touched; INT64_MAX: there is none. Of very many that have ended some are forgotten, and
 * the answer is a moment that is later than "soon". */
int64_t bi_session_deadline(struct session *session, int64_t now);

/* For the end: the job that was reserved before all others, taken out; NULL: there is none. It is there
 * until the next call. Then only more of these and done may follow. */
const struct held *bi_session_take_oldest(struct session *session);

#endif
