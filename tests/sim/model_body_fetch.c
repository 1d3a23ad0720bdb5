/* SPDX-License-Identifier: MIT */
/*
 * What becomes of an op when the bodies that it lacks come, or are found to be unreadable.
 */
#include "model.h"

/* Before what lacked memory is tried again. */
#define PUT_OFF INT64_C(100000)

static bide_reserve_args *reserve_args(bide_op *op)
{
    return op->kind == BIDE_OP_RESERVE              ? &op->reserve
           : op->kind == BIDE_OP_FINISH_AND_RESERVE ? &op->finish_and_reserve.reserve
                                                    : NULL;
}

/* What a reserving op has taken. */
static const bide_job *taken_by(bide_op *op, size_t *count)
{
    const bide_reserve_args *args = reserve_args(op);
    bool one = op->kind == BIDE_OP_RESERVE_JOB;
    *count = args != NULL ? args->count : one;
    return args != NULL ? args->jobs : one ? op->reserve_job.job : NULL;
}

void model_shown(struct sim_op *sop, struct sim_reading *reading)
{
    const bide_job *jobs = taken_by(&sop->op, &reading->shown_count);
    reading->hold = sop->op.private_.hold;
    for (size_t i = 0; i < reading->shown_count; i++)
        reading->shown[i] = (struct sim_shown){.id = jobs[i].id,
                                               .token = jobs[i].token,
                                               .lacks = jobs[i].body == NULL && jobs[i].body_size};
}

/* The job of a reservation that still stands, or NULL. */
static struct mjob *held_job(struct model *m, uint64_t id, uint64_t token)
{
    struct mjob *job = model_find(m, id);
    return job != NULL && job->state == BIDE_STATE_RESERVED && job->token == token ? job : NULL;
}

static void begin_lease_of(struct model *m, struct mjob *job)
{
    job->reply_pending = false;
    job->due = m->now.mono + job->ttr_ms * US_PER_MS;
    job->again = 0;
    job->since = model_stamp(m);
    job->reserved = m->now.mono;
    job->leased = m->now.mono;
    if (job->lease_touches == 0) {
        job->touched = BI_NEVER;
        job->last_touch = m->now.mono;
    }
}

/* Tells what is kept of a reservation that has no answer, for when a commit fails. */
static void each_saved(struct model *m, uint64_t id, uint64_t token,
                       void (*visit)(struct model *, struct mjob *))
{
    struct mjob *job = model_find(m, id);
    for (size_t i = 0; i < m->dead_count && job == NULL; i++)
        if (m->dead[i]->id == id)
            job = m->dead[i];
    for (struct mundo *undo = job != NULL ? job->undo : NULL; undo != NULL; undo = undo->next)
        if (undo->was.state == BIDE_STATE_RESERVED && undo->was.token == token &&
            undo->was.reply_pending)
            visit(m, &undo->was);
}

static void set_abandoned(struct model *m, struct mjob *job)
{
    (void)m;
    job->abandoned = true;
}

void model_abandon(struct model *m, uint64_t id, uint64_t token)
{
    struct mjob *job = held_job(m, id, token);
    each_saved(m, id, token, set_abandoned);
    if (job != NULL && job->reply_pending)
        set_abandoned(m, job);
}

void model_start_leases(struct model *m, struct sim_op *sop)
{
    size_t count;
    const bide_job *jobs = taken_by(&sop->op, &count);
    m->now = m->sim->now;
    for (size_t i = 0; i < count; i++) {
        struct mjob *job = held_job(m, jobs[i].id, jobs[i].token);
        /* Its holder knows of it: that is not undone when a commit fails. */
        each_saved(m, jobs[i].id, jobs[i].token, begin_lease_of);
        if (job == NULL || !job->reply_pending)
            continue;
        begin_lease_of(m, job);
        expect(m->sim, "left_ms", job->ttr_ms, jobs[i].left_ms);
        expect(m->sim, "reserved_ms", m->now.wall / US_PER_MS, jobs[i].reserved_ms);
    }
}

void model_start_leases_if_committed(struct model *m, struct sim_op *sop)
{
    if (m->journal && model_hold_of(m, m->hold) == 0)
        model_start_leases(m, sop);
}

static bool core_still_reserves(struct model *m, const struct mjob *job)
{
    bide_op op = {.kind = BIDE_OP_JOB_STATS};
    bide_job got = {0};
    op.query.id = job->id;
    op.query.job = &got;
    bool reserved =
        bi_core_run(m->sim->core, &op, m->sim->now) == BIDE_OK && got.state == BIDE_STATE_RESERVED;
    bide_job_clear(&got);
    return reserved;
}

/* ---- what cannot be read ---- */

static void bury_unreadable(struct model *m, struct mjob *job, const char *reason)
{
    /* Without memory to bury it, it is made ready a little later. */
    if (m->sim->allowed_enomem && core_still_reserves(m, job)) {
        job->again = m->now.mono + PUT_OFF;
        return;
    }
    if (job->cancel_wanted) {
        model_delete_job(m, job);
        return;
    }
    model_change(m, job);
    model_set_error(m, job, sim_slice(reason));
    model_add_failure(m, job, BIDE_FAILURE_BURIED, sim_slice(reason));
    model_enter_buried(m, job);
}

