/* SPDX-License-Identifier: MIT */
/*
 * arguments - the command line of the benchmark.
 */
#ifndef BENCH_ARGUMENTS_H
#define BENCH_ARGUMENTS_H

#include <stdio.h>

#include "bench.h"

struct arguments {
    struct settings settings;
    const char *json; /* NULL: none */
    bool help;
    char **names; /* which benchmarks */
    size_t name_count;
};

/* Reads the command line into what was zeroed; a mistake ends the program. */
void arguments_parse(struct arguments *arguments, int argc, char **argv);

void arguments_print(FILE *file);

#endif
