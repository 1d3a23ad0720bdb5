/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>

struct mwaiter *model_add_waiter(struct model *m, struct sim_op *sop, int64_t timeout_ms)
{
    struct mwaiter *waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL)
        abort();
    waiter->sop = sop;
    waiter->number = ++m->waiter_number;
    waiter->hold = m->hold;
    waiter->deadline = timeout_ms == BIDE_FOREVER ? BI_NEVER : m->now.mono + timeout_ms * US_PER_MS;
    struct mwaiter **link = &m->waiters;
    while (*link != NULL)
        link = &(*link)->next;
    *link = waiter;
    m->waiter_count++;
    return waiter;
}

/* In the lines of its topics, or out of them, and then the topics only must not go. */
static void stand_in_line(struct model *m, const struct mwaiter *waiter, bool in_line)
{
    for (size_t i = 0; i < waiter->name_count; i++) {
        struct mtopic *topic = &m->topics[waiter->names[i]];
        if (in_line && topic->waiting == 0)
            topic->waited_since = ++m->sequence;
        if (in_line) {
            topic->waiting++;
            topic->pins--;
        } else {
            topic->waiting--;
            topic->pins++;
        }
    }
}

void model_park(struct model *m, struct mwaiter *waiter)
{
    waiter->parked = true;
    stand_in_line(m, waiter, false);
}

void model_resume_waiter(struct model *m, struct mwaiter *waiter)
{
    waiter->parked = false;
    stand_in_line(m, waiter, true);
}

struct mwaiter *model_find_waiter(struct model *m, const struct sim_op *sop)
{
    struct mwaiter *waiter = m->waiters;
    while (waiter != NULL && waiter->sop != sop)
        waiter = waiter->next;
    return waiter;
}

void model_remove_waiter(struct model *m, struct mwaiter *waiter)
{
    if (waiter->parked)
        model_resume_waiter(m, waiter);
    struct mwaiter **link = &m->waiters;
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    m->waiter_count--;
    for (size_t i = 0; i < waiter->name_count; i++)
        m->topics[waiter->names[i]].waiting--;
    if (waiter->feed != NULL)
        waiter->feed->reader = NULL;
    free(waiter);
}

/* Those who wait for the same job may complete in any order; all others in ours. */
static void find_completion(struct sim *sim, const struct sim_op *sop)
{
    size_t at = sim->completed_seen;
    if (sop->op.kind == BIDE_OP_WAIT)
        while (at < sim->completed_count && sim->completed[at] != sop)
            at++;
    if (at == sim->completed_count)
        sim_fail(sim, "a waiting %s did not complete", bide_op_name(sop->op.kind));
    if (sim->completed[at] != sop)
        sim_fail(sim, "a waiting %s completed before a waiting %s",
                 bide_op_name(sim->completed[at]->op.kind), bide_op_name(sop->op.kind));
    struct sim_op *found = sim->completed[at];
    for (; at > sim->completed_seen; at--)
        sim->completed[at] = sim->completed[at - 1];
    sim->completed[at] = found;
    sim->completed_seen++;
}

void model_complete(struct model *m, struct mwaiter *waiter, int want, uint64_t hold)
{
    const bide_op *op = &waiter->sop->op;
    find_completion(m->sim, waiter->sop);
    expect_code(m->sim, "status of the call that waited", want, op->private_.status);
    expect(m->sim, "hold of the call that waited", (int64_t)model_hold_of(m, hold),
           (int64_t)model_hold_of(m, op->private_.hold));
    model_remove_waiter(m, waiter);
}

void model_complete_lacking(struct model *m, struct mwaiter *waiter, uint64_t hold)
{
    const bide_op *op = &waiter->sop->op;
    find_completion(m->sim, waiter->sop);
    expect_code(m->sim, "status of the call that waited", BIDE_OK, op->private_.status);
    expect(m->sim, "hold of the call that waited", (int64_t)model_hold_of(m, hold),
           (int64_t)model_hold_of(m, op->private_.hold));
    model_park(m, waiter);
}

static void compare_wait(struct model *m, const struct mjob *job, bide_state state, bool finished,
                         const bide_op *op)
{
    expect(m->sim, "state of the job that ended", state, op->wait.state);
    expect(m->sim, "its work is done", finished || state == BIDE_STATE_DONE, op->wait.finished);
    bool has = state == BIDE_STATE_DONE && job->has_result;
    const bide_buf *got = op->wait.result;
    expect_bytes(m->sim, "result", has ? job->result.bytes : NULL, has ? job->result.size : 0,
                 got ? bide_buf_data(got) : NULL, got ? bide_buf_size(got) : 0);
}

