/* SPDX-License-Identifier: MIT */
/*
 * compare - the same work done by bided and by beanstalkd in turn, and what is reported of it.
 *
 * A machine is not the same from one second to the next. So the two take turns, each goes first
 * as often as the other, and a ratio is that of two runs right after each other; its median is
 * what counts. Beside each ratio stands what is asked of it.
 */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "bench.h"
#include "daemon.h"
#include "load.h"
#include "pin.h"

struct comparison {
    const struct settings *settings;
    const char *name;  /* of the benchmark */
    const char *work;  /* these four are columns */
    const char *place; /* "tcp", "unix", "file" */
    const char *pin;
    char shape[24]; /* "10x64" */
    double rates[DAEMONS][BENCH_MAX_REPEAT];
    double cpu_us[DAEMONS][BENCH_MAX_REPEAT]; /* of the server, per op */
};

/* What is asked; 0: nothing. */
struct compare_target {
    double ratio; /* at least */
    double cpu;   /* at most */
};

/* Whose turn it is: turn is 0 or 1. */
enum daemon_kind compare_turn(size_t run, size_t turn);

void compare_set_shape(struct comparison *comparison, const struct load_plan *plan);

/* One run: the plan against the server. Answers jobs a second. */
double compare_run(struct comparison *comparison, size_t run, const struct daemon *daemon,
                   const struct load_plan *plan);

/* The rates, their ratio, the processor time per op, and its ratio. */
void compare_report(struct comparison *comparison, const struct compare_target *asked);

/* One line of the table of a match: of a server, or a ratio. runs are sorted in place. */
struct compare_line {
    const char *server;
    const char *unit;
    bool more_is_better;
    double asked; /* 0: nothing */
};
void compare_line(struct comparison *comparison, const struct compare_line *line, double *runs);

/* out[i] = over[i] / under[i]; run by run, so before they are sorted. */
void compare_divide(double *out, const double *over, const double *under, size_t count);

#endif
