/* SPDX-License-Identifier: MIT */
#include "match.h"

#include <stdio.h>

#include "measure.h"

enum daemon_kind match_turn(size_t run, size_t turn)
{
    return (enum daemon_kind)((run + turn) % DAEMONS);
}

void match_set_shape(struct match *match, const struct load_plan *plan)
{
    snprintf(match->shape, sizeof(match->shape), "%zux%zu", plan->connections, plan->in_flight);
}

double match_run(struct match *match, size_t run, const struct daemon *daemon,
                 const struct load_plan *plan)
{
    struct load_result result;
    int64_t cpu_ns = daemon_cpu_ns(daemon);

    load_run(daemon->address, plan, &result);
    cpu_ns = daemon_cpu_ns(daemon) - cpu_ns;
    match->rates[daemon->kind][run] = (double)result.ops * 1e9 / (double)result.wall_ns;
    match->cpu_us[daemon->kind][run] = (double)cpu_ns / 1000 / (double)result.ops;
    return (double)result.jobs * 1e9 / (double)result.wall_ns;
}

void match_divide(double *out, const double *over, const double *under, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = over[i] / under[i];
}

void match_line(struct match *match, const struct match_line *line, double *runs)
{
    char asked[24] = "-";
    const struct param params[] = {
        {"work", match->work, 0},  {"shape", match->shape, 0},  {"place", match->place, 0},
        {"pinned", match->pin, 0}, {"server", line->server, 0}, {"asked", asked, 0},
    };
    void (*report)(struct report *, const char *, const struct param *, size_t, const char *,
                   double *, size_t) = line->more_is_better ? report_rate : report_figure;

    if (line->asked > 0)
        snprintf(asked, sizeof(asked), "%s %g", line->more_is_better ? ">=" : "<=", line->asked);
    report(match->settings->report, match->name, params, sizeof(params) / sizeof(params[0]),
           line->unit, runs, match->settings->repeat);
}

static void report_servers(struct match *match, const char *unit, bool more_is_better,
                           double runs[DAEMONS][BENCH_MAX_REPEAT])
{
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++) {
        const struct match_line line = {daemon_name(kind), unit, more_is_better, 0};
        match_line(match, &line, runs[kind]);
    }
}

void match_report(struct match *match, const struct match_asked *asked)
{
    const struct match_line ratio = {"ratio", "times beanstalkd", true, asked->ratio};
    const struct match_line cpu_ratio = {"ratio", "of beanstalkd's cpu per op", false, asked->cpu};
    double ratios[BENCH_MAX_REPEAT];
    double cpu_ratios[BENCH_MAX_REPEAT];
    size_t count = match->settings->repeat;

    match_divide(ratios, match->rates[DAEMON_BIDED], match->rates[DAEMON_BEANSTALKD], count);
    match_divide(cpu_ratios, match->cpu_us[DAEMON_BIDED], match->cpu_us[DAEMON_BEANSTALKD], count);
    report_servers(match, "ops/s", true, match->rates);
    match_line(match, &ratio, ratios);
    report_servers(match, "us of cpu per op", false, match->cpu_us);
    match_line(match, &cpu_ratio, cpu_ratios);
}
