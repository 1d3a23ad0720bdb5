/* SPDX-License-Identifier: MIT */
/*
 * ahead - telling the cache what will be needed soon.
 *
 * A function that does nothing but this must be inlined by force: gcc takes it for one without
 * effect and drops the call.
 */
#ifndef BI_AHEAD_H
#define BI_AHEAD_H

#include <stddef.h>

/* With fewer items than this everything is in the cache anyway. */
#define BI_AHEAD_FROM 4096

#define BI_AHEAD_FN static inline __attribute__((always_inline))

/* The bytes at an address that may be NULL. */
BI_AHEAD_FN void bi_ahead(const void *memory, size_t size)
{
    for (size_t i = 0; i < size; i += 64)
        __builtin_prefetch((const char *)memory + i);
    __builtin_prefetch((const char *)memory + size - 1);
}

#endif
