/* SPDX-License-Identifier: MIT */
#include "cli/line_status.h"

#include "cli/print.h"

/* Without room for another range, the last one is extended and becomes unknown. */
static void add_range(struct line_status *line_status, uint64_t line, enum bi_line_outcome outcome)
{
    size_t count = line_status->range_count;
    struct line_range *last = count == 0 ? NULL : &line_status->ranges[count - 1];
    if (last != NULL && last->outcome == outcome) {
        last->last = line;
    } else if (count < BI_LINE_RANGES_MAX) {
        line_status->ranges[line_status->range_count++] = (struct line_range){outcome, line, line};
    } else if (last != NULL) {
        last->last = line;
        last->outcome = BI_LINE_UNKNOWN;
    }
}

void bi_line_status_add(struct line_status *line_status, uint64_t line,
                        enum bi_line_outcome outcome)
{
    if (line_status->range_count == 0 && outcome == BI_LINE_DONE)
        line_status->last_done = line;
    else
        add_range(line_status, line, outcome);
}

bool bi_line_status_can_resume(const struct line_status *line_status)
{
    for (size_t i = 0; i < line_status->range_count; i++)
        if (line_status->ranges[i].outcome != BI_LINE_NOT_STORED)
            return false;
    return true;
}

static int format_range(const struct line_range *range, const char *unit, char *to, size_t size)
{
    static const char *const outcomes[] = {"stored", "unknown (the reply was lost)", "not stored"};
    char first[32], last[32];
    bi_print_number(first, range->first);
    bi_print_number(last, range->last);
    if (range->first == range->last)
        return snprintf(to, size, "%s %s is %s", unit, first, outcomes[range->outcome]);
    return snprintf(to, size, "%ss %s to %s are %s", unit, first, last, outcomes[range->outcome]);
}

void bi_line_status_format(const struct line_status *line_status, const char *unit, char *to,
                           size_t size)
{
    size_t used = 0;
    to[0] = 0;
    for (size_t i = 0; i < line_status->range_count && used < size; i++) {
        if (i > 0)
            used += (size_t)snprintf(to + used, size - used, "; ");
        if (used < size)
            used += (size_t)format_range(&line_status->ranges[i], unit, to + used, size - used);
    }
}
