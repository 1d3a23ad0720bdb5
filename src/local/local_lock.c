/* SPDX-License-Identifier: MIT */
#include "local/local_internal.h"

#include "op/op_args.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

/* A thread that has waited this long for the lock is starving. */
#define STARVING_US 1000

/* ---- clocks ---- */

/* True if a measured offset between the clocks confirms the one in use. */
static bool retains_offset(const struct local *local, int64_t measured)
{
    return measured >= local->wall_offset && measured < local->wall_offset + 100;
}

/*
 * Reads both clocks. The wall time is the boot time plus an offset. The offset is checked every
 * millisecond and retained while it is at most 0.1 ms behind and not ahead. So a deadline that is
 * converted twice gives the same wall time, although the two clocks cannot be read at once.
 */
struct bi_now bi_local_now(struct local *local)
{
    int64_t boot = bi_clock_boot();

    if (boot - local->wall_offset_at >= 1000) {
        /* Read the boot-time clock last: after a preemption in between the wall time lags and never
         * leads, so no deadline fires too early. A new offset is measured twice: the larger one
         * is closer to the truth, and most preemptions do not count as a clock that was set. */
        int64_t offset = INT64_MIN;
        for (int i = 0; i < 2 && !retains_offset(local, offset); i++) {
            int64_t wall = bi_clock_wall();
            boot = bi_clock_boot();
            if (wall - boot > offset)
                offset = wall - boot;
        }

        if (!retains_offset(local, offset))
            local->wall_offset = offset;
        local->wall_offset_at = boot;
    }

    return (struct bi_now){boot, boot + local->wall_offset};
}

/* ---- the lock ---- */

/*
 * A mutex is fast because it is unfair: a running thread acquires it before a sleeping one is
 * awake. But one thread in a loop can keep another out for seconds. So a thread that has waited for
 * STARVING_US counts as starving, and while there is one, all threads queue at the turnstile, and
 * only one at a time competes for the lock.
 */
void(bi_local_lock_during_rollback)(struct local *local)
{
    /* A relaxed load suffices: a stale value costs one timed wait, not correctness. */
    if (atomic_load_explicit(&local->starving, memory_order_relaxed) == 0) {
        if (pthread_mutex_trylock(&local->lock) == 0)
            return;
        if (bi_thread_lock_within(&local->lock, STARVING_US))
            return;
    }

    /* Count before the turnstile, so that threads which come now queue behind this one. Release the
     * turnstile only with the lock held: the next thread then waits for the lock alone. */
    atomic_fetch_add(&local->starving, 1);
    pthread_mutex_lock(&local->turnstile);
    pthread_mutex_lock(&local->lock);
    pthread_mutex_unlock(&local->turnstile);
    atomic_fetch_sub(&local->starving, 1);
}

void(bi_local_lock)(struct local *local)
{
    (bi_local_lock_during_rollback)(local);
    while (local->rollback.running)
        pthread_cond_wait(&local->rollback.finished, &local->lock);
}

void(bi_local_unlock)(struct local *local)
{
    struct op_fifo completed = bi_op_fifo_take(&local->completed);

    /* The application gets its own arguments back; the copies are freed. */
    if (local->args_dups > 0)
        for (bide_op *op = completed.head; op != NULL; op = op->private_.next)
            local->args_dups -= bi_op_args_dup_restore(op);
    assert(local->args_dups <= INT32_MAX); /* no op was counted out twice */

    struct bi_alloc_deferred freed = bi_alloc_deferred_take(&local->freed);
    pthread_mutex_unlock(&local->lock);

    /* Without the lock: completion wakes threads and may call back into the queue, and freeing many
     * pages takes long. */
    if (completed.head != NULL)
        local->context.complete(completed.head);
    if (freed.first != NULL)
        bi_alloc_deferred_free(freed);
}

void(bi_local_yield)(struct local *local)
{
    bi_local_wake_threads(local);
    bi_local_unlock(local);
    bi_local_lock(local);
}

void(bi_local_wait_until)(struct local *local, pthread_cond_t *condition, int64_t at)
{
    if (at == BI_NEVER) {
        pthread_cond_wait(condition, &local->lock);
        return;
    }

    struct timespec until;
    int64_t us = at - bi_clock_boot();
    bi_clock_mono_deadline(&until, us < 0 ? 0 : us);
    pthread_cond_timedwait(condition, &local->lock, &until);
}

