/* SPDX-License-Identifier: MIT */
/*
 * resident - the cycle on one thread beside ever more jobs, ready and delayed, to see how its
 * cost grows.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cycle.h"
#include "measure.h"

/* More than a job of 100 bytes takes; the benchmark must not drive the machine out of memory. */
#define JOB_BYTES 400

static bool has_room(const struct settings *settings, uint64_t count)
{
    uint64_t available = measure_available_bytes();
    char note[80];

    if (available == 0 || count * JOB_BYTES <= available)
        return true;
    snprintf(note, sizeof(note), "%" PRIu64 " resident jobs left out: too little memory is free",
             count);
    report_note(settings->report, note);
    return false;
}

static void measure(const struct settings *settings, enum resident state, uint64_t count)
{
    struct cycle cycle = {
        .bench = "resident",
        .queue = fixture_open(settings->url),
        .state = state,
        .resident = count,
        .threads = 1,
        .count = settings->quick ? 100000 : 1000000,
    };

    fixture_fill(cycle.queue, state, count);
    for (cycle.by = BY_CALLS; cycle.by <= BY_SUBMIT; cycle.by++)
        cycle_measure(settings, &cycle);
    fixture_close(cycle.queue);
}

void bench_resident(const struct settings *settings)
{
    static const uint64_t counts[] = {1000, 10000, 100000, 1000000, 10000000};

    for (enum resident state = RESIDENT_READY; state <= RESIDENT_DELAYED; state++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            if (counts[i] <= settings->max_resident && has_room(settings, counts[i]))
                measure(settings, state, counts[i]);
        }
    }
}
