/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t measure_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t measure_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t measure_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void measure_sleep_us(int64_t us)
{
    struct timespec left = {
        .tv_sec = (time_t)(us / 1000000),
        .tv_nsec = (long)(us % 1000000) * 1000,
    };

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

void measure_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
}

double measure_median(const double *sorted, size_t count)
{
    assert(count > 0);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

const struct quantile measure_quantiles[MEASURE_QUANTILES] = {
    {"p50", 50},
    {"p99", 99},
    {"max", 100},
};

double measure_quantile(const double *sorted, size_t count, unsigned percent)
{
    size_t rank = (count * percent + 99) / 100;

    assert(rank > 0 && rank <= count);
    return sorted[rank - 1];
}

uint64_t measure_rss_bytes(void)
{
    uint64_t total = 0;
    uint64_t resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &total, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t measure_available_bytes(void)
{
    uint64_t kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    }
    fclose(file);
    return kib * 1024;
}
