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
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

#define BLOCK_IDS 511
/* Entries that each added body examines. More than one, so that compacting ends while bodies are
 * added. */
#define COMPACT_STEP 4

struct id_fifo_block {
    struct id_fifo_block *next;
    uint64_t ids[BLOCK_IDS];
};

/* ---- the FIFO of ids ---- */

static bool fifo_push(struct core *core, struct id_fifo *fifo, uint64_t id)
{
    if (fifo->tail == NULL || fifo->end == BLOCK_IDS) {
        struct id_fifo_block *block = bi_alloc_malloc(&core->alloc, sizeof(*block));

        if (block == NULL)
            return false;

        block->next = NULL;
        if (fifo->tail != NULL)
            fifo->tail->next = block;
        else
            fifo->head = block;
        fifo->tail = block;
        fifo->end = 0;
    }

    fifo->tail->ids[fifo->end++] = id;
    fifo->count++;
    return true;
}

static void fifo_free_head(struct core *core, struct id_fifo *fifo)
{
    struct id_fifo_block *block = fifo->head;
    assert(block != NULL);
    fifo->head = block->next;
    fifo->first = 0;
    if (fifo->head == NULL)
        fifo->tail = NULL;

    bi_alloc_free(&core->alloc, block);
}

static uint64_t fifo_first(const struct id_fifo *fifo)
{
    assert(fifo->count > 0);
    return fifo->head->ids[fifo->first];
}

static void fifo_pop(struct core *core, struct id_fifo *fifo)
{
    assert(fifo->count > 0 && fifo->first < BLOCK_IDS);
    fifo->count--;

    /* An empty FIFO has no block: the next push starts a new one. */
    if (++fifo->first == BLOCK_IDS || fifo->count == 0)
        fifo_free_head(core, fifo);
}

/* ---- eviction ---- */

/* Returns the job of an entry, or NULL if it was removed or its body was evicted. */
static struct job *cached_job(struct core *core, uint64_t id)
{
    struct job *job = bi_job_lookup(core, id);
    return job != NULL && (job->flags & JOB_CACHED) != 0 ? job : NULL;
}

static void evict(struct core *core, struct job *job)
{
    assert((job->flags & JOB_CACHED) != 0 && job->body != NULL);

    bi_body_cache_remove(core, job);
    core->memory -= job->body_size;
    job->flags &= (uint8_t)~JOB_CACHED;
    bide_buf_unref(job->body);
    job->body = NULL;
}

/* Returns the FIFO with the oldest entry. */
static struct id_fifo *oldest_fifo(struct body_cache *cache)
{
    return cache->compacted.count > 0 ? &cache->compacted : &cache->pending;
}

static void evict_oldest(struct core *core)
{
    struct id_fifo *fifo = oldest_fifo(&core->cache);
    struct job *job = cached_job(core, fifo_first(fifo));

    /* After bi_body_cache_readd() an id may have two entries; the older one then evicts a young
     * body. That costs one read, and rollbacks are rare. */
    fifo_pop(core, fifo);
    if (job != NULL)
        evict(core, job);
}

/* Drops some entries of removed jobs: at the front always, in the middle if there are too many. */
static void compact(struct core *core)
{
    struct body_cache *cache = &core->cache;
    struct id_fifo *front = oldest_fifo(cache);

    for (int i = 0;
         i < COMPACT_STEP && front->count > 0 && cached_job(core, fifo_first(front)) == NULL; i++)
        fifo_pop(core, front);

    /* Most entries are stale: copy the others to the second FIFO, a few at a time. */
    if (!cache->compacting && cache->pending.count > 2 * cache->count + BLOCK_IDS)
        cache->compacting = true;
    for (int i = 0; i < COMPACT_STEP && cache->compacting; i++) {
        if (cache->pending.count == 0) { /* finished: the compacted FIFO becomes the only one */
            cache->pending = cache->compacted;
            memset(&cache->compacted, 0, sizeof(cache->compacted));
            cache->compacting = false;
            return;
        }

        /* Without memory the entry remains pending, and the next added body continues here. */
        uint64_t id = fifo_first(&cache->pending);
        if (cached_job(core, id) != NULL && !fifo_push(core, &cache->compacted, id))
            return;
        fifo_pop(core, &cache->pending);
    }
}

void bi_body_cache_add(struct core *core, struct job *job)
{
    struct body_cache *cache = &core->cache;
    if (core->limits.cache_bytes == 0 || !core->journal.on || job->body == NULL ||
        job->body_size == 0 || (job->flags & JOB_CACHED) != 0)
        return;

    job->flags |= JOB_CACHED;
    cache->bytes += job->body_size;
    cache->count++;

    /* A cached body without an entry could never be evicted. */
    compact(core);
    if (!fifo_push(core, &cache->pending, job->id)) {
        evict(core, job);
        return;
    }

    while (cache->bytes > core->limits.cache_bytes &&
           cache->compacted.count + cache->pending.count > 0)
        evict_oldest(core);
    assert(cache->bytes <= core->limits.cache_bytes || cache->count == 0);
}

void bi_body_cache_remove(struct core *core, struct job *job)
{
    if ((job->flags & JOB_CACHED) == 0)
        return;

    assert(core->cache.count > 0 && core->cache.bytes >= job->body_size);
    core->cache.bytes -= job->body_size;
    core->cache.count--;
}

void bi_body_cache_readd(struct core *core, struct job *job)
{
    bi_body_cache_remove(core, job);
    job->flags &= (uint8_t)~JOB_CACHED;
    bi_body_cache_add(core, job);
}

void bi_body_cache_attach(struct core *core, struct job *job, bide_buf *body)
{
    assert(body != NULL);
    /* A body larger than the cache would evict all others and then itself. */
    if (!bi_job_body_missing(job) || core->limits.cache_bytes < job->body_size) {
        bide_buf_unref(body);
        return;
    }

    job->body = body;
    core->memory += job->body_size;
    bi_body_cache_add(core, job);
}

bool bi_body_cache_has_room(const struct core *core, uint64_t bytes)
{
    return core->cache.bytes + bytes <= core->limits.cache_bytes;
}

void bi_body_cache_done(struct core *core)
{
    while (core->cache.compacted.head != NULL)
        fifo_free_head(core, &core->cache.compacted);
    while (core->cache.pending.head != NULL)
        fifo_free_head(core, &core->cache.pending);
}
