/* SPDX-License-Identifier: MIT */
/*
 * tag_table - the calls of a connection by the tags that its client has given them.
 *
 * The client chooses the tags, and may use one for several calls; the latest call of a tag is found
 * first, then the one before it. The table hashes with a random secret of its own, so a client cannot
 * choose tags that share a bucket.
 *
 * Ownership  Links are part of the calls. An empty table has no memory.
 * Failure    Only add can fail (out of memory); the table is then unchanged.
 * Cost       Add, find and remove O(1), however many calls share a tag.
 */
#ifndef BI_TAG_TABLE_H
#define BI_TAG_TABLE_H

#include "util/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tag_link {
    uint64_t tag;
    struct tag_link *next;  /* in its bucket, if it is the latest of its tag */
    struct tag_link *older; /* the call of the same tag before this one */
    struct tag_link **from; /* the pointer that points here; NULL: it is in no table */
};

struct tag_table {
    struct tag_link **buckets;
    size_t room; /* buckets, a power of two, or 0 */
    size_t count;
    struct bi_secret secret;
};

bool bi_tag_table_add(struct tag_table *table, struct tag_link *link, uint64_t tag);
/* A link that is in no table stays as it is. */
void bi_tag_table_remove(struct tag_table *table, struct tag_link *link);
/* The latest of its tag; NULL: there is none. */
struct tag_link *bi_tag_table_find(const struct tag_table *table, uint64_t tag);
/* Frees the buckets. The table is empty. */
void bi_tag_table_done(struct tag_table *table);

#endif
