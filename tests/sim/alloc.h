/* SPDX-License-Identifier: MIT */
/*
 * alloc - an allocator that counts what is out and fails when told.
 */
#ifndef SIM_ALLOC_H
#define SIM_ALLOC_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_alloc {
    int64_t blocks;     /* not freed yet */
    uint64_t countdown; /* 0: none fails; n: the n-th from now fails */
    unsigned fail_run;  /* and so many after it */
    unsigned failed;    /* since the last sim_alloc_arm() */
};

struct bi_alloc sim_alloc_of(struct sim_alloc *alloc);

/* The countdown-th allocation from now fails, and run - 1 more. */
void sim_alloc_arm(struct sim_alloc *alloc, uint64_t countdown, unsigned run);

/* No allocation fails any more; answers whether one has. */
bool sim_alloc_disarm(struct sim_alloc *alloc);

#endif
