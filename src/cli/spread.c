/* SPDX-License-Identifier: MIT */
#include "cli/spread.h"

#define BITS 5 /* 32 classes for each power of two */

static size_t class_of(uint64_t duration)
{
    if (duration < (1u << BITS))
        return (size_t)duration;
    unsigned shift = 63u - (unsigned)__builtin_clzll(duration) - BITS;
    return ((size_t)(shift + 1) << BITS) + (size_t)((duration >> shift) - (1u << BITS));
}

/* The longest duration of a class. */
static uint64_t longest_of(size_t class)
{
    if (class < (1u << BITS))
        return class;
    unsigned shift = (unsigned)(class >> BITS) - 1;
    uint64_t first = (uint64_t)(class & ((1u << BITS) - 1)) + (1u << BITS);
    return (first << shift) + ((UINT64_C(1) << shift) - 1);
}

void bi_spread_add(struct spread *spread, uint64_t duration)
{
    spread->count++;
    spread->classes[class_of(duration)]++;
    if (duration > spread->longest)
        spread->longest = duration;
}

void bi_spread_merge(struct spread *spread, const struct spread *other)
{
    spread->count += other->count;
    for (size_t i = 0; i < BI_SPREAD_CLASSES; i++)
        spread->classes[i] += other->classes[i];
    if (other->longest > spread->longest)
        spread->longest = other->longest;
}

uint64_t bi_spread_at(const struct spread *spread, double part)
{
    double wanted = part * (double)spread->count;
    uint64_t seen = 0;
    for (size_t i = 0; i < BI_SPREAD_CLASSES && spread->count > 0; i++) {
        seen += spread->classes[i];
        if ((double)seen >= wanted && seen > 0) {
            uint64_t most = longest_of(i);
            return most < spread->longest ? most : spread->longest;
        }
    }
    return spread->longest;
}
