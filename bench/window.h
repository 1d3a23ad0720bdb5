/* SPDX-License-Identifier: MIT */
/*
 * window - many jobs on their way at once, by one thread, through the asynchronous interface.
 *
 * Each of the window's slots brings a job through its steps: put, reserve (with timeout 0, of the
 * best job of the topic), delete. A step is submitted only when the one before it was answered;
 * then the slot begins with the next job. What came due together is submitted as one list.
 *
 * Threads    A window belongs to one thread.
 */
#ifndef BENCH_WINDOW_H
#define BENCH_WINDOW_H

#include "bench.h"

struct window;

struct window *window_new(bide *queue, size_t size, size_t body_size);
void window_free(struct window *window);

/* Each answers how many jobs went through, when all have. An answer that is not 0 ends the
 * program. The cycles begin no more jobs when the clock has reached until_ns. */
uint64_t window_put(struct window *window, uint64_t count);
uint64_t window_take(struct window *window, uint64_t count); /* reserve and delete */
uint64_t window_cycle(struct window *window, uint64_t count, int64_t until_ns);

#endif
