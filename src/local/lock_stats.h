/* SPDX-License-Identifier: MIT */
/*
 * lock_stats - how long the lock of a queue is held; only in builds with -Dlock_stats=true.
 *
 * The files of the local backend include this through local_internal.h. The macros at the end of
 * this file then replace the functions that acquire and release a lock. A hold is measured in
 * processor time of its thread and in wall time; the latter includes the time in which the thread
 * was preempted. When a queue is closed, the longest hold of every site since the last report is
 * appended to the file that the environment variable BIDE_LOCK_STATS names, if it took at least 0.2
 * ms. A site is the function that acquired the lock, the one that released it, and the op.
 *
 * Threads    Any. A thread holds one lock of a queue at a time.
 */
#ifndef BI_LOCK_STATS_H
#define BI_LOCK_STATS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

struct bi_lock_hold {
    const char *from; /* the function that acquired the lock, */
    const char *to;   /* the one that released it, */
    const char *op;   /* and the last op that ran in between; NULL: none */
    int64_t cpu_ns;   /* the longest hold there, in processor time */
    int64_t wall_ns;  /* and in wall time */
    uint64_t count;
};

int bi_lock_stats_lock(pthread_mutex_t *mutex, const char *site);
int bi_lock_stats_trylock(pthread_mutex_t *mutex, const char *site);
int bi_lock_stats_unlock(pthread_mutex_t *mutex, const char *site);
/* until NULL: without a time limit. */
int bi_lock_stats_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until, const char *site);

/* Sets the site of the next acquire or release, for functions that do so on behalf of a caller. */
void bi_lock_stats_caller(const char *site);
/* Sets the op of the current hold. */
void bi_lock_stats_op(const char *name);

/* The longest hold by processor time since the last reset. */
struct bi_lock_hold bi_lock_stats_longest(void);
void bi_lock_stats_reset(void);
/* Appends the longest hold of every site to the file, and resets. */
void bi_lock_stats_report(void);

/* Replaces the functions that acquire and release a lock in the files that local_internal.h is
 * included by. */
#ifdef BI_LOCAL_INTERNAL_H
#define pthread_mutex_lock(mutex)           bi_lock_stats_lock((mutex), __func__)
#define pthread_mutex_trylock(mutex)        bi_lock_stats_trylock((mutex), __func__)
#define pthread_mutex_unlock(mutex)         bi_lock_stats_unlock((mutex), __func__)
#define pthread_cond_wait(condition, mutex) bi_lock_stats_wait((condition), (mutex), NULL, __func__)
#define pthread_cond_timedwait(condition, mutex, until) \
    bi_lock_stats_wait((condition), (mutex), (until), __func__)
#define BI_AS_CALLER(call)                   (bi_lock_stats_caller(__func__), call, bi_lock_stats_caller(NULL))
#define bi_local_lock(local)                 BI_AS_CALLER((bi_local_lock)(local))
#define bi_local_lock_during_rollback(local) BI_AS_CALLER((bi_local_lock_during_rollback)(local))
#define bi_local_unlock(local)               BI_AS_CALLER((bi_local_unlock)(local))
/* As the function does: the completions in between may set another caller. */
#define bi_local_yield(local) \
    (bi_local_wake_threads(local), bi_local_unlock(local), bi_local_lock(local))
#define bi_local_wait_until(local, condition, at) \
    BI_AS_CALLER((bi_local_wait_until)((local), (condition), (at)))
#define bi_local_pause(local, condition, finished, ms) \
    BI_AS_CALLER((bi_local_pause)((local), (condition), (finished), (ms)))
#endif

#endif
