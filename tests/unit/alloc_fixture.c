/* SPDX-License-Identifier: MIT */
#include "alloc_fixture.h"

/* Precedes every block; 16 bytes, so that the block is aligned for any type. */
struct test_block {
    size_t size;
    size_t pad;
};

static bool test_alloc_must_fail(struct test_alloc *alloc)
{
    alloc->calls++;
    bool fails = alloc->failing || alloc->countdown == 1;
    if (alloc->countdown > 0)
        alloc->countdown--;
    alloc->failed += fails;
    return fails;
}

void *test_alloc_resize(void *ctx, void *memory, size_t size)
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

struct bi_alloc test_alloc_of(struct test_alloc *alloc)
{
    return (struct bi_alloc){.resize = test_alloc_resize, .ctx = alloc};
}
