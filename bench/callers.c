/* SPDX-License-Identifier: MIT */
#include "callers.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define STACK_BYTES ((size_t)128 << 10)

static pthread_t start_small(void *(*run)(void *), void *argument)
{
    pthread_attr_t small;
    pthread_t thread;

    if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, STACK_BYTES) != 0 ||
        pthread_create(&thread, &small, run, argument) != 0)
        fail("no thread could be made");
    pthread_attr_destroy(&small);
    return thread;
}

/* ---- cycles ---- */

struct callers {
    bide *queue;
    const char *body;
    size_t body_size;
    const bide_put_options *options;
    int64_t duration_ns;
    pthread_barrier_t start;
};

struct caller {
    struct callers *all;
    pthread_t thread;
    uint64_t cycles;
    int64_t began_ns;
    int64_t ended_ns;
};

static void cycle(const struct callers *all)
{
    bide_job job = {0};

    must("bide_put",
         bide_put(all->queue, BENCH_TOPIC, all->body, all->body_size, all->options, NULL));
    must("bide_reserve", bide_reserve(all->queue, BENCH_TOPIC, 0, &job));
    must("bide_delete", bide_delete(all->queue, job.id, job.token));
    bide_job_clear(&job);
}

static void *call(void *argument)
{
    struct caller *caller = argument;

    pthread_barrier_wait(&caller->all->start);
    caller->began_ns = measure_now_ns();
    do {
        cycle(caller->all);
        caller->cycles++;
        caller->ended_ns = measure_now_ns();
    } while (caller->ended_ns - caller->began_ns < caller->all->duration_ns);
    return NULL;
}

static double join(struct caller *callers, size_t count)
{
    uint64_t cycles = 0;
    int64_t began = INT64_MAX;
    int64_t ended = 0;

    for (size_t i = 0; i < count; i++) {
        pthread_join(callers[i].thread, NULL);
        cycles += callers[i].cycles;
        if (callers[i].began_ns < began)
            began = callers[i].began_ns;
        if (callers[i].ended_ns > ended)
            ended = callers[i].ended_ns;
    }
    return (double)cycles * 1e9 / (double)(ended - began);
}

double callers_cycle(bide *queue, size_t count, size_t body_size, const bide_put_options *options,
                     int64_t duration_ns)
{
    struct caller *callers = calloc(count, sizeof(*callers));
    char *body = malloc(body_size);

    if (callers == NULL || body == NULL)
        fail("out of memory");
    memset(body, 'x', body_size);
    struct callers all = {
        .queue = queue,
        .body = body,
        .body_size = body_size,
        .options = options,
        .duration_ns = duration_ns,
    };
    if (pthread_barrier_init(&all.start, NULL, (unsigned)count) != 0)
        fail("out of memory");
    for (size_t i = 0; i < count; i++) {
        callers[i].all = &all;
        callers[i].thread = start_small(call, &callers[i]);
    }
    double rate = join(callers, count);
    pthread_barrier_destroy(&all.start);
    free(body);
    free(callers);
    return rate;
}

/* ---- waking alone ---- */

struct wakes {
    sem_t all_awake;
    atomic_size_t asleep;
    atomic_bool over;
};

struct sleeper {
    struct wakes *wakes;
    pthread_t thread;
    sem_t wake;
};

static void *sleep_often(void *argument)
{
    struct sleeper *sleeper = argument;
    struct wakes *wakes = sleeper->wakes;

    for (;;) {
        sem_wait(&sleeper->wake);
        if (atomic_load(&wakes->over))
            return NULL;
        if (atomic_fetch_sub(&wakes->asleep, 1) == 1)
            sem_post(&wakes->all_awake);
    }
}

static void wake_all(struct sleeper *sleepers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sem_post(&sleepers[i].wake);
}

static double wake_often(struct wakes *wakes, struct sleeper *sleepers, size_t count,
                         int64_t duration_ns)
{
    int64_t began = measure_now_ns();
    int64_t ended = began;
    uint64_t rounds = 0;

    for (; ended - began < duration_ns; ended = measure_now_ns()) {
        atomic_store(&wakes->asleep, count);
        wake_all(sleepers, count);
        sem_wait(&wakes->all_awake);
        rounds++;
    }
    return (double)(rounds * count) * 1e9 / (double)(ended - began);
}

double callers_wake(size_t count, int64_t duration_ns)
{
    struct sleeper *sleepers = calloc(count, sizeof(*sleepers));
    struct wakes wakes = {.asleep = 0};

    if (sleepers == NULL)
        fail("out of memory");
    sem_init(&wakes.all_awake, 0, 0);
    for (size_t i = 0; i < count; i++) {
        sleepers[i].wakes = &wakes;
        sem_init(&sleepers[i].wake, 0, 0);
        sleepers[i].thread = start_small(sleep_often, &sleepers[i]);
    }
    double rate = wake_often(&wakes, sleepers, count, duration_ns);
    atomic_store(&wakes.over, true);
    wake_all(sleepers, count);
    for (size_t i = 0; i < count; i++)
        pthread_join(sleepers[i].thread, NULL);
    free(sleepers);
    return rate;
}
