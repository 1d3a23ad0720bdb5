/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>

uint64_t model_hold_of(const struct model *m, uint64_t batch)
{
    return batch > m->committed ? batch : 0;
}

static void raise_hold(struct model *m, uint64_t batch)
{
    if (batch > m->committed && batch > m->hold)
        m->hold = batch;
}

void model_depend_on(struct model *m, const struct mjob *job)
{
    raise_hold(m, job->batch);
}

void model_depend_on_absent(struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->dead_count; i++)
        if (m->dead[i]->id == id)
            raise_hold(m, m->dead[i]->batch);
}

void model_depend_on_topic(struct model *m, int name)
{
    const struct mtopic *topic = &m->topics[name];
    if (topic->changed > m->undone)
        raise_hold(m, topic->changed);
}

void model_depend_on_token(struct model *m)
{
    if (m->journal && !m->token_stored)
        raise_hold(m, m->token_batch);
}

/* ---- batches ---- */

/* On to the next batch, if this one would become larger than it may. */
static void rotate(struct model *m, uint64_t changes, uint64_t bytes)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    bool many = limits->batch_jobs != 0 && m->open_count + changes > limits->batch_jobs;
    bool large = limits->batch_bytes != 0 && m->open_bytes + bytes > limits->batch_bytes;
    if (m->group_depth > 0 || m->open_count == 0 || (!many && !large))
        return;
    if (m->open_batch - m->committed >= BI_BATCHES_MAX) {
        m->crowded = m->open_batch;
        return;
    }
    m->open_batch++;
    m->open_count = 0;
    m->open_bytes = 0;
}

void model_begin_group(struct model *m, uint64_t changes, uint64_t bytes)
{
    rotate(m, changes, bytes);
    if (changes > m->step_max)
        m->step_max = changes;
    m->group_depth++;
}

void model_end_group(struct model *m)
{
    m->group_depth--;
}

void model_resync(struct model *m)
{
    uint64_t open_batch = bi_journal_open_batch(m->sim->core);
    if (!m->journal || open_batch == m->open_batch)
        return;
    expect(m->sim, "the batch that gathers", (int64_t)m->open_batch + 1, (int64_t)open_batch);
    m->open_batch = open_batch;
    m->open_count = 0;
    m->open_bytes = 0;
}

bool model_will_come(const struct model *m, uint64_t batch)
{
    if (batch <= m->committed || batch > m->open_batch)
        return false;
    return batch < m->open_batch || m->open_count != 0 || batch == m->token_batch;
}

/* ---- changes ---- */

static struct mundo *new_undo(struct model *m, struct mundo **link, uint64_t bytes)
{
    struct mundo *undo = calloc(1, sizeof *undo);
    if (undo == NULL)
        abort();
    rotate(m, 1, bytes);
    m->open_count++;
    m->open_bytes += bytes;
    undo->batch = m->open_batch;
    *link = undo;
    return undo;
}

static void add_undo(struct model *m, struct mjob *job, bool existed)
{
    struct mundo **link = &job->undo;
    for (; *link != NULL; link = &(*link)->next)
        if ((*link)->batch == m->open_batch)
            return;
    struct mundo *undo = new_undo(m, link, existed ? 0 : job->body.size);
    undo->name = job->name;
    undo->existed = existed;
    if (existed)
        m->topics[job->name].changed = undo->batch;
    undo->was = *job;
    undo->was.undo = NULL;
}

void model_change(struct model *m, struct mjob *job)
{
    if (!m->journal)
        return;
    add_undo(m, job, true);
    job->batch = m->open_batch;
    raise_hold(m, m->open_batch);
}

void model_change_new(struct model *m, struct mjob *job)
{
    if (!m->journal)
        return;
    add_undo(m, job, false);
    job->batch = m->open_batch;
    raise_hold(m, m->open_batch);
}

/* How many changes of a job, and bytes that come with them, the batch that gathers has. */
static void count_gathered(struct model *m, const struct mjob *job)
{
    for (const struct mundo *undo = job->undo; undo != NULL; undo = undo->next) {
        if (undo->batch != m->open_batch)
            continue;
        m->open_count++;
        m->open_bytes += undo->existed ? 0 : job->body.size;
    }
}

static void count_again(struct model *m)
{
    m->open_batch = bi_journal_open_batch(m->sim->core);
    m->open_count = 0;
    m->open_bytes = 0;
    for (size_t i = 0; i < m->count; i++)
        count_gathered(m, m->jobs[i]);
    for (size_t i = 0; i < m->dead_count; i++)
        count_gathered(m, m->dead[i]);
    for (size_t i = 0; i < m->pause_count; i++)
        m->open_count += m->pauses[i].batch == m->open_batch;
}

/* The answer that there is no such job holds for the batch of its removal. */
uint64_t model_batch_of_removal(struct model *m, const struct mjob *job)
{
    bide_op op = {.kind = BIDE_OP_BODY};
    op.fetch.id = job->id;
    if (!sim_has_batches(m->sim))
        return 0;
    expect_code(m->sim, "body", BIDE_NOT_FOUND, bi_core_run(m->sim->core, &op, m->sim->now));
    return op.private_.hold;
}

void model_change_in(struct model *m, struct mjob *job, uint64_t batch)
{
    if (batch == 0) {
        model_change(m, job);
        return;
    }
    if (batch < job->batch || batch < m->next_seal || batch > bi_journal_open_batch(m->sim->core))
        sim_fail(m->sim, "job %llu was removed in batch %llu", (unsigned long long)job->id,
                 (unsigned long long)batch);
    if (batch - m->committed >= BI_BATCHES_MAX)
        m->crowded = batch;
    m->open_batch = batch;
    m->group_depth++;
    model_change(m, job);
    m->group_depth--;
    count_again(m);
}

