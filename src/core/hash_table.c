/* SPDX-License-Identifier: MIT */
#include "core/hash_table.h"

#include <assert.h>
#include <string.h>

#define FIRST_BUCKETS 64u

bool bi_hash_table_init(struct hash_table *table, struct bi_alloc alloc)
{
    memset(table, 0, sizeof(*table));
    table->alloc = alloc;
    table->segments[0] = bi_alloc_malloc(&alloc, FIRST_BUCKETS * sizeof(uint32_t));
    if (table->segments[0] == NULL)
        return false;

    memset(table->segments[0], 0, FIRST_BUCKETS * sizeof(uint32_t));
    table->buckets = table->round = FIRST_BUCKETS;
    return true;
}

void bi_hash_table_done(struct hash_table *table)
{
    for (int i = 0; i < BI_HASH_TABLE_SEGMENTS; i++)
        bi_alloc_free(&table->alloc, table->segments[i]);
    memset(table, 0, sizeof(*table));
}

/* Returns the segment that begins with this bucket, or 0 if the bucket is inside one. */
static unsigned segment_beginning(uint32_t bucket)
{
    if ((bucket & (bucket - 1)) != 0)
        return 0;
    return 31u - (unsigned)__builtin_clz(bucket) - 5;
}

bool bi_hash_table_add_bucket(struct hash_table *table)
{
    assert(table->buckets >= table->round && table->buckets < 2 * table->round);
    unsigned segment = segment_beginning(table->buckets);
    if (segment != 0 && table->segments[segment] == NULL) {
        if (segment >= BI_HASH_TABLE_SEGMENTS - 1)
            return false;

        /* Not cleared: a split sets each bucket when it adds it. */
        uint32_t *buckets =
            bi_alloc_malloc(&table->alloc, (size_t)table->buckets * sizeof(uint32_t));
        if (buckets == NULL)
            return false;
        table->segments[segment] = buckets;
    }

    table->buckets++;
    /* All buckets of this round are split: the next round begins. */
    if (table->buckets == table->round * 2)
        table->round = table->buckets;
    return true;
}

void bi_hash_table_drop_bucket(struct hash_table *table)
{
    assert(table->buckets > FIRST_BUCKETS);
    table->buckets--;
    if (table->buckets < table->round)
        table->round /= 2;

    /* Free the segment after this one and retain this one: a count at the border of a segment does
     * not allocate and free again and again. */
    unsigned segment = segment_beginning(table->buckets);
    if (segment != 0 && segment + 1 < BI_HASH_TABLE_SEGMENTS &&
        table->segments[segment + 1] != NULL) {
        bi_alloc_free(&table->alloc, table->segments[segment + 1]);
        table->segments[segment + 1] = NULL;
    }
}

uint64_t bi_hash_table_position(uint64_t hash)
{
    /* Reverse the bits: first the bytes, then the bits within each byte. */
    uint64_t x = __builtin_bswap64(hash);
    x = ((x >> 4) & UINT64_C(0x0f0f0f0f0f0f0f0f)) | ((x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4);
    x = ((x >> 2) & UINT64_C(0x3333333333333333)) | ((x & UINT64_C(0x3333333333333333)) << 2);
    return ((x >> 1) & UINT64_C(0x5555555555555555)) | ((x & UINT64_C(0x5555555555555555)) << 1);
}

/* Number of low bits of a hash that select this bucket: one more if the round has split it. */
static unsigned bits_of(const struct hash_table *table, uint32_t index)
{
    unsigned bits = (unsigned)__builtin_ctz(table->round);
    return index >= table->round || index + table->round < table->buckets ? bits + 1 : bits;
}

/* Returns the bucket that a walk reaches after so many others, or one near it: the buckets in
 * between may use another number of bits. */
static uint32_t *bucket_after(const struct hash_table *table, uint64_t position, unsigned bits,
                              unsigned buckets)
{
    uint64_t there = position + ((uint64_t)buckets << (64 - bits));
    return bi_hash_table_bucket(table, bi_hash_table_index(table, bi_hash_table_position(there)));
}

/* How many buckets ahead a walk prefetches: consecutive ones are far apart in memory. */
#define WALK_PREFETCH 16

uint32_t bi_hash_table_walk(const struct hash_table *table, uint64_t *position, bool *end)
{
    uint32_t index = bi_hash_table_index(table, bi_hash_table_position(*position));
    unsigned bits = bits_of(table, index);
    assert(bits > 0 && bits < 64);
    if (table->count >= BI_PREFETCH_MIN)
        bi_prefetch(bucket_after(table, *position, bits, WALK_PREFETCH), 1);

    /* The high bits of a position are the low bits of the hash: adding one leaves the run. */
    uint64_t next = (*position >> (64 - bits)) + 1;
    *end = next >> bits != 0;
    *position = *end ? 0 : next << (64 - bits);
    return *bi_hash_table_bucket(table, index);
}

uint32_t bi_hash_table_peek_ahead(const struct hash_table *table, uint64_t position,
                                  unsigned chains)
{
    if (table->count < BI_PREFETCH_MIN)
        return 0;
    unsigned bits = bits_of(table, bi_hash_table_index(table, bi_hash_table_position(position)));
    return *bucket_after(table, position, bits, chains);
}
