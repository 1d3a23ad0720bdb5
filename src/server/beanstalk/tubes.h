/* SPDX-License-Identifier: MIT */
/*
 * tubes - a hash table of named, reference-counted tubes.
 *
 * The server has one for the tubes that connections use and watch. The queue counts references to a
 * topic, but stats-tube reports users and watchers separately, so the server counts both. A tube is
 * in the table while a connection uses or watches it, or is about to; all of them share one
 * reference to its topic. Topic references of calls use the same table with other meanings of users
 * and ref_count (rpc_topic_ref.c).
 *
 * Ownership  The table owns its tubes. A tube that release() removes belongs to the caller.
 * Failure    Only acquire can fail (out of memory); the tubes are then unchanged.
 * Cost       O(1). Clients choose the names, so the hash has a secret key.
 */
#ifndef BI_TUBES_H
#define BI_TUBES_H

#include "util/hash.h"

#include <bide/job.h>

struct tube {
    struct tube *next; /* in its bucket */
    uint64_t hash;
    uint32_t users, watchers;
    uint32_t ref_count; /* users, watchers and commands about to become one */
    bool referenced;    /* the server has its reference to the topic */
    uint8_t size;
    char name[];
};

struct tubes {
    struct tube **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
    size_t bytes;   /* memory of the tubes */
    size_t scan_at; /* bi_tubes_first(): all buckets below are empty */
    struct bi_hash_secret secret;
};

void bi_tubes_init(struct tubes *tubes, const struct bi_hash_secret *secret);
void bi_tubes_done(struct tubes *tubes);

/* Returns NULL if the tube is not in the table. */
struct tube *bi_tubes_find(const struct tubes *tubes, bide_slice name);
/* Returns the tube with one more reference, created if necessary; NULL: out of memory. */
struct tube *bi_tubes_acquire(struct tubes *tubes, bide_slice name);
/* Drops a reference. True: it was the last; the tube has left the table and the caller frees it. */
bool bi_tubes_release(struct tubes *tubes, struct tube *tube);

/* Returns any tube, or NULL. Only for emptying a table: nothing may be added from then on. */
struct tube *bi_tubes_first(struct tubes *tubes);

size_t bi_tubes_memory(const struct tubes *tubes);

static inline bide_slice bi_tube_name(const struct tube *tube)
{
    return (bide_slice){tube->name, tube->size};
}

#endif
