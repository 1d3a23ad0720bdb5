/* SPDX-License-Identifier: MIT */
/*
 * check - every invariant of the core, and a number for its whole state. For tests and the
 * simulator: both cost as much as there is.
 */
#include "core/state.h"

#include <string.h>

#define HOLD(condition, sentence) \
    do {                          \
        if (!(condition))         \
            return sentence;      \
    } while (0)

/* ---- jobs ---- */

static const char *check_key(struct core *core, const struct job *job, const struct more *more)
{
    bool holds = more != NULL && more->key != NULL &&
                 (job->state != BIDE_STATE_DONE || (job->flags & JOB_KEY_RETAINED) != 0);
    HOLD(holds == ((job->flags & JOB_KEYED) != 0), "a job holds its key in the wrong state");
    if (!holds)
        return NULL;
    bide_slice key = {bide_buf_data(more->key), bide_buf_size(more->key)};
    HOLD(bi_core_find_key(core, topic_of(core, job), key) == job, "a key leads to another job");
    return NULL;
}

static const char *check_timers(const struct job *job, const struct more *more)
{
    bool timed = job->state == BIDE_STATE_RESERVED || job->state == BIDE_STATE_DONE;
    HOLD(!timed || more != NULL, "a reserved or done job has no timer");
    if (more == NULL)
        return NULL;
    HOLD(!more->unanswered || job->state == BIDE_STATE_RESERVED,
         "a job that is not reserved waits for the answer of its reserve");
    HOLD(more->timer.set == (timed && (!more->unanswered || more->disowned)),
         "the timer of a job is set in the wrong state");
    HOLD(!more->disowned || more->unanswered, "a reservation with an answer is to be undone");
    HOLD(!more->unanswered || (more->before != BIDE_STATE_RESERVED &&
                               bi_job_may((bide_state)more->before, BIDE_STATE_RESERVED)),
         "a reservation took a job from a state in which it cannot be reserved");
    HOLD(!timed || more->unanswered || more->timer.due >= job->due,
         "the timer of a job is set too early");
    bool waits = job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY;
    bool expires = waits && more->expires_at != 0 && more->counters.reserves == 0;
    HOLD(more->expiry.set == expires, "an expiry is set in the wrong state");
    return NULL;
}

/* The entry of a delayed job; NULL if it has none where its slot says. */
static const struct due_entry *due_entry_of(const struct topic *topic, const struct job *job,
                                            uint32_t slot)
{
    bool wall = (job->flags & JOB_DUE_WALL) != 0;
    const struct due_heap *heap = wall ? &topic->due_wall : &topic->due_mono;
    const struct kick_set *set = topic->kick_sets;
    while (slot >= heap->count || heap->entries[slot].job != job->self) {
        if (set == NULL)
            return NULL;
        heap = wall ? &set->wall : &set->mono;
        set = set->older;
    }
    return &heap->entries[slot];
}

static const char *check_seat(const struct core *core, const struct topic *topic,
                              const struct job *job)
{
    uint32_t slot = core->slots[job->self];
    if (job->state == BIDE_STATE_READY) {
        HOLD(slot < topic->ready.count, "a ready job is not in the heap");
        const struct ready_entry *entry = &topic->ready.entries[slot];
        HOLD(entry->job == job->self && entry->id == job->id && entry->priority == job->priority,
             "a ready job sits in another one's slot");
    }
    if (job->state == BIDE_STATE_DELAYED) {
        const struct due_entry *entry = due_entry_of(topic, job, slot);
        HOLD(entry != NULL, "a delayed job is not in a heap");
        HOLD(entry->id == job->id && entry->due == job->due,
             "a delayed job sits in another one's slot");
    }
    return NULL;
}

static const char *check_job(struct core *core, const struct topic *topic, const struct job *job)
{
    const struct more *more = more_of(core, job);
    HOLD(bi_core_find(core, job->id) == job, "an id leads to another job");
    HOLD(job->id < core->next_id, "an id was not given yet");
    HOLD(more == NULL || (more->job == job->self && more->self == job->more),
         "a job and its other part disagree");
    HOLD(job->state != BIDE_STATE_RESERVED ||
             (more != NULL && more->token != 0 && bi_core_number(core, more) < core->next_token),
         "a reserved job has no good token");
    const char *fault = check_key(core, job, more);
    if (fault == NULL)
        fault = check_timers(job, more);
    if (fault == NULL)
        fault = check_seat(core, topic, job);
    return fault;
}

/* ---- lists and heaps ---- */

static bool in_order(const struct core *core, const struct job *before, const struct job *job)
{
    if (before == NULL)
        return true;
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return more_of(core, before)->order < more_of(core, job)->order;
    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_number(core, more_of(core, before)) <
               bi_core_number(core, more_of(core, job));
    return before->since <= job->since;
}

