/* SPDX-License-Identifier: MIT */
/*
 * server_idle_load - put+reserve+delete beside much that does nothing: watched tubes, workers that
 * wait, delayed jobs. Four servers run, an empty and a crowded one of each kind, and take turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "compare.h"
#include "daemon.h"
#include "load.h"
#include "measure.h"
#include "pin.h"
#include "wire.h"

#define RUN_NS   500000000
#define QUICK_NS 50000000
/* What is asked: within 15 % of the empty server. */
#define TARGET_RATIO 0.85
#define CONNECTIONS  1001 /* at most, of a crowd */
#define WATCHERS     10   /* connections that share the watching */

/* The connections that keep a crowd there. */
struct idle_load {
    int fds[CONNECTIONS];
    size_t count;
};

static int connect_idle(struct idle_load *idle_load, const struct daemon *daemon)
{
    int fd = wire_connect(daemon->address);

    if (idle_load->count == CONNECTIONS)
        fail("a crowd has too many connections");
    idle_load->fds[idle_load->count++] = fd;
    return fd;
}

static void disconnect_idle(struct idle_load *idle_load)
{
    while (idle_load->count > 0)
        close(idle_load->fds[--idle_load->count]);
}

/* ---- the crowds ---- */

static void watch_tubes(struct idle_load *idle_load, const struct daemon *daemon, uint64_t count)
{
    char command[64];
    char expected[64];

    for (uint64_t i = 0; i < WATCHERS; i++) {
        int fd = connect_idle(idle_load, daemon);
        for (uint64_t n = 0; n < count / WATCHERS; n++) {
            snprintf(command, sizeof(command), "watch idle-%llu-%llu\r\n", (unsigned long long)i,
                     (unsigned long long)n);
            snprintf(expected, sizeof(expected), "WATCHING %llu\r\n", (unsigned long long)n + 2);
            wire_ask(fd, command, expected);
        }
    }
    wire_await_stat(idle_load->fds[0], "stats", "current-tubes", count);
}

static void block_workers(struct idle_load *idle_load, const struct daemon *daemon, uint64_t count)
{
    static const char reserve[] = "reserve\r\n";
    int asking = connect_idle(idle_load, daemon);

    wire_take_tube(asking, "elsewhere");
    for (uint64_t i = 0; i < count; i++) {
        int fd = connect_idle(idle_load, daemon);
        wire_take_tube(fd, "elsewhere");
        wire_send(fd, reserve, strlen(reserve));
    }
    wire_await_stat(asking, "stats-tube elsewhere", "current-waiting", count);
}

static void put_delayed(struct idle_load *idle_load, const struct daemon *daemon, uint64_t count)
{
    const struct load_plan plan = {
        .connections = 10,
        .in_flight = 64,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = LOAD_PUT,
        .delayed = true,
        .jobs = count,
    };
    struct load_result result;

    load_run(daemon->address, &plan, &result);
    wire_await_stat(connect_idle(idle_load, daemon), "stats", "current-jobs-delayed", count);
}

static const struct kind {
    const char *name;
    const char *quick_name;
    uint64_t count;
    uint64_t quick_count;
    void (*add)(struct idle_load *idle_load, const struct daemon *daemon, uint64_t count);
} kinds[] = {
    {"10k tubes", "500 tubes", 10000, 500, watch_tubes},
    {"1k workers", "50 workers", 1000, 50, block_workers},
    {"1M delayed", "5k delayed", 1000000, 5000, put_delayed},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct {
    size_t connections;
    size_t in_flight;
} shapes[] = {{50, 1}, {10, 64}};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* ---- the runs ---- */

enum place { EMPTY, LOADED, PLACES };

struct comparison_run {
    const struct settings *settings;
    const struct pin *pin;
    const struct kind *kind;
    struct daemon daemons[PLACES][DAEMONS];
    struct idle_load idle_loads[DAEMONS];
    struct comparison matches[PLACES];
};

static void start_servers(struct comparison_run *comparison_run)
{
    const struct kind *kind = comparison_run->kind;

    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        const struct daemon_setup setup = {.kind = i, .core = comparison_run->pin->server};
        struct daemon *loaded = &comparison_run->daemons[LOADED][i];
        daemon_start(&comparison_run->daemons[EMPTY][i], comparison_run->settings, &setup);
        daemon_start(loaded, comparison_run->settings, &setup);
        kind->add(&comparison_run->idle_loads[i], loaded,
                  comparison_run->settings->quick ? kind->quick_count : kind->count);
    }
}

