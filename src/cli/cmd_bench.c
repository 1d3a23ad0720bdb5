/* SPDX-License-Identifier: MIT */
/*
 * cmd_bench.c - a quick benchmark of any queue, in a topic of its own that is removed afterwards.
 *
 * Each thread takes the jobs of one step, runs the step and records how long it took, until all jobs
 * are processed, a step fails or a signal comes. A step that has begun is completed.
 */
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "op/job_json.h"
#include "util/clock.h"
#include "util/histogram.h"
#include "util/thread.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256
#define STEP_JOBS   100 /* jobs of a step, at most */

struct bench_spec {
    const struct cli *cli;
    const char *topic;
    const void *body;
    size_t body_size;
    uint64_t jobs;     /* in all */
    size_t step_jobs;  /* 1 to STEP_JOBS */
    size_t threads;    /* 1 to THREADS_MAX */
    const char *label; /* for the progress bar */
    /* Runs one step with so many jobs. Returns BIDE_OK, or the code of a failed call, of which
     * bide_last_error() has the text. */
    int (*step)(const struct bench_spec *spec, size_t jobs);
};

struct bench_result {
    uint64_t jobs; /* through */
    double seconds;
    struct histogram steps; /* in nanoseconds */
    int code;               /* of the first that failed */
    char error[BIDE_ERROR_SIZE];
};

#define HEADERS            "WHAT|>JOBS|>SECONDS|>JOBS/S|>P50|>P90|>P99|>MAX"
#define RESERVE_TIMEOUT_MS 10000 /* for a job that is there */
#define TTR_MS             120000

static uint64_t jobs = 10000, threads = 4, body_size = 100;

/* ---- threads ---- */

struct bench_run {
    const struct bench_spec *spec;
    atomic_uint_least64_t jobs_left; /* not yet taken by a thread */
    atomic_uint_least64_t done_jobs; /* of steps that are done */
    atomic_size_t running_threads;   /* threads */
    atomic_bool failed;
    pthread_mutex_t lock; /* of the result */
    struct bench_result *result;
};

