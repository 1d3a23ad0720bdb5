/* SPDX-License-Identifier: MIT */
#include "cli/bench_threads.h"

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "util/clock.h"
#include "util/thread.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench_run {
    const struct bench_spec *spec;
    atomic_uint_least64_t jobs_left; /* jobs that nobody has taken yet */
    atomic_uint_least64_t done_jobs; /* jobs of steps that are done */
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

/* How many jobs the next step has; 0: it is over. */
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
    for (size_t jobs; (jobs = take_jobs(bench_run)) > 0;) {
        uint64_t began = now_ns();
        int code = bench_run->spec->step(bench_run->spec, jobs);
        if (code != BIDE_OK) {
            record_failure(bench_run, code);
            break;
        }
        bi_histogram_add(&bench_thread->steps, now_ns() - began);
        atomic_fetch_add(&bench_run->done_jobs, jobs);
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

/* Answers how many there are: fewer than wished if there are no more to be had. */
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

int bi_bench_threads_run(const struct bench_spec *spec, struct bench_result *result)
{
    struct bench_thread *workers = calloc(spec->threads, sizeof(*workers));
    struct bench_run bench_run = {
        .spec = spec, .result = result, .lock = PTHREAD_MUTEX_INITIALIZER};
    memset(result, 0, sizeof(*result));
    atomic_store(&bench_run.jobs_left, spec->jobs);
    if (workers == NULL)
        return bi_cli_error(spec->cli, BI_EXIT_FAILED, "there is not enough memory");
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
        return bi_cli_error(spec->cli, BI_EXIT_FAILED, "only %zu of %zu threads can be started",
                            count, spec->threads);
    return BI_EXIT_OK;
}