static const char *check_listed(struct core *core, const struct topic *topic, bide_state state,
                                const struct job *job, uint64_t *urgent)
{
    HOLD(job->state == state, "a job stands in the list of another state");
    HOLD(job->topic == topic->self, "a job stands in the list of another topic");
    *urgent += state == BIDE_STATE_READY && job->priority < BIDE_DEFAULT_PRIORITY;
    return check_job(core, topic, job);
}

static const char *check_list(struct core *core, const struct topic *topic, bide_state state,
                              uint64_t *urgent)
{
    const struct job_list *list = &topic->lists[state];
    const struct job *before = NULL;
    uint32_t count = 0;
    for (uint32_t ref = list->head; ref != 0; ref = before->next) {
        const struct job *job = job_at(core, ref);
        HOLD(job->self == ref, "a reference leads to another job");
        HOLD(job->prev == (before == NULL ? 0 : before->self), "a list is not linked both ways");
        HOLD(!job->in_tree, "a job of a list belongs to the tree");
        HOLD(in_order(core, before, job), "a list is out of order");
        const char *fault = check_listed(core, topic, state, job, urgent);
        if (fault != NULL)
            return fault;
        before = job;
        count++;
    }
    HOLD(list->tail == (before == NULL ? 0 : before->self), "a list has another end");
    const struct job *last = before;
    before = NULL;
    for (const struct job *job = last; (job = bi_list_next(core, list, job)) != NULL;
         before = job) {
        HOLD(job->in_tree, "a job of the tree belongs to a list");
        HOLD(in_order(core, before, job), "a tree is out of order");
        const char *fault = check_listed(core, topic, state, job, urgent);
        if (fault != NULL)
            return fault;
        count++;
    }
    HOLD(list->count == count, "a list is counted wrong");
    return NULL;
}

static const char *check_due_heap(const struct topic *topic, const struct due_heap *heap,
                                  uint64_t *count)
{
    for (uint32_t i = 1; i < heap->count; i++)
        HOLD(bi_due_before(&heap->entries[(i - 1) / 4], &heap->entries[i]),
             "a due heap is out of order");
    HOLD(heap->room >= topic->members, "a due heap lacks room");
    *count += heap->count;
    return NULL;
}

/* A kick must find all jobs that were delayed by its bound, and no others. */
static const char *check_kick_set(const struct core *core, const struct kick_set *set)
{
    const struct kick_set *older = set->older;
    HOLD(older == NULL || older->bound < set->bound, "kick sets are out of order");
    const struct due_heap *heaps[2] = {&set->mono, &set->wall};
    for (int h = 0; h < 2; h++)
        for (uint32_t i = 0; i < heaps[h]->count; i++) {
            int64_t since = job_at(core, heaps[h]->entries[i].job)->since;
            HOLD(since <= set->bound, "a kick set has a job that was delayed later");
            HOLD(older == NULL || older->kicks == 0 || since > older->bound,
                 "a kick set has a job that an older one lacks");
        }
    return NULL;
}

static const char *check_due_heaps(const struct core *core, const struct topic *topic)
{
    uint64_t count = 0;
    const char *fault = check_due_heap(topic, &topic->due_mono, &count);
    if (fault == NULL)
        fault = check_due_heap(topic, &topic->due_wall, &count);
    for (const struct kick_set *set = topic->kick_sets; set != NULL && fault == NULL;
         set = set->older) {
        fault = check_due_heap(topic, &set->mono, &count);
        if (fault == NULL)
            fault = check_due_heap(topic, &set->wall, &count);
        if (fault == NULL)
            fault = check_kick_set(core, set);
    }
    if (fault != NULL)
        return fault;
    HOLD(count == topic->lists[BIDE_STATE_DELAYED].count, "delayed jobs are not counted alike");
    const struct timer *timers[2] = {&topic->timer_mono, &topic->timer_wall};
    for (int clock = 0; clock < 2; clock++) {
        const struct due_entry *soonest = bi_topic_soonest(topic, clock == 1, BI_NEVER);
        HOLD(timers[clock]->set == (soonest != NULL), "a topic's timer is not set as it should be");
        HOLD(soonest == NULL || timers[clock]->due == soonest->due,
             "a topic's timer is set to another moment");
    }
    return NULL;
}

static const char *check_heaps(const struct core *core, const struct topic *topic)
{
    for (uint32_t i = 1; i < topic->ready.count; i++)
        HOLD(bi_ready_before(&topic->ready.entries[(i - 1) / 4], &topic->ready.entries[i]),
             "the ready heap is out of order");
    HOLD(topic->ready.room >= topic->members, "the ready heap lacks room");
    HOLD(topic->ready.count == topic->lists[BIDE_STATE_READY].count,
         "ready jobs are not counted alike");
    return check_due_heaps(core, topic);
}

