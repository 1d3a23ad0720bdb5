/* SPDX-License-Identifier: MIT */
/*
 * server_backlog - a million jobs with random priorities put into a server in memory and drained
 * from it, and what they take of its memory. Every run has a server of its own, which has not yet
 * had the memory that it needs.
 */
#include <stdlib.h>

#include "bench.h"
#include "compare.h"
#include "daemon.h"
#include "load.h"
#include "pin.h"

#define JOBS       1000000
#define QUICK_JOBS 10000

static const struct compare_target asked = {6, 0};

struct backlog {
    const struct settings *settings;
    const struct pin *pin;
    struct load_plan plan;
    struct comparison put;
    struct comparison drain;
    double bytes[DAEMONS][BENCH_MAX_REPEAT];
};

static void run_one(struct backlog *backlog, size_t run, enum daemon_kind kind)
{
    const struct daemon_setup setup = {.kind = kind, .core = backlog->pin->server};
    struct load_plan *plan = &backlog->plan;
    struct daemon daemon = {0};

    daemon_start(&daemon, backlog->settings, &setup);
    uint64_t before = daemon_rss_bytes(&daemon);
    plan->work = LOAD_PUT;
    compare_run(&backlog->put, run, &daemon, plan);
    backlog->bytes[kind][run] = (double)(daemon_rss_bytes(&daemon) - before) / (double)plan->jobs;
    plan->work = LOAD_DRAIN;
    compare_run(&backlog->drain, run, &daemon, plan);
    daemon_stop(&daemon);
}

static void report_memory(struct backlog *backlog)
{
    static const char unit[] = "bytes of memory per job, with its body of 100";
    const struct compare_line ratio = {"ratio", "of beanstalkd's memory per job", false, 1};
    double ratios[BENCH_MAX_REPEAT];

    backlog->put.work = "memory";
    compare_divide(ratios, backlog->bytes[DAEMON_BIDED], backlog->bytes[DAEMON_BEANSTALKD],
                   backlog->settings->repeat);
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++) {
        const struct compare_line line = {daemon_name(kind), unit, false, 0};
        compare_line(&backlog->put, &line, backlog->bytes[kind]);
    }
    compare_line(&backlog->put, &ratio, ratios);
}

static void run_pinned(const struct settings *settings, const struct pin *pin)
{
    struct backlog *backlog = calloc(1, sizeof(*backlog));

    if (backlog == NULL)
        fail("out of memory");
    *backlog = (struct backlog){
        .settings = settings,
        .pin = pin,
        .plan = {.connections = 10,
                 .in_flight = 64,
                 .body_size = BENCH_BODY_SIZE,
                 .tubes = 1,
                 .random_priorities = true,
                 .jobs = settings->quick ? QUICK_JOBS : JOBS},
        .put = {settings, "server-backlog", "put", "tcp", pin->name, "", {{0}}, {{0}}},
        .drain = {settings, "server-backlog", "drain", "tcp", pin->name, "", {{0}}, {{0}}},
    };
    compare_set_shape(&backlog->put, &backlog->plan);
    compare_set_shape(&backlog->drain, &backlog->plan);
    for (size_t run = 0; run < settings->repeat; run++) {
        for (size_t turn = 0; turn < DAEMONS; turn++)
            run_one(backlog, run, compare_turn(run, turn));
    }
    compare_report(&backlog->put, &asked);
    compare_report(&backlog->drain, &asked);
    report_memory(backlog);
    free(backlog);
}

void bench_server_backlog(const struct settings *settings)
{
    struct pin modes[PIN_MODES];
    size_t mode_count = pin_modes(settings, modes);

    daemon_check(settings);
    settings->report->url = "memory:";
    for (size_t mode = 0; mode < mode_count; mode++) {
        pin_self(modes[mode].load);
        run_pinned(settings, &modes[mode]);
    }
    report_others(settings->report);
}
