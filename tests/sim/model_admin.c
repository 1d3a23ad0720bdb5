/* SPDX-License-Identifier: MIT */
#include "model.h"

static void kick(struct model *m, struct mjob *job)
{
    model_change(m, job);
    job->kicks++;
    job->failures = 0;
    job->due_wall = false;
    MODEL_COUNT(m, job->name, kicks);
    model_ready(m, job);
    model_event(m, job, BIDE_EVENT_KICKED, BIDE_STATE_READY);
}

/* The next one to kick: the oldest burial, or the soonest delayed. */
static struct mjob *next_to_kick(struct model *m, int name, bide_state state)
{
    struct mjob *best = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name != name || job->state != state)
            continue;
        if (best == NULL ||
            (state == BIDE_STATE_BURIED && job->entered < best->entered) ||
            (state == BIDE_STATE_DELAYED &&
             model_distance(m, job) < model_distance(m, best)))
            best = job;
    }
    return best;
}

void model_kick(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.kick.topic);
    uint64_t count = 0;
    if (m->topics[name].exists) {
        bool buried = m->topics[name].count[BIDE_STATE_BURIED] != 0;
        bide_state state = buried ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
        struct mjob *job;
        uint64_t most = m->got == BIDE_ENOMEM ? sop->op.kick.count : sop->op.kick.max;
        while (count < most && (job = next_to_kick(m, name, state)) != NULL) {
            kick(m, job);
            count++;
        }
    }
    model_answer(m, m->sim->allowed_enomem && m->got == BIDE_ENOMEM ? BIDE_ENOMEM : BIDE_OK);
    expect(m->sim, "count", (int64_t)count, (int64_t)sop->op.kick.count);
}

void model_kick_job(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.lease.id);
    int code = BIDE_OK;
    if (job == NULL) {
        model_saw_none(m, sop->op.lease.id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_saw(m, job);
    if (job->state == BIDE_STATE_RESERVED)
        code = BIDE_RESERVED;
    else if (job->state != BIDE_STATE_BURIED && job->state != BIDE_STATE_DELAYED)
        code = BIDE_WRONG_STATE;
    model_answer(m, code);
    if (code == BIDE_OK)
        kick(m, job);
}

/* ---- update ---- */

static int move_refusal(struct model *m, const struct mjob *job, int name)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    struct mjob *holder = model_holds_key(job) ? model_key_holder(m, name, job->key) : NULL;
    if (holder != NULL) {
        model_saw(m, holder);
        return BIDE_EXISTS;
    }
    if (job->state != BIDE_STATE_DONE && limits->max_jobs_per_topic != 0 &&
        model_live(m, name) >= limits->max_jobs_per_topic)
        return BIDE_TOPIC_FULL;
    if (!m->topics[name].exists && model_topic_count(m) >= limits->max_topics)
        return BIDE_TOO_MANY_TOPICS;
    return BIDE_OK;
}

static int update_refusal(struct model *m, const struct mjob *job, const bide_update_args *args)
{
    bool redue = args->delay_ms != BIDE_KEEP || args->run_at_ms != BIDE_KEEP;
    if (job->state == BIDE_STATE_RESERVED)
        return BIDE_RESERVED;
    if (redue && (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE))
        return BIDE_WRONG_STATE;
    int name = args->topic.size != 0 ? sim_name_of(args->topic) : job->name;
    return name == job->name ? BIDE_OK : move_refusal(m, job, name);
}

static void update_due(struct model *m, struct mjob *job, const bide_update_args *args)
{
    bool was_ready = job->state == BIDE_STATE_READY;
    bool wall = args->run_at_ms != BIDE_KEEP;
    int64_t due = wall ? args->run_at_ms * US_PER_MS
                       : m->now.mono + args->delay_ms * US_PER_MS;
    if (due > (wall ? m->now.wall : m->now.mono)) {
        job->due_wall = wall;
        job->due = due;
        model_set_state(m, job, BIDE_STATE_DELAYED);
    } else if (!was_ready) {
        job->due_wall = false;
        model_ready(m, job);
    }
}

