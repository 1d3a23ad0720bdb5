/* SPDX-License-Identifier: MIT */
/*
 * histogram - the distribution of any number of durations in fixed memory.
 *
 * Values are counted in buckets: 32 for each power of two, so a quantile is exact to about 3 %.
 * The maximum is exact.
 */
#ifndef BI_HISTOGRAM_H
#define BI_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define BI_HISTOGRAM_BUCKETS ((size_t)60 * 32)

struct histogram {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[BI_HISTOGRAM_BUCKETS];
};

/* A zeroed histogram is empty. */
void bi_histogram_add(struct histogram *histogram, uint64_t value);
void bi_histogram_merge(struct histogram *histogram, const struct histogram *other);
/* The value that this part (0.99) of all values does not exceed; 0 if there are none. */
uint64_t bi_histogram_quantile(const struct histogram *histogram, double quantile);

#endif
