/* SPDX-License-Identifier: MIT */
/*
 * measure - clocks, random numbers, order statistics and the memory of this machine.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The clock for durations, the clock that the delays of jobs run on, and the processor time of
 * this thread, and of all threads of this process. */
int64_t measure_now_ns(void);
int64_t measure_boot_ns(void);
int64_t measure_cpu_ns(void);
int64_t measure_own_cpu_ns(void);

void measure_sleep_us(int64_t us);

/* A small generator (splitmix64), one per thread, so that a run can be repeated exactly. */
struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Sorts ascending, as the functions below require. */
void measure_sort(double *values, size_t count);
/* The middle value, or the mean of the two middle ones. count > 0. */
double measure_median(const double *sorted, size_t count);

/* What is reported of many samples of a time: p50, p99 and max. */
#define MEASURE_QUANTILES 3
struct quantile {
    const char *name;
    unsigned percent;
};
extern const struct quantile measure_quantiles[MEASURE_QUANTILES];

/* The smallest value that at least that many percent of them do not exceed. count > 0. */
double measure_quantile(const double *sorted, size_t count, unsigned percent);

/* The resident set of this process, and the memory that may still be used; 0 if unknown. */
uint64_t measure_rss_bytes(void);
uint64_t measure_available_bytes(void);

/* Processor time since the start, of the whole machine and of this process with its children. */
struct busy {
    int64_t wall_ns;
    int64_t machine_ns;
    int64_t own_ns;
};
void measure_busy(struct busy *busy);

/* What the kernel says about this process, or another, under a name such as VmHWM; 0 if
 * unknown. */
uint64_t measure_status_bytes(const char *name);
uint64_t measure_process_bytes(pid_t process, const char *name);

#endif
