/* SPDX-License-Identifier: MIT */
/*
 * load - the load generator by itself, on a server that runs already: for profiling one, and for
 * work that the other benchmarks do not do.
 */
#include "bench.h"
#include "load.h"
#include "measure.h"

void bench_load(const struct settings *settings)
{
    const struct load_plan *plan = &settings->load;
    const struct param params[] = {
        {"work", load_work_name(plan->work), 0},
        {"conns", NULL, plan->connections},
        {"in_flight", NULL, plan->in_flight},
        {"body", NULL, plan->body_size},
        {"tubes", NULL, plan->tubes},
    };
    double rates[BENCH_MAX_REPEAT];
    double cpu_us[BENCH_MAX_REPEAT];

    if (settings->connect == NULL)
        fail("load wants a server that runs: --connect ADDRESS:PORT or unix:PATH");
    for (size_t run = 0; run < settings->repeat; run++) {
        struct load_result result;
        int64_t cpu_ns = measure_cpu_ns();
        load_run(settings->connect, plan, &result);
        cpu_us[run] = (double)(measure_cpu_ns() - cpu_ns) / 1000 / (double)result.ops;
        rates[run] = (double)result.ops * 1e9 / (double)result.wall_ns;
    }
    report_rate(settings->report, "load", params, sizeof(params) / sizeof(params[0]), "ops/s",
                rates, settings->repeat);
    report_figure(settings->report, "load", params, sizeof(params) / sizeof(params[0]),
                  "us of the generator's cpu per op", cpu_us, settings->repeat);
}
