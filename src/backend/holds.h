/* SPDX-License-Identifier: MIT */
/*
 * holds - how long the lock of a queue is held; only in builds with -Dlock_stats=true.
 *
 * The files of the local backend include this through inside.h; it then stands in for the calls of
 * pthread that acquire and release a mutex. A hold is measured in processor time of its thread and in
 * wall time. The former is what the code takes; the latter includes the time in which the thread was
 * preempted. When a queue is closed, the longest hold of every place since the last report is
 * appended to the file that the environment variable BIDE_LOCK_STATS names, if it took 0.2 ms.
 *
 * Threads    Any. A thread holds one lock of a queue at a time.
 */
#ifndef BI_HOLDS_H
#define BI_HOLDS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

struct bi_hold {
    const char *from; /* the function that acquired the lock, */
    const char *to;   /* the one that released it, */
    const char *op;   /* and the last op that ran in between; NULL: none */
    int64_t cpu_ns;   /* the longest hold there, in processor time */
    int64_t wall_ns;  /* and in wall time */
    uint64_t count;
};

int bi_holds_lock(pthread_mutex_t *mutex, const char *place);
int bi_holds_trylock(pthread_mutex_t *mutex, const char *place);
int bi_holds_timedlock(pthread_mutex_t *mutex, const struct timespec *until, const char *place);
int bi_holds_unlock(pthread_mutex_t *mutex, const char *place);
int bi_holds_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const char *place);
int bi_holds_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until, const char *place);

/* Names the caller of a function that acquires or releases the lock on its behalf. */
void bi_holds_caller(const char *place);
/* Names the op that runs. */
void bi_holds_op(const char *name);

/* The place of the longest hold by processor time since the last reset. */
struct bi_hold bi_holds_longest(void);
void bi_holds_reset(void);
/* Appends the longest hold of every place to the file, and forgets them. */
void bi_holds_report(void);

#endif