/* ---- topics ---- */

static const char *check_line(const struct topic *topic)
{
    uint64_t count = 0;
    uint64_t number = 0;
    for (const struct waiter_link *link = topic->waiting_head; link != NULL; link = link->next) {
        HOLD(link->topic == topic, "a call waits in the line of another topic");
        HOLD(link->waiter->number >= number, "a line is not first come, first served");
        number = link->waiter->number;
        count++;
    }
    HOLD(count == topic->waiting, "a line is counted wrong");
    HOLD(count == 0 || !bi_topic_open(topic) || topic->serve.set, "somebody waits for a ready job");
    return NULL;
}

static uint32_t undo_members(const struct core *core, uint32_t topic)
{
    const struct undo_list *lists[2] = {&core->journal.changes, &core->journal.sealed};
    uint32_t count = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t ref = lists[i]->head;
        while (ref != 0) {
            const struct undo *undo = bi_pool_at(&core->journal.undos, ref);
            count += undo->topic == topic;
            /* A removed job is still a member, once: by its newest entry. */
            const struct job *job = job_at(core, undo->job);
            count += job != NULL && job->state == BIDE_STATE_GONE && job->topic == topic &&
                     bi_journal_batch_of(core, job) == undo->batch;
            ref = undo->next;
        }
    }
    return count;
}

static const char *check_topic(struct core *core, const struct topic *topic, uint64_t *counts,
                               uint64_t *urgents)
{
    uint64_t urgent = 0;
    uint64_t members = 0;
    const char *fault = check_heaps(core, topic);
    for (int state = BIDE_STATE_DELAYED; fault == NULL && state <= BIDE_STATE_DONE; state++) {
        fault = check_list(core, topic, (bide_state)state, &urgent);
        counts[state] += topic->lists[state].count;
        members += topic->lists[state].count;
    }
    if (fault == NULL)
        fault = check_line(topic);
    if (fault != NULL)
        return fault;
    HOLD(urgent == topic->urgent, "urgent jobs of a topic are counted wrong");
    HOLD(members + undo_members(core, topic->self) == topic->members,
         "members of a topic are counted wrong");
    const struct job *oldest = bi_list_oldest(core, &topic->lists[BIDE_STATE_READY]);
    HOLD(oldest == NULL || (topic->age.set && topic->age.due <= oldest->since),
         "the age of a topic is too young");
    bool timed = topic->paused_until != 0 && topic->paused_until != BI_NEVER;
    HOLD(topic->timer_pause.set == timed, "a pause has no end, or one too many");
    HOLD(!core->limits.topic_cleanup || topic->members > 0 || topic->waiting > 0 ||
             topic->references > 0 || topic->paused_until != 0 || topic->undo != 0 ||
             topic->pins > 0,
         "a topic exists that nobody needs");
    *urgents += urgent;
    return NULL;
}

/* ---- job by job ---- */

/* A job stands between its neighbours in list and heap, as far as that can be seen from it. */
static const char *check_place(const struct core *core, const struct topic *topic,
                               const struct job *job)
{
    const struct job_list *list = &topic->lists[job->state];
    const struct job *prev = job_at(core, job->prev);
    const struct job *next = job_at(core, job->next);
    uint32_t slot = core->slots[job->self];
    if (!job->in_tree) {
        HOLD(prev == NULL ? list->head == job->self : prev->next == job->self,
             "a list is not linked both ways");
        HOLD(next == NULL ? list->tail == job->self : next->prev == job->self,
             "a list is not linked both ways");
        HOLD(core->recovering || in_order(core, prev, job), "a list is out of order");
    }
    if (job->state == BIDE_STATE_READY && slot > 0 && slot < topic->ready.count)
        HOLD(bi_ready_before(&topic->ready.entries[(slot - 1) / 4], &topic->ready.entries[slot]),
             "the ready heap is out of order");
    return NULL;
}

const char *bi_core_check_some(struct core *core, uint64_t *place, unsigned budget, bool *end)
{
    const char *fault = NULL;
    uint64_t hold = core->hold;
    *end = core->by_id.buckets == 0;
    for (; !*end && budget > 0 && fault == NULL; budget--) {
        core->work++;
        uint32_t ref = bi_table_walk(&core->by_id, place, end);
        for (; ref != 0 && fault == NULL; ref = job_at(core, ref)->link) {
            const struct job *job = job_at(core, ref);
            const struct topic *topic = topic_of(core, job);
            fault = check_job(core, topic, job);
            if (fault == NULL)
                fault = check_place(core, topic, job);
        }
    }
    core->hold = hold;
    return fault;
}

/* ---- everything ---- */