struct bench_thread {
    struct bench_run *bench_run;
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
static size_t take_jobs(struct bench_run *bench_run)
{
    uint64_t jobs_left = atomic_load(&bench_run->jobs_left), taken;
    if (atomic_load(&bench_run->failed) || bi_interrupted())
        return 0;
    do {
        taken = jobs_left < bench_run->spec->step_jobs ? jobs_left : bench_run->spec->step_jobs;
    } while (taken > 0 &&
             !atomic_compare_exchange_weak(&bench_run->jobs_left, &jobs_left, jobs_left - taken));
    return (size_t)taken;
}

static void record_failure(struct bench_run *bench_run, int code)
{
    pthread_mutex_lock(&bench_run->lock);
    if (!atomic_exchange(&bench_run->failed, true)) {
        bench_run->result->code = code;
        snprintf(bench_run->result->error, sizeof(bench_run->result->error), "%s",
                 bide_last_error());
    }
    pthread_mutex_unlock(&bench_run->lock);
}

static void *run_thread(void *arg)
{
    struct bench_thread *bench_thread = arg;
    struct bench_run *bench_run = bench_thread->bench_run;
    for (size_t count; (count = take_jobs(bench_run)) > 0;) {
        uint64_t began = now_ns();
        int code = bench_run->spec->step(bench_run->spec, count);
        if (code != BIDE_OK) {
            record_failure(bench_run, code);
            break;
        }
        bi_histogram_add(&bench_thread->steps, now_ns() - began);
        atomic_fetch_add(&bench_run->done_jobs, count);
    }
    bench_thread->ended_ns = now_ns();
    atomic_fetch_sub(&bench_run->running_threads, 1);
    return NULL;
}

static void show_progress(struct bench_run *bench_run)
{
    struct progress progress;
    bi_progress_begin(&progress, bench_run->spec->cli, bench_run->spec->label,
                      bench_run->spec->jobs);
    while (atomic_load(&bench_run->running_threads) > 0) {
        poll(NULL, 0, 5);
        bi_progress_set(&progress, atomic_load(&bench_run->done_jobs));
    }
    bi_progress_end(&progress);
}

/* Returns the number of threads that were created, which may be fewer than wanted. */
static size_t start_threads(struct bench_run *bench_run, struct bench_thread *workers)
{
    size_t count = 0;
    atomic_store(&bench_run->running_threads, bench_run->spec->threads);
    for (; count < bench_run->spec->threads; count++) {
        workers[count].bench_run = bench_run;
        if (!bi_thread_start(&workers[count].thread, run_thread, &workers[count]))
            break;
    }
    atomic_fetch_sub(&bench_run->running_threads, bench_run->spec->threads - count);
    return count;
}

/* Runs the steps of a phase on all threads. Returns BI_EXIT_OK also if a step failed or a signal came:
 * result->code and bi_interrupted() tell. */
static int run_threads(const struct bench_spec *spec, struct bench_result *result)
{
    struct bench_thread *workers = calloc(spec->threads, sizeof(*workers));
    struct bench_run bench_run = {
        .spec = spec, .result = result, .lock = PTHREAD_MUTEX_INITIALIZER};
    memset(result, 0, sizeof(*result));
    atomic_store(&bench_run.jobs_left, spec->jobs);
    if (workers == NULL)
        return bi_cli_error(spec->cli, BI_EXIT_FAILED, "out of memory");
    uint64_t began = now_ns(), ended_ns = began;
    size_t count = start_threads(&bench_run, workers);
    show_progress(&bench_run);
    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        bi_histogram_merge(&result->steps, &workers[i].steps);
        if (workers[i].ended_ns > ended_ns)
            ended_ns = workers[i].ended_ns;
    }
    result->seconds = (double)(ended_ns - began) / 1e9;
    result->jobs = atomic_load(&bench_run.done_jobs);
    pthread_mutex_destroy(&bench_run.lock);
    free(workers);
    if (count < spec->threads)
        return bi_cli_error(spec->cli, BI_EXIT_FAILED, "cannot create thread %zu of %zu", count,
                            spec->threads);
    return BI_EXIT_OK;
}

/* ---- the steps ---- */

static const bide_put_options put_options = {
    .size = sizeof(bide_put_options),
    .priority = BIDE_DEFAULT_PRIORITY,
    .ttr_ms = TTR_MS,
    .max_retries = BIDE_NO_RETRY_LIMIT,
};

static int put_one(const struct bench_spec *spec, size_t count)
{
    (void)count;
    return bide_put(spec->cli->queue, spec->topic, spec->body, spec->body_size, &put_options, NULL);
}

static int reserve_one(const struct bench_spec *spec, size_t count)
{
    bide_job job;
    (void)count;
    int code = bide_reserve(spec->cli->queue, spec->topic, RESERVE_TIMEOUT_MS, &job);
    if (code != BIDE_OK)
        return code;
    code = bide_delete(spec->cli->queue, job.id, job.token);
    bide_job_clear(&job);
    return code;
}

static int cycle(const struct bench_spec *spec, size_t count)
{
    int code = put_one(spec, count);
    return code == BIDE_OK ? reserve_one(spec, count) : code;
}

/* Returns the first code that is not BIDE_OK; bide_last_error() has its text. */
static int first_failure(const int *statuses, size_t stride, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = *(const int *)((const char *)statuses + i * stride);
        if (status != BIDE_OK)
            return status;
    }
    return BIDE_OK;
}

static int put_many(const struct bench_spec *spec, size_t count)
{
    bide_put_item items[STEP_JOBS];
    for (size_t i = 0; i < count; i++)
        items[i] = (bide_put_item){.topic = {spec->topic, strlen(spec->topic)},
                                   .body = {spec->body, spec->body_size},
                                   .options = &put_options};
    int code = bide_put_many(spec->cli->queue, items, count, NULL);
    return code == BIDE_OK ? first_failure(&items[0].status, sizeof(items[0]), count) : code;
}

