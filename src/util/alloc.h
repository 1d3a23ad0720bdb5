/* SPDX-License-Identifier: MIT */
/*
 * alloc - an allocator as a value.
 *
 * The core allocates through one, so that a test can make any allocation fail.
 */
#ifndef BI_ALLOC_H
#define BI_ALLOC_H

#include <stddef.h>

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

#endif
