/* SPDX-License-Identifier: MIT */
/*
 * compare - is what is stored what the core believes to be stored?
 */
#include "core/state.h"

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
    return NULL;
}

const char *bi_core_compare(struct core *core, const struct bi_image *image)
{
    const struct job *form = bi_journal_stored(core, image->id);
    return form == NULL ? "the queue does not have it" : compare_form(core, form, image);
}

bool bi_core_is_stored(const struct core *core, uint64_t id)
{
    return bi_journal_stored(core, id) != NULL;
}

size_t bi_core_stored_ids(const struct core *core, uint64_t *place, uint64_t *ids, size_t max,
                          bool *end)
{
    size_t count = 0;
    *end = core->by_id.buckets == 0;
    while (!*end && count + BI_CHAIN_ROOM <= max) {
        uint32_t ref = bi_table_walk(&core->by_id, place, end);
        for (; ref != 0 && count < max; ref = job_at(core, ref)->link) {
            uint64_t id = job_at(core, ref)->id;
            if (bi_journal_stored(core, id) != NULL)
                ids[count++] = id;
        }
    }
    return count;
}