/* ---- reservations ---- */

static void compare_taken(struct model *m, const struct mjob *job, const bide_job *got,
                          const struct sim_shown *shown)
{
    expect(m->sim, "job id", (int64_t)shown->id, (int64_t)got->id);
    expect(m->sim, "job token", (int64_t)shown->token, (int64_t)got->token);
    if (job == NULL)
        return;
    expect_bytes(m->sim, "body", job->body.bytes, job->body.size, got->body, got->body_size);
}

/* Answers how many of the jobs remain. *torn: the body of one cannot be read. */
static size_t supply_taken(struct model *m, const struct sim_reading *reading, const bide_job *got,
                           size_t got_count, bool *unreadable)
{
    const struct bi_body *body = reading->bodies;
    size_t kept = 0;
    *unreadable = false;
    for (size_t i = 0; i < reading->shown_count; i++) {
        const struct sim_shown *shown = &reading->shown[i];
        struct mjob *job = held_job(m, shown->id, shown->token);
        const struct bi_body *own = shown->lacks ? body++ : NULL;
        if (job == NULL || (own != NULL && own->body == NULL))
            model_abandon(m, shown->id, shown->token);
        if (own != NULL && job != NULL && own->body == NULL) {
            *unreadable = true;
            bury_unreadable(m, job, own->reason);
        }
        if (job == NULL || (own != NULL && own->body == NULL))
            continue;
        if (kept < got_count)
            compare_taken(m, job, &got[kept], shown);
        kept++;
    }
    return kept;
}

/* It was not kept as one that waits, and begins again. */
static void begin_again(struct model *m, struct sim_op *sop, bide_reserve_args *args)
{
    int got = m->got;
    if (m->closed) {
        model_answer(m, BIDE_CLOSED);
        return;
    }
    if (got == BI_AGAIN)
        m->got = BIDE_OK;
    model_reserve_args(m, sop, args);
    expect(m->sim, "lacks bodies again", m->lacking, got == BI_AGAIN);
    if (got == BIDE_PENDING)
        m->hold = model_find_waiter(m, sop)->hold = model_hold_of(m, sop->finish_hold);
}

/* Nothing is left: it takes something else, or waits again where it stood. */
static void reserve_again(struct model *m, struct sim_op *sop, bide_reserve_args *args,
                          bool unreadable)
{
    struct mwaiter *waiter = model_find_waiter(m, sop);
    m->lacking = false;
    if (waiter == NULL) {
        if (unreadable)
            model_answer(m, BIDE_EIO);
        else
            begin_again(m, sop, args);
        return;
    }
    if (!m->closed && (m->got == BI_AGAIN || m->got == BIDE_OK)) {
        size_t count = model_take_ready(m, waiter, args);
        expect_true(m->sim, count > 0, "a reserve with no jobs was answered");
        model_answer(m, m->lacking ? BI_AGAIN : BIDE_OK);
        if (!m->lacking)
            model_remove_waiter(m, waiter);
        return;
    }
    if (!m->closed && model_could_take(m, waiter) && !m->sim->allowed_enomem)
        sim_fail(m->sim, "a reserve took nothing though a job is ready");
    if (!m->closed && waiter->deadline > m->now.mono) {
        model_answer(m, BIDE_PENDING);
        model_resume_waiter(m, waiter);
        m->hold = waiter->hold = model_hold_of(m, sop->finish_hold);
        return;
    }
    model_answer(m, m->closed ? BIDE_CLOSED : BIDE_TIMED_OUT);
    model_remove_waiter(m, waiter);
}

static void supply_reserve(struct model *m, struct sim_op *sop, const struct sim_reading *reading)
{
    bide_reserve_args *args = reserve_args(&sop->op);
    size_t most = m->got == BIDE_OK ? args->count : 0;
    bool unreadable;
    size_t kept = supply_taken(m, reading, args->jobs, most, &unreadable);
    if (kept == 0) {
        reserve_again(m, sop, args, unreadable);
        return;
    }
    model_answer(m, BIDE_OK);
    expect(m->sim, "count of jobs", (int64_t)kept, (int64_t)args->count);
    struct mwaiter *waiter = model_find_waiter(m, sop);
    if (waiter != NULL)
        model_remove_waiter(m, waiter);
}

static void refuse(struct model *m, uint64_t id)
{
    const struct mjob *job = model_find(m, id);
    if (job != NULL)
        model_depend_on(m, job);
    else
        model_depend_on_absent(m, id);
    model_answer(m, job != NULL ? BIDE_EIO : BIDE_NOT_FOUND);
}

