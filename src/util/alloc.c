/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* mremap */
#include "util/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * The arrays of a large queue grow and shrink under its lock. The C library may copy them when they
 * do, tens of megabytes at a time. So a large block has pages of its own, which the kernel moves
 * without copying.
 */
#define LARGE ((size_t)1 << 20)
/* Smaller ones are freed at once. */
#define FREED_LATER ((size_t)4096)

/* In front of every block; sixteen bytes, so that the block suits any type. */
struct header {
    size_t size;         /* with the header */
    struct header *next; /* in a list of those that are freed later */
};

static_assert(sizeof(struct header) % 16 == 0, "blocks must suit any type");

/* As realloc(), where the block is large before and after, or becomes so, or was so. */
static struct header *resize_large(struct header *header, size_t size)
{
    size_t old = header == NULL ? 0 : header->size;
    void *moved;
    if (size < LARGE) {
        moved = malloc(size);
    } else {
        moved = old >= LARGE
                    ? mremap(header, old, size, MREMAP_MAYMOVE)
                    : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (moved == MAP_FAILED)
            moved = NULL;
    }
    if (moved == NULL)
        return NULL;
    if (header == NULL || (old >= LARGE && size >= LARGE))
        return moved;
    memcpy(moved, header, old < size ? old : size);
    if (old >= LARGE)
        munmap(header, old);
    else
        free(header);
    return moved;
}

static void paged_free(struct header *header)
{
    if (header->size >= LARGE)
        munmap(header, header->size);
    else
        free(header);
}

static void free_later(struct bi_freed *freed, struct header *header)
{
    if (header->size < FREED_LATER) {
        paged_free(header);
        return;
    }
    header->next = freed->first;
    freed->first = header;
}

void bi_freed_free(struct bi_freed freed)
{
    for (struct header *header = freed.first; header != NULL;) {
        struct header *next = header->next;
        paged_free(header);
        header = next;
    }
}

static void *paged_resize(void *ctx, void *memory, size_t size)
{
    struct header *header = memory;
    if (header != NULL)
        header--;
    if (size == 0) {
        if (header != NULL)
            free_later(ctx, header);
        return NULL;
    }
    if (size > SIZE_MAX - sizeof(*header))
        return NULL;

    size += sizeof(*header);
    if (size >= LARGE || (header != NULL && header->size >= LARGE))
        header = resize_large(header, size);
    else
        header = header == NULL ? malloc(size) : realloc(header, size);
    if (header == NULL)
        return NULL;
    header->size = size;
    return header + 1;
}

struct bi_alloc bi_alloc_paged(struct bi_freed *freed)
{
    return (struct bi_alloc){.resize = paged_resize, .ctx = freed};
}

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
