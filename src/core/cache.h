/* SPDX-License-Identifier: MIT */
/*
 * cache - which bodies stay in memory.
 *
 * With a journal, the body of a job that is stored may go: the store has it. The bodies that came
 * last stay, up to cache_bytes; when there are more, those that came first go. A job that has lost
 * its body still knows its size.
 *
 * Cost       A place in a line for each body, eight bytes; places of jobs that are gone are passed
 *            over. When they are too many they are removed, a few with every body that comes.
 */
#ifndef BI_CACHE_H
#define BI_CACHE_H

#include "core/job.h"

/* Ids, first in, first out, in blocks: however long it is, adding one more moves none. */
struct cache_line {
    struct cache_block *head, *tail;
    uint32_t first; /* in the head */
    uint32_t end;   /* in the tail */
    uint64_t count;
};

struct cache {
    uint64_t bytes; /* of bodies that are stored and in memory */
    uint64_t count; /* of such bodies */
    /* Their ids, in the order in which they came: those that have been sorted out, then the rest. */
    struct cache_line sorted, rest;
    bool sorting; /* places of jobs that are gone are being removed */
};

/* The job's body is stored: it may stay, or goes, or makes others go. Does nothing if it is in the
 * cache already, or the job has no body in memory. */
void bi_cache_add(struct core *core, struct job *job);
/* The job was gone, so that its place may have been dropped, and is back. */
void bi_cache_add_again(struct core *core, struct job *job);
/* The job is about to be freed. */
void bi_cache_remove(struct core *core, struct job *job);
/* A body was read again. The reference is the job's, or is given back. */
void bi_cache_return(struct core *core, struct job *job, bide_buf *body);
/* Would so many bytes more fit without making others go? */
bool bi_cache_has_room(const struct core *core, uint64_t bytes);
void bi_cache_done(struct core *core);

/* Is the body in the store only? */
static inline bool bi_job_lacks_body(const struct job *job)
{
    return job->body == NULL && job->body_size > 0;
}

#endif
