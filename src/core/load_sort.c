/* SPDX-License-Identifier: MIT */
/*
 * load_sort - sorts the lists of jobs that were loaded in order of their ids.
 *
 * Buried and done jobs are listed in the order of these events, reserved jobs by token number,
 * others by the time at which they entered the state. Finding the position of each job during the
 * load would take a walk through its list. So the load appends, and lists that are then out of
 * order are sorted at the end: collect all their jobs, sort them, and move them to the front of
 * the list, the last one first. Jobs that enter a list in the meantime are behind the loaded ones,
 * where they belong; jobs that a failed commit returns are in the tree beside the list.
 *
 * Threads    collect and apply run under the lock of the core, in slices. sort uses only the
 *            copied keys and runs without it.
 * Failure    Without memory the lists remain unsorted, and core->unsorted_states remains set.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <stdlib.h>

struct bi_load_sort_entry {
    uint64_t key;
    uint64_t id;
    int state;
};

static bool add_entry(struct core *core, struct bi_load_sort *sort, const struct job *job)
{
    if (sort->count == sort->room) {
        size_t room = sort->room == 0 ? 1024 : sort->room * 2;
        struct bi_load_sort_entry *entries =
            bi_alloc_resize(&core->alloc, sort->entries, room * sizeof(*entries));
        if (entries == NULL)
            return false;

        sort->entries = entries;
        sort->room = room;
    }
    sort->entries[sort->count++] =
        (struct bi_load_sort_entry){bi_job_list_order(core, job), job->id, job->state};
    return true;
}

bool bi_load_sort_collect(struct core *core, struct bi_load_sort *sort, unsigned budget)
{
    assert(budget > 0 && sort->count <= sort->room);
    bool end = core->unsorted_states == 0 || core->by_id.buckets == 0;

    /* The first slice fixes the limit between loaded jobs and those of this run. */
    if (sort->position == 0 && sort->count == 0) {
        uint64_t now = bi_job_time_order(bi_core_stamp(core)) + 1;
        sort->limits[BIDE_STATE_DELAYED] = sort->limits[BIDE_STATE_READY] = now;
        sort->limits[BIDE_STATE_RESERVED] = core->next_token;
        sort->limits[BIDE_STATE_BURIED] = sort->limits[BIDE_STATE_DONE] = core->next_order;
    }

    /* The position remains valid if ops grow or shrink the table between two slices. */
    for (; !end && budget > 0 && !sort->failed; budget--) {
        uint32_t ref = bi_hash_table_walk(&core->by_id, &sort->position, &end);
        for (; ref != 0; ref = job_at(core, ref)->link) {
            const struct job *job = job_at(core, ref);
            /* A job that entered its state after collecting began is in the right position. */
            if ((core->unsorted_states & 1u << job->state) != 0 &&
                bi_job_list_order(core, job) < sort->limits[job->state] &&
                !add_entry(core, sort, job))
                sort->failed = true;
        }
    }

    return !end && !sort->failed;
}

static int compare(const void *a, const void *b)
{
    const struct bi_load_sort_entry *left = a;
    const struct bi_load_sort_entry *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;

    /* No ties: qsort() is not stable, and the order must not depend on the walk. */
    return left->id < right->id ? -1 : left->id > right->id;
}

void bi_load_sort_sort(struct bi_load_sort *sort)
{
    if (sort->count > 0)
        qsort(sort->entries, sort->count, sizeof(*sort->entries), compare);
    sort->next = sort->count;
}

bool bi_load_sort_apply(struct core *core, struct bi_load_sort *sort, unsigned budget)
{
    assert(sort->next <= sort->count);
    for (; sort->next > 0 && budget > 0; budget--) {
        const struct bi_load_sort_entry *entry = &sort->entries[--sort->next];
        struct job *job = bi_job_lookup(core, entry->id);

        /* Skip jobs that were removed or changed their state after they were collected. */
        if (job != NULL && job->state == entry->state && bi_job_list_order(core, job) == entry->key)
            bi_job_move_to_front(core, job);
    }

    if (sort->next > 0)
        return true;
    if (!sort->failed)
        core->unsorted_states = 0;
    return false;
}

void bi_load_sort_done(struct core *core, struct bi_load_sort *sort)
{
    bi_alloc_free(&core->alloc, sort->entries);
    *sort = (struct bi_load_sort){.failed = sort->failed};
}