void model_update(struct model *m, struct sim_op *sop)
{
    const bide_update_args *args = &sop->op.update;
    struct mjob *job = model_find(m, args->id);
    if (job == NULL) {
        model_saw_none(m, args->id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_saw(m, job);
    int code = update_refusal(m, job, args);
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    model_change(m, job);
    if (args->priority != BIDE_KEEP)
        job->priority = (uint32_t)args->priority;
    if (args->ttr_ms != BIDE_KEEP)
        job->ttr_ms = args->ttr_ms ? args->ttr_ms
                                   : m->sim->options.limits.default_ttr / US_PER_MS;
    if (args->topic.size != 0 && sim_name_of(args->topic) != job->name)
        model_move(m, job, sim_name_of(args->topic));
    if (args->delay_ms != BIDE_KEEP || args->run_at_ms != BIDE_KEEP)
        update_due(m, job, args);
    model_event(m, job, BIDE_EVENT_UPDATED, job->state);
    model_limit_done(m, job->name);
}

/* ---- cancel and purge ---- */

void model_cancel(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.lease.id);
    if (job == NULL) {
        model_saw_none(m, sop->op.lease.id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_answer(m, BIDE_OK);
    model_saw(m, job);
    if (job->state != BIDE_STATE_RESERVED) {
        model_drop(m, job);
    } else {
        model_change(m, job);
        job->cancel_wanted = true;
        model_event(m, job, BIDE_EVENT_CANCEL_WANTED, BIDE_STATE_RESERVED);
    }
}

/* A job that is to be purged; if the op failed on the way, one that the core has not any more. */
static struct mjob *one_to_purge(struct model *m, int name, bide_state state, bool failed)
{
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name == name && job->state == state &&
            (!failed || !model_core_has(m, job->id)))
            return job;
    }
    return NULL;
}

void model_purge(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.purge.topic);
    uint64_t count = 0;
    struct mjob *job;
    bool failed = m->got == BIDE_ENOMEM && m->sim->allowed_enomem;
    m->purging = ++m->purges;
    while ((job = one_to_purge(m, name, sop->op.purge.state, failed)) != NULL) {
        model_change(m, job);
        MODEL_COUNT(m, name, purged);
        model_event(m, job, BIDE_EVENT_DELETED, BIDE_STATE_GONE);
        model_wake_waits(m, job, BIDE_STATE_GONE);
        model_remove(m, job);
        count++;
    }
    m->purging = 0;
    model_answer(m, failed ? BIDE_ENOMEM : BIDE_OK);
    expect(m->sim, "count", (int64_t)count, (int64_t)sop->op.purge.count);
}

/* ---- topics ---- */

static bool may_make(struct model *m, int name)
{
    return m->topics[name].exists ||
           model_topic_count(m) < m->sim->options.limits.max_topics;
}

static void resume(struct model *m, int name)
{
    if (!m->topics[name].paused)
        return;
    model_change_pause(m, name);
    m->topics[name].paused = false;
}

void model_resume(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic.topic);
    bool exists = m->topics[name].exists;
    model_answer(m, exists ? BIDE_OK : BIDE_NOT_FOUND);
    if (exists)
        resume(m, name);
}

void model_pause(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic.topic);
    int64_t for_ms = sop->op.topic.for_ms;
    bool may = may_make(m, name);
    model_answer(m, may ? BIDE_OK : BIDE_TOO_MANY_TOPICS);
    if (!may)
        return;
    struct mtopic *topic = model_need_topic(m, name);
    model_change_pause(m, name);
    topic->paused = for_ms != 0;
    topic->pause_end =
        for_ms == BIDE_FOREVER ? BI_NEVER : m->now.mono + for_ms * US_PER_MS;
    MODEL_COUNT(m, name, pauses);
}

void model_topic_ref(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic.topic);
    if (sop->op.topic.delta > 0) {
        bool may = may_make(m, name);
        model_answer(m, may ? BIDE_OK : BIDE_TOO_MANY_TOPICS);
        if (may)
            model_need_topic(m, name)->references++;
        return;
    }
    if (!m->topics[name].exists) {
        model_answer(m, BIDE_NOT_FOUND);
    } else if (m->topics[name].references == 0) {
        model_answer(m, BIDE_EINVAL);
    } else {
        model_answer(m, BIDE_OK);
        m->topics[name].references--;
    }
}

void model_ping(struct model *m, struct sim_op *sop)
{
    (void)sop;
    model_answer(m, BIDE_OK);
}

void model_drain(struct model *m, struct sim_op *sop)
{
    model_answer(m, BIDE_OK);
    m->draining = sop->op.drain.on;
}
