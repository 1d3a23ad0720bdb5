/* SPDX-License-Identifier: MIT */
#include "util/alloc.h"

#include <stdlib.h>

static void *libc_resize(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(memory);
        return NULL;
    }
    return realloc(memory, size);
}

struct bi_alloc bi_alloc_libc(void)
{
    return (struct bi_alloc){.resize = libc_resize, .ctx = NULL};
}
