/* SPDX-License-Identifier: MIT */
/*
 * tubes - the tubes that connections use and watch.
 *
 * The queue counts references to its topics; stats-tube tells users and watchers apart, so the
 * server keeps both counts. A tube is here while a connection uses or watches it, and has one
 * reference to its topic, whoever and however many they are.
 */
#ifndef BI_TUBES_H
#define BI_TUBES_H

#include "util/secret.h"

#include <bide/job.h>

struct tube {
    struct tube *next; /* in its bucket */
    uint64_t hash;
    uint32_t using, watching;
    uint32_t holders; /* using, watching, and commands that are about to */
    bool referenced;  /* the topic knows */
    uint8_t size;
    char name[];
};

struct tubes {
    struct tube **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
    size_t bytes;  /* of the tubes */
    size_t passed; /* buckets that first has found empty */
    struct bi_secret secret;
};

void bi_tubes_init(struct tubes *tubes, const struct bi_secret *secret);
void bi_tubes_done(struct tubes *tubes);

/* NULL if nobody has it. */
struct tube *bi_tubes_find(const struct tubes *tubes, bide_slice name);
/* One more holder; made if nobody had it; NULL when out of memory. */
struct tube *bi_tubes_hold(struct tubes *tubes, bide_slice name);
/* One holder less. True: it was the last; the tube is then out of the table, and to be freed. */
bool bi_tubes_release(struct tubes *tubes, struct tube *tube);

/* Any tube; NULL: it is empty. For the end of the table, to which nothing is added any more. */
struct tube *bi_tubes_first(struct tubes *tubes);

size_t bi_tubes_memory(const struct tubes *tubes);

static inline bide_slice bi_tube_name(const struct tube *tube)
{
    return (bide_slice){tube->name, tube->size};
}

#endif
