/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/*
 * fetch - bodies that come later.
 *
 * An op that shows jobs whose bodies only the store has gets its answer in two steps: the core
 * marks it, the reader thread reads the bodies without the lock, and brings them here. Until
 * then a job that was reserved stays reserved, however long it takes: no lease runs.
 */
#include "core/state.h"

#include <assert.h>
#include <string.h>

/* Before a reservation that could not be undone for lack of memory is looked at again. */
#define UNDO_AGAIN_US 100000

/* ---- what an op shows ---- */

struct shown {
    bide_job *jobs;
    size_t count;
};

static struct shown shown_of(const bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_RESERVE:
        return (struct shown){op->reserve.jobs, op->reserve.count};
    case BIDE_OP_FINISH_AND_RESERVE:
        return (struct shown){op->finish_and_reserve.reserve.jobs,
                              op->finish_and_reserve.reserve.count};
    case BIDE_OP_RESERVE_JOB:
        return (struct shown){op->reserve_job.job, 1};
    case BIDE_OP_LIST:
        return (struct shown){op->list.jobs, op->list.count};
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
        return (struct shown){op->look.job, 1};
    default:
        return (struct shown){NULL, 0};
    }
}

static bool lacks_body(const bide_job *job)
{
    return job->body == NULL && job->body_size > 0;
}

size_t bi_core_lacking(const bide_op *op, size_t from, struct bi_body *bodies, size_t max)
{
    if (op->kind == BIDE_OP_BODY) {
        if (from > 0 || max == 0)
            return 0;
        bodies[0] = (struct bi_body){.id = op->fetch.id, .size = (uint32_t)op->private_.bound[0]};
        return 1;
    }
    struct shown shown = shown_of(op);
    size_t seen = 0;
    size_t count = 0;
    for (size_t i = 0; i < shown.count && count < max; i++) {
        if (!lacks_body(&shown.jobs[i]) || seen++ < from)
            continue;
        bodies[count++] =
            (struct bi_body){.id = shown.jobs[i].id, .size = (uint32_t)shown.jobs[i].body_size};
    }
    return count;
}

/* ---- reservations ---- */

/* Somebody wanted it to stop, and nobody works on it: it goes. The change has been journalled. */
static void remove_cancelled(struct core *core, struct job *job)
{
    COUNT(core, topic_of(core, job), deletes);
    bi_core_remove(core, job, BIDE_EVENT_DELETED);
}

/* The job has no holder, and memory lacks to make it ready again: that is tried in a while. */
static void undo_later(struct core *core, struct job *job)
{
    assert(more_of(core, job)->unanswered);
    bi_timers_set(&core->mono, &more_of(core, job)->timer, core->now.mono + UNDO_AGAIN_US);
}

void bi_core_undo_reserve(struct core *core, struct job *job)
{
    struct more *more = more_of(core, job);
    assert(more->unanswered && more->disowned);
    bool cancelled = (job->flags & JOB_CANCEL_WANTED) != 0;
    bool written = cancelled || (job->flags & JOB_STARTED) != 0 || more->expires_at != 0 ||
                   more->before != BIDE_STATE_READY;
    /* What is stored of the reservation must be undone in the store, too. */
    if (written && bi_journal_change(core, job) != BIDE_OK) {
        undo_later(core, job);
        return;
    }
    if (cancelled) {
        remove_cancelled(core, job);
        return;
    }
    if (more->counters.reserves > 0)
        more->counters.reserves--;
    bi_core_put_back(core, job);
}

/* The op has nothing more to do with a reservation. If a change of it is rolled back later, it is
 * undone then. Answers the job, or NULL if the reservation does not stand, or has an answer. */
static struct job *disown(struct core *core, const bide_job *shown)
{
    struct job *job = bi_core_held_job(core, shown);
    bi_journal_disown(core, shown->id, shown->token);
    if (job == NULL || !more_of(core, job)->unanswered)
        return NULL;
    more_of(core, job)->disowned = true;
    return job;
}

static void untake(struct core *core, const bide_job *shown)
{
    struct job *job = disown(core, shown);
    if (job != NULL)
        bi_core_undo_reserve(core, job);
}

void bi_core_untake(struct core *core, bide_op *op, struct bi_now now)
{
    const bide_reserve_args *args = bi_op_reserve_args(op);
    core->now = now;
    core->hold = 0;
    if (op->private_.status != BIDE_OK) /* it has taken nothing */
        return;
    for (size_t i = 0; args != NULL && i < args->count; i++)
        untake(core, &args->jobs[i]);
    if (op->kind == BIDE_OP_RESERVE_JOB)
        untake(core, op->reserve_job.job);
}

void bi_core_unpark(struct core *core, bide_op *op)
{
    op->private_.flags &= ~BI_LACKS_BODY;
    struct waiter *waiter = op->private_.waiter;
    if (waiter != NULL && waiter->parked)
        bi_waiter_drop(core, waiter);
}

