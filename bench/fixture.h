/* SPDX-License-Identifier: MIT */
/*
 * fixture - the queue that a benchmark runs on, with the jobs that reside in it.
 *
 * Resident jobs make the queue as full as it would be in practice; the benchmark works on other
 * jobs beside them, in the same topic.
 */
#ifndef BENCH_FIXTURE_H
#define BENCH_FIXTURE_H

#include "bench.h"

/* What state the resident jobs are in: ready with random priorities, or delayed by 1 to 25
 * hours, so that none becomes ready during a run. */
enum resident { RESIDENT_READY, RESIDENT_DELAYED };

const char *fixture_name(enum resident resident);
void fixture_options(enum resident resident, uint64_t random, bide_put_options *options);

/* Opens the queue and removes what an earlier run left in the benchmark's topic. */
bide *fixture_open(const char *url);
void fixture_close(bide *queue);

/* Adds count jobs with bodies of BENCH_BODY_SIZE bytes. */
void fixture_fill(bide *queue, enum resident resident, uint64_t count);

#endif