void(bi_local_pause)(struct local *local, pthread_cond_t *condition, const bool *finished, int ms)
{
    struct timespec until;
    bi_clock_mono_deadline(&until, (int64_t)ms * 1000);

    /* The condition is also signalled when there is other work. */
    while (!*finished && pthread_cond_timedwait(condition, &local->lock, &until) != ETIMEDOUT)
        continue;
}

/* ---- turns ---- */

/*
 * Two threads that submit without a pause move the lock, and with it every cache line of the core,
 * from one processor to the other at each call. Both together are then much slower than one alone.
 * So, when the lock is seen to be contended, the threads take turns: the owner submits at full
 * speed, and the others sleep until its turn is over or it stops submitting.
 *
 * Turns are for a queue in memory only: on a file, callers wait for commits, not for the lock. The
 * relaxed atomics are hints; the mutex alone excludes threads.
 */

/* The length of a turn: other threads wait at most this long for each turn before theirs. */
#define TURN_US 200
/* An owner whose last call ended longer ago than this is busy elsewhere and loses its turn. The end
 * of a call is estimated from the number of its ops. */
#define IDLE_US    1
#define OPS_PER_US 4
/* Turns begin after this many contended changes of the owner, each within CONTENTION_GAP_US of the
 * one before, and apply for CONTENTION_US. */
#define CONTENTION_COUNT  8
#define CONTENTION_GAP_US 100
#define CONTENTION_US     10000
/* The number of turns that a caller waits for before it takes the lock regardless. */
#define TURNS_MAX 4

/* Its address identifies the thread. */
static BI_THREAD_LOCAL char this_thread;

static bool owns_turn(const struct turns *turns)
{
    return atomic_load_explicit(&turns->owner, memory_order_relaxed) == &this_thread;
}

/* Sleeps while another thread has the turn. Without the lock. */
static void wait_for_turn(const struct turns *turns)
{
    if (atomic_load_explicit(&turns->contended_until, memory_order_relaxed) == 0)
        return;

    BI_NO_CANCEL;
    for (int i = 0; i < TURNS_MAX; i++) {
        int64_t now = bi_clock_boot();
        int64_t left = atomic_load_explicit(&turns->since, memory_order_relaxed) + TURN_US - now;
        if (left <= 0 ||
            now >= atomic_load_explicit(&turns->contended_until, memory_order_relaxed) ||
            now - atomic_load_explicit(&turns->last_call, memory_order_relaxed) > IDLE_US)
            return;

        nanosleep(&(struct timespec){.tv_nsec = left * 1000}, NULL);
    }
}

/* The calling thread becomes the owner of the turn. The lock is held. */
static void begin_turn(struct turns *turns, bool contended, int64_t now)
{
    atomic_store_explicit(&turns->owner, &this_thread, memory_order_relaxed);
    atomic_store_explicit(&turns->since, now, memory_order_relaxed);
    if (!contended)
        return;

    turns->contended = now - turns->contended_at < CONTENTION_GAP_US ? turns->contended + 1 : 1;
    turns->contended_at = now;
    assert(turns->contended > 0);
    if (turns->contended >= CONTENTION_COUNT)
        atomic_store_explicit(&turns->contended_until, now + CONTENTION_US, memory_order_relaxed);
}

struct bi_now bi_local_lock_for_submit(struct local *local, size_t n)
{
    struct turns *turns = &local->turns;

    if (local->persistent) {
        bi_local_lock_during_rollback(local);
        return bi_local_now(local);
    }

    if (!owns_turn(turns))
        wait_for_turn(turns);

    bool contended = atomic_load_explicit(&local->starving, memory_order_relaxed) != 0 ||
                     pthread_mutex_trylock(&local->lock) != 0;
    if (contended) {
        if (!owns_turn(turns))
            wait_for_turn(turns); /* another thread has just begun a turn */
        bi_local_lock(local);
    }

    struct bi_now now = bi_local_now(local);
    if (!owns_turn(turns))
        begin_turn(turns, contended, now.mono);

    /* The expected end of the call, because an op takes a fraction of a microsecond. */
    int64_t end = now.mono + (int64_t)(n / OPS_PER_US);
    atomic_store_explicit(&turns->last_call, end, memory_order_relaxed);

    return now;
}
