/* SPDX-License-Identifier: MIT */
/*
 * alarm - how the timer thread sleeps: until a moment of either clock, or until it is rung.
 *
 * Two timerfds, one on the boot-time clock and one on the wall clock that also wakes when the
 * clock is set, and an eventfd. A caller that brings a nearer deadline sets the timer itself; the
 * sleeping thread need not be woken for that.
 *
 * Threads    set, rearm and ring under the queue's lock (ring also without it); wait is the timer
 *            thread's.
 */
#ifndef BI_ALARM_H
#define BI_ALARM_H

#include <stdbool.h>
#include <stdint.h>

struct bi_alarm {
    int boot_fd, wall_fd, ring_fd;
    int64_t boot_at, wall_at; /* what the timers are set to; INT64_MAX: not set */
    int64_t min, max;         /* sleep at least, at most (0: no limit), us */
    int64_t boot_not_before;  /* the end of the shortest sleep, on both clocks */
    int64_t wall_not_before;
};

/* Marks it as not made, for bi_alarm_done(). */
void bi_alarm_clear(struct bi_alarm *alarm);
bool bi_alarm_init(struct bi_alarm *alarm, int64_t min, int64_t max);
void bi_alarm_done(struct bi_alarm *alarm);

/* Wakes the sleeper at these moments, if it would not wake earlier anyway, and not before the
 * shortest sleep is over. */
void bi_alarm_set(struct bi_alarm *alarm, int64_t boot, int64_t wall);

/* Wakes the sleeper at a moment of the boot-time clock, however short its sleep. */
void bi_alarm_set_exact(struct bi_alarm *alarm, int64_t boot);

/* The timer thread is awake: whatever was set counts no more. */
void bi_alarm_rearm(struct bi_alarm *alarm, int64_t boot, int64_t wall);

/* Wakes the sleeper now. */
void bi_alarm_ring(struct bi_alarm *alarm);

/* Sleeps until a timer fires, the wall clock is set, or it is rung. */
void bi_alarm_wait(struct bi_alarm *alarm);

/* Sleeps that long. */
void bi_alarm_sleep(int ms);

#endif
