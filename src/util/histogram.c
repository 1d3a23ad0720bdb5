/* SPDX-License-Identifier: MIT */
#include "util/histogram.h"

#include <assert.h>

#define BITS 5 /* 32 buckets for each power of two */

static size_t bucket_of(uint64_t value)
{
    if (value < (1u << BITS))
        return (size_t)value;

    /* The highest bit selects the power of two, the BITS below it the bucket. */
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - BITS;
    size_t bucket = ((size_t)(shift + 1) << BITS) + (size_t)((value >> shift) - (1u << BITS));
    assert(bucket < BI_HISTOGRAM_BUCKETS);
    return bucket;
}

/* The largest value of a bucket. */
static uint64_t bucket_max(size_t bucket)
{
    if (bucket < (1u << BITS))
        return bucket;

    unsigned shift = (unsigned)(bucket >> BITS) - 1;
    uint64_t first = (uint64_t)(bucket & ((1u << BITS) - 1)) + (1u << BITS);
    return (first << shift) + ((UINT64_C(1) << shift) - 1);
}

void bi_histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->buckets[bucket_of(value)]++;
    if (value > histogram->max)
        histogram->max = value;
}

void bi_histogram_merge(struct histogram *histogram, const struct histogram *other)
{
    assert(histogram != other);
    histogram->count += other->count;
    for (size_t i = 0; i < BI_HISTOGRAM_BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
    if (other->max > histogram->max)
        histogram->max = other->max;
}

uint64_t bi_histogram_quantile(const struct histogram *histogram, double quantile)
{
    assert(quantile >= 0 && quantile <= 1);
    double wanted = quantile * (double)histogram->count;
    uint64_t seen = 0;

    for (size_t i = 0; i < BI_HISTOGRAM_BUCKETS && histogram->count > 0; i++) {
        seen += histogram->buckets[i];
        if ((double)seen >= wanted && seen > 0) {
            /* The last bucket may reach beyond every value in it. */
            uint64_t upper = bucket_max(i);
            return upper < histogram->max ? upper : histogram->max;
        }
    }
    return histogram->max;
}
