/* SPDX-License-Identifier: MIT */
/*
 * arena - memory that is got in pieces and given back as a whole.
 *
 * What is read from JSON is a struct with everything that it points to. All of it lies in a few
 * blocks; the struct is the first piece of the first block, so that it leads to the others when it
 * is given back.
 *
 * Ownership  Pieces are never given back one by one.
 * Failure    A piece that cannot be had is NULL; the others stay as they are.
 */
#ifndef BI_ARENA_H
#define BI_ARENA_H

#include "util/alloc.h"

struct block;

struct arena {
    struct block *first;
    struct block *last; /* the only one that still has room */
};

/* The first block, with room for so many bytes, and more behind it for what will be wanted. */
int bi_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size, size_t more);

/* Zeroed, at an address that suits any type. */
void *bi_arena_get(struct arena *arena, size_t size);

/* Gives back all blocks of the arena whose first piece this is. NULL is fine. */
void bi_arena_free(void *first_piece);

#endif
