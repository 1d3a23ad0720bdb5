/* SPDX-License-Identifier: MIT */
/*
 * alloc - where memory comes from, as a value.
 *
 * The core takes its memory through one of these, so that a test can make any allocation fail.
 */
#ifndef BI_ALLOC_H
#define BI_ALLOC_H

#include <stddef.h>

struct bi_alloc {
    /* As realloc(); size 0 frees and answers NULL; a NULL pointer allocates. */
    void *(*resize)(void *ctx, void *memory, size_t size);
    void *ctx;
};

/* The C library's. */
struct bi_alloc bi_alloc_libc(void);

/*
 * The same for memory that is used under a lock. Large blocks are resized without copying, whatever their
 * size. Blocks that are freed, but for small ones, are kept in a list: it may take the system tens of
 * milliseconds to take pages back, and the C library does that with any free. The owner of the lock takes
 * the list, and frees it when the lock is released.
 */
struct bi_freed {
    void *first; /* NULL: none */
};

struct bi_alloc bi_alloc_paged(struct bi_freed *freed);

static inline struct bi_freed bi_freed_take(struct bi_freed *freed)
{
    struct bi_freed taken = *freed;
    freed->first = NULL;
    return taken;
}

void bi_freed_free(struct bi_freed freed);

static inline void *bi_alloc_get(const struct bi_alloc *alloc, size_t size)
{
    return alloc->resize(alloc->ctx, NULL, size);
}

static inline void *bi_alloc_resize(const struct bi_alloc *alloc, void *memory, size_t size)
{
    return alloc->resize(alloc->ctx, memory, size);
}

static inline void bi_alloc_put(const struct bi_alloc *alloc, void *memory)
{
    if (memory != NULL)
        alloc->resize(alloc->ctx, memory, 0);
}

#endif
