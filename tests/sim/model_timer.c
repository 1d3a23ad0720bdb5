/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* Something with a deadline. Equal deadlines: expiries, jobs, pauses, rates, workers, calls; each by
 * id. */
struct due {
    int64_t deadline;
    int class;
    uint64_t id;
    struct mjob *job;
    int name;
    struct mwaiter *waiter;
};

enum { CLASS_EXPIRY, CLASS_JOB, CLASS_TOPIC, CLASS_RATE, CLASS_WORKER, CLASS_CALL };

#define PUT_OFF INT64_C(100000)

static bool is_before(const struct due *a, const struct due *b)
{
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline;
    if (a->class != b->class)
        return a->class < b->class;
    return a->id < b->id;
}

static void consider(struct due *best, struct due candidate)
{
    if (candidate.deadline != BI_NEVER && is_before(&candidate, best))
        *best = candidate;
}

static bool can_expire(const struct mjob *job)
{
    return job->expires_at != 0 && !job->expiry_over &&
           (job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY);
}

static struct due first_wall(const struct model *m)
{
    struct due best = {.deadline = BI_NEVER, .class = CLASS_CALL};
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->state == BIDE_STATE_DELAYED && job->due_wall)
            consider(
                &best,
                (struct due){.deadline = job->due, .class = CLASS_JOB, .id = job->id, .job = job});
        if (can_expire(job))
            consider(&best, (struct due){.deadline = job->expiry_again ? job->expiry_again
                                                                       : job->expires_at,
                                         .class = CLASS_EXPIRY,
                                         .id = job->id,
                                         .job = job});
    }
    return best;
}

static bool has_mono_deadline(const struct mjob *job)
{
    return (job->state == BIDE_STATE_RESERVED && (!job->reply_pending || job->again != 0)) ||
           job->state == BIDE_STATE_DONE ||
           (job->state == BIDE_STATE_DELAYED && !job->due_wall && !job->due_unknown);
}

/* The first deadline of the boot-time clock; calls are not rounded, so they are apart. */
static struct due first_mono(const struct model *m)
{
    struct due best = {.deadline = BI_NEVER, .class = CLASS_CALL};
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        int64_t due = job->again ? job->again : job->due;
        if (has_mono_deadline(job) && due <= best.deadline)
            consider(&best,
                     (struct due){.deadline = due, .class = CLASS_JOB, .id = job->id, .job = job});
    }
    for (int name = 0; name < SIM_NAMES; name++) {
        const struct mtopic *topic = &m->topics[name];
        if (topic->exists && topic->paused)
            consider(&best, (struct due){.deadline = topic->pause_end,
                                         .class = CLASS_TOPIC,
                                         .id = topic->born,
                                         .name = name});
        if (topic->exists && topic->token_at != 0)
            consider(&best, (struct due){.deadline = topic->token_at,
                                         .class = CLASS_RATE,
                                         .id = topic->born,
                                         .name = name});
    }
    for (size_t i = 0; i < m->worker_count; i++)
        consider(&best, (struct due){.deadline = m->workers[i].deadline,
                                     .class = CLASS_WORKER,
                                     .id = m->workers[i].number});
    return best;
}

static struct due first_call(const struct model *m)
{
    struct due best = {.deadline = BI_NEVER, .class = CLASS_CALL};
    for (struct mwaiter *w = m->waiters; w != NULL; w = w->next)
        if (!w->parked)
            consider(&best, (struct due){.deadline = w->deadline,
                                         .class = CLASS_CALL,
                                         .id = w->number,
                                         .waiter = w});
    return best;
}

/* With the wheel, time goes by in whole ticks, and deadlines are rounded up to them. */
static int64_t rounded(const struct model *m, int64_t deadline)
{
    int64_t tick = m->sim->options.wheel_tick;
    if (!m->sim->options.wheel || deadline == BI_NEVER || deadline <= m->born.mono)
        return deadline;
    return m->born.mono + (deadline - m->born.mono + tick - 1) / tick * tick;
}

static bool is_due(const struct model *m, int64_t deadline)
{
    return deadline != BI_NEVER && rounded(m, deadline) <= m->now.mono;
}

/*
 * Without memory for the journal the end of a lease, a retention or an expiry is put off. The
 * core has gone on since, but what ended does not come back: if it is still there, it was.
 */
