/* SPDX-License-Identifier: MIT */
#include "local/lock_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITES_MAX 256
/* Shorter holds are not reported, so that the file stays below the file size limits of tests. */
#define REPORT_MIN_NS 200000

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct bi_lock_hold sites[SITES_MAX];
static size_t site_count;

/* The current hold of this thread. */
static _Thread_local struct {
    const pthread_mutex_t *mutex; /* NULL: none */
    struct bi_lock_hold hold;     /* the times are those of its start */
} current;
static _Thread_local const char *caller;

static int64_t read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- sites ---- */

/* The entry of a site. When the table is full, a new site evicts the one with the shortest hold;
 * NULL if its own hold is shorter. */
static struct bi_lock_hold *find_site(const struct bi_lock_hold *hold)
{
    struct bi_lock_hold *shortest = &sites[0];

    for (size_t i = 0; i < site_count; i++) {
        if (sites[i].from == hold->from && sites[i].to == hold->to && sites[i].op == hold->op)
            return &sites[i];
        if (sites[i].cpu_ns < shortest->cpu_ns)
            shortest = &sites[i];
    }

    struct bi_lock_hold *site = site_count < SITES_MAX            ? &sites[site_count++]
                                : hold->cpu_ns > shortest->cpu_ns ? shortest
                                                                  : NULL;
    if (site != NULL)
        *site = *hold;

    return site;
}

static void record(const struct bi_lock_hold *hold)
{
    pthread_mutex_lock(&guard);
    struct bi_lock_hold *site = find_site(hold);
    if (site != NULL) {
        if (hold->cpu_ns > site->cpu_ns)
            site->cpu_ns = hold->cpu_ns;
        if (hold->wall_ns > site->wall_ns)
            site->wall_ns = hold->wall_ns;
        site->count++;
    }
    pthread_mutex_unlock(&guard);
}

struct bi_lock_hold bi_lock_stats_longest(void)
{
    struct bi_lock_hold longest = {.from = "", .to = ""};
    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < site_count; i++)
        if (sites[i].cpu_ns >= longest.cpu_ns)
            longest = sites[i];
    pthread_mutex_unlock(&guard);
    return longest;
}

void bi_lock_stats_reset(void)
{
    pthread_mutex_lock(&guard);
    site_count = 0;
    pthread_mutex_unlock(&guard);
}

void bi_lock_stats_report(void)
{
    const char *path = getenv("BIDE_LOCK_STATS");
    FILE *file = path == NULL || path[0] == 0 ? NULL : fopen(path, "ae");
    if (file == NULL)
        return;

    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < site_count; i++) {
        if (sites[i].cpu_ns < REPORT_MIN_NS)
            continue;
        fprintf(file,
                "%8" PRId64 " us cpu %8" PRId64 " us wall %9" PRIu64 " holds  %s .. %s %s (%d)\n",
                sites[i].cpu_ns / 1000, sites[i].wall_ns / 1000, sites[i].count, sites[i].from,
                sites[i].to, sites[i].op == NULL ? "" : sites[i].op, (int)getpid());
    }

    site_count = 0;
    pthread_mutex_unlock(&guard);
    fclose(file);
}

/* ---- holds ---- */

static void begin_hold(const pthread_mutex_t *mutex, const char *site)
{
    current.mutex = mutex;
    current.hold = (struct bi_lock_hold){.from = caller != NULL ? caller : site,
                                         .wall_ns = read_clock(CLOCK_MONOTONIC),
                                         .cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID)};
}

static void end_hold(const pthread_mutex_t *mutex, const char *site)
{
    /* The turnstile is briefly held together with the lock. Only the lock, which was acquired
     * last, is measured. */
    if (current.mutex != mutex)
        return;

    current.hold.cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - current.hold.cpu_ns;
    current.hold.wall_ns = read_clock(CLOCK_MONOTONIC) - current.hold.wall_ns;

    /* On a virtual machine the thread clock may include time in which the machine did not run. */
    if (current.hold.cpu_ns > current.hold.wall_ns)
        current.hold.cpu_ns = current.hold.wall_ns;

    current.hold.to = caller != NULL ? caller : site;
    current.mutex = NULL;
}

/* Called after the release, so that the measurement does not lengthen the hold. */
static void record_ended(void)
{
    if (current.hold.to != NULL)
        record(&current.hold);
    current.hold.to = NULL;
}

void bi_lock_stats_caller(const char *site)
{
    caller = site;
}

void bi_lock_stats_op(const char *name)
{
    current.hold.op = name;
}

int bi_lock_stats_lock(pthread_mutex_t *mutex, const char *site)
{
    int code = pthread_mutex_lock(mutex);
    begin_hold(mutex, site);
    return code;
}

int bi_lock_stats_trylock(pthread_mutex_t *mutex, const char *site)
{
    int code = pthread_mutex_trylock(mutex);
    if (code == 0)
        begin_hold(mutex, site);
    return code;
}

int bi_lock_stats_unlock(pthread_mutex_t *mutex, const char *site)
{
    end_hold(mutex, site);
    int code = pthread_mutex_unlock(mutex);
    record_ended();
    return code;
}

int bi_lock_stats_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until, const char *site)
{
    /* A condition wait releases the lock: it ends one hold and begins another. */
    end_hold(mutex, site);
    record_ended();
    int code = until == NULL ? pthread_cond_wait(condition, mutex)
                             : pthread_cond_timedwait(condition, mutex, until);
    begin_hold(mutex, site);
    return code;
}
