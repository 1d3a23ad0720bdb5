/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/*
 * body_fetch - bodies that are in the store only.
 *
 * An op that returns jobs whose bodies have been evicted completes in two steps. The core marks the
 * op with BI_BODY_MISSING, the body reader reads the bodies without the lock, and
 * bi_body_fetch_supply() passes them to the op. Jobs that the op has reserved remain reserved
 * meanwhile, but their leases have not started: reading takes no time from the ttr.
 *
 * Failure    A job whose body cannot be read is buried with the reason. A reserve that loses all of
 *            its jobs that way takes others or waits again; if it cannot wait, it fails.
 */
#include "core/core_internal.h"
#include "op/op_args.h"
#include "op/op_result.h"

#include <assert.h>
#include <string.h>

static bool is_missing(const bide_job *job)
{
    return job->body == NULL && job->body_size > 0;
}

size_t bi_body_fetch_missing(const bide_op *op, size_t from, struct bi_body *bodies, size_t max)
{
    assert(bi_op_is(op, OP_BODIES) && bodies != NULL);
    bide_job *jobs;
    size_t job_count = bi_op_result_snapshots(op, &jobs);

    /* An op that returns the body alone. */
    if (jobs == NULL) {
        if (from > 0 || max == 0)
            return 0;

        /* bi_exec_body() has stored the size: the job may have been removed since. */
        bodies[0] = (struct bi_body){.id = op->fetch.id,
                                     .size = (uint32_t)op->private_.step.fetch.part.body_size};
        return 1;
    }

    size_t seen = 0;
    size_t count = 0;

    for (size_t i = 0; i < job_count && count < max; i++) {
        /* from counts missing bodies, not snapshots. */
        if (!is_missing(&jobs[i]) || seen++ < from)
            continue;
        bodies[count++] = (struct bi_body){.id = jobs[i].id, .size = (uint32_t)jobs[i].body_size};
    }

    return count;
}

bool bi_body_fetch_keep(bide_op *op, const struct bi_body *bodies)
{
    bide_job *jobs;
    size_t job_count = bi_op_result_snapshots(op, &jobs);
    bool kept = false;

    for (size_t i = 0; i < job_count; i++) {
        if (!is_missing(&jobs[i]))
            continue;
        if (bodies->body != NULL) {
            bi_snapshot_set_body(&jobs[i], bide_buf_ref(bodies->body));
            kept = true;
        }
        bodies++;
    }

    return kept;
}

/* ---- reservations ---- */

uint64_t bi_core_parked(const struct core *core)
{
    return core->waiters.parked;
}

void bi_waiter_unpark(struct core *core, bide_op *op)
{
    op->private_.flags &= ~BI_BODY_MISSING;
    struct waiter *waiter = op->private_.waiter;
    if (waiter != NULL && waiter->parked)
        bi_waiter_remove(core, waiter);
}

/* Buries a reserved job whose body cannot be read. Without memory for the reason the job
 * retains its last error. */
static void bury_unreadable(struct core *core, struct job *job, const char *reason)
{
    struct job_ext *ext = ext_of(core, job);
    assert(job->state == BIDE_STATE_RESERVED && ext->reply_pending);
    const bide_slice slice = {reason, strlen(reason)};
    bide_buf *text = bi_retry_reason(core, slice);

    if (bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(text);
        bi_lease_retry_undo(core, job);
        return;
    }

    if ((job->flags & JOB_CANCEL_WANTED) != 0) {
        bide_buf_unref(text);
        bi_op_finish_remove_counted(core, job);
        return;
    }
    if (text != NULL)
        bi_job_ext_set_text(core, &ext->last_error, text);
    bi_retry_record(core, ext, BIDE_FAILURE_BURIED, slice);
    bi_retry_bury(core, job, BIDE_KEEP);
}

/* Supplies the body of one reserved job. Returns false if the reservation has ended or the body
 * cannot be read; *reason is then set in the second case. */
static bool supply_leased(struct core *core, bide_job *snapshot, const struct bi_body *body,
                          const char **reason)
{
    struct job *job = bi_lease_find_job(core, snapshot);
    if (job == NULL)
        return false;

    if (body->body == NULL) {
        *reason = body->reason;
        /* Before burying: if the burial is rolled back, the reservation must be undone. */
        bi_lease_abandon(core, snapshot);
        bury_unreadable(core, job, body->reason);
        return false;
    }
    bi_snapshot_set_body(snapshot, bide_buf_ref(body->body));
    bi_body_cache_attach(core, job, bide_buf_ref(body->body));
    return true;
}

