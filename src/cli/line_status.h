/* SPDX-License-Identifier: MIT */
/*
 * line_status - which lines of an input have been stored, so that an interrupted command can be
 * continued without losing or duplicating jobs.
 *
 * Lines are added in order. A line is done when its job is stored or was rejected for a reason of its
 * own, unknown when the reply was lost, and otherwise not stored.
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
    uint64_t last_done;                           /* all lines up to this one are done */
    struct line_range ranges[BI_LINE_RANGES_MAX]; /* of the lines after it */
    size_t range_count;
};

/* Lines without a job (skipped or invalid) need not be added. */
void bi_line_status_add(struct line_status *line_status, uint64_t line,
                        enum bi_line_outcome outcome);

/* Returns true if no line after last_done is or may be stored: the input can then be continued at the
 * next line. */
bool bi_line_status_can_resume(const struct line_status *line_status);

/* Formats "lines 3,001 to 4,000 are unknown (...); lines 4,001 to 5,000 are not stored", or "" if all
 * lines are done. unit: "line". */
void bi_line_status_format(const struct line_status *line_status, const char *unit, char *to,
                           size_t size);

#endif
