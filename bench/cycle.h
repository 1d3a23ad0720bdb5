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

#include "fixture.h"

enum by { BY_CALLS, BY_SUBMIT };

/* What one figure of the cycle is about: so many threads, all on one queue and one topic. */
struct cycle {
    const char *bench; /* the name of the benchmark */
    bide *queue;
    enum resident state;
    uint64_t resident;
    enum by by;
    size_t threads;
    size_t count; /* cycles in each run, of all threads together */
};

/*
 * Runs the cycles once as a warm-up, then as often as the settings say, and reports two figures in
 * microseconds per cycle. wall: from the first start to the last end, divided by the cycles of
 * all threads. cpu: the processor time of these threads, which is the better measure of the work
 * when others use the machine, too.
 */
void cycle_measure(const struct settings *settings, const struct cycle *cycle);

#endif
