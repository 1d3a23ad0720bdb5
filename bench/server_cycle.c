/* SPDX-License-Identifier: MIT */
/*
 * server_cycle - put+reserve+delete by many connections and by one, with many commands in flight
 * and with one, over TCP and over a unix socket, on servers in memory.
 */
#include "bench.h"
#include "compare.h"
#include "daemon.h"
#include "folder.h"
#include "load.h"
#include "pin.h"

#define RUN_NS   1000000000
#define QUICK_NS 50000000

static const struct figure {
    size_t connections;
    size_t in_flight;
    bool on_unix;
    struct compare_target asked;
} figures[] = {
    {10, 64, false, {10, 0}}, {50, 1, false, {1.15, 0.75}}, {1, 1, false, {1, 0}},
    {10, 64, true, {10, 0}},  {50, 1, true, {1.15, 0.75}},  {1, 1, true, {1, 0}},
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static void start_both(const struct settings *settings, const struct figure *figure,
                       const struct pin *pin, struct daemon daemons[DAEMONS])
{
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++) {
        const struct daemon_setup setup = {
            .kind = kind,
            .on_unix = figure->on_unix,
            .core = pin->server,
        };
        daemon_start(&daemons[kind], settings, &setup);
    }
}

static void run_figure(const struct settings *settings, const struct figure *figure,
                       const struct pin *pin)
{
    struct daemon daemons[DAEMONS] = {{0}};
    struct comparison comparison = {
        .settings = settings,
        .name = "server-cycle",
        .work = "cycle",
        .place = figure->on_unix ? "unix" : "tcp",
        .pin = pin->name,
    };
    struct load_plan plan = {
        .connections = figure->connections,
        .in_flight = figure->in_flight,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = LOAD_CYCLE,
        .duration_ns = QUICK_NS,
    };

    compare_set_shape(&comparison, &plan);
    start_both(settings, figure, pin, daemons);
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++)
        compare_run(&comparison, 0, &daemons[kind], &plan);
    plan.duration_ns = settings->quick ? QUICK_NS : RUN_NS;
    for (size_t run = 0; run < settings->repeat; run++) {
        for (size_t turn = 0; turn < DAEMONS; turn++)
            compare_run(&comparison, run, &daemons[compare_turn(run, turn)], &plan);
    }
    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++)
        daemon_stop(&daemons[kind]);
    folder_empty();
    compare_report(&comparison, &figure->asked);
}

void bench_server_cycle(const struct settings *settings)
{
    struct pin modes[PIN_MODES];
    size_t mode_count = pin_modes(settings, modes);

    daemon_check(settings);
    settings->report->url = "memory:";
    for (size_t mode = 0; mode < mode_count; mode++) {
        pin_self(modes[mode].load);
        for (size_t i = 0; i < FIGURES; i++)
            run_figure(settings, &figures[i], &modes[mode]);
    }
    report_others(settings->report);
}
