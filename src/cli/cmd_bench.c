/* SPDX-License-Identifier: MIT */
/*
 * cmd_bench.c - a quick benchmark of any queue, in a topic of its own that is removed afterwards.
 *
 * In each phase the threads take the jobs of one step, run the step and record how long it took,
 * until all jobs are processed, a step fails or a signal comes. A step that has begun is completed.
 */
#include "cli/query.h"
#include "util/clock.h"
#include "util/histogram.h"
#include "util/thread.h"

#include <assert.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX        256
#define STEP_JOBS          100   /* jobs of a step, at most */
#define RESERVE_TIMEOUT_MS 10000 /* for a job that is there */
#define TTR_MS             120000
#define HEADERS            "WHAT|>JOBS|>SECONDS|>JOBS/S|>P50|>P90|>P99|>MAX"

static uint64_t jobs = 10000, threads = 4, body_size = 100;

struct bench {
    const struct cli *cli;
    struct table *table; /* NULL with --json */
    char topic[64];
    char *body;

    const struct phase *phase;       /* the current one; what follows is of it */
    size_t step_jobs;                /* 1 to STEP_JOBS */
    atomic_uint_least64_t jobs_left; /* not yet taken by a thread */
    atomic_uint_least64_t done_jobs; /* of steps that are done */
    atomic_size_t running_threads;
    atomic_int code;             /* of the first step that failed */
    char error[BIDE_ERROR_SIZE]; /* its text, written before its thread ends */
    double seconds;
    struct histogram steps; /* in nanoseconds */
};

struct phase {
    const char *name;  /* in JSON */
    const char *title; /* to people */
    /* Runs one step with so many jobs. Returns BIDE_OK, or the code of a failed call, of which
     * bide_last_error() has the text. */
    int (*step)(const struct bench *bench, size_t count);
    bool many;
};

/* ---- the steps ---- */

static const bide_put_options put_options = {
    .size = sizeof(bide_put_options),
    .priority = BIDE_DEFAULT_PRIORITY,
    .ttr_ms = TTR_MS,
    .max_retries = BIDE_NO_RETRY_LIMIT,
};

static int put_one(const struct bench *bench, size_t count)
{
    (void)count;
    return bide_put(bench->cli->queue, bench->topic, bench->body, body_size, &put_options, NULL);
}

/* Returns BIDE_TIMED_OUT if there is no job. */
static int take_one(const struct bench *bench, int64_t timeout_ms)
{
    bide_job job;

    int code = bide_reserve(bench->cli->queue, bench->topic, timeout_ms, &job);
    if (code != BIDE_OK)
        return code;
    code = bide_delete(bench->cli->queue, job.id, job.token);
    bide_job_clear(&job);
    return code;
}

static int reserve_one(const struct bench *bench, size_t count)
{
    (void)count;
    return take_one(bench, RESERVE_TIMEOUT_MS);
}

static int cycle(const struct bench *bench, size_t count)
{
    int code = put_one(bench, count);
    return code == BIDE_OK ? reserve_one(bench, count) : code;
}

static int put_many(const struct bench *bench, size_t count)
{
    bide_put_item items[STEP_JOBS];

    for (size_t i = 0; i < count; i++)
        items[i] = (bide_put_item){.topic = {bench->topic, strlen(bench->topic)},
                                   .body = {bench->body, body_size},
                                   .options = &put_options};
    int code = bide_put_many(bench->cli->queue, items, count, NULL);
    for (size_t i = 0; i < count && code == BIDE_OK; i++)
        code = items[i].status;
    return code;
}

static int delete_all(const struct bench *bench, bide_job *taken, size_t count)
{
    bide_finish_item items[STEP_JOBS];

    for (size_t i = 0; i < count; i++) {
        items[i] = (bide_finish_item){.id = taken[i].id, .token = taken[i].token};
        bide_job_clear(&taken[i]);
    }
    int code = bide_finish_many(bench->cli->queue, items, count);
    for (size_t i = 0; i < count && code == BIDE_OK; i++)
        code = items[i].status;
    return code;
}

static int reserve_many(const struct bench *bench, size_t count)
{
    bide_slice topic = {bench->topic, strlen(bench->topic)};
    bide_job taken[STEP_JOBS];

    while (count > 0) {
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = RESERVE_TIMEOUT_MS,
                                  .jobs = taken,
                                  .job_max = count};
        int code = bide_reserve_many(bench->cli->queue, &args);
        if (code == BIDE_OK)
            code = delete_all(bench, taken, args.count);
        if (code != BIDE_OK)
            return code;
        count -= args.count;
    }
    return BIDE_OK;
}

