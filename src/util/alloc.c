/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* mremap */
#include "util/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The arrays of a large queue grow and shrink under its lock, and realloc() may copy them,
 * tens of megabytes at a time. So a large block has its own pages, which the kernel remaps
 * without a copy. */
#define LARGE_MIN ((size_t)1 << 20)
/* Smaller blocks are freed at once. */
#define DEFER_MIN ((size_t)4096)

/* Before every block; sixteen bytes, so that the block is aligned for any type. */
struct header {
    size_t size;         /* including the header */
    struct header *next; /* in the deferred list */
};

static_assert(sizeof(struct header) % 16 == 0, "blocks must suit any type");

static void free_block(struct header *header)
{
    if (header->size >= LARGE_MIN)
        munmap(header, header->size);
    else
        free(header);
}

static void defer_free(struct bi_alloc_deferred *deferred, struct header *header)
{
    if (header->size < DEFER_MIN) {
        free_block(header);
        return;
    }

    header->next = deferred->first;
    deferred->first = header;
}

/* Like realloc(), if the block is large before or afterwards. */
static struct header *resize_large(struct bi_alloc_deferred *deferred, struct header *header,
                                   size_t size)
{
    size_t old = header == NULL ? 0 : header->size;
    assert(size >= LARGE_MIN || old >= LARGE_MIN);
    void *resized;

    if (size < LARGE_MIN) {
        resized = malloc(size);
    } else {
        /* mremap() moves the pages by changing the page table. */
        resized = old >= LARGE_MIN ? mremap(header, old, size, MREMAP_MAYMOVE)
                                   : mmap(NULL, size, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (resized == MAP_FAILED)
            resized = NULL;
    }

    if (resized == NULL)
        return NULL;
    if (header == NULL || (old >= LARGE_MIN && size >= LARGE_MIN))
        return resized;

    /* The block crosses the threshold, in either direction: this is the only copy. */
    memcpy(resized, header, old < size ? old : size);
    defer_free(deferred, header);
    return resized;
}

void bi_alloc_deferred_free(struct bi_alloc_deferred deferred)
{
    for (struct header *header = deferred.first; header != NULL;) {
        struct header *next = header->next;
        free_block(header);
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
            defer_free(ctx, header);
        return NULL;
    }
    if (size > SIZE_MAX - sizeof(*header))
        return NULL;

    size += sizeof(*header);
    if (size >= LARGE_MIN || (header != NULL && header->size >= LARGE_MIN))
        header = resize_large(ctx, header, size);
    else
        header = header == NULL ? malloc(size) : realloc(header, size);
    if (header == NULL)
        return NULL;

    header->size = size;
    return header + 1;
}

struct bi_alloc bi_alloc_paged(struct bi_alloc_deferred *deferred)
{
    return (struct bi_alloc){.resize = paged_resize, .ctx = deferred};
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
