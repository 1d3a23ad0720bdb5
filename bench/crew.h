/* SPDX-License-Identifier: MIT */
/*
 * crew - those who put jobs and those who take them, on one queue, for a while.
 *
 * A rate counts the jobs that were put and finished, from the first put until the last one is
 * finished and stored: who puts faster than the others take gains nothing by it.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "bench.h"

/* Threads that take; and as many that put, where these are others. */
#define CREW_THREADS 4

/* Threads put some thousand jobs, then a worker with an empty handler takes them, and so on: never
 * more than CREW_THREADS at a time. */
double crew_turns(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Both at the same time: jobs from threads that put, to such a worker. Who puts rests while a thousand
 * are ready: so the rate is one that could be kept up. */
double crew_work(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* The same, but nobody rests: a long backlog grows, and is worked off. */
double crew_burst(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* As crew_work(), but to threads that call reserve and delete. */
double crew_reserve(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Jobs from the handlers: each puts the next one before it ends. */
double crew_circulate(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Structs from threads that publish, written and read as JSON of about 100 bytes. */
#ifdef BIDE_WITH_JSON
double crew_publish(bide *queue, const bide_put_options *options, int64_t duration_ns);
#endif

#endif
