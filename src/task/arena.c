/* SPDX-License-Identifier: MIT */
#include "task/arena.h"

#include <bide/error.h>

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define ALIGNMENT alignof(max_align_t)
#define BLOCK_MIN ((size_t)1024)

struct block {
    struct bi_alloc alloc; /* where it came from */
    struct block *next;
    size_t room;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
};

static size_t rounded(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct block *block_new(const struct bi_alloc *alloc, size_t room)
{
    struct block *block = bi_alloc_get(alloc, sizeof(*block) + room);
    if (block == NULL)
        return NULL;
    block->alloc = *alloc;
    block->next = NULL;
    block->room = room;
    block->used = 0;
    return block;
}

static void *take(struct block *block, size_t size)
{
    void *piece = block->bytes + block->used;
    block->used += size;
    memset(piece, 0, size);
    return piece;
}

int bi_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size, size_t more)
{
    arena->first = block_new(alloc, rounded(size) + rounded(more));
    arena->last = arena->first;
    return arena->first == NULL ? BIDE_ENOMEM : BIDE_OK;
}

void *bi_arena_get(struct arena *arena, size_t size)
{
    struct block *last = arena->last;
    if (size > PTRDIFF_MAX - BLOCK_MIN)
        return NULL;
    size = rounded(size);
    if (size > last->room - last->used) {
        /* Blocks grow, so that many small pieces are few blocks. */
        size_t room = last->room < SIZE_MAX / 4 ? last->room * 2 : last->room;
        if (room < BLOCK_MIN)
            room = BLOCK_MIN;
        if (room > 64 * BLOCK_MIN)
            room = 64 * BLOCK_MIN;
        last->next = block_new(&last->alloc, size > room ? size : room);
        if (last->next == NULL)
            return NULL;
        last = arena->last = last->next;
    }
    return take(last, size);
}

void bi_arena_free(void *first_piece)
{
    if (first_piece == NULL)
        return;
    void *first = (unsigned char *)first_piece - offsetof(struct block, bytes);
    struct block *block = first;
    while (block != NULL) {
        struct block *next = block->next;
        struct bi_alloc alloc = block->alloc;
        bi_alloc_put(&alloc, block);
        block = next;
    }
}
