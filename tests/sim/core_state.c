/* SPDX-License-Identifier: MIT */
#include "core_state.h"

#include "core/core_internal.h"

#define INVARIANT(condition, sentence) \
    do {                               \
        if (!(condition))              \
            return sentence;           \
    } while (0)

/* ---- lists and heaps ---- */

static const char *check_list(struct core *core, const struct topic *topic, bide_state state,
                              uint64_t *urgent)
{
    const struct job_list *list = &topic->lists[state];
    const struct job *before = NULL;
    const struct job *last = NULL; /* of the list; the jobs of the tree follow */
    uint32_t count = 0;

    for (const struct job *job = NULL; (job = bi_job_list_next(core, list, job)) != NULL;
         before = job, count++) {
        INVARIANT(job->state == state, "a job stands in the list of another state");
        INVARIANT(job->topic == topic->self, "a job stands in the list of another topic");
        INVARIANT(job_at(core, job->self) == job, "a reference leads to another job");

        if (job->in_tree) {
            const struct job *smaller = before != NULL && before->in_tree ? before : NULL;
            INVARIANT(bi_core_check_order(core, smaller, job), "a tree is out of order");
        } else {
            INVARIANT(before == last, "a job of a list belongs to the tree");
            INVARIANT(job->prev == (last == NULL ? 0 : last->self),
                      "a list is not linked both ways");
            INVARIANT((core->unsorted_states & 1u << state) != 0 ||
                          bi_core_check_order(core, last, job),
                      "a list is out of order");
            last = job;
        }

        *urgent += state == BIDE_STATE_READY && job->priority < BIDE_DEFAULT_PRIORITY;
        const char *fault = bi_core_check_job(core, topic, job);
        if (fault != NULL)
            return fault;
    }

    INVARIANT(list->tail == (last == NULL ? 0 : last->self), "a list has another end");
    INVARIANT(list->count == count, "a list is counted wrong");
    return NULL;
}

/* A kick must find all jobs that were delayed by its bound, and no others. */
static const char *check_due_heap(const struct core *core, const struct topic *topic,
                                  const struct due_set *set, enum clock clock)
{
    const struct due_heap *heap = &set->heaps[clock];
    const struct due_set *older = set->older;

    for (uint32_t i = 0; i < heap->count; i++) {
        int64_t since = job_at(core, heap->entries[i].job)->since;
        INVARIANT(i == 0 || bi_due_before(&heap->entries[(i - 1) / 4], &heap->entries[i]),
                  "a due heap is out of order");
        INVARIANT(since <= set->bound, "a kick set has a job that was delayed later");
        INVARIANT(set == &topic->delayed || older == NULL || older->kicks == 0 ||
                      since > older->bound,
                  "a kick set has a job that an older one lacks");
    }

    /* Room for every member: entering a state must not allocate. */
    INVARIANT(heap->room >= topic->members, "a due heap lacks room");
    return NULL;
}

static const char *check_due_heaps(const struct core *core, const struct topic *topic)
{
    uint64_t count = 0;

    for (const struct due_set *set = &topic->delayed; set != NULL; set = set->older) {
        INVARIANT(set->older == NULL || set->older->bound < set->bound,
                  "kick sets are out of order");
        for (int clock = 0; clock < DUE_CLOCKS; clock++) {
            const char *fault = check_due_heap(core, topic, set, (enum clock)clock);
            if (fault != NULL)
                return fault;
            count += set->heaps[clock].count;
        }
    }
    INVARIANT(count == topic->lists[BIDE_STATE_DELAYED].count,
              "delayed jobs are not counted alike");

    for (int clock = 0; clock < DUE_CLOCKS; clock++) {
        const struct timer *timer = &topic->due_timer[clock];
        const struct due_entry *soonest = bi_topic_soonest_due(topic, (enum clock)clock, BI_NEVER);
        INVARIANT(timer->set == (soonest != NULL), "a topic's timer is not set as it should be");
        INVARIANT(soonest == NULL || timer->due == soonest->due,
                  "a topic's timer is set to another moment");
    }
    return NULL;
}

static const char *check_heaps(const struct core *core, const struct topic *topic)
{
    for (uint32_t i = 1; i < topic->ready.count; i++)
        INVARIANT(bi_ready_before(&topic->ready.entries[(i - 1) / 4], &topic->ready.entries[i]),
                  "the ready heap is out of order");
    INVARIANT(topic->ready.room >= topic->members, "the ready heap lacks room");
    INVARIANT(topic->ready.count == topic->lists[BIDE_STATE_READY].count,
              "ready jobs are not counted alike");
    return check_due_heaps(core, topic);
}

