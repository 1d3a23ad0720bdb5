/* SPDX-License-Identifier: MIT */
/*
 * sample_queue - a queue with a job in every state, and the proof that nothing in it has changed.
 *
 * A call that is refused must leave everything as it was. The tests of bad input build a world,
 * make their calls, and compare all figures and all jobs with what they were before.
 */
#ifndef SAMPLE_QUEUE_H
#define SAMPLE_QUEUE_H

#include "contract.h"

#define SAMPLE_JOBS 6

struct sample_queue {
    bide *queue;
    const char *topic;
    uint64_t delayed;
    uint64_t ready;
    uint64_t reserved;
    uint64_t buried;
    uint64_t done;
    uint64_t other;       /* another reserved job */
    uint64_t token;       /* of the lease of reserved */
    uint64_t old_token;   /* of an earlier lease of it */
    uint64_t other_token; /* of the lease of other */

    bide_stats stats;
    bide_topic_stats topic_stats;
    bide_job jobs[SAMPLE_JOBS];
};

/* A world in a queue with these parameters; key "held" is held by its ready job. */
struct sample_queue *new_sample_queue(const char *parameters);
/* What changed on purpose counts as unchanged from now on. */
void sample_queue_remember(struct sample_queue *sample);

/* Fails the test if anything in the world is not as it was when it was made. */
#define UNCHANGED(sample) sample_queue_unchanged(HERE, (sample))
void sample_queue_unchanged(struct where at, const struct sample_queue *sample);

/* Fails the test if a job differs from what it was then; slack_ms is how much later it may be due
 * by the rounding of clocks. */
#define SAME_JOB(now, then, slack_ms) same_job(HERE, (now), (then), (slack_ms))
void same_job(struct where at, const bide_job *now, const bide_job *then, int64_t slack_ms);

/* Fails the test if the bytes of an out parameter are not those that spoil() wrote. */
#define SPOILED(object) spoiled(HERE, &(object), sizeof(object), #object)
void spoil(void *object, size_t size);
void spoiled(struct where at, const void *object, size_t size, const char *name);

/* A call that must be refused, with this code or BIDE_EINVAL, and leave the world unchanged. */
#define REFUSE(sample, call, want) \
    do {                           \
        CODE(call, want);          \
        UNCHANGED(sample);         \
    } while (0)
#define BAD(sample, call) REFUSE(sample, call, BIDE_EINVAL)

/* Times that no duration may have, and moments that cannot be named. */
extern const int64_t bad_times[5];
extern const int64_t bad_moments[5];
extern const int64_t bad_priorities[4];

#endif