/* Moves a snapshot down in its array. The source is zeroed, because a snapshot owns its buffers. */
static void close_gap(bide_job *jobs, size_t from, size_t to)
{
    assert(to <= from);
    if (from == to)
        return;
    jobs[to] = jobs[from];
    memset(&jobs[from], 0, sizeof(jobs[from]));
}

/* Supplies the bodies of the jobs that a reserve took and returns how many of them remain.
 * *reason: why a body cannot be read, or NULL. */
static size_t supply_all(struct core *core, bide_job *jobs, size_t count,
                         const struct bi_body *bodies, const char **reason)
{
    assert(count > 0);
    size_t kept = 0;
    *reason = NULL;

    for (size_t i = 0; i < count; i++) {
        /* bodies has one element for each snapshot without a body, in order: it advances only
         * with those. Test first, because supply_leased() sets the body. */
        bool body_missing = is_missing(&jobs[i]);
        bool held = body_missing ? supply_leased(core, &jobs[i], bodies, reason)
                                 : bi_lease_find_job(core, &jobs[i]) != NULL;

        if (held) {
            close_gap(jobs, i, kept++);
        } else {
            bi_lease_abandon(core, &jobs[i]);
            bide_job_clear(&jobs[i]);
        }
        bodies += body_missing;
    }

    return kept;
}

static int again_if_missing(const struct core *core, int code)
{
    return code == BIDE_OK && core->body_missing ? BI_AGAIN : code;
}

/* The reserve has lost all jobs that it took: takes others, or waits again. */
static int reserve_again(struct core *core, bide_op *op, bide_reserve_args *args,
                         const char *reason)
{
    struct waiter *waiter = op->private_.waiter;

    core->body_missing = false;
    assert(args->count == 0 && (waiter == NULL || waiter->parked));

    /* Without a waiter the op cannot wait again: report why it has no job. */
    if (waiter == NULL && reason != NULL)
        return bi_core_error(op, BIDE_EIO,
                             "%s: the body of the job that was taken cannot be read: %s",
                             bide_op_name(op->kind), reason);
    if (waiter == NULL) /* it never waited, so the caller still holds its arguments */
        return again_if_missing(core, bi_op_reserve_run(core, op, args));

    if (!core->closed &&
        bi_op_reserve_take(core, args, waiter->holder, waiter->links, waiter->link_count) > 0) {
        if (core->body_missing)
            return BI_AGAIN;
        bi_waiter_remove(core, waiter);
        return BIDE_OK;
    }

    /* Resume at the old position: the caller has waited since its arrival. */
    if (!core->closed && waiter->until > core->now.mono) {
        bi_waiter_resume(core, waiter);
        return BIDE_PENDING;
    }

    bi_waiter_remove(core, waiter);
    return bi_core_error_code(op, core->closed ? BIDE_CLOSED : BIDE_TIMED_OUT);
}

static int supply_reserve(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    bide_reserve_args *args = bi_op_reserve_args(op);
    const char *reason;

    args->count = supply_all(core, args->jobs, args->count, bodies, &reason);
    if (args->count == 0)
        return reserve_again(core, op, args, reason);

    if (op->private_.waiter != NULL)
        bi_waiter_remove(core, op->private_.waiter);
    return BIDE_OK;
}

static int error_unreadable(struct core *core, bide_op *op, uint64_t id, const char *reason)
{
    if (bi_job_find(core, id) == NULL)
        return bi_core_error_no_job(op, id);
    return bi_core_error(op, BIDE_EIO, "%s: the body of job %llu cannot be read: %s",
                         bide_op_name(op->kind), (unsigned long long)id, reason);
}

static int supply_reserve_job(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    uint64_t id = op->reserve_job.id;
    const char *reason;

    if (supply_all(core, op->reserve_job.job, 1, bodies, &reason) == 1)
        return BIDE_OK;
    if (reason == NULL) { /* the reservation has ended: take the job again */
        core->body_missing = false;
        return again_if_missing(core, bi_exec_reserve_job(core, op));
    }

    return error_unreadable(core, op, id, reason);
}

/* ---- queries ---- */

