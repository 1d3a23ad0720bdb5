/* SPDX-License-Identifier: MIT */
/*
 * growth - how large the files become: over many cycles beside a steady backlog, and with a large
 * backlog that is put, drained and gone.
 *
 * The cycles have many jobs on their way at once. In a topic of equal priorities the oldest job is
 * taken, so the backlog moves on with every cycle, and no row stays where it was. There is one
 * run: a file has a history.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"
#include "folder.h"
#include "measure.h"
#include "window.h"

#define WINDOW       4000
#define BACKLOG      10000
#define SAMPLES      10
#define LARGE_COUNT  200000
#define QUICK_COUNT  20000
#define LARGE_BODY   1024
#define IDLE_SECONDS 5

static void report_size(const struct settings *settings, const char *phase, uint64_t cycles,
                        const char *file, uint64_t bytes)
{
    const struct param params[] = {
        {"phase", phase, 0},
        {"cycles", NULL, cycles},
        {"file", file, 0},
    };
    double size = (double)bytes / 1e6;

    report_figure(settings->report, "growth", params, 3, "MB", &size, 1);
}

static void sample(const struct settings *settings, const char *phase, uint64_t cycles)
{
    const char *path = settings->folder->jobs;

    report_size(settings, phase, cycles, "db", folder_file_bytes(path));
    report_size(settings, phase, cycles, "wal", folder_log_bytes(path));
}

static void report_speed(const struct settings *settings, const char *phase, uint64_t cycles,
                         int64_t took_ns)
{
    const struct param params[] = {
        {"phase", phase, 0},
        {"cycles", NULL, cycles},
        {"file", "both", 0},
    };
    double rate = (double)cycles * 1e9 / (double)took_ns;

    report_rate(settings->report, "growth", params, 3, "cycles/s", &rate, 1);
}

static uint64_t run_cycles(const struct settings *settings, bide *queue)
{
    struct window *window = window_new(queue, WINDOW, BENCH_BODY_SIZE);
    uint64_t each = (settings->cycles + SAMPLES - 1) / SAMPLES;
    uint64_t cycles = 0;
    int64_t began = measure_now_ns();

    window_put(window, BACKLOG);
    sample(settings, "steady", 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        cycles += window_cycle(window, each, INT64_MAX);
        sample(settings, "steady", cycles);
    }
    report_speed(settings, "steady", cycles, measure_now_ns() - began);
    window_take(window, BACKLOG);
    window_free(window);
    sample(settings, "emptied", cycles);
    return cycles;
}

static void run_backlog(const struct settings *settings, bide *queue, uint64_t cycles)
{
    uint64_t count = settings->quick ? QUICK_COUNT : LARGE_COUNT;
    struct window *window = window_new(queue, WINDOW, LARGE_BODY);
    int64_t began = measure_now_ns();

    window_put(window, count);
    sample(settings, "peak", cycles + count);
    window_take(window, count);
    report_speed(settings, "large", count, measure_now_ns() - began);
    sample(settings, "drained", cycles + count);
    window_free(window);
    for (int i = 0; i < IDLE_SECONDS; i++)
        measure_sleep_us(1000000);
    sample(settings, "idle", cycles + count);
}

void bench_growth(const struct settings *settings)
{
    bide *queue = NULL;
    uint64_t count = settings->quick ? QUICK_COUNT : LARGE_COUNT;

    must("bide_open", bide_open(settings->url, NULL, &queue));
    uint64_t cycles = run_cycles(settings, queue);
    run_backlog(settings, queue, cycles);
    must("bide_close", bide_close(queue));
    sample(settings, "closed", cycles + count);
    report_others(settings->report);
}