static void supply_reserve_job(struct model *m, struct sim_op *sop,
                               const struct sim_reading *reading)
{
    bool unreadable;
    int got = m->got;
    const struct sim_shown *shown = &reading->shown[0];
    bool stands = held_job(m, shown->id, shown->token) != NULL;
    if (supply_taken(m, reading, sop->op.reserve_job.job, stands && got == BIDE_OK, &unreadable) ==
        1) {
        model_answer(m, BIDE_OK);
    } else if (unreadable) {
        refuse(m, shown->id);
    } else if (m->closed) {
        model_answer(m, BIDE_CLOSED);
    } else if (got == BIDE_ENOMEM && m->sim->allowed_enomem) {
        model_depend_on(
            m, model_find(m, shown->id)); /* it was looked at, and could not be taken again */
    } else {
        m->lacking = false;
        if (got == BI_AGAIN)
            m->got = BIDE_OK;
        model_reserve_job(m, sop);
        expect(m->sim, "lacks bodies again", m->lacking, got == BI_AGAIN);
    }
}

/* ---- looks ---- */

/* If the job that was the first, or held the key, has gone, the next one is looked at. */
static void look_again(struct model *m, struct sim_op *sop, uint64_t id)
{
    int got = m->got;
    bool by_id = sop->op.kind == BIDE_OP_PEEK || sop->op.kind == BIDE_OP_BODY;
    if (by_id || model_find(m, id) != NULL) {
        refuse(m, id);
        return;
    }
    model_depend_on_absent(m, id);
    m->lacking = false;
    if (got == BI_AGAIN)
        m->got = BIDE_OK;
    if (sop->op.kind == BIDE_OP_FIND)
        model_find_key(m, sop);
    else
        model_peek_first(m, sop);
    expect(m->sim, "lacks bodies again", m->lacking, got == BI_AGAIN);
}

static void supply_look(struct model *m, struct sim_op *sop, const struct sim_reading *reading)
{
    const struct bi_body *body = &reading->bodies[0];
    if (body->body == NULL) {
        look_again(m, sop, body->id);
        return;
    }
    model_answer(m, BIDE_OK);
    const void *got =
        sop->op.kind == BIDE_OP_BODY ? bide_buf_data(sop->op.fetch.buf) : sop->op.query.job->body;
    size_t size = sop->op.kind == BIDE_OP_BODY ? bide_buf_size(sop->op.fetch.buf)
                                               : sop->op.query.job->body_size;
    expect_bytes(m->sim, "body", bide_buf_data(body->body), bide_buf_size(body->body), got, size);
}

void model_supply(struct model *m, struct sim_op *sop, const struct sim_reading *reading, int got)
{
    m->now = m->sim->now;
    m->got = got;
    m->hold = model_hold_of(m, reading->hold);
    if (reserve_args(&sop->op) != NULL)
        supply_reserve(m, sop, reading);
    else if (sop->op.kind == BIDE_OP_RESERVE_JOB)
        supply_reserve_job(m, sop, reading);
    else
        supply_look(m, sop, reading);
    if (!sop->completed) { /* what could not be taken for lack of memory may have been since */
        expect(m->sim, "hold", (int64_t)model_hold_of(m, m->hold),
               (int64_t)model_hold_of(m, sop->op.private_.hold));
        expect(m->sim, "lacks bodies", got == BI_AGAIN, sop->op.private_.flags & BI_BODY_MISSING);
    }
    if (got == BIDE_OK)
        model_start_leases_if_committed(m, sop);
    model_settle(m);
}

/* ---- giving up ---- */

void model_undo_reserve(struct model *m, struct mjob *job)
{
    if (m->sim->allowed_enomem && core_still_reserves(m, job)) {
        job->again = m->now.mono + PUT_OFF;
        return;
    }
    if (job->cancel_wanted) {
        model_delete_job(m, job);
        return;
    }
    bool ready = job->prev.state == BIDE_STATE_READY;
    if (job->max_retries >= 0 || job->expires_at != 0 || !ready)
        model_change(m, job);
    job->reserves--;
    job->expiry_over = job->reserves != 0;
    job->has_progress = false;
    job->reply_pending = false; /* it was no lease */
    model_set_state(m, job, job->prev.state);
    job->due = job->prev.due;
    job->due_wall = job->prev.due_wall;
    job->since = job->prev.since;
    job->entered = job->prev.entered;
    job->ready_before = job->prev.ready_before;
    if (job->state == BIDE_STATE_BURIED)
        model_notify_waits(m, job, BIDE_STATE_BURIED, false);
}

void model_undo_op(struct model *m, struct sim_op *sop)
{
    size_t count;
    const bide_job *jobs = taken_by(&sop->op, &count);
    m->now = m->sim->now;
    m->hold = 0;
    for (size_t i = 0; i < count && sop->op.private_.status == BIDE_OK; i++) {
        struct mjob *job = held_job(m, jobs[i].id, jobs[i].token);
        model_abandon(m, jobs[i].id, jobs[i].token);
        if (job != NULL && job->reply_pending)
            model_undo_reserve(m, job);
    }
    model_cleanup(m);
}

void model_unpark(struct model *m, struct sim_op *sop)
{
    struct mwaiter *waiter = model_find_waiter(m, sop);
    if (waiter != NULL && waiter->parked)
        model_remove_waiter(m, waiter);
    model_cleanup(m);
}
