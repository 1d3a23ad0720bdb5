/* SPDX-License-Identifier: MIT */
/*
 * server_durable - cycles, puts and a drain on servers that have everything on disk before they
 * answer: bided with sync=full, beanstalkd with -f 0. Beside them stands what SQLite itself does
 * with the same rows, in batches of a thousand, right before.
 *
 * beanstalkd syncs for each command, so it puts and drains fewer jobs: the rate is the same, and
 * the benchmark ends this day. Every run begins with an empty folder.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "compare.h"
#include "daemon.h"
#include "folder.h"
#include "load.h"
#include "measure.h"
#include "pin.h"
#include "raw.h"

#define RUN_NS    2000000000
#define QUICK_NS  50000000
#define RAW_BATCH 1000

enum part { PART_SINGLE, PART_CYCLE, PART_PIPELINED, PART_PUT, PART_DRAIN, PARTS };

static const struct {
    enum load_work work;
    size_t connections;
    size_t in_flight;
    struct compare_target asked;
    double asked_of_raw;
} parts[PARTS] = {
    [PART_SINGLE] = {LOAD_CYCLE, 1, 1, {0.9, 0}, 0},
    [PART_CYCLE] = {LOAD_CYCLE, 50, 1, {9, 0}, 0},
    [PART_PIPELINED] = {LOAD_CYCLE, 10, 64, {30, 0}, 0},
    [PART_PUT] = {LOAD_PUT, 10, 64, {30, 0}, 0.5},
    [PART_DRAIN] = {LOAD_DRAIN, 10, 64, {30, 0}, 0.5},
};

/* How many are put and drained. */
static const uint64_t jobs[DAEMONS] = {[DAEMON_BIDED] = 500000, [DAEMON_BEANSTALKD] = 20000};
static const uint64_t quick_jobs[DAEMONS] = {[DAEMON_BIDED] = 5000, [DAEMON_BEANSTALKD] = 200};

struct durable {
    const struct settings *settings;
    const struct pin *pin;
    const uint64_t *jobs;
    struct comparison matches[PARTS];
    double job_rates[PARTS][BENCH_MAX_REPEAT]; /* of bided: jobs a second */
    double raw_rates[PARTS][BENCH_MAX_REPEAT]; /* rows a second */
    double raw_cpu_us[PARTS][BENCH_MAX_REPEAT];
};

static void run_part(struct durable *durable, enum part part, size_t run,
                     const struct daemon *daemon)
{
    const struct load_plan plan = {
        .connections = parts[part].connections,
        .in_flight = parts[part].in_flight,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = parts[part].work,
        .jobs = parts[part].work == LOAD_CYCLE ? 0 : durable->jobs[daemon->kind],
        .duration_ns = durable->settings->quick ? QUICK_NS : RUN_NS,
    };

    compare_set_shape(&durable->matches[part], &plan);
    double rate = compare_run(&durable->matches[part], run, daemon, &plan);
    if (daemon->kind == DAEMON_BIDED)
        durable->job_rates[part][run] = rate;
}

static void run_server(struct durable *durable, size_t run, enum daemon_kind kind)
{
    const struct daemon_setup setup = {
        .kind = kind,
        .durable = true,
        .core = durable->pin->server,
    };
    struct daemon daemon = {0};

    folder_empty();
    daemon_start(&daemon, durable->settings, &setup);
    for (enum part part = 0; part < PARTS; part++)
        run_part(durable, part, run, &daemon);
    daemon_stop(&daemon);
}

/* Cycles have no counterpart. */
static void run_raw(struct durable *durable, size_t run)
{
    const struct settings *settings = durable->settings;
    uint64_t count = durable->jobs[DAEMON_BIDED];

    folder_empty();
    struct raw *raw = raw_open(settings->folder->raw, settings->sync, BENCH_BODY_SIZE);
    for (enum part part = PART_PUT; part <= PART_DRAIN; part++) {
        int64_t cpu_ns = measure_cpu_ns();
        double rate =
            part == PART_PUT ? raw_put(raw, count, RAW_BATCH) : raw_drain(raw, count, RAW_BATCH);
        durable->raw_rates[part][run] = rate;
        durable->raw_cpu_us[part][run] = (double)(measure_cpu_ns() - cpu_ns) / 1000 / (double)count;
    }
    raw_close(raw);
}

static void report_raw(struct durable *durable, enum part part)
{
    static const struct compare_line raw = {"raw", "rows/s", true, 0};
    static const struct compare_line raw_cpu = {"raw", "us of cpu per row", false, 0};
    static const struct compare_line own = {"bided", "jobs/s", true, 0};
    const struct compare_line ratio = {"ratio", "of raw", true, parts[part].asked_of_raw};
    struct comparison *comparison = &durable->matches[part];
    double ratios[BENCH_MAX_REPEAT];

    compare_divide(ratios, durable->job_rates[part], durable->raw_rates[part],
                   durable->settings->repeat);
    compare_line(comparison, &raw, durable->raw_rates[part]);
    compare_line(comparison, &own, durable->job_rates[part]);
    compare_line(comparison, &ratio, ratios);
    compare_line(comparison, &raw_cpu, durable->raw_cpu_us[part]);
}

static void run_pinned(struct durable *durable, const struct pin *pin)
{
    durable->pin = pin;
    for (enum part part = 0; part < PARTS; part++) {
        struct comparison *comparison = &durable->matches[part];
        comparison->settings = durable->settings;
        comparison->name = "server-durable";
        comparison->work = load_work_name(parts[part].work);
        comparison->place = "file";
        comparison->pin = pin->name;
    }
    for (size_t run = 0; run < durable->settings->repeat; run++) {
        run_raw(durable, run);
        for (size_t turn = 0; turn < DAEMONS; turn++)
            run_server(durable, run, compare_turn(run, turn));
    }
    for (enum part part = 0; part < PARTS; part++) {
        compare_report(&durable->matches[part], &parts[part].asked);
        if (parts[part].work != LOAD_CYCLE)
            report_raw(durable, part);
    }
}

void bench_server_durable(const struct settings *settings)
{
    struct pin modes[PIN_MODES];
    size_t mode_count = pin_modes(settings, modes);
    struct durable *durable = calloc(1, sizeof(*durable));
    char note[160];

    daemon_check(settings);
    if (durable == NULL)
        fail("out of memory");
    durable->settings = settings;
    durable->jobs = settings->quick ? quick_jobs : jobs;
    snprintf(note, sizeof(note),
             "put and drain are of %llu jobs; of beanstalkd, which is slow, %llu",
             (unsigned long long)durable->jobs[DAEMON_BIDED],
             (unsigned long long)durable->jobs[DAEMON_BEANSTALKD]);
    report_note(settings->report, note);
    for (size_t mode = 0; mode < mode_count; mode++) {
        pin_self(modes[mode].load);
        run_pinned(durable, &modes[mode]);
    }
    report_others(settings->report);
    free(durable);
}
