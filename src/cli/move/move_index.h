/* SPDX-License-Identifier: MIT */
/*
 * move_index - finds the copy of a job among the jobs of another queue.
 *
 * A copy has another id, and no queue stores where a job came from. So a job is recognised by its
 * fingerprint: a keyed hash of the fields that neither time nor a copy changes, and two times
 * beside it. The times are not hashed because two queues report the same moment with a difference
 * of some milliseconds.
 *
 * Each entry is taken at most once: three equal jobs match three entries, not one.
 *
 * Ownership  The index copies fingerprints and refers to nothing.
 * Failure    Only add can fail (out of memory, or 2^32 entries); the index is then unchanged.
 * Cost       48 bytes per entry; take is O(log n) plus the unused entries with the same hash that
 *            were created within the tolerance.
 */
#ifndef BI_MOVE_INDEX_H
#define BI_MOVE_INDEX_H

#include "util/hash.h"

#include <bide/job.h>

/* The hash has 128 bits and its secret is random for each run: different jobs do not collide by
 * chance (once in 2^64 queues of a billion jobs), nor can a producer prepare two that do. */
struct fingerprint {
    uint64_t hash[2];
    int64_t created_ms;
    int64_t due_ms; /* delayed: when it becomes ready; 0 otherwise */
};

/* plain: hash only the fields that a beanstalkd keeps of a put. */
struct fingerprint bi_move_index_fingerprint(const struct bi_hash_secret secrets[2], bool plain,
                                             const bide_job *job);

/*
 * By how much the times of a job and of its copy may differ. Among the candidates within limit_ms
 * the closest is taken; one within close_ms is taken without looking at the others.
 */
struct move_tolerance {
    int64_t close_ms, limit_ms;
};

extern const struct move_tolerance
    bi_move_index_exact,    /* both queues keep milliseconds; clocks drift */
    bi_move_index_seconds,  /* the job is in a beanstalkd, which reports whole seconds */
    bi_move_index_timeless; /* the copy is in a beanstalkd, which stamps it at the put */

struct move_index_entry {
    struct fingerprint print;
    uint64_t id;
    uint32_t next;   /* its own position while unused; else a position behind it */
    uint32_t misses; /* in the first entry with a hash: jobs that found no entry with this hash */
};

struct move_index {
    const struct move_tolerance *tolerance;
    struct move_index_entry *entries;
    size_t count, capacity;
};

bool bi_move_index_add(struct move_index *index, const struct fingerprint *print, uint64_t id);
/* Sorts the entries. Call it once, after the last add and before the first take. */
void bi_move_index_finish(struct move_index *index);
/* Takes the entry that is a copy of the job with this fingerprint, and sets *id to the id of the
 * entry; false if there is none. A job that is delayed in one of the queues and ready in the
 * other matches if it was due by now_ms. */
bool bi_move_index_take(struct move_index *index, const struct fingerprint *print, int64_t now_ms,
                        uint64_t *id);
/* How many jobs that found no entry are equal to an unused entry but for the times. */
uint64_t bi_move_index_count_lookalikes(const struct move_index *index);
void bi_move_index_free(struct move_index *index);

#endif