static const struct phase phases[] = {
    {"put", "put", put_one, false},
    {"take", "reserve, delete", reserve_one, false},
    {"put_many", "put, many at once", put_many, true},
    {"take_many", "reserve, delete, many", reserve_many, true},
    {"cycle", "put, reserve, delete", cycle, false},
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

/* ---- threads ---- */

struct bench_thread {
    struct bench *bench;
    pthread_t thread;
    struct histogram steps;
    uint64_t ended_ns; /* when it had nothing more to do */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Takes the jobs of the next step; 0: the phase is over. */
static size_t take_jobs(struct bench *bench)
{
    uint64_t left = atomic_load(&bench->jobs_left), taken;

    if (atomic_load(&bench->code) != BIDE_OK || bi_interrupted())
        return 0;
    do {
        taken = left < bench->step_jobs ? left : bench->step_jobs;
    } while (taken > 0 && !atomic_compare_exchange_weak(&bench->jobs_left, &left, left - taken));
    return (size_t)taken;
}

static void *run_thread(void *arg)
{
    struct bench_thread *bench_thread = arg;
    struct bench *bench = bench_thread->bench;

    for (size_t count; (count = take_jobs(bench)) > 0;) {
        uint64_t began = now_ns();
        int code = bench->phase->step(bench, count), none = BIDE_OK;
        if (code != BIDE_OK) {
            if (atomic_compare_exchange_strong(&bench->code, &none, code))
                snprintf(bench->error, sizeof(bench->error), "%s", bide_last_error());
            break;
        }
        bi_histogram_add(&bench_thread->steps, now_ns() - began);
        atomic_fetch_add(&bench->done_jobs, count);
    }
    bench_thread->ended_ns = now_ns();
    atomic_fetch_sub(&bench->running_threads, 1);
    return NULL;
}

static void show_progress(struct bench *bench)
{
    struct progress progress;

    bi_progress_begin(&progress, bench->cli, bench->phase->name, jobs);
    while (atomic_load(&bench->running_threads) > 0) {
        poll(NULL, 0, 5);
        bi_progress_set(&progress, atomic_load(&bench->done_jobs));
    }
    bi_progress_end(&progress);
}

/* Runs the steps of a phase on all threads. Returns BI_EXIT_OK also if a step failed or a signal
 * came: bench->code and bi_interrupted() tell. */
static int run_threads(struct bench *bench)
{
    struct bench_thread *workers = calloc(threads, sizeof(*workers));
    uint64_t began = now_ns(), ended_ns = began;
    size_t count = 0;

    if (workers == NULL)
        return bi_cli_error(bench->cli, BI_EXIT_FAILED, "out of memory");
    atomic_store(&bench->running_threads, threads);
    for (; count < threads; count++) {
        workers[count].bench = bench;
        if (!bi_thread_start(&workers[count].thread, run_thread, &workers[count]))
            break;
    }
    atomic_fetch_sub(&bench->running_threads, threads - count);
    show_progress(bench);

    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        bi_histogram_merge(&bench->steps, &workers[i].steps);
        if (workers[i].ended_ns > ended_ns)
            ended_ns = workers[i].ended_ns;
    }
    bench->seconds = (double)(ended_ns - began) / 1e9;
    free(workers);
    if (count < threads)
        return bi_cli_error(bench->cli, BI_EXIT_FAILED, "cannot create thread %zu of %zu", count,
                            (size_t)threads);
    return BI_EXIT_OK;
}

/* ---- showing ---- */

/* Lines come one by one: cells are as wide as those that may follow. */
static void add_duration(struct table *table, uint64_t ns)
{
    double us = (double)ns / 1000;
    char text[32];

    if (us < 1000)
        snprintf(text, sizeof(text), "%.0fus", us);
    else if (us < 1e6)
        snprintf(text, sizeof(text), "%.1fms", us / 1e3);
    else
        snprintf(text, sizeof(text), "%.2fs", us / 1e6);
    bi_table_cell(table, BI_STYLE_OFF, "%7s", text);
}

static int show(struct bench *bench)
{
    uint64_t done = atomic_load(&bench->done_jobs);
    uint64_t rate = bench->seconds > 0 ? (uint64_t)((double)done / bench->seconds) : 0;
    uint64_t p50 = bi_histogram_quantile(&bench->steps, 0.5);
    uint64_t p90 = bi_histogram_quantile(&bench->steps, 0.9);
    uint64_t p99 = bi_histogram_quantile(&bench->steps, 0.99);
    struct table *table = bench->table;

    if (bench->cli->json)
        return bi_cli_print_json(
            bench->cli,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "phase",
                      bench->phase->name, "jobs", (json_int_t)done, "elapsed_ms",
                      (json_int_t)(bench->seconds * 1e3), "jobs_per_second", (json_int_t)rate,
                      "threads", (json_int_t)threads, "body_size", (json_int_t)body_size,
                      "step_jobs", (json_int_t)bench->step_jobs, "p50_us", (json_int_t)(p50 / 1000),
                      "p90_us", (json_int_t)(p90 / 1000), "p99_us", (json_int_t)(p99 / 1000),
                      "max_us", (json_int_t)(bench->steps.max / 1000)));

    bi_table_cell(table, BI_STYLE_OFF, "%-21s", bench->phase->title);
    bi_table_number(table, BI_STYLE_OFF, done);
    bi_table_cell(table, BI_STYLE_OFF, "%8.3f", bench->seconds);
    bi_table_cell(table, BI_STYLE_GOOD, "%9s", bi_text_count(bench->cli, rate).s);
    add_duration(table, p50);
    add_duration(table, p90);
    add_duration(table, p99);
    add_duration(table, bench->steps.max);
    bi_table_flush(table);
    return bi_cli_flush(bench->cli);
}

