/* SPDX-License-Identifier: MIT */
/*
 * match - the same work done by bided and by beanstalkd in turn, and what is reported of it.
 *
 * A machine is not the same from one second to the next. So the two take turns, each goes first
 * as often as the other, and a ratio is that of two runs right after each other; its median is
 * what counts. Beside each ratio stands what is asked of it.
 */
#ifndef BENCH_MATCH_H
#define BENCH_MATCH_H

#include "bench.h"
#include "daemon.h"
#include "load.h"
#include "pin.h"

struct match {
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
struct match_asked {
    double ratio; /* at least */
    double cpu;   /* at most */
};

/* Whose turn it is: turn is 0 or 1. */
enum daemon_kind match_turn(size_t run, size_t turn);

void match_set_shape(struct match *match, const struct load_plan *plan);

/* One run: the plan against the server. Answers jobs a second. */
double match_run(struct match *match, size_t run, const struct daemon *daemon,
                 const struct load_plan *plan);

/* The rates, their ratio, the processor time per op, and its ratio. */
void match_report(struct match *match, const struct match_asked *asked);

/* One line of the table of a match: of a server, or a ratio. runs are sorted in place. */
struct match_line {
    const char *server;
    const char *unit;
    bool more_is_better;
    double asked; /* 0: nothing */
};
void match_line(struct match *match, const struct match_line *line, double *runs);

/* out[i] = over[i] / under[i]; run by run, so before they are sorted. */
void match_divide(double *out, const double *over, const double *under, size_t count);

#endif