void model_change_pause(struct model *m, int name)
{
    if (!m->journal)
        return;
    for (size_t i = 0; i < m->pause_count; i++) {
        if (m->pauses[i].name == name && m->pauses[i].batch == m->open_batch) {
            raise_hold(m, m->open_batch);
            return;
        }
    }
    rotate(m, 1, 0);
    m->open_count++;
    raise_hold(m, m->open_batch);
    m->pauses = sim_grow(m->pauses, m->pause_count, &m->pause_room, sizeof m->pauses[0]);
    m->pauses[m->pause_count++] = (struct mpause){
        .batch = m->open_batch,
        .name = name,
        .paused = m->topics[name].paused,
        .end = m->topics[name].pause_end,
        .has_policy = m->topics[name].has_policy,
        .policy = m->topics[name].policy,
    };
}

static bool job_keeps(const struct mjob *job, int name)
{
    for (const struct mundo *undo = job->undo; undo != NULL; undo = undo->next)
        if (undo->name == name)
            return true;
    return false;
}

bool model_is_kept(const struct model *m, int name)
{
    for (size_t i = 0; i < m->pause_count; i++)
        if (m->pauses[i].name == name)
            return true;
    for (size_t i = 0; i < m->dead_count; i++)
        if (m->dead[i]->name == name || job_keeps(m->dead[i], name))
            return true;
    for (size_t i = 0; i < m->count; i++)
        if (job_keeps(m->jobs[i], name))
            return true;
    return false;
}

/* ---- commit ---- */

static void drop_undos(struct mjob *job, uint64_t committed)
{
    while (job->undo != NULL && job->undo->batch <= committed) {
        struct mundo *undo = job->undo;
        job->undo = undo->next;
        free(undo);
    }
}

void model_committed(struct model *m, uint64_t batch)
{
    size_t kept = 0;
    m->now = m->sim->now;
    m->committed = batch;
    m->token_stored = true;
    for (size_t i = 0; i < m->count; i++)
        drop_undos(m->jobs[i], batch);
    for (size_t i = 0; i < m->dead_count; i++) {
        drop_undos(m->dead[i], batch);
        if (m->dead[i]->undo != NULL)
            m->dead[kept++] = m->dead[i];
        else
            model_free_job(m->dead[i]);
    }
    m->dead_count = kept;
    kept = 0;
    for (size_t i = 0; i < m->pause_count; i++)
        if (m->pauses[i].batch > batch)
            m->pauses[kept++] = m->pauses[i];
    m->pause_count = kept;
    model_serve_feeds(m);
    model_cleanup(m);
}

/* ---- rollback ---- */

static void restore_job(struct mjob *job)
{
    struct mundo *undo = job->undo;
    struct mundo *oldest = undo;
    *job = oldest->was;
    job->undo = NULL;
    job->again = 0;
    job->expiry_again = 0;
    while (undo != NULL) {
        struct mundo *next = undo->next;
        free(undo);
        undo = next;
    }
}

/* Takes whatever was changed out of the array; answers how many there are. */
static size_t take_changed(struct model *m, struct mjob **changed)
{
    size_t count = 0;
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->undo == NULL) {
            m->jobs[kept++] = job;
            continue;
        }
        m->topics[job->name].count[job->state]--;
        changed[count++] = job;
    }
    m->count = kept;
    for (size_t i = 0; i < m->dead_count; i++)
        changed[count++] = m->dead[i];
    m->dead_count = 0;
    return count;
}

/* As it was; waits for its end complete if it has ended. */
static void reenter_job(struct model *m, struct mjob *job)
{
    if (!job->undo->existed) {
        job->batch = 0;
        model_notify_waits(m, job, BIDE_STATE_GONE, false);
        model_free_job(job);
        return;
    }
    restore_job(job);
    if (job->abandoned) /* its reserve has been given up since: it ends at once */
        job->again = m->now.mono;
    uint64_t entered = job->entered;
    model_link(m, job);
    job->entered = entered;
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        model_notify_waits(m, job, job->state, false);
}

static void roll_back_jobs(struct model *m)
{
    struct mjob **changed = calloc(m->count + m->dead_count + 1, sizeof(void *));
    if (changed == NULL)
        abort();
    size_t count = take_changed(m, changed);
    for (size_t i = 0; i < count; i++)
        reenter_job(m, changed[i]);
    free(changed);
}

static bool is_oldest(const struct model *m, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (m->pauses[i].name == m->pauses[at].name)
            return false;
    return true;
}

static void roll_back_topics(struct model *m)
{
    for (size_t i = 0; i < m->pause_count; i++) {
        const struct mpause *was = &m->pauses[i];
        if (!is_oldest(m, i))
            continue;
        struct mtopic *topic = model_need_topic(m, was->name);
        topic->paused = was->paused;
        topic->pause_end = was->end;
        if (was->has_policy || topic->has_policy)
            model_replace_policy(m, was->name, was->has_policy, &was->policy);
    }
    m->pause_count = 0;
}

void model_rollback(struct model *m)
{
    m->now = m->sim->now;
    m->hold = 0;
    model_fail_waiters(m);
    roll_back_jobs(m);
    roll_back_topics(m);
    m->undone = m->open_batch++;
    m->open_count = 0;
    m->open_bytes = 0;
    m->next_seal = m->open_batch;
    if (!m->token_stored)
        m->token_batch = m->open_batch;
    model_rollback_feeds(m);
    model_settle(m);
}
