/* SPDX-License-Identifier: MIT */
/*
 * alloc_fixture - an allocator that counts what is allocated, and fails on request. New memory is
 * not zero, so that a test detects what its user forgets to set.
 */
#ifndef BI_UNIT_ALLOC_FIXTURE_H
#define BI_UNIT_ALLOC_FIXTURE_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct test_alloc {
    size_t bytes;       /* allocated now */
    size_t blocks;      /* allocated now */
    uint64_t calls;     /* calls that asked for memory */
    uint64_t countdown; /* the call that fails, 1 being the next one; 0: none */
    bool failing;       /* every call fails */
    uint64_t failed;    /* calls that failed */
};

void *test_alloc_resize(void *ctx, void *memory, size_t size);
struct bi_alloc test_alloc_of(struct test_alloc *alloc);

#endif