static void stop_servers(struct comparison_run *comparison_run)
{
    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        disconnect_idle(&comparison_run->idle_loads[i]);
        for (enum place place = 0; place < PLACES; place++)
            daemon_stop(&comparison_run->daemons[place][i]);
    }
}

static void report_shape(struct comparison_run *comparison_run)
{
    double ratios[BENCH_MAX_REPEAT];
    struct comparison *empty = &comparison_run->matches[EMPTY];
    struct comparison *loaded = &comparison_run->matches[LOADED];

    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        const char *name = daemon_name(i);
        const struct compare_line rate = {name, "ops/s", true, 0};
        const struct compare_line cpu = {name, "us of cpu per op", false, 0};
        const struct compare_line ratio = {name, "of the empty server", true,
                                           i == DAEMON_BIDED ? TARGET_RATIO : 0};
        compare_divide(ratios, loaded->rates[i], empty->rates[i], comparison_run->settings->repeat);
        compare_line(empty, &rate, empty->rates[i]);
        compare_line(loaded, &rate, loaded->rates[i]);
        compare_line(loaded, &ratio, ratios);
        compare_line(empty, &cpu, empty->cpu_us[i]);
        compare_line(loaded, &cpu, loaded->cpu_us[i]);
    }
}

static void run_shape(struct comparison_run *comparison_run, size_t shape)
{
    const struct settings *settings = comparison_run->settings;
    const struct load_plan plan = {
        .connections = shapes[shape].connections,
        .in_flight = shapes[shape].in_flight,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = LOAD_CYCLE,
        .duration_ns = settings->quick ? QUICK_NS : RUN_NS,
    };

    for (enum place place = 0; place < PLACES; place++)
        compare_set_shape(&comparison_run->matches[place], &plan);
    for (size_t run = 0; run < settings->repeat; run++) {
        for (size_t turn = 0; turn < PLACES * DAEMONS; turn++) {
            enum daemon_kind i = compare_turn(run, turn);
            enum place place = (enum place)((run / DAEMONS + turn / DAEMONS) % PLACES);
            compare_run(&comparison_run->matches[place], run, &comparison_run->daemons[place][i],
                        &plan);
        }
    }
    report_shape(comparison_run);
}

static void run_kind(const struct settings *settings, const struct pin *pin,
                     const struct kind *kind)
{
    struct comparison_run *comparison_run = calloc(1, sizeof(*comparison_run));

    if (comparison_run == NULL)
        fail("out of memory");
    comparison_run->settings = settings;
    comparison_run->pin = pin;
    comparison_run->kind = kind;
    for (enum place place = 0; place < PLACES; place++) {
        struct comparison *comparison = &comparison_run->matches[place];
        comparison->settings = settings;
        comparison->name = "server-crowd";
        comparison->work = "cycle";
        comparison->place = place == EMPTY    ? "empty"
                            : settings->quick ? kind->quick_name
                                              : kind->name;
        comparison->pin = pin->name;
    }
    start_servers(comparison_run);
    for (size_t shape = 0; shape < SHAPES; shape++)
        run_shape(comparison_run, shape);
    stop_servers(comparison_run);
    free(comparison_run);
}

void bench_server_idle_load(const struct settings *settings)
{
    struct pin modes[PIN_MODES];
    size_t mode_count = pin_modes(settings, modes);

    daemon_check(settings);
    settings->report->url = "memory:";
    for (size_t mode = 0; mode < mode_count; mode++) {
        pin_self(modes[mode].load);
        for (size_t i = 0; i < KINDS; i++)
            run_kind(settings, &modes[mode], &kinds[i]);
    }
    report_others(settings->report);
}
