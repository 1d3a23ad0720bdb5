/* SPDX-License-Identifier: MIT */
/*
 * throughput - those who put jobs and those who take them, on one queue, for a while.
 *
 * A rate counts the jobs that were put and finished, from the first put until the last one is
 * finished and stored: who puts faster than the others take gains nothing by it.
 */
#ifndef BENCH_THROUGHPUT_H
#define BENCH_THROUGHPUT_H

#include "bench.h"

/* Threads that take; and as many that put, where these are others. */
#define THROUGHPUT_THREADS 4

/* Threads put some thousand jobs, then a worker with an empty handler takes them, and so on: never
 * more than THROUGHPUT_THREADS at a time. */
double throughput_alternating(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Both at the same time: jobs from threads that put, to such a worker. Who puts rests while a
 * thousand are ready: so the rate is one that could be kept up. */
double throughput_worker(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* The same, but nobody rests: a long backlog grows, and is worked off. */
double throughput_burst(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* As throughput_worker(), but to threads that call reserve and delete. */
double throughput_reserve(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Jobs from the handlers: each puts the next one before it ends. */
double throughput_circulate(bide *queue, const bide_put_options *options, int64_t duration_ns);

/* Structs from threads that publish, written and read as JSON of about 100 bytes. */
#ifdef BIDE_WITH_JSON
double throughput_publish(bide *queue, const bide_put_options *options, int64_t duration_ns);
#endif

#endif
