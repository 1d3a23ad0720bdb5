/* SPDX-License-Identifier: MIT */
/*
 * body_cache - the bodies of stored jobs that remain in memory.
 *
 * With a journal the body of a stored job may be evicted, because the store has it. The cache
 * retains the bodies that were added last, up to cache_bytes, and evicts the oldest first. A job
 * without its body still knows the size; body_fetch.c reads the body when an op needs it.
 *
 * Ordering   First in, first out, by id. Use does not move a body.
 * Failure    None: if there is no memory for an entry, the body is evicted at once.
 * Cost       Eight bytes per entry. Entries of removed jobs are skipped; if there are too many of
 *            them, each added body removes a few.
 */
#ifndef BI_BODY_CACHE_H
#define BI_BODY_CACHE_H

#include "core/job.h"

/* A FIFO of ids in blocks: adding an id never moves the others, whatever the length. */
struct id_fifo {
    struct id_fifo_block *head, *tail;
    uint32_t first; /* index in the head block */
    uint32_t end;   /* index in the tail block */
    uint64_t count;
};

struct body_cache {
    uint64_t bytes; /* total size of the cached bodies */
    uint64_t count; /* number of cached bodies */
    /* Their ids, oldest first: the compacted ones, then the rest. */
    struct id_fifo compacted, pending;
    bool compacting; /* entries of removed jobs are being dropped */
};

/* Adds the body of a job that is now stored. This may evict it or others. Does nothing if the
 * body is cached already or not in memory. */
void bi_body_cache_add(struct core *core, struct job *job);
/* Adds the body of a job that a rollback has restored: its entry may have been dropped while the
 * job was removed. */
void bi_body_cache_readd(struct core *core, struct job *job);
/* Uncounts the body of a job that is about to be freed. Its entry is skipped later. */
void bi_body_cache_remove(struct core *core, struct job *job);
/* Attaches a body that was read from the store. Takes ownership of the reference, also if the
 * body is not cached. */
void bi_body_cache_attach(struct core *core, struct job *job, bide_buf *body);
/* True if so many bytes fit without an eviction. */
bool bi_body_cache_has_room(const struct core *core, uint64_t bytes);
void bi_body_cache_done(struct core *core);

/* True if the body is in the store only. */
static inline bool bi_job_body_missing(const struct job *job)
{
    return job->body == NULL && job->body_size > 0;
}

#endif
