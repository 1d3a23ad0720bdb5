/* SPDX-License-Identifier: MIT */
/*
 * bench_threads - some threads that do the same thing again and again, while it is measured.
 *
 * Each of them takes as many jobs as one step is about, does the step, and notes how long it took;
 * until all jobs are through, somebody fails, or a signal comes. What was begun is finished.
 */
#ifndef BI_BENCH_THREADS_H
#define BI_BENCH_THREADS_H

#include "cli/cli.h"
#include "util/histogram.h"

#define BI_BENCH_THREADS_MAX 256 /* threads */
#define BI_BENCH_STEP_JOBS   100 /* jobs of a step, at most */

struct bench_spec {
    const struct cli *cli;
    const char *topic;
    const void *body;
    size_t body_size;
    uint64_t jobs;     /* in all */
    size_t step_jobs;  /* 1 to BI_BENCH_STEP_JOBS */
    size_t threads;    /* 1 to BI_BENCH_THREADS_MAX */
    const char *label; /* for the progress bar */
    /* Does one step with so many jobs: BIDE_OK, or the code of what failed, of which
     * bide_last_error() says more. */
    int (*step)(const struct bench_spec *spec, size_t jobs);
};

struct bench_result {
    uint64_t jobs; /* through */
    double seconds;
    struct histogram steps; /* in nanoseconds */
    int code;               /* of the first that failed */
    char error[BIDE_ERROR_SIZE];
};

/* BI_EXIT_OK also if a step failed or a signal came; else says what is wrong. */
int bi_bench_threads_run(const struct bench_spec *spec, struct bench_result *result);

#endif
