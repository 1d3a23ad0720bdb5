/* SPDX-License-Identifier: MIT */
#include "util/pool.h"

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
        bi_alloc_put(&pool->alloc, pool->slabs[i].items);
    bi_alloc_put(&pool->alloc, pool->slabs);
    pool->slabs = NULL;
    pool->slab_count = 0;
}

/* ---- the list of slabs with room ---- */

static void room_add(struct pool *pool, uint32_t index)
{
    struct pool_slab *slab = &pool->slabs[index];
    slab->prev = 0;
    slab->next = pool->room;
    if (pool->room != 0)
        pool->slabs[pool->room - 1].prev = index + 1;
    pool->room = index + 1;
}

static void room_remove(struct pool *pool, uint32_t index)
{
    const struct pool_slab *slab = &pool->slabs[index];
    if (slab->prev != 0)
        pool->slabs[slab->prev - 1].next = slab->next;
    else
        pool->room = slab->next;
    if (slab->next != 0)
        pool->slabs[slab->next - 1].prev = slab->prev;
}

/* ---- slabs ---- */

static bool grow_places(struct pool *pool)
{
    uint32_t count = pool->slab_count == 0 ? 8 : pool->slab_count * 2;
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
    if (index == pool->slab_count && !grow_places(pool))
        return false;
    char *items = bi_alloc_get(&pool->alloc, (size_t)pool->item_size << pool->shift);
    if (items == NULL)
        return false;
    /* Reference 0 is nobody's. */
    pool->slabs[index] = (struct pool_slab){.items = items, .fresh = index == 0 ? 1 : 0};
    pool->slab_hint = index + 1;
    pool->empty++;
    room_add(pool, index);
    return true;
}

static void drop_slab(struct pool *pool, uint32_t index)
{
    room_remove(pool, index);
    bi_alloc_put(&pool->alloc, pool->slabs[index].items);
    pool->slabs[index].items = NULL;
    pool->empty--;
    if (index < pool->slab_hint)
        pool->slab_hint = index;
}

/* ---- items ---- */

static uint32_t *next_free(const struct pool *pool, uint32_t slab, uint32_t index)
{
    return bi_pool_at(pool, (slab << pool->shift) | index);
}

uint32_t bi_pool_take(struct pool *pool)
{
    if (pool->room == 0 && !add_slab(pool))
        return 0;
    uint32_t number = pool->room - 1;
    struct pool_slab *slab = &pool->slabs[number];
    uint32_t index;
    if (slab->free != 0) {
        index = slab->free - 1;
        slab->free = *next_free(pool, number, index);
    } else {
        index = slab->fresh++;
    }
    if (slab->used++ == 0)
        pool->empty--;
    pool->used++;
    if (slab->free == 0 && slab->fresh == 1u << pool->shift)
        room_remove(pool, number);
    return (number << pool->shift) | index;
}

void bi_pool_give(struct pool *pool, uint32_t ref)
{
    uint32_t number = ref >> pool->shift;
    uint32_t index = ref & ((1u << pool->shift) - 1);
    struct pool_slab *slab = &pool->slabs[number];
    assert(ref != 0 && slab->used > 0);
    bool had_room = slab->free != 0 || slab->fresh < 1u << pool->shift;
    *next_free(pool, number, index) = slab->free;
    slab->free = index + 1;
    pool->used--;
    if (!had_room)
        room_add(pool, number);
    if (--slab->used == 0 && ++pool->empty > 1)
        drop_slab(pool, number);
}

uint32_t bi_pool_limit(const struct pool *pool)
{
    uint32_t count = pool->slab_count;
    while (count > 0 && pool->slabs[count - 1].items == NULL)
        count--;
    return count << pool->shift;
}
