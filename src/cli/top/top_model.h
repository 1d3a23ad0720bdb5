/* SPDX-License-Identifier: MIT */
/*
 * top_model - the data of `bide top`: the last sample, the rates, and the history.
 *
 * A sample holds the figures of all topics at about one time. A rate is the difference of a counter
 * between two samples divided by the time between them; after the first sample it is unknown
 * (negative). A counter that decreased belongs to a topic that was created again, and counts from
 * 0. After a restart of the queue (the uptime decreased) all rates are unknown.
 *
 * Cost       A sample is sorted and merged: O(n log n), and about 2 KiB per topic.
 * Failure    Only lack of memory; the sample is dropped and the model is unchanged.
 */
#ifndef BI_TOP_MODEL_H
#define BI_TOP_MODEL_H

#include <bide/bide.h>

#define BI_TOP_HISTORY 200 /* samples per topic: the trend of a wide window */

struct top_topic {
    bide_topic_stats now;
    double in, out;                                            /* puts and finishes per second */
    float ready[BI_TOP_HISTORY], finish_rates[BI_TOP_HISTORY]; /* rings, of the count and of out */
    size_t samples;                                            /* that contained the topic */
    size_t last_sample;                                        /* number of the last of them */
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

/* Adds a sample; sorts topics in place. False: out of memory. */
bool bi_top_model_add_sample(struct top_model *model, const bide_stats *stats,
                             bide_topic_stats *topics, size_t count, int64_t at_us);
void bi_top_model_free(struct top_model *model);

/* NULL if the last sample does not contain it. */
const struct top_topic *bi_top_model_find(const struct top_model *model, const char *name);

/* Copies the last values of a ring, oldest first, at most max; returns their number. */
size_t bi_top_model_history(const struct top_topic *topic, const float *ring, float *values,
                            size_t max);

#endif
