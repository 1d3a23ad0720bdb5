/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/tubes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64

static size_t size_of(const struct tube *tube)
{
    return sizeof(*tube) + tube->size + 1;
}

size_t bi_tubes_memory(const struct tubes *tubes)
{
    return tubes->bytes + tubes->bucket_count * sizeof(struct tube *);
}

void bi_tubes_init(struct tubes *tubes, const struct bi_hash_secret *secret)
{
    *tubes = (struct tubes){.secret = *secret};
}

void bi_tubes_done(struct tubes *tubes)
{
    for (size_t i = 0; i < tubes->bucket_count; i++) {
        for (struct tube *tube = tubes->buckets[i]; tube != NULL;) {
            struct tube *next = tube->next;
            free(tube);
            tube = next;
        }
    }
    free(tubes->buckets);
    *tubes = (struct tubes){0};
}

static struct tube **bucket_of(const struct tubes *tubes, uint64_t hash)
{
    return &tubes->buckets[hash & (tubes->bucket_count - 1)];
}

/* Doubles the buckets when there are as many tubes as buckets. */
static bool make_room(struct tubes *tubes)
{
    if (tubes->count < tubes->bucket_count)
        return true;

    struct tubes larger = *tubes;
    larger.bucket_count = tubes->bucket_count == 0 ? BUCKETS_MIN : tubes->bucket_count * 2;
    larger.buckets = calloc(larger.bucket_count, sizeof(struct tube *));
    /* Without memory a table with buckets keeps working, with longer chains. */
    if (larger.buckets == NULL)
        return tubes->bucket_count > 0;

    for (size_t i = 0; i < tubes->bucket_count; i++) {
        for (struct tube *tube = tubes->buckets[i]; tube != NULL;) {
            struct tube *next = tube->next;
            struct tube **bucket = bucket_of(&larger, tube->hash);
            tube->next = *bucket;
            *bucket = tube;
            tube = next;
        }
    }

    free(tubes->buckets);
    *tubes = larger;
    return true;
}

static struct tube *find(const struct tubes *tubes, bide_slice name, uint64_t hash)
{
    if (tubes->bucket_count == 0)
        return NULL;

    struct tube *tube = *bucket_of(tubes, hash);
    /* Comparing the hash first avoids most calls of memcmp(). */
    while (tube != NULL && (tube->hash != hash || tube->size != name.size ||
                            memcmp(tube->name, name.data, name.size) != 0))
        tube = tube->next;
    return tube;
}

struct tube *bi_tubes_find(const struct tubes *tubes, bide_slice name)
{
    return find(tubes, name, bi_keyed_hash_bytes(&tubes->secret, name.data, name.size));
}

struct tube *bi_tubes_acquire(struct tubes *tubes, bide_slice name)
{
    assert(name.size > 0 && name.size <= BIDE_TOPIC_MAX);
    uint64_t hash = bi_keyed_hash_bytes(&tubes->secret, name.data, name.size);
    struct tube *tube = find(tubes, name, hash);

    if (tube == NULL) {
        if (!make_room(tubes))
            return NULL;
        tube = calloc(1, sizeof(*tube) + name.size + 1);
        if (tube == NULL)
            return NULL;

        tube->hash = hash;
        tube->size = (uint8_t)name.size;
        /* calloc() has set the terminating zero, so name is also a C string. */
        memcpy(tube->name, name.data, name.size);

        struct tube **bucket = bucket_of(tubes, hash);
        tube->next = *bucket;
        *bucket = tube;
        tubes->count++;
        tubes->bytes += size_of(tube);
    }

    tube->ref_count++;
    return tube;
}

bool bi_tubes_release(struct tubes *tubes, struct tube *tube)
{
    assert(tube->ref_count > 0);
    if (--tube->ref_count > 0)
        return false;
    assert(tubes->count > 0 && tubes->bytes >= size_of(tube));

    struct tube **at = bucket_of(tubes, tube->hash);
    while (*at != tube)
        at = &(*at)->next;
    *at = tube->next;

    /* The caller frees it: an op in the batch may still borrow its name. */
    tubes->count--;
    tubes->bytes -= size_of(tube);
    return true;
}

struct tube *bi_tubes_first(struct tubes *tubes)
{
    /* Emptying the table visits each bucket once, instead of starting over for every tube. */
    while (tubes->scan_at < tubes->bucket_count && tubes->buckets[tubes->scan_at] == NULL)
        tubes->scan_at++;

    return tubes->scan_at == tubes->bucket_count ? NULL : tubes->buckets[tubes->scan_at];
}