/* ---- topics ---- */

static const char *check_waiting(const struct topic *topic)
{
    const struct line_heap *line = &topic->line;

    for (uint32_t i = 0; i < line->count; i++) {
        const struct line_entry *entry = &line->entries[i];
        INVARIANT(entry->link->topic == topic, "a call waits in the line of another topic");
        INVARIANT(entry->link->slot == i && entry->link->waiter->number == entry->number,
                  "a link does not know its place in the line");
        INVARIANT(i == 0 || bi_line_before(&line->entries[(i - 1) / 4], entry),
                  "a line is not first come, first served");
    }

    INVARIANT(line->room >= topic->line_links && line->count <= topic->line_links,
              "a line lacks room");
    if (line->count == 0 || !bi_topic_is_open(topic))
        return NULL;
    /* bi_waiters_serve() finds only topics that are in core->serving, and serves the call that has
     * waited longest only if no number there is too large. */
    INVARIANT(topic->serve.set, "a call waits although a job is ready");
    INVARIANT(topic->serve.due <= (int64_t)line->entries[0].number,
              "a topic is served after calls that have waited less");
    return NULL;
}

static uint32_t count_undo_members(const struct core *core, uint32_t topic)
{
    const struct undo_list *lists[2] = {&core->journal.changes, &core->journal.sealed};
    uint32_t count = 0;

    for (int i = 0; i < 2; i++) {
        uint32_t ref = lists[i]->head;
        while (ref != 0) {
            const struct undo *undo = bi_pool_at(&core->journal.undos, ref);
            count += undo->topic == topic;

            /* A removed job is still a member: count it once, at its newest entry. */
            const struct job *job = job_at(core, undo->job);
            count += job != NULL && job->state == BIDE_STATE_GONE && job->topic == topic &&
                     bi_journal_batch_of(core, job) == undo->batch;
            ref = undo->next;
        }
    }
    return count;
}

static const char *check_policy(const struct core *core, const struct topic *topic)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    bool concurrency = settings != NULL && settings->concurrency != 0;
    bool reached = concurrency && topic->lists[BIDE_STATE_RESERVED].count >= settings->concurrency;
    bool rate = (topic->limited & LIMITED_RATE) != 0;

    INVARIANT(((topic->limited & LIMITED_CONCURRENCY) != 0) == reached,
              "a topic does not know that it is at its concurrency");
    INVARIANT(!rate || (settings != NULL && settings->rate != 0),
              "a topic without a rate waits for a token");
    INVARIANT(topic->policy == NULL || topic->policy->timer.set == rate,
              "the timer of a rate is not set as it should be");
    INVARIANT((topic->limited & LIMITED_RECOVERY) == 0 || (concurrency && core->recovering),
              "a topic waits for the end of a recovery");
    return NULL;
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
        fault = check_waiting(topic);
    if (fault != NULL)
        return fault;

    INVARIANT(urgent == topic->urgent, "urgent jobs of a topic are counted wrong");
    INVARIANT(members + count_undo_members(core, topic->self) == topic->members,
              "members of a topic are counted wrong");

    const struct job *oldest = bi_job_list_oldest(core, &topic->lists[BIDE_STATE_READY]);
    /* An age that is too old is corrected when it is read; one too young would hide the job. */
    INVARIANT(oldest == NULL || (topic->age.set && topic->age.due <= oldest->since),
              "the age of a topic is too young");

    bool timed = topic->paused_until != 0 && topic->paused_until != BI_NEVER;
    INVARIANT(topic->timer_pause.set == timed, "a pause has no end, or one too many");
    fault = check_policy(core, topic);
    if (fault != NULL)
        return fault;
    INVARIANT(!core->limits.topic_cleanup || bi_topic_is_in_use(topic),
              "an unused topic was not removed");
    *urgents += urgent;
    return NULL;
}

/* ---- everything ---- */

const char *core_check_all(struct core *core)
{
    uint64_t counts[BIDE_STATE_DONE + 1] = {0};
    uint64_t urgent = 0;
    uint64_t topics = 0;
    uint64_t jobs = 0;
    uint64_t hold = core->hold;
    const struct topic *topic = bi_topic_at_or_after(core, 0);

    for (; topic != NULL; topic = bi_topic_at_or_after(core, topic->serial + 1)) {
        topics++;
        const char *fault = check_topic(core, topic, counts, &urgent);
        if (fault != NULL)
            return fault;
    }
    /* check_topic() raises the hold by bi_job_find(), but the check depends on no commit. */
    core->hold = hold;

    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        INVARIANT(counts[state] == core->counts[state], "the jobs of a state are counted wrong");
        jobs += counts[state];
    }

    INVARIANT(jobs == core->by_id.count, "a job stands in no list");
    INVARIANT(topics == core->by_name.count, "a topic stands in no page");
    INVARIANT(urgent == core->urgent, "urgent jobs are counted wrong");
    return NULL;
}

