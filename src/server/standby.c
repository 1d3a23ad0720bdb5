/* SPDX-License-Identifier: MIT */
#include "server/standby.h"

#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <time.h>

void bi_standby_init(struct standby *standby)
{
    pthread_mutex_init(&standby->lock, NULL);
    bi_thread_cond_init(&standby->changed);
    standby->running = standby->ended = standby->hung = false;
    atomic_init(&standby->ready, false);
    atomic_init(&standby->asleep, false);
    atomic_init(&standby->commit_at, 0);
}

void bi_standby_done(struct standby *standby)
{
    assert(!bi_standby_is_ready(standby));
    pthread_cond_destroy(&standby->changed);
    pthread_mutex_destroy(&standby->lock);
}

bool bi_standby_acquire(struct standby *standby)
{
    pthread_mutex_lock(&standby->lock);
    bool acquired = !standby->running && !standby->ended;
    standby->running = true;
    standby->hung = false;

    while (!acquired && !standby->ended) {
        atomic_store(&standby->ready, true);
        int64_t commit_at = atomic_load(&standby->commit_at);
        int64_t left_us = commit_at + BI_STANDBY_TAKEOVER_US - bi_clock_boot();

        if (commit_at == 0) {
            /* Sleep until the next commit begins. `asleep` is set before commit_at is read, and
             * begin_commit() accesses them in the reverse order: at least one of the two threads
             * sees what the other has written. */
            atomic_store(&standby->asleep, true);
            if (atomic_load(&standby->commit_at) == 0)
                pthread_cond_wait(&standby->changed, &standby->lock);
            atomic_store(&standby->asleep, false);
        } else if (left_us > 0) {
            /* Sleep until this commit counts as hung. Another one may have begun by then. */
            struct timespec until;
            bi_clock_mono_deadline(&until, left_us);
            pthread_cond_timedwait(&standby->changed, &standby->lock, &until);
        } else {
            acquired = standby->hung =
                atomic_compare_exchange_strong(&standby->commit_at, &commit_at, 0);
        }
    }

    atomic_store(&standby->ready, false);
    pthread_mutex_unlock(&standby->lock);
    return acquired;
}

int64_t bi_standby_begin_commit(struct standby *standby)
{
    int64_t now = bi_clock_boot();
    assert(atomic_load_explicit(&standby->commit_at, memory_order_relaxed) == 0);

    atomic_store(&standby->commit_at, now);
    if (atomic_load(&standby->asleep)) {
        pthread_mutex_lock(&standby->lock);
        pthread_cond_signal(&standby->changed);
        pthread_mutex_unlock(&standby->lock);
    }
    return now;
}

bool bi_standby_end_commit(struct standby *standby, int64_t commit_at)
{
    assert(commit_at != 0);

    /* After a takeover it is 0, or the later time of a commit of the other thread. */
    return atomic_compare_exchange_strong(&standby->commit_at, &commit_at, 0);
}

bool bi_standby_end(struct standby *standby)
{
    pthread_mutex_lock(&standby->lock);
    assert(standby->running && !standby->ended);
    standby->ended = true;
    bool hung = standby->hung;
    pthread_cond_signal(&standby->changed);
    pthread_mutex_unlock(&standby->lock);
    return hung;
}
