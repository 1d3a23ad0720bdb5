/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>

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

/* kick and purge are done in slices, of what was there at the start. */
static void begin_slices(struct model *m, struct sim_op *sop, int name, bide_state state)
{
    if (sop->slices.began)
        return;
    sop->slices.began = true;
    sop->slices.name = name;
    sop->slices.state = state;
    sop->slices.entered = m->sequence;
    sop->slices.at = model_stamp(m);
}

static bool was_there(const struct sim_op *sop, const struct mjob *job)
{
    return job->entered <= sop->slices.entered;
}

/* The next one to kick: the oldest burial, or the soonest delayed. */
static struct mjob *next_to_kick(struct model *m, const struct sim_op *sop)
{
    bide_state state = sop->slices.state;
    struct mjob *best = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name != sop->slices.name || job->state != state || !was_there(sop, job))
            continue;
        if (best == NULL || (state == BIDE_STATE_BURIED && job->entered < best->entered) ||
            (state == BIDE_STATE_DELAYED && model_distance(m, job) < model_distance(m, best)))
            best = job;
    }
    return best;
}

static uint64_t count_of(const struct model *m, int name, bide_state state)
{
    return m->topics[name].exists ? m->topics[name].count[state] : 0;
}

static void count(struct sim_op *sop, uint64_t batch)
{
    size_t at = batch % SIM_PARTS;
    if (sop->slices.done_in[at] != batch)
        sop->slices.done[at] = 0;
    sop->slices.done_in[at] = batch;
    sop->slices.done[at]++;
    sop->slices.count++;
}

uint64_t model_stored_count(const struct model *m, const struct sim_op *sop)
{
    uint64_t stored = sop->slices.count;
    for (size_t at = 0; at < SIM_PARTS; at++)
        if (sop->slices.done_in[at] > m->committed)
            stored -= sop->slices.done[at];
    return stored;
}

/* A topic stays while an op on it is under way. */
static void pin(struct model *m, struct sim_op *sop, bool under_way)
{
    if (under_way != sop->slices.pinned)
        m->topics[sop->slices.name].pins += under_way ? 1 : -1;
    sop->slices.pinned = under_way;
}

void model_end_slices(struct model *m, struct sim_op *sop)
{
    pin(m, sop, false);
    model_settle(m);
}

/* A slice that is not the last, or fails, has gone as far as the core says. */
static void end_slice(struct model *m, struct sim_op *sop, uint64_t got)
{
    bool first = !sop->slices.pinned;
    pin(m, sop, m->got == BI_AGAIN);
    if (m->got == BI_AGAIN && first)
        m->stamp_floor = sop->slices.at + 1;
    if (m->got == BI_AGAIN)
        expect_true(m->sim, got > 0, "a slice has done nothing");
    else
        model_answer(m, m->sim->allowed_enomem && m->got == BIDE_ENOMEM ? BIDE_ENOMEM : BIDE_OK);
    if (m->got == BIDE_OK)
        model_depend_on_topic(m, sop->slices.name);
    expect(m->sim, "count", (int64_t)sop->slices.count, (int64_t)got);
}

void model_kick(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.kick.topic);
    bool buried = sop->op.kick.buried_only || count_of(m, name, BIDE_STATE_BURIED) != 0;
    begin_slices(m, sop, name, buried ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED);
    uint64_t most = m->got == BIDE_OK ? sop->op.kick.max : sop->op.kick.count;
    while (sop->slices.count < most) {
        struct mjob *job = next_to_kick(m, sop);
        if (job == NULL)
            break;
        kick(m, job);
        count(sop, job->batch);
    }
    end_slice(m, sop, sop->op.kick.count);
}