static bool was_put_off(struct model *m, struct mjob *job, bool expiry)
{
    if (!m->sim->allowed_enomem || !m->journal || (job->state == BIDE_STATE_DELAYED && !expiry))
        return false;
    bide_op op = {.kind = BIDE_OP_JOB_STATS};
    bide_job got = {0};
    op.query.id = job->id;
    op.query.job = &got;
    if (bi_core_run(m->sim->core, &op, m->sim->now) != BIDE_OK)
        return false;
    bool same = expiry || job->state == BIDE_STATE_DONE ||
                (got.state == BIDE_STATE_RESERVED && got.reserves == job->reserves);
    bide_job_clear(&got);
    if (!same)
        return false;
    if (expiry)
        job->expiry_again = m->now.wall + PUT_OFF;
    else
        job->again = m->now.mono + PUT_OFF;
    return true;
}

static void fire_job(struct model *m, struct mjob *job, bool expiry)
{
    if (was_put_off(m, job, expiry))
        return;
    if (expiry) {
        model_change(m, job);
        MODEL_COUNT(m, job->name, expired);
        model_event(m, job, BIDE_EVENT_EXPIRED, BIDE_STATE_GONE);
        model_notify_waits(m, job, BIDE_STATE_GONE, false);
        model_remove(m, job);
    } else if (job->state == BIDE_STATE_DELAYED) {
        job->due_wall = false;
        model_ready(m, job);
        model_event(m, job, BIDE_EVENT_READY, BIDE_STATE_READY);
    } else if (job->state == BIDE_STATE_RESERVED && job->reply_pending) {
        model_undo_reserve(m, job);
    } else if (job->state == BIDE_STATE_RESERVED) {
        model_end_of_lease(m, job);
    } else {
        model_retire(m, job);
    }
}

static void fire(struct model *m, const struct due *due)
{
    m->hold = 0;
    if (due->job != NULL)
        fire_job(m, due->job, due->class == CLASS_EXPIRY);
    else if (due->waiter != NULL)
        model_complete(m, due->waiter, BIDE_TIMED_OUT, due->waiter->hold);
    else if (due->class == CLASS_RATE)
        m->topics[due->name].token_at = 0;
    else if (due->class == CLASS_WORKER)
        model_expire_worker(m, due->id);
    else
        m->topics[due->name].paused = false;
    model_settle(m);
}

void model_tick(struct model *m)
{
    m->now = m->sim->now;
    bool mono_turn = false;
    for (;;) {
        struct due wall = first_wall(m);
        struct due mono = first_mono(m);
        struct due call = first_call(m);
        bool wall_due = wall.deadline <= m->now.wall;
        bool mono_due = is_due(m, mono.deadline);
        if (call.deadline <= m->now.mono && (!mono_due || is_before(&call, &mono))) {
            mono = call;
            mono_due = true;
        }
        if (!wall_due && !mono_due)
            return;
        bool from_mono = mono_due && (mono_turn || !wall_due);
        fire(m, from_mono ? &mono : &wall);
        mono_turn = !from_mono; /* the clocks take turns */
    }
}

struct bi_now model_next(const struct model *m)
{
    return (struct bi_now){.mono = rounded(m, first_mono(m).deadline),
                           .wall = first_wall(m).deadline};
}

int64_t model_next_call(const struct model *m)
{
    return first_call(m).deadline;
}

int64_t model_next_tick(const struct model *m)
{
    struct bi_now next = model_next(m);
    if (next.wall == BI_NEVER)
        return next.mono;
    int64_t tick = rounded(m, next.wall - m->sim->now.wall + m->sim->now.mono);
    return tick < next.mono ? tick : next.mono;
}

bool model_core_has(struct model *m, uint64_t id)
{
    bide_op op = {.kind = BIDE_OP_BODY};
    op.fetch.id = id;
    bool has = bi_core_run(m->sim->core, &op, m->sim->now) == BIDE_OK;
    if (has)
        bide_buf_unref(op.fetch.buf);
    return has;
}

static void learn(struct model *m, struct mjob *job)
{
    bide_op op = {.kind = BIDE_OP_JOB_STATS};
    bide_job got = {0};
    op.query.id = job->id;
    op.query.job = &got;
    expect_code(m->sim, "job_stats", BIDE_OK, bi_core_run(m->sim->core, &op, m->sim->now));
    int64_t delay = got.left_ms;
    bide_job_clear(&got);
    sim_hash(m->sim, (uint64_t)delay);
    model_check_backoff(m, job, delay);
    job->due = job->due_from + delay * US_PER_MS;
    job->due_unknown = false;
}

void model_learn_delays(struct model *m)
{
    bool asked = false;
    for (size_t i = 0; i < m->count; i++) {
        if (m->jobs[i]->due_unknown) {
            learn(m, m->jobs[i]);
            asked = true;
        }
    }
    /* A query is an op, too: calls that could not be served before are served after it. */
    if (asked)
        model_settle(m);
}
