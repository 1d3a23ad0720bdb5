/* SPDX-License-Identifier: MIT */
/*
 * tag_table - the pending and parked calls of a connection, by the tags that its client chose.
 *
 * A client may use a tag for several calls. The latest call of a tag is found first; when it is
 * removed, the one before it. Each table has its own random hash secret, so a client cannot choose
 * tags that share a bucket.
 *
 * Ownership  Links are embedded in the calls. An empty table may have no memory.
 * Failure    Only add can fail (out of memory); the links are then unchanged.
 * Cost       Add, find and remove O(1), however many calls share a tag.
 */
#ifndef BI_TAG_TABLE_H
#define BI_TAG_TABLE_H

#include "util/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tag_link {
    uint64_t tag;
    struct tag_link *next;  /* in the bucket, if this is the latest of its tag; else NULL */
    struct tag_link *older; /* the previous call with the same tag */
    struct tag_link **from; /* the pointer to this link; NULL: not in a table */
};

struct tag_table {
    struct tag_link **buckets;
    size_t room; /* buckets, a power of two, or 0 */
    size_t count;
    struct bi_hash_secret secret;
};

bool bi_tag_table_add(struct tag_table *table, struct tag_link *link, uint64_t tag);
/* Does nothing for a link that is not in a table. */
void bi_tag_table_remove(struct tag_table *table, struct tag_link *link);
/* Returns the latest link of the tag, or NULL. */
struct tag_link *bi_tag_table_find(const struct tag_table *table, uint64_t tag);
/* Frees the buckets. Requires an empty table. */
void bi_tag_table_done(struct tag_table *table);

#endif
