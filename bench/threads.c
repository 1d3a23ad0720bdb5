/* SPDX-License-Identifier: MIT */
/*
 * threads - the cycle on 1, 2, 4 and 8 threads, beside 1,000 ready jobs.
 */
#include "cycle.h"

static void measure(const struct settings *settings, enum by by, size_t threads)
{
    struct cycle cycle = {
        .bench = "threads",
        .queue = fixture_open(settings->url),
        .state = RESIDENT_READY,
        .resident = 1000,
        .by = by,
        .threads = threads,
        .count = settings->quick ? 100000 : 2000000,
    };

    fixture_fill(cycle.queue, cycle.state, cycle.resident);
    cycle_measure(settings, &cycle);
    fixture_close(cycle.queue);
}

void bench_threads(const struct settings *settings)
{
    static const size_t counts[] = {1, 2, 4, 8};

    for (enum by by = BY_CALLS; by <= BY_SUBMIT; by++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            measure(settings, by, counts[i]);
    }
}
