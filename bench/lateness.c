/* SPDX-License-Identifier: MIT */
/*
 * lateness - how long after its due time a delayed job reaches a waiting consumer, and whether
 * one ever comes early.
 *
 * The body carries the due time: the boot-time clock just before the put, rounded down to the
 * microsecond as the queue rounds it, plus the delay. The queue cannot have read its clock any
 * earlier, so a job that comes before this moment is early beyond doubt.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fixture.h"
#include "list.h"
#include "measure.h"

#define CONSUMERS      2
#define FIRST_DELAY_MS 500  /* nothing is due while jobs are still being put */
#define SPREAD_MS      2000 /* delays are FIRST_DELAY_MS and up to that much more */
#define PATIENCE_NS    30000000000

struct run {
    bide *queue;
    size_t count;
    double *late_us;
    atomic_size_t taken;
    atomic_size_t early;
    int64_t give_up_ns;
};

static void take(struct run *run, const bide_job *job, int64_t now_ns)
{
    int64_t due_us;

    memcpy(&due_us, job->body, sizeof(due_us));
    double late_us = (double)(now_ns - due_us * 1000) / 1000;
    if (late_us < 0)
        atomic_fetch_add(&run->early, 1);
    size_t slot = atomic_fetch_add(&run->taken, 1);
    if (slot >= run->count)
        fail("more jobs came out than were put in");
    run->late_us[slot] = late_us;
}

static void *consume(void *argument)
{
    struct run *run = argument;

    while (atomic_load(&run->taken) < run->count) {
        bide_job job = {0};
        int code = bide_reserve(run->queue, BENCH_TOPIC, 50, &job);
        int64_t now_ns = measure_boot_ns();
        if (code == BIDE_TIMED_OUT) {
            if (now_ns > run->give_up_ns)
                fail("%zu of %zu jobs came out", atomic_load(&run->taken), run->count);
            continue;
        }
        must("bide_reserve", code);
        take(run, &job, now_ns);
        must("bide_delete", bide_delete(run->queue, job.id, job.token));
        bide_job_clear(&job);
    }
    return NULL;
}

static void put_delayed(bide *queue, size_t count, uint64_t seed)
{
    struct list *list = list_new(queue);
    struct random random = {seed};

    while (count > 0) {
        size_t n = count < LIST_SIZE ? count : LIST_SIZE;
        int64_t now_us = measure_boot_ns() / 1000;
        for (size_t i = 0; i < n; i++) {
            int64_t delay_ms = FIRST_DELAY_MS + (int64_t)(random_next(&random) % SPREAD_MS);
            int64_t due_us = now_us + delay_ms * 1000;
            list->options[i].delay_ms = delay_ms;
            memcpy(list->bodies[i], &due_us, sizeof(due_us));
        }
        list_put(list, n);
        count -= n;
    }
    list_free(list);
}

static void run_once(struct run *run, uint64_t seed)
{
    pthread_t threads[CONSUMERS];

    atomic_store(&run->taken, 0);
    atomic_store(&run->early, 0);
    run->give_up_ns = measure_boot_ns() + PATIENCE_NS;
    for (size_t i = 0; i < CONSUMERS; i++) {
        if (pthread_create(&threads[i], NULL, consume, run) != 0)
            fail("no thread could be made");
    }
    put_delayed(run->queue, run->count, seed);
    for (size_t i = 0; i < CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    measure_sort(run->late_us, run->count);
}

static void report(const struct settings *settings, size_t count, const char *figure,
                   const char *unit, double *runs, size_t run_count)
{
    const struct param params[] = {
        {"jobs", NULL, count},
        {"consumers", NULL, CONSUMERS},
        {"figure", figure, 0},
    };

    report_figure(settings->report, "lateness", params, 3, unit, runs, run_count);
}

void bench_lateness(const struct settings *settings)
{
    struct run run = {.count = settings->quick ? 20000 : 100000};
    double runs[MEASURE_QUANTILES][BENCH_MAX_REPEAT];
    double early = 0;

    run.queue = fixture_open(settings->url);
    run.late_us = calloc(run.count, sizeof(*run.late_us));
    if (run.late_us == NULL)
        fail("out of memory");
    for (size_t i = 0; i < settings->repeat; i++) {
        run_once(&run, i);
        early += (double)atomic_load(&run.early);
        for (size_t q = 0; q < MEASURE_QUANTILES; q++)
            runs[q][i] =
                measure_quantile(run.late_us, run.count, measure_quantiles[q].percent) / 1000;
    }
    fixture_close(run.queue);
    free(run.late_us);
    for (size_t q = 0; q < MEASURE_QUANTILES; q++)
        report(settings, run.count, measure_quantiles[q].name, "ms", runs[q], settings->repeat);
    report(settings, run.count, "early", "jobs in all runs", &early, 1);
    if (early > 0)
        fail("a delayed job must never come early");
}
