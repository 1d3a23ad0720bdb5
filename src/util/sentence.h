/* SPDX-License-Identifier: MIT */
/*
 * sentence - why something cannot be done, for whoever started the program.
 */
#ifndef BI_SENTENCE_H
#define BI_SENTENCE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define BI_SENTENCE_SIZE 512

/* Writes one, cut if it is too long, and answers false, as whoever refuses does. */
__attribute__((format(printf, 2, 3))) static inline bool bi_refuse(char *error, const char *format,
                                                                   ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, BI_SENTENCE_SIZE, format, args);
    va_end(args);
    return false;
}

#endif