const char *bi_core_check(struct core *core)
{
    uint64_t counts[BIDE_STATE_DONE + 1] = {0};
    uint64_t urgent = 0;
    uint64_t topics = 0;
    uint64_t jobs = 0;
    uint64_t hold = core->hold;
    const struct topic *topic = bi_topic_from(core, 0);
    for (; topic != NULL; topic = bi_topic_from(core, topic->serial + 1)) {
        topics++;
        const char *fault = check_topic(core, topic, counts, &urgent);
        if (fault != NULL)
            return fault;
    }
    core->hold = hold;
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        HOLD(counts[state] == core->counts[state], "the jobs of a state are counted wrong");
        jobs += counts[state];
    }
    HOLD(jobs == core->by_id.count, "a job stands in no list");
    HOLD(topics == core->by_name.count, "a topic stands in no page");
    HOLD(urgent == core->urgent, "urgent jobs are counted wrong");
    return NULL;
}

/* ---- a number for the state ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return bi_hash_u64(hash * 31 + value);
}

static uint64_t mix_buf(uint64_t hash, const bide_buf *buf)
{
    return buf == NULL ? mix(hash, 7) : bi_hash_bytes(hash, bide_buf_data(buf), bide_buf_size(buf));
}

/* A job whose other part was never made is like one whose other part says nothing. */
static uint64_t hash_more(uint64_t hash, const struct job *job, const struct more *more)
{
    bool ready_before = (job->flags & JOB_READY_BEFORE) != 0;
    const struct more none = {.max_retries = BIDE_NO_RETRY_LIMIT,
                              .ready = ready_before ? job->created : BI_NEVER,
                              .reserved = BI_NEVER,
                              .touched = BI_NEVER,
                              .buried = BI_NEVER,
                              .done = BI_NEVER};
    if (more == NULL)
        more = &none;
    const uint64_t values[] = {
        more->token,
        (uint64_t)more->max_retries,
        more->failures,
        more->lease_touches + ((uint64_t)more->unanswered << 32) +
            ((uint64_t)more->disowned << 33) +
            (more->unanswered ? (uint64_t)more->before << 40 | (uint64_t)more->before_flags << 48
                              : 0),
        (uint64_t)more->ready,
        (uint64_t)more->reserved,
        (uint64_t)more->touched,
        (uint64_t)more->buried,
        (uint64_t)more->done,
        (uint64_t)more->backoff_base,
        (uint64_t)more->backoff_max,
        (uint64_t)more->expires_at,
        (uint64_t)more->retain};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        hash = mix(hash, values[i]);
    hash = bi_hash_bytes(hash, &more->counters, sizeof(more->counters));
    hash = mix_buf(hash, more->key);
    hash = mix_buf(hash, more->last_error);
    hash = mix_buf(hash, more->result);
    return mix_buf(hash, more->progress);
}

static uint64_t hash_job(const struct core *core, const struct job *job)
{
    const uint64_t values[] = {job->id,
                               (uint64_t)job->created,
                               (uint64_t)job->since,
                               (uint64_t)job->ttr,
                               job->priority,
                               job->state,
                               job->flags & (uint64_t) ~(JOB_DIRTY | JOB_KEYED)};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        hash = mix(hash, values[i]);
    bool timed = job->state != BIDE_STATE_READY && job->state != BIDE_STATE_BURIED;
    hash = mix(hash, timed ? (uint64_t)job->due : 0);
    return hash_more(mix_buf(hash, job->body), job, more_of(core, job));
}

static uint64_t hash_topic(const struct core *core, const struct topic *topic)
{
    uint64_t hash = bi_hash_bytes(1, topic->name, topic->name_size);
    hash = mix(hash, topic->waiting);
    hash = mix(hash, topic->references);
    hash = mix(hash, topic->fair_turn);
    hash = mix(hash, (uint64_t)topic->paused_until);
    hash = bi_hash_bytes(hash, &topic->total, sizeof(topic->total));
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        const struct job *job = NULL;
        while ((job = bi_list_next(core, &topic->lists[state], job)) != NULL)
            hash = mix(hash, hash_job(core, job));
    }
    for (const struct waiter_link *link = topic->waiting_head; link != NULL; link = link->next)
        hash = mix(hash, link->waiter->number);
    return hash;
}

uint64_t bi_core_hash(struct core *core)
{
    uint64_t hash = mix(core->next_id, core->next_token);
    hash = mix(hash, core->random.state);
    hash = mix(hash, core->draining);
    hash = mix(hash, core->waiters.count);
    hash = mix(hash, core->next_call);
    hash = bi_hash_bytes(hash, &core->total, sizeof(core->total));
    const struct topic *topic = bi_topic_from(core, 0);
    for (; topic != NULL; topic = bi_topic_from(core, topic->serial + 1))
        hash = mix(hash, hash_topic(core, topic));
    return hash;
}
