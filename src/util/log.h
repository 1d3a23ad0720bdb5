/* SPDX-License-Identifier: MIT */
/*
 * log - messages for the operator, through a handler of the program. The library never prints.
 */
#ifndef BI_LOG_H
#define BI_LOG_H

#include <bide/bide.h>

struct bi_log {
    bide_log_handler handler; /* NULL: nothing is logged */
    void *user;
};

void bi_log(const struct bi_log *log, bide_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Limits the messages of a failure that may repeat many times a second: the first is logged,
 * then one after a second, two, four, up to a minute, and one when the failure is over.
 * Zeroed: no failure yet. */
struct bi_log_limit {
    uint64_t count;
    int64_t interval_us, next_us;
};

/* Counts a failure at this time in microseconds. Returns the count since it began if a message
 * is due, otherwise 0. */
uint64_t bi_log_limit_hit(struct bi_log_limit *limit, int64_t now);
/* Ends the failure. Returns how often it occurred; 0: never. */
uint64_t bi_log_limit_reset(struct bi_log_limit *limit);

#endif
