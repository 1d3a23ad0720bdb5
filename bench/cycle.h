/* SPDX-License-Identifier: MIT */
/*
 * cycle - put one job, reserve one, delete it: the work that most figures are about.
 *
 * By calls, a cycle is bide_put(), bide_reserve() with timeout 0, bide_delete() and
 * bide_job_clear(). By submit, 64 cycles are three lists: 64 puts, then 64 reserves with timeout
 * 0, then 64 deletes, each list one bide_submit(); then the 64 snapshots are cleared. Every job
 * has a random priority and a body of 100 bytes; what is reserved is the best job of the topic,
 * which may be a resident one, so the number of jobs stays the same.
 */
#ifndef BENCH_CYCLE_H
#define BENCH_CYCLE_H

#include "bench.h"

enum by { BY_CALLS, BY_SUBMIT };

const char *cycle_name(enum by by);

/*
 * Runs about count cycles on so many threads at the same time, all on one queue and one topic.
 * Answers microseconds per cycle: the time from the first start to the last end, divided by the
 * cycles of all threads.
 */
double cycle_run(bide *queue, enum by by, size_t threads, size_t count);

/* Runs once as a warm-up, then repeat times, and writes what each run took. */
void cycle_measure(bide *queue, enum by by, size_t threads, size_t count, double *runs,
                   size_t repeat);

#endif
