/* SPDX-License-Identifier: MIT */
#include "server/tag_table.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKETS_MIN  16
#define BUCKETS_KEEP 64 /* of an empty table */

static struct tag_link **bucket_of(const struct tag_table *table, uint64_t tag)
{
    uint64_t hash = bi_secret_hash(&table->secret, &tag, sizeof(tag));
    return &table->buckets[hash & (table->room - 1)];
}

/* The pointer to the latest link of a tag, or to the NULL at the end of its bucket. */
static struct tag_link **find_slot(const struct tag_table *table, uint64_t tag)
{
    struct tag_link **slot = bucket_of(table, tag);
    while (*slot != NULL && (*slot)->tag != tag)
        slot = &(*slot)->next;
    return slot;
}

static void put_into(struct tag_link **slot, struct tag_link *link)
{
    link->next = *slot;
    link->from = slot;
    if (link->next != NULL)
        link->next->from = &link->next;
    *slot = link;
}

/* ---- buckets ---- */

/* Twice as many buckets when there are more links than buckets. */
static bool make_room(struct tag_table *table)
{
    if (table->count < table->room)
        return true;

    struct tag_table larger = *table;
    larger.room = table->room == 0 ? BUCKETS_MIN : table->room * 2;
    larger.buckets = calloc(larger.room, sizeof(struct tag_link *));
    if (larger.buckets == NULL)
        return table->room > 0;
    if (table->room == 0)
        bi_secret_draw(&larger.secret);

    for (size_t i = 0; i < table->room; i++) {
        for (struct tag_link *link = table->buckets[i]; link != NULL;) {
            struct tag_link *next = link->next;
            put_into(bucket_of(&larger, link->tag), link);
            link = next;
        }
    }
    free(table->buckets);
    *table = larger;
    return true;
}

/* ---- links ---- */

bool bi_tag_table_add(struct tag_table *table, struct tag_link *link, uint64_t tag)
{
    assert(link->from == NULL);
    if (!make_room(table))
        return false;

    struct tag_link **slot = find_slot(table, tag);
    struct tag_link *older = *slot;
    if (older != NULL) {
        /* It leaves the bucket, and hangs behind the new one. */
        *slot = older->next;
        if (older->next != NULL)
            older->next->from = slot;
        older->next = NULL;
        older->from = &link->older;
    }
    link->tag = tag;
    link->older = older;
    put_into(slot, link);
    table->count++;
    return true;
}

void bi_tag_table_remove(struct tag_table *table, struct tag_link *link)
{
    if (link->from == NULL)
        return;

    /* The one before it takes its place, in the bucket or behind a later one. */
    struct tag_link *heir = link->older != NULL ? link->older : link->next;
    *link->from = heir;
    if (heir != NULL)
        heir->from = link->from;
    if (link->older != NULL && link->next != NULL) {
        heir->next = link->next;
        heir->next->from = &heir->next;
    }
    link->from = NULL;
    assert(table->count > 0);
    if (--table->count == 0 && table->room > BUCKETS_KEEP)
        bi_tag_table_done(table);
}

struct tag_link *bi_tag_table_find(const struct tag_table *table, uint64_t tag)
{
    return table->count == 0 ? NULL : *find_slot(table, tag);
}

void bi_tag_table_done(struct tag_table *table)
{
    assert(table->count == 0);
    free(table->buckets);
    *table = (struct tag_table){0};
}
