/* SPDX-License-Identifier: MIT */
#include "util/alloc.h"

#include <assert.h>
#include <string.h>

void bi_pool_init(struct pool *pool, struct bi_alloc alloc, size_t item_size, uint32_t shift)
{
    assert(item_size % 8 == 0 && item_size >= 8 && shift > 0 && shift < 20);
    memset(pool, 0, sizeof(*pool));
    pool->alloc = alloc;
    pool->item_size = (uint32_t)item_size;
    pool->shift = shift;
}

void bi_pool_done(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->slab_count; i++)
        bi_alloc_free(&pool->alloc, pool->slabs[i].items);
    bi_alloc_free(&pool->alloc, pool->slabs);
    pool->slabs = NULL;
    pool->slab_count = 0;
}

/* ---- list of partial slabs ---- */

static void link_partial(struct pool *pool, uint32_t index)
{
    struct pool_slab *slab = &pool->slabs[index];
    slab->prev = 0;
    slab->next = pool->partial;
    if (pool->partial != 0)
        pool->slabs[pool->partial - 1].prev = index + 1;
    pool->partial = index + 1;
}

static void unlink_partial(struct pool *pool, uint32_t index)
{
    const struct pool_slab *slab = &pool->slabs[index];
    if (slab->prev != 0)
        pool->slabs[slab->prev - 1].next = slab->next;
    else
        pool->partial = slab->next;
    if (slab->next != 0)
        pool->slabs[slab->next - 1].prev = slab->prev;
}

/* ---- slabs ---- */

static bool grow_slabs(struct pool *pool)
{
    uint32_t count = pool->slab_count == 0 ? 8 : pool->slab_count * 2;
    /* A reference has 32 bits. */
    if ((uint64_t)count << pool->shift > UINT32_MAX)
        return false;

    struct pool_slab *slabs = bi_alloc_resize(&pool->alloc, pool->slabs, count * sizeof(*slabs));
    if (slabs == NULL)
        return false;

    memset(slabs + pool->slab_count, 0, (count - pool->slab_count) * sizeof(*slabs));
    pool->slabs = slabs;
    pool->slab_count = count;
    return true;
}

static bool add_slab(struct pool *pool)
{
    uint32_t index = pool->slab_hint;
    while (index < pool->slab_count && pool->slabs[index].items != NULL)
        index++;

    if (index == pool->slab_count && !grow_slabs(pool))
        return false;
    char *items = bi_alloc_malloc(&pool->alloc, (size_t)pool->item_size << pool->shift);
    if (items == NULL)
        return false;

    /* Item 0 of slab 0 is never allocated: reference 0 means none. */
    assert(index < pool->slab_count && pool->slabs[index].items == NULL);
    pool->slabs[index] = (struct pool_slab){.items = items, .fresh = index == 0 ? 1 : 0};
    pool->slab_hint = index + 1;
    pool->empty++;
    pool->room += (UINT64_C(1) << pool->shift) - (index == 0);
    link_partial(pool, index);
    return true;
}

static void free_slab(struct pool *pool, uint32_t index)
{
    assert(pool->slabs[index].used == 0 && pool->empty > 0);
    unlink_partial(pool, index);
    bi_alloc_free(&pool->alloc, pool->slabs[index].items);
    pool->slabs[index].items = NULL;
    pool->empty--;
    pool->room -= (UINT64_C(1) << pool->shift) - (index == 0);

    if (index < pool->slab_hint)
        pool->slab_hint = index;
}

/* ---- items ---- */

/* A free item holds the reference of the next one of its slab. */
static uint32_t *next_free(const struct pool *pool, const struct pool_slab *slab, uint32_t index)
{
    return (uint32_t *)(void *)(slab->items + (size_t)index * pool->item_size);
}

bool bi_pool_reserve(struct pool *pool, uint32_t count)
{
    assert(pool->used <= pool->room);
    while (pool->room - pool->used < count)
        if (!add_slab(pool))
            return false;
    return true;
}

uint32_t bi_pool_alloc(struct pool *pool)
{
    if (pool->partial == 0 && !add_slab(pool))
        return 0;

    uint32_t number = pool->partial - 1;
    struct pool_slab *slab = &pool->slabs[number];
    uint32_t index;

    /* A freed item first: its memory is more likely in the cache than a fresh one. */
    if (slab->free != 0) {
        index = slab->free - 1;
        slab->free = *next_free(pool, slab, index);
    } else {
        index = slab->fresh++;
    }

    assert(index < 1u << pool->shift && slab->items != NULL);
    if (slab->used++ == 0)
        pool->empty--;
    pool->used++;

    if (slab->free == 0 && slab->fresh == 1u << pool->shift)
        unlink_partial(pool, number);
    return (number << pool->shift) | index;
}

void bi_pool_free(struct pool *pool, uint32_t ref)
{
    uint32_t number = ref >> pool->shift;
    uint32_t index = ref & ((1u << pool->shift) - 1);
    struct pool_slab *slab = &pool->slabs[number];
    assert(ref != 0 && slab->used > 0);

    bool was_partial = slab->free != 0 || slab->fresh < 1u << pool->shift;
    *next_free(pool, slab, index) = slab->free;
    slab->free = index + 1;
    pool->used--;

    if (!was_partial)
        link_partial(pool, number);

    /* One empty slab is retained, or a queue that alternates between two sizes would allocate
     * and free a slab each time. */
    if (--slab->used == 0 && ++pool->empty > 1)
        free_slab(pool, number);
}

uint32_t bi_pool_limit(const struct pool *pool)
{
    uint32_t count = pool->slab_count;
    while (count > 0 && pool->slabs[count - 1].items == NULL)
        count--;
    return count << pool->shift;
}