static int delete_all(const struct bench_spec *spec, bide_job *taken, size_t count)
{
    bide_finish_item items[STEP_JOBS];
    for (size_t i = 0; i < count; i++) {
        items[i] = (bide_finish_item){.id = taken[i].id, .token = taken[i].token};
        bide_job_clear(&taken[i]);
    }
    int code = bide_finish_many(spec->cli->queue, items, count);
    return code == BIDE_OK ? first_failure(&items[0].status, sizeof(items[0]), count) : code;
}

static int reserve_many(const struct bench_spec *spec, size_t count)
{
    bide_slice topic = {spec->topic, strlen(spec->topic)};
    bide_job taken[STEP_JOBS];
    while (count > 0) {
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = RESERVE_TIMEOUT_MS,
                                  .jobs = taken,
                                  .job_max = count};
        int code = bide_reserve_many(spec->cli->queue, &args);
        if (code == BIDE_OK)
            code = delete_all(spec, taken, args.count);
        if (code != BIDE_OK)
            return code;
        count -= args.count;
    }
    return BIDE_OK;
}

static const struct phase {
    const char *name;  /* in JSON */
    const char *title; /* to people */
    int (*step)(const struct bench_spec *spec, size_t count);
    bool many;
} phases[] = {
    {"put", "put", put_one, false},
    {"take", "reserve, delete", reserve_one, false},
    {"put_many", "put, many at once", put_many, true},
    {"take_many", "reserve, delete, many", reserve_many, true},
    {"cycle", "put, reserve, delete", cycle, false},
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

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

static void add_rate(struct table *table, const struct cli *cli, double rate)
{
    char text[32];
    bi_print_count(cli, text, (uint64_t)rate);
    bi_table_cell(table, BI_STYLE_GOOD, "%9s", text);
}

static double rate_of(const struct bench_result *result)
{
    return result->seconds > 0 ? (double)result->jobs / result->seconds : 0;
}

static json_int_t percentile_us(const struct histogram *steps, double part)
{
    return (json_int_t)(bi_histogram_quantile(steps, part) / 1000);
}

static json_t *result_json(const struct phase *phase, const struct bench_spec *spec,
                           const struct bench_result *result)
{
    const struct histogram *steps = &result->steps;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "phase", phase->name, "jobs",
        (json_int_t)result->jobs, "elapsed_ms", (json_int_t)(result->seconds * 1e3),
        "jobs_per_second", (json_int_t)rate_of(result), "threads", (json_int_t)spec->threads,
        "body_size", (json_int_t)spec->body_size, "step_jobs", (json_int_t)spec->step_jobs,
        "p50_us", percentile_us(steps, 0.5), "p90_us", percentile_us(steps, 0.9), "p99_us",
        percentile_us(steps, 0.99), "max_us", (json_int_t)(steps->max / 1000));
}

static int show(const struct phase *phase, const struct bench_spec *spec,
                const struct bench_result *result, struct table *table)
{
    if (spec->cli->json)
        return bi_cli_print_json(spec->cli, result_json(phase, spec, result));
    bi_table_cell(table, BI_STYLE_OFF, "%-21s", phase->title);
    bi_table_number(table, BI_STYLE_OFF, result->jobs);
    bi_table_cell(table, BI_STYLE_OFF, "%8.3f", result->seconds);
    add_rate(table, spec->cli, rate_of(result));
    add_duration(table, bi_histogram_quantile(&result->steps, 0.5));
    add_duration(table, bi_histogram_quantile(&result->steps, 0.9));
    add_duration(table, bi_histogram_quantile(&result->steps, 0.99));
    add_duration(table, result->steps.max);
    bi_table_flush(table);
    return bi_cli_flush(spec->cli);
}

/* ---- the topic ---- */

