/* SPDX-License-Identifier: MIT */
#include "util/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Large arrays are read at random: with large pages the processor finds them without a walk. */
#define LARGE ((size_t)2 << 20)
#define PAGE  ((uintptr_t)4096)

static void ask_for_large_pages(void *memory, size_t size)
{
    uintptr_t begin = ((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + size) & ~(PAGE - 1);
    madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* a wish: the answer does not matter */
}

static void *libc_resize(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(memory);
        return NULL;
    }
    void *resized = realloc(memory, size);
    if (resized != NULL && size >= LARGE)
        ask_for_large_pages(resized, size);
    return resized;
}

struct bi_alloc bi_alloc_libc(void)
{
    return (struct bi_alloc){.resize = libc_resize, .ctx = NULL};
}
