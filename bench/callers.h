/* SPDX-License-Identifier: MIT */
/*
 * callers - many threads with small stacks, each of which makes blocking calls in turn: put,
 * reserve with timeout 0, delete, and again.
 */
#ifndef BENCH_CALLERS_H
#define BENCH_CALLERS_H

#include "bench.h"

/* Cycles a second of so many callers together, over about that time. options may be NULL. */
double callers_cycle(bide *queue, size_t count, size_t body_size, const bide_put_options *options,
                     int64_t duration_ns);

/* How often a second one thread can wake so many that sleep, each on a semaphore of its own: no
 * queue has to do with it, but callers that block cannot be answered any faster. */
double callers_wake(size_t count, int64_t duration_ns);

#endif
