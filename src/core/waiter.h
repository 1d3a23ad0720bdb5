/* SPDX-License-Identifier: MIT */
/*
 * waiter - the ops that wait: for a ready job, for the end of a job, for events, for recovery.
 *
 * A reserve has a link in the line of each of its topics. A line is a heap in order of arrival, so
 * its first entry is the call that has waited longest for that topic. A topic that gets a ready job
 * while calls wait for it is inserted into core->serving. bi_waiters_serve() runs at the end of
 * every op and timer event and grants the jobs, always to the call that has waited longest.
 *
 * The calls that wait for the end of one job are listed in its watch. When the job ends, the watch
 * leaves it with the outcome, and each op or tick completes some of the calls.
 *
 * A reserve whose jobs have bodies only in the store is parked while the bodies are read:
 *
 *     waiting -> served, all bodies in memory   -> completed
 *             -> served, bodies missing         -> parked (completed with BI_BODY_MISSING)
 *     parked  -> bodies supplied                -> removed, the caller replies
 *             -> no body readable, other jobs   -> parked again, or removed
 *             -> no body readable, none left    -> resumed at its old place, or removed (timeout)
 *             -> the caller gives up            -> removed (bi_waiter_unpark)
 *
 * Ordering   First come, first served, across all topics.
 * Ownership  The core owns a waiter until its op completes. The op's arguments stay the caller's.
 * Failure    Only adding can fail: it reserves the timer and the entries of the lines, so that a
 *            parked call can be resumed. If granting a job runs out of memory, the topic stays in
 *            core->serving and is retried after the next op or event.
 * Cost       O(log n) for each link, wherever in its line it enters or leaves.
 */
#ifndef BI_WAITER_H
#define BI_WAITER_H

#include "core/timer.h"

#include <bide/op.h>

#include <sys/queue.h>

struct core;
struct topic;
struct job;
struct bide_subscription;

/* One topic of a reserve. */
struct waiter_link {
    struct waiter *waiter;
    struct topic *topic; /* NULL, before the call waits, for a topic that does not exist */
    uint32_t slot;       /* in the line of the topic */
    uint32_t weight;
};

struct line_entry {
    uint64_t number; /* of the waiter */
    struct waiter_link *link;
};

/* A call that names a topic twice has two links in its line, of one array. */
static inline bool bi_line_before(const struct line_entry *a, const struct line_entry *b)
{
    return (a->number < b->number) | ((a->number == b->number) & (a->link < b->link));
}

#define BI_HEAP_NAME              line
#define BI_HEAP_ENTRY             struct line_entry
#define BI_HEAP_LESS(a, b)        bi_line_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) ((e)->link->slot = (at))
#include "core/heap.h"

/* The calls that wait for the end of one job. */
struct watch {
    TAILQ_HEAD(, waiter) waiters;
    uint32_t job;             /* 0: it has ended, and the members below are set */
    TAILQ_ENTRY(watch) ended; /* in the list of ended ones */
    bide_state state;
    bool finished;
    bide_buf *result; /* one reference, or NULL */
    uint64_t hold;    /* the batch that the end of the job depends on */
};

struct waiter {
    bide_op *op;
    struct timer timer;
    TAILQ_ENTRY(waiter) all;
    TAILQ_ENTRY(waiter) watching; /* wait: in the list of its watch */
    uint64_t number;              /* in order of arrival */
    int64_t until;                /* boot-time clock; BI_NEVER: no timeout */
    bool parked;                  /* out of its lines while the bodies of its jobs are read */
    struct watch *watch;          /* wait: the watch of its job */
    bide_subscription *feed;      /* events: the subscription */
    bide_reserve_args *args;      /* reserve: its arguments, in the op */
    bide_buf *holder;             /* reserve: its holder, one reference, or NULL */
    size_t link_count;
    struct waiter_link links[];
};

struct waiters {
    TAILQ_HEAD(, waiter) all;
    TAILQ_HEAD(, watch) ended;     /* jobs whose end some calls have yet to learn */
    struct waiter *recovered_next; /* the next one to ask whether it waits for recovery */
    unsigned notified;             /* calls completed in this step by the end of jobs, or visited
                                    * after the end of recovery */
    struct waiter *rollback_next;  /* during a rollback: the next one to visit */
    uint64_t count;
    uint64_t reserving; /* those with links */
    uint64_t parked;
};

/*
 * Adds a waiter for op, with a timeout (negative: none). The links, with their topics, are copied.
 * BIDE_PENDING, and the waiter is in op->private_.waiter; or, with the op's error written, why the
 * op cannot wait: BIDE_CLOSED, BIDE_TOO_MANY_WAITERS or BIDE_ENOMEM.
 */
int bi_waiter_add(struct core *core, bide_op *op, int64_t timeout_ms,
                  const struct waiter_link *links, size_t link_count);

/* Parking removes a call from its lines and stops its timeout; its topics are pinned. Resuming
 * puts it back at its old place. */
void bi_waiter_park(struct core *core, struct waiter *waiter);
void bi_waiter_resume(struct core *core, struct waiter *waiter);
/* Frees a waiter without completing its op: the caller replies. */
void bi_waiter_remove(struct core *core, struct waiter *waiter);

/* Frees a waiter and completes its op with this code. The reply is held for the later of the
 * op's and the core's hold. */
void bi_waiter_complete(struct core *core, struct waiter *waiter, int code);

/* Call when the topic got a ready job or its pause ended. Inserts it into core->serving if calls
 * wait. */
void bi_waiters_wake(struct core *core, struct topic *topic);

/* Completes calls whose job has ended and those that waited for recovery, and grants ready jobs to
 * waiting calls until one side is empty. Stops early, with core->unserved set, when that takes too
 * long for one step, and with core->serve_retry_at set when memory is lacking. */
void bi_waiters_serve(struct core *core);

/* Completes the calls that wait for the job to end. If they are many, leaves the rest to the next
 * steps, with core->unserved set. The job is done, buried or gone; finished: it is gone because its
 * work is done. A rollback calls this, too. */
void bi_waiters_notify(struct core *core, struct job *job, bide_state state, bool finished);

/* Recovery has ended: completes the calls that wait for it, as bi_waiters_notify() does. */
void bi_waiters_notify_recovered(struct core *core);

/* Call before the first bi_waiters_rollback() of a failed commit. */
static inline void bi_waiters_begin_rollback(struct waiters *waiters)
{
    waiters->rollback_next = TAILQ_FIRST(&waiters->all);
}

/*
 * A commit failed: whatever waiting ops did or saw since the last commit is undone. A
 * finish_and_reserve whose finish is undone, and a wait for a job whose end is undone, complete
 * with BIDE_EIO; other waiters only lose their hold. Visits up to budget waiters and returns the
 * rest of the budget.
 */
unsigned bi_waiters_rollback(struct core *core, unsigned budget);

#endif
