/* SPDX-License-Identifier: MIT */
/*
 * thread - threads of the library, thread cancellation, and timed waits on the monotonic clock.
 */
#ifndef BI_THREAD_H
#define BI_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread with all signals blocked: the signals of the program are not for threads of
 * the library. False: errno has the cause. */
bool bi_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Disables pthread_cancel() until the end of the enclosing block. Every public call that takes a
 * lock or does I/O starts with it: a thread that is unwound in the middle would leave locks held
 * and its ops, which are on its stack, linked.
 */
#define BI_NO_CANCEL                                                               \
    int cancel_state_ __attribute__((cleanup(bi_thread_restore_cancel), unused)) = \
        bi_thread_disable_cancel()

static inline int bi_thread_disable_cancel(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void bi_thread_restore_cancel(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

void bi_thread_sleep_ms(int ms);

/* Joins a thread that ends within this time. False: it has not ended, and is still to be joined. */
bool bi_thread_join_within(pthread_t thread, int64_t us);

/* Waits for a mutex at most this long; a step of the wall clock does not matter. True: locked. */
bool bi_thread_lock_within(pthread_mutex_t *lock, int64_t us);

/* Initializes a condition whose timed waits take deadlines of bi_clock_mono_deadline(). */
void bi_thread_cond_init(pthread_cond_t *condition);

/* A thread-local variable that every call reads. The default access from a shared library is a
 * function call; this is one instruction. It uses static TLS space, of which a program has
 * about a kilobyte for all libraries that it loads at run time: only for variables of a few
 * bytes. */
#define BI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