static void name_topic(char *topic, size_t size)
{
    snprintf(topic, size, "bide-bench-%ld-%llx", (long)getpid(),
             (unsigned long long)bi_clock_wall());
}

/* Deletes the jobs one by one, on a queue without purge. */
static int delete_rest(const struct cli *cli, const char *topic)
{
    bide_job job;
    int code;
    while ((code = bide_reserve(cli->queue, topic, 0, &job)) == BIDE_OK) {
        code = bide_delete(cli->queue, job.id, job.token);
        bide_job_clear(&job);
        if (code != BIDE_OK)
            return code;
    }
    return code == BIDE_TIMED_OUT ? BIDE_OK : code;
}

static int clean_up(const struct cli *cli, const char *topic)
{
    int code = bide_purge(cli->queue, topic, BIDE_STATE_READY, NULL);
    if (code == BIDE_ENOTSUP)
        code = delete_rest(cli, topic);
    if (code == BIDE_OK)
        return BI_EXIT_OK;
    bi_cli_note(cli, "jobs of the benchmark may be left in topic %s", topic);
    return bi_cli_report_last(cli, code);
}

/* ---- the verb ---- */

static size_t step_jobs(const struct phase *phase)
{
    size_t fit = body_size == 0 ? STEP_JOBS : (size_t)(BIDE_BATCH_BYTES / body_size);
    if (!phase->many || fit == 0)
        return 1;
    return fit < STEP_JOBS ? fit : STEP_JOBS;
}

static int measure(const struct phase *phase, struct bench_spec *spec, struct table *table)
{
    struct bench_result *result = malloc(sizeof(*result));
    if (result == NULL)
        return bi_cli_error(spec->cli, BI_EXIT_FAILED, "out of memory");
    spec->step = phase->step;
    spec->step_jobs = step_jobs(phase);
    spec->label = phase->name;
    int exit = run_threads(spec, result);
    if (exit == BI_EXIT_OK && result->code != BIDE_OK)
        exit = bi_cli_report(spec->cli, phase->title, result->code, result->error);
    if (exit == BI_EXIT_OK && !bi_interrupted())
        exit = show(phase, spec, result, table);
    free(result);
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

static int measure_all(struct cli *cli, const char *topic, const void *body)
{
    struct bench_spec spec = {.cli = cli,
                              .topic = topic,
                              .body = body,
                              .body_size = (size_t)body_size,
                              .jobs = jobs,
                              .threads = (size_t)threads};
    struct table *table = cli->json ? NULL : bi_table_new(cli, HEADERS);
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < PHASES && exit == BI_EXIT_OK; i++)
        exit = measure(&phases[i], &spec, table);
    bi_table_free(table);
    int cleaned = clean_up(cli, topic);
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

/* The queue is not shut down by a signal: the jobs must still be removed. */
static int run(struct cli *cli)
{
    char topic[64];
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit != BI_EXIT_OK)
        return exit;
    char *body = malloc((size_t)body_size + 1);
    if (body == NULL)
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    memset(body, 'b', (size_t)body_size + 1);
    name_topic(topic, sizeof(topic));
    bi_cli_detail(cli, "the topic is %s", topic);
    exit = measure_all(cli, topic, body);
    free(body);
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
    .group = BI_GROUP_STORE,
    .usage = "",
    .summary = "benchmark the queue",
    .details =
        "Puts jobs into a topic of its own, reserves and deletes them, and prints the throughput\n"
        "and the latency of a call (\"many\": a call of up to 100 jobs): median, 90th and 99th\n"
        "percentile, maximum. The topic is removed at the end, also after Ctrl-C. Other\n"
        "clients of the queue are slowed down, and slow down the benchmark.\n"
        "\n"
        "  bide bench --url sqlite:/tmp/try.db\n"
        "  bide bench -n 100000 -c 16 --size 1KiB\n"
        "  bide bench --json | jq .jobs_per_second\n",
    .flags = flags,
    .check = check,
    .traits = BI_VERB_CREATES_FILE,
    .run = run,
};
