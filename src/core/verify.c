/* SPDX-License-Identifier: MIT */
/*
 * verify - compares the store with what the core expects it to have.
 *
 * The reference is the last committed state of a job, from the oldest undo entry of the journal,
 * not its present state. Changes that are never stored (the end of a delay, most reservations,
 * counters) are no differences.
 */
#include "core/core_internal.h"
#include "util/alloc.h"

#include <assert.h>
#include <string.h>

/* True if a job that is stored in this state may be in that state of the core. The end of a
 * delay and most reservations are not stored. */
static bool may_be_in(bide_state stored, bide_state state)
{
    static const bool may[BIDE_STATE_DONE + 1][BIDE_STATE_DONE + 1] = {
        [BIDE_STATE_DELAYED] = {0, 1, 1, 1, 0, 0}, /* gone delayed ready reserved buried done */
        [BIDE_STATE_READY] = {0, 0, 1, 1, 0, 0},
        [BIDE_STATE_BURIED] = {0, 0, 0, 0, 1, 0},
        [BIDE_STATE_DONE] = {0, 0, 0, 0, 0, 1},
    };
    return may[stored][state];
}

static const char *compare_job(const struct core *core, const struct job *job,
                               const struct bi_image *image)
{
    if (strcmp(topic_of(core, job)->name, image->topic) != 0)
        return "the topic is another";
    if (!may_be_in(image->state, (bide_state)job->state))
        return "the state is another";

    if (job->priority != image->priority || job->ttr != image->ttr)
        return "the priority or ttr is another";
    if (job->body_size != image->body_size)
        return "the body has another size";

    if (((job->flags & JOB_CANCEL_WANTED) != 0) != image->cancel_wanted ||
        ((job->flags & JOB_KEY_RETAINED) != 0) != image->key_hold_retained)
        return "a mark is another";
    if (job->state == BIDE_STATE_DELAYED && image->due_wall && job->due != image->due)
        return "the due time is another";
    return NULL;
}

#define NONE(kind, name) .name = BI_JOB_NONE_##kind,
#define COMPARE_FIELD(kind, name) \
    if (ext->name != image->name) \
        return #name " differs";

/* Compares what is stored whenever it changes. Counters and times may have changed since. */
static const char *compare_ext(const struct job_ext *ext, const struct bi_image *image)
{
    static const struct job_ext none = {BI_JOB_EXT(NONE)};
    static const struct bi_image default_image = {BI_JOB_EXT(NONE)};

    /* No ext and an empty one mean the same, here and in the store. */
    if (ext == NULL)
        ext = &none;
    if (image->plain)
        image = &default_image;

    if (!bi_buf_equal(ext->key, image->key))
        return "the key is another";
    BI_JOB_EXT(COMPARE_FIELD)
    if (ext->order != image->bury_order)
        return "the order of burial is another";
    if (!bi_buf_equal(ext->last_error, image->last_error) ||
        !bi_buf_equal(ext->result, image->result))
        return "the error or result is another";
    if (!bi_buf_equal(ext->history, image->history))
        return "the history is another";
    return NULL;
}

const char *bi_verify_job(struct core *core, const struct bi_image *image)
{
    struct stored_job stored;
    if (!bi_journal_find_stored(core, image->id, &stored))
        return "the queue does not have it";
    assert(stored.saved->id == image->id && stored.saved->state != BIDE_STATE_GONE);
    const char *difference = compare_job(core, stored.saved, image);
    return difference != NULL ? difference : compare_ext(stored.ext, image);
}

bool bi_verify_is_stored(const struct core *core, uint64_t id)
{
    struct stored_job stored;
    return bi_journal_find_stored(core, id, &stored);
}

bool bi_verify_is_in_flight(const struct core *core, uint64_t id)
{
    struct stored_job stored;
    bi_journal_find_stored(core, id, &stored);
    return stored.in_flight;
}

size_t bi_verify_stored_ids(const struct core *core, uint64_t *position, uint64_t *ids, size_t max,
                            bool *end)
{
    size_t count = 0;
    unsigned cost = 0;
    assert(max > 0);

    *end = core->by_id.buckets == 0;
    /* A chain counts even if it is empty or has only jobs that are not stored yet: a call must
     * end. So do the items that are passed in long chains. */
    for (size_t chains = 0; !*end && chains < 4 * max && cost < BIDE_EXAMINE_MAX; chains++) {
        uint64_t from = *position;
        uint64_t at = 0;
        uint32_t chain = bi_hash_table_walk(&core->by_id, position, end);
        uint32_t ref;
        while ((ref = bi_op_list_next_in_chain(core, chain, from, &at, &cost)) != 0) {
            /* No more room: the next call begins with this job. */
            if (count == max) {
                *position = at;
                *end = false;
                return count;
            }
            if (bi_verify_is_stored(core, job_at(core, ref)->id))
                ids[count++] = job_at(core, ref)->id;
            if (at == UINT64_MAX)
                break;
            from = at + 1;

            /* The chain is long: the next call continues behind this job. */
            if (cost >= BIDE_EXAMINE_MAX) {
                *position = from;
                *end = false;
                return count;
            }
        }
    }
    return count;
}
