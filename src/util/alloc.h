/* SPDX-License-Identifier: MIT */
/*
 * alloc - memory: an allocator as a value, pools, internal functions of buffers, and prefetching.
 *
 * The core allocates through a struct bi_alloc, so that a test can make any allocation fail.
 */
#ifndef BI_ALLOC_H
#define BI_ALLOC_H

#include <bide/job.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bi_alloc {
    /* Like realloc(); size 0 frees and returns NULL, NULL allocates. */
    void *(*resize)(void *ctx, void *memory, size_t size);
    void *ctx;
};

/* malloc() and free(). */
struct bi_alloc bi_alloc_libc(void);

/*
 * An allocator for memory that is used under a lock. Large blocks are resized without a copy.
 * Freed blocks, except small ones, are linked into a list instead: the kernel may take tens of
 * milliseconds to reclaim pages, and any free() may trigger that. The owner of the lock takes
 * the list, and frees it after it has released the lock.
 */
struct bi_alloc_deferred {
    void *first; /* NULL: none */
};

struct bi_alloc bi_alloc_paged(struct bi_alloc_deferred *deferred);

static inline struct bi_alloc_deferred bi_alloc_deferred_take(struct bi_alloc_deferred *deferred)
{
    struct bi_alloc_deferred taken = *deferred;
    deferred->first = NULL;
    return taken;
}

void bi_alloc_deferred_free(struct bi_alloc_deferred deferred);

static inline void *bi_alloc_malloc(const struct bi_alloc *alloc, size_t size)
{
    return alloc->resize(alloc->ctx, NULL, size);
}

static inline void *bi_alloc_resize(const struct bi_alloc *alloc, void *memory, size_t size)
{
    return alloc->resize(alloc->ctx, memory, size);
}

static inline void bi_alloc_free(const struct bi_alloc *alloc, void *memory)
{
    if (memory != NULL)
        alloc->resize(alloc->ctx, memory, 0);
}

/* ---- pools: items of one size, each named by a 32-bit reference (pool.c) ---- */

/*
 * Jobs refer to each other by reference instead of by pointer: half the bytes, which matters with
 * millions of jobs in memory. Items are allocated in slabs. An empty slab is freed, except one, so
 * a queue that has drained retains no memory.
 *
 * Ownership  The pool owns the memory of the items, the caller their contents.
 * Failure    Only alloc can fail (out of memory); the pool is then unchanged.
 * Cost       alloc, free and at are O(1). A reference is never 0.
 */

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
    uint64_t room;       /* items of all slabs, allocated or not */
    uint64_t used;       /* allocated items of all slabs */
};

void bi_pool_init(struct pool *pool, struct bi_alloc alloc, size_t item_size, uint32_t shift);
void bi_pool_done(struct pool *pool);

/* Returns a new item with undefined bytes; 0 when out of memory. */
uint32_t bi_pool_alloc(struct pool *pool);
/* Ensures that the next count calls of alloc cannot fail if no item is freed before them. False when
 * out of memory. */
bool bi_pool_reserve(struct pool *pool, uint32_t count);
void bi_pool_free(struct pool *pool, uint32_t ref);

/* An upper bound of all references in use. O(slabs). */
uint32_t bi_pool_limit(const struct pool *pool);

/* The item of a reference, in a pool with this item_size and shift. With constants the address
 * costs half the instructions. */
static inline void *bi_pool_at_sized(const struct pool *pool, uint32_t ref, size_t item_size,
                                     uint32_t shift)
{
    uint32_t index = ref & ((1u << shift) - 1);
    return pool->slabs[ref >> shift].items + index * item_size;
}

static inline void *bi_pool_at(const struct pool *pool, uint32_t ref)
{
    return bi_pool_at_sized(pool, ref, pool->item_size, pool->shift);
}

/* ---- the reference-counted buffers of job.h (buf.c) ---- */

/* A new buffer. The caller writes its bytes before it shares it. NULL when out of memory. */
bide_buf *bi_buf_alloc(size_t size, void **bytes);

/* Resizes a buffer with one reference. The bytes are preserved as far as they fit, and may
 * move. NULL when out of memory; the buffer is then unchanged. */
bide_buf *bi_buf_resize(bide_buf *buf, size_t size, void **bytes);

/* The bytes of a buffer; none of NULL. */
static inline bide_slice bi_buf_slice(const bide_buf *buf)
{
    return (bide_slice){bide_buf_data(buf), bide_buf_size(buf)};
}

/* Whether both have the same bytes. NULL equals NULL only. */
bool bi_buf_equal(const bide_buf *a, const bide_buf *b);

/* ---- prefetching ---- */

/* A function that only prefetches must be inlined by force: gcc considers it free of effects and
 * removes the call. */
#define BI_PREFETCH_FN static inline __attribute__((always_inline))

/* Tables with fewer items fit into the cache anyway. */
#define BI_PREFETCH_MIN 4096

/* The bytes at an address that may be NULL: a prefetch never faults. The arithmetic is done on an
 * integer because C defines none on a null pointer. */
BI_PREFETCH_FN void bi_prefetch(const void *memory, size_t size)
{
    uintptr_t from = (uintptr_t)memory;
    for (size_t i = 0; i < size; i += 64)
        __builtin_prefetch((const void *)(from + i));
    __builtin_prefetch((const void *)(from + size - 1));
}

#endif
