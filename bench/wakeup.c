/* SPDX-License-Identifier: MIT */
/*
 * wakeup - how long it takes from a put until a reserve that waits in another thread returns.
 *
 * The body carries the moment just before the put. The next put comes only when the consumer
 * waits again, and a little later, so that its thread is really asleep.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fixture.h"
#include "measure.h"

#define REST_US     100         /* from "it waits" to the put */
#define PATIENCE_NS 10000000000 /* for the consumer to wait again */

struct consumer {
    bide *queue;
    double *samples; /* microseconds */
    size_t count;
};

static void *consume(void *argument)
{
    struct consumer *consumer = argument;

    for (size_t i = 0; i < consumer->count; i++) {
        bide_job job = {0};
        int64_t put_ns;

        must("bide_reserve", bide_reserve(consumer->queue, BENCH_TOPIC, BIDE_FOREVER, &job));
        int64_t now_ns = measure_now_ns();
        if (job.body_size != sizeof(put_ns))
            fail("a body of %zu bytes came back with %zu", sizeof(put_ns), job.body_size);
        memcpy(&put_ns, job.body, sizeof(put_ns));
        consumer->samples[i] = (double)(now_ns - put_ns) / 1000;
        must("bide_delete", bide_delete(consumer->queue, job.id, job.token));
        bide_job_clear(&job);
    }
    return NULL;
}

static void wait_for_waiter(bide *queue)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_NS;
    bide_stats stats;

    do {
        if (measure_now_ns() > give_up_ns)
            fail("the consumer does not wait");
        must("bide_queue_stats", bide_queue_stats(queue, &stats));
    } while (stats.waiting == 0);
    measure_sleep_us(REST_US);
}

static void run(bide *queue, double *samples, size_t count)
{
    struct consumer consumer = {queue, samples, count};
    pthread_t thread;

    if (pthread_create(&thread, NULL, consume, &consumer) != 0)
        fail("no thread could be made");
    for (size_t i = 0; i < count; i++) {
        wait_for_waiter(queue);
        int64_t now_ns = measure_now_ns();
        must("bide_put", bide_put(queue, BENCH_TOPIC, &now_ns, sizeof(now_ns), NULL, NULL));
    }
    pthread_join(thread, NULL);
    measure_sort(samples, count);
}

void bench_wakeup(const struct settings *settings)
{
    size_t count = settings->quick ? 1000 : 10000;
    double *samples = calloc(count, sizeof(*samples));
    double runs[MEASURE_QUANTILES][BENCH_MAX_REPEAT];
    bide *queue = fixture_open(settings->url);

    if (samples == NULL)
        fail("out of memory");
    for (size_t i = 0; i < settings->repeat; i++) {
        run(queue, samples, count);
        for (size_t q = 0; q < MEASURE_QUANTILES; q++)
            runs[q][i] = measure_quantile(samples, count, measure_quantiles[q].percent);
    }
    fixture_close(queue);
    free(samples);
    for (size_t q = 0; q < MEASURE_QUANTILES; q++) {
        const struct param params[] = {
            {"wakeups", NULL, count},
            {"figure", measure_quantiles[q].name, 0},
        };
        report_figure(settings->report, "wakeup", params, 2, "us", runs[q], settings->repeat);
    }
}
