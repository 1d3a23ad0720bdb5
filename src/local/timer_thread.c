/* SPDX-License-Identifier: MIT */
/*
 * timer_thread - fires due deadlines, and sleeps until the next one: the timerfds of both clocks,
 * and what happens when the wall clock is set.
 *
 * The thread also continues the ops that wait for it: sliced ops (sliced_op.c), and those that
 * waited for a rollback. Deadlines wait for nothing: leases, delays and timeouts fire regardless of
 * the commit backlog.
 */
#include "local/local_internal.h"
#include "util/thread.h"

#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

/* Events that one tick fires before the lock is yielded. */
#define TICK_BUDGET 512
/* The work (bi_core_work()) of ops of one list before the lock is yielded. */
#define YIELD_WORK 20000
/* The pause after a slice of a check, which is less urgent than a kick. It leaves about half of the
 * lock's time to other threads. */
#define CHECK_PAUSE_NS 100000

/* ---- sleeping ---- */

void bi_timer_thread_clear_wakeup(struct wakeup *wakeup)
{
    memset(wakeup, 0, sizeof(*wakeup));
    wakeup->boot_fd = wakeup->wall_fd = wakeup->notify_fd = -1;
    wakeup->boot_at = wakeup->wall_at = INT64_MAX;
}

bool bi_timer_thread_open_wakeup(struct wakeup *wakeup, int64_t min, int64_t max)
{
    assert(min >= 0 && max >= 0);
    bi_timer_thread_clear_wakeup(wakeup);
    wakeup->min = min;
    wakeup->max = max;
    wakeup->boot_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    wakeup->wall_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    wakeup->notify_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wakeup->boot_fd >= 0 && wakeup->wall_fd >= 0 && wakeup->notify_fd >= 0;
}

void bi_timer_thread_close_wakeup(struct wakeup *wakeup)
{
    const int fds[] = {wakeup->boot_fd, wakeup->wall_fd, wakeup->notify_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void set_timer(int fd, int flags, int64_t at)
{
    assert(fd >= 0);
    /* A time of 0 would disarm the timer. One in the past fires at once. */
    if (at < 1)
        at = 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (at % 1000000) * 1000}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &when, NULL);
}

void bi_timer_thread_arm_exact(struct wakeup *wakeup, int64_t boot)
{
    /* One system call only if the time is earlier: most calls find a timer that is armed
     * already. */
    if (boot >= wakeup->boot_at)
        return;
    wakeup->boot_at = boot;
    set_timer(wakeup->boot_fd, 0, boot);
}

void bi_timer_thread_arm(struct wakeup *wakeup, int64_t boot, int64_t wall)
{
    bi_timer_thread_arm_exact(wakeup,
                              boot < wakeup->boot_not_before ? wakeup->boot_not_before : boot);

    if (wall < wakeup->wall_not_before)
        wall = wakeup->wall_not_before;
    if (wall < wakeup->wall_at) {
        wakeup->wall_at = wall;
        /* Setting the wall clock forwards makes deadlines due: the timer is then cancelled, which
         * wakes the thread. */
        set_timer(wakeup->wall_fd, TFD_TIMER_CANCEL_ON_SET, wall);
    }
}

void bi_timer_thread_reset_wakeup(struct wakeup *wakeup, int64_t boot, int64_t wall)
{
    /* The timers themselves are not disarmed. A stale one costs one spurious wakeup. */
    wakeup->boot_at = wakeup->wall_at = INT64_MAX;
    wakeup->boot_not_before = wakeup->min == 0 ? 0 : boot + wakeup->min;
    wakeup->wall_not_before = wakeup->min == 0 ? 0 : wall + wakeup->min;
    if (wakeup->max != 0)
        bi_timer_thread_arm(wakeup, boot + wakeup->max, INT64_MAX);
}

void bi_timer_thread_notify(struct wakeup *wakeup)
{
    BI_NO_CANCEL;
    uint64_t one = 1;
    ssize_t written = write(wakeup->notify_fd, &one, sizeof(one));
    (void)written; /* EAGAIN: the counter is at its maximum, so the descriptor is readable */
}

void bi_timer_thread_sleep(struct wakeup *wakeup)
{
    assert(wakeup->boot_fd >= 0 && wakeup->wall_fd >= 0 && wakeup->notify_fd >= 0);
    struct pollfd fds[3] = {{.fd = wakeup->boot_fd, .events = POLLIN},
                            {.fd = wakeup->wall_fd, .events = POLLIN},
                            {.fd = wakeup->notify_fd, .events = POLLIN}};

    if (poll(fds, 3, -1) <= 0)
        return;

    for (int i = 0; i < 3; i++) {
        uint64_t count;
        if (fds[i].revents != 0 && read(fds[i].fd, &count, sizeof(count)) < 0)
            continue; /* ECANCELED: the wall clock was set, and to be awake is enough */
    }
}

/* ---- deadlines ---- */

bool bi_timer_thread_tick(struct local *local, struct bi_now now)
{
    return bi_core_tick(local->core, now, TICK_BUDGET);
}

void bi_timer_thread_yield_lock(struct local *local, uint64_t *work, struct bi_now *now)
{
    assert(bi_core_work(local->core) >= *work);
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
        more |= bi_sliced_op_run(local, now);
        more |= bi_rollback_run_waiting(local);

        bool is_check = bi_core_is_checking(local->core, local->sliced.head);
        /* Reset before the timers are armed: from now on a caller with an earlier deadline arms the
         * timerfd itself and need not wake this thread. */
        bi_timer_thread_reset_wakeup(&local->wakeup, now.mono, now.wall);
        bi_local_wake_threads(local);
        bi_local_unlock(local);

        if (more && is_check)
            nanosleep(&(struct timespec){.tv_nsec = CHECK_PAUSE_NS}, NULL);
        else if (more)
            sched_yield();
        else
            bi_timer_thread_sleep(&local->wakeup);
    }

    /* The queue closes: this rejects the ops that wait for a rollback. */
    while (bi_rollback_run_waiting(local)) {
        bi_local_unlock(local);
        bi_local_lock(local);
    }
    bi_local_unlock(local);
    return NULL;
}
