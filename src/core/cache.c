/* SPDX-License-Identifier: MIT */
#include "core/cache.h"

#include "core/state.h"

static uint64_t *place_at(struct cache *cache, size_t i)
{
    return &cache->ring[(cache->first + i) & (cache->room - 1)];
}

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

static void evict_first(struct core *core)
{
    struct cache *cache = &core->cache;
    struct job *job = job_of(core, *place_at(cache, 0));
    cache->first++;
    cache->used--;
    if (job != NULL)
        evict(core, job);
}

/* Drops the places of jobs that are gone. */
static void compact(struct core *core)
{
    struct cache *cache = &core->cache;
    size_t kept = 0;
    for (size_t i = 0; i < cache->used; i++) {
        uint64_t id = *place_at(cache, i);
        if (job_of(core, id) != NULL)
            *place_at(cache, kept++) = id;
    }
    cache->used = kept;
}

static bool grow(struct core *core)
{
    struct cache *cache = &core->cache;
    size_t room = cache->room == 0 ? 1024 : cache->room * 2;
    uint64_t *ring = bi_alloc_get(&core->alloc, room * sizeof(*ring));
    if (ring == NULL)
        return false;
    for (size_t i = 0; i < cache->used; i++)
        ring[i] = *place_at(cache, i);
    bi_alloc_put(&core->alloc, cache->ring);
    cache->ring = ring;
    cache->room = room;
    cache->first = 0;
    return true;
}

/* Room for one more place. */
static bool make_room(struct core *core)
{
    struct cache *cache = &core->cache;
    while (cache->used > 0 && job_of(core, *place_at(cache, 0)) == NULL) {
        cache->first++;
        cache->used--;
    }
    if (cache->used < cache->room)
        return true;
    if (cache->used > 2 * cache->count)
        compact(core);
    return cache->used < cache->room || grow(core);
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
    if (!make_room(core)) {
        evict(core, job);
        return;
    }
    *place_at(cache, cache->used++) = job->id;
    while (cache->bytes > core->limits.cache_bytes && cache->used > 0)
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
    bi_alloc_put(&core->alloc, core->cache.ring);
}
