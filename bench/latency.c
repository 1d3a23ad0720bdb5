/* SPDX-License-Identifier: MIT */
/*
 * latency - how long one put takes until it is stored, with nobody else about, and how long SQLite
 * itself takes to insert the same row in a transaction of its own. The two take turns.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "folder.h"
#include "measure.h"
#include "raw.h"

struct samples {
    size_t count;
    double *raw_us;
    double *put_us;
};

static double micros_since(int64_t began_ns)
{
    return (double)(measure_now_ns() - began_ns) / 1000;
}

static void run(bide *queue, struct raw *raw, struct samples *samples)
{
    char body[BENCH_BODY_SIZE];

    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < samples->count; i++) {
        int64_t began = measure_now_ns();
        raw_insert(raw);
        samples->raw_us[i] = micros_since(began);
        began = measure_now_ns();
        must("bide_put", bide_put(queue, BENCH_TOPIC, body, sizeof(body), NULL, NULL));
        samples->put_us[i] = micros_since(began);
    }
    measure_sort(samples->raw_us, samples->count);
    measure_sort(samples->put_us, samples->count);
}

static void report(const struct settings *settings, const char *by, size_t count, size_t quantile,
                   double *runs)
{
    const struct param params[] = {
        {"by", by, 0},
        {"puts", NULL, count},
        {"sync", folder_sync_name(settings->sync), 0},
        {"figure", measure_quantiles[quantile].name, 0},
    };

    report_figure(settings->report, "latency", params, 4, "us", runs, settings->repeat);
}

void bench_latency(const struct settings *settings)
{
    struct samples samples = {.count = settings->quick ? 200 : 1000};
    double raw_runs[MEASURE_QUANTILES][BENCH_MAX_REPEAT];
    double put_runs[MEASURE_QUANTILES][BENCH_MAX_REPEAT];
    struct raw *raw = raw_open(settings->folder->raw, settings->sync, BENCH_BODY_SIZE);
    bide *queue = NULL;

    samples.raw_us = calloc(samples.count, sizeof(double));
    samples.put_us = calloc(samples.count, sizeof(double));
    if (samples.raw_us == NULL || samples.put_us == NULL)
        fail("out of memory");
    must("bide_open", bide_open(settings->url, NULL, &queue));
    for (size_t i = 0; i < settings->repeat; i++) {
        run(queue, raw, &samples);
        for (size_t q = 0; q < MEASURE_QUANTILES; q++) {
            unsigned percent = measure_quantiles[q].percent;
            raw_runs[q][i] = measure_quantile(samples.raw_us, samples.count, percent);
            put_runs[q][i] = measure_quantile(samples.put_us, samples.count, percent);
        }
    }
    must("bide_close", bide_close(queue));
    raw_close(raw);
    free(samples.raw_us);
    free(samples.put_us);
    report_others(settings->report);
    for (size_t q = 0; q < MEASURE_QUANTILES; q++) {
        report(settings, "raw", samples.count, q, raw_runs[q]);
        report(settings, "put", samples.count, q, put_runs[q]);
    }
}
