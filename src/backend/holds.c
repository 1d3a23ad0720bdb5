/* SPDX-License-Identifier: MIT */
#include "backend/holds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 256
/* Shorter holds are not reported: the file stays small, also where a test limits the size of files. */
#define REPORTED_NS 200000

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct bi_hold places[PLACES];
static size_t place_count;

/* The hold that is under way in this thread. */
static _Thread_local struct {
    const pthread_mutex_t *mutex; /* NULL: none */
    struct bi_hold hold;          /* the times are those of its beginning */
} now;
static _Thread_local const char *caller;

static int64_t read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- places ---- */

static struct bi_hold *place_of(const struct bi_hold *hold)
{
    for (size_t i = 0; i < place_count; i++)
        if (places[i].from == hold->from && places[i].to == hold->to && places[i].op == hold->op)
            return &places[i];
    if (place_count < PLACES)
        place_count++;
    places[place_count - 1] = *hold;
    return &places[place_count - 1];
}

static void record(const struct bi_hold *hold)
{
    pthread_mutex_lock(&guard);
    struct bi_hold *place = place_of(hold);
    if (hold->cpu_ns > place->cpu_ns)
        place->cpu_ns = hold->cpu_ns;
    if (hold->wall_ns > place->wall_ns)
        place->wall_ns = hold->wall_ns;
    place->count++;
    pthread_mutex_unlock(&guard);
}

struct bi_hold bi_holds_longest(void)
{
    struct bi_hold longest = {.from = "", .to = ""};
    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < place_count; i++)
        if (places[i].cpu_ns >= longest.cpu_ns)
            longest = places[i];
    pthread_mutex_unlock(&guard);
    return longest;
}

void bi_holds_reset(void)
{
    pthread_mutex_lock(&guard);
    place_count = 0;
    pthread_mutex_unlock(&guard);
}

void bi_holds_report(void)
{
    const char *path = getenv("BIDE_LOCK_STATS");
    FILE *file = path == NULL || path[0] == 0 ? NULL : fopen(path, "ae");
    if (file == NULL)
        return;
    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < place_count; i++) {
        if (places[i].cpu_ns < REPORTED_NS)
            continue;
        fprintf(file,
                "%8" PRId64 " us cpu %8" PRId64 " us wall %9" PRIu64 " holds  %s .. %s %s (%d)\n",
                places[i].cpu_ns / 1000, places[i].wall_ns / 1000, places[i].count, places[i].from,
                places[i].to, places[i].op == NULL ? "" : places[i].op, (int)getpid());
    }
    place_count = 0;
    pthread_mutex_unlock(&guard);
    fclose(file);
}

/* ---- holds ---- */

static void begin(const pthread_mutex_t *mutex, const char *place)
{
    now.mutex = mutex;
    now.hold = (struct bi_hold){.from = caller != NULL ? caller : place,
                                .wall_ns = read_clock(CLOCK_MONOTONIC),
                                .cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID)};
}

static void end(const pthread_mutex_t *mutex, const char *place)
{
    if (now.mutex != mutex)
        return;
    now.hold.cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - now.hold.cpu_ns;
    now.hold.wall_ns = read_clock(CLOCK_MONOTONIC) - now.hold.wall_ns;
    /* On a virtual machine the clock of the thread may jump by the time in which that did not run. */
    if (now.hold.cpu_ns > now.hold.wall_ns)
        now.hold.cpu_ns = now.hold.wall_ns;
    now.hold.to = caller != NULL ? caller : place;
    now.mutex = NULL;
}

/* After the release, so that measuring does not make the hold longer. */
static void record_ended(void)
{
    if (now.hold.to != NULL)
        record(&now.hold);
    now.hold.to = NULL;
}

void bi_holds_caller(const char *place)
{
    caller = place;
}

void bi_holds_op(const char *name)
{
    now.hold.op = name;
}

int bi_holds_lock(pthread_mutex_t *mutex, const char *place)
{
    int code = pthread_mutex_lock(mutex);
    begin(mutex, place);
    return code;
}

int bi_holds_trylock(pthread_mutex_t *mutex, const char *place)
{
    int code = pthread_mutex_trylock(mutex);
    if (code == 0)
        begin(mutex, place);
    return code;
}

int bi_holds_timedlock(pthread_mutex_t *mutex, const struct timespec *until, const char *place)
{
    int code = pthread_mutex_timedlock(mutex, until);
    if (code == 0)
        begin(mutex, place);
    return code;
}

int bi_holds_unlock(pthread_mutex_t *mutex, const char *place)
{
    end(mutex, place);
    int code = pthread_mutex_unlock(mutex);
    record_ended();
    return code;
}

int bi_holds_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const char *place)
{
    end(mutex, place);
    record_ended();
    int code = pthread_cond_wait(condition, mutex);
    begin(mutex, place);
    return code;
}

int bi_holds_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until, const char *place)
{
    end(mutex, place);
    record_ended();
    int code = pthread_cond_timedwait(condition, mutex, until);
    begin(mutex, place);
    return code;
}
