/* SPDX-License-Identifier: MIT */
/*
 * crew - some threads that do the same thing again and again, while it is measured.
 *
 * Each of them takes as many jobs as one step is about, does the step, and notes how long it took;
 * until all jobs are through, somebody fails, or a signal comes. What was begun is finished.
 */
#ifndef BI_CREW_H
#define BI_CREW_H

#include "cli/cli.h"
#include "cli/spread.h"

#define BI_CREW_MAX  256 /* threads */
#define BI_CREW_STEP 100 /* jobs of a step, at most */

struct crew_wish {
    const struct cli *cli;
    const char *topic;
    const void *body;
    size_t body_size;
    uint64_t jobs;    /* in all */
    size_t step_jobs; /* 1 to BI_CREW_STEP */
    size_t threads;   /* 1 to BI_CREW_MAX */
    const char *what; /* for the progress bar */
    /* Does one step with so many jobs: BIDE_OK, or the code of what failed, of which
     * bide_last_error() says more. */
    int (*step)(const struct crew_wish *wish, size_t jobs);
};

struct crew_result {
    uint64_t jobs; /* through */
    double seconds;
    struct spread steps; /* in nanoseconds */
    int code;            /* of the first that failed */
    char error[BIDE_ERROR_SIZE];
};

/* BI_EXIT_OK also if a step failed or a signal came; else says what is wrong. */
int bi_crew_run(const struct crew_wish *wish, struct crew_result *result);

#endif
