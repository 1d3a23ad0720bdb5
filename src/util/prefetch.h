/* SPDX-License-Identifier: MIT */
/*
 * prefetch - loads memory that is needed soon into the cache.
 *
 * A function that only prefetches must be inlined by force: gcc considers it free of effects and
 * removes the call.
 */
#ifndef BI_PREFETCH_H
#define BI_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* Tables with fewer items fit into the cache anyway. */
#define BI_PREFETCH_MIN 4096

#define BI_PREFETCH_FN static inline __attribute__((always_inline))

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
