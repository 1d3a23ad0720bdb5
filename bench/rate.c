/* SPDX-License-Identifier: MIT */
/*
 * rate - how exactly a topic keeps its rate while more consumers wait than it can serve.
 *
 * The queue always has ready jobs, so each token that is due is used at once. The first second,
 * in which the bucket may be fuller or emptier than later, is left out.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "bench.h"
#include "fixture.h"
#include "list.h"
#include "measure.h"

#define CONSUMERS 8
#define RATE      1000
#define WARM_UP_S 1

struct run {
    bide *queue;
    atomic_bool over;
    atomic_size_t taken;
};

static void *consume(void *argument)
{
    struct run *run = argument;

    while (!atomic_load(&run->over)) {
        bide_job job = {0};
        int code = bide_reserve(run->queue, BENCH_TOPIC, 50, &job);
        if (code == BIDE_TIMED_OUT)
            continue;
        must("bide_reserve", code);
        atomic_fetch_add(&run->taken, 1);
        must("bide_delete", bide_delete(run->queue, job.id, job.token));
        bide_job_clear(&job);
    }
    return NULL;
}

static void sleep_until(int64_t at_ns)
{
    const struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};
    clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL);
}

static void fill(bide *queue, size_t count)
{
    struct list *list = list_new(queue);
    for (; count > 0; count -= count < LIST_SIZE ? count : LIST_SIZE)
        list_put(list, count < LIST_SIZE ? count : LIST_SIZE);
    list_free(list);
}

static double run_once(struct run *run, int64_t seconds, int64_t burst)
{
    pthread_t threads[CONSUMERS];
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.rate = RATE;
    policy.rate_burst = burst;

    fill(run->queue, (size_t)(RATE * (seconds + WARM_UP_S + 3)));
    must("bide_topic_set", bide_topic_set(run->queue, BENCH_TOPIC, &policy));
    atomic_store(&run->over, false);
    for (size_t i = 0; i < CONSUMERS; i++)
        if (pthread_create(&threads[i], NULL, consume, run) != 0)
            fail("no thread could be made");

    int64_t begin_ns = measure_boot_ns() + WARM_UP_S * INT64_C(1000000000);
    sleep_until(begin_ns);
    size_t before = atomic_load(&run->taken);
    begin_ns = measure_boot_ns();
    sleep_until(begin_ns + seconds * 1000000000);
    size_t after = atomic_load(&run->taken);
    int64_t end_ns = measure_boot_ns();

    atomic_store(&run->over, true);
    for (size_t i = 0; i < CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    must("bide_purge", bide_purge(run->queue, BENCH_TOPIC, BIDE_STATE_READY, NULL));
    return (double)(after - before) * 1e9 / (double)(end_ns - begin_ns);
}

void bench_rate(const struct settings *settings)
{
    static const int64_t bursts[] = {10, RATE};
    int64_t seconds = settings->quick ? 2 : 30;
    struct run run = {.queue = fixture_open(settings->url)};

    for (size_t i = 0; i < sizeof(bursts) / sizeof(bursts[0]); i++) {
        double runs[BENCH_MAX_REPEAT];
        for (size_t r = 0; r < settings->repeat; r++)
            runs[r] = run_once(&run, seconds, bursts[i]);
        const struct param params[] = {
            {"rate", NULL, RATE},
            {"burst", NULL, (uint64_t)bursts[i]},
            {"seconds", NULL, (uint64_t)seconds},
        };
        report_figure(settings->report, "rate", params, 3, "jobs/s", runs, settings->repeat);
    }
    fixture_close(run.queue);
}
