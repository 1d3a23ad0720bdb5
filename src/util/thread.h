/* SPDX-License-Identifier: MIT */
/*
 * thread - threads of the library, and conditions with a clock that nobody sets.
 */
#ifndef BI_THREAD_H
#define BI_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that takes no signals: the program's are not for threads of the library. */
bool bi_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Disables pthread_cancel() until the end of the enclosing block. Every public call that takes a
 * lock or does I/O starts with it: a thread that is unwound in the middle would leave locks taken
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

/* A condition whose timed waits take moments of bi_clock_until(). */
void bi_thread_condition(pthread_cond_t *condition);

/*
 * A thread-local variable that every call reads. The usual access from a shared library is a function
 * call; this is one instruction. It takes room of which a program has about a kilobyte for all the
 * libraries that it loads while it runs: only for variables of a few bytes.
 */
#define BI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
