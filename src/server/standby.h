/* SPDX-License-Identifier: MIT */
/*
 * standby - two threads for one event loop: if the one that runs it hangs in a commit, the other
 * takes the loop over.
 *
 * The loop may commit in its own thread, which saves two thread switches. A sync that hangs cannot
 * be interrupted, and must not stop the loop. So the loop commits only while a second thread stands
 * by, and between two events, when no function of the loop is active. When the commit has taken
 * BI_STANDBY_TAKEOVER_US, the second thread runs the loop. The first one completes its commit as
 * the commit thread of the queue would do, uses nothing of the loop any more, and stands by in
 * turn.
 *
 * Threads    Both threads call acquire, and run the loop when it returns true. All other calls are
 *            made by the thread that runs the loop. What it wrote before begin_commit() or end() is
 *            visible to the next one.
 * Cost       A commit without a takeover costs two atomic writes. At most once in
 *            BI_STANDBY_TAKEOVER_US it wakes the standby thread, which sleeps while there are no
 *            such commits.
 */
#ifndef BI_STANDBY_H
#define BI_STANDBY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BI_STANDBY_TAKEOVER_US INT64_C(100000)

struct standby {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;              /* a thread runs the loop; guarded by lock */
    bool ended;                /* the loop has ended; guarded by lock */
    bool hung;                 /* the other thread still hangs after a takeover; guarded by lock */
    atomic_bool ready;         /* a thread stands by */
    atomic_bool asleep;        /* it must be woken at the next begin_commit() */
    _Atomic int64_t commit_at; /* when the running thread began to commit; 0: it does not */
};

void bi_standby_init(struct standby *standby);
void bi_standby_done(struct standby *standby);

/* Waits until no thread runs the loop, or the one that does hangs. True: the caller runs the loop
 * now. False: the loop has ended. */
bool bi_standby_acquire(struct standby *standby);

/* Whether the calling thread may commit: there is a thread that can take over. */
static inline bool bi_standby_is_ready(struct standby *standby)
{
    return atomic_load_explicit(&standby->ready, memory_order_relaxed);
}

/* Enclose a commit. The first returns a number for the second, which returns false if the caller
 * does not run the loop any more. */
int64_t bi_standby_begin_commit(struct standby *standby);
bool bi_standby_end_commit(struct standby *standby, int64_t commit_at);

/* Ends the loop: acquire returns false from now on. Returns true if the other thread still hangs in
 * its commit. */
bool bi_standby_end(struct standby *standby);

#endif
