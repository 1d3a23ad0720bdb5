/* SPDX-License-Identifier: MIT */
/*
 * report - where figures go: a table for people, and JSON lines for programs.
 *
 * A figure is one number that was measured several times under the same parameters. The table
 * shows its median and its best; the JSON line has every run, and says on which machine, from
 * which commit and when. Smaller is better for every unit, but for rates.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "measure.h"

/* One parameter of a figure: a text, or a number if text is NULL. */
struct param {
    const char *key;
    const char *text;
    uint64_t number;
};

#define REPORT_PARAMS 8

struct report {
    FILE *table;
    FILE *json; /* NULL: none */
    const char *url;
    char cpu[128];
    long cores;
    char kernel[128];
    char commit[64];
    char header[256]; /* the columns that were printed last */
    struct busy busy; /* at the last title */
};

/* Finds out about the machine and the commit. The files and the url stay the caller's. */
void report_init(struct report *report, FILE *table, FILE *json, const char *url);

/* Prints the line above the figures of one benchmark. */
void report_title(struct report *report, const char *name, const char *help);

/* Prints a remark between the figures, as when something was left out. */
void report_note(struct report *report, const char *text);

/* Prints how much of the machine other programs, and the kernel for all of them, have used since
 * the title: figures of a busy machine are worse. */
void report_others(struct report *report);

/* Reports one figure. runs are sorted in place, the best first. */
void report_figure(struct report *report, const char *name, const struct param *params,
                   size_t param_count, const char *unit, double *runs, size_t run_count);

/* The same of a figure of which more is better. */
void report_rate(struct report *report, const char *name, const struct param *params,
                 size_t param_count, const char *unit, double *runs, size_t run_count);

#endif
