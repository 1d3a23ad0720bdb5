/* SPDX-License-Identifier: MIT */
/*
 * progress - a progress bar on the terminal; nothing elsewhere.
 *
 *     exporting  [======>         ]  41 %  41,230 of 100,000  52,000/s  1s left
 */
#ifndef BI_PROGRESS_H
#define BI_PROGRESS_H

#include "cli/cli.h"

struct progress {
    const struct cli *cli;
    const char *label; /* "exporting" */
    uint64_t total;    /* 0: not known */
    uint64_t done;
    int64_t began_us;
    int64_t drawn_us; /* 0: never */
};

/* Nothing is drawn in the first half second, with --quiet or --json, or if standard error is not a
 * terminal. */
void bi_progress_begin(struct progress *progress, const struct cli *cli, const char *label,
                       uint64_t total);
/* Sets the amount that is done; draws at most ten times a second. */
void bi_progress_set(struct progress *progress, uint64_t done);
/* Draws the elapsed time, for an op without a count. */
void bi_progress_set_elapsed(struct progress *progress);
/* Removes the bar. */
void bi_progress_end(struct progress *progress);

#endif
