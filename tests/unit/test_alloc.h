/* SPDX-License-Identifier: MIT */
/*
 * test_alloc - an allocator that counts what is out, and fails when it is told to. New memory is not
 * zero, so that a test sees what its user forgets to set.
 */
#ifndef BI_UNIT_TEST_ALLOC_H
#define BI_UNIT_TEST_ALLOC_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct test_alloc {
    size_t bytes;       /* given out now */
    size_t blocks;      /* given out now */
    uint64_t calls;     /* that asked for memory */
    uint64_t countdown; /* the call that fails, 1 being the next one; 0: none */
    bool failing;       /* every call fails */
    uint64_t failed;    /* calls that did */
};

/* In front of every block; sixteen bytes, so that the block suits any type. */
struct test_block {
    size_t size;
    size_t pad;
};

static inline bool test_alloc_must_fail(struct test_alloc *alloc)
{
    alloc->calls++;
    bool fails = alloc->failing || alloc->countdown == 1;
    if (alloc->countdown > 0)
        alloc->countdown--;
    alloc->failed += fails;
    return fails;
}

static inline void *test_alloc_resize(void *ctx, void *memory, size_t size)
{
    struct test_alloc *alloc = ctx;
    struct test_block *block = memory == NULL ? NULL : (struct test_block *)memory - 1;
    size_t old = block == NULL ? 0 : block->size;
    if (size > 0 && test_alloc_must_fail(alloc))
        return NULL;
    alloc->bytes += size - old;
    alloc->blocks += (size_t)(size > 0) - (size_t)(block != NULL);
    if (size == 0) {
        free(block);
        return NULL;
    }
    block = realloc(block, sizeof(*block) + size);
    if (block == NULL)
        abort();
    if (size > old)
        memset((char *)(block + 1) + old, 0xa5, size - old);
    block->size = size;
    return block + 1;
}

static inline struct bi_alloc test_alloc_of(struct test_alloc *alloc)
{
    return (struct bi_alloc){.resize = test_alloc_resize, .ctx = alloc};
}

#endif
