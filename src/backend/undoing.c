/* SPDX-License-Identifier: MIT */
/*
 * undoing - a failed commit is undone.
 *
 * Everything that is not stored is rolled back in the core, and the held answers become the error. Both
 * go in slices, because there is no bound to what may wait to be stored. Between two slices other
 * threads get the lock, but the core is between two states: what it would answer is neither what was
 * stored nor what was acknowledged to a client. So an op that comes meanwhile waits here. When all is
 * undone these ops are run in the order in which they came, in slices, too; one that comes while others
 * still wait goes behind them. There may be no end of these, so commits do not wait for it.
 *
 * Threads    The thread that undoes is the one that made the commit, so there is one at a time.
 *            bi_local_lock() waits until it is done. A thread that must not wait calls
 *            bi_local_acquire(), and while undoing.running is set it may only cancel ops and have new
 *            ones wait. The timer thread runs those that have waited.
 */
#include "backend/inside.h"
#include "util/clock.h"

#include <assert.h>

/* Steps of a rollback in one slice, and how long the other slices take: one op in them may bring a
 * thousand jobs. */
#define SLICE_STEPS 500
#define SLICE_US    1000

/* ---- ops that come meanwhile ---- */

bool bi_undoing_must_wait(const struct local *local)
{
    return local->undoing.running || local->undoing.waiting.head != NULL;
}

/* Those that wait find room when they are run: they count with the held ones. */
int bi_undoing_wait(struct local *local, bide_op *op)
{
    int code = bi_local_backlog_add(
        local, op,
        "a failed commit is being undone, and the op names no completion queue; try again");
    if (code == BIDE_PENDING)
        list_add(&local->undoing.waiting, op);
    return code;
}

bool bi_undoing_run_waiting(struct local *local)
{
    struct undoing *undoing = &local->undoing;
    int64_t until = bi_clock_boot() + SLICE_US;
    while (undoing->waiting.head != NULL) {
        bide_op *op = list_pop(&undoing->waiting);
        bi_local_backlog_remove(local, op);
        bi_local_run_late(local, op);
        if (bi_clock_boot() >= until)
            break;
    }
    return undoing->waiting.head != NULL;
}

/* ---- slices ---- */

/* Other threads get the lock. It is held at the call and at the return. */
static void give_way(struct local *local)
{
    bi_local_unlock(local);
    bi_local_acquire(local);
}

/* Each answers true if there is more to do. */
typedef bool (*fail_slice)(struct local *local, int code, const char *error, int64_t until);
static const fail_slice fails[] = {bi_ticking_fail, bi_reading_fail, bi_commit_fail_held};

/* Everything that could not be answered yet ends. */
static void fail_all(struct local *local, int code, const char *error)
{
    local->undoing.sliced = list_take(&local->sliced);
    local->undoing.lacking = list_take(&local->lacking);
    int64_t until = bi_clock_boot() + SLICE_US;
    for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++)
        while (fails[i](local, code, error, until)) {
            give_way(local);
            until = bi_clock_boot() + SLICE_US;
        }
    bi_core_serve(local->core, bi_local_clocks(local));
}

void bi_undoing_run(struct local *local, bool roll_back, int code, const char *error)
{
    struct undoing *undoing = &local->undoing;
    assert(local->committing && !undoing->running);

    undoing->running = true;
    while (roll_back && bi_core_rollback(local->core, bi_local_clocks(local), SLICE_STEPS))
        give_way(local);
    fail_all(local, code, error);

    undoing->running = false;
    pthread_cond_broadcast(&undoing->over);
    if (local->queued > 0)
        pthread_cond_broadcast(&local->room);
    bi_alarm_ring(&local->alarm); /* what is due next may have changed, and ops may have waited */
}
