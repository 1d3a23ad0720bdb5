/* SPDX-License-Identifier: MIT */
/*
 * top_format - figures in a few columns, for `bide top`: rounded rather than cut.
 */
#ifndef BI_TOP_FORMAT_H
#define BI_TOP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BI_TOP_FORMAT_SIZE 24

/* At most 5 columns: "99999", "123k", "1.2M". */
void bi_top_format_count(char *to, uint64_t number);

/* How much a second, at most 5 columns: "0", "0.3", "12.5", "1234", "12.3k". Less than 0 is not
 * known: "-". */
void bi_top_format_rate(char *to, double rate);

/* A duration, at most 6 columns: "12s", "3m20s", "23h59m", "6d12h", "120d". */
void bi_top_format_age(char *to, int64_t ms);

/*
 * A line of bars, one column for each value, the highest as high as can be; something that is not
 * nothing is never shown as nothing. utf8: eight blocks, else seven signs of ASCII. to: 3 bytes for
 * each value, and one.
 */
void bi_top_format_sparkline(char *to, const float *values, size_t count, bool utf8);

#endif
