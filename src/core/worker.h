/* SPDX-License-Identifier: MIT */
/*
 * worker - the workers that have announced themselves, until their announcements expire.
 *
 * An announcement is one immutable buffer (op/worker_info.h), which replies share. The core reads
 * only its name, its connection and its topics; it counts the workers of each topic, so that the op
 * why need not look at all of them. Two announcements are of the same worker if their names and
 * connections are equal.
 *
 * Ordering   Workers are listed by serial, which is the order of their first announcement.
 * Failure    Only the op announce can fail; the old announcement then stays.
 * Storage    In memory only: workers announce themselves again after a restart.
 * Cost       O(log n) in workers and timers, times the topics of the announcement.
 */
#ifndef BI_WORKER_CORE_H
#define BI_WORKER_CORE_H

#include "core/hash_table.h"
#include "core/serial_list.h"
#include "core/timer.h"

#include <bide/job.h>

struct core;

/* An announced worker. */
struct worker_entry {
    uint32_t self;
    uint32_t link; /* in by_name */
    uint64_t hash; /* of the name and the connection */
    uint64_t connection;
    uint64_t serial;
    bide_buf *data;
    bide_slice name; /* within data */
    int64_t announced;
    struct timer timer;
};

/* A topic that announced workers serve; it need not exist. */
struct worker_topic {
    uint32_t self;
    uint32_t link; /* in by_name of the topics */
    uint64_t hash;
    uint32_t workers;
    uint8_t size;
    char name[BIDE_TOPIC_MAX];
};

struct announced_workers {
    struct pool entries, topics;
    struct hash_table by_name, by_topic;
    struct serial_list list;
};

/* False when out of memory. */
bool bi_workers_init(struct core *core);
void bi_workers_done(struct core *core);

/* Returns the worker with this serial or the next larger one; NULL if there is none. */
struct worker_entry *bi_worker_at_or_after(const struct core *core, uint64_t serial);

/* The number of announced workers that serve a topic. */
uint32_t bi_worker_count(const struct core *core, bide_slice topic);

#endif
