/* SPDX-License-Identifier: MIT */
#include "cli/top/top_model.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN (-1.0)

static int by_name(const void *a, const void *b)
{
    const bide_topic_stats *one = a;
    const bide_topic_stats *other = b;
    return strcmp(one->name, other->name);
}

/* ---- rates ---- */

static double rate_of(uint64_t now, uint64_t before, double seconds)
{
    uint64_t counted = now >= before ? now - before : now;
    return (double)counted / seconds;
}

static uint64_t finished(const bide_counters *total)
{
    return total->deletes + total->dones;
}

static uint64_t failed(const bide_counters *total)
{
    return total->fails + total->timeouts;
}

static void update_rates(struct top_model *model, const bide_stats *now, double seconds)
{
    const bide_counters *after = &now->total, *before = &model->stats.total;
    double *rates = model->rates;
    for (int i = 0; i < TOP_RATES; i++)
        rates[i] = UNKNOWN;
    if (seconds <= 0)
        return;
    rates[TOP_RATE_PUTS] = rate_of(after->puts, before->puts, seconds);
    rates[TOP_RATE_RESERVES] = rate_of(after->reserves, before->reserves, seconds);
    rates[TOP_RATE_FINISHED] = rate_of(finished(after), finished(before), seconds);
    rates[TOP_RATE_FAILS] = rate_of(failed(after), failed(before), seconds);
}

/* The time since the last sample; 0 when its counters cannot be compared with the new ones. */
static double seconds_since(const struct top_model *model, const bide_stats *now, int64_t at_us)
{
    if (model->samples == 0 || now->uptime_ms < model->stats.uptime_ms || at_us <= model->at_us)
        return 0;
    return (double)(at_us - model->at_us) / 1e6;
}

/* ---- topics ---- */

/* seconds 0: nothing to compare with. A topic that is new was made since the last sample. */
static void update_topic(struct top_topic *topic, const bide_topic_stats *now, double seconds)
{
    const bide_counters *before = &topic->now.total;
    topic->in = seconds > 0 ? rate_of(now->total.puts, before->puts, seconds) : UNKNOWN;
    topic->out = seconds > 0 ? rate_of(finished(&now->total), finished(before), seconds) : UNKNOWN;
    topic->now = *now;
    size_t at = topic->samples++ % BI_TOP_HISTORY;
    topic->ready[at] = (float)now->jobs.ready;
    topic->finish_rates[at] = topic->out > 0 ? (float)topic->out : 0;
}

/* The topic of before with each name, or a new one; all or none. merged: room for all. */
static bool merge_topics(const struct top_model *model, const bide_topic_stats *topics,
                         size_t count, struct top_topic **merged, bool *is_new)
{
    size_t old = 0;
    for (size_t i = 0; i < count; i++) {
        while (old < model->count && strcmp(model->topics[old]->now.name, topics[i].name) < 0)
            old++;
        is_new[i] =
            old == model->count || strcmp(model->topics[old]->now.name, topics[i].name) != 0;
        merged[i] = is_new[i] ? calloc(1, sizeof(**merged)) : model->topics[old++];
        if (merged[i] == NULL)
            return false;
    }
    return true;
}

/* Frees those of before that no new name has: both lists are sorted. */
static void free_removed(const struct top_model *model, struct top_topic *const *merged,
                         size_t count)
{
    size_t kept = 0;
    for (size_t old = 0; old < model->count; old++) {
        while (kept < count && merged[kept] != model->topics[old] &&
               strcmp(merged[kept]->now.name, model->topics[old]->now.name) < 0)
            kept++;
        if (kept == count || merged[kept] != model->topics[old])
            free(model->topics[old]);
    }
}

static void free_new(struct top_topic **merged, const bool *is_new, size_t count)
{
    for (size_t i = 0; i < count && merged != NULL && is_new != NULL; i++)
        if (is_new[i])
            free(merged[i]);
}

/* A page that was asked while topics came and went may name one twice. */
static size_t remove_duplicates(bide_topic_stats *topics, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(topics[kept - 1].name, topics[i].name) != 0)
            topics[kept++] = topics[i];
    return kept;
}

bool bi_top_model_add_sample(struct top_model *model, const bide_stats *stats,
                             bide_topic_stats *topics, size_t count, int64_t at_us)
{
    if (count > 0)
        qsort(topics, count, sizeof(*topics), by_name);
    count = remove_duplicates(topics, count);
    struct top_topic **merged = calloc(count + 1, sizeof(struct top_topic *));
    bool *is_new = calloc(count + 1, sizeof(*is_new));
    bool good =
        merged != NULL && is_new != NULL && merge_topics(model, topics, count, merged, is_new);
    if (good) {
        double seconds = seconds_since(model, stats, at_us);
        for (size_t i = 0; i < count; i++)
            if (is_new[i])
                memcpy(merged[i]->now.name, topics[i].name, sizeof(topics[i].name));
        free_removed(model, merged, count);
        for (size_t i = 0; i < count; i++)
            update_topic(merged[i], &topics[i], seconds);
        update_rates(model, stats, seconds);
        free(model->topics);
        model->topics = merged;
        model->count = count;
        model->stats = *stats;
        model->at_us = at_us;
        model->samples++;
    } else {
        free_new(merged, is_new, count);
        free(merged);
    }
    free(is_new);
    return good;
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
    count = count < max ? count : max;
    for (size_t i = 0; i < count; i++)
        values[i] = ring[(topic->samples - count + i) % BI_TOP_HISTORY];
    return count;
}
