/* SPDX-License-Identifier: MIT */
/*
 * durable - put+reserve+delete on a file, by blocking callers and through the asynchronous
 * interface, beside what SQLite itself does with the same rows on the same disk.
 *
 * A disk is not the same from one second to the next. So every run of the queue comes right after
 * a run of the raw loop that it is compared with, and the ratio is that of these two.
 */
#include <stdlib.h>

#include "bench.h"
#include "callers.h"
#include "folder.h"
#include "measure.h"
#include "raw.h"
#include "window.h"

#define WINDOW     4000
#define WAKES      1000
#define LARGE_BODY 10240
#define RUN_NS     2000000000
#define QUICK_NS   300000000

/* One row: what is measured, and beside which raw loop. */
static const struct subject {
    size_t callers; /* 0: one thread with a window of ops */
    size_t raw_batch;
    size_t body_size;
} subjects[] = {
    {1, 1, BENCH_BODY_SIZE},       {8, 1000, BENCH_BODY_SIZE}, {64, 1000, BENCH_BODY_SIZE},
    {1000, 1000, BENCH_BODY_SIZE}, {0, 1000, BENCH_BODY_SIZE}, {0, 1000, LARGE_BODY},
};

#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

struct durable {
    const struct settings *settings;
    int64_t run_ns;
    struct raw *raw, *raw_large;
    double raw_rates[SUBJECTS][BENCH_MAX_REPEAT];
    double rates[SUBJECTS][BENCH_MAX_REPEAT];
    double ratios[SUBJECTS][BENCH_MAX_REPEAT];
    double wakes[BENCH_MAX_REPEAT];
};

static double run_window(bide *queue, const struct subject *subject, int64_t duration_ns)
{
    struct window *window = window_new(queue, WINDOW, subject->body_size);
    int64_t began = measure_now_ns();
    uint64_t cycles = window_cycle(window, UINT64_MAX, began + duration_ns);
    int64_t ended = measure_now_ns();

    window_free(window);
    return (double)cycles * 1e9 / (double)(ended - began);
}

static double run_queue(bide *queue, const struct subject *subject, int64_t duration_ns)
{
    if (subject->callers == 0)
        return run_window(queue, subject, duration_ns);
    return callers_cycle(queue, subject->callers, subject->body_size, NULL, duration_ns);
}

static void run_raw(struct durable *durable, size_t at, size_t run)
{
    const struct subject *subject = &subjects[at];
    struct raw *raw = subject->body_size == BENCH_BODY_SIZE ? durable->raw : durable->raw_large;

    durable->raw_rates[at][run] = raw_cycles(raw, subject->raw_batch, durable->run_ns);
}

static void run_all(struct durable *durable)
{
    bide *queue = NULL;

    must("bide_open", bide_open(durable->settings->url, NULL, &queue));
    run_queue(queue, &subjects[SUBJECTS - 2], durable->run_ns / 2);
    raw_cycles(durable->raw, 1000, durable->run_ns / 2);
    for (size_t run = 0; run < durable->settings->repeat; run++) {
        durable->wakes[run] = callers_wake(WAKES, durable->run_ns / 2);
        for (size_t i = 0; i < SUBJECTS; i++) {
            run_raw(durable, i, run);
            durable->rates[i][run] = run_queue(queue, &subjects[i], durable->run_ns);
            durable->ratios[i][run] = durable->rates[i][run] / durable->raw_rates[i][run];
        }
    }
    must("bide_close", bide_close(queue));
}

static void report(struct durable *durable, size_t at, const char *by, size_t width,
                   const char *unit, double *runs)
{
    const struct settings *settings = durable->settings;
    const struct param params[] = {
        {"by", by, 0},
        {"at_once", NULL, width},
        {"body", NULL, subjects[at].body_size},
        {"sync", folder_sync_name(settings->sync), 0},
    };

    report_rate(settings->report, "durable", params, sizeof(params) / sizeof(params[0]), unit, runs,
                settings->repeat);
}

/* A cycle of a caller that blocks has two of them: until its put is stored, and its delete. */
static void report_wakes(struct durable *durable)
{
    const struct settings *settings = durable->settings;
    const struct param params[] = {
        {"by", "wake", 0},
        {"at_once", NULL, WAKES},
        {"body", "-", 0},
        {"sync", "-", 0},
    };

    report_rate(settings->report, "durable", params, sizeof(params) / sizeof(params[0]), "wakes/s",
                durable->wakes, settings->repeat);
}

static void report_subject(struct durable *durable, size_t at)
{
    const struct subject *subject = &subjects[at];
    const char *by = subject->callers == 0 ? "submit" : "calls";
    size_t width = subject->callers == 0 ? WINDOW : subject->callers;

    report(durable, at, "raw", subject->raw_batch, "cycles/s", durable->raw_rates[at]);
    report(durable, at, by, width, "cycles/s", durable->rates[at]);
    report(durable, at, by, width, subject->raw_batch == 1 ? "x raw(1)" : "x raw(1000)",
           durable->ratios[at]);
}

void bench_durable(const struct settings *settings)
{
    struct durable *durable = calloc(1, sizeof(*durable));

    if (durable == NULL)
        fail("out of memory");
    durable->settings = settings;
    durable->run_ns = settings->quick ? QUICK_NS : RUN_NS;
    durable->raw = raw_open(settings->folder->raw, settings->sync, BENCH_BODY_SIZE);
    durable->raw_large = raw_open(settings->folder->large, settings->sync, LARGE_BODY);
    run_all(durable);
    report_others(settings->report);
    for (size_t i = 0; i < SUBJECTS; i++)
        report_subject(durable, i);
    report_wakes(durable);
    raw_close(durable->raw_large);
    raw_close(durable->raw);
    free(durable);
}
