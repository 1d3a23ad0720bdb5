/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>
#include <string.h>

void *sim_grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 64;
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    return array;
}

struct model *model_new(struct sim *sim)
{
    struct model *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    m->sim = sim;
    return m;
}

void model_free_job(struct mjob *job)
{
    while (job->undo != NULL) {
        struct mundo *undo = job->undo;
        job->undo = undo->next;
        free(undo);
    }
    free(job);
}

static void forget_everything(struct model *m)
{
    for (size_t i = 0; i < m->count; i++)
        model_free_job(m->jobs[i]);
    for (size_t i = 0; i < m->dead_count; i++)
        model_free_job(m->dead[i]);
    while (m->waiters != NULL) {
        struct mwaiter *waiter = m->waiters;
        m->waiters = waiter->next;
        free(waiter);
    }
    model_free_feeds(m);
    m->count = 0;
    m->dead_count = 0;
    m->waiter_count = 0;
    m->pause_count = 0;
}

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    forget_everything(m);
    free(m->jobs);
    free(m->dead);
    free(m->pauses);
    free(m);
}

void model_reset(struct model *m, uint64_t next_id, uint64_t next_token)
{
    forget_everything(m);
    memset(m->topics, 0, sizeof m->topics);
    memset(&m->total, 0, sizeof m->total);
    m->draining = false;
    m->worker_count = 0;
    m->worker_number = 0;
    m->worker_next = 0;
    m->sim->worker_cursor[0] = 0;
    m->closed = false;
    m->recovering = m->sim->options.recovering;
    m->lists_sorted = false;
    m->leases_unloaded = m->sim->options.recovering && m->sim->options.lease_from != 0;
    m->now = m->sim->now;
    m->born = m->sim->now;
    m->stamp_floor = 0;
    m->next_id = next_id;
    m->interrupted = false;
    m->first_token = next_token;
    m->lease_from = m->sim->options.lease_from != 0 ? m->sim->options.lease_from : next_token;
    m->last_token = next_token - 1;
    m->journal = m->sim->options.journal;
    m->open_batch = 1;
    m->open_count = 0;
    m->open_bytes = 0;
    m->next_seal = 1;
    m->crowded = 0;
    m->committed = 0;
    m->undone = 0;
    m->token_stored = false;
    m->token_batch = 1;
}

struct mjob *model_find(struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->jobs[i]->id == id)
            return m->jobs[i];
    return NULL;
}

void model_link(struct model *m, struct mjob *job)
{
    m->jobs = sim_grow(m->jobs, m->count, &m->room, sizeof(void *));
    size_t at = m->count;
    for (; at > 0 && m->jobs[at - 1]->id > job->id; at--)
        m->jobs[at] = m->jobs[at - 1];
    m->jobs[at] = job;
    m->count++;
    model_need_topic(m, job->name)->count[job->state]++;
    job->changed = ++m->sequence;
}

/* Removes a job from the array, without an event. */
static void unlink_job(struct model *m, struct mjob *job)
{
    size_t at = 0;
    while (m->jobs[at] != job)
        at++;
    m->count--;
    for (; at < m->count; at++)
        m->jobs[at] = m->jobs[at + 1];
    m->topics[job->name].count[job->state]--;
}

int64_t model_stamp(const struct model *m)
{
    return m->now.mono < m->stamp_floor ? m->stamp_floor : m->now.mono;
}

struct mjob *model_insert(struct model *m, uint64_t id, int name, bide_state state)
{
    struct mjob *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    job->id = id;
    job->name = name;
    job->state = state;
    job->key = -1;
    job->created = m->now.mono;
    job->since = model_stamp(m);
    job->ready = job->reserved = job->touched = job->buried = job->done = BI_NEVER;
    model_link(m, job);
    job->entered = m->sequence;
    return job;
}

