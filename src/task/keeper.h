/* SPDX-License-Identifier: MIT */
/*
 * keeper - one thread beside the slots of a worker, which does in time what handlers do not wait
 * for.
 *
 *     heartbeat    extends the leases of running jobs, and sends their progress
 *     subscriber   hears of cancels, and tells the handlers
 *     syncer       tells the queue again what it could not be told
 *     health       asks whether the queue is there
 *
 * Each has two functions: finish() looks at ops that have come back, tend() does what is due and
 * answers when it is next wanted. The keeper sleeps until the first of these times. Nothing is done
 * in the callbacks of ops, so that the user's own callbacks may make calls that wait.
 */
#ifndef BI_KEEPER_H
#define BI_KEEPER_H

#include "task/inside.h"
#include "util/clock.h"

static inline int64_t bi_sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sets what every op of the keeper's has, and hands it over. */
void bi_keeper_arm(struct keeper *keeper, bide_op *op, bide_op_kind kind);
void bi_keeper_submit(struct keeper *keeper, bide_op *op);
/* True once, when an op that is out has come back. */
bool bi_keeper_came_back(bool *out, const bide_op *op);

/* The context of a slot, if it still runs that job under that lease; then its lock is held. */
struct bide_context *bi_keeper_still_runs(struct slot *slot, uint64_t id, uint64_t token);

void bi_heartbeat_finish(struct keeper *keeper, int64_t now);
int64_t bi_heartbeat_tend(struct keeper *keeper, int64_t now);

void bi_subscriber_finish(struct keeper *keeper, int64_t now);
int64_t bi_subscriber_tend(struct keeper *keeper, int64_t now);
void bi_subscriber_stop(struct keeper *keeper);

void bi_syncer_finish(struct keeper *keeper, int64_t now);
int64_t bi_syncer_tend(struct keeper *keeper, int64_t now);
/* Gives up what is not under way; true: something is. */
bool bi_syncer_end(struct keeper *keeper);

#endif