/* ---- hash of the state ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return bi_hash_u64(hash * 31 + value);
}

static uint64_t mix_buf(uint64_t hash, const bide_buf *buf)
{
    /* A missing buffer differs from an empty one. */
    return buf == NULL ? mix(hash, 7) : bi_hash_bytes(hash, bide_buf_data(buf), bide_buf_size(buf));
}

#define VALUE(kind, name) (uint64_t) ext->name,

/* A job without an ext has the same hash as one with an empty ext. */
static uint64_t hash_ext(uint64_t hash, const struct job *job, const struct job_ext *ext)
{
    struct job_ext none;
    if (ext == NULL) {
        bi_job_ext_reset(&none, job);
        ext = &none;
    }

    const uint64_t values[] = {
        BI_JOB_EXT(VALUE) BI_JOB_TIMES(VALUE) ext->token,
        ext->lease_touches + ((uint64_t)ext->reply_pending << 32) +
            ((uint64_t)ext->abandoned << 33) +
            (ext->reply_pending ? (uint64_t)ext->prev_state << 40 | (uint64_t)ext->prev_flags << 48
                                : 0),
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        hash = mix(hash, values[i]);
    hash = bi_hash_bytes(hash, &ext->counters, sizeof(ext->counters));

    hash = mix_buf(hash, ext->key);
    hash = mix_buf(hash, ext->last_error);
    hash = mix_buf(hash, ext->result);
    hash = mix_buf(hash, ext->history);
    hash = mix_buf(hash, ext->holder);
    return mix_buf(hash, ext->progress);
}

static uint64_t hash_job(const struct core *core, const struct job *job)
{
    /* Without the flags that describe the journal and the table of keys, not the job. */
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
    /* due means something only in these states. */
    bool timed = job->state != BIDE_STATE_READY && job->state != BIDE_STATE_BURIED;
    hash = mix(hash, timed ? (uint64_t)job->due : 0);
    return hash_ext(mix_buf(hash, job->body), job, ext_of(core, job));
}

static uint64_t hash_topic(const struct core *core, const struct topic *topic)
{
    uint64_t hash = bi_hash_bytes(1, topic->name, topic->name_size);

    hash = mix(hash, topic->line.count);
    hash = mix(hash, topic->references);
    hash = mix(hash, topic->fair_turn);
    hash = mix(hash, (uint64_t)topic->paused_until);
    hash = mix(hash, topic->limited);
    if (bi_policy_settings(topic->policy) != NULL) {
        hash = mix_buf(hash, topic->policy->settings);
        hash = mix(hash, (uint64_t)topic->policy->due);
        hash = mix(hash, (uint64_t)topic->policy->part);
    }
    hash = bi_hash_bytes(hash, &topic->total, sizeof(topic->total));

    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        const struct job *job = NULL;
        while ((job = bi_job_list_next(core, &topic->lists[state], job)) != NULL)
            hash = mix(hash, hash_job(core, job));
    }

    /* A sum: the places of a heap depend on its history. */
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < topic->line.count; i++)
        numbers += mix(1, topic->line.entries[i].number);
    return mix(hash, numbers);
}

static uint64_t hash_workers(const struct core *core, uint64_t hash)
{
    const struct worker_entry *worker = bi_worker_at_or_after(core, 0);
    for (; worker != NULL; worker = bi_worker_at_or_after(core, worker->serial + 1))
        hash = mix(mix_buf(hash, worker->data), (uint64_t)worker->timer.due);
    return hash;
}

uint64_t core_state_hash(struct core *core)
{
    uint64_t hash = mix(core->next_id, core->next_token);
    hash = mix(hash, core->random.state);
    hash = mix(hash, core->draining);
    hash = mix(hash, core->waiters.count);
    hash = mix(hash, core->next_waiter);
    hash = hash_workers(core, hash);
    hash = bi_hash_bytes(hash, &core->total, sizeof(core->total));

    const struct topic *topic = bi_topic_at_or_after(core, 0);
    for (; topic != NULL; topic = bi_topic_at_or_after(core, topic->serial + 1))
        hash = mix(hash, hash_topic(core, topic));
    return hash;
}