void model_notify_waits(struct model *m, const struct mjob *job, bide_state state, bool finished)
{
    for (struct mwaiter *w = m->waiters; w != NULL;) {
        struct mwaiter *next = w->next;
        if (w->sop->op.kind == BIDE_OP_WAIT && w->id == job->id) {
            if (w->sop->completed)
                compare_wait(m, job, state, finished, &w->sop->op);
            model_complete(m, w, BIDE_OK, w->hold > job->batch ? w->hold : job->batch);
        }
        w = next;
    }
}

void model_wait(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.wait.id);
    bide_state state = job != NULL ? job->state : BIDE_STATE_GONE;
    if (job != NULL)
        model_depend_on(m, job);
    else
        model_depend_on_absent(m, sop->op.wait.id);
    if (state == BIDE_STATE_GONE || state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE) {
        model_answer(m, BIDE_OK);
        compare_wait(m, job, state, false, &sop->op);
    } else if (sop->op.wait.timeout_ms == 0) {
        model_answer(m, BIDE_TIMED_OUT);
    } else if (m->waiter_count >= m->sim->options.limits.max_waiters) {
        model_answer(m, BIDE_TOO_MANY_WAITERS);
    } else {
        model_answer(m, BIDE_PENDING);
        model_add_waiter(m, sop, sop->op.wait.timeout_ms)->id = job->id;
    }
}

void model_recovered_op(struct model *m, struct sim_op *sop)
{
    if (!m->recovering) {
        model_answer(m, BIDE_OK);
    } else if (sop->op.recovered.timeout_ms == 0) {
        model_answer(m, BIDE_TIMED_OUT);
    } else if (m->waiter_count >= m->sim->options.limits.max_waiters) {
        model_answer(m, BIDE_TOO_MANY_WAITERS);
    } else {
        model_answer(m, BIDE_PENDING);
        model_add_waiter(m, sop, sop->op.recovered.timeout_ms);
    }
}

/* The topic that was made next after that one; -1 for none, or for the first. */
static int next_topic(const struct model *m, int after)
{
    int next = -1;
    for (int name = 0; name < SIM_NAMES; name++) {
        const struct mtopic *topic = &m->topics[name];
        if (topic->exists && (after < 0 || topic->born > m->topics[after].born) &&
            (next < 0 || topic->born < m->topics[next].born))
            next = name;
    }
    return next;
}

void model_recovered(struct model *m)
{
    m->now = m->sim->now;
    m->hold = 0;
    m->recovering = false;
    for (struct mwaiter *w = m->waiters; w != NULL;) {
        struct mwaiter *next = w->next;
        if (w->sop->op.kind == BIDE_OP_RECOVERED)
            model_complete(m, w, BIDE_OK, 0);
        w = next;
    }
    model_settle(m);
}

void model_retire_all(struct model *m)
{
    m->now = m->sim->now;
    m->hold = 0;
    m->lists_sorted = true;
    m->leases_unloaded = false;
    int name = next_topic(m, -1);
    for (; name >= 0; name = next_topic(m, name))
        model_limit_done(m, name, UINT32_MAX);
    model_settle(m);
}

void model_cancel_op(struct model *m, struct sim_op *sop)
{
    m->now = m->sim->now;
    struct mwaiter *waiter = model_find_waiter(m, sop);
    if (waiter == NULL)
        sim_fail(m->sim, "an op was cancelled that does not wait");
    model_complete(m, waiter, BIDE_CANCELLED, waiter->hold);
    model_cleanup(m);
}

/* Its finish part is undone; it is told so there, too. */
static void fail_waiter(struct model *m, struct mwaiter *waiter)
{
    const bide_op *op = &waiter->sop->op;
    if (waiter->sop->completed && op->finish_and_reserve.finish.status == BIDE_OK)
        sim_fail(m->sim, "a finish that was undone answers BIDE_OK");
    model_complete(m, waiter, BIDE_EIO, 0);
}

void model_fail_waiters(struct model *m)
{
    for (struct mwaiter *w = m->waiters; w != NULL;) {
        struct mwaiter *next = w->next;
        if (w->parked) {
            w = next;
            continue;
        }
        if (w->hold > m->committed && w->sop->op.kind == BIDE_OP_FINISH_AND_RESERVE)
            fail_waiter(m, w);
        else
            w->hold = 0;
        w = next;
    }
}

void model_close(struct model *m)
{
    m->now = m->sim->now;
    m->closed = true;
    for (struct mwaiter *w = m->waiters; w != NULL;) {
        struct mwaiter *next = w->next;
        if (!w->parked)
            model_complete(m, w, BIDE_CLOSED, w->hold);
        w = next;
    }
    model_cleanup(m);
}
