/* SPDX-License-Identifier: MIT */
/*
 * recovery - how long a queue takes to come back with many jobs, and what they take in memory.
 *
 * The file is filled with ready jobs of random priorities straight through SQLite, as the store
 * would have written them. Then, in a fresh process each, and with the file in the page cache:
 * SQLite alone steps through the rows that a start reads; and a queue is opened, loads everything,
 * and takes jobs, whose bodies it mostly has to read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "child.h"
#include "folder.h"
#include "measure.h"
#include "raw.h"
#include "window.h"

#define WINDOW      1000
#define TAKEN       10000
#define LARGE_BODY  10240
#define PATIENCE_MS 600000

/* What the child tells, in this order. */
enum { OPEN_MS, RECOVERED_MS, RSS_MB, HWM_MB, TAKE_RATE, CLOSE_MS, TOLD };

static double millis_since(int64_t began_ns)
{
    return (double)(measure_now_ns() - began_ns) / 1e6;
}

/* ---- in the children ---- */

/* The argument is PATH. */
void bench_scan_child(char **arguments)
{
    int64_t began = measure_now_ns();
    int64_t ended;
    uint64_t count = raw_scan(arguments[0], &ended);

    child_report((double)(ended - began) / 1e6);
    child_report((double)count);
}

static double take_jobs(bide *queue, size_t body_size, uint64_t count)
{
    struct window *window = window_new(queue, WINDOW, body_size);
    int64_t began = measure_now_ns();
    uint64_t taken = window_take(window, count);
    int64_t ended = measure_now_ns();

    window_free(window);
    return (double)taken * 1e9 / (double)(ended - began);
}

/* The arguments are URL, BODY_SIZE and COUNT, the number of jobs to take in the end. */
void bench_recovery_child(char **arguments)
{
    double told[TOLD];
    bide_recovery progress;
    bide *queue = NULL;
    int64_t began = measure_now_ns();

    must("bide_open", bide_open(arguments[0], NULL, &queue));
    told[OPEN_MS] = millis_since(began);
    must("bide_wait_recovered", bide_wait_recovered(queue, PATIENCE_MS, &progress));
    told[RECOVERED_MS] = millis_since(began);
    if (progress.failed > 0)
        fail("%" PRIu64 " of %" PRIu64 " rows could not be loaded", progress.failed,
             progress.total);
    told[RSS_MB] = (double)measure_status_bytes("VmRSS") / 1e6;
    told[HWM_MB] = (double)measure_status_bytes("VmHWM") / 1e6;
    told[TAKE_RATE] =
        take_jobs(queue, strtoull(arguments[1], NULL, 10), strtoull(arguments[2], NULL, 10));
    began = measure_now_ns();
    must("bide_close", bide_close(queue));
    told[CLOSE_MS] = millis_since(began);
    for (size_t i = 0; i < TOLD; i++)
        child_report(told[i]);
}

/* ---- in the parent ---- */

struct recovery {
    const struct settings *settings;
    uint64_t jobs;
    size_t body_size;
    double told[TOLD][BENCH_MAX_REPEAT];
    double scan_ms[BENCH_MAX_REPEAT];
    double ratio[BENCH_MAX_REPEAT];
    double rss_per_job[BENCH_MAX_REPEAT];
    double file_mb[BENCH_MAX_REPEAT];
};

/* What was written is brought to the disk at once, lest that disturbs what is measured next. */
static void fill(const struct recovery *recovery, uint64_t count)
{
    struct raw *raw =
        raw_open(recovery->settings->folder->jobs, BIDE_SYNC_OFF, recovery->body_size);

    raw_fill(raw, count);
    raw_close(raw);
    folder_sync_file(recovery->settings->folder->jobs);
}

static double scan(const struct recovery *recovery)
{
    const char *const arguments[] = {recovery->settings->folder->jobs, NULL};
    double said[2];

    child_measure("--scan-child", arguments, said, 2);
    if ((uint64_t)said[1] != recovery->jobs)
        fail("the file has %.0f rows, not %" PRIu64, said[1], recovery->jobs);
    return said[0];
}

