/* SPDX-License-Identifier: MIT */
/*
 * compare - is what is stored what the core believes to be stored?
 */
#include "core/state.h"
#include "util/buf.h"

#include <string.h>

/* The states of the core in which a job may be that is stored in this one: a delay that ends, and
 * most reservations, are not written. */
static bool may_be(bide_state stored, bide_state state)
{
    static const bool may[BIDE_STATE_DONE + 1][BIDE_STATE_DONE + 1] = {
        [BIDE_STATE_DELAYED] = {0, 1, 1, 1, 0, 0}, /* gone delayed ready reserved buried done */
        [BIDE_STATE_READY] = {0, 0, 1, 1, 0, 0},
        [BIDE_STATE_BURIED] = {0, 0, 0, 0, 1, 0},
        [BIDE_STATE_DONE] = {0, 0, 0, 0, 0, 1},
    };
    return may[stored][state];
}

static const char *compare_form(const struct core *core, const struct job *job,
                                const struct bi_image *image)
{
    if (strcmp(topic_of(core, job)->name, image->topic) != 0)
        return "the topic is another";
    if (!may_be(image->state, (bide_state)job->state))
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

/* What is written whenever it changes; counters and moments may have changed since. */
static const char *compare_more(const struct more *more, const struct bi_image *image)
{
    static const struct more none = {.max_retries = BIDE_NO_RETRY_LIMIT};
    static const struct bi_image says_nothing = {.max_retries = BIDE_NO_RETRY_LIMIT};
    if (more == NULL)
        more = &none;
    if (image->plain)
        image = &says_nothing;
    if (!bi_buf_same(more->key, image->key))
        return "the key is another";
    if (more->max_retries != image->max_retries || more->failures != image->failures ||
        more->backoff_base != image->backoff_base || more->backoff_max != image->backoff_max)
        return "the retries are others";
    if (more->expires_at != image->expires_at || more->retain != image->retain)
        return "the expiry or retention is another";
    if (more->order != image->bury_order)
        return "the order of burial is another";
    if (!bi_buf_same(more->last_error, image->last_error) ||
        !bi_buf_same(more->result, image->result))
        return "the error or result is another";
    return NULL;
}

const char *bi_core_compare(struct core *core, const struct bi_image *image)
{
    struct stored stored;
    if (!bi_journal_stored(core, image->id, &stored))
        return "the queue does not have it";
    const char *difference = compare_form(core, stored.form, image);
    return difference != NULL ? difference : compare_more(stored.more, image);
}

bool bi_core_is_stored(const struct core *core, uint64_t id)
{
    struct stored stored;
    return bi_journal_stored(core, id, &stored);
}

bool bi_core_is_in_flight(const struct core *core, uint64_t id)
{
    struct stored stored;
    bi_journal_stored(core, id, &stored);
    return stored.in_flight;
}

size_t bi_core_stored_ids(const struct core *core, uint64_t *place, uint64_t *ids, size_t max,
                          bool *end)
{
    size_t count = 0;
    *end = core->by_id.buckets == 0;
    /* A chain is work, too, if it is empty or has only jobs that are not stored yet. */
    for (size_t chains = 0; !*end && count + BI_CHAIN_ROOM <= max && chains < 4 * max; chains++) {
        uint32_t ref = bi_table_walk(&core->by_id, place, end);
        for (; ref != 0 && count < max; ref = job_at(core, ref)->link) {
            uint64_t id = job_at(core, ref)->id;
            if (bi_core_is_stored(core, id))
                ids[count++] = id;
        }
    }
    return count;
}
