/* SPDX-License-Identifier: MIT */
/*
 * order - lists that were loaded in the order of ids are put into their own.
 *
 * Buried and done jobs stand in the order in which they became so, the others by how long they have
 * been in their state. To find the place of each while loading would take a walk through the list.
 * So jobs are appended, and where that was wrong the list is put in order at the end: all its
 * jobs are collected and sorted, and then, the last one first, moved to the front. What comes into
 * the list meanwhile stands behind them, where it belongs; what a failed commit brings back stands
 * in the tree beside the list.
 */
#include "core/state.h"

#include <stdlib.h>

struct bi_order_entry {
    uint64_t key;
    uint64_t id;
    int state;
};

static uint64_t key_of(const struct core *core, const struct job *job)
{
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return more_of(core, job)->order;
    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_number(core, more_of(core, job));
    return (uint64_t)job->since ^ (UINT64_C(1) << 63); /* moments may be negative */
}

/* Whatever has come into its state since collecting began stands where it belongs. */
static bool was_there(const struct core *core, const struct bi_ordering *ordering,
                      const struct job *job)
{
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return more_of(core, job)->order < ordering->order;
    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_number(core, more_of(core, job)) < ordering->token;
    return job->since <= ordering->moment;
}

static bool add_entry(struct core *core, struct bi_ordering *ordering, const struct job *job)
{
    if (ordering->count == ordering->room) {
        size_t room = ordering->room == 0 ? 1024 : ordering->room * 2;
        struct bi_order_entry *entries =
            bi_alloc_resize(&core->alloc, ordering->entries, room * sizeof(*entries));
        if (entries == NULL)
            return false;
        ordering->entries = entries;
        ordering->room = room;
    }
    ordering->entries[ordering->count++] =
        (struct bi_order_entry){key_of(core, job), job->id, job->state};
    return true;
}

bool bi_core_order_collect(struct core *core, struct bi_ordering *ordering, unsigned budget)
{
    bool end = core->disordered == 0 || core->by_id.buckets == 0;
    if (ordering->place == 0 && ordering->count == 0) {
        ordering->moment = bi_core_stamp(core);
        ordering->order = core->next_order;
        ordering->token = core->next_token;
    }
    for (; !end && budget > 0 && !ordering->failed; budget--) {
        uint32_t ref = bi_table_walk(&core->by_id, &ordering->place, &end);
        for (; ref != 0; ref = job_at(core, ref)->link) {
            const struct job *job = job_at(core, ref);
            if ((core->disordered & 1u << job->state) != 0 && was_there(core, ordering, job) &&
                !add_entry(core, ordering, job))
                ordering->failed = true;
        }
    }
    return !end && !ordering->failed;
}

static int compare(const void *a, const void *b)
{
    const struct bi_order_entry *left = a;
    const struct bi_order_entry *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

void bi_core_order_sort(struct bi_ordering *ordering)
{
    if (ordering->count > 0)
        qsort(ordering->entries, ordering->count, sizeof(*ordering->entries), compare);
    ordering->next = ordering->count;
}

bool bi_core_order_apply(struct core *core, struct bi_ordering *ordering, unsigned budget)
{
    for (; ordering->next > 0 && budget > 0; budget--) {
        const struct bi_order_entry *entry = &ordering->entries[--ordering->next];
        struct job *job = bi_core_lookup(core, entry->id);
        if (job != NULL && job->state == entry->state && key_of(core, job) == entry->key)
            bi_job_to_front(core, job);
    }
    if (ordering->next > 0)
        return true;
    if (!ordering->failed)
        core->disordered = 0;
    return false;
}

void bi_core_order_done(struct core *core, struct bi_ordering *ordering)
{
    bi_alloc_put(&core->alloc, ordering->entries);
    *ordering = (struct bi_ordering){.failed = ordering->failed};
}
