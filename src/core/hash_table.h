/* SPDX-License-Identifier: MIT */
/*
 * hash_table - an intrusive hash table of pool references that grows by one bucket at a time.
 *
 * It finds jobs by id, topics by name and jobs by key. It uses linear hashing: when there are more
 * items than half the buckets, each insert splits up to two buckets; when there are far fewer,
 * each remove merges the last buckets back. No call moves more than a few chains, so a queue with
 * ten million jobs does not stop to rehash.
 *
 * Ordering   A walk visits items by their hash with the bits reversed. In this order every bucket
 *            is one run, whatever the number of buckets, so a cursor remains valid while the table
 *            grows and shrinks.
 * Ownership  Items contain their chain link; the table owns only its buckets.
 * Failure    Only init can fail. Without memory to grow, chains become longer.
 * Cost       find, insert and remove O(1), about 8 bytes per item.
 */
#ifndef BI_HASH_TABLE_H
#define BI_HASH_TABLE_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

#define BI_HASH_TABLE_SEGMENTS 27 /* 64 buckets, 64, 128, ... : enough for 2^32 items */

struct hash_table {
    struct bi_alloc alloc;
    uint32_t *segments[BI_HASH_TABLE_SEGMENTS];
    uint32_t buckets;
    uint32_t round; /* the largest power of two that is at most buckets */
    uint64_t count;
};

/* How to access an item. The functions are inlined into the calls of each table. */
struct hash_table_ops {
    uint64_t (*hash)(const void *ctx, uint32_t ref);
    uint32_t *(*link)(const void *ctx, uint32_t ref);
    size_t before; /* distance from the bytes that determine the hash to the link */
};

bool bi_hash_table_init(struct hash_table *table, struct bi_alloc alloc);
void bi_hash_table_done(struct hash_table *table);

/* Add or remove the last bucket; helpers of insert and remove. add fails when out of memory. */
bool bi_hash_table_add_bucket(struct hash_table *table);
void bi_hash_table_drop_bucket(struct hash_table *table);

#define BI_HASH_TABLE_PREFETCH 8 /* buckets ahead of a split */

#define BI_HASH_TABLE_INLINE static inline __attribute__((always_inline))

BI_HASH_TABLE_INLINE uint32_t *bi_hash_table_bucket(const struct hash_table *table, uint32_t bucket)
{
    /* Segment 0 has 64 buckets, and segment i > 0 as many as all segments before it. */
    if (bucket < 64)
        return &table->segments[0][bucket];
    unsigned bit = 31u - (unsigned)__builtin_clz(bucket);
    return &table->segments[bit - 5][bucket - (1u << bit)];
}

BI_HASH_TABLE_INLINE uint32_t bi_hash_table_index(const struct hash_table *table, uint64_t hash)
{
    /* Buckets that this round has not split yet hold the items of two indexes. */
    uint64_t index = hash & ((uint64_t)table->round * 2 - 1);
    return (uint32_t)(index < table->buckets ? index : index & (table->round - 1));
}

/* Returns the first item of the chain for this hash; 0 if it is empty. */
BI_HASH_TABLE_INLINE uint32_t bi_hash_table_first(const struct hash_table *table, uint64_t hash)
{
    return *bi_hash_table_bucket(table, bi_hash_table_index(table, hash));
}

/* Prefetches the bucket of a hash. */
BI_HASH_TABLE_INLINE void bi_hash_table_prefetch(const struct hash_table *table, uint64_t hash)
{
    bi_prefetch(bi_hash_table_bucket(table, bi_hash_table_index(table, hash)), 1);
}

/* Prefetches the first item of a bucket. Buckets are split in order, so the items that a later
 * insert will hash are known. */
BI_HASH_TABLE_INLINE void bi_hash_table_prefetch_chain(const struct hash_table *table,
                                                       const struct hash_table_ops *items,
                                                       const void *ctx, uint32_t bucket)
{
    uint32_t ref = *bi_hash_table_bucket(table, bucket);
    if (ref != 0 && table->count >= BI_PREFETCH_MIN)
        bi_prefetch((const char *)items->link(ctx, ref) - items->before,
                    items->before + sizeof(uint32_t));
}

BI_HASH_TABLE_INLINE void bi_hash_table_split(struct hash_table *table,
                                              const struct hash_table_ops *items, const void *ctx)
{
    uint32_t added = table->buckets;
    uint32_t *from = bi_hash_table_bucket(table, added - table->round);
    if (!bi_hash_table_add_bucket(table))
        return;

    uint32_t *to = bi_hash_table_bucket(table, added);
    *to = 0;
    bi_hash_table_prefetch_chain(table, items, ctx,
                                 (added + BI_HASH_TABLE_PREFETCH) & (table->round - 1));

    while (*from != 0) {
        uint32_t ref = *from;
        uint32_t *link = items->link(ctx, ref);
        if (bi_hash_table_index(table, items->hash(ctx, ref)) == added) {
            *from = *link;
            *link = *to;
            *to = ref;
        } else {
            from = link;
        }
    }
}

BI_HASH_TABLE_INLINE void bi_hash_table_merge(struct hash_table *table,
                                              const struct hash_table_ops *items, const void *ctx)
{
    uint32_t last = table->buckets - 1;
    uint32_t chain = *bi_hash_table_bucket(table, last);
    bi_hash_table_drop_bucket(table);
    if (chain == 0)
        return;

    uint32_t *end = bi_hash_table_bucket(table, last - table->round);
    while (*end != 0)
        end = items->link(ctx, *end);
    *end = chain;
}

BI_HASH_TABLE_INLINE void bi_hash_table_insert(struct hash_table *table,
                                               const struct hash_table_ops *items, const void *ctx,
                                               uint32_t ref)
{
    /* At half an item per bucket, growth takes two splits per item. */
    for (int i = 0; i < 2 && table->count * 2 >= table->buckets; i++)
        bi_hash_table_split(table, items, ctx);

    uint32_t *bucket =
        bi_hash_table_bucket(table, bi_hash_table_index(table, items->hash(ctx, ref)));
    *items->link(ctx, ref) = *bucket;
    *bucket = ref;
    table->count++;
}

BI_HASH_TABLE_INLINE void bi_hash_table_remove(struct hash_table *table,
                                               const struct hash_table_ops *items, const void *ctx,
                                               uint32_t ref)
{
    uint32_t *at = bi_hash_table_bucket(table, bi_hash_table_index(table, items->hash(ctx, ref)));
    while (*at != ref)
        at = items->link(ctx, *at);
    *at = *items->link(ctx, ref);
    table->count--;

    /* At a quarter of an item per bucket, four merges per item keep pace. Splits begin at a half,
     * so a count near one limit does not move items back and forth. */
    for (int i = 0; i < 4 && table->buckets > 64 && table->count < table->buckets / 4; i++)
        bi_hash_table_merge(table, items, ctx);
}

/* ---- walking ---- */

/* Position of a hash in the order of walks. The function is its own inverse. */
uint64_t bi_hash_table_position(uint64_t hash);

/*
 * Returns the chain with the items at *position and after it, up to the end of its run; the chain
 * may also contain items before *position. Advances *position to the next chain, or sets *end if
 * there is none.
 */
uint32_t bi_hash_table_walk(const struct hash_table *table, uint64_t *position, bool *end);

/* Returns the first item of the chain that a walk reaches after so many others (8 at most), or a
 * chain near it: a hint for prefetching only. 0 for none. */
uint32_t bi_hash_table_peek_ahead(const struct hash_table *table, uint64_t position,
                                  unsigned chains);

#endif
