/* SPDX-License-Identifier: MIT */
/*
 * spread - how many durations were how long.
 *
 * Any number of them in a fixed room: they are counted in classes, each at most 1/32 wider than the
 * one before, so what is answered is right to about 3 %, the longest exactly.
 */
#ifndef BI_SPREAD_H
#define BI_SPREAD_H

#include <stddef.h>
#include <stdint.h>

#define BI_SPREAD_CLASSES ((size_t)60 * 32)

struct spread {
    uint64_t count;
    uint64_t longest;
    uint64_t classes[BI_SPREAD_CLASSES];
};

/* A zeroed one is empty. */
void bi_spread_add(struct spread *spread, uint64_t duration);
void bi_spread_merge(struct spread *spread, const struct spread *other);
/* What that part of them (0.99) does not exceed; 0 of none. */
uint64_t bi_spread_at(const struct spread *spread, double part);

#endif
