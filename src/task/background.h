/* SPDX-License-Identifier: MIT */
/*
 * background - one thread per worker for everything that must happen while handlers run.
 *
 *     heartbeat    extends the leases of running jobs, and sends their progress
 *     subscriber   receives cancels, and asks the handlers to stop
 *     syncer       retries acks that the queue could not accept
 *     health       pings the queue
 *
 * Each part has two functions: complete() processes ops that have completed, run() does what is due
 * and returns when it must run next. The thread sleeps until the first of these times. The ops have
 * no callbacks: in a completion callback blocking calls are rejected, and the event and health
 * handlers of the program, which run on this thread, may make such calls.
 *
 * Threads    All functions below run on the background thread.
 */
#ifndef BI_BACKGROUND_H
#define BI_BACKGROUND_H

#include "task/worker_internal.h"
#include "util/clock.h"

static inline int64_t bi_background_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* An op of the background thread completes through its cq, without a callback. */
void bi_background_prepare_op(struct background *background, bide_op *op, bide_op_kind kind);
void bi_background_submit(struct background *background, bide_op *op);
/* Clears *out and returns true when the op that *out marks as submitted has completed. */
bool bi_background_poll_op(bool *out, const bide_op *op);

/* Locks the context of a thread if it still runs that job under that lease; else returns NULL. An
 * op may complete after the thread has started another job. */
struct bide_context *bi_background_lock_running(struct worker_thread *thread, uint64_t id,
                                                uint64_t token);

void bi_heartbeat_complete(struct background *background, int64_t now);
int64_t bi_heartbeat_run(struct background *background, int64_t now);

void bi_subscriber_complete(struct background *background, int64_t now);
int64_t bi_subscriber_run(struct background *background, int64_t now);
void bi_subscriber_stop(struct background *background);

void bi_syncer_complete(struct background *background, int64_t now);
int64_t bi_syncer_run(struct background *background, int64_t now);
/* Abandons all acks that are not in flight; true: some are. */
bool bi_syncer_abandon(struct background *background);

#endif