/* A job that cannot be worked on is set aside, with the reason. */
static void bury_unreadable(struct core *core, struct job *job, const char *reason)
{
    struct more *more = more_of(core, job);
    bide_buf *text = bide_buf_new(reason, strlen(reason));
    if (bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(text);
        undo_later(core, job);
        return;
    }
    if ((job->flags & JOB_CANCEL_WANTED) != 0) {
        bide_buf_unref(text);
        remove_cancelled(core, job);
        return;
    }
    if (text != NULL)
        bi_more_set_text(core, &more->last_error, text);
    bi_core_bury(core, job, BIDE_KEEP);
}

/* The body of one reserved job has come, or never will: then *reason says why. False: the reservation
 * is nothing. */
static bool supply_held(struct core *core, bide_job *shown, const struct bi_body *body,
                        const char **reason)
{
    struct job *job = bi_core_held_job(core, shown);
    if (job == NULL)
        return false;
    if (body->body == NULL) {
        *reason = body->reason;
        disown(core, shown);
        bury_unreadable(core, job, body->reason);
        return false;
    }
    bi_snapshot_body(shown, bide_buf_ref(body->body));
    bi_cache_return(core, job, bide_buf_ref(body->body));
    return true;
}

/* Closes a gap in a list of snapshots; what they point to has one owner. */
static void move_down(bide_job *jobs, size_t from, size_t to)
{
    if (from == to)
        return;
    jobs[to] = jobs[from];
    memset(&jobs[from], 0, sizeof(jobs[from]));
}

/* Fills what a reserve took; answers how many jobs it has left. *reason: why a body cannot be read;
 * NULL if all can be. */
static size_t supply_all(struct core *core, bide_job *jobs, size_t count,
                         const struct bi_body *bodies, const char **reason)
{
    size_t kept = 0;
    *reason = NULL;
    for (size_t i = 0; i < count; i++) {
        bool lacking = lacks_body(&jobs[i]);
        bool held = lacking ? supply_held(core, &jobs[i], bodies, reason)
                            : bi_core_held_job(core, &jobs[i]) != NULL;
        if (held) {
            move_down(jobs, i, kept++);
        } else {
            disown(core, &jobs[i]);
            bide_job_clear(&jobs[i]);
        }
        bodies += lacking;
    }
    return kept;
}

static int lacks_again(const struct core *core, int code)
{
    return code == BIDE_OK && core->lacking ? BI_AGAIN : code;
}

/* Nothing is left of what it took: takes something else, or waits again. */
static int reserve_again(struct core *core, bide_op *op, bide_reserve_args *args,
                         const char *reason)
{
    struct waiter *waiter = op->private_.waiter;
    core->lacking = false;
    if (waiter == NULL && reason != NULL)
        return bi_op_refuse(op, BIDE_EIO,
                            "%s: the body of the job that was taken cannot be read: %s",
                            bide_op_name(op->kind), reason);
    if (waiter == NULL) /* its arguments are still there, because it could not be kept waiting */
        return lacks_again(core, bi_core_reserve(core, op, args));
    if (!core->closed && bi_core_take_some(core, args, waiter->links, waiter->link_count) > 0) {
        if (core->lacking)
            return BI_AGAIN;
        bi_waiter_drop(core, waiter);
        return BIDE_OK;
    }
    if (!core->closed && waiter->until > core->now.mono) {
        bi_waiter_rejoin(core, waiter);
        return BIDE_PENDING;
    }
    bi_waiter_drop(core, waiter);
    return bi_op_answer(op, core->closed ? BIDE_CLOSED : BIDE_TIMED_OUT);
}

static int supply_reserve(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    bide_reserve_args *args = bi_op_reserve_args(op);
    const char *reason;
    args->count = supply_all(core, args->jobs, args->count, bodies, &reason);
    if (args->count == 0)
        return reserve_again(core, op, args, reason);
    if (op->private_.waiter != NULL)
        bi_waiter_drop(core, op->private_.waiter);
    return BIDE_OK;
}

static int supply_reserve_job(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    uint64_t id = op->reserve_job.id;
    const char *reason;
    if (supply_all(core, op->reserve_job.job, 1, bodies, &reason) == 1)
        return BIDE_OK;
    if (reason == NULL) { /* its reservation does not stand any more */
        core->lacking = false;
        return lacks_again(core, bi_op_reserve_job(core, op));
    }
    if (bi_core_find(core, id) == NULL)
        return bi_op_no_job(op, id);
    return bi_op_refuse(op, BIDE_EIO, "reserve_job: the body of job %llu cannot be read: %s",
                        (unsigned long long)id, reason);
}

/* ---- looks ---- */

static int refuse_unreadable(struct core *core, bide_op *op, const struct bi_body *body)
{
    if (bi_core_find(core, body->id) == NULL)
        return bi_op_no_job(op, body->id);
    return bi_op_refuse(op, BIDE_EIO, "%s: the body of job %llu cannot be read: %s",
                        bide_op_name(op->kind), (unsigned long long)body->id, body->reason);
}

