/* SPDX-License-Identifier: MIT */
/*
 * threads - the cycle on 1, 2, 4 and 8 threads, beside 1,000 ready jobs.
 */
#include "bench.h"
#include "cycle.h"
#include "fixture.h"

#define RESIDENT 1000

static void measure(const struct settings *settings, enum by by, size_t threads)
{
    bide *queue = fixture_open(settings->url);
    double runs[BENCH_MAX_REPEAT];
    const struct param params[] = {
        {"threads", NULL, threads},
        {"by", cycle_name(by), 0},
        {"resident", NULL, RESIDENT},
        {"state", fixture_name(RESIDENT_READY), 0},
    };

    fixture_fill(queue, RESIDENT_READY, RESIDENT);
    cycle_measure(queue, by, threads, settings->quick ? 100000 : 2000000, runs, settings->repeat);
    fixture_close(queue);
    report_figure(settings->report, "threads", params, 4, "us per cycle", runs, settings->repeat);
}

void bench_threads(const struct settings *settings)
{
    static const size_t counts[] = {1, 2, 4, 8};

    for (enum by by = BY_CALLS; by <= BY_SUBMIT; by++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            measure(settings, by, counts[i]);
    }
}
