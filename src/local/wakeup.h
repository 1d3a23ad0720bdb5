/* SPDX-License-Identifier: MIT */
/*
 * wakeup - the sleep of the timer thread: until a time of either clock, or until it is notified.
 *
 * It consists of two timerfds and an eventfd. One timer is on the boot-time clock, the other on the
 * wall clock; the latter also wakes when the wall clock is set. A caller that brings an earlier
 * deadline arms the timer itself, without waking the thread.
 *
 * Threads    arm, arm_exact and reset are called under the queue's lock, notify with or without
 *            it, wait by the timer thread only.
 */
#ifndef BI_WAKEUP_H
#define BI_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

struct bi_wakeup {
    int boot_fd, wall_fd, notify_fd;
    int64_t boot_at, wall_at; /* when the timers fire; INT64_MAX: not armed */
    int64_t min, max;         /* the shortest and longest sleep (0: no limit), us */
    int64_t boot_not_before;  /* the end of the shortest sleep, on both clocks */
    int64_t wall_not_before;
};

/* Initializes without descriptors, so that bi_wakeup_done() is safe before bi_wakeup_init(). */
void bi_wakeup_clear(struct bi_wakeup *wakeup);
/* False on failure, with errno set. bi_wakeup_done() closes what was opened. */
bool bi_wakeup_init(struct bi_wakeup *wakeup, int64_t min, int64_t max);
void bi_wakeup_done(struct bi_wakeup *wakeup);

/* Wakes the thread at these times, unless it wakes earlier anyway, but not before the shortest
 * sleep is over. */
void bi_wakeup_arm(struct bi_wakeup *wakeup, int64_t boot, int64_t wall);

/* Wakes the thread at a time of the boot-time clock, regardless of the shortest sleep. */
void bi_wakeup_arm_exact(struct bi_wakeup *wakeup, int64_t boot);

/* Forgets the armed times, because the timer thread is awake, and begins a new shortest sleep. */
void bi_wakeup_reset(struct bi_wakeup *wakeup, int64_t boot, int64_t wall);

/* Wakes the thread now. If it is awake, its next wait returns at once. */
void bi_wakeup_notify(struct bi_wakeup *wakeup);

/* Sleeps until a timer fires, the wall clock is set, or the thread is notified. */
void bi_wakeup_wait(struct bi_wakeup *wakeup);

void bi_wakeup_sleep_ms(int ms);

#endif
