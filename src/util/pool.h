/* SPDX-License-Identifier: MIT */
/*
 * pool - many items of one size, each named by a 32-bit reference.
 *
 * Jobs refer to each other by reference instead of by pointer: half the bytes, and with millions
 * of jobs resident that is what the memory is made of. Items lie in slabs; a slab without items
 * goes back to the allocator (all but one), so a backlog that has drained leaves no memory
 * behind.
 *
 * Ownership  The pool owns the memory of items; what is in them is the caller's.
 * Failure    Only take can fail (no memory), and then nothing has changed.
 * Cost       take, give and at: O(1). A reference is never 0.
 */
#ifndef BI_POOL_H
#define BI_POOL_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

/* Apart from its items, so that giving one back touches nothing else of a slab long unused. */
struct pool_slab {
    char *items;    /* NULL: none */
    uint32_t used;  /* items taken */
    uint32_t fresh; /* items from here on were never taken */
    uint32_t free;  /* first of the given ones, +1; 0: none */
    uint32_t prev;  /* neighbours in the list of slabs with room, +1; 0: none */
    uint32_t next;
    uint32_t pad;
};

struct pool {
    struct bi_alloc alloc;
    uint32_t item_size;
    uint32_t shift; /* a slab has 1 << shift items */
    struct pool_slab *slabs;
    uint32_t slab_count; /* places in slabs */
    uint32_t slab_hint;  /* no free place below this one */
    uint32_t room;       /* first slab with room, +1; 0: none */
    uint32_t empty;      /* slabs without an item */
    uint64_t used;       /* items taken, in all */
};

void bi_pool_init(struct pool *pool, struct bi_alloc alloc, size_t item_size, uint32_t shift);
void bi_pool_done(struct pool *pool);

/* A new item, its bytes undefined; 0 when out of memory. */
uint32_t bi_pool_take(struct pool *pool);
void bi_pool_give(struct pool *pool, uint32_t ref);

/* No reference in use is as large as this. Costs a look at every slab. */
uint32_t bi_pool_limit(const struct pool *pool);

static inline void *bi_pool_at(const struct pool *pool, uint32_t ref)
{
    uint32_t index = ref & ((1u << pool->shift) - 1);
    return pool->slabs[ref >> pool->shift].items + (size_t)index * pool->item_size;
}

#endif
