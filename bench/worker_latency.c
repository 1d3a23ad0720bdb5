/* SPDX-License-Identifier: MIT */
/*
 * worker_latency - how long it takes from a put until the handler of a worker that has nothing to
 * do begins, beside a reserve that waits.
 *
 * On both sides four threads wait. The body carries the moment just before the put. The next put
 * comes only when all four wait again, and a little later, so that they are really asleep.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <bide/worker.h>

#include "bench.h"
#include "measure.h"
#include "throughput.h"

#define REST_US     100         /* from "they wait" to the put */
#define PATIENCE_NS 10000000000 /* for them to wait again */

struct sampling {
    bide *queue;
    double *samples; /* microseconds */
    size_t count;
    atomic_size_t taken;
    atomic_bool over;
};

static void sample(struct sampling *sampling, const void *body, size_t size)
{
    int64_t now_ns = measure_now_ns();
    int64_t put_ns;

    if (size != sizeof(put_ns))
        fail("a body of %zu bytes came back with %zu", sizeof(put_ns), size);
    memcpy(&put_ns, body, sizeof(put_ns));
    sampling->samples[atomic_fetch_add(&sampling->taken, 1)] = (double)(now_ns - put_ns) / 1000;
}

/* The job before has been taken, and everybody waits again. */
static void wait_for_all(struct sampling *sampling, size_t taken)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_NS;
    bide_stats stats;

    do {
        if (measure_now_ns() > give_up_ns)
            fail("nobody waits for jobs");
        must("bide_queue_stats", bide_queue_stats(sampling->queue, &stats));
    } while (stats.waiting < THROUGHPUT_THREADS || atomic_load(&sampling->taken) < taken);
    measure_sleep_us(REST_US);
}

static void put_all(struct sampling *sampling)
{
    for (size_t i = 0; i < sampling->count; i++) {
        wait_for_all(sampling, i);
        int64_t now_ns = measure_now_ns();
        must("bide_put",
             bide_put(sampling->queue, BENCH_TOPIC, &now_ns, sizeof(now_ns), NULL, NULL));
    }
    wait_for_all(sampling, sampling->count);
}

/* ---- by calls ---- */

static void *take(void *argument)
{
    struct sampling *sampling = argument;

    for (;;) {
        bide_job job = {0};
        int code = bide_reserve(sampling->queue, BENCH_TOPIC, 100, &job);
        if (code == BIDE_TIMED_OUT && atomic_load(&sampling->over))
            return NULL;
        if (code == BIDE_TIMED_OUT)
            continue;
        must("bide_reserve", code);
        sample(sampling, job.body, job.body_size);
        must("bide_delete", bide_delete(sampling->queue, job.id, job.token));
        bide_job_clear(&job);
    }
}

static void run_calls(struct sampling *sampling)
{
    pthread_t threads[THROUGHPUT_THREADS];

    for (size_t i = 0; i < THROUGHPUT_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, take, sampling) != 0)
            fail("no thread could be made");
    }
    put_all(sampling);
    atomic_store(&sampling->over, true);
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- by a worker ---- */

static int handle(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    sample(arg, body->data, body->size);
    return BIDE_DONE;
}

static void run_worker(struct sampling *sampling)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;

    options.threads = THROUGHPUT_THREADS;
    must("bide_worker_new", bide_worker_new(sampling->queue, &options, &worker));
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, handle, sampling));
    must("bide_worker_start", bide_worker_start(worker));
    put_all(sampling);
    must("bide_worker_stop", bide_worker_stop(worker));
    must("bide_worker_free", bide_worker_free(worker));
}

static const struct way {
    const char *name;
    void (*run)(struct sampling *sampling);
} ways[] = {{"calls", run_calls}, {"worker", run_worker}};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

struct quantiles {
    double runs[WAYS][MEASURE_QUANTILES][BENCH_MAX_REPEAT];
};

static void run_way(const struct way *way, double runs[MEASURE_QUANTILES][BENCH_MAX_REPEAT],
                    size_t run, struct sampling sampling)
{
    way->run(&sampling);
    measure_sort(sampling.samples, sampling.count);
    for (size_t i = 0; i < MEASURE_QUANTILES; i++)
        runs[i][run] =
            measure_quantile(sampling.samples, sampling.count, measure_quantiles[i].percent);
}

void bench_worker_latency(const struct settings *settings)
{
    struct quantiles *quantiles = calloc(1, sizeof(*quantiles));
    struct sampling sampling = {.count = settings->quick ? 500 : 5000};

    sampling.samples = calloc(sampling.count, sizeof(*sampling.samples));
    if (quantiles == NULL || sampling.samples == NULL)
        fail("out of memory");
    must("bide_open", bide_open("memory:", NULL, &sampling.queue));
    for (size_t run = 0; run < settings->repeat; run++) {
        for (size_t i = 0; i < WAYS; i++)
            run_way(&ways[i], quantiles->runs[i], run, sampling);
    }
    must("bide_close", bide_close(sampling.queue));
    settings->report->url = "memory:";
    report_others(settings->report);
    for (size_t i = 0; i < WAYS * MEASURE_QUANTILES; i++) {
        const struct param params[] = {
            {"by", ways[i / MEASURE_QUANTILES].name, 0},
            {"figure", measure_quantiles[i % MEASURE_QUANTILES].name, 0},
        };
        report_figure(settings->report, "worker-latency", params, 2, "us",
                      quantiles->runs[i / MEASURE_QUANTILES][i % MEASURE_QUANTILES],
                      settings->repeat);
    }
    free(sampling.samples);
    free(quantiles);
}
