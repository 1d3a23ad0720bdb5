/* SPDX-License-Identifier: MIT */
#include "task/arena.h"

#include <assert.h>
#include <bide/error.h>

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define ALIGNMENT alignof(max_align_t)
#define BLOCK_MIN ((size_t)1024)

struct block {
    struct bi_alloc alloc; /* frees it */
    struct block *next;
    size_t room;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct block *block_new(const struct bi_alloc *alloc, size_t room)
{
    struct block *block = bi_alloc_malloc(alloc, sizeof(*block) + room);
    if (block == NULL)
        return NULL;

    block->alloc = *alloc;
    block->next = NULL;
    block->room = room;
    block->used = 0;
    return block;
}

int bi_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size, size_t extra)
{
    arena->first = block_new(alloc, round_up(size) + round_up(extra));
    arena->last = arena->first;
    return arena->first == NULL ? BIDE_ENOMEM : BIDE_OK;
}

void *bi_arena_alloc(struct arena *arena, size_t size)
{
    struct block *last = arena->last;

    if (size > PTRDIFF_MAX - BLOCK_MIN)
        return NULL; /* round_up() and block_new() would overflow */

    size = round_up(size);
    if (size > last->room - last->used) {
        /* Blocks double, so that many small pieces need few of them. The maximum bounds what the
         * last block wastes. */
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
    assert(size <= last->room - last->used && last->next == NULL);
    void *piece = last->bytes + last->used;
    last->used += size;
    return memset(piece, 0, size);
}

void bi_arena_free(void *first_piece)
{
    if (first_piece == NULL)
        return;

    /* bytes[] is aligned like a piece, so the first piece begins exactly there. */
    void *first = (unsigned char *)first_piece - offsetof(struct block, bytes);
    struct block *block = first;
    while (block != NULL) {
        struct block *next = block->next;
        struct bi_alloc alloc = block->alloc; /* it is inside the memory that it frees */
        bi_alloc_free(&alloc, block);
        block = next;
    }
}