/* ---- the verb ---- */

static int measure(struct bench *bench, const struct phase *phase)
{
    size_t fit = body_size == 0 ? STEP_JOBS : (size_t)(BIDE_BATCH_BYTES / body_size);

    bench->phase = phase;
    bench->step_jobs = !phase->many || fit == 0 ? 1 : fit < STEP_JOBS ? fit : STEP_JOBS;
    atomic_store(&bench->jobs_left, jobs);
    atomic_store(&bench->done_jobs, 0);
    memset(&bench->steps, 0, sizeof(bench->steps));
    assert(bench->step_jobs >= 1 && bench->step_jobs <= STEP_JOBS);

    int exit = run_threads(bench), code = atomic_load(&bench->code);
    assert(atomic_load(&bench->running_threads) == 0);
    if (exit == BI_EXIT_OK && code != BIDE_OK)
        exit = bi_cli_report(bench->cli, phase->title, code, bench->error);
    if (exit == BI_EXIT_OK && !bi_interrupted())
        exit = show(bench);
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

static int clean_up(const struct bench *bench)
{
    int code = bide_purge(bench->cli->queue, bench->topic, BIDE_STATE_READY, NULL);

    /* A queue without purge. */
    if (code == BIDE_ENOTSUP) {
        while ((code = take_one(bench, 0)) == BIDE_OK)
            continue;
        code = code == BIDE_TIMED_OUT ? BIDE_OK : code;
    }
    if (code == BIDE_OK)
        return BI_EXIT_OK;
    bi_cli_note(bench->cli, "jobs of the benchmark may be left in topic %s", bench->topic);
    return bi_cli_report_last(bench->cli, code);
}

static int measure_all(struct bench *bench)
{
    const struct cli *cli = bench->cli;
    int exit = BI_EXIT_OK;

    bench->table = cli->json ? NULL : bi_table_new(cli, HEADERS);
    for (size_t i = 0; i < PHASES && exit == BI_EXIT_OK; i++)
        exit = measure(bench, &phases[i]);
    bi_table_free(bench->table);

    int cleaned = clean_up(bench);
    if (bi_interrupted())
        bi_cli_note(cli, "interrupted; %s",
                    cleaned == BI_EXIT_OK ? "the topic of the benchmark is removed" : "see above");
    return exit == BI_EXIT_OK ? cleaned : exit;
}

static int check(struct cli *cli)
{
    if (jobs == 0)
        return bi_cli_usage_error(cli, "--jobs must be at least 1");
    if (threads == 0 || threads > THREADS_MAX)
        return bi_cli_usage_error(cli, "--threads must be 1 to %d", THREADS_MAX);
    if (body_size > (UINT64_C(1) << 30))
        return bi_cli_usage_error(cli, "--size must be at most 1 GiB");
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    static struct bench bench;

    bench.cli = cli;
    bench.body = malloc((size_t)body_size + 1);
    if (bench.body == NULL)
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    memset(bench.body, 'b', (size_t)body_size + 1);
    snprintf(bench.topic, sizeof(bench.topic), "bide-bench-%ld-%llx", (long)getpid(),
             (unsigned long long)bi_clock_wall());
    bi_cli_detail(cli, "the topic is %s", bench.topic);

    int exit = measure_all(&bench);
    free(bench.body);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_COUNT('n', "jobs", &jobs, "jobs of each test (default: 10000)"),
    BI_FLAG_COUNT('c', "threads", &threads, "number of threads (default: 4)"),
    BI_FLAG_SIZE('s', "size", &body_size, "size of a body (default: 100)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_bench = {
    .name = "bench",
    .usage = "",
    .summary = "benchmark the queue",
    .flags = flags,
    .check = check,
    .traits = BI_VERB_CREATES_FILE | BI_VERB_FINISH, /* the jobs must still be removed */
    .run = run,
};
