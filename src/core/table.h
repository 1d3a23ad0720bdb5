/* SPDX-License-Identifier: MIT */
/*
 * table - an intrusive hash table of pool references that grows one bucket at a time.
 *
 * It finds jobs by id, topics by name and jobs by key. Linear hashing: when there are more items
 * than half the buckets, buckets are split, two for every item that comes; when there are far
 * fewer, the last ones are merged back. No call ever moves more than a few chains, so a queue with
 * ten million jobs does not stop to rehash.
 *
 * The table can also be walked: items have a fixed order (their hash, bits reversed), in which
 * every bucket is one run whatever the number of buckets, so that a cursor stays good while the
 * table grows and shrinks.
 *
 * Ownership  Items carry their chain link; the table owns only its buckets.
 * Failure    Only init can fail. Where there is no memory to grow, chains get longer.
 * Cost       find, insert and remove O(1), about 8 bytes an item.
 */
#ifndef BI_TABLE_H
#define BI_TABLE_H

#include "util/ahead.h"
#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

#define BI_TABLE_SEGMENTS 27 /* 64 buckets, 64, 128, ... : enough for 2^32 items */

struct table {
    struct bi_alloc alloc;
    uint32_t *segments[BI_TABLE_SEGMENTS];
    uint32_t buckets;
    uint32_t round; /* the largest power of two that is not above buckets */
    uint64_t count;
};

/* How to read an item. The functions are tiny and inlined into each table's own calls. */
struct table_items {
    uint64_t (*hash)(const void *ctx, uint32_t ref);
    uint32_t *(*link)(const void *ctx, uint32_t ref);
    size_t before; /* how far before the link the bytes begin from which the hash is told */
};

bool bi_table_init(struct table *table, struct bi_alloc alloc);
void bi_table_done(struct table *table);

/* Room for one more bucket, or one less; helpers of insert and remove. */
bool bi_table_more(struct table *table);
void bi_table_less(struct table *table);

#define BI_TABLE_AHEAD 8 /* buckets */

#define BI_TABLE_INLINE static inline __attribute__((always_inline))

BI_TABLE_INLINE uint32_t *bi_table_bucket(const struct table *table, uint32_t bucket)
{
    if (bucket < 64)
        return &table->segments[0][bucket];
    unsigned bit = 31u - (unsigned)__builtin_clz(bucket);
    return &table->segments[bit - 5][bucket - (1u << bit)];
}

BI_TABLE_INLINE uint32_t bi_table_index(const struct table *table, uint64_t hash)
{
    uint64_t index = hash & ((uint64_t)table->round * 2 - 1);
    return (uint32_t)(index < table->buckets ? index : index & (table->round - 1));
}

/* The first item of the chain in which an item with this hash would be; 0 for none. */
BI_TABLE_INLINE uint32_t bi_table_first(const struct table *table, uint64_t hash)
{
    return *bi_table_bucket(table, bi_table_index(table, hash));
}

/* Tells the cache that an item with this hash will be asked for. */
BI_TABLE_INLINE void bi_table_foresee(const struct table *table, uint64_t hash)
{
    bi_ahead(bi_table_bucket(table, bi_table_index(table, hash)), 1);
}

/* Buckets are split in order, so it is known whose items come next: tells the cache. */
BI_TABLE_INLINE void bi_table_foresee_chain(const struct table *table,
                                            const struct table_items *items, const void *ctx,
                                            uint32_t bucket)
{
    uint32_t ref = *bi_table_bucket(table, bucket);
    if (ref != 0 && table->count >= BI_AHEAD_FROM)
        bi_ahead((const char *)items->link(ctx, ref) - items->before,
                 items->before + sizeof(uint32_t));
}

BI_TABLE_INLINE void bi_table_split(struct table *table, const struct table_items *items,
                                    const void *ctx)
{
    uint32_t added = table->buckets;
    uint32_t *from = bi_table_bucket(table, added - table->round);
    if (!bi_table_more(table))
        return;
    uint32_t *to = bi_table_bucket(table, added);
    *to = 0;
    bi_table_foresee_chain(table, items, ctx, (added + BI_TABLE_AHEAD) & (table->round - 1));
    while (*from != 0) {
        uint32_t ref = *from;
        uint32_t *link = items->link(ctx, ref);
        if (bi_table_index(table, items->hash(ctx, ref)) == added) {
            *from = *link;
            *link = *to;
            *to = ref;
        } else {
            from = link;
        }
    }
}

BI_TABLE_INLINE void bi_table_merge(struct table *table, const struct table_items *items,
                                    const void *ctx)
{
    uint32_t last = table->buckets - 1;
    uint32_t chain = *bi_table_bucket(table, last);
    bi_table_less(table);
    if (chain == 0)
        return;
    uint32_t *end = bi_table_bucket(table, last - table->round);
    while (*end != 0)
        end = items->link(ctx, *end);
    *end = chain;
}

BI_TABLE_INLINE void bi_table_insert(struct table *table, const struct table_items *items,
                                     const void *ctx, uint32_t ref)
{
    for (int i = 0; i < 2 && table->count * 2 >= table->buckets; i++)
        bi_table_split(table, items, ctx);
    uint32_t *bucket = bi_table_bucket(table, bi_table_index(table, items->hash(ctx, ref)));
    *items->link(ctx, ref) = *bucket;
    *bucket = ref;
    table->count++;
}

BI_TABLE_INLINE void bi_table_remove(struct table *table, const struct table_items *items,
                                     const void *ctx, uint32_t ref)
{
    uint32_t *at = bi_table_bucket(table, bi_table_index(table, items->hash(ctx, ref)));
    while (*at != ref)
        at = items->link(ctx, *at);
    *at = *items->link(ctx, ref);
    table->count--;
    for (int i = 0; i < 4 && table->buckets > 64 && table->count < table->buckets / 4; i++)
        bi_table_merge(table, items, ctx);
}

/* ---- walking ---- */

/* An item's place in the order of walks. */
uint64_t bi_table_place(uint64_t hash);

/*
 * The chain that holds the items with places from *place on, up to the end of its run; some of
 * them may lie before *place. Sets *place to where the next chain begins, and *end if there is
 * none.
 */
uint32_t bi_table_walk(const struct table *table, uint64_t *place, bool *end);

/* The first item of the chain that a walk at this place comes to after so many others (8 at most), so
 * that the cache can be told: not to be used otherwise. 0 for none. */
uint32_t bi_table_soon(const struct table *table, uint64_t place, unsigned chains);

#endif
