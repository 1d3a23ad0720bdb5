/* SPDX-License-Identifier: MIT */
/*
 * sliced_op - long ops that are continued a slice at a time: kick, purge, and the check of a store
 * that is not persistent.
 *
 * The timer thread runs the slices, between which other threads have the lock. Slices stop when the
 * store falls behind, so that the number of uncommitted changes stays bounded.
 */
#include "local/local_internal.h"
#include "op/op_result.h"
#include "util/clock.h"

#include <assert.h>
#include <sched.h>

/* Uncommitted changes above which slices stop: other ops are held until all changes before theirs
 * are committed. */
#define SLICE_BACKLOG 2000
/* Sliced ops that are examined under one hold of the lock. */
#define SLICED_SCAN_MAX 16

bool bi_sliced_op_can_run(const struct local *local)
{
    return local->sliced.head != NULL &&
           (!local->persistent || bi_journal_backlog(local->core) <= SLICE_BACKLOG);
}

int bi_sliced_op_add(struct local *local, bide_op *op)
{
    assert((op->private_.flags & (BI_SLICING | BI_SLICING_CHECK)) != 0);
    if (bi_local_can_wait(op)) {
        bi_op_fifo_push(&local->sliced, op);
        bi_timer_thread_notify(&local->wakeup);
        return BIDE_PENDING;
    }

    /* The op cannot complete later, so the calling thread runs all slices itself. */
    int code = BI_AGAIN;
    while (code == BI_AGAIN) {
        bi_local_wake_threads(local);
        bi_local_unlock(local); /* deliver the waiting ops that the slice has served */
        sched_yield();
        bi_local_lock(local);

        if (local->closing) {
            bi_slice_abandon(local->core, op);
            return bi_local_reject(op, BIDE_CLOSED, NULL);
        }

        code = bi_core_run(local->core, op, bi_local_now(local));
    }
    return code;
}

/* Removes and returns the first sliced op that need not wait for a commit. The ops before it move
 * to the end. finish_commit() wakes the timer thread, which then examines them again. */
static bide_op *next_sliced(struct local *local)
{
    for (int i = 0; i < SLICED_SCAN_MAX; i++) {
        bide_op *op = bi_op_fifo_pop(&local->sliced);
        if (op == NULL || !bi_slice_needs_commit(local->core, op))
            return op;
        bi_op_fifo_push(&local->sliced, op);
    }
    return NULL;
}

bool bi_sliced_op_run(struct local *local, struct bi_now now)
{
    bide_op *op = bi_sliced_op_can_run(local) ? next_sliced(local) : NULL;
    if (op == NULL)
        return false;

    int code = bi_core_run(local->core, op, now);
    /* To the end of the list: sliced ops share the time round-robin. */
    if (code == BI_AGAIN)
        bi_op_fifo_push(&local->sliced, op);
    else
        bi_local_reply(local, op, code);

    return bi_sliced_op_can_run(local);
}

bool bi_sliced_op_fail(struct local *local, int code, const char *error, int64_t until)
{
    assert(local->rollback.running && code != BIDE_OK);
    bide_op *op;

    while ((op = bi_op_fifo_pop(&local->rollback.sliced)) != NULL) {
        if (bi_commit_must_hold(local, op)) {
            /* Some of its slices were rolled back. The result retains the count of what is
             * durable. */
            bi_slice_abandon(local->core, op);
            bi_slice_roll_back_count(local->core, op);
            op->private_.status = BIDE_OK;
            bi_op_result_discard(op, code, error);
            bi_op_fifo_push(&local->completed, op);
        } else {
            bi_op_fifo_push(&local->sliced, op);
        }

        if (bi_clock_boot() >= until)
            break;
    }

    return local->rollback.sliced.head != NULL;
}

void bi_sliced_op_close_all(struct local *local)
{
    assert(local->closing);
    bide_op *op;
    while ((op = bi_op_fifo_pop(&local->sliced)) != NULL) {
        bi_slice_abandon(local->core, op);
        bi_local_reply(local, op, bi_local_reject(op, BIDE_CLOSED, NULL));
    }
}
