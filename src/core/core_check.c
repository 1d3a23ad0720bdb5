/* SPDX-License-Identifier: MIT */
/*
 * core_check - checks the invariants of jobs, and of their places in lists and heaps.
 *
 * The check op runs it in slices. Tests also check whole topics (tests/sim/core_state.c).
 */
#include "core/core_internal.h"

#define INVARIANT(condition, sentence) \
    do {                               \
        if (!(condition))              \
            return sentence;           \
    } while (0)

/* ---- jobs ---- */

static const char *check_key(struct core *core, const struct job *job, const struct job_ext *ext)
{
    /* A done job releases its key, unless the key is retained. */
    bool holds = ext != NULL && ext->key != NULL &&
                 (job->state != BIDE_STATE_DONE || (job->flags & JOB_KEY_RETAINED) != 0);
    INVARIANT(holds == ((job->flags & JOB_KEYED) != 0), "a job holds its key in the wrong state");
    if (!holds)
        return NULL;
    INVARIANT(bi_job_find_by_key(core, topic_of(core, job), bi_buf_slice(ext->key)) == job,
              "a key leads to another job");
    return NULL;
}

static const char *check_timers(const struct job *job, const struct job_ext *ext)
{
    bool timed = job->state == BIDE_STATE_RESERVED || job->state == BIDE_STATE_DONE;
    INVARIANT(!timed || ext != NULL, "a reserved or done job has no timer");
    if (ext == NULL)
        return NULL;

    INVARIANT(!ext->reply_pending || job->state == BIDE_STATE_RESERVED,
              "a job that is not reserved waits for the answer of its reserve");
    /* Before the reply no lease runs; an abandoned reservation has the timer that undoes it. */
    INVARIANT(ext->timer.set == (timed && (!ext->reply_pending || ext->abandoned)),
              "the timer of a job is set in the wrong state");
    INVARIANT(!ext->abandoned || ext->reply_pending,
              "a reservation with an answer is to be undone");
    INVARIANT(!ext->reply_pending ||
                  (ext->prev_state != BIDE_STATE_RESERVED &&
                   bi_job_may_enter((bide_state)ext->prev_state, BIDE_STATE_RESERVED)),
              "a reservation took a job from a state in which it cannot be reserved");
    /* Later is allowed: a retry after out of memory, or a retention that was put off. */
    INVARIANT(!timed || ext->reply_pending || ext->timer.due >= job->due,
              "the timer of a job is set too early");

    /* Only a job that was never reserved expires. */
    bool waits = job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY;
    bool expires = waits && ext->expires_at != 0 && ext->counters.reserves == 0;
    INVARIANT(ext->expiry.set == expires, "an expiry is set in the wrong state");
    return NULL;
}

static const char *check_heap_slot(const struct core *core, const struct topic *topic,
                                   const struct job *job)
{
    uint32_t slot = core->slots[job->self];
    if (job->state == BIDE_STATE_READY) {
        INVARIANT(slot < topic->ready.count, "a ready job is not in the heap");
        const struct ready_entry *entry = &topic->ready.entries[slot];
        INVARIANT(entry->job == job->self && entry->id == job->id &&
                      entry->priority == job->priority,
                  "a ready job sits in another one's slot");
    }

    if (job->state == BIDE_STATE_DELAYED) {
        const struct due_heap *heap = bi_topic_find_heap(core, topic_of(core, job), job);
        INVARIANT(heap != NULL, "a delayed job is not in a heap");
        const struct due_entry *entry = &heap->entries[slot];
        INVARIANT(entry->id == job->id && entry->due == job->due,
                  "a delayed job sits in another one's slot");
    }
    return NULL;
}

const char *bi_core_check_job(struct core *core, const struct topic *topic, const struct job *job)
{
    const struct job_ext *ext = ext_of(core, job);
    INVARIANT(bi_job_find(core, job->id) == job, "an id leads to another job");
    INVARIANT(job->id < core->next_id, "an id was not given yet");
    INVARIANT(ext == NULL || (ext->job == job->self && ext->self == job->ext),
              "a job and its other part disagree");
    INVARIANT(job->state != BIDE_STATE_RESERVED ||
                  (ext != NULL && ext->token != 0 && bi_lease_number(core, ext) < core->next_token),
              "a reserved job has no good token");
    INVARIANT(job->state == BIDE_STATE_RESERVED ||
                  (job->flags & (JOB_CANCEL_WANTED | JOB_STARTED)) == 0,
              "a mark of a lease is left on a job that is not reserved");
    INVARIANT(job->state == BIDE_STATE_RESERVED || ext == NULL || ext->holder == NULL,
              "a job that is not reserved has a holder");

    const char *fault = check_key(core, job, ext);
    if (fault == NULL)
        fault = check_timers(job, ext);
    if (fault == NULL)
        fault = check_heap_slot(core, topic, job);
    return fault;
}

bool bi_core_check_order(const struct core *core, const struct job *before, const struct job *job)
{
    if (before == NULL)
        return true;
    uint64_t earlier = bi_job_list_order(core, before);
    uint64_t later = bi_job_list_order(core, job);
    /* Only times may be equal. */
    bool timed = job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY;
    return earlier < later || (timed && earlier == later);
}

/* ---- job by job ---- */

/* Checks the links and the order of a job against its neighbours in list and heap, in O(1). */
static const char *check_neighbours(const struct core *core, const struct topic *topic,
                                    const struct job *job)
{
    const struct job_list *list = &topic->lists[job->state];
    const struct job *prev = job_at(core, job->prev);
    const struct job *next = job_at(core, job->next);
    uint32_t slot = core->slots[job->self];

    if (!job->in_tree) {
        INVARIANT(prev == NULL ? list->head == job->self : prev->next == job->self,
                  "a list is not linked both ways");
        INVARIANT(next == NULL ? list->tail == job->self : next->prev == job->self,
                  "a list is not linked both ways");
        INVARIANT((core->unsorted_states & 1u << job->state) != 0 ||
                      bi_core_check_order(core, prev, job),
                  "a list is out of order");
    }

    if (job->state == BIDE_STATE_READY && slot > 0 && slot < topic->ready.count)
        INVARIANT(
            bi_ready_before(&topic->ready.entries[(slot - 1) / 4], &topic->ready.entries[slot]),
            "the ready heap is out of order");
    return NULL;
}

const char *bi_core_check_slice(struct core *core, uint64_t *position, unsigned budget, bool *end)
{
    const char *fault = NULL;
    uint64_t hold = core->hold;

    *end = core->by_id.buckets == 0;
    for (; !*end && budget > 0 && fault == NULL; budget--) {
        core->work++;
        uint32_t ref = bi_hash_table_walk(&core->by_id, position, end);
        for (; ref != 0 && fault == NULL; ref = job_at(core, ref)->link) {
            const struct job *job = job_at(core, ref);
            const struct topic *topic = topic_of(core, job);
            fault = bi_core_check_job(core, topic, job);
            if (fault == NULL)
                fault = check_neighbours(core, topic, job);
        }
    }

    /* bi_core_check_job() raises the hold by bi_job_find(), but the report depends on no commit. */
    core->hold = hold;
    return fault;
}
