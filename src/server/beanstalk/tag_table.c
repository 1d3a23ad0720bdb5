/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKETS_MIN  16
#define BUCKETS_KEEP 64 /* an empty table with more frees them */

static struct tag_link **bucket_of(const struct tag_table *table, uint64_t tag)
{
    uint64_t hash = bi_keyed_hash_bytes(&table->secret, &tag, sizeof(tag));
    return &table->buckets[hash & (table->room - 1)];
}

/* Returns the pointer to the latest link of a tag, or to the NULL at the end of its bucket. */
static struct tag_link **find_slot(const struct tag_table *table, uint64_t tag)
{
    struct tag_link **slot = bucket_of(table, tag);
    while (*slot != NULL && (*slot)->tag != tag)
        slot = &(*slot)->next;
    return slot;
}

static void link_at(struct tag_link **slot, struct tag_link *link)
{
    link->next = *slot;
    link->from = slot;
    if (link->next != NULL)
        link->next->from = &link->next;
    *slot = link;
}

/* ---- buckets ---- */

/* Doubles the buckets when there are as many links as buckets. */
static bool make_room(struct tag_table *table)
{
    if (table->count < table->room)
        return true;

    struct tag_table larger = *table;
    larger.room = table->room == 0 ? BUCKETS_MIN : table->room * 2;
    larger.buckets = calloc(larger.room, sizeof(struct tag_link *));
    if (larger.buckets == NULL)
        return table->room > 0; /* keeps working, with longer chains */
    /* A table that was emptied and freed gets a new secret. */
    if (table->room == 0)
        bi_keyed_hash_generate_secret(&larger.secret);

    for (size_t i = 0; i < table->room; i++) {
        for (struct tag_link *link = table->buckets[i]; link != NULL;) {
            struct tag_link *next = link->next; /* link_at() overwrites it */
            link_at(bucket_of(&larger, link->tag), link);
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
    assert(older == NULL || (older->tag == tag && older->from == slot));
    if (older != NULL) {
        /* Only the latest link of a tag is in the bucket; the others are a list behind it. */
        *slot = older->next;
        if (older->next != NULL)
            older->next->from = slot;
        older->next = NULL;
        older->from = &link->older;
    }

    link->tag = tag;
    link->older = older;
    link_at(slot, link);
    table->count++;
    return true;
}

void bi_tag_table_remove(struct tag_table *table, struct tag_link *link)
{
    if (link->from == NULL)
        return;

    /* The previous link with the same tag takes its place: in the bucket if this one was the
     * latest, else in the list behind a later one. Only a link in a bucket has a next. */
    struct tag_link *successor = link->older != NULL ? link->older : link->next;
    assert(*link->from == link);
    *link->from = successor;
    if (successor != NULL)
        successor->from = link->from;
    if (link->older != NULL && link->next != NULL) {
        successor->next = link->next;
        successor->next->from = &successor->next;
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