void model_remove(struct model *m, struct mjob *job)
{
    unlink_job(m, job);
    if (job->undo == NULL) {
        model_free_job(job);
        return;
    }
    m->dead = sim_grow(m->dead, m->dead_count, &m->dead_room, sizeof(void *));
    m->dead[m->dead_count++] = job;
}

/* Ready, and no longer since it was so in another queue. */
static void forget_ready(struct mjob *job)
{
    if (job->ready_before)
        job->ready = BI_NEVER;
    job->ready_before = false;
}

void model_set_state(struct model *m, struct mjob *job, bide_state state)
{
    forget_ready(job);
    m->topics[job->name].count[job->state]--;
    m->topics[job->name].count[state]++;
    job->entered = ++m->sequence;
    job->since = model_stamp(m);
    job->again = 0;
    job->expiry_again = 0;
    job->due_unknown = false;
    if (job->state != state)
        job->changed = m->sequence;
    job->state = state;
    if (job->reply_pending) { /* a lease that ends before its answer has begun now */
        job->reserved = m->now.mono;
        if (job->lease_touches == 0)
            job->touched = BI_NEVER;
    }
    job->reply_pending = job->abandoned = false;
}

void model_move(struct model *m, struct mjob *job, int name)
{
    forget_ready(job);
    m->topics[job->name].count[job->state]--;
    job->name = name;
    model_need_topic(m, name)->count[job->state]++;
    job->changed = ++m->sequence;
    job->entered = m->sequence;
    job->since = model_stamp(m);
}

struct mtopic *model_need_topic(struct model *m, int name)
{
    struct mtopic *topic = &m->topics[name];
    if (!topic->exists) {
        memset(topic, 0, sizeof *topic);
        topic->exists = true;
        topic->born = ++m->sequence;
    }
    return topic;
}

size_t model_topic_count(const struct model *m)
{
    size_t count = 0;
    for (int name = 0; name < SIM_NAMES; name++)
        count += m->topics[name].exists;
    return count;
}

static bool is_needed(const struct mtopic *topic)
{
    for (int state = 0; state < 6; state++)
        if (topic->count[state] != 0)
            return true;
    return topic->waiting != 0 || topic->references != 0 || topic->pins != 0 || topic->paused ||
           topic->has_policy;
}

void model_cleanup(struct model *m)
{
    if (!m->sim->options.limits.topic_cleanup)
        return;
    for (int name = 0; name < SIM_NAMES; name++)
        if (m->topics[name].exists && !is_needed(&m->topics[name]) && !model_is_kept(m, name))
            m->topics[name].exists = false;
}

void model_set_text(struct mtext *text, const void *data, size_t size)
{
    if (size > SIM_TEXT)
        abort();
    text->size = size;
    if (size != 0)
        memcpy(text->bytes, data, size);
}

void model_ready(struct model *m, struct mjob *job)
{
    model_set_state(m, job, BIDE_STATE_READY);
}

bool model_holds_key(const struct mjob *job)
{
    return job->key >= 0 && (job->state != BIDE_STATE_DONE || job->key_hold_retained);
}

struct mjob *model_key_holder(struct model *m, int name, int key)
{
    for (size_t i = 0; i < m->count && key >= 0; i++)
        if (m->jobs[i]->name == name && m->jobs[i]->key == key && model_holds_key(m->jobs[i]))
            return m->jobs[i];
    return NULL;
}

uint64_t model_live(const struct model *m, int name)
{
    const uint64_t *count = m->topics[name].count;
    if (!m->topics[name].exists)
        return 0;
    return count[BIDE_STATE_DELAYED] + count[BIDE_STATE_READY] + count[BIDE_STATE_RESERVED] +
           count[BIDE_STATE_BURIED];
}

int64_t model_wall_of(const struct model *m, int64_t mono)
{
    return m->now.wall + (mono - m->now.mono);
}

int64_t model_mono_of(const struct model *m, int64_t wall)
{
    return m->now.mono + (wall - m->now.wall);
}
