/* SPDX-License-Identifier: MIT */
/*
 * arena - allocates many pieces that are freed together.
 *
 * A value decoded from JSON is a struct with everything that it points to, in a few blocks. The
 * struct is the first piece of the first block: its address alone is enough to find and free all
 * blocks, so bide_decoded_free() needs no handle.
 *
 * Ownership  Pieces are not freed one by one.
 * Failure    bi_arena_alloc() returns NULL when out of memory; other pieces stay valid.
 * Cost       One malloc for a small value; blocks double in size up to 64 KiB.
 */
#ifndef BI_ARENA_H
#define BI_ARENA_H

#include "util/alloc.h"

struct block;

struct arena {
    struct block *first;
    struct block *last; /* the only one with free room */
};

/* Allocates the first block, with room for a first piece of `size` bytes and `extra` bytes more, an
 * estimate. On failure there is nothing to free. */
int bi_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size, size_t extra);

/* Zeroed, and aligned for any type. */
void *bi_arena_alloc(struct arena *arena, size_t size);

/* Frees all blocks of the arena whose first piece this is. NULL is allowed. */
void bi_arena_free(void *first_piece);

#endif
