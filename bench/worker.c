/* SPDX-License-Identifier: MIT */
/*
 * worker - what a worker with an empty handler costs, beside the bare calls.
 *
 *     calls      4 threads, each put, reserve, delete in turn: what the others are compared with
 *     turns      4 threads put some thousand jobs, then a worker with 4 threads and an empty
 *                handler takes them, and so on
 *     apart      4 threads put, 4 others reserve and delete, by the same calls
 *     worker     4 threads put, a worker with 4 threads and an empty handler takes
 *     burst      the same, but nobody who puts waits for those who take
 *     handlers   a worker with 4 threads, whose handlers put the next job
 *     typed      4 threads publish a struct, a worker reads it
 *
 * What is asked for is asked of "turns": the same ops on as many threads as "calls". In "worker",
 * where who puts rests while a thousand jobs are ready, and in "burst", where nobody rests and a
 * backlog grows which leaves the processor's caches, 8 threads hand jobs from core to core: "apart"
 * says what that costs without a worker. "handlers" is a cycle by each of 4 threads, as in "calls".
 * Each run comes right after one of the calls, and its ratio is to that one. Where others use the
 * machine 8 threads get more of it than 4, and the rates flatter: there the processor time of a job
 * says more.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "callers.h"
#include "compare.h"
#include "folder.h"
#include "measure.h"
#include "throughput.h"

#define RUN_NS      1000000000
#define QUICK_NS    50000000
#define ASKED       0.6
#define MAX_RETRIES 25 /* what tasks have */

static double run_calls(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    return callers_cycle(queue, THROUGHPUT_THREADS, BENCH_BODY_SIZE, options, duration_ns);
}

struct way {
    const char *name;
    double (*run)(bide *queue, const bide_put_options *options, int64_t duration_ns);
    double asked; /* times the rate of the calls; 0: nothing */
};

static const struct way calls = {"calls", run_calls, 0};

static const struct way ways[] = {
    {"turns", throughput_alternating, ASKED}, {"handlers", throughput_circulate, 0},
    {"apart", throughput_reserve, 0},         {"worker", throughput_worker, 0},
    {"burst", throughput_burst, 0},
#ifdef BIDE_WITH_JSON
    {"typed", throughput_publish, 0},
#endif
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* With a retry limit the reserve is stored, too. */
static const struct place {
    const char *name;
    const char *sync; /* NULL: in memory */
    bool retries;
} places[] = {
    {"memory", NULL, false},   {"memory", NULL, true},
#ifdef BIDE_WITH_SQLITE
    {"sqlite", "full", false}, {"sqlite", "full", true},
    {"sqlite", "off", false},  {"sqlite", "off", true},
#endif
};

/* Of one way, or of the calls right before it. */
struct runs {
    double rates[BENCH_MAX_REPEAT];
    double cpu_us[BENCH_MAX_REPEAT];
};

struct work {
    const struct settings *settings;
    const struct place *place;
    char url[600];
    bide *queue;
    bide_put_options options;
    int64_t run_ns;
    struct runs calls[WAYS], ways[WAYS];
};

static uint64_t count_finished(bide *queue)
{
    bide_stats stats;

    must("bide_queue_stats", bide_queue_stats(queue, &stats));
    return stats.total.deletes;
}

static void run_way(const struct work *work, const struct way *way, struct runs *runs, size_t run)
{
    uint64_t before = count_finished(work->queue);
    int64_t cpu_ns = measure_own_cpu_ns();

    runs->rates[run] = way->run(work->queue, &work->options, work->run_ns);
    cpu_ns = measure_own_cpu_ns() - cpu_ns;
    runs->cpu_us[run] = (double)cpu_ns / 1000 / (double)(count_finished(work->queue) - before);
}

static void run_all(struct work *work)
{
    must("bide_open", bide_open(work->url, NULL, &work->queue));
    run_calls(work->queue, &work->options, work->run_ns / 2);
    for (size_t run = 0; run < work->settings->repeat; run++) {
        for (size_t i = 0; i < WAYS; i++) {
            run_way(work, &calls, &work->calls[i], run);
            run_way(work, &ways[i], &work->ways[i], run);
        }
    }
    must("bide_close", bide_close(work->queue));
}

static void report(struct work *work, const struct way *way, const char *unit, bool is_rate,
                   double *runs)
{
    const struct settings *settings = work->settings;
    const struct place *place = work->place;
    char asked[16] = "-";
    const struct param params[] = {
        {"place", place->name, 0},
        {"sync", place->sync == NULL ? "-" : place->sync, 0},
        {"retries", place->retries ? NULL : "no limit", MAX_RETRIES},
        {"by", way->name, 0},
        {"asked", asked, 0},
    };

    if (way->asked > 0 && is_rate)
        snprintf(asked, sizeof(asked), ">= %g", way->asked);
    settings->report->url = work->url;
    (is_rate ? report_rate : report_figure)(settings->report, "worker", params,
                                            sizeof(params) / sizeof(params[0]), unit, runs,
                                            settings->repeat);
}

static void report_ratios(struct work *work, size_t at)
{
    double ratios[BENCH_MAX_REPEAT];
    size_t count = work->settings->repeat;

    compare_divide(ratios, work->ways[at].rates, work->calls[at].rates, count);
    report(work, &ways[at], "times the rate of calls", true, ratios);
    compare_divide(ratios, work->ways[at].cpu_us, work->calls[at].cpu_us, count);
    report(work, &ways[at], "times the cpu of calls", false, ratios);
}

/* The ratios first: to be reported, runs are put in order. */
static void report_all(struct work *work)
{
    for (size_t i = 0; i < WAYS; i++)
        report_ratios(work, i);
    report(work, &calls, "jobs/s", true, work->calls[0].rates);
    report(work, &calls, "us of cpu per job", false, work->calls[0].cpu_us);
    for (size_t i = 0; i < WAYS; i++) {
        const struct way way = {.name = ways[i].name};
        report(work, &way, "jobs/s", true, work->ways[i].rates);
        report(work, &way, "us of cpu per job", false, work->ways[i].cpu_us);
    }
}

static void measure(struct work *work, const struct place *place)
{
    work->place = place;
    work->options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    if (place->retries)
        work->options.max_retries = MAX_RETRIES;
    if (place->sync == NULL)
        snprintf(work->url, sizeof(work->url), "memory:");
    else
        snprintf(work->url, sizeof(work->url), "sqlite:%s?sync=%s", work->settings->folder->jobs,
                 place->sync);
    run_all(work);
    report_all(work);
    folder_empty();
}

void bench_worker(const struct settings *settings)
{
    struct work *work = calloc(1, sizeof(*work));

    if (work == NULL)
        fail("out of memory");
    work->settings = settings;
    work->run_ns = settings->quick ? QUICK_NS : RUN_NS;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        measure(work, &places[i]);
    report_others(settings->report);
    free(work);
}
