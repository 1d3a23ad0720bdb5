/* SPDX-License-Identifier: MIT */
/*
 * picture - everything that a queue holds, taken down to be compared.
 *
 * A picture is taken of a queue that serves, and another of the same file opened again. What a
 * restart changes by promise (a lease ends, a started job is counted) does not count as a
 * difference.
 */
#ifndef FAULT_PICTURE_H
#define FAULT_PICTURE_H

#include "fault.h"

/* The topics that pictures show, besides all jobs. */
extern const char *const picture_topics[3];

struct seen_job {
    uint64_t id;
    bide_state state;
    uint32_t priority;
    size_t body_size;
    uint64_t body, key, result, last_error; /* hashes; 0: none */
    int64_t ttr_ms, run_at_ms, retain_ms;
    int32_t max_retries;
    uint32_t failures, fails, releases, buries, kicks;
    char topic[BIDE_TOPIC_MAX + 1];
};

struct picture {
    struct seen_job *jobs; /* by id */
    size_t count;
    bool paused[3];
};

#define DIFFERENCE_SIZE 200

/* Takes the picture of a queue that must answer. */
struct picture *picture_take(bide *queue);
void picture_free(struct picture *picture);
const struct seen_job *picture_find(const struct picture *picture, uint64_t id);

/* Is "after" what a restart makes of "before"? text says what is different. */
bool picture_survived(const struct picture *before, const struct picture *after, char *text);
/* Are they the same? */
bool picture_same(const struct picture *before, const struct picture *after, char *text);

/* Closes the queue and opens it again: it must be as it was. Closes that one, too. */
void picture_check_reopened(const char *url, bide *queue);

#endif
