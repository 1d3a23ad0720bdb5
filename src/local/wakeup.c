/* SPDX-License-Identifier: MIT */
#include "local/local_internal.h"

#include "util/thread.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

void bi_wakeup_clear(struct bi_wakeup *wakeup)
{
    memset(wakeup, 0, sizeof(*wakeup));
    wakeup->boot_fd = wakeup->wall_fd = wakeup->notify_fd = -1;
    wakeup->boot_at = wakeup->wall_at = INT64_MAX;
}

bool bi_wakeup_init(struct bi_wakeup *wakeup, int64_t min, int64_t max)
{
    assert(min >= 0 && max >= 0);
    bi_wakeup_clear(wakeup);
    wakeup->min = min;
    wakeup->max = max;
    wakeup->boot_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    wakeup->wall_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    wakeup->notify_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wakeup->boot_fd >= 0 && wakeup->wall_fd >= 0 && wakeup->notify_fd >= 0;
}

void bi_wakeup_done(struct bi_wakeup *wakeup)
{
    const int fds[] = {wakeup->boot_fd, wakeup->wall_fd, wakeup->notify_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void set_timer(int fd, int flags, int64_t at)
{
    /* A time of 0 would disarm the timer. One in the past fires at once. */
    if (at < 1)
        at = 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (at % 1000000) * 1000}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &when, NULL);
}

void bi_wakeup_arm_exact(struct bi_wakeup *wakeup, int64_t boot)
{
    /* One system call only if the time is earlier: most calls find a timer that is armed
     * already. */
    if (boot >= wakeup->boot_at)
        return;
    wakeup->boot_at = boot;
    set_timer(wakeup->boot_fd, 0, boot);
}

void bi_wakeup_arm(struct bi_wakeup *wakeup, int64_t boot, int64_t wall)
{
    bi_wakeup_arm_exact(wakeup, boot < wakeup->boot_not_before ? wakeup->boot_not_before : boot);

    if (wall < wakeup->wall_not_before)
        wall = wakeup->wall_not_before;
    if (wall < wakeup->wall_at) {
        wakeup->wall_at = wall;
        /* Setting the wall clock forwards makes deadlines due: the timer is then cancelled, which
         * wakes the thread. */
        set_timer(wakeup->wall_fd, TFD_TIMER_CANCEL_ON_SET, wall);
    }
}

void bi_wakeup_reset(struct bi_wakeup *wakeup, int64_t boot, int64_t wall)
{
    /* The timers themselves are not disarmed. A stale one costs one spurious wakeup. */
    wakeup->boot_at = wakeup->wall_at = INT64_MAX;
    wakeup->boot_not_before = wakeup->min == 0 ? 0 : boot + wakeup->min;
    wakeup->wall_not_before = wakeup->min == 0 ? 0 : wall + wakeup->min;
    if (wakeup->max != 0)
        bi_wakeup_arm(wakeup, boot + wakeup->max, INT64_MAX);
}

void bi_wakeup_notify(struct bi_wakeup *wakeup)
{
    BI_NO_CANCEL;
    uint64_t one = 1;
    ssize_t written = write(wakeup->notify_fd, &one, sizeof(one));
    (void)written; /* EAGAIN: the counter is at its maximum, so the descriptor is readable */
}

void bi_wakeup_wait(struct bi_wakeup *wakeup)
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

void bi_wakeup_sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}
