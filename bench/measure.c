/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

int64_t measure_own_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
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

/* The number of KiB behind "name:" in a file of /proc. */
static uint64_t read_kib(const char *path, const char *name)
{
    uint64_t kib = 0;
    char line[128];
    size_t size = strlen(name);
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, size) == 0 && line[size] == ':') {
            kib = strtoull(line + size + 1, NULL, 10);
            break;
        }
    }
    fclose(file);
    return kib;
}

uint64_t measure_available_bytes(void)
{
    return read_kib("/proc/meminfo", "MemAvailable") * 1024;
}

uint64_t measure_status_bytes(const char *name)
{
    return read_kib("/proc/self/status", name) * 1024;
}

uint64_t measure_process_bytes(pid_t process, const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)process);
    return read_kib(path, name) * 1024;
}

/* The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. */
static int64_t machine_ns(void)
{
    unsigned long long ticks[8] = {0};
    FILE *file = fopen("/proc/stat", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) != 8)
        memset(ticks, 0, sizeof(ticks));
    fclose(file);
    unsigned long long sum = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return (int64_t)sum * (1000000000 / sysconf(_SC_CLK_TCK));
}

static int64_t usage_ns(int who)
{
    struct rusage usage;

    if (getrusage(who, &usage) != 0)
        return 0;
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (int64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

void measure_busy(struct busy *busy)
{
    busy->wall_ns = measure_now_ns();
    busy->machine_ns = machine_ns();
    busy->own_ns = usage_ns(RUSAGE_SELF) + usage_ns(RUSAGE_CHILDREN);
}
