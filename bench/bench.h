/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the benchmarks share: their settings, their table, and how they fail.
 *
 * Only the public headers of bide are used, but in raw.c, which does what the store does without
 * the queue. A call that does not answer 0 ends the program with its name, its code and its
 * sentence: a figure that was measured on errors is worth nothing.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bide/bide.h>

#include "load.h"
#include "report.h"

#define BENCH_TOPIC      "bench"
#define BENCH_BODY_SIZE  100
#define BENCH_MAX_REPEAT 100

struct folder;

/* Where a server and its load run: on one core, on two, or first so and then so. */
enum pinning { PIN_BOTH, PIN_SAME, PIN_APART };

struct settings {
    const char *url;       /* a benchmark of files has one in its folder */
    size_t repeat;         /* runs per figure */
    bool quick;            /* smaller counts: does it work, not how fast is it */
    uint64_t max_resident; /* larger resident counts are left out */
    bool large;            /* ten times the jobs, where that takes long */
    uint64_t cycles;       /* of the growth of files */
    bide_sync sync;        /* of the benchmarks of files */
    const char *dir;       /* where their folder is made; NULL: in the usual place */
    struct folder *folder; /* while one of them runs */
    enum pinning pinning;
    const char *bided;      /* the programs that are measured; NULL: the one beside this program, */
    const char *beanstalkd; /* and the one that is installed */
    const char *connect;    /* a server that runs already */
    struct load_plan load;  /* what is done to it */
    const char *attack;     /* only those with this in their name; NULL: all */
    struct report *report;
};

/* One row of the table of benchmarks, in main.c. Those of files take long, and write much: they
 * are run only when they are named. */
struct bench {
    const char *name;
    bool in_folder;
    void (*run)(const struct settings *settings);
    const char *help;
};

void bench_threads(const struct settings *settings);
void bench_resident(const struct settings *settings);
void bench_wakeup(const struct settings *settings);
void bench_lateness(const struct settings *settings);
void bench_memory(const struct settings *settings);
void bench_rate(const struct settings *settings);

void bench_worker(const struct settings *settings);
void bench_worker_latency(const struct settings *settings);

void bench_durable(const struct settings *settings);
void bench_latency(const struct settings *settings);
void bench_recovery(const struct settings *settings);
void bench_growth(const struct settings *settings);

void bench_server_cycle(const struct settings *settings);
void bench_server_backlog(const struct settings *settings);
void bench_server_durable(const struct settings *settings);
void bench_server_idle_load(const struct settings *settings);
void bench_server_lateness(const struct settings *settings);
void bench_load(const struct settings *settings);
void bench_abuse(const struct settings *settings);

/* What they measure in processes of their own; see child.h. */
void bench_memory_child(char **arguments);
void bench_scan_child(char **arguments);
void bench_recovery_child(char **arguments);

/* Prints "bench: ..." on stderr and ends the program, from any thread. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program because a call answered a code that it should not; text says why. */
_Noreturn void fail_call(const char *call, int code, const char *text);

/* The answer of a blocking call must be 0. */
static inline void must(const char *call, int code)
{
    if (__builtin_expect(code != 0, 0))
        fail_call(call, code, bide_last_error());
}

#endif
