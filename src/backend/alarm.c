/* SPDX-License-Identifier: MIT */
#include "backend/alarm.h"

#include "util/thread.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

void bi_alarm_clear(struct bi_alarm *alarm)
{
    memset(alarm, 0, sizeof(*alarm));
    alarm->boot_fd = alarm->wall_fd = alarm->ring_fd = -1;
    alarm->boot_at = alarm->wall_at = INT64_MAX;
}

bool bi_alarm_init(struct bi_alarm *alarm, int64_t min, int64_t max)
{
    bi_alarm_clear(alarm);
    alarm->min = min;
    alarm->max = max;
    alarm->boot_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    alarm->wall_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    alarm->ring_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return alarm->boot_fd >= 0 && alarm->wall_fd >= 0 && alarm->ring_fd >= 0;
}

void bi_alarm_done(struct bi_alarm *alarm)
{
    const int fds[] = {alarm->boot_fd, alarm->wall_fd, alarm->ring_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A moment of 0 would disarm the timer; one in the past fires at once. */
static void set_timer(int fd, int flags, int64_t at)
{
    if (at < 1)
        at = 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (at % 1000000) * 1000}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &when, NULL);
}

void bi_alarm_set_exact(struct bi_alarm *alarm, int64_t boot)
{
    if (boot >= alarm->boot_at)
        return;
    alarm->boot_at = boot;
    set_timer(alarm->boot_fd, 0, boot);
}

void bi_alarm_set(struct bi_alarm *alarm, int64_t boot, int64_t wall)
{
    bi_alarm_set_exact(alarm, boot < alarm->boot_not_before ? alarm->boot_not_before : boot);
    if (wall < alarm->wall_not_before)
        wall = alarm->wall_not_before;
    if (wall < alarm->wall_at) {
        alarm->wall_at = wall;
        set_timer(alarm->wall_fd, TFD_TIMER_CANCEL_ON_SET, wall);
    }
}

void bi_alarm_rearm(struct bi_alarm *alarm, int64_t boot, int64_t wall)
{
    alarm->boot_at = alarm->wall_at = INT64_MAX;
    alarm->boot_not_before = alarm->min == 0 ? 0 : boot + alarm->min;
    alarm->wall_not_before = alarm->min == 0 ? 0 : wall + alarm->min;
    if (alarm->max != 0)
        bi_alarm_set(alarm, boot + alarm->max, INT64_MAX);
}

static void write_one(int fd)
{
    BI_NO_CANCEL;
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written; /* full means that it is readable, which is all that is wanted */
}

void bi_alarm_ring(struct bi_alarm *alarm)
{
    write_one(alarm->ring_fd);
}

void bi_alarm_wait(struct bi_alarm *alarm)
{
    struct pollfd fds[3] = {{.fd = alarm->boot_fd, .events = POLLIN},
                            {.fd = alarm->wall_fd, .events = POLLIN},
                            {.fd = alarm->ring_fd, .events = POLLIN}};
    if (poll(fds, 3, -1) <= 0)
        return;
    for (int i = 0; i < 3; i++) {
        uint64_t count;
        if (fds[i].revents != 0 && read(fds[i].fd, &count, sizeof(count)) < 0)
            continue; /* the wall clock was set: awake is all that is wanted */
    }
}

void bi_alarm_sleep(int ms)
{
    poll(NULL, 0, ms);
}
