/* SPDX-License-Identifier: MIT */
#include "core/cache.h"

#include "core/state.h"

#include <string.h>

#define BLOCK_IDS 511
/* Places that are looked at with every body that comes, while places are sorted out. */
#define SORT_STEP 4

struct cache_block {
    struct cache_block *next;
    uint64_t ids[BLOCK_IDS];
};

/* ---- lines ---- */

static bool line_push(struct core *core, struct cache_line *line, uint64_t id)
{
    if (line->tail == NULL || line->end == BLOCK_IDS) {
        struct cache_block *block = bi_alloc_get(&core->alloc, sizeof(*block));
        if (block == NULL)
            return false;
        block->next = NULL;
        if (line->tail != NULL)
            line->tail->next = block;
        else
            line->head = block;
        line->tail = block;
        line->end = 0;
    }
    line->tail->ids[line->end++] = id;
    line->count++;
    return true;
}

static void line_free_head(struct core *core, struct cache_line *line)
{
    struct cache_block *block = line->head;
    line->head = block->next;
    line->first = 0;
    if (line->head == NULL)
        line->tail = NULL;
    bi_alloc_put(&core->alloc, block);
}

static uint64_t line_first(const struct cache_line *line)
{
    return line->head->ids[line->first];
}

static void line_pop(struct core *core, struct cache_line *line)
{
    line->count--;
    if (++line->first == BLOCK_IDS || line->count == 0)
        line_free_head(core, line);
}

/* ---- places ---- */

/* The job of a place, if it still has its body. */
static struct job *job_of(struct core *core, uint64_t id)
{
    struct job *job = bi_core_lookup(core, id);
    return job != NULL && (job->flags & JOB_CACHED) != 0 ? job : NULL;
}

static void evict(struct core *core, struct job *job)
{
    core->cache.bytes -= job->body_size;
    core->cache.count--;
    core->memory -= job->body_size;
    job->flags &= (uint8_t)~JOB_CACHED;
    bide_buf_unref(job->body);
    job->body = NULL;
}

/* The line with the oldest place. */
static struct cache_line *front_of(struct cache *cache)
{
    return cache->sorted.count > 0 ? &cache->sorted : &cache->rest;
}

static void evict_first(struct core *core)
{
    struct cache_line *line = front_of(&core->cache);
    struct job *job = job_of(core, line_first(line));
    line_pop(core, line);
    if (job != NULL)
        evict(core, job);
}

/* Removes some places of jobs that are gone: at the front, and everywhere if they are too many. */
static void sort_out(struct core *core)
{
    struct cache *cache = &core->cache;
    struct cache_line *front = front_of(cache);
    for (int i = 0; i < SORT_STEP && front->count > 0 && job_of(core, line_first(front)) == NULL;
         i++)
        line_pop(core, front);
    if (!cache->sorting && cache->rest.count > 2 * cache->count + BLOCK_IDS)
        cache->sorting = true;
    for (int i = 0; i < SORT_STEP && cache->sorting; i++) {
        if (cache->rest.count == 0) {
            cache->rest = cache->sorted;
            memset(&cache->sorted, 0, sizeof(cache->sorted));
            cache->sorting = false;
            return;
        }
        uint64_t id = line_first(&cache->rest);
        if (job_of(core, id) != NULL && !line_push(core, &cache->sorted, id))
            return;
        line_pop(core, &cache->rest);
    }
}

void bi_cache_add(struct core *core, struct job *job)
{
    struct cache *cache = &core->cache;
    if (core->limits.cache_bytes == 0 || !core->journal.on || job->body == NULL ||
        job->body_size == 0 || (job->flags & JOB_CACHED) != 0)
        return;
    job->flags |= JOB_CACHED;
    cache->bytes += job->body_size;
    cache->count++;
    sort_out(core);
    if (!line_push(core, &cache->rest, job->id)) {
        evict(core, job);
        return;
    }
    while (cache->bytes > core->limits.cache_bytes && cache->sorted.count + cache->rest.count > 0)
        evict_first(core);
}

void bi_cache_remove(struct core *core, struct job *job)
{
    if ((job->flags & JOB_CACHED) == 0)
        return;
    core->cache.bytes -= job->body_size;
    core->cache.count--;
}

void bi_cache_add_again(struct core *core, struct job *job)
{
    bi_cache_remove(core, job);
    job->flags &= (uint8_t)~JOB_CACHED;
    bi_cache_add(core, job);
}

void bi_cache_return(struct core *core, struct job *job, bide_buf *body)
{
    if (!bi_job_lacks_body(job) || core->limits.cache_bytes < job->body_size) {
        bide_buf_unref(body);
        return;
    }
    job->body = body;
    core->memory += job->body_size;
    bi_cache_add(core, job);
}

bool bi_cache_has_room(const struct core *core, uint64_t bytes)
{
    return core->cache.bytes + bytes <= core->limits.cache_bytes;
}

void bi_cache_done(struct core *core)
{
    while (core->cache.sorted.head != NULL)
        line_free_head(core, &core->cache.sorted);
    while (core->cache.rest.head != NULL)
        line_free_head(core, &core->cache.rest);
}