/* The job that was the first, or held the key, has gone: who is it now? */
static int look_again(struct core *core, bide_op *op)
{
    core->lacking = false;
    return lacks_again(core, op->kind == BIDE_OP_FIND ? bi_op_find(core, op)
                                                      : bi_op_peek_first(core, op));
}

static int supply_look(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    if (bodies->body == NULL) {
        bide_job_clear(op->look.job);
        bool gone = bi_core_find(core, bodies->id) == NULL;
        return gone && op->kind != BIDE_OP_PEEK ? look_again(core, op)
                                                : refuse_unreadable(core, op, bodies);
    }
    bi_snapshot_body(op->look.job, bide_buf_ref(bodies->body));
    bi_core_keep_body(core, bodies->id, bide_buf_ref(bodies->body));
    return BIDE_OK;
}

static int supply_body(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    if (bodies->body == NULL)
        return refuse_unreadable(core, op, bodies);
    op->fetch.buf = bide_buf_ref(bodies->body);
    bi_core_keep_body(core, bodies->id, bide_buf_ref(bodies->body));
    return BIDE_OK;
}

/* Jobs that have gone meanwhile, and those whose bodies turn out not to have the text, or cannot be
 * searched, fall out of a page. */
static bool stays_listed(const struct core *core, bide_slice text, const bide_job *job)
{
    if (lacks_body(job) && bi_core_lookup(core, job->id) == NULL)
        return false;
    return text.size == 0 ||
           (job->body != NULL && memmem(job->body, job->body_size, text.data, text.size) != NULL);
}

static int supply_list(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    bide_list_args *args = &op->list;
    size_t kept = 0;
    for (size_t i = 0; i < args->count; i++) {
        bide_job *job = &args->jobs[i];
        if (lacks_body(job)) {
            bi_snapshot_body(job, bide_buf_ref(bodies->body));
            bodies++;
        }
        if (stays_listed(core, args->filter.text, job))
            move_down(args->jobs, i, kept++);
        else
            bide_job_clear(job);
    }
    args->count = kept;
    bi_list_strip(args);
    return BIDE_OK;
}

static int (*const supplies[BIDE_OP_COUNT])(struct core *, bide_op *, const struct bi_body *) = {
    [BIDE_OP_RESERVE] = supply_reserve,
    [BIDE_OP_FINISH_AND_RESERVE] = supply_reserve,
    [BIDE_OP_RESERVE_JOB] = supply_reserve_job,
    [BIDE_OP_PEEK] = supply_look,
    [BIDE_OP_PEEK_FIRST] = supply_look,
    [BIDE_OP_FIND] = supply_look,
    [BIDE_OP_BODY] = supply_body,
    [BIDE_OP_LIST] = supply_list,
};

int bi_core_supply(struct core *core, bide_op *op, const struct bi_body *bodies, struct bi_now now)
{
    assert(supplies[op->kind] != NULL && (op->private_.flags & BI_LACKS_BODY) != 0);
    core->now = now;
    core->hold = 0;
    op->private_.flags &= ~BI_LACKS_BODY;
    int code = supplies[op->kind](core, op, bodies);
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;
    if (code == BIDE_OK)
        bi_core_begin_leases(core, op);
    if (code == BI_AGAIN)
        op->private_.flags |= BI_LACKS_BODY;
    if (code == BIDE_PENDING) /* what it had taken is nothing to it any more */
        op->private_.hold = op->kind == BIDE_OP_FINISH_AND_RESERVE ? op->private_.bound[0] : 0;
    bi_core_serve(core, now);
    return code;
}

/* ---- ahead ---- */

void bi_core_keep_body(struct core *core, uint64_t id, bide_buf *body)
{
    struct job *job = bi_core_lookup(core, id);
    if (job == NULL)
        bide_buf_unref(body);
    else
        bi_cache_return(core, job, body);
}

size_t bi_core_foresee(const struct core *core, uint64_t id, struct bi_body *bodies, size_t max,
                       uint64_t max_bytes)
{
    const struct job *job = bi_core_lookup(core, id);
    if (job == NULL || job->state != BIDE_STATE_RESERVED)
        return 0;
    /* The heap begins with those that come next, nearly in order. */
    const struct ready_heap *heap = &topic_of(core, job)->ready;
    size_t count = 0;
    uint64_t bytes = 0;
    if (max_bytes > core->limits.cache_bytes / 4)
        max_bytes = core->limits.cache_bytes / 4;
    for (uint32_t i = 0; i < heap->count && i < 2 * max && count < max; i++) {
        const struct job *next = job_at(core, heap->entries[i].job);
        if (!bi_job_lacks_body(next))
            continue;
        bytes += next->body_size;
        if (bytes > max_bytes)
            break;
        bodies[count++] = (struct bi_body){.id = next->id, .size = next->body_size};
    }
    return count;
}
