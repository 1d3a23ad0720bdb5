/* SPDX-License-Identifier: MIT */
/*
 * rollback - undoes a failed commit.
 *
 * All changes that are not durable are rolled back in the core, and the ops that depend on them
 * fail. Both run in slices, because the number of uncommitted changes is not bounded. Other threads
 * get the lock between two slices, but then the core is in an intermediate state: what it would
 * reply is neither what was stored nor what was acknowledged to a client. So an op that is
 * submitted meanwhile waits here. After the rollback the timer thread runs the waiting ops in
 * order, in slices, too; ops that are submitted before the last one has run queue behind them.
 * Commits do not wait for the end of that, because new ops may follow without end.
 *
 * Threads    The thread that owns `committing` rolls back, so there is one rollback at a time.
 *            bi_local_lock() waits until it has finished. A thread that must not wait calls
 *            bi_local_lock_during_rollback(). While rollback.running is set it may only cancel ops,
 *            enqueue new ones here, and read the counters that bi_journal_rollback() names.
 */
#include "local/local_internal.h"
#include "util/clock.h"

#include <assert.h>

/* Steps of one slice of the rollback. The other slices end by time, because one op may carry a
 * thousand jobs. */
#define SLICE_STEPS 500
#define SLICE_US    1000

/* ---- ops that are submitted meanwhile ---- */

bool bi_rollback_must_wait(const struct local *local)
{
    /* Also after the rollback while ops are left: a new op must not overtake them. */
    return local->rollback.running || local->rollback.waiting.head != NULL;
}

int bi_rollback_enqueue(struct local *local, bide_op *op)
{
    assert(bi_rollback_must_wait(local));
    /* The op counts as pending from now on, so bi_rollback_run_waiting() need not throttle it. */
    int code = bi_local_backlog_add(
        local, op,
        "a failed commit is being undone, and the op names no completion queue; try again");
    if (code == BIDE_PENDING)
        bi_op_fifo_push(&local->rollback.waiting, op);
    return code;
}

bool bi_rollback_run_waiting(struct local *local)
{
    struct rollback *rollback = &local->rollback;
    int64_t until = bi_clock_boot() + SLICE_US;

    while (rollback->waiting.head != NULL) {
        bide_op *op = bi_op_fifo_pop(&rollback->waiting);
        bi_op_count_remove(&local->backlog, op);
        /* The checks are repeated: the store may be in doubt, full or diverged since the op was
         * enqueued. */
        bi_local_resubmit(local, op);
        if (bi_clock_boot() >= until)
            break;
    }

    return rollback->waiting.head != NULL;
}

/* ---- slices ---- */

/* Lets other threads have the lock. It is held at the call and at the return. */
static void yield_lock(struct local *local)
{
    bi_local_unlock(local);
    bi_local_lock_during_rollback(local);
}

/* Each returns true if there is more to do. */
typedef bool (*fail_slice_fn)(struct local *local, int code, const char *error, int64_t until);
static const fail_slice_fn fail_slices[] = {bi_sliced_op_fail, bi_body_reader_fail,
                                            bi_commit_fail_held};

/* Fails all ops that depend on changes which are not durable. */
static void fail_all(struct local *local, int code, const char *error)
{
    assert(local->rollback.running && local->rollback.sliced.head == NULL);
    /* Move both lists aside. The slices below put back the ops that may continue, and must not see
     * those again. */
    local->rollback.sliced = bi_op_fifo_take(&local->sliced);
    local->rollback.awaiting_body = bi_op_fifo_take(&local->awaiting_body);

    int64_t until = bi_clock_boot() + SLICE_US;
    for (size_t i = 0; i < sizeof(fail_slices) / sizeof(fail_slices[0]); i++)
        while (fail_slices[i](local, code, error, until)) {
            yield_lock(local);
            until = bi_clock_boot() + SLICE_US;
        }

    /* The rollback has put jobs back, for which ops may wait in the core. */
    bi_core_serve(local->core, bi_local_now(local));
}

void bi_rollback_run(struct local *local, bool roll_back, int code, const char *error)
{
    struct rollback *rollback = &local->rollback;
    assert(local->committing && !rollback->running);

    rollback->running = true;
    while (roll_back && bi_journal_rollback(local->core, bi_local_now(local), SLICE_STEPS))
        yield_lock(local);
    fail_all(local, code, error);

    assert(rollback->sliced.head == NULL && rollback->awaiting_body.head == NULL);
    rollback->running = false;
    pthread_cond_broadcast(&rollback->finished);
    if (local->blocked_callers > 0)
        pthread_cond_broadcast(&local->below_limit);
    /* The timer thread runs the waiting ops, and the next deadline may have changed. */
    bi_timer_thread_notify(&local->wakeup);
}
