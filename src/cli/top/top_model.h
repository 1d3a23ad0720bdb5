/* SPDX-License-Identifier: MIT */
/*
 * top_model - what `bide top` knows: the figures of the last sample, how fast they change, and how
 * they were before.
 *
 * A sample is all topics at about one moment. A rate is what was counted between two samples,
 * by the time between them; it is not known (less than 0) after the first. Counters that go back
 * belong to a topic that was made anew, and count from 0; when the whole queue began anew nothing
 * is known about what was in between.
 *
 * Cost       A sample is sorted and merged: O(n log n), and about 2 KiB for each topic.
 * Failure    Only lack of memory; then the sample is not taken, and everything is as before.
 */
#ifndef BI_TOP_MODEL_H
#define BI_TOP_MODEL_H

#include <bide/bide.h>

#define BI_TOP_HISTORY 200 /* samples that are kept: the trend of a wide window */

struct top_topic {
    bide_topic_stats now;
    double in, out;                                            /* put, and finished, a second */
    float ready[BI_TOP_HISTORY], finish_rates[BI_TOP_HISTORY]; /* rings, of the count and of out */
    size_t samples;                                            /* how many it was in */
};

enum top_rate { TOP_RATE_PUTS, TOP_RATE_RESERVES, TOP_RATE_FINISHED, TOP_RATE_FAILS, TOP_RATES };

struct top_model {
    bide_stats stats;
    double rates[TOP_RATES];
    struct top_topic **topics; /* by name */
    size_t count;
    int64_t at_us; /* of the last sample */
    size_t samples;
};

/* Takes a sample; sorts the list. False: no memory. */
bool bi_top_model_add_sample(struct top_model *model, const bide_stats *stats,
                             bide_topic_stats *topics, size_t count, int64_t at_us);
void bi_top_model_free(struct top_model *model);

/* NULL if it is not in the last sample. */
const struct top_topic *bi_top_model_find(const struct top_model *model, const char *name);

/* The last values of a ring, oldest first, at most max; answers how many. */
size_t bi_top_model_history(const struct top_topic *topic, const float *ring, float *values,
                            size_t max);

#endif
