/* SPDX-License-Identifier: MIT */
#include "alloc.h"

#include <stdlib.h>

static bool must_fail(struct sim_alloc *alloc)
{
    if (alloc->countdown == 0)
        return false;
    if (alloc->countdown > 1) {
        alloc->countdown--;
        return false;
    }
    alloc->failed++;
    if (alloc->fail_run == 0 || --alloc->fail_run == 0)
        alloc->countdown = 0;
    return true;
}

static void *resize(void *ctx, void *memory, size_t size)
{
    struct sim_alloc *alloc = ctx;
    if (size == 0) {
        if (memory != NULL)
            alloc->blocks--;
        free(memory);
        return NULL;
    }
    if (must_fail(alloc))
        return NULL;
    void *moved = realloc(memory, size);
    if (moved == NULL)
        abort();
    if (memory == NULL)
        alloc->blocks++;
    return moved;
}

struct bi_alloc sim_alloc_of(struct sim_alloc *alloc)
{
    return (struct bi_alloc){.resize = resize, .ctx = alloc};
}

void sim_alloc_arm(struct sim_alloc *alloc, uint64_t countdown, unsigned run)
{
    alloc->countdown = countdown;
    alloc->fail_run = run;
    alloc->failed = 0;
}

bool sim_alloc_disarm(struct sim_alloc *alloc)
{
    alloc->countdown = 0;
    alloc->fail_run = 0;
    return alloc->failed != 0;
}
