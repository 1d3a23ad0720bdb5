/* SPDX-License-Identifier: MIT */
/*
 * heap - an indexed min-heap with four children per node, for any type of entry.
 *
 * Each topic has one for its ready jobs and one per clock for its delayed jobs; each clock has one
 * for its timers. An entry contains its key, so that sifting reads one cache line per level
 * instead of four jobs. The owner of an entry stores its slot, so a job can be removed from the
 * middle without a search.
 *
 * This is a template: define these macros, then include it. It defines struct <name>_heap and
 * static functions <name>_heap_<verb>.
 *
 *     BI_HEAP_NAME                 the name
 *     BI_HEAP_ENTRY                the type of an entry
 *     BI_HEAP_LESS(a, b)           compares two const entry pointers
 *     BI_HEAP_MOVED(ctx, e, slot)  stores the slot with the owner of *e
 *
 * Ordering   LESS is a strict total order. Ties would make the pop order depend on history, and a
 *            simulation could not be replayed from its seed.
 * Ownership  Entries are values; the objects to which they refer belong to the caller.
 * Failure    Only reserve can fail (out of memory); the heap is then unchanged. Room is reserved
 *            when an entry's owner is created, so that no change of state fails for lack of it.
 * Cost       push and remove O(log n); the smallest entry is at slot 0.
 */
#include "util/alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BI_HEAP_TRIM 32768 /* entries to release in one step */

#ifdef BI_HEAP_NAME

#define BI_HEAP_CAT2(a, b) a##b
#define BI_HEAP_CAT(a, b)  BI_HEAP_CAT2(a, b)
#define BI_HEAP_FN(verb)   BI_HEAP_CAT(BI_HEAP_NAME, _heap_##verb)
#define BI_HEAP            BI_HEAP_CAT(BI_HEAP_NAME, _heap)

struct BI_HEAP {
    BI_HEAP_ENTRY *entries;
    uint32_t count;
    uint32_t room;
};

/* Makes room for so many entries in total. False when out of memory. */
static inline bool BI_HEAP_FN(reserve)(struct BI_HEAP *heap, const struct bi_alloc *alloc,
                                       uint32_t room)
{
    if (room <= heap->room)
        return true;
    uint32_t want = heap->room < 2 ? 2 : heap->room + heap->room / 2;
    if (want < room)
        want = room;

    /* Do not let realloc() copy room that was reserved and never used: it would become resident. */
    bool sparse = heap->count < heap->room / 2;
    BI_HEAP_ENTRY *entries =
        bi_alloc_resize(alloc, sparse ? NULL : heap->entries, (size_t)want * sizeof(*entries));
    if (entries == NULL)
        return false;

    if (sparse) {
        if (heap->count > 0)
            memcpy(entries, heap->entries, heap->count * sizeof(*entries));
        bi_alloc_free(alloc, heap->entries);
    }

    heap->entries = entries;
    heap->room = want;
    return true;
}

/* Releases memory when far more is reserved than the owners need. Releases a limited amount per
 * call, because the kernel takes long to reclaim pages and the caller holds the lock. */
static inline void BI_HEAP_FN(trim)(struct BI_HEAP *heap, const struct bi_alloc *alloc,
                                    uint32_t room)
{
    /* At a quarter only: a count near the limit does not allocate again and again. */
    if (heap->room < 64 || heap->room / 4 < room)
        return;

    uint32_t want = heap->room / 2;
    if (heap->room - want > BI_HEAP_TRIM)
        want = heap->room - BI_HEAP_TRIM;

    BI_HEAP_ENTRY *entries = bi_alloc_resize(alloc, heap->entries, (size_t)want * sizeof(*entries));
    if (entries == NULL)
        return;

    heap->entries = entries;
    heap->room = want;
}

static inline void BI_HEAP_FN(free)(struct BI_HEAP *heap, const struct bi_alloc *alloc)
{
    bi_alloc_free(alloc, heap->entries);
    heap->entries = NULL;
    heap->count = heap->room = 0;
}

static inline void BI_HEAP_FN(set)(struct BI_HEAP *heap, void *ctx, uint32_t slot,
                                   BI_HEAP_ENTRY entry)
{
    (void)ctx;
    heap->entries[slot] = entry;
    BI_HEAP_MOVED(ctx, &entry, slot);
}