static void run(struct recovery *recovery, size_t at)
{
    char body_size[32];
    char count[32];
    double said[TOLD];

    snprintf(body_size, sizeof(body_size), "%zu", recovery->body_size);
    snprintf(count, sizeof(count), "%d", TAKEN);
    const char *const arguments[] = {recovery->settings->url, body_size, count, NULL};
    recovery->scan_ms[at] = scan(recovery);
    child_measure("--recovery-child", arguments, said, TOLD);
    for (size_t i = 0; i < TOLD; i++)
        recovery->told[i][at] = said[i];
    recovery->ratio[at] = said[RECOVERED_MS] / recovery->scan_ms[at];
    recovery->rss_per_job[at] = said[RSS_MB] * 1e6 / (double)recovery->jobs;
    recovery->file_mb[at] = (double)folder_file_bytes(recovery->settings->folder->jobs) / 1e6;
    fill(recovery, TAKEN);
}

static void report(const struct recovery *recovery, const char *figure, const char *unit,
                   double *runs, bool is_rate)
{
    const struct settings *settings = recovery->settings;
    const struct param params[] = {
        {"jobs", NULL, recovery->jobs},
        {"body", NULL, recovery->body_size},
        {"figure", figure, 0},
    };

    (is_rate ? report_rate : report_figure)(settings->report, "recovery", params, 3, unit, runs,
                                            settings->repeat);
}

static void report_all(struct recovery *recovery)
{
    report(recovery, "scan", "ms", recovery->scan_ms, false);
    report(recovery, "open", "ms", recovery->told[OPEN_MS], false);
    report(recovery, "recovered", "ms", recovery->told[RECOVERED_MS], false);
    report(recovery, "ratio", "x scan", recovery->ratio, false);
    report(recovery, "VmRSS", "MB", recovery->told[RSS_MB], false);
    report(recovery, "VmHWM", "MB", recovery->told[HWM_MB], false);
    report(recovery, "VmRSS/job", "bytes", recovery->rss_per_job, false);
    report(recovery, "take", "reserve+delete/s", recovery->told[TAKE_RATE], true);
    report(recovery, "close", "ms", recovery->told[CLOSE_MS], false);
    report(recovery, "file", "MB", recovery->file_mb, false);
}

/* Rows and pages that are not full take room beside the bodies. */
static bool has_room(const struct settings *settings, uint64_t jobs, size_t body_size)
{
    uint64_t needed = jobs * (body_size + body_size / 2 + 300);
    uint64_t available = folder_free_bytes();
    char note[120];

    if (needed <= available)
        return true;
    snprintf(note, sizeof(note),
             "%" PRIu64 " jobs of %zu bytes left out: %.1f GB of disk wanted, %.1f GB free", jobs,
             body_size, (double)needed / 1e9, (double)available / 1e9);
    report_note(settings->report, note);
    return false;
}

static void measure(const struct settings *settings, uint64_t jobs, size_t body_size)
{
    if (!has_room(settings, jobs, body_size))
        return;
    struct recovery *recovery = calloc(1, sizeof(*recovery));
    if (recovery == NULL)
        fail("out of memory");
    recovery->settings = settings;
    recovery->jobs = jobs;
    recovery->body_size = body_size;
    fill(recovery, jobs);
    scan(recovery);
    for (size_t i = 0; i < settings->repeat; i++)
        run(recovery, i);
    report_others(settings->report);
    report_all(recovery);
    free(recovery);
    folder_empty();
}

void bench_recovery(const struct settings *settings)
{
    uint64_t jobs = settings->quick ? 100000 : 1000000;

    measure(settings, jobs, BENCH_BODY_SIZE);
    measure(settings, jobs, LARGE_BODY);
    if (!settings->large)
        return;
    measure(settings, 10 * jobs, BENCH_BODY_SIZE);
    measure(settings, 10 * jobs, LARGE_BODY);
}
