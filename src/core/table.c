/* SPDX-License-Identifier: MIT */
#include "core/table.h"

#include <assert.h>
#include <string.h>

#define FIRST_BUCKETS 64u

bool bi_table_init(struct table *table, struct bi_alloc alloc)
{
    memset(table, 0, sizeof(*table));
    table->alloc = alloc;
    table->segments[0] = bi_alloc_get(&alloc, FIRST_BUCKETS * sizeof(uint32_t));
    if (table->segments[0] == NULL)
        return false;
    memset(table->segments[0], 0, FIRST_BUCKETS * sizeof(uint32_t));
    table->buckets = table->round = FIRST_BUCKETS;
    return true;
}

void bi_table_done(struct table *table)
{
    for (int i = 0; i < BI_TABLE_SEGMENTS; i++)
        bi_alloc_put(&table->alloc, table->segments[i]);
    memset(table, 0, sizeof(*table));
}

/* The segment whose first bucket this is, or 0 if it lies inside one. */
static unsigned segment_beginning(uint32_t bucket)
{
    if ((bucket & (bucket - 1)) != 0)
        return 0;
    return 31u - (unsigned)__builtin_clz(bucket) - 5;
}

bool bi_table_more(struct table *table)
{
    unsigned segment = segment_beginning(table->buckets);
    if (segment != 0 && table->segments[segment] == NULL) {
        if (segment >= BI_TABLE_SEGMENTS - 1)
            return false;
        uint32_t *buckets = bi_alloc_get(&table->alloc, (size_t)table->buckets * sizeof(uint32_t));
        if (buckets == NULL)
            return false;
        table->segments[segment] = buckets;
    }
    table->buckets++;
    if (table->buckets == table->round * 2)
        table->round = table->buckets;
    return true;
}

void bi_table_less(struct table *table)
{
    assert(table->buckets > FIRST_BUCKETS);
    table->buckets--;
    if (table->buckets < table->round)
        table->round /= 2;
    unsigned segment = segment_beginning(table->buckets);
    /* One segment is kept, so that a count at the border does not allocate again and again. */
    if (segment != 0 && segment + 1 < BI_TABLE_SEGMENTS && table->segments[segment + 1] != NULL) {
        bi_alloc_put(&table->alloc, table->segments[segment + 1]);
        table->segments[segment + 1] = NULL;
    }
}

uint64_t bi_table_place(uint64_t hash)
{
    uint64_t x = __builtin_bswap64(hash);
    x = ((x >> 4) & UINT64_C(0x0f0f0f0f0f0f0f0f)) | ((x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4);
    x = ((x >> 2) & UINT64_C(0x3333333333333333)) | ((x & UINT64_C(0x3333333333333333)) << 2);
    return ((x >> 1) & UINT64_C(0x5555555555555555)) | ((x & UINT64_C(0x5555555555555555)) << 1);
}

/* How many low bits of a hash decide for this bucket. */
static unsigned bits_of(const struct table *table, uint32_t index)
{
    unsigned bits = (unsigned)__builtin_ctz(table->round);
    return index >= table->round || index + table->round < table->buckets ? bits + 1 : bits;
}

/* The bucket that a walk comes to after so many others, or one near it. */
static uint32_t *bucket_after(const struct table *table, uint64_t place, unsigned bits,
                              unsigned buckets)
{
    uint64_t there = place + ((uint64_t)buckets << (64 - bits));
    return bi_table_bucket(table, bi_table_index(table, bi_table_place(there)));
}

/* How many buckets ahead the cache is told: each lies elsewhere. */
#define WALK_AHEAD 16

uint32_t bi_table_walk(const struct table *table, uint64_t *place, bool *end)
{
    uint32_t index = bi_table_index(table, bi_table_place(*place));
    unsigned bits = bits_of(table, index);
    if (table->count >= BI_AHEAD_FROM)
        bi_ahead(bucket_after(table, *place, bits, WALK_AHEAD), 1);

    uint64_t next = (*place >> (64 - bits)) + 1;
    *end = next >> bits != 0;
    *place = *end ? 0 : next << (64 - bits);
    return *bi_table_bucket(table, index);
}

uint32_t bi_table_soon(const struct table *table, uint64_t place, unsigned chains)
{
    if (table->count < BI_AHEAD_FROM)
        return 0;
    unsigned bits = bits_of(table, bi_table_index(table, bi_table_place(place)));
    return *bucket_after(table, place, bits, chains);
}
