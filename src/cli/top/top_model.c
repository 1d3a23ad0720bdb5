/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN (-1.0)

static int by_name(const void *a, const void *b)
{
    const bide_topic_stats *one = a, *other = b;
    return strcmp(one->name, other->name);
}

/* ---- rates ---- */

/* seconds 0: the counters cannot be compared. */
static double rate_of(uint64_t now, uint64_t before, double seconds)
{
    return seconds > 0 ? (double)(now >= before ? now - before : now) / seconds : UNKNOWN;
}

static uint64_t finished(const bide_counters *total)
{
    return total->deletes + total->dones;
}

static void update_rates(struct top_model *model, const bide_stats *now, double seconds)
{
    const bide_counters *after = &now->total, *before = &model->stats.total;
    double *rates = model->rates;

    rates[TOP_RATE_PUTS] = rate_of(after->puts, before->puts, seconds);
    rates[TOP_RATE_RESERVES] = rate_of(after->reserves, before->reserves, seconds);
    rates[TOP_RATE_FINISHED] = rate_of(finished(after), finished(before), seconds);
    rates[TOP_RATE_FAILS] =
        rate_of(after->fails + after->timeouts, before->fails + before->timeouts, seconds);
}

/* Since the last sample; 0 if its counters cannot be compared with the new ones. */
static double seconds_since(const struct top_model *model, const bide_stats *now, int64_t at_us)
{
    if (model->samples == 0 || now->uptime_ms < model->stats.uptime_ms || at_us <= model->at_us)
        return 0;
    return (double)(at_us - model->at_us) / 1e6;
}

/* ---- topics ---- */

/* The counters of a new topic start at 0: it was created since the last sample. */
static void update_topic(struct top_topic *topic, const bide_topic_stats *now, double seconds)
{
    const bide_counters *before = &topic->now.total;
    size_t at = topic->samples++ % BI_TOP_HISTORY;

    topic->in = rate_of(now->total.puts, before->puts, seconds);
    topic->out = rate_of(finished(&now->total), finished(before), seconds);
    topic->now = *now;
    topic->ready[at] = (float)now->jobs.ready;
    topic->finish_rates[at] = topic->out > 0 ? (float)topic->out : 0;
}

/* The known topic of each name, or a new one, whose `samples` is 0. Both lists are sorted. NULL:
 * out of memory, and the model is unchanged. */
static struct top_topic **merge_topics(const struct top_model *model,
                                       const bide_topic_stats *topics, size_t count)
{
    struct top_topic **merged = calloc(count + 1, sizeof(struct top_topic *));
    size_t old = 0, i = 0;

    for (; merged != NULL && i < count; i++) {
        int order = -1;
        while (old < model->count &&
               (order = strcmp(model->topics[old]->now.name, topics[i].name)) < 0)
            old++;
        bool known = old < model->count && order == 0;
        merged[i] = known ? model->topics[old++] : calloc(1, sizeof(**merged));
        if (merged[i] == NULL)
            break;
    }
    if (merged == NULL || i == count)
        return merged;

    while (i-- > 0)
        if (merged[i]->samples == 0)
            free(merged[i]);
    free(merged);
    return NULL;
}

bool bi_top_model_add_sample(struct top_model *model, const bide_stats *stats,
                             bide_topic_stats *topics, size_t count, int64_t at_us)
{
    double seconds = seconds_since(model, stats, at_us);
    size_t unique = 0;

    /* Pages that were read while topics came and went may name a topic twice. */
    if (count > 0)
        qsort(topics, count, sizeof(*topics), by_name);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(topics[unique - 1].name, topics[i].name) != 0)
            topics[unique++] = topics[i];

    struct top_topic **merged = merge_topics(model, topics, unique);
    if (merged == NULL)
        return false;

    /* Nothing below can fail. Topics without this sample number no longer exist. */
    model->samples++;
    for (size_t i = 0; i < unique; i++) {
        update_topic(merged[i], &topics[i], seconds);
        merged[i]->last_sample = model->samples;
    }
    for (size_t i = 0; i < model->count; i++)
        if (model->topics[i]->last_sample != model->samples)
            free(model->topics[i]);
    free(model->topics);
    model->topics = merged;
    model->count = unique;

    update_rates(model, stats, seconds);
    model->stats = *stats;
    model->at_us = at_us;
    return true;
}

void bi_top_model_free(struct top_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        free(model->topics[i]);
    free(model->topics);
    *model = (struct top_model){.count = 0};
}

const struct top_topic *bi_top_model_find(const struct top_model *model, const char *name)
{
    size_t from = 0, to = model->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(model->topics[middle]->now.name, name);
        if (order == 0)
            return model->topics[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

size_t bi_top_model_history(const struct top_topic *topic, const float *ring, float *values,
                            size_t max)
{
    size_t count = topic->samples < BI_TOP_HISTORY ? topic->samples : BI_TOP_HISTORY;

    assert(ring == topic->ready || ring == topic->finish_rates);
    count = count < max ? count : max;
    for (size_t i = 0; i < count; i++)
        values[i] = ring[(topic->samples - count + i) % BI_TOP_HISTORY];
    return count;
}
