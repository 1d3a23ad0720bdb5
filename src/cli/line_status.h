/* SPDX-License-Identifier: MIT */
/*
 * line_status - which lines of an input have become jobs: for whoever was interrupted half way, and has
 * to go on without losing or doubling any.
 *
 * Lines are told in order. A line is settled when its job is in, or was refused for a reason of its
 * own; it is unsure when the answer was lost, and left when it certainly is not in although nothing
 * is wrong with it.
 */
#ifndef BI_LINE_STATUS_H
#define BI_LINE_STATUS_H

#include "util/errmsg.h"

#include <stdint.h>

enum bi_line_outcome { BI_LINE_DONE, BI_LINE_UNKNOWN, BI_LINE_NOT_STORED };

/* Lines from first to last with the same outcome. */
struct line_range {
    enum bi_line_outcome outcome;
    uint64_t first, last;
};

#define BI_LINE_RANGES_MAX 8

struct line_status {
    uint64_t last_done;                           /* everything up to this line is settled */
    struct line_range ranges[BI_LINE_RANGES_MAX]; /* what comes behind it */
    size_t range_count;
};

/* A line that no job was made of (empty, and skipped; no JSON) need not be told. */
void bi_line_status_add(struct line_status *line_status, uint64_t line,
                        enum bi_line_outcome outcome);

/* Is nothing in, or perhaps in, behind the sure ones? Then whoever goes on behind them loses and
 * doubles none. */
bool bi_line_status_can_resume(const struct line_status *line_status);

/* "lines 3,001 to 4,000 are unsure (...); lines 4,001 to 5,000 are not in"; "" if all that was
 * told is settled. what: "line". */
void bi_line_status_format(const struct line_status *line_status, const char *unit, char *to,
                           size_t size);

#endif
