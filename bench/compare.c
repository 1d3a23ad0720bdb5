/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <stdio.h>

#include "measure.h"

enum daemon_kind compare_turn(size_t run, size_t turn)
{
    return (enum daemon_kind)((run + turn) % DAEMONS);
}

void compare_set_shape(struct comparison *comparison, const struct load_plan *plan)
{
    snprintf(comparison->shape, sizeof(comparison->shape), "%zux%zu", plan->connections,
             plan->in_flight);
}

double compare_run(struct comparison *comparison, size_t run, const struct daemon *daemon,
                   const struct load_plan *plan)
{
    struct load_result result;
    int64_t cpu_ns = daemon_cpu_ns(daemon);

    load_run(daemon->address, plan, &result);
    cpu_ns = daemon_cpu_ns(daemon) - cpu_ns;
    comparison->rates[daemon->kind][run] = (double)result.ops * 1e9 / (double)result.wall_ns;
    comparison->cpu_us[daemon->kind][run] = (double)cpu_ns / 1000 / (double)result.ops;
    return (double)result.jobs * 1e9 / (double)result.wall_ns;
}

void compare_divide(double *out, const double *over, const double *under, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = over[i] / under[i];
}

void compare_line(struct comparison *comparison, const struct compare_line *line, double *runs)
{
    char asked[24] = "-";
    const struct param params[] = {
        {"work", comparison->work, 0},   {"shape", comparison->shape, 0},
        {"place", comparison->place, 0}, {"pinned", comparison->pin, 0},
        {"server", line->server, 0},     {"asked", asked, 0},
    };
    void (*report)(struct report *, const char *, const struct param *, size_t, const char *,
                   double *, size_t) = line->more_is_better ? report_rate : report_figure;

    if (line->asked > 0)
        snprintf(asked, sizeof(asked), "%s %g", line->more_is_better ? ">=" : "<=", line->asked);
    report(comparison->settings->report, comparison->name, params,
           sizeof(params) / sizeof(params[0]), line->unit, runs, comparison->settings->repeat);
}

static void report_servers(struct comparison *comparison, const char *unit, bool more_is_better,
                           double runs[DAEMONS][BENCH_MAX_REPEAT])
{
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++) {
        const struct compare_line line = {daemon_name(kind), unit, more_is_better, 0};
        compare_line(comparison, &line, runs[kind]);
    }
}

void compare_report(struct comparison *comparison, const struct compare_target *asked)
{
    const struct compare_line ratio = {"ratio", "times beanstalkd", true, asked->ratio};
    const struct compare_line cpu_ratio = {"ratio", "of beanstalkd's cpu per op", false,
                                           asked->cpu};
    double ratios[BENCH_MAX_REPEAT];
    double cpu_ratios[BENCH_MAX_REPEAT];
    size_t count = comparison->settings->repeat;

    compare_divide(ratios, comparison->rates[DAEMON_BIDED], comparison->rates[DAEMON_BEANSTALKD],
                   count);
    compare_divide(cpu_ratios, comparison->cpu_us[DAEMON_BIDED],
                   comparison->cpu_us[DAEMON_BEANSTALKD], count);
    report_servers(comparison, "ops/s", true, comparison->rates);
    compare_line(comparison, &ratio, ratios);
    report_servers(comparison, "us of cpu per op", false, comparison->cpu_us);
    compare_line(comparison, &cpu_ratio, cpu_ratios);
}
