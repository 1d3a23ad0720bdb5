/* SPDX-License-Identifier: MIT */
/*
 * snapshot - everything that a queue holds, taken down to be compared.
 *
 * A picture is taken of a queue that serves, and another of the same file opened again. What a
 * restart changes by promise (a lease ends, a started job is counted) does not count as a
 * difference.
 */
#ifndef FAULT_SNAPSHOT_H
#define FAULT_SNAPSHOT_H

#include "fault.h"

/* The topics that pictures show, besides all jobs. */
extern const char *const snapshot_topics[3];

struct job_snapshot {
    uint64_t id;
    bide_state state;
    uint32_t priority;
    size_t body_size;
    uint64_t body, key, result, last_error, history; /* hashes; 0: none */
    int64_t ttr_ms, run_at_ms, retain_ms;
    int32_t max_retries;
    uint32_t failures, fails, releases, buries, kicks;
    char topic[BIDE_TOPIC_MAX + 1];
};

struct snapshot {
    struct job_snapshot *jobs; /* by id */
    size_t count;
    bool paused[3];
};

#define DIFFERENCE_SIZE 200

/* Takes the picture of a queue that must answer. */
struct snapshot *snapshot_take(bide *queue);
void snapshot_free(struct snapshot *snapshot);
const struct job_snapshot *snapshot_find(const struct snapshot *snapshot, uint64_t id);

/* Is "after" what a restart makes of "before"? text says what is different. */
bool snapshot_survived(const struct snapshot *before, const struct snapshot *after, char *text);
/* Are they the same? */
bool snapshot_same(const struct snapshot *before, const struct snapshot *after, char *text);

/* Closes the queue and opens it again: it must be as it was. Closes that one, too. */
void snapshot_check_reopened(const char *url, bide *queue);

#endif
