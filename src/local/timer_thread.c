/* SPDX-License-Identifier: MIT */
/*
 * timer_thread - fires due deadlines, and continues long ops a slice at a time: kick, purge, check
 * (of a store that is not persistent), and the ops that waited for a rollback.
 *
 * Deadlines wait for nothing: leases, delays and timeouts fire regardless of the commit backlog.
 * Slices stop when the store falls behind, so that the number of uncommitted changes stays bounded.
 */
#include "local/local_internal.h"
#include "op/op_result.h"
#include "util/clock.h"

#include <assert.h>
#include <sched.h>
#include <time.h>

/* Events that one tick fires before the lock is yielded. */
#define TICK_BUDGET 512
/* The work (bi_core_work()) of ops of one list before the lock is yielded. */
#define YIELD_WORK 20000
/* The pause after a slice of a check, which is less urgent than a kick. It leaves about half of the
 * lock's time to other threads. */
#define CHECK_PAUSE_NS 100000
/* Uncommitted changes above which slices stop: other ops are held until all changes before theirs
 * are committed. */
#define SLICE_BACKLOG 2000

bool bi_timer_thread_can_run_slice(const struct local *local)
{
    return local->sliced.head != NULL &&
           (!local->persistent || bi_journal_backlog(local->core) <= SLICE_BACKLOG);
}

bool bi_timer_thread_tick(struct local *local, struct bi_now now)
{
    return bi_core_tick(local->core, now, TICK_BUDGET);
}

void bi_timer_thread_yield_lock(struct local *local, uint64_t *work, struct bi_now *now)
{
    if (bi_core_work(local->core) - *work < YIELD_WORK)
        return;

    bi_local_wake_threads(local);
    bi_local_unlock(local);
    bi_local_lock_during_rollback(local);
    *now = bi_local_now(local);

    /* The caller queues its remaining ops if a rollback has begun meanwhile. */
    if (!local->rollback.running)
        bi_timer_thread_tick(local, *now);
    *work = bi_core_work(local->core);
}

/* ---- sliced ops ---- */

int bi_timer_thread_add_sliced(struct local *local, bide_op *op)
{
    assert((op->private_.flags & (BI_SLICING | BI_SLICING_CHECK)) != 0);
    if (bi_local_can_wait(op)) {
        bi_op_fifo_push(&local->sliced, op);
        bi_wakeup_notify(&local->wakeup);
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

/* Sliced ops that are examined under one hold of the lock. */
#define SLICED_SCAN_MAX 16

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

/* Runs one slice of a sliced op; true if there is more to do. */
static bool run_slice(struct local *local, struct bi_now now)
{
    bide_op *op = bi_timer_thread_can_run_slice(local) ? next_sliced(local) : NULL;
    if (op == NULL)
        return false;

    int code = bi_core_run(local->core, op, now);
    /* To the end of the list: sliced ops share the time round-robin. */
    if (code == BI_AGAIN)
        bi_op_fifo_push(&local->sliced, op);
    else
        bi_local_reply(local, op, code);

    return bi_timer_thread_can_run_slice(local);
}

bool bi_timer_thread_fail_sliced(struct local *local, int code, const char *error, int64_t until)
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

void bi_timer_thread_close(struct local *local)
{
    assert(local->closing);
    bide_op *op;
    while ((op = bi_op_fifo_pop(&local->sliced)) != NULL) {
        bi_slice_abandon(local->core, op);
        bi_local_reply(local, op, bi_local_reject(op, BIDE_CLOSED, NULL));
    }
}

/* ---- the thread ---- */

void *bi_timer_thread_run(void *arg)
{
    struct local *local = arg;

    for (;;) {
        bi_local_lock(local);
        if (local->closing)
            break;

        struct bi_now now = bi_local_now(local);
        bool more = bi_timer_thread_tick(local, now);
        more |= run_slice(local, now);
        more |= bi_rollback_run_waiting(local);

        bool is_check = bi_core_is_checking(local->core, local->sliced.head);
        /* Reset before the timers are armed: from now on a caller with an earlier deadline arms the
         * timerfd itself and need not wake this thread. */
        bi_wakeup_reset(&local->wakeup, now.mono, now.wall);
        bi_local_wake_threads(local);
        bi_local_unlock(local);

        if (more && is_check)
            nanosleep(&(struct timespec){.tv_nsec = CHECK_PAUSE_NS}, NULL);
        else if (more)
            sched_yield();
        else
            bi_wakeup_wait(&local->wakeup);
    }

    /* The queue closes: this rejects the ops that wait for a rollback. */
    while (bi_rollback_run_waiting(local)) {
        bi_local_unlock(local);
        bi_local_lock(local);
    }
    bi_local_unlock(local);
    return NULL;
}
