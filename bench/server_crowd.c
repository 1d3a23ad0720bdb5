/* SPDX-License-Identifier: MIT */
/*
 * server_crowd - put+reserve+delete beside much that does nothing: watched tubes, workers that
 * wait, delayed jobs. Four servers run, an empty and a crowded one of each kind, and take turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "daemon.h"
#include "load.h"
#include "match.h"
#include "measure.h"
#include "pin.h"
#include "wire.h"

#define RUN_NS   500000000
#define QUICK_NS 50000000
/* What is asked: within 15 % of the empty server. */
#define ASKED       0.85
#define CONNECTIONS 1001 /* at most, of a crowd */
#define WATCHERS    10   /* connections that share the watching */

/* The connections that keep a crowd there. */
struct crowd {
    int fds[CONNECTIONS];
    size_t count;
};

static int join(struct crowd *crowd, const struct daemon *daemon)
{
    int fd = wire_connect(daemon->address);

    if (crowd->count == CONNECTIONS)
        fail("a crowd has too many connections");
    crowd->fds[crowd->count++] = fd;
    return fd;
}

static void leave(struct crowd *crowd)
{
    while (crowd->count > 0)
        close(crowd->fds[--crowd->count]);
}

/* ---- the crowds ---- */

static void watch_tubes(struct crowd *crowd, const struct daemon *daemon, uint64_t count)
{
    char command[64];
    char expected[64];

    for (uint64_t i = 0; i < WATCHERS; i++) {
        int fd = join(crowd, daemon);
        for (uint64_t n = 0; n < count / WATCHERS; n++) {
            snprintf(command, sizeof(command), "watch idle-%llu-%llu\r\n", (unsigned long long)i,
                     (unsigned long long)n);
            snprintf(expected, sizeof(expected), "WATCHING %llu\r\n", (unsigned long long)n + 2);
            wire_ask(fd, command, expected);
        }
    }
    wire_await_stat(crowd->fds[0], "stats", "current-tubes", count);
}

static void block_workers(struct crowd *crowd, const struct daemon *daemon, uint64_t count)
{
    static const char reserve[] = "reserve\r\n";
    int asking = join(crowd, daemon);

    wire_take_tube(asking, "elsewhere");
    for (uint64_t i = 0; i < count; i++) {
        int fd = join(crowd, daemon);
        wire_take_tube(fd, "elsewhere");
        wire_send(fd, reserve, strlen(reserve));
    }
    wire_await_stat(asking, "stats-tube elsewhere", "current-waiting", count);
}

static void put_delayed(struct crowd *crowd, const struct daemon *daemon, uint64_t count)
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
    wire_await_stat(join(crowd, daemon), "stats", "current-jobs-delayed", count);
}

static const struct kind {
    const char *name;
    const char *quick_name;
    uint64_t count;
    uint64_t quick_count;
    void (*gather)(struct crowd *crowd, const struct daemon *daemon, uint64_t count);
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

enum place { EMPTY, CROWDED, PLACES };

struct contest {
    const struct settings *settings;
    const struct pin *pin;
    const struct kind *kind;
    struct daemon daemons[PLACES][DAEMONS];
    struct crowd crowds[DAEMONS];
    struct match matches[PLACES];
};

static void open_contest(struct contest *contest)
{
    const struct kind *kind = contest->kind;

    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        const struct daemon_setup setup = {.kind = i, .core = contest->pin->server};
        struct daemon *crowded = &contest->daemons[CROWDED][i];
        daemon_start(&contest->daemons[EMPTY][i], contest->settings, &setup);
        daemon_start(crowded, contest->settings, &setup);
        kind->gather(&contest->crowds[i], crowded,
                     contest->settings->quick ? kind->quick_count : kind->count);
    }
}

static void close_contest(struct contest *contest)
{
    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        leave(&contest->crowds[i]);
        for (enum place place = 0; place < PLACES; place++)
            daemon_stop(&contest->daemons[place][i]);
    }
}

static void report_shape(struct contest *contest)
{
    double ratios[BENCH_MAX_REPEAT];
    struct match *empty = &contest->matches[EMPTY];
    struct match *crowded = &contest->matches[CROWDED];

    for (enum daemon_kind i = 0; i < DAEMONS; i++) {
        const char *name = daemon_name(i);
        const struct match_line rate = {name, "ops/s", true, 0};
        const struct match_line cpu = {name, "us of cpu per op", false, 0};
        const struct match_line ratio = {name, "of the empty server", true,
                                         i == DAEMON_BIDED ? ASKED : 0};
        match_divide(ratios, crowded->rates[i], empty->rates[i], contest->settings->repeat);
        match_line(empty, &rate, empty->rates[i]);
        match_line(crowded, &rate, crowded->rates[i]);
        match_line(crowded, &ratio, ratios);
        match_line(empty, &cpu, empty->cpu_us[i]);
        match_line(crowded, &cpu, crowded->cpu_us[i]);
    }
}

static void run_shape(struct contest *contest, size_t shape)
{
    const struct settings *settings = contest->settings;
    const struct load_plan plan = {
        .connections = shapes[shape].connections,
        .in_flight = shapes[shape].in_flight,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = LOAD_CYCLE,
        .duration_ns = settings->quick ? QUICK_NS : RUN_NS,
    };

    for (enum place place = 0; place < PLACES; place++)
        match_set_shape(&contest->matches[place], &plan);
    for (size_t run = 0; run < settings->repeat; run++) {
        for (size_t turn = 0; turn < PLACES * DAEMONS; turn++) {
            enum daemon_kind i = match_turn(run, turn);
            enum place place = (enum place)((run / DAEMONS + turn / DAEMONS) % PLACES);
            match_run(&contest->matches[place], run, &contest->daemons[place][i], &plan);
        }
    }
    report_shape(contest);
}

static void run_kind(const struct settings *settings, const struct pin *pin,
                     const struct kind *kind)
{
    struct contest *contest = calloc(1, sizeof(*contest));

    if (contest == NULL)
        fail("out of memory");
    contest->settings = settings;
    contest->pin = pin;
    contest->kind = kind;
    for (enum place place = 0; place < PLACES; place++) {
        struct match *match = &contest->matches[place];
        match->settings = settings;
        match->name = "server-crowd";
        match->work = "cycle";
        match->place = place == EMPTY ? "empty" : settings->quick ? kind->quick_name : kind->name;
        match->pin = pin->name;
    }
    open_contest(contest);
    for (size_t shape = 0; shape < SHAPES; shape++)
        run_shape(contest, shape);
    close_contest(contest);
    free(contest);
}

void bench_server_crowd(const struct settings *settings)
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
