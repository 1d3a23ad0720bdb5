/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pthread_mutex_clocklock, pthread_clockjoin_np */
#include "util/thread.h"

#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

/* The thread sanitizers of gcc 12 and clang 14 do not intercept pthread_mutex_clocklock(). */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define TELL_SANITIZER
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define TELL_SANITIZER
#endif
#ifdef TELL_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

bool bi_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;

    /* A new thread inherits the mask of its creator. Blocking in the new thread itself would
     * leave a gap in which it could take a signal. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (failed != 0)
        errno = failed;
    return failed == 0;
}

bool bi_thread_join_within(pthread_t thread, int64_t us)
{
    struct timespec end;
#ifdef TELL_SANITIZER
    /* They do not intercept pthread_clockjoin_np(); this one takes a time of the wall clock. */
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(us / 1000000) + 1;
    return pthread_timedjoin_np(thread, NULL, &end) == 0;
#else
    bi_clock_mono_deadline(&end, us < 0 ? 0 : us);
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) == 0;
#endif
}

bool bi_thread_lock_within(pthread_mutex_t *lock, int64_t us)
{
    struct timespec end;
    bi_clock_mono_deadline(&end, us);
#ifdef TELL_SANITIZER
    __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
#endif
    bool locked = pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &end) == 0;
#ifdef TELL_SANITIZER
    __tsan_mutex_post_lock(lock,
                           __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed), 0);
#endif
    return locked;
}

void bi_thread_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void bi_thread_sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}
