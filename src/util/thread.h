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

/* A condition whose timed waits take moments of bi_clock_until(). */
void bi_thread_condition(pthread_cond_t *condition);

#endif