/* Moves an entry up from a free slot to its place. Parents move down into the free slot, so each
 * level writes one entry. */
static inline void BI_HEAP_FN(up)(struct BI_HEAP *heap, void *ctx, uint32_t slot,
                                  BI_HEAP_ENTRY entry)
{
    while (slot > 0) {
        uint32_t parent = (slot - 1) / 4;
        if (!BI_HEAP_LESS(&entry, &heap->entries[parent]))
            break;
        BI_HEAP_FN(set)(heap, ctx, slot, heap->entries[parent]);
        slot = parent;
    }
    BI_HEAP_FN(set)(heap, ctx, slot, entry);
}

/* Returns the smallest child of a slot that has one. */
static inline uint32_t BI_HEAP_FN(least_child)(const struct BI_HEAP *heap, uint32_t slot)
{
    const BI_HEAP_ENTRY *entries = heap->entries;
    uint32_t best = slot * 4 + 1;

    /* A full node: two independent comparisons, then one, without unpredictable branches. */
    if (heap->count - best >= 4) {
        uint32_t left = best + BI_HEAP_LESS(&entries[best + 1], &entries[best]);
        uint32_t right = best + 2 + BI_HEAP_LESS(&entries[best + 3], &entries[best + 2]);
        return BI_HEAP_LESS(&entries[right], &entries[left]) ? right : left;
    }

    for (uint32_t child = best + 1; child < heap->count; child++)
        if (BI_HEAP_LESS(&entries[child], &entries[best]))
            best = child;
    return best;
}

/* Prefetches the sixteen grandchildren, of which the next step reads four. */
BI_PREFETCH_FN void BI_HEAP_FN(prefetch)(const struct BI_HEAP *heap, uint32_t slot)
{
    uint64_t first = (uint64_t)slot * 16 + 5;
    if (heap->count >= BI_PREFETCH_MIN && first < heap->count)
        bi_prefetch(&heap->entries[first], 16 * sizeof(BI_HEAP_ENTRY));
}

/* Moves an entry down from a free slot to its place. */
static inline void BI_HEAP_FN(down)(struct BI_HEAP *heap, void *ctx, uint32_t slot,
                                    BI_HEAP_ENTRY entry)
{
    while ((uint64_t)slot * 4 + 1 < heap->count) {
        BI_HEAP_FN(prefetch)(heap, slot);
        uint32_t child = BI_HEAP_FN(least_child)(heap, slot);
        if (!BI_HEAP_LESS(&heap->entries[child], &entry))
            break;
        BI_HEAP_FN(set)(heap, ctx, slot, heap->entries[child]);
        slot = child;
    }
    BI_HEAP_FN(set)(heap, ctx, slot, entry);
}

static inline void BI_HEAP_FN(push)(struct BI_HEAP *heap, void *ctx, BI_HEAP_ENTRY entry)
{
    assert(heap->count < heap->room);
    BI_HEAP_FN(up)(heap, ctx, heap->count++, entry);
}

/* Replaces the entry of a slot, which is how a key changes. */
static inline void BI_HEAP_FN(replace)(struct BI_HEAP *heap, void *ctx, uint32_t slot,
                                       BI_HEAP_ENTRY entry)
{
    if (slot > 0 && BI_HEAP_LESS(&entry, &heap->entries[(slot - 1) / 4]))
        BI_HEAP_FN(up)(heap, ctx, slot, entry);
    else
        BI_HEAP_FN(down)(heap, ctx, slot, entry);
}

static inline void BI_HEAP_FN(remove)(struct BI_HEAP *heap, void *ctx, uint32_t slot)
{
    assert(slot < heap->count);

    /* The last entry fills the hole. It may come from another branch and belong further up. */
    BI_HEAP_ENTRY last = heap->entries[--heap->count];
    if (slot != heap->count)
        BI_HEAP_FN(replace)(heap, ctx, slot, last);
}

#undef BI_HEAP
#undef BI_HEAP_FN
#undef BI_HEAP_CAT
#undef BI_HEAP_CAT2
#undef BI_HEAP_NAME
#undef BI_HEAP_ENTRY
#undef BI_HEAP_LESS
#undef BI_HEAP_MOVED

#endif
