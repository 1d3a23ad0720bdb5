/* SPDX-License-Identifier: MIT */
/*
 * log - sentences for whoever runs the program. The library prints nothing by itself.
 */
#ifndef BI_LOG_H
#define BI_LOG_H

#include <bide/bide.h>

struct bi_log {
    bide_log_handler handler; /* NULL: nobody listens */
    void *user;
};

void bi_log(const struct bi_log *log, bide_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