void model_kick_job(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.lease.id);
    int code = BIDE_OK;
    if (job == NULL) {
        model_depend_on_absent(m, sop->op.lease.id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_depend_on(m, job);
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
        model_depend_on(m, holder);
        return BIDE_EXISTS;
    }
    if (job->state != BIDE_STATE_DONE && model_max_jobs(m, name) != 0 &&
        model_live(m, name) >= model_max_jobs(m, name))
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
    int64_t since = was_ready ? model_stamp(m) : job->since; /* delayed all along */
    uint64_t entered = job->entered;
    bool wall = args->run_at_ms != BIDE_KEEP;
    int64_t due = wall ? args->run_at_ms * US_PER_MS : m->now.mono + args->delay_ms * US_PER_MS;
    if (due > (wall ? m->now.wall : m->now.mono)) {
        job->due_wall = wall;
        job->due = due;
        model_set_state(m, job, BIDE_STATE_DELAYED);
        job->since = since;
        if (!was_ready)
            job->entered = entered;
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
        model_depend_on_absent(m, args->id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_depend_on(m, job);
    int code = update_refusal(m, job, args);
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    model_change(m, job);
    if (args->priority != BIDE_KEEP)
        job->priority = (uint32_t)args->priority;
    if (args->ttr_ms != BIDE_KEEP)
        job->ttr_ms = args->ttr_ms ? args->ttr_ms : m->sim->options.limits.default_ttr / US_PER_MS;
    bool moved = args->topic.size != 0 && sim_name_of(args->topic) != job->name;
    if (moved)
        model_move(m, job, sim_name_of(args->topic));
    if (args->delay_ms != BIDE_KEEP || args->run_at_ms != BIDE_KEEP)
        update_due(m, job, args);
    model_event(m, job, BIDE_EVENT_UPDATED, job->state);
    if (moved && job->state == BIDE_STATE_DONE)
        model_limit_done(m, job->name, MODEL_DONE_STEP);
}

/* ---- cancel and purge ---- */

void model_cancel(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.lease.id);
    if (job == NULL) {
        model_depend_on_absent(m, sop->op.lease.id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_answer(m, BIDE_OK);
    model_depend_on(m, job);
    if (job->state != BIDE_STATE_RESERVED) {
        model_delete_job(m, job);
    } else {
        model_change(m, job);
        job->cancel_wanted = true;
        model_event(m, job, BIDE_EVENT_CANCEL_WANTED, BIDE_STATE_RESERVED);
    }
}

/* A job and the batch that its removal came into; in what order they went is not known else. */
struct purged {
    uint64_t batch;
    struct mjob *job;
};

static int by_batch(const void *a, const void *b)
{
    const struct purged *left = a;
    const struct purged *right = b;
    if (left->batch != right->batch)
        return left->batch < right->batch ? -1 : 1;
    return left->job->id < right->job->id ? -1 : 1;
}

static void purge(struct model *m, const struct purged *purged)
{
    struct mjob *job = purged->job;
    model_change_in(m, job, purged->batch);
    MODEL_COUNT(m, job->name, purged);
    model_event(m, job, BIDE_EVENT_DELETED, BIDE_STATE_GONE);
    model_notify_waits(m, job, BIDE_STATE_GONE, false);
    model_remove(m, job);
}

/* The last slice takes all that was there; of another one the core knows how far it came. */
static bool is_purged(struct model *m, const struct sim_op *sop, const struct mjob *job)
{
    if (m->got == BIDE_OK)
        return was_there(sop, job);
    return !model_core_has(m, job->id);
}

void model_purge(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.purge.topic);
    begin_slices(m, sop, name, sop->op.purge.state);
    m->purging = ++m->purges;
    size_t found = 0;
    struct purged *purged = calloc(m->count + 1, sizeof *purged);
    if (purged == NULL)
        abort();
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name == name && job->state == sop->op.purge.state && is_purged(m, sop, job))
            purged[found++] = (struct purged){model_batch_of_removal(m, job), job};
    }
    qsort(purged, found, sizeof *purged, by_batch);
    for (size_t i = 0; i < found; i++) {
        uint64_t batch = purged[i].batch != 0 ? purged[i].batch : m->open_batch;
        purge(m, &purged[i]);
        count(sop, m->journal ? batch : 0);
    }
    free(purged);
    m->purging = 0;
    end_slice(m, sop, sop->op.purge.count);
}

/* ---- topics ---- */

static bool may_make(struct model *m, int name)
{
    return m->topics[name].exists || model_topic_count(m) < m->sim->options.limits.max_topics;
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
    topic->pause_end = for_ms == BIDE_FOREVER ? BI_NEVER : m->now.mono + for_ms * US_PER_MS;
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
