/* SPDX-License-Identifier: MIT */
/*
 * load - the load generator: many connections to a server, one thread.
 *
 * It is lean, because it may have to share the core of the server: the commands of a window are
 * in one buffer and leave in one write, the replies to it come in as large reads and are looked at
 * once, and nothing is allocated on the way. Every reply is checked, and so is the order in which
 * jobs are drained.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum load_work {
    LOAD_CYCLE, /* a window of puts, then one of reserves, then one of deletes, and again */
    LOAD_PUT,   /* puts only */
    LOAD_DRAIN, /* a window of reserves, then one of deletes: the jobs must be there */
    LOAD_WORKS,
};

/* No body is smaller: it begins with the priority of its job. */
#define LOAD_MIN_BODY 10

struct load_plan {
    size_t connections;
    size_t in_flight; /* commands on their way on each connection */
    size_t body_size;
    size_t tubes; /* the connections are spread over them */
    enum load_work work;
    bool random_priorities;
    bool delayed;        /* puts for hours from now */
    uint64_t jobs;       /* how many; 0: as many as there are in duration_ns */
    int64_t duration_ns; /* of cycles */
};

struct load_result {
    uint64_t jobs;
    uint64_t ops; /* commands */
    int64_t wall_ns;
};

const char *load_work_name(enum load_work work);

void load_run(const char *address, const struct load_plan *plan, struct load_result *result);

#endif