/* Supplies the body of an op that returns one job, or (job is NULL) the body alone. */
static int supply_query(struct core *core, bide_op *op, bide_job *job, const struct bi_body *body)
{
    if (body->body != NULL) {
        if (job != NULL)
            bi_snapshot_set_body(job, bide_buf_ref(body->body));
        else
            op->fetch.buf = bide_buf_ref(body->body);
        bi_body_fetch_cache(core, body->id, bide_buf_ref(body->body));
        return BIDE_OK;
    }

    bide_job_clear(job);
    /* An op that names its job by id accepts no other in its place. */
    if (bi_job_find(core, body->id) != NULL || bi_op_args_id_count(op) > 0)
        return error_unreadable(core, op, body->id, body->reason);

    /* The job that was first, or held the key, was removed while its body was read: selects
     * again. */
    core->body_missing = false;
    return again_if_missing(core, bi_core_exec(core, op));
}

/* A page omits jobs that were removed while their bodies were read, and jobs whose bodies do not
 * contain the text of the filter or cannot be read for it. */
static bool still_listed(const struct core *core, bide_slice text, const bide_job *job)
{
    if (is_missing(job) && bi_job_lookup(core, job->id) == NULL)
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
        if (is_missing(job)) {
            bi_snapshot_set_body(job, bide_buf_ref(bodies->body));
            bodies++;
        }

        if (still_listed(core, args->filter.text, job))
            close_gap(args->jobs, i, kept++);
        else
            bide_job_clear(job);
    }

    /* A list with a text filter reads bodies even if the caller did not ask for them. */
    assert(kept <= args->job_max);
    args->count = kept;
    bi_op_list_strip_bodies(args);
    return BIDE_OK;
}

/* What an op returns decides how it continues. */
static int supply(struct core *core, bide_op *op, const struct bi_body *bodies)
{
    bide_job *jobs;
    size_t room;

    assert(bi_op_is(op, OP_BODIES));
    if (bi_op_reserve_args(op) != NULL)
        return supply_reserve(core, op, bodies);
    if (bi_op_is(op, OP_RESERVES))
        return supply_reserve_job(core, op, bodies);
    if (bi_op_result_room(op, &room) > 0)
        return supply_list(core, op, bodies);

    bi_op_result_snapshots(op, &jobs);
    return supply_query(core, op, jobs, bodies);
}

int bi_body_fetch_supply(struct core *core, bide_op *op, const struct bi_body *bodies,
                         struct bi_now now)
{
    assert((op->private_.flags & BI_BODY_MISSING) != 0);

    core->now = now;
    core->hold = 0;
    op->private_.flags &= ~BI_BODY_MISSING;

    int code = supply(core, op, bodies);

    /* The reply depends on what the op did before and on what it did now. */
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;

    if (code == BIDE_OK)
        bi_lease_start_if_committed(core, op);
    if (code == BI_AGAIN)
        op->private_.flags |= BI_BODY_MISSING;
    if (code == BIDE_PENDING) /* only the finish part must be committed */
        op->private_.hold =
            bi_op_is(op, OP_TWO_PARTS) ? op->private_.step.fetch.part.finish_batch : 0;

    /* After the op has its hold: serving resets core->hold. Burying and undoing may have
     * released jobs or room that waiting calls want. */
    bi_core_serve(core, now);
    return code;
}

/* ---- read-ahead ---- */

void bi_body_fetch_cache(struct core *core, uint64_t id, bide_buf *body)
{
    assert(body != NULL);
    struct job *job = bi_job_lookup(core, id);
    if (job == NULL)
        bide_buf_unref(body);
    else
        bi_body_cache_attach(core, job, body);
}

size_t bi_body_fetch_readahead(const struct core *core, uint64_t id, struct bi_body *bodies,
                               size_t max, uint64_t max_bytes)
{
    const struct job *job = bi_job_lookup(core, id);
    if (job == NULL || job->state != BIDE_STATE_RESERVED)
        return 0;

    /* The first entries of the heap array are roughly the jobs that are reserved next. */
    const struct ready_heap *heap = &topic_of(core, job)->ready;
    size_t count = 0;
    uint64_t bytes = 0;

    /* Do not evict most of the cache for bodies that no call has asked for yet. */
    if (max_bytes > core->limits.cache_bytes / 4)
        max_bytes = core->limits.cache_bytes / 4;

    /* The caller holds the lock: bound the scan as well as the result. */
    for (uint32_t i = 0; i < heap->count && i < 2 * max && count < max; i++) {
        const struct job *next = job_at(core, heap->entries[i].job);
        if (!bi_job_body_missing(next))
            continue;
        bytes += next->body_size;
        if (bytes > max_bytes)
            break;
        bodies[count++] = (struct bi_body){.id = next->id, .size = next->body_size};
    }

    return count;
}
