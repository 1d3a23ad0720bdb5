/* SPDX-License-Identifier: MIT */
/*
 * log - sentences for whoever runs the program. The library prints nothing by itself.
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

/* A failure that may repeat many times a second: it is logged when it first occurs, then after one
 * second, two, four, up to a minute, and once when it is over. Zeroed: it has not occurred. */
struct bi_log_repeat {
    uint64_t count;
    int64_t pause, next; /* us */
};

/* It has occurred, at this time in microseconds. Answers how often it has since it began if this is
 * to be logged, else 0. */
uint64_t bi_log_repeats(struct bi_log_repeat *repeat, int64_t now);
/* It is over. Answers how often it occurred; 0: it did not. */
uint64_t bi_log_ends(struct bi_log_repeat *repeat);

#endif
