/* SPDX-License-Identifier: MIT */
/*
 * errmsg - error messages of programs: command line, server, configuration.
 */
#ifndef BI_ERRMSG_H
#define BI_ERRMSG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define BI_ERRMSG_SIZE 512

/* Writes a message, truncated if it is too long. Returns false, for `return bi_errmsg_set(...)`. */
__attribute__((format(printf, 2, 3))) static inline bool bi_errmsg_set(char *error,
                                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, BI_ERRMSG_SIZE, format, args);
    va_end(args);
    return false;
}

#endif
