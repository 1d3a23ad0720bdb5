/* SPDX-License-Identifier: MIT */
/*
 * pool - items of one size, each named by a 32-bit reference.
 *
 * Jobs refer to each other by reference instead of by pointer: half the bytes, which matters with
 * millions of jobs in memory. Items are allocated in slabs. An empty slab is freed, except one, so
 * a queue that has drained retains no memory.
 *
 * Ownership  The pool owns the memory of the items, the caller their contents.
 * Failure    Only alloc can fail (out of memory); the pool is then unchanged.
 * Cost       alloc, free and at are O(1). A reference is never 0.
 */
#ifndef BI_POOL_H
#define BI_POOL_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

/* Separate from the items, so that a free touches no other cache line of a cold slab. */
struct pool_slab {
    char *items;    /* NULL: none */
    uint32_t used;  /* allocated items */
    uint32_t fresh; /* items from here on were never allocated */
    uint32_t free;  /* first item of the free list, +1; 0: none */
    uint32_t prev;  /* neighbours in the list of partial slabs, +1; 0: none */
    uint32_t next;
    uint32_t pad;
};

struct pool {
    struct bi_alloc alloc;
    uint32_t item_size;
    uint32_t shift; /* a slab has 1 << shift items */
    struct pool_slab *slabs;
    uint32_t slab_count; /* elements of slabs */
    uint32_t slab_hint;  /* every element below has a slab */
    uint32_t partial;    /* first slab with free items, +1; 0: none */
    uint32_t empty;      /* slabs without allocated items */
    uint64_t used;       /* allocated items of all slabs */
};

void bi_pool_init(struct pool *pool, struct bi_alloc alloc, size_t item_size, uint32_t shift);
void bi_pool_done(struct pool *pool);

/* Returns a new item with undefined bytes; 0 when out of memory. */
uint32_t bi_pool_alloc(struct pool *pool);
void bi_pool_free(struct pool *pool, uint32_t ref);

/* An upper bound of all references in use. O(slabs). */
uint32_t bi_pool_limit(const struct pool *pool);

static inline void *bi_pool_at(const struct pool *pool, uint32_t ref)
{
    uint32_t index = ref & ((1u << pool->shift) - 1);
    return pool->slabs[ref >> pool->shift].items + (size_t)index * pool->item_size;
}

#endif
