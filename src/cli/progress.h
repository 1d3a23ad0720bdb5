/* SPDX-License-Identifier: MIT */
/*
 * progress - how far a long verb has come: a bar on the terminal, nothing elsewhere.
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

/* Nothing is drawn before half a second has passed, nor with --quiet, --json or without a terminal
 * on standard error. */
void bi_progress_begin(struct progress *progress, const struct cli *cli, const char *label,
                       uint64_t total);
/* So much is done; draws at most ten times a second. */
void bi_progress_set(struct progress *progress, uint64_t done);
/* For an op that does not tell how far it is: draws how long it has taken. */
void bi_progress_set_elapsed(struct progress *progress);
/* Takes the bar away. */
void bi_progress_end(struct progress *progress);

#endif
