/* SPDX-License-Identifier: MIT */
/*
 * print - bytes and transcripts for failure reports.
 */
#ifndef WIRE_PRINT_H
#define WIRE_PRINT_H

#include "scenario.h"

/* Room for so many bytes when they are shown. */
#define PRINTED_SIZE(size) ((size)*4 + 4)

/* Writes at most max of the bytes, those that cannot be printed as escapes. */
void print_bytes(const char *data, size_t size, size_t max, char *out);

/* Prints what is left of a story up to a turn. */
void print_scenario(const struct scenario *scenario, size_t last);

#endif
