/* SPDX-License-Identifier: MIT */
/*
 * ticking - the timer thread: fires what is due, and carries on with kick, purge and check, and with ops
 * that waited for a failed commit to be undone, a slice at a time.
 *
 * Time waits for nothing: leases, delays and timeouts fire however much waits to be stored. Slices
 * wait when the store falls behind, so that what is not stored yet stays bounded.
 */
#include "backend/answer.h"
#include "backend/inside.h"
#include "util/clock.h"

#include <sched.h>
#include <time.h>

/* Events that one tick fires before others get the lock. */
#define TICK_BUDGET 512
/* What ops of a list look at (bi_core_work()) before others get the lock. */
#define SHARE_WORK 20000
/* The pause after a slice of a check, which is less urgent than a kick: half of the lock's time is
 * for others. */
#define CHECK_REST_NS 100000
/* Changes that may wait to be stored before slices wait, too: the answers of other calls wait for all
 * of them. */
#define SLICE_BACKLOG 2000

bool bi_ticking_may_slice(const struct local *local)
{
    return local->sliced.head != NULL &&
           (!local->keeps || bi_core_backlog(local->core) <= SLICE_BACKLOG);
}

bool bi_ticking_tick(struct local *local, struct bi_now now)
{
    return bi_core_tick(local->core, now, TICK_BUDGET);
}

void bi_ticking_share(struct local *local, uint64_t *work, struct bi_now *now)
{
    if (bi_core_work(local->core) - *work < SHARE_WORK)
        return;
    bi_local_look_ahead(local);
    bi_local_unlock(local);
    bi_local_acquire(local);
    *now = bi_local_clocks(local);
    if (!local->undoing.running)
        bi_ticking_tick(local, *now);
    *work = bi_core_work(local->core);
}

/* ---- sliced ops ---- */

int bi_ticking_slices(struct local *local, bide_op *op)
{
    if (bi_local_can_wait(op)) {
        list_add(&local->sliced, op);
        bi_alarm_ring(&local->alarm);
        return BIDE_PENDING;
    }
    int code = BI_AGAIN;
    while (code == BI_AGAIN) {
        pthread_mutex_unlock(&local->lock);
        sched_yield();
        bi_local_lock(local);
        if (local->closing) {
            bi_core_abandon(local->core, op);
            return bi_local_refuse(op, BIDE_CLOSED, NULL);
        }
        code = bi_core_run(local->core, op, bi_local_clocks(local));
    }
    return code;
}

/* Sliced ops that are looked at before others get the lock. */
#define SLICED_LOOKED_AT 16

/* The first sliced op that need not wait for a commit, taken out of the list. Those before it go to
 * the end: after each commit the timer thread is woken to look again. */
static bide_op *next_sliced(struct local *local)
{
    for (int i = 0; i < SLICED_LOOKED_AT; i++) {
        bide_op *op = list_pop(&local->sliced);
        if (op == NULL || !bi_core_waits_for_commit(local->core, op))
            return op;
        list_add(&local->sliced, op);
    }
    return NULL;
}

/* One slice of a sliced op; true if there is more to do. */
static bool run_a_slice(struct local *local, struct bi_now now)
{
    bide_op *op = bi_ticking_may_slice(local) ? next_sliced(local) : NULL;
    if (op == NULL)
        return false;
    int code = bi_core_run(local->core, op, now);
    if (code == BI_AGAIN)
        list_add(&local->sliced, op);
    else
        bi_local_answer(local, op, code);
    return bi_ticking_may_slice(local);
}

bool bi_ticking_fail(struct local *local, int code, const char *error, int64_t until)
{
    bide_op *op;
    while ((op = list_pop(&local->undoing.sliced)) != NULL) {
        if (bi_commit_must_hold(local, op)) {
            bi_core_abandon(local->core, op);
            bi_core_uncount(local->core, op);
            op->private_.status = BIDE_OK;
            bi_answer_take_back(op, code, error);
            list_add(&local->completed, op);
        } else {
            list_add(&local->sliced, op);
        }
        if (bi_clock_boot() >= until)
            break;
    }
    return local->undoing.sliced.head != NULL;
}

void bi_ticking_end(struct local *local)
{
    bide_op *op;
    while ((op = list_pop(&local->sliced)) != NULL) {
        bi_core_abandon(local->core, op);
        bi_local_answer(local, op, bi_local_refuse(op, BIDE_CLOSED, NULL));
    }
}

/* ---- the thread ---- */

/* The queue closes. The lock is held at the call, and not at the return. */
static void end(struct local *local)
{
    while (bi_undoing_run_waiting(local)) {
        bi_local_unlock(local);
        bi_local_lock(local);
    }
    bi_local_unlock(local);
}

void *bi_ticking_run(void *arg)
{
    struct local *local = arg;
    for (;;) {
        bi_local_lock(local);
        if (local->closing) {
            end(local);
            return NULL;
        }
        struct bi_now now = bi_local_clocks(local);
        bool more = bi_ticking_tick(local, now);
        more |= run_a_slice(local, now);
        more |= bi_undoing_run_waiting(local);
        bool checks = bi_core_is_checking(local->core, local->sliced.head);
        bi_alarm_rearm(&local->alarm, now.mono, now.wall);
        bi_local_look_ahead(local);
        bi_local_unlock(local);
        if (more && checks)
            nanosleep(&(struct timespec){.tv_nsec = CHECK_REST_NS}, NULL);
        else if (more)
            sched_yield();
        else
            bi_alarm_wait(&local->alarm);
    }
}
