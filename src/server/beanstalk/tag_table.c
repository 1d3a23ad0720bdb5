/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKETS_MIN  16
#define BUCKETS_KEEP 64 /* an empty table with more frees them */

static struct tag_bucket *bucket_of(const struct tag_table *table, uint64_t tag)
{
    uint64_t hash = bi_keyed_hash_bytes(&table->secret, &tag, sizeof(tag));
    return &table->buckets[hash & (table->room - 1)];
}

/* Doubles the buckets when there are as many links as buckets. */
static bool make_room(struct tag_table *table)
{
    if (table->count < table->room)
        return true;

    struct tag_table larger = *table;
    larger.room = table->room == 0 ? BUCKETS_MIN : table->room * 2;
    larger.buckets = malloc(larger.room * sizeof(*larger.buckets));
    if (larger.buckets == NULL)
        return table->room > 0; /* keeps working, with longer chains */
    for (size_t i = 0; i < larger.room; i++)
        TAILQ_INIT(&larger.buckets[i]);
    /* A table that was emptied and freed gets a new secret. */
    if (table->room == 0)
        bi_keyed_hash_generate_secret(&larger.secret);

    for (size_t i = 0; i < table->room; i++) {
        struct tag_link *link;
        while ((link = TAILQ_FIRST(&table->buckets[i])) != NULL) {
            TAILQ_REMOVE(&table->buckets[i], link, in_bucket);
            /* At the tail: links of one tag keep their order. */
            TAILQ_INSERT_TAIL(bucket_of(&larger, link->tag), link, in_bucket);
        }
    }

    free(table->buckets);
    *table = larger;
    return true;
}

bool bi_tag_table_add(struct tag_table *table, struct tag_link *link, uint64_t tag)
{
    assert(!link->linked);
    if (!make_room(table))
        return false;

    link->tag = tag;
    link->linked = true;
    TAILQ_INSERT_HEAD(bucket_of(table, tag), link, in_bucket);
    table->count++;
    return true;
}

void bi_tag_table_remove(struct tag_table *table, struct tag_link *link)
{
    if (!link->linked)
        return;

    assert(table->count > 0);
    TAILQ_REMOVE(bucket_of(table, link->tag), link, in_bucket);
    link->linked = false;
    if (--table->count == 0 && table->room > BUCKETS_KEEP)
        bi_tag_table_done(table);
}

struct tag_link *bi_tag_table_find(const struct tag_table *table, uint64_t tag)
{
    if (table->count == 0)
        return NULL;

    struct tag_link *link = TAILQ_FIRST(bucket_of(table, tag));
    while (link != NULL && link->tag != tag)
        link = TAILQ_NEXT(link, in_bucket);
    return link;
}

void bi_tag_table_done(struct tag_table *table)
{
    assert(table->count == 0);
    free(table->buckets);
    *table = (struct tag_table){0};
}
