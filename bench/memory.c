/* SPDX-License-Identifier: MIT */
/*
 * memory - how much the process grows with each job, beyond the body itself. Each run is a process
 * of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "child.h"
#include "fixture.h"
#include "measure.h"

static uint64_t growth(const char *url, enum resident resident, uint64_t count)
{
    bide *queue = fixture_open(url);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct random random = {count};
    char body[BENCH_BODY_SIZE];

    memset(body, 'x', sizeof(body));
    uint64_t before = measure_rss_bytes();
    for (uint64_t i = 0; i < count; i++) {
        fixture_options(resident, random_next(&random), &options);
        must("bide_put", bide_put(queue, BENCH_TOPIC, body, sizeof(body), &options, NULL));
    }
    uint64_t after = measure_rss_bytes();
    fixture_close(queue);
    if (before == 0 || after < before)
        fail("the size of the resident set could not be read");
    return after - before;
}

/* The arguments are URL, STATE and COUNT. */
void bench_memory_child(char **arguments)
{
    enum resident resident = RESIDENT_READY;

    if (strcmp(arguments[1], fixture_name(resident)) != 0)
        resident = RESIDENT_DELAYED;
    child_report((double)growth(arguments[0], resident, strtoull(arguments[2], NULL, 10)));
}

static double growth_of_process(const char *url, enum resident resident, uint64_t count)
{
    char number[32];
    double bytes = 0;

    snprintf(number, sizeof(number), "%" PRIu64, count);
    const char *const arguments[] = {url, fixture_name(resident), number, NULL};
    child_measure("--memory-child", arguments, &bytes, 1);
    return bytes;
}

void bench_memory(const struct settings *settings)
{
    uint64_t count = settings->quick ? 100000 : 1000000;
    double runs[BENCH_MAX_REPEAT];

    for (enum resident state = RESIDENT_READY; state <= RESIDENT_DELAYED; state++) {
        const struct param params[] = {
            {"state", fixture_name(state), 0},
            {"jobs", NULL, count},
            {"body", NULL, BENCH_BODY_SIZE},
        };
        for (size_t i = 0; i < settings->repeat; i++)
            runs[i] =
                growth_of_process(settings->url, state, count) / (double)count - BENCH_BODY_SIZE;
        report_figure(settings->report, "memory", params, 3, "bytes per job beyond the body", runs,
                      settings->repeat);
    }
}
